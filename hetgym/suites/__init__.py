"""Suites: named lists of problems for benchmarks and environments."""

from hetgym.suites.loading import Suite, load_suite, suite_names
from hetgym.suites.spec import ProblemSpec

__all__ = ["ProblemSpec", "Suite", "load_suite", "suite_names"]
