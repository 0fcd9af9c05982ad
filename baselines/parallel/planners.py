"""The table of planners of training steps, and planning with one of them."""

from collections.abc import Callable

from hetgym.baselines.parallel.exhaustive import exact, exhaustive
from hetgym.baselines.parallel.published import alpa, harp, pipedream, sailor, uniform_grid
from hetgym.baselines.parallel.search import search
from hetgym.errors import ProblemError, unknown_name
from hetgym.parallel import ParallelPlan, TrainingProblem
from hetgym.problem import Problem

PLANNERS: dict[str, Callable[[TrainingProblem], ParallelPlan]] = {
    "uniform-grid": uniform_grid, "pipedream": pipedream, "alpa": alpa, "harp": harp, "sailor": sailor,
    "search": search, "exact": exact, "exhaustive": exhaustive,
}  # fmt: skip
"""Name -> planner."""


def plan_training(problem: TrainingProblem, planner: str = "search") -> ParallelPlan:
    """Find a plan for training steps on a cluster.

    Args:
        problem: layers, cluster and global batch.
        planner: one of :data:`PLANNERS`; ``exact`` and ``exhaustive`` are for small problems.

    Returns:
        Stages, their groups of GPUs, and micro-batches.

    Raises:
        UnknownName: no planner of that name.
        ProblemError: not a training problem, or no plan fits in memory.
    """
    if planner not in PLANNERS:
        raise unknown_name("planner of training steps", planner, PLANNERS)
    if not isinstance(problem, TrainingProblem):
        others = "; hetgym.plan plans those" if isinstance(problem, Problem) else ""
        raise ProblemError(f"hetgym.plan_training takes a TrainingProblem, not {type(problem).__name__}{others}")
    return PLANNERS[planner](problem)
