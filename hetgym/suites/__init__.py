"""Suites: named lists of problems for benchmarks and environments."""

from hetgym.suites.best_known import Best, BestKnown, load_best_known
from hetgym.suites.loading import Suite, load_suite, suite_names
from hetgym.suites.spec import ProblemSpec

__all__ = ["Best", "BestKnown", "ProblemSpec", "Suite", "load_best_known", "load_suite", "suite_names"]
