"""Adaptive partition by key operators, and CPGC over its parts."""

import heapq
from functools import partial

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.baselines.trivial import single_device
from hetgym.errors import ConfigError
from hetgym.graph.ops import GENERIC, KINDS
from hetgym.planning.capacity import those_that_fit, unlimited
from hetgym.planning.parts import expand, numbered, part_costs, quotient, structure
from hetgym.planning.registry import get
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime

HEAVY = ("conv", "matmul", "recurrent", "generic")
"""Families whose operators may be key by their weight; ``generic`` holds tasks of unknown kind."""


def cpgc_partition(
    problem: Problem, inner: str = "cpgc", theta: float = 0.25, runtime: str | Runtime = "classic"
) -> Schedule:
    """Cut the graph into sub-models around its key operators, and place whole sub-models.

    The parts are those of :func:`sub_models`. The inner scheduler places them, operators follow their parts, and the
    order is found operator by operator. Never worse than the best single device.

    Args:
        inner: scheduler of the parts, any registered name.
        theta: least weight of a key operator, as a share of the mean run time; see :func:`key_operators`.
        runtime: the runtime that will run the schedule. If it enforces capacities, operators for whose weights the
            device of their part has no room go where they finish first.

    Raises:
        UnknownName: no scheduler of that name.
        ConfigError: a negative theta.
    """
    scheduler = get(inner)
    part = sub_models(problem, theta)
    assignment = scheduler(quotient(problem, part), unlimited(runtime)).assignment
    planners = partial(expand, problem, part, assignment, runtime), partial(single_device, problem, runtime)
    return min(those_that_fit(planners), key=lambda schedule: schedule.makespan)


def key_operators(problem: Problem, theta: float = 0.25) -> BoolArray:
    """[n] whether an operator is key: heavy, or a place where the graph forks, joins or has one path only.

    An operator is heavy if its family is in :data:`HEAVY` and it takes at least theta times the mean time of all
    operators, each on its fastest device.

    Raises:
        ConfigError: a negative theta.
    """
    if not theta >= 0:
        raise ConfigError(f"theta is {theta}; it must not be negative")
    fastest = problem.cost.min(axis=1)
    family = np.array([KINDS.get(kind, GENERIC).family in HEAVY for kind in problem.operator_kinds])
    heavy = family & (fastest >= theta * fastest.mean())
    fork, join, trunk = structure(problem)
    return np.asarray(heavy | fork | join | trunk, np.bool_)


def sub_models(problem: Problem, theta: float = 0.25) -> IntArray:
    """[n] the sub-model of each operator, numbered from 0 in topological order; no cycle among them.

    1. Every key operator seeds a part, and so does every branch behind a fork; any other operator joins its
       predecessor's, if the device that suits the seed best can run it too.
    2. Chains of parts that prefer the same device become one.
    3. Parts that take less than two latencies on their fastest device, smallest first, join their only
       predecessor, else their only successor.

    Only parts between which no second path can exist are joined, so no cycle arises.

    Raises:
        ConfigError: a negative theta.
    """
    part = _grown(problem, key_operators(problem, theta))
    costs = part_costs(problem, part)
    parts = _Parts(problem, part, costs)
    preferred = costs.argmin(axis=1)
    for a in range(len(costs)):
        for follower in sorted(parts.after[a]):
            if len(parts.after[a]) == len(parts.before[follower]) == 1 and preferred[a] == preferred[follower]:
                parts.links.append((a, follower))
    for a, follower in parts.links:
        parts.join(parts.find(a), parts.find(follower))
    _join_small(problem, parts)
    return numbered(problem, [parts.find(p) for p in part.tolist()])


def _grown(problem: Problem, key: BoolArray) -> IntArray:
    part = np.full(problem.num_operators, -1, np.int32)
    fork = structure(problem)[0]
    device: list[int] = []  # that suits each part's seed best
    pointer, node = problem.predecessors.pointer, problem.predecessors.node
    for i in problem.topological_order.tolist():
        before = part[node[pointer[i] : pointer[i + 1]]]
        forked = len(before) > 0 and fork[node[pointer[i]]]
        if not key[i] and len(before) and not forked and np.isfinite(problem.cost[i, device[before[0]]]):
            part[i] = before[0]  # not a join, so all its edges come from one operator
        else:
            part[i] = len(device)
            device.append(int(problem.cost[i].argmin()))
    return part


class _Parts:
    """Parts that grow together: who is before and after whom, and what each costs."""

    def __init__(self, problem: Problem, part: IntArray, costs: FloatArray) -> None:
        self.cost = costs.copy()
        self.root = list(range(len(costs)))
        self.links: list[tuple[int, int]] = []
        self.before: list[set[int]] = [set() for _ in self.root]
        self.after: list[set[int]] = [set() for _ in self.root]
        for a, b in zip(part[problem.edge_source].tolist(), part[problem.edge_target].tolist(), strict=True):
            if a != b:
                self.after[a].add(b)
                self.before[b].add(a)

    def find(self, part: int) -> int:
        """The part that this one went into."""
        while self.root[part] != part:
            part = self.root[part]
        return part

    def join(self, kept: int, gone: int) -> None:
        """Make one part of two."""
        self.root[gone] = kept
        self.cost[kept] += self.cost[gone]
        for sets, others in ((self.before, self.after), (self.after, self.before)):
            sets[kept] = (sets[kept] | sets[gone]) - {kept, gone}
            for neighbour in sets[kept]:
                others[neighbour] = (others[neighbour] - {gone}) | {kept}


def _join_small(problem: Problem, parts: _Parts) -> None:
    d = problem.num_devices
    limit = 2.0 * float(problem.latency[~np.eye(d, dtype=np.bool_)].mean()) if d > 1 else np.inf
    waiting = {p for p in parts.root if parts.root[p] == p}
    heap = [(float(parts.cost[p].min()), p) for p in waiting]
    heapq.heapify(heap)
    while heap:
        least, smallest = heapq.heappop(heap)
        if smallest not in waiting or least != parts.cost[smallest].min():  # its cost has changed since
            continue
        waiting.remove(smallest)
        if least >= limit:
            return
        for sets in (parts.before, parts.after):
            if len(sets[smallest]) == 1:
                (other,) = sets[smallest]
                if np.isfinite(parts.cost[other] + parts.cost[smallest]).any():
                    parts.join(other, smallest)
                    waiting.add(other)
                    heapq.heappush(heap, (float(parts.cost[other].min()), other))
                    break
