"""Measured run times: tables, cards of the machines that they were measured on, and the shipped datasets."""

from hetgym.measurements.card import MachineCard
from hetgym.measurements.dataset import Dataset
from hetgym.measurements.table import Journal, Measurement, Measurements

__all__ = ["Dataset", "Journal", "MachineCard", "Measurement", "Measurements"]
