"""Tabu search on placement and device orders."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hetgym._input.random import generator
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.planning import capacity
from hetgym.planning.registry import get
from hetgym.planning.timeline import with_times
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import device_orders
from hetgym.search.course import turns_of
from hetgym.search.device_orders import DeviceOrders
from hetgym.search.moves import draw
from hetgym.search.search import Search, searched
from hetgym.search.walk import TIE
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import runtime_name

NAME = "tabu"

TENURE = 10
"""Fewest iterations for which two operators keep the order that a change gave them, or an operator stays away from the
device that it left; one more for each ten operators of a device, and up to half as many again by chance."""

PATIENCE = 3_000  # Iterations without a better plan after which the search goes back to one of its best plans
ELITES = 8  # Number of these plans
SHAKES = 24  # Most random changes of such a plan before the search continues from it
CELLS = 1 << 16  # Cells of the hashed table of what is forbidden; what shares a cell is forbidden together

NOW, BEST, EPISODE, LEAST = 0, 1, 2, 3  # in Memory.value
PLACED, ROUND, IDLE, SEEN, TIES = 0, 1, 2, 3, 4  # in Memory.counts
CHOSEN, FALLBACK = 0, 1  # in Memory.change


@record
class Memory(NamedTuple):
    """What the search remembers."""

    # [CELLS] the iteration up to which an order of two operators, or a device of one, is forbidden
    until: Int64Array
    best: IntArray  # [2, n] the best plan: placement, and a topological order of graph and device orders
    found: IntArray  # [2, n] the best plan since the search last went back
    elite: IntArray  # [ELITES, 2, n] plans to go back to
    worth: FloatArray  # [ELITES] their makespans, inf where there is none [s]
    # [2, 4] the best change that is allowed, and any change: operator (-1: there is none), device, neighbour there, 1
    # if behind it
    change: IntArray
    # makespans now, of the best plan and of the best one since the search last went back, and the estimate of the best
    # change [s]
    value: FloatArray
    # operators timed, iterations, iterations since the last better plan, changes seen in this iteration, and those
    # among them that are as good as the best
    counts: Int64Array


def tabu(
    problem: Problem,
    start: str = "heft",
    seed: int = 0,
    budget: int = 1_000_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Change the order of operators on their devices, or the device of one, always by the best change not forbidden.

    Operators of the longest path move. Those at an end of a block, a run of the path on one device, go to the other end
    or anywhere between, and those inside go to an end (neighbourhood N6 of Balas, Vazacopoulos, Management Science
    44(2), 1998). Each may go to the best place on every other device, too (Mastrolilli, Gambardella, J. Scheduling 3,
    2000). Undoing a change is forbidden for a while. After many changes without a better plan the search continues
    from one of its best plans, perturbed (as in Nowicki, Smutnicki, Management Science 42(6), 1996). Made for shops,
    where jobs visit machines.

    Changes are judged under the classic model. Under any other runtime each better plan is simulated, and the best
    schedule by simulation is returned, never worse than the start.

    Args:
        start: name of the scheduler whose schedule is improved.
        budget: largest number of operators timed in trials.

    Raises:
        UnknownName: no such scheduler.
        ConfigError: a negative budget, or a time that is not positive.
    """
    return searched(NAME, budget, seconds, lambda: Tabu(problem, start, seed, runtime))


class Tabu(Search):
    """The search behind :func:`tabu`."""

    def __init__(
        self, problem: Problem, start: str | Schedule = "heft", seed: int = 0, runtime: str | Runtime = "classic"
    ) -> None:
        self.problem, self.runtime = problem, replace(as_runtime(runtime), noise=0.0, seed=0)
        first = start if isinstance(start, Schedule) else get(start)(problem, self.runtime)
        self.best = replace(with_times(problem, first, self.runtime), model=runtime_name(self.runtime))
        n, d = problem.num_operators, problem.num_devices
        self.orders = device_orders.new_device_orders(problem, first.assignment, turns_of(problem, self.best))
        self.rng = generator(seed)
        self.memory = Memory(
            until=np.zeros(CELLS, np.int64),
            best=np.stack([self.orders.assignment, self.orders.order]),
            found=np.stack([self.orders.assignment, self.orders.order]),
            elite=np.zeros((ELITES, 2, n), np.int32),
            worth=np.full(ELITES, np.inf),
            change=np.zeros((2, 4), np.int32),
            value=np.full(4, float((self.orders.head + self.orders.duration).max())),
            counts=np.zeros(5, np.int64),
        )
        self.tenure = TENURE + int(np.bincount(first.assignment, minlength=d).max()) // 10
        self.placed, self.makespan = n, self.best.makespan
        self._seen = np.inf

    def advance(self, target: int, total: int) -> None:
        """Search until the target is reached; see :meth:`Search.advance`."""
        self.memory.counts[PLACED] = self.placed
        self.finished = _search(self.problem.arrays, self.orders, self.memory, self.rng, target, self.tenure)
        self.placed = int(self.memory.counts[PLACED])
        self._verify()

    def _verify(self) -> None:
        """Simulate the best plan if it is a new one, and save it if it is better and fits."""
        if self.memory.value[BEST] < self._seen:
            self._seen = float(self.memory.value[BEST])
            assignment, order = self.memory.best
            rows = [order[assignment[order] == device] for device in range(self.problem.num_devices)]
            plan = with_times(self.problem, Schedule(assignment.copy(), order=rows, scheduler=NAME), self.runtime)
            limited = capacity.limited(self.problem, self.runtime)
            fits = not (limited and capacity.missing(self.problem, plan, self.runtime).any())
            if plan.makespan < self.makespan and fits:
                self.best, self.makespan = replace(plan, model=runtime_name(self.runtime)), plan.makespan

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        return self.best


@lean
def _search(p: ProblemArrays, orders: DeviceOrders, m: Memory, rng: Generator, target: int, tenure: int) -> bool:
    """Search until the target is reached; True if no change can shorten the longest path."""
    n = len(orders.order)
    while m.counts[PLACED] < target:
        m.counts[PLACED] += n
        length = device_orders.find_path(p, orders, rng)
        m.value[NOW] = orders.head[orders.path[0]] + orders.duration[orders.path[0]]
        _compare(orders, m)
        if m.counts[IDLE] > PATIENCE:
            _go_back(p, orders, m, rng)
            continue
        m.counts[ROUND] += 1
        m.counts[IDLE] += 1
        operator, device, other, behind = _choose(p, orders, m, rng, length)
        if operator < 0:
            if m.value[NOW] <= m.value[BEST]:
                return True
            m.counts[IDLE] = PATIENCE + 1
            continue
        _forbid(orders, m, operator, device, other, behind, m.counts[ROUND] + tenure + draw(rng, tenure // 2 + 1))
        device_orders.put(p, orders, operator, device, other, behind)
    return False


@step
def _save(orders: DeviceOrders, plan: IntArray) -> None:
    """Copy placement and order to a plan [2, n]."""
    for k in range(len(orders.order)):
        plan[0, k], plan[1, k] = orders.assignment[k], orders.order[k]


@step
def _compare(orders: DeviceOrders, m: Memory) -> None:
    """Save the plan if it is the best one, of all or since the search last went back."""
    if m.value[NOW] < m.value[EPISODE] * TIE:
        m.value[EPISODE], m.counts[IDLE] = m.value[NOW], 0
        _save(orders, m.found)
    if m.value[NOW] < m.value[BEST] * TIE:
        m.value[BEST] = m.value[NOW]
        _save(orders, m.best)


# The path is walked block by block; `Memory.change` holds the best change so far. Within a block each pair of
# neighbours on the path gives four changes, so that a block of b operators gives O(b). An estimate costs the
# operators passed.
@step
def _choose(
    p: ProblemArrays, orders: DeviceOrders, m: Memory, rng: Generator, length: int
) -> tuple[int, int, int, bool]:
    """The change with the least estimate that is allowed, else any change: operator, device, neighbour, if behind it.

    A forbidden change is allowed if it would give the best plan of all. The operator is -1 if there is no change.
    """
    m.value[LEAST], m.counts[SEEN], m.counts[TIES] = np.inf, 0, 0
    m.change[CHOSEN, 0] = m.change[FALLBACK, 0] = -1
    last = 0
    while last < length:  # the path runs backward: a block is path[first], ..., path[last]
        first = last
        while first + 1 < length and orders.previous[orders.path[first]] == orders.path[first + 1]:
            first += 1
        device = orders.assignment[orders.path[last]]
        for k in range(last, first):
            for way in range(4):  # to an end from anywhere, and from an end to anywhere
                behind = way % 2 == 0
                if way < 2:
                    operator = orders.path[k + 1] if behind else orders.path[k]
                    other = orders.path[last] if behind else orders.path[first]
                else:
                    operator = orders.path[first] if behind else orders.path[last]
                    other = orders.path[k] if behind else orders.path[k + 1]
                    if other == orders.path[last if behind else first]:
                        continue  # among the first two
                if behind:
                    possible = device_orders.may_follow(p, orders, operator, other)
                else:
                    possible = device_orders.may_precede(p, orders, operator, other)
                if possible:
                    longest = device_orders.estimate(p, orders, operator, other, behind)
                    _offer(orders, m, rng, longest, operator, device, other, behind)
        last = first + 1
    for k in range(length):
        operator = orders.path[k]
        for device in range(p.cost.shape[1]):
            if device == orders.assignment[operator] or p.cost[operator, device] == np.inf:
                continue
            longest, other, behind = device_orders.insertion(p, orders, operator, device)
            if longest < np.inf:
                _offer(orders, m, rng, longest, operator, device, other, behind)
    kind = CHOSEN if m.change[CHOSEN, 0] >= 0 else FALLBACK
    change = m.change[kind]
    return int(change[0]), int(change[1]), int(change[2]), bool(change[3] == 1)


@step
def _offer(
    orders: DeviceOrders,
    m: Memory,
    rng: Generator,
    longest: float,
    operator: int,
    device: int,
    other: int,
    behind: bool,
) -> None:
    """Take note of a change if it is the best one that is allowed, and now and then as any change."""
    m.counts[SEEN] += 1
    if rng.random() * m.counts[SEEN] < 1.0:
        _write(m, FALLBACK, operator, device, other, behind)
    if longest > m.value[LEAST] / TIE:
        return
    if longest >= m.value[BEST] * TIE and _forbidden(orders, m, operator, device, other, behind):
        return
    tied = longest >= m.value[LEAST] * TIE
    m.counts[TIES] = m.counts[TIES] + 1 if tied else 1
    if not tied or rng.random() * m.counts[TIES] < 1.0:
        m.value[LEAST] = longest
        _write(m, CHOSEN, operator, device, other, behind)


@step
def _write(m: Memory, kind: int, operator: int, device: int, other: int, behind: bool) -> None:
    m.change[kind, 0], m.change[kind, 1], m.change[kind, 2] = operator, device, other
    m.change[kind, 3] = 1 if behind else 0


@step
def _cell(earlier: int, later: int) -> int:
    """Where the table has a pair of operators, or minus one minus a device, and an operator."""
    return (earlier * 40503 + later * 30011 + (later >> 3)) & (CELLS - 1)


@step
def _forbidden(orders: DeviceOrders, m: Memory, operator: int, device: int, other: int, behind: bool) -> bool:
    """True if an operator would pass another one that must keep its order, or return to a device too early."""
    if device != orders.assignment[operator]:
        return bool(m.until[_cell(-1 - device, operator)] > m.counts[ROUND])
    i = operator
    while i != other:
        i = orders.following[i] if behind else orders.previous[i]
        pair = _cell(operator, i) if behind else _cell(i, operator)
        if m.until[pair] > m.counts[ROUND]:
            return True
    return False


@step
def _forbid(orders: DeviceOrders, m: Memory, operator: int, device: int, other: int, behind: bool, until: int) -> None:
    """Forbid undoing this change for a while (tabu tenure)."""
    if device != orders.assignment[operator]:
        m.until[_cell(-1 - orders.assignment[operator], operator)] = until
        return
    i = operator
    while i != other:
        i = orders.following[i] if behind else orders.previous[i]
        m.until[_cell(i, operator) if behind else _cell(operator, i)] = until


@step
def _go_back(p: ProblemArrays, orders: DeviceOrders, m: Memory, rng: Generator) -> None:
    """Put the best plan found since the last time among the elites, and go on from one of them, shaken."""
    n, worst, known = len(orders.order), 0, False
    for k in range(ELITES):
        known = known or m.worth[k] == m.value[EPISODE]
        if m.worth[k] > m.worth[worst]:
            worst = k
    if not known and m.value[EPISODE] < m.worth[worst]:
        m.worth[worst] = m.value[EPISODE]
        for k in range(n):
            m.elite[worst, 0, k], m.elite[worst, 1, k] = m.found[0, k], m.found[1, k]
    held = 0
    for k in range(ELITES):
        if m.worth[k] < np.inf:
            held += 1
    rank = draw(rng, held)
    for k in range(ELITES):
        if m.worth[k] < np.inf:
            if rank == 0:
                device_orders.restart(p, orders, m.elite[k, 0], m.elite[k, 1])
            rank -= 1
    for _ in range(1 + draw(rng, SHAKES)):
        length = device_orders.find_path(p, orders, rng)
        operator, device = orders.path[draw(rng, length)], draw(rng, p.cost.shape[1])
        other = orders.previous[operator]
        if device != orders.assignment[operator] and p.cost[operator, device] < np.inf:
            longest, other, behind = device_orders.insertion(p, orders, operator, device)
            if longest < np.inf:
                device_orders.put(p, orders, operator, device, other, behind)
        elif other >= 0 and device_orders.may_precede(p, orders, operator, other):
            device_orders.put(p, orders, operator, orders.assignment[operator], other, False)
        m.counts[PLACED] += n
    m.counts[IDLE] = 0
    m.value[EPISODE] = device_orders.makespan_of(orders)
    _save(orders, m.found)
    for k in range(CELLS):
        m.until[k] = 0
