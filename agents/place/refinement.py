"""Refinement: large-neighbourhood search in which the place policy reinserts operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._input.random import generator
from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray, IntArray
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
    """Settings of the search.

    Attributes:
        size: largest number of operators removed at once.
        reorder: share of tries that move one operator within the order instead.
        relocate: share of tries that move a connected piece of one device to another device instead.
        piece: largest number of operators of such a piece.
        chain: share of tries that begin on the critical chain.
        window: share of tries that remove neighbours in the order; the others remove a connected piece.
        policy: share of tries in which the policy reinserts operators; the others take the device of the least
            finish time plus random shares of the least cost to an exit and of the run time.
        reach: largest number of turns that a try with the policy may span.
        horizon: number of operators that its roll-outs place.
        temperature: of the policy's choices.
        noise: of the run times in the other tries.
        heat: first temperature of acceptance, times squared number of operators over the makespan.
        cooling: last temperature over the first.

    Raises:
        ConfigError: a share outside [0, 1], or a number that is not positive.
    """

    size: int = 12
    reorder: float = 0.4
    relocate: float = 0.3
    piece: int = 64
    chain: float = 0.5
    window: float = 0.5
    policy: float = 0.2
    reach: int = 60
    horizon: int = 8
    temperature: float = 4.0
    noise: float = 1.0
    heat: float = 20.0
    cooling: float = 0.05

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
        problem: the problem to schedule.
        stage: the data that episodes on it share.
        head: weights of the policy's head.
        choice: [n] devices of the schedule.
        order: [n] operators in the order in which insertion places them.
        how: see :class:`Refining`.
        seed: of all draws.
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
        self.shares = np.array(
            [how.reorder, how.relocate, how.chain, how.window, how.policy, how.temperature, how.noise]
        )
        self.sizes = np.array([min(how.size, n), how.reach, how.horizon, min(how.piece, n)])
        self.placed = n
        self.finished = d == 1 or self.hot == 0.0

    def advance(self, target: int, total: int) -> None:
        """Try changes until the target is reached; see :meth:`Search.advance`."""
        _refine(
            self.problem.arrays,
            self.walk,
            self.stage,
            self.head,
            self.desk,
            self.bonus,
            self.rng,
            target,
            total,
            self.hot,
            self.how.cooling,
            self.shares,
            self.sizes,
        )
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


@lean
def _refine(
    p: ProblemArrays,
    w: walk.Walk,
    s: Stage,
    head: HeadWeights,
    desk: Desk,
    bonus: FloatArray,
    rng: np.random.Generator,
    target: int,
    total: int,
    hot: float,
    cooling: float,
    shares: FloatArray,
    sizes: npt.NDArray[np.int64],
) -> None:
    """Try changes until the target is reached; a try is charged as one more operator placed."""
    while w.counts[walk.PLACED] < target:
        temperature = hot * cooling ** min(1.0, w.counts[walk.PLACED] / total)
        w.counts[walk.PLACED] += 1
        limit = w.value[walk.CURRENT] - temperature * np.log(1.0 - rng.random())
        kind = rng.random()
        if kind < shares[_REORDER]:
            _reorder(p, w, rng, limit)
        elif kind < shares[_REORDER] + shares[_RELOCATE]:
            _relocate(p, w, rng, sizes[_PIECE], shares[_CHAIN], limit)
        else:
            _rebuild(p, w, s, head, desk, bonus, rng, shares, sizes, limit)


# Between tries ``w.now`` is the current schedule and equals the placement ``w.fixed`` in the order ``w.order``. A try
# works on ``w.trial`` from the first changed turn on, and either accepts it or takes back what it changed in ``fixed``
# and ``order``. The turns between the first and the last removed operator come first: if all removed operators get
# their old devices, or the makespan must exceed the limit, the rest need not be placed.
@step
def _rebuild(
    p: ProblemArrays,
    w: walk.Walk,
    s: Stage,
    head: HeadWeights,
    desk: Desk,
    bonus: FloatArray,
    rng: np.random.Generator,
    shares: FloatArray,
    sizes: npt.NDArray[np.int64],
    limit: float,
) -> None:
    """Remove operators and reinsert them."""
    n = len(w.order)
    taken = 1 + draw(rng, sizes[_SIZE])
    seed = on_chain(p, w, rng) if rng.random() < shares[_CHAIN] else draw(rng, n)
    count = take_out(p, w, rng, seed, taken, shares[_WINDOW])
    draw_bonus(p, w, rng, count, shares[_NOISE])
    first, last = n, 0
    for k in range(count):
        first, last = min(first, w.turn[w.moved[k]]), max(last, w.turn[w.moved[k]])
    timeline.copy_prefix(w.now, w.trial, w.turn, first)
    slack = limit * walk.ROUNDING
    if rng.random() < shares[_POLICY] and last - first < sizes[_REACH]:
        going = _put_back(p, w, s, head, desk, bonus, rng, first, last, slack, shares[_TEMPERATURE], sizes[_HORIZON])
    else:
        changed = w.order[first : last + 1]
        makespan, placed = place_within(p, w.trial, changed, w.fixed, w.bonus, n > 0, w.bound, slack)
        w.counts[walk.PLACED] += placed
        going = makespan < np.inf
    same = True
    for k in range(count):
        same = same and w.trial.assignment[w.moved[k]] == w.before[k]
    if not going or same:
        walk.take_back(w, count)
        return
    makespan = _rest(p, w, last, slack)
    if makespan <= limit:
        for k in range(count):
            w.fixed[w.moved[k]] = w.trial.assignment[w.moved[k]]
        walk.accept(p, w, last, makespan)
    else:
        walk.take_back(w, count)


@step
def _rest(p: ProblemArrays, w: walk.Walk, last: int, slack: float) -> float:
    """Place the operators after turn ``last`` in a trial; return the makespan [s], inf if it must exceed the slack."""
    rest = w.order[last + 1 :]
    makespan, placed = place_within(p, w.trial, rest, w.fixed, w.bonus, len(w.order) > 0, w.tail, slack)
    w.counts[walk.PLACED] += placed
    return timeline.end(w.trial) if makespan < np.inf else np.inf


@step
def _reorder(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, limit: float) -> None:
    """Give an operator another turn; abandon the try at once if no start changes."""
    n = len(w.order)
    source, target = draw_shift(p, w, rng)
    if target == source:
        return
    walk.shift(w, source, target)
    first, last = min(source, target), max(source, target)
    timeline.copy_prefix(w.now, w.trial, w.turn, first)
    slack = limit * walk.ROUNDING
    changed = w.order[first : last + 1]
    makespan, placed = place_within(p, w.trial, changed, w.fixed, w.bonus, n > 0, w.tail, slack)
    w.counts[walk.PLACED] += placed
    if makespan < np.inf:
        same = True
        for k in range(first, last + 1):
            same = same and w.trial.start[w.order[k]] == w.now.start[w.order[k]]
        if same:  # the schedule has not changed: keep the new order
            walk.update_levels(p, w, last)
            return
        makespan = _rest(p, w, last, slack)
    if makespan <= limit:
        walk.accept(p, w, -1, makespan)
    else:
        walk.shift(w, target, source)


@step
def _relocate(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, most: int, chain: float, limit: float) -> None:
    """Move a connected piece of one device to another device; small pieces are drawn more often than large ones."""
    n = len(w.order)
    seed = on_chain(p, w, rng) if rng.random() < chain else draw(rng, n)
    home, size = w.fixed[seed], int(np.exp(rng.random() * np.log(float(most)))) + 1
    device = draw(rng, p.cost.shape[1] - 1)
    device += device >= home
    count = walk.put(p, w, 0, seed, device)
    for _ in range(3 * size):  # some draws hit operators that have moved already, or are on other devices
        if count == 0 or count >= size:
            break
        neighbour = draw_neighbour(p, rng, w.moved[draw(rng, count)])
        if neighbour >= 0 and w.fixed[neighbour] == home:
            count = walk.put(p, w, count, neighbour, device)
    if count == 0:
        return
    first, last = n, 0
    for k in range(count):
        first, last = min(first, w.turn[w.moved[k]]), max(last, w.turn[w.moved[k]])
    makespan = walk.try_from(p, w, first, last, limit)
    if makespan < np.inf:
        walk.accept(p, w, last, makespan)
    else:
        walk.take_back(w, count)


# Before turn k the trial holds all operators before k; bound is the largest of their finishes plus optimistic time to
# an exit. Operators that are not removed keep their device. The loop ends early if the makespan must exceed the slack.
@step
def _put_back(
    p: ProblemArrays,
    w: walk.Walk,
    s: Stage,
    head: HeadWeights,
    desk: Desk,
    bonus: FloatArray,
    rng: np.random.Generator,
    first: int,
    last: int,
    slack: float,
    temperature: float,
    horizon: int,
) -> bool:
    """Let the policy place the removed operators, in a trial that holds those before turn ``first``.

    Returns:
        False if the makespan must exceed the slack.
    """
    d = p.cost.shape[1]
    rest = Remainder(w.order, w.fixed, s.tail, w.tail)
    bound = 0.0
    for k in range(first):
        i = w.order[k]
        bound = max(bound, w.trial.finish[i] + s.tail[i, w.fixed[i]])
    for k in range(first, last + 1):
        i = w.order[k]
        device = w.fixed[i]
        if device >= 0:
            start = timeline.start_on(p, w.trial, i, device, True)
        else:
            consider(p, w.trial, rest, bonus, s.scale[0], desk, k, bound, horizon, 0)
            w.counts[walk.PLACED] += d * min(horizon, len(w.order) - 1 - k)
            prefer(p, s, head, desk, i)
            for a in range(d):
                if p.cost[i, a] == np.inf:
                    continue
                desk.score[a] -= temperature * np.log(-np.log(1.0 - rng.random()))
                if device < 0 or desk.score[a] > desk.score[device]:
                    device = a
            start = desk.start[device]
        timeline.book(p, w.trial, i, device, start)
        w.counts[walk.PLACED] += 1
        finish = start + p.cost[i, device]
        bound = max(bound, finish + s.tail[i, device])
        if finish + w.bound[i, device] > slack:
            return False
    return True
