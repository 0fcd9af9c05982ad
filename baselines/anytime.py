"""Anytime curves: how good the best schedule of a search is after how much work."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from hetgym._types import FloatArray
from hetgym.baselines.annealing import Annealing, PilotAnnealing, annealing, pilot_annealing
from hetgym.baselines.lns import Lns, lns
from hetgym.baselines.pilot import Pilot, pilot
from hetgym.baselines.rand_heft import RandHeft, rand_heft
from hetgym.errors import ConfigError, unknown_name
from hetgym.planning.registry import get, names
from hetgym.planning.search import Search, check_limits, run
from hetgym.problem import Problem
from hetgym.schedule import Schedule

SEARCHES: dict[Callable[..., Schedule], Callable[..., Search]] = {
    pilot: Pilot,
    rand_heft: RandHeft,
    annealing: Annealing,
    pilot_annealing: PilotAnnealing,
    lns: Lns,
}


def anytime(name: str, problem: Problem, points: int = 50, **options: Any) -> FloatArray:
    """Run a search in parts and note the best makespan after each.

    The parts change no result: the last makespan is that of the search in one go.

    Args:
        name: of a registered search that can be run in parts.
        problem: what is to be scheduled.
        points: number of parts in which the budget is spent.
        options: of the search, its ``budget`` and ``seconds`` among them.

    Returns:
        [k, 3] operators placed so far, wall-clock time of the search so far [s], best makespan [s].
        The first row is the start that every search makes for itself, which is not timed.

    Raises:
        UnknownName: no search of that name.
        ConfigError: an option that the search does not have, or fewer than one point.

    >>> from hetgym.workloads import textbook
    >>> curve = anytime("annealing", textbook("topcuoglu"), budget=20_000)
    >>> float(curve[0, 2]), float(curve[-1, 2])
    (80.0, 73.0)
    """
    if points < 1:
        raise ConfigError(f"anytime: points is {points}; it must be at least 1")
    known = [search for search in names("search") if get(search).function in SEARCHES]
    if name not in known:
        raise unknown_name("search that runs in parts", name, known)
    row = get(name, **options)
    chosen = {
        parameter.name: row.options.get(parameter.name, parameter.default)
        for parameter in list(inspect.signature(row.function).parameters.values())[1:]
    }
    budget, seconds = chosen.pop("budget"), chosen.pop("seconds")
    check_limits(name, budget, seconds)
    return np.array(run(SEARCHES[row.function](problem, **chosen), budget, seconds, points))
