"""Reduced sharding problems: what has to be chosen once all that follows from it is left out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, Int64Array
from hetgym.errors import ProblemError
from hetgym.sharding.evaluation import exact_sum
from hetgym.sharding.problem import INFINITE, ShardingProblem
from hetgym.sharding.reduction.consistency import supported
from hetgym.sharding.reduction.contraction import contracted
from hetgym.sharding.reduction.core import FORBIDDEN, Core, merged, restricted
from hetgym.sharding.reduction.dominance import undominated
from hetgym.sharding.reduction.folding import folded
from hetgym.sharding.reduction.memory import Memory, memory_of

LARGEST_SUM = FORBIDDEN >> 1  # Largest sum of finite costs that is accepted


@dataclass(frozen=True)
class Step:
    """What a reduction left."""

    name: str
    nodes: int
    edges: int
    strategies: int
    entries: int  # of the tables of all edges


@dataclass(frozen=True, eq=False)
class Reduced:
    """A smaller problem with the same optima.

    Attributes:
        problem: the original problem.
        core: nodes, edges and costs that are left.
        memory: what their strategies take beyond what every choice takes, at the times at which it matters.
        steps: what each reduction left.
    """

    problem: ShardingProblem
    core: Core
    memory: Memory
    steps: tuple[Step, ...]

    def lift(self, choice: npt.ArrayLike) -> Int64Array:
        """[original nodes] the strategies that a choice of the reduced problem's strategies means."""
        chosen = np.append(np.asarray(choice, np.int64), 0)  # an original node without an owner has the owner -1
        lifted: Int64Array = self.core.maps[self.core.map_offsets + chosen[self.core.owner]]
        return lifted

    def nearest(self, choice: npt.ArrayLike) -> Int64Array:
        """[nodes] the strategies that agree with a choice of the original problem in most original nodes.

        Lifted again, this is the choice itself, unless reductions have removed one of its strategies.
        """
        core, chosen = self.core, np.asarray(choice, np.int64)
        owned = np.flatnonzero(core.owner >= 0)
        owner = core.owner[owned]
        widths = np.diff(core.offsets)[owner]
        ramp = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
        same = core.maps[np.repeat(core.map_offsets[owned], widths) + ramp] == np.repeat(chosen[owned], widths)
        votes = np.bincount(np.repeat(core.offsets[owner], widths) + ramp, same, len(core.costs))
        return np.array([votes[low:high].argmax() for low, high in pairwise(core.offsets.tolist())], np.int64)

    def __repr__(self) -> str:
        last = self.steps[-1]
        return f"Reduced({last.nodes} nodes, {last.edges} edges, {last.strategies} strategies, {last.entries} entries)"


def reduce(problem: ShardingProblem) -> Reduced:
    """Make a sharding problem smaller without losing an optimum.

    Infinite entries are forbidden from here on. The reductions, which are repeated until none applies: strategies
    without a partner go (arc consistency); nodes whose strategies match those of a neighbour one to one merge
    (contraction); nodes with one strategy and tables that are sums of rows and columns become costs of nodes (folding);
    and strategies that another one replaces go (dominance). Times at which the limit cannot be exceeded, or at which
    the same nodes take memory as at another time, are left out.

    Raises:
        ProblemError: every choice has infinite entries, finite costs add up to 2^59 or more, or usages to 2^63.

    >>> from hetgym.sharding import INFINITE, ShardingProblem
    >>> follow = [[0, INFINITE], [INFINITE, 0]]
    >>> problem = ShardingProblem.from_lists([[3, 1], [0, 4]], [[1, 1], [1, 1]], [[0, 2], [1, 3]], [[0, 1]], [follow])
    >>> reduced = reduce(problem)
    >>> reduced, reduced.lift([]).tolist()
    (Reduced(0 nodes, 0 edges, 0 strategies, 0 entries), [0, 0])
    """
    if problem.wide:
        raise ProblemError(f"sharding problem {problem.name!r}: usages add up to more than 2^63")
    core = _core(problem)
    counted = _counted(problem)
    steps = [_step("problem", core)]

    def note(name: str, new: Core) -> Core:
        if new is not core:
            steps.append(_step(name, new))
        return new

    turns = np.arange(len(core.costs)) - np.repeat(core.offsets[:-1], np.diff(core.offsets))
    core = note("parallel edges", merged(core, np.arange(core.nodes), core.offsets[:-1], turns))
    while True:
        before = core
        while True:
            alive = supported(core)
            _check_choices(problem, core, alive)
            core = note("arc consistency", restricted(core, alive))
            smaller = contracted(core)
            if smaller is core:
                break
            core = note("contraction", smaller)
        core = note("folding", folded(core))
        core = note("dominance", restricted(core, undominated(core, problem.usages, problem.offsets, counted)))
        if core is before:
            return Reduced(problem, core, memory_of(problem, core), tuple(steps))


def _core(problem: ShardingProblem) -> Core:
    """The whole problem, with infinite entries forbidden."""
    costs = np.where(problem.costs == INFINITE, FORBIDDEN, problem.costs)
    tables = np.where(problem.tables == INFINITE, FORBIDDEN, problem.tables)
    total = 0
    for values, offsets in ((costs, problem.offsets), (tables, problem.table_offsets)):
        if len(values):
            total += exact_sum(np.maximum.reduceat(np.where(values == FORBIDDEN, 0, values), offsets[:-1]))
    if total >= LARGEST_SUM:
        raise ProblemError(f"sharding problem {problem.name!r}: costs add up to {total}; at most 2^59 are supported")
    nodes = np.arange(problem.nodes)
    maps = np.arange(len(costs)) - np.repeat(problem.offsets[:-1], problem.widths)
    return Core(problem.offsets, costs, problem.ends, problem.table_offsets, tables, nodes, problem.offsets[:-1], maps)


def _counted(problem: ShardingProblem) -> BoolArray:
    """[n] True for nodes whose choice of a strategy changes the memory that is taken."""
    first = problem.offsets[:-1]
    varied = np.maximum.reduceat(problem.usages, first) > np.minimum.reduceat(problem.usages, first)
    taken = problem.intervals[:, 0] < problem.intervals[:, 1]
    counted: BoolArray = varied & taken if problem.limit is not None else np.zeros(problem.nodes, np.bool_)
    return counted


def _check_choices(problem: ShardingProblem, core: Core, alive: BoolArray) -> None:
    if core.nodes and not np.logical_or.reduceat(alive, core.offsets[:-1]).all():
        raise ProblemError(f"sharding problem {problem.name!r}: every choice has infinite entries")


def _step(name: str, core: Core) -> Step:
    return Step(name, core.nodes, len(core.ends), len(core.costs), len(core.tables))
