"""Improving a plan during the run: regions move to other devices, operators to other turns, jobs past others.

A region is a connected piece of the graph: where transfers are dear, no single operator can leave the device of its
neighbours, and no greedy roll-out shows that a whole region should. Nor does a single operator that goes before those
of another job help its own: all that the job has left must. A change is kept if the plan that it makes is better, or
worse by less than a random bound that falls to 0 (simulated annealing).
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.envs.dispatch.plans import judge, keep, take_back
from hetgym.envs.dispatch.rollouts import Rollouts
from hetgym.envs.dispatch.state import DispatchTables, Plan
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import Switches
from hetgym.sim.progress import Progress

FIRST = 10  # How many times as many changes are tried where operators are new as before other decisions
MANY = 1024  # Operators of a plan beyond which a decision tries fewer changes, so that its time does not grow any more
REGIONS = 0.6  # Share of changes that move a region; the others give turns

JOBS = 0.3
"""Share of changes that let a job pass others where there are several; the rest gives one operator another turn."""

DOUBLINGS = 5  # A region has at most 1, 2, 4, 8 or 16 operators
WINDOWS = 9  # A job passes others within at most 2, 4, 8, … 512 turns
HEAT = 0.001  # First temperature, as a share of the value of the plan


@step
def draw(plan: Plan) -> float:
    """A random number in [0, 1): the upper bits of a linear congruential generator modulo 2**64 (Knuth's MMIX)."""
    plan.random[0] = plan.random[0] * 6364136223846793005 + 1442695040888963407
    return float((plan.random[0] >> 32) & 0x7FFFFFFF) / 2147483648.0


# Invariant: ``value`` is that of the plan as it is, ``best`` that of the copy that is kept, which is the best so far.
@step
def improve(
    p: ProblemArrays,
    tables: DispatchTables,
    run: Progress,
    rollouts: Rollouts,
    plan: Plan,
    switches: Switches,
    tries: int,
) -> None:
    """Try changes of a plan, and leave the best plan that was found; a plan without an operator's device stays.

    Args:
        rollouts: scratch, whose ``now`` is surveyed.
        tries: number of changes.
    """
    value = judge(p, tables, run, rollouts, plan, switches)
    best = value
    keep(plan)
    for k in range(tries if plan.many[0] > 1 and value < np.inf else 0):
        limit = value - HEAT * best * (1.0 - k / tries) * np.log(1.0 - draw(plan))
        count, source, target, passed, chance = 0, -1, -1, 0, draw(plan)
        if chance < REGIONS:
            count = _move(p, run, plan)
        elif chance < REGIONS + JOBS and len(tables.service.came) > 1:
            passed = _pass(tables, plan)
        else:
            source, target = _turn(p, plan)
            _shift(plan, source, target)
        if count == 0 and passed == 0 and source == target:
            continue
        other = judge(p, tables, run, rollouts, plan, switches)
        if other <= limit:
            value = other
            if value < best:
                best = value
                keep(plan)
        elif count > 0:
            for index in range(count):
                plan.device[plan.moved[index]] = plan.before[index]
        elif passed > 0:
            for at in range(plan.many[0]):
                plan.order[at], plan.turn[plan.before[at]] = plan.before[at], at
        else:
            _shift(plan, target, source)
    take_back(plan)


@step
def _among(plan: Plan, count: int) -> int:
    """A random number of 0 .. count - 1."""
    return int(draw(plan) * count)


@step
def _move(p: ProblemArrays, run: Progress, plan: Plan) -> int:
    """Put a random region on a random device; return the number of its operators, 0 if the draw gave none."""
    seed, device = plan.order[_among(plan, plan.many[0])], _among(plan, p.cost.shape[1])
    if device == plan.device[seed] or not run.alive[device] or p.cost[seed, device] == np.inf:
        return 0
    size, count = 1 << _among(plan, DOUBLINGS), 1
    plan.moved[0], plan.before[0], plan.device[seed] = seed, plan.device[seed], device
    for _ in range(3 * size):  # some draws hit operators that cannot move along
        if count == size:
            break
        j = _neighbour(p, plan, plan.moved[_among(plan, count)])
        if j >= 0 and plan.turn[j] >= 0 and plan.device[j] != device and p.cost[j, device] < np.inf:
            plan.moved[count], plan.before[count], plan.device[j] = j, plan.device[j], device
            count += 1
    return count


@step
def _neighbour(p: ProblemArrays, plan: Plan, operator: int) -> int:
    """A random predecessor or successor of an operator; -1 if there is none."""
    first, last = p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]
    after = p.successor_pointer[operator + 1] - p.successor_pointer[operator]
    if last - first + after == 0:
        return -1
    k = _among(plan, last - first + after)
    if k < last - first:
        return int(p.predecessor[first + k])
    return int(p.successor[p.successor_pointer[operator] + k - (last - first)])


# No operator reads one of another job, so neither the job nor the others change their order among themselves.
@step
def _pass(tables: DispatchTables, plan: Plan) -> int:
    """Put a random job's operators before or behind all others in a random window of turns.

    Returns:
        The number of turns that have another operator now; ``before`` holds those that they had.
    """
    n = plan.many[0]
    width = min(n, 2 << _among(plan, WINDOWS))
    first = _among(plan, n - width + 1)
    job = tables.service.job[plan.order[first + _among(plan, width)]]
    ahead, changed = draw(plan) < 0.5, 0
    for at in range(n):
        plan.before[at] = plan.order[at]
    at = first
    for one in range(2):
        for k in range(first, first + width):
            i = plan.before[k]
            if (tables.service.job[i] == job) == (ahead == (one == 0)):
                changed += plan.order[at] != i
                plan.order[at], plan.turn[i] = i, at
                at += 1
    return changed


@step
def _turn(p: ProblemArrays, plan: Plan) -> tuple[int, int]:
    """The turn of a random operator, and a random one between those of its neighbours."""
    source = _among(plan, plan.many[0])
    i, low, high = plan.order[source], 0, plan.many[0] - 1
    for edge in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
        low = max(low, plan.turn[p.predecessor[edge]] + 1)
    for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
        if plan.turn[p.successor[edge]] >= 0:
            high = min(high, plan.turn[p.successor[edge]] - 1)
    return source, low + _among(plan, high - low + 1)


@step
def _shift(plan: Plan, source: int, target: int) -> None:
    """Give the operator of one turn another; those between move up."""
    i, step = plan.order[source], 1 if target > source else -1
    k = source
    while k != target:
        plan.order[k] = plan.order[k + step]
        plan.turn[plan.order[k]] = k
        k += step
    plan.order[target], plan.turn[i] = i, target
