"""Budgets: the best makespan of a search as a function of the work done."""

import inspect
from typing import Any

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import ConfigError, unknown_name
from hetgym.planning.baseline import resolve
from hetgym.planning.registry import get, rows
from hetgym.problem import Problem
from hetgym.search.search import check_limits, run


def anytime(name: str, problem: Problem, points: int = 50, **options: Any) -> FloatArray:
    """Run a search in parts and record the best makespan after each: its anytime curve.

    The parts do not change the result: the last makespan is that of an uninterrupted search.

    Args:
        name: name of a registered search that can be run in parts; see :func:`hetgym.baselines.get`.
        points: number of parts in which the budget is spent.
        options: options of the search, its ``budget`` and ``seconds`` among them.

    Returns:
        [k, 3] operators placed so far, wall-clock time of the search so far [s], best makespan [s].
        The first row is the start that every search makes for itself, which is not timed.

    Raises:
        UnknownName: no scheduler of that name, or one that does not run in parts.
        ConfigError: an option that the search does not have, or fewer than one point.

    >>> from hetgym.workloads import textbook
    >>> curve = anytime("annealing", textbook("topcuoglu"), budget=20_000)
    >>> float(curve[0, 2]), float(curve[-1, 2])
    (80.0, 73.0)
    """
    if points < 1:
        raise ConfigError(f"anytime: points is {points}; it must be at least 1")
    row = get(name, **options)
    if row.search is None:
        raise unknown_name("search that runs in parts", name, [row.name for row in rows() if row.search is not None])
    parameters = list(inspect.signature(row.function).parameters.values())[1:]
    chosen = {parameter.name: row.options.get(parameter.name, parameter.default) for parameter in parameters}
    budget, seconds = chosen.pop("budget"), chosen.pop("seconds")
    check_limits(name, budget, seconds)
    return np.array(run(resolve(row.search)(problem, **chosen), budget, seconds, points))
