"""The dynamics of HetDispatch-v0: the agent schedules online, during the simulated run.

Whenever operators are ready, the agent commits one of them to a device, or waits. :mod:`hetgym.sim.loop` simulates the
run with its transfers, contention, noise, late jobs, slow-downs and losses. One call of :func:`dispatch` takes a
decision in every lane and writes the agents' next observations.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import alike
from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.envs.core.scaling import scale_of
from hetgym.envs.dispatch.candidates import offer
from hetgym.envs.dispatch.service import IDLE, LINE, LIVE, Service, mean_time, serve
from hetgym.envs.dispatch.showing import show
from hetgym.envs.dispatch.state import (
    DispatchObservation,
    DispatchRecord,
    DispatchState,
    DispatchTables,
    read_lanes,
    read_problem,
    read_run,
    read_state,
    read_tables,
)
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import GO_ON, WAIT, estimate, play
from hetgym.sim.kernel import State, Switches
from hetgym.sim.loop import DECIDE, STUCK
from hetgym.sim.progress import DONE, OPEN, Progress, Sharing


# Between two calls the following holds in every lane whose episode is running: the run has been simulated up to its
# clock, and some operator is open; the candidates are the first K open operators of the order; ends, and with them
# the observation, are those of committing each candidate to each device now; potential is the reference before the
# first decision, then the bound.
#
# A step costs the simulation up to the next decision, and K D estimates of O(in-degree) each.
@lean
def dispatch(
    lanes: Int64Array,
    kind: Sharing | None,
    switches: Switches,
    actions: Int64Array,
    active: BoolArray,
    follow: bool,
    sparse: bool,
) -> None:
    """Take a decision in every active lane, open the episode there if it is fresh, or play the reference to its end.

    Action ``k * D + d`` commits candidate k to device d; action ``K * D`` waits for the next event.

    Args:
        kind: any sharing like that of the lanes' runs, or None; only its type counts.
        actions: [L] legal actions; only read for decisions.
        active: [L] true for lanes to work on. A fresh lane's rows, reference, fixed observations and a run at time 0
            must be in place.
        follow: true to play the reference from a run at time 0 on, and to leave its value in ``reference``.
    """
    r = read_lanes(lanes)
    for lane in range(len(active)):
        if active[lane]:
            dispatch_one(r, kind, switches, lane, actions[lane], follow, sparse)


@step
def dispatch_one(
    r: DispatchRecord,
    kind: Sharing | None,
    switches: Switches,
    lane: int,
    action: int,
    follow: bool,
    sparse: bool,
) -> None:
    """As :func:`dispatch`, in one lane."""
    board, seen = r.state, r.observation
    p, tables = read_problem(r.problems[lane]), read_tables(r.tables[lane])
    s, run, sharing = read_state(r.states[lane]), read_run(r.runs[lane]), alike(r.sharing[lane], kind)
    operator, device = GO_ON, 0
    if not (follow or r.fresh[lane]):
        operator, device = _chosen(tables, board, seen, lane, action)
        board.turn[lane] += 1
    while True:
        outcome = play(p, s, run, sharing, operator, device, switches)
        if outcome == STUCK:
            operator = GO_ON
        elif follow and outcome == DECIDE:
            serve(tables.service, s, run)
            operator, device = _followed(p, tables.service, s, run, board, lane, switches)
        else:
            break
    if follow:
        board.reference[lane] = _value(tables.service, s, run)
        return
    r.over[lane] = outcome != DECIDE
    serve(tables.service, s, run)
    if r.fresh[lane]:
        r.fresh[lane] = False
        _clear(tables.service, board, run, lane)
    else:
        _pay(tables.service, s, run, board, r.reward, lane, r.over[lane], sparse)
    show(p, tables, s, run, seen, lane, board.scale[lane])
    offer(p, tables, s, run, board, seen, lane, switches, r.over[lane])


@step
def _chosen(
    tables: DispatchTables, board: DispatchState, seen: DispatchObservation, lane: int, action: int
) -> tuple[int, int]:
    """The decision that an action stands for: an operator and a device, or waiting."""
    width, wait = seen.devices.shape[1], seen.mask.shape[1] - 1
    if action == wait:
        return WAIT, 0
    operator, device = int(seen.candidate_operators[lane, action // width]), action % width
    service, end = tables.service, board.ends[lane, action] + tables.tail[operator, device]
    service.bound[service.job[operator]] = max(service.bound[service.job[operator]], end)
    return operator, device


@step
def _followed(
    p: ProblemArrays,
    service: Service,
    s: State,
    run: Progress,
    board: DispatchState,
    lane: int,
    switches: Switches,
) -> tuple[int, int]:
    """The decision of the reference: the first open operator in line, on the device of earliest estimated finish.

    By a dispatching rule only devices that are idle get operators; the first one in line that an idle device can run.
    """
    ready, start, finish = board.ready[lane], board.start[lane], board.finish[lane]
    for turn in range(service.tally[LINE]):
        i = service.line[turn]
        if run.status[i] != OPEN:
            continue
        estimate(p, s, run, i, switches, ready, start, finish)
        best, least = -1, np.inf
        for device in range(p.cost.shape[1]):
            idle = run.running[device] == 0 and run.head[device] == run.tail[device]
            if finish[device] < least and (idle or not service.how[IDLE]):
                best, least = device, finish[device]
        if best >= 0:
            return int(i), best
    return WAIT, 0


@step
def _value(service: Service, s: State, run: Progress) -> float:
    """Mean time from the jobs' arrivals to their last finishes in a finished run [s]; changes the jobs' bounds."""
    for j in range(len(service.came)):
        service.bound[j] = service.came[j]
    for i in range(len(run.status)):
        service.bound[service.job[i]] = max(service.bound[service.job[i]], s.finish[i])
    total = 0.0
    for j in range(len(service.came)):
        total += (service.bound[j] - service.came[j]) * service.share[j]
    return float(total / service.past[2])


@step
def _clear(service: Service, board: DispatchState, run: Progress, lane: int) -> None:
    """Set a lane to the beginning of an episode; the reference must be in place."""
    board.turn[lane] = 0
    board.scale[lane] = scale_of(board.reference[lane])
    for j in range(len(service.came)):
        service.bound[j] = max(run.clock[0], service.came[j])
    board.bound[lane] = mean_time(service, service.bound, service.past[0])
    board.potential[lane] = board.reference[lane]


# A job that has not ended ends later than now. Jobs that are not known yet count 0.
@step
def _pay(
    service: Service,
    s: State,
    run: Progress,
    board: DispatchState,
    reward: FloatArray,
    lane: int,
    over: bool,
    sparse: bool,
) -> None:
    """Pay the decrease of the potential or, for sparse rewards, the whole return at the end."""
    for k in range(service.tally[LIVE]):
        i = service.live[k]
        if run.status[i] < DONE:
            service.bound[service.job[i]] = max(service.bound[service.job[i]], run.clock[0])
    board.bound[lane] = mean_time(service, service.bound, service.past[0])
    before = board.potential[lane]
    value = _value(service, s, run) if over else 0.0
    board.potential[lane] = value if over else board.bound[lane]
    total = before - board.potential[lane]
    if sparse:
        total = board.reference[lane] - value if over else 0.0
    reward[lane] = total / board.reference[lane] if board.reference[lane] > 0 else 0.0
