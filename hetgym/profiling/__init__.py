"""Measurement of operators, links and peak rates of real devices; needs torch (extra ``[torch]``)."""
