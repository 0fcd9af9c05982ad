"""The order in which operators are served: which of them are known, live and left, and by what rule they come.

A *dispatching rule* says which ready operator goes first. Some rules rank operators, others the jobs that they belong
to; see :data:`RULES`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.envs.dispatch.jobs import Jobs
from hetgym.planning import ranks
from hetgym.problem import Problem
from hetgym.sim.kernel import State
from hetgym.sim.progress import DONE, OPEN, Progress

RANK, FIFO, SPT, MWKR, MOR, WSPT, SRPT, FAIR = range(8)
RULES = ("rank", "fifo", "spt", "mwkr", "mor", "wspt", "srpt", "fair")
"""Names of dispatching rules, which :class:`~hetgym.envs.HetDispatchEnv` describes. Equal operators go by upward rank,
those of FIFO in topological order, and equal jobs by number."""

_BY_JOB = (WSPT, SRPT, FAIR)  # Rules by which operators of one job stay together
_CHANGING = (FIFO, SRPT, FAIR)  # Rules whose keys change during the run

KNOWN, LIVE, LINE, FIRST, END, ALIVE, TOP = range(7)
"""Counts of a service: operators that are known; that are live; that are in line; the first job that may not have
ended, and the one behind the last that is known; devices that are alive; the operator behind the last known one."""

RULE, CHANGES, IDLE, AGAIN = range(4)
"""Settings of a service: code of the rule; then 1 if its keys change; if the reference leaves operators waiting until
a device is idle; if operators that are done may have to run once more, as after the loss of a device."""


@record
class Service(NamedTuple):
    """The operators of a run as their turns come; a job is one whose end the objective counts.

    If the objective is the makespan, the run is one job. The jobs of rules are those that arrive; here they are
    *groups*.
    """

    release: Annotated[FloatArray, "n"]  # time at which each operator becomes known [s]
    coming: Annotated[IntArray, "n"]  # operators as they become known, then by number
    lining: Annotated[IntArray, "n"]  # operators as they become known, then by `first` and `place`
    first: Annotated[FloatArray, "n"]  # key by which operators come, the least first
    place: Annotated[IntArray, "n"]  # turn of operators with equal keys
    work: Annotated[FloatArray, "n"]  # mean run time [s]
    group: Annotated[IntArray, "n"]  # group of each operator
    weight: Annotated[FloatArray, "g"]  # weight of each group
    job: Annotated[IntArray, "n"]  # job of each operator
    came: Annotated[FloatArray, "j"]  # arrival of each job [s]; 0 if the objective is the makespan
    share: Annotated[FloatArray, "j"]  # weight of each job
    how: Annotated[IntArray, "4"]  # see RULE
    # What follows changes during a run.
    key: Annotated[FloatArray, "n"]  # second key by which operators come
    turn: Annotated[IntArray, "n"]  # turn of each operator in line
    live: Annotated[IntArray, "n"]  # known operators that are not done, as they became known
    line: Annotated[IntArray, "n"]  # those of them that are not committed, by their turns
    left: Annotated[FloatArray, "g"]  # scratch: what is left of each group, or under way
    undone: Annotated[IntArray, "j"]  # operators of each job that are not done
    ended: Annotated[FloatArray, "j"]  # latest finish of each job's operators that are not live any more [s]
    bound: Annotated[FloatArray, "j"]  # estimated lower bound on each job's end, given the committed operators [s]
    tally: Annotated[IntArray, "7"]  # see KNOWN
    # weighted times of the jobs before the first that may not have ended: by their bounds, and by their ends [s]; sum
    # of all weights
    past: Annotated[FloatArray, "3"]


_CHANGED = ("key", "turn", "live", "line", "left", "undone", "ended", "bound", "tally", "past")


def new_service(
    problem: Problem,
    release: FloatArray,
    counted: Jobs,
    groups: Jobs,
    rule: str | None,
    order: IntArray,
    again: bool,
) -> Service:
    """The operators of a run at time 0.

    Args:
        release: [n] time at which each operator becomes known [s].
        counted: the jobs whose ends the objective counts.
        groups: the jobs that arrive.
        rule: name of the dispatching rule; None: the rank, or the work left if the objective counts several jobs, by
            which the reference does not wait for idle devices.
        order: [n] operators by descending upward rank.
        again: true if done operators may have to run once more, as after the loss of a device.
    """
    n, code = problem.num_operators, RULES.index(rule or ("rank" if len(counted.came) == 1 else "srpt"))
    first, rank, place = _keys(problem, code, groups), np.empty(n, np.int32), np.empty(n, np.int32)
    rank[order] = np.arange(n, dtype=np.int32)
    equal = np.lexsort((rank, groups.job)) if code in _BY_JOB else problem.topological_order if code == FIFO else order
    place[equal] = np.arange(n, dtype=np.int32)
    jobs = len(counted.came)
    given = {
        "release": release,
        "coming": np.lexsort((np.arange(n), release)).astype(np.int32),
        "lining": np.lexsort((place, first, release)).astype(np.int32),
        "first": first,
        "place": place,
        "work": problem.mean_cost,
        "group": groups.job,
        "weight": groups.weight,
        "job": counted.job,
        "came": counted.came,
        "share": counted.weight,
        "how": np.array([code, code in _CHANGING, rule is not None, again], np.int32),
        "key": np.full(n, np.inf if code == FIFO else 0.0),
        "undone": np.bincount(counted.job, minlength=jobs).astype(np.int32),
        "ended": counted.came.copy(),
        "bound": counted.came.copy(),
        "past": np.array([0.0, 0.0, counted.weight.sum()]),
    }
    return blank(Service, given, n=n, g=len(groups.came), j=jobs)


def _keys(problem: Problem, code: int, groups: Jobs) -> FloatArray:
    """[n] the key of each operator that a rule fixes before the run; 0 for the others."""
    if code == FIFO:
        return groups.came[groups.job]
    if code == SPT:
        return problem.mean_cost
    if code == WSPT:
        whole = np.bincount(groups.job, problem.mean_cost, len(groups.came))
        return (whole / groups.weight)[groups.job]
    if code in (MWKR, MOR):
        weight = problem.mean_cost if code == MWKR else frozen(np.ones(problem.num_operators))
        return -ranks.longest_path_to_exit(problem.arrays, weight, frozen(np.zeros(problem.num_edges)))
    return np.zeros(problem.num_operators)


def own_service(service: Service) -> Service:
    """The same operators with copies of what changes during a run."""
    return service._replace(**{name: getattr(service, name).copy() for name in _CHANGED})


@step
def begin_service(service: Service, given: Service) -> None:
    """Return to time 0, as in ``given``, which no run has changed."""
    for i in range(len(given.key)):
        service.key[i] = given.key[i]
    for j in range(len(given.came)):
        service.undone[j], service.ended[j], service.bound[j] = given.undone[j], given.ended[j], given.bound[j]
    for k in range(len(given.tally)):
        service.tally[k] = 0
    service.past[0] = service.past[1] = 0.0


# Invariant behind each call: `live` and `line` hold what their comments say, by the present state of the run; every job
# before tally[FIRST] has ended, and past holds the times of these. O(live operators), and of sorting those in line.
@step
def serve(service: Service, s: State, run: Progress) -> None:
    """Bring the operators up to date, and sort those in line by the rule."""
    tally, now = service.tally, run.clock[0]
    begun = known = tally[KNOWN]
    while known < len(service.coming) and service.release[service.coming[known]] <= now:
        i = service.coming[known]
        service.live[tally[LIVE]] = i
        tally[LIVE] += 1
        tally[END], tally[TOP] = max(tally[END], service.job[i] + 1), max(tally[TOP], i + 1)
        known += 1
    tally[KNOWN] = known
    if service.how[AGAIN] == 0:
        _take_leave(service, s, run)
    _line_up(service, run, begun)


@step
def _take_leave(service: Service, s: State, run: Progress) -> None:
    """Drop the operators that are done, and add up the times of the jobs that have ended."""
    tally, kept = service.tally, 0
    for k in range(tally[LIVE]):
        i = service.live[k]
        if run.status[i] == DONE:
            j = service.job[i]
            service.undone[j] -= 1
            service.ended[j] = max(service.ended[j], s.finish[i])
        else:
            service.live[kept] = i
            kept += 1
    tally[LIVE] = kept
    while tally[FIRST] < tally[END] and service.undone[tally[FIRST]] == 0:
        j = tally[FIRST]
        service.past[0] += (service.bound[j] - service.came[j]) * service.share[j]
        service.past[1] += (service.ended[j] - service.came[j]) * service.share[j]
        tally[FIRST] += 1


@step
def _line_up(service: Service, run: Progress, begun: int) -> None:
    """Drop the operators that are committed, add those that have become known since, and sort."""
    tally, alive, length = service.tally, 0, 0
    for device in range(len(run.alive)):
        alive += run.alive[device]
    if alive == tally[ALIVE]:
        for k in range(tally[LINE]):
            if run.status[service.line[k]] <= OPEN:
                service.line[length] = service.line[k]
                length += 1
    else:  # committed operators may be left once more
        begun, tally[ALIVE] = 0, alive
    for k in range(begun, tally[KNOWN]):
        if run.status[service.lining[k]] <= OPEN:
            service.line[length] = service.lining[k]
            length += 1
    tally[LINE] = length
    if service.how[CHANGES] == 1:
        _rate(service, run)
    if service.how[CHANGES] == 1 or begun < tally[KNOWN]:
        _sort(service)


@step
def _rate(service: Service, run: Progress) -> None:
    """Write the second keys by which operators in line come."""
    rule, tally = service.how[RULE], service.tally
    if rule == FIFO:
        for k in range(tally[LINE]):
            i = service.line[k]
            if run.status[i] == OPEN:
                service.key[i] = min(service.key[i], run.clock[0])
        return
    for k in range(tally[LIVE]):
        service.left[service.group[service.live[k]]] = 0.0
    for k in range(tally[LIVE]):
        i = service.live[k]
        if rule == SRPT and run.status[i] <= OPEN:
            service.left[service.group[i]] += service.work[i]
        elif rule == FAIR and OPEN < run.status[i] < DONE:
            service.left[service.group[i]] += 1.0 / service.weight[service.group[i]]
    for k in range(tally[LINE]):
        i = service.line[k]
        service.key[i] = service.left[service.group[i]]


# An insertion sort: the order of the last call is nearly the one that is wanted.
@step
def _sort(service: Service) -> None:
    """Sort the operators in line, and number their turns."""
    for k in range(1, service.tally[LINE]):
        i, hole = service.line[k], k
        while hole > 0 and _goes_before(service, i, service.line[hole - 1]):
            service.line[hole] = service.line[hole - 1]
            hole -= 1
        service.line[hole] = i
    for k in range(service.tally[LINE]):
        service.turn[service.line[k]] = k


@step
def _goes_before(service: Service, i: int, other: int) -> bool:
    """True if operator i has its turn before another one."""
    if service.first[i] != service.first[other]:
        return bool(service.first[i] < service.first[other])
    if service.key[i] != service.key[other]:
        return bool(service.key[i] < service.key[other])
    return bool(service.place[i] < service.place[other])


@step
def mean_time(service: Service, last: FloatArray, past: float) -> float:
    """Weighted mean of the times from the jobs' arrivals to their ends [s].

    Args:
        last: [j] end of each job [s]; only those that are known and may not have ended are read.
        past: weighted times of those that have ended [s].
    """
    total = past
    for j in range(service.tally[FIRST], service.tally[END]):
        total += (last[j] - service.came[j]) * service.share[j]
    return float(total / service.past[2])
