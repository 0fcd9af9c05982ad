"""Measured run times: the table, the machine they come from, the shipped datasets."""

from hetgym.measurements.table import Journal, Measurement, Measurements

__all__ = ["Journal", "Measurement", "Measurements"]
