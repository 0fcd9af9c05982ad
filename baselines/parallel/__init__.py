"""Planners of training steps: functions from a :class:`~hetgym.parallel.TrainingProblem` to a plan.

``PLANNERS`` holds all of them by name. :func:`exhaustive` and :func:`exact` are for small problems.
"""

from hetgym.baselines.parallel.exhaustive import every_plan, exact, exhaustive
from hetgym.baselines.parallel.planners import PLANNERS, plan_training
from hetgym.baselines.parallel.published import alpa, harp, pipedream, sailor, uniform_grid
from hetgym.baselines.parallel.search import search

__all__ = [
    "PLANNERS",
    "alpa",
    "every_plan",
    "exact",
    "exhaustive",
    "harp",
    "pipedream",
    "plan_training",
    "sailor",
    "search",
    "uniform_grid",
]
