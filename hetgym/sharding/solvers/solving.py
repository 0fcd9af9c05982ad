"""Solving of sharding problems, by one solver or by two at the same time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import count

import numpy as np
import numpy.typing as npt

from hetgym._input.times import as_seconds
from hetgym._kernels.threads import cores
from hetgym._types import Int64Array
from hetgym.errors import ConfigError, InvalidSharding, ProblemError
from hetgym.search.search import clock, searching
from hetgym.sharding.evaluation import ShardingReport, as_choice, evaluate
from hetgym.sharding.problem import ShardingProblem
from hetgym.sharding.reduction import reduce
from hetgym.sharding.solvers.incumbent import CLOSE, Incumbent, Moment
from hetgym.sharding.solvers.registry import solver as named

ENTRIES = 300_000  # Most entries of reduced tables for which `auto` runs `mip`


@dataclass(frozen=True, eq=False)
class ShardingPlan:
    """A choice of strategies, and what is known about it.

    Attributes:
        choice: [n] strategy of each node.
        report: its cost and memory.
        bound: no choice without infinite entries costs less; None if nothing is known.
        solver: the solver that found the choice.
        history: better choices and better bounds, in order of time.
    """

    choice: Int64Array
    report: ShardingReport
    bound: int | None
    solver: str
    history: tuple[Moment, ...]

    @property
    def cost(self) -> int:
        """Cost of the choice."""
        return self.report.cost

    @property
    def gap(self) -> float:
        """(cost - bound) / cost; inf if no bound is known."""
        return math.inf if self.bound is None else max(0, self.cost - self.bound) / max(1, self.cost)

    @property
    def status(self) -> str:
        """``optimal`` if the bound equals the cost to within the rounding of floating point, else ``feasible``."""
        return "optimal" if self.gap <= CLOSE else "feasible"

    def __repr__(self) -> str:
        gap = "" if self.bound is None else f", gap {100 * self.gap:.3g} %"
        return f"ShardingPlan(cost {self.cost}, {self.status}{gap}, by {self.solver})"


def solve(
    problem: ShardingProblem,
    budget: str | float = "10s",
    *,
    solver: str = "auto",
    seed: int = 0,
    steps: int | None = None,
    starts: Iterable[npt.ArrayLike] = (),
) -> ShardingPlan:
    """Choose a strategy for every node.

    Args:
        budget: wall-clock time, in seconds or as in ``"1min"``, compilation of kernels aside; results depend on the
            machine. Ctrl-C within :func:`hetgym.search.search.ended_by_interrupt` ends it early.
        solver: one of :data:`~hetgym.sharding.SOLVERS`; or ``auto``: ``trees``, and at the same time ``mip`` if its
            extra is installed and the reduced problem is small enough, else ``trees`` again with other random numbers.
        seed: of random numbers.
        steps: number of steps of the solver, such as some thousand trees, in place of a time: the result is then the
            same on every machine.
        starts: choices that are known, such as plans made by hand; those that fit are improved.

    Raises:
        UnknownName: no such solver.
        ConfigError: an invalid budget or number of steps.
        MissingExtra: the solver needs an extra that is not installed.
        ProblemError: every choice has infinite entries or takes more memory than the limit, or numbers are too large
            (see :func:`reduce`).
        InvalidSharding: no choice that fits was found in time, or a start with a strategy that a node does not have.

    >>> from hetgym.sharding import ShardingProblem
    >>> problem = ShardingProblem.from_lists(
    ...     [[3, 1], [2, 2]], [[1, 5], [1, 2]], [[0, 2], [1, 3]], [[0, 1]], [[[0, 9], [9, 0]]], limit=6
    ... )
    >>> solve(problem, steps=10)
    ShardingPlan(cost 5, feasible, gap 20 %, by trees)
    """
    seconds = as_seconds(budget)
    if seconds is not None and not seconds > 0:
        raise ConfigError(f"budget is {budget!r}; it must be positive")
    if steps is not None and steps < 1:
        raise ConfigError(f"steps is {steps}; it must be at least 1")
    rows = [named("trees" if solver == "auto" else solver)]
    began = clock()
    reduced = reduce(problem)
    if reduced.memory.times and reduced.memory.slack.min() < 0:
        t = int(reduced.memory.slack.argmin())
        least = (problem.limit or 0) - int(reduced.memory.slack[t])
        raise ProblemError(
            f"sharding problem {problem.name!r}: every choice takes at least {least} of {problem.limit} at time "
            f"{reduced.memory.moments[t]}"
        )
    incumbent = Incumbent(reduced, began, None if steps is not None else seconds)
    for start in starts:
        incumbent.offer(reduced.nearest(as_choice(problem, start)), "start")
    if not reduced.core.nodes:
        incumbent.prove(0.0, solver)
        incumbent.offer(np.zeros(0, np.int64), solver)
    elif steps is not None:
        _run(incumbent, rows[0].steps(incumbent, np.random.default_rng(seed)), steps)
    else:
        if solver == "auto":
            small = len(reduced.core.tables) <= ENTRIES and _loads("highspy")
            rows += [named("mip")] if small else [named("trees")] * (cores() > 1)
        _together(incumbent, [row.steps(incumbent, np.random.default_rng(seed + i)) for i, row in enumerate(rows)])
    if incumbent.choice is None:
        raise InvalidSharding(f"sharding problem {problem.name!r}: no choice that fits was found; raise the budget")
    choice = reduced.lift(incumbent.choice)
    found = next(moment.solver for moment in incumbent.history if moment.cost == incumbent.cost)
    return ShardingPlan(choice, evaluate(problem, choice), incumbent.bound, found, tuple(incumbent.history))


def _loads(module: str) -> bool:
    """Whether a library is installed and can be loaded; libraries of two packages may clash in one process."""
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def _together(incumbent: Incumbent, solvers: list[Iterator[None]]) -> None:
    """Run solvers at the same time until time is up, nothing is left to gain, or an interrupt ends them."""
    with ThreadPoolExecutor(len(solvers), "hetgym-sharding") as pool:
        others = [pool.submit(_run, incumbent, steps, None) for steps in solvers[1:]]
        try:
            _run(incumbent, solvers[0], None)
        finally:
            incumbent.ended = True
        for other in others:
            other.result()


def _run(incumbent: Incumbent, solver: Iterator[None], steps: int | None) -> None:
    """Make steps of a solver: a number of them, or until the incumbent is over."""
    with searching() as ended:
        for step in count(1):  # the first step is made however little time there is
            if next(solver, StopIteration) is StopIteration or step == steps or incumbent.over or ended():
                break
