"""Formats of profilers' traces, and the dependencies that each format records or implies."""
