"""Measured run times: the table, the machine they come from, the shipped datasets."""
