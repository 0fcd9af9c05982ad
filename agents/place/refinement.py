"""Refinement: large-neighbourhood search in which the place policy reinserts operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetgym._input.random import generator
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.agents.inference import HeadWeights
from hetgym.agents.place.episodes import Desk, Stage, consider, new_desk, prefer
from hetgym.errors import ConfigError
from hetgym.planning import ranks, timeline
from hetgym.planning.list_scheduling import place_within
from hetgym.planning.look_ahead import Remainder
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import walk
from hetgym.search.moves import draw, draw_bonus, draw_neighbour, draw_shift, on_chain, take_out
from hetgym.search.search import Search


@dataclass(frozen=True)
class Refining:
    """Settings of the search. Raises ConfigError: a share outside [0, 1], or a number that is not positive."""

    size: int = 12  # largest number of operators removed at once
    reorder: float = 0.4  # share of tries that move one operator within the order instead
    relocate: float = 0.3  # share of tries that move a connected piece of one device to another device instead
    piece: int = 64  # largest number of operators of such a piece
    chain: float = 0.5  # share of tries that begin on the critical chain
    window: float = 0.5  # share of tries that remove neighbours in the order; the others remove a connected piece
    # share of tries in which the policy reinserts operators; the others take the device of the least finish time plus
    # random shares of the least cost to an exit and of the run time
    policy: float = 0.2
    reach: int = 60  # largest number of turns that a try with the policy may span
    horizon: int = 8  # number of operators that its roll-outs place
    temperature: float = 4.0  # of the policy's choices
    noise: float = 1.0  # of the run times in the other tries
    heat: float = 20.0  # first temperature of acceptance, times squared number of operators over the makespan
    cooling: float = 0.05  # last temperature over the first

    def __post_init__(self) -> None:
        for name in ("reorder", "relocate", "chain", "window", "policy", "cooling"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be a share from 0 to 1")
        for name in ("size", "piece", "reach", "horizon", "temperature", "noise", "heat", "cooling"):
            if not 0 < getattr(self, name) < np.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")


class Refinement(Search):
    """The search, starting from a schedule.

    A try removes operators from the schedule and reinserts them, or gives one operator another turn, or moves a
    connected piece to another device. All operators after the first changed one are placed anew. A better schedule is
    accepted, and early in the search also some worse ones. A try that leaves every operator on its device is abandoned
    at once.

    Args:
        choice: [n] devices of the schedule.
        order: [n] operators in the order in which insertion places them.
    """

    def __init__(
        self,
        problem: Problem,
        stage: Stage,
        head: HeadWeights,
        choice: IntArray,
        order: IntArray,
        how: Refining,
        seed: int = 0,
    ) -> None:
        n, d = problem.num_operators, problem.num_devices
        self.problem, self.stage, self.head, self.how = problem, stage, head, how
        self.bonus = np.zeros((1, n, d))
        self.walk = walk.new_walk(problem, choice, order)._replace(bonus=self.bonus[0])
        self.desk = new_desk(problem, head)._replace(placed=self.walk.trial)
        self.rng = generator(seed)
        self.makespan = float(self.walk.value[walk.BEST])
        self.hot = how.heat / max(n, 30) ** 2 * self.makespan
        shares = [how.reorder, how.relocate, how.chain, how.window, how.policy, how.temperature, how.noise]
        sizes = [min(how.size, n), how.reach, how.horizon, min(how.piece, n)]
        self.guide = Guide(stage, head, self.desk, self.bonus, np.array(shares), np.array(sizes))
        self.placed = n
        self.finished = d == 1 or self.hot == 0.0

    def advance(self, target: int, total: int) -> None:
        """Try changes until the target is reached; see :meth:`Search.advance`."""
        hot, cooling = self.hot, self.how.cooling
        _refine(self.problem.arrays, self.walk, self.guide, self.rng, target, total, hot, cooling)
        self.placed = int(self.walk.counts[walk.PLACED])
        self.makespan = float(self.walk.value[walk.BEST])

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        return walk.best_schedule(self.problem, self.walk)


def settled_order(problem: Problem, choice: IntArray) -> IntArray:
    """[n] operators by the bottom levels that a placement [n] gives them."""
    return ranks.list_order(problem.arrays, ranks.assigned_bottom_level(problem.arrays, choice))


_REORDER, _RELOCATE, _CHAIN, _WINDOW, _POLICY, _TEMPERATURE, _NOISE = range(7)
_SIZE, _REACH, _HORIZON, _PIECE = range(4)


@record
class Guide(NamedTuple):
    """What the tries of a search share."""

    stage: Stage
    head: HeadWeights
    desk: Desk
    bonus: FloatArray  # [1, n, d] added to finish times [s]
    shares: FloatArray  # of the settings, in the order of these numbers
    sizes: Int64Array


@lean
def _refine(
    p: ProblemArrays,
    work: walk.Walk,
    guide: Guide,
    rng: np.random.Generator,
    target: int,
    total: int,
    hot: float,
    cooling: float,
) -> None:
    """Try changes until the target is reached; a try is charged as one more operator placed."""
    while work.counts[walk.PLACED] < target:
        temperature = hot * cooling ** min(1.0, work.counts[walk.PLACED] / total)
        work.counts[walk.PLACED] += 1
        limit = work.value[walk.CURRENT] - temperature * np.log(1.0 - rng.random())
        kind, shares = rng.random(), guide.shares
        if kind < shares[_REORDER]:
            _reorder(p, work, rng, limit)
        elif kind < shares[_REORDER] + shares[_RELOCATE]:
            _relocate(p, work, rng, guide.sizes[_PIECE], shares[_CHAIN], limit)
        else:
            _rebuild(p, work, guide, rng, limit)


# Between tries ``now`` is the current schedule, that of the placement ``work.fixed`` in the order ``work.order``. A
# try works on ``work.trial`` from the first changed turn on, and accepts it or takes back what it changed in ``fixed``
# and ``order``. The turns between the first and the last removed operator come first: if all removed operators get
# their old devices, or the makespan must exceed the limit, the rest need not be placed.
@step
def _rebuild(p: ProblemArrays, work: walk.Walk, guide: Guide, rng: np.random.Generator, limit: float) -> None:
    """Remove operators and reinsert them."""
    n, shares, sizes = len(work.order), guide.shares, guide.sizes
    taken = 1 + draw(rng, sizes[_SIZE])
    seed = on_chain(p, work, rng) if rng.random() < shares[_CHAIN] else draw(rng, n)
    count = take_out(p, work, rng, seed, taken, shares[_WINDOW])
    draw_bonus(p, work, rng, count, shares[_NOISE])
    first, last = n, 0
    for k in range(count):
        first, last = min(first, work.turn[work.moved[k]]), max(last, work.turn[work.moved[k]])
    timeline.copy_prefix(work.now, work.trial, work.turn, first)
    slack = limit * walk.ROUNDING
    if rng.random() < shares[_POLICY] and last - first < sizes[_REACH]:
        going = _put_back(p, work, guide, rng, first, last, slack)
    else:
        changed = work.order[first : last + 1]
        makespan, placed = place_within(p, work.trial, changed, work.fixed, work.bonus, n > 0, work.bound, slack)
        work.counts[walk.PLACED] += placed
        going = makespan < np.inf
    same = True
    for k in range(count):
        same = same and work.trial.assignment[work.moved[k]] == work.before[k]
    if not going or same:
        walk.take_back(work, count)
        return
    makespan = _rest(p, work, last, slack)
    if makespan <= limit:
        for k in range(count):
            work.fixed[work.moved[k]] = work.trial.assignment[work.moved[k]]
        walk.accept(p, work, last, makespan)
    else:
        walk.take_back(work, count)


@step
def _rest(p: ProblemArrays, work: walk.Walk, last: int, slack: float) -> float:
    """Place the operators after turn ``last`` in a trial; return the makespan [s], inf if it must exceed the slack."""
    rest = work.order[last + 1 :]
    makespan, placed = place_within(p, work.trial, rest, work.fixed, work.bonus, len(work.order) > 0, work.tail, slack)
    work.counts[walk.PLACED] += placed
    return timeline.end(work.trial) if makespan < np.inf else np.inf


@step
def _reorder(p: ProblemArrays, work: walk.Walk, rng: np.random.Generator, limit: float) -> None:
    """Give an operator another turn; abandon the try at once if no start changes."""
    n = len(work.order)
    source, target = draw_shift(p, work, rng)
    if target == source:
        return
    walk.shift(work, source, target)
    first, last = min(source, target), max(source, target)
    timeline.copy_prefix(work.now, work.trial, work.turn, first)
    slack = limit * walk.ROUNDING
    changed = work.order[first : last + 1]
    makespan, placed = place_within(p, work.trial, changed, work.fixed, work.bonus, n > 0, work.tail, slack)
    work.counts[walk.PLACED] += placed
    if makespan < np.inf:
        same = True
        for k in range(first, last + 1):
            same = same and work.trial.start[work.order[k]] == work.now.start[work.order[k]]
        if same:  # the schedule has not changed: keep the new order
            walk.update_levels(p, work, last)
            return
        makespan = _rest(p, work, last, slack)
    if makespan <= limit:
        walk.accept(p, work, -1, makespan)
    else:
        walk.shift(work, target, source)


@step
def _relocate(
    p: ProblemArrays, work: walk.Walk, rng: np.random.Generator, most: int, chain: float, limit: float
) -> None:
    """Move a connected piece of one device to another device; small pieces are drawn more often than large ones."""
    n = len(work.order)
    seed = on_chain(p, work, rng) if rng.random() < chain else draw(rng, n)
    home, size = work.fixed[seed], int(np.exp(rng.random() * np.log(float(most)))) + 1
    device = draw(rng, p.cost.shape[1] - 1)
    device += device >= home
    count = walk.put(p, work, 0, seed, device)
    for _ in range(3 * size):  # some draws hit operators that have moved already, or are on other devices
        if count == 0 or count >= size:
            break
        neighbour = draw_neighbour(p, rng, work.moved[draw(rng, count)])
        if neighbour >= 0 and work.fixed[neighbour] == home:
            count = walk.put(p, work, count, neighbour, device)
    if count == 0:
        return
    first, last = n, 0
    for k in range(count):
        first, last = min(first, work.turn[work.moved[k]]), max(last, work.turn[work.moved[k]])
    makespan = walk.try_from(p, work, first, last, limit)
    if makespan < np.inf:
        walk.accept(p, work, last, makespan)
    else:
        walk.take_back(work, count)


# Before turn k the trial holds all operators before k; bound is the largest of their finishes plus optimistic time to
# an exit. Operators that are not removed keep their device. The loop ends early if the makespan must exceed the slack.
@step
def _put_back(
    p: ProblemArrays, work: walk.Walk, guide: Guide, rng: np.random.Generator, first: int, last: int, slack: float
) -> bool:
    """Let the policy place the removed operators from turn ``first`` on; False if it must exceed the slack."""
    d, stage, desk = p.cost.shape[1], guide.stage, guide.desk
    temperature, horizon = guide.shares[_TEMPERATURE], guide.sizes[_HORIZON]
    rest = Remainder(work.order, work.fixed, stage.tail, work.tail)
    bound = 0.0
    for k in range(first):
        i = work.order[k]
        bound = max(bound, work.trial.finish[i] + stage.tail[i, work.fixed[i]])
    for k in range(first, last + 1):
        i = work.order[k]
        device = work.fixed[i]
        if device >= 0:
            start = timeline.start_on(p, work.trial, i, device, True)
        else:
            consider(p, work.trial, rest, guide.bonus, stage.scale[0], desk, k, bound, horizon, 0)
            work.counts[walk.PLACED] += d * min(horizon, len(work.order) - 1 - k)
            prefer(p, stage, guide.head, desk, i)
            for a in range(d):
                if p.cost[i, a] == np.inf:
                    continue
                desk.score[a] -= temperature * np.log(-np.log(1.0 - rng.random()))
                if device < 0 or desk.score[a] > desk.score[device]:
                    device = a
            start = desk.start[device]
        timeline.book(p, work.trial, i, device, start)
        work.counts[walk.PLACED] += 1
        finish = start + p.cost[i, device]
        bound = max(bound, finish + stage.tail[i, device])
        if finish + work.bound[i, device] > slack:
            return False
    return True
