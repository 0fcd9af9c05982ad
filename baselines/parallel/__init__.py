"""Planners of training steps: functions from a :class:`~hetgym.parallel.TrainingProblem` to a plan.

``PLANNERS`` holds all of them by name. :func:`exhaustive` and :func:`exact` are for small problems.
"""

from collections.abc import Callable

from hetgym.baselines.parallel.exhaustive import every_plan, exact, exhaustive
from hetgym.baselines.parallel.published import alpa, harp, pipedream, sailor, uniform_grid
from hetgym.baselines.parallel.search import search
from hetgym.parallel import ParallelPlan, TrainingProblem

PLANNERS: dict[str, Callable[[TrainingProblem], ParallelPlan]] = {
    "uniform-grid": uniform_grid,
    "pipedream": pipedream,
    "alpa": alpa,
    "harp": harp,
    "sailor": sailor,
    "search": search,
    "exact": exact,
    "exhaustive": exhaustive,
}

__all__ = [
    "PLANNERS",
    "alpa",
    "every_plan",
    "exact",
    "exhaustive",
    "harp",
    "pipedream",
    "sailor",
    "search",
    "uniform_grid",
]
