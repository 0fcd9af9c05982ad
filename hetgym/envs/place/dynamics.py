"""The dynamics of HetSchedule-v0: operators come one by one, an action chooses a device.

A decision books the current operator on a device at the time that HEFT's rule gives under the environment's runtime,
and its transfers if they may wait; the decoded schedule is then simulated. One call of :func:`place` takes a decision
in every lane and writes the agents' next observations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import alike
from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.envs.core.scaling import CLIP, scale_of, share
from hetgym.envs.place.observation import CandidateColumn, DeviceColumn, OperatorColumn
from hetgym.envs.place.state import (
    PlaceObservation,
    PlaceRecord,
    PlaceState,
    PlaceTables,
    read_lanes,
    read_problem,
    read_tables,
)
from hetgym.envs.place.target import allowed, settle
from hetgym.planning import decode as decoding
from hetgym.planning import timeline
from hetgym.planning.intervals import last_end
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, simulate
from hetgym.weights import present


# Between two calls the following holds in every lane whose episode is running: the timeline holds the first turn[lane]
# operators of the order; start, finish and ahead, and with them the candidates and the mask, are those of the operator
# at turn[lane] on every device; busy, held and peak sum up the timeline; bound is at most the makespan of any schedule
# that begins as the timeline does; potential is the reference before the first decision, then the bound.
#
# A step costs O(D) look-aheads of O(in-degree) each; see :mod:`hetgym.envs.place.completion` for the rest.
@lean
def place(
    lanes: Int64Array, actions: Int64Array, active: BoolArray, insertion: bool, sparse: bool, like: Timeline
) -> None:
    """Take a decision in every active lane, or open the episode there if it is fresh.

    A fresh lane's rows, reference and fixed observations must be in place. A lane ends with its last operator; the
    reward is then computed from planned times, which under the classic model are the simulated ones.

    Args:
        like: a timeline of the kind that lanes have: with bookings or without.
    """
    r = read_lanes(lanes)
    for lane in range(len(active)):
        if active[lane]:
            place_one(r, lane, actions[lane], insertion, sparse, like)


@step
def place_one(r: PlaceRecord, lane: int, action: int, insertion: bool, sparse: bool, like: Timeline) -> None:
    """As :func:`place`, in one lane."""
    board, seen = r.state, r.observation
    p, tables = read_problem(r.problems[lane]), read_tables(r.tables[lane])
    t = alike(r.placed[lane], like)
    if r.fresh[lane]:
        timeline.clear(t)
        _clear(board, seen, lane)
        r.fresh[lane] = False
    else:
        device = action
        board.log[lane, board.turn[lane]] = action
        _decide(p, tables, t, board, lane, device)
        r.over[lane] = board.turn[lane] == len(tables.order)
        _pay(board, r.reward, lane, r.over[lane], sparse)
        _show_placed(p, tables, t, board, seen, lane, device)
    if r.over[lane]:
        _clear_candidates(seen, lane)  # the mask stays, so that it is never empty
        timeline.write_device_order(t, board.order[lane], board.pointer[lane])
    else:
        _look_ahead(p, tables, t, board, seen, lane, insertion)


@step
def _clear(board: PlaceState, seen: PlaceObservation, lane: int) -> None:
    """Set a lane to the beginning of an episode; the reference must be in place."""
    board.turn[lane] = 0
    board.scale[lane] = scale_of(board.reference[lane])
    board.bound[lane] = board.last[lane] = 0.0
    board.potential[lane] = board.reference[lane]
    _clear_candidates(seen, lane)
    for layer in range(board.layers.shape[1]):
        board.layers[lane, layer] = board.experts[lane, layer] = -1
    for device in range(seen.devices.shape[1]):
        board.busy[lane, device] = board.held[lane, device] = board.peak[lane, device] = 0.0
        seen.mask[lane, device] = 0
        seen.devices[lane, device, DeviceColumn.BUSY] = 0.0
        seen.devices[lane, device, DeviceColumn.AVAILABLE] = 0.0
        seen.devices[lane, device, DeviceColumn.SHARE] = 0.0


@step
def _clear_candidates(seen: PlaceObservation, lane: int) -> None:
    """Set the candidates to zero."""
    for device in range(seen.candidates.shape[1]):  # loops, as each broadcast would be a function to compile
        for column in range(seen.candidates.shape[2]):
            seen.candidates[lane, device, column] = 0.0


@step
def _decide(p: ProblemArrays, tables: PlaceTables, t: Timeline, board: PlaceState, lane: int, device: int) -> None:
    """Book the current operator on a device."""
    operator = tables.order[board.turn[lane]]
    board.held[lane, device] += _more(tables, t, operator, device)
    timeline.book(p, t, operator, device, board.start[lane, device])
    if board.layers.shape[1] > 0:
        settle(tables.program, board.layers[lane], board.experts[lane], operator, device)
    board.turn[lane] += 1
    board.last[lane] = max(board.last[lane], board.finish[lane, device])
    board.bound[lane] = board.ahead[lane, device]
    board.busy[lane, device] += board.finish[lane, device] - board.start[lane, device]
    board.peak[lane, device] = max(board.peak[lane, device], tables.working[operator])


@step
def _pay(board: PlaceState, reward: FloatArray, lane: int, over: bool, sparse: bool) -> None:
    """Pay the decrease of the potential or, for sparse rewards, the whole return at the end."""
    before = board.potential[lane]
    board.potential[lane] = board.last[lane] if over else board.bound[lane]
    total = before - board.potential[lane]
    if sparse:
        total = board.reference[lane] - board.last[lane] if over else 0.0
    reward[lane] = total / board.reference[lane] if board.reference[lane] > 0 else 0.0


@step
def _show_placed(
    p: ProblemArrays,
    tables: PlaceTables,
    t: Timeline,
    board: PlaceState,
    seen: PlaceObservation,
    lane: int,
    device: int,
) -> None:
    """Write the last decision into the observation."""
    scale, operator = board.scale[lane], tables.order[board.turn[lane] - 1]
    if seen.operators.shape[1] > 0:
        row = seen.operators[lane, operator]
        row[OperatorColumn.IS_PLACED] = 1.0
        row[OperatorColumn.IS_CURRENT] = 0.0
        row[OperatorColumn.START] = share(board.start[lane, device], scale)
        row[OperatorColumn.FINISH] = share(board.finish[lane, device], scale)
        seen.assignment[lane, operator] = device
    devices = seen.devices[lane]
    devices[device, DeviceColumn.BUSY] = share(board.busy[lane, device], scale)
    devices[device, DeviceColumn.AVAILABLE] = share(last_end(t.busy, device), scale)
    for other in range(p.cost.shape[1]):
        devices[other, DeviceColumn.SHARE] = t.busy.size[other] / board.turn[lane]


# After each device: best is the least bound so far; legal counts the devices that the target allows and that have
# enough free memory; roomiest is the allowed device with the most free memory, which is legal if none has enough. It is
# -1 if no allowed device can run the operator; then every device that can is legal.
@step
def _look_ahead(
    p: ProblemArrays,
    tables: PlaceTables,
    t: Timeline,
    board: PlaceState,
    seen: PlaceObservation,
    lane: int,
    insertion: bool,
) -> None:
    """Compute and write the results of placing the current operator on each device; completions are the bounds."""
    turn, scale = board.turn[lane], board.scale[lane]
    operator = tables.order[turn]
    seen.current[lane, 0] = operator
    if seen.operators.shape[1] > 0:
        seen.operators[lane, operator, OperatorColumn.IS_CURRENT] = 1.0
    targeted = board.layers.shape[1] > 0
    legal, roomiest, most, best = 0, -1, -np.inf, np.inf
    for device in range(p.cost.shape[1]):
        seen.mask[lane, device] = 0
        row = seen.candidates[lane, device]
        duration = p.cost[operator, device]
        if duration == np.inf:
            board.start[lane, device] = board.finish[lane, device] = np.inf
            board.ahead[lane, device] = board.completion[lane, device] = np.inf
            for column in range(len(row)):
                row[column] = CLIP
            continue
        ready = timeline.data_ready(p, t, operator, device)
        start = timeline.start_after(p, t, operator, device, ready, insertion)
        finish = start + duration
        ahead = max(board.bound[lane], finish + tables.tail[operator, device])
        best = min(best, ahead)
        board.start[lane, device], board.finish[lane, device] = start, finish
        board.ahead[lane, device] = board.completion[lane, device] = ahead
        row[CandidateColumn.COST] = share(duration, scale)
        row[CandidateColumn.READY] = share(ready, scale)
        row[CandidateColumn.START] = share(start, scale)
        row[CandidateColumn.FINISH] = share(finish, scale)
        row[CandidateColumn.WAIT] = share(start - ready, scale)
        row[CandidateColumn.COST_TO_GO] = share(tables.optimistic[operator, device], scale)
        row[CandidateColumn.BOUND] = share(ahead, scale)
        if targeted and not allowed(tables.program, board.layers[lane], board.experts[lane], operator, device):
            continue
        room = _room(tables, t, board, lane, operator, device)
        if room >= 0:
            seen.mask[lane, device] = 1
            legal += 1
        if room > most or roomiest < 0:
            most, roomiest = room, device
    if roomiest < 0:
        for device in range(p.cost.shape[1]):
            seen.mask[lane, device] = p.cost[operator, device] < np.inf
    elif legal == 0:
        seen.mask[lane, roomiest] = 1
    show_completion(p, board, seen, lane, operator, best)


@step
def show_completion(
    p: ProblemArrays, board: PlaceState, seen: PlaceObservation, lane: int, operator: int, best: float
) -> None:
    """Write the completions, and the regrets: their differences to the least one [s]."""
    for device in range(p.cost.shape[1]):
        if p.cost[operator, device] < np.inf:
            completion, row = board.completion[lane, device], seen.candidates[lane, device]
            row[CandidateColumn.COMPLETION] = share(completion, board.scale[lane])
            row[CandidateColumn.REGRET] = share(completion - best, board.scale[lane])


@step
def _more(tables: PlaceTables, t: Timeline, operator: int, device: int) -> float:
    """Weights that a device must hold more of with an operator: without those that others there read [byte]."""
    shared = present(tables.shared, t.assignment, operator, device, len(tables.weights))
    return float(tables.weights[operator] - shared)


@step
def _room(tables: PlaceTables, t: Timeline, board: PlaceState, lane: int, operator: int, device: int) -> float:
    """Free memory of a device after placing an operator there, at most; negative if it must be exceeded [byte]."""
    need = board.held[lane, device] + _more(tables, t, operator, device)
    return float(tables.capacity[device] - need - max(board.peak[lane, device], tables.working[operator]))


def decoded(problem: Problem, placed: Timeline, decode: str, runtime: Runtime) -> tuple[Schedule, float]:
    """The schedule of a finished episode, and its makespan under a runtime [s].

    Args:
        placed: the complete timeline.
        decode: rule that gives the start times; on ties ``"best"`` takes the first of
            :data:`~hetgym.planning.decode.DECODES`.
    """
    best: tuple[Schedule, float] | None = None
    for how in decoding.DECODES if decode == "best" else (decode,):
        schedule = decoding.decode_placement(problem, placed.assignment, how, replace(runtime, memory="off"))
        makespan = simulate(problem, schedule, runtime).makespan
        if best is None or makespan < best[1]:
            best = schedule, makespan
    assert best is not None
    return replace(best[0], scheduler="agent"), best[1]
