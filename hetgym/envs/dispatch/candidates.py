"""The candidates of HetDispatch-v0: ready operators, and the results of committing them to each device."""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.envs.core.scaling import CLIP, share
from hetgym.envs.dispatch.observation import DispatchCandidateColumn
from hetgym.envs.dispatch.service import LINE, Service, mean_time
from hetgym.envs.dispatch.state import DispatchObservation, DispatchState, DispatchTables
from hetgym.envs.place.observation import OperatorColumn
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import estimate
from hetgym.sim.kernel import State, Switches
from hetgym.sim.progress import EVENTS, OPEN, Progress


@step
def offer(
    p: ProblemArrays,
    tables: DispatchTables,
    s: State,
    run: Progress,
    board: DispatchState,
    seen: DispatchObservation,
    lane: int,
    switches: Switches,
    over: bool,
) -> None:
    """Write the candidates and the mask, and count open operators that are hidden; completions are set to the bounds.

    At the end only waiting is legal.
    """
    wait = seen.mask.shape[1] - 1
    for action in range(wait + 1):
        seen.mask[lane, action] = 0
        for column in range(seen.candidates.shape[2]):
            seen.candidates[lane, action, column] = 0.0
    for k in range(seen.candidate_operators.shape[1]):
        seen.candidate_operators[lane, k] = -1
    board.hidden[lane] = 0
    if over:
        seen.mask[lane, wait] = 1
        return
    count, service = 0, tables.service
    for turn in range(service.tally[LINE]):
        i = service.line[turn]
        if run.status[i] == OPEN and count < seen.candidate_operators.shape[1]:
            seen.candidate_operators[lane, count] = i
            if seen.operators.shape[1] > 0:
                seen.operators[lane, i, OperatorColumn.IS_CURRENT] = 1.0
            _offer_one(p, tables, s, run, board, seen, lane, count, i, switches)
            count += 1
        elif run.status[i] == OPEN:
            board.hidden[lane] += 1
    _offer_wait(run, board, seen, lane)
    show_completion(board, seen, lane, wait)


# After each device: ends, completion and the row of the candidate on it are written; on a device where the
# operator cannot run they are inf, or CLIP in the row, and the action stays masked. Cost: one estimate.
@step
def _offer_one(
    p: ProblemArrays,
    tables: DispatchTables,
    s: State,
    run: Progress,
    board: DispatchState,
    seen: DispatchObservation,
    lane: int,
    k: int,
    operator: int,
    switches: Switches,
) -> None:
    """Write the rows of candidate k, one for every device."""
    scale, now = board.scale[lane], run.clock[0]
    ready, start, finish = board.ready[lane], board.start[lane], board.finish[lane]
    estimate(p, s, run, operator, switches, ready, start, finish)
    for device in range(p.cost.shape[1]):
        action = k * seen.devices.shape[1] + device
        row = seen.candidates[lane, action]
        board.ends[lane, action] = board.completion[lane, action] = finish[device]
        if finish[device] == np.inf:
            for column in range(len(row)):
                row[column] = CLIP
            row[DispatchCandidateColumn.IS_WAIT] = row[DispatchCandidateColumn.NEXT_EVENT] = 0.0
        else:
            ahead = _ahead(tables.service, operator, finish[device] + tables.tail[operator, device])
            board.completion[lane, action] = board.flow[lane, action] = ahead
            seen.mask[lane, action] = 1
            row[DispatchCandidateColumn.COST] = share(p.cost[operator, device] * run.slowdown[device], scale)
            row[DispatchCandidateColumn.READY] = share(ready[device] - now, scale)
            row[DispatchCandidateColumn.START] = share(start[device] - now, scale)
            row[DispatchCandidateColumn.FINISH] = share(finish[device] - now, scale)
            row[DispatchCandidateColumn.WAIT] = share(start[device] - ready[device], scale)
            row[DispatchCandidateColumn.COST_TO_GO] = share(tables.optimistic[operator, device], scale)
            row[DispatchCandidateColumn.BOUND] = share(ahead, scale)
        row[DispatchCandidateColumn.UPWARD_RANK] = share(tables.rank[operator], scale)


@step
def _ahead(service: Service, operator: int, end: float) -> float:
    """Bound on the objective if the job of an operator cannot end before ``end`` [s]."""
    j = service.job[operator]
    before = service.bound[j]
    service.bound[j] = max(before, end)
    ahead = mean_time(service, service.bound, service.past[0])
    service.bound[j] = before
    return ahead


@step
def _offer_wait(run: Progress, board: DispatchState, seen: DispatchObservation, lane: int) -> None:
    """Write the row of waiting, which is legal while an event is due or a device has work."""
    wait, now = seen.mask.shape[1] - 1, run.clock[0]
    waiting = run.heaps.size[EVENTS] > 0
    for device in range(len(run.running)):
        waiting = waiting or run.running[device] > 0 or run.head[device] < run.tail[device]
    seen.mask[lane, wait] = waiting
    row = seen.candidates[lane, wait]
    row[DispatchCandidateColumn.IS_WAIT] = 1.0
    if waiting:
        board.completion[lane, wait] = board.flow[lane, wait] = board.bound[lane]
        row[DispatchCandidateColumn.BOUND] = share(board.bound[lane], board.scale[lane])
        row[DispatchCandidateColumn.NEXT_EVENT] = share(next_event(run) - now, board.scale[lane])


@step
def next_event(run: Progress) -> float:
    """Time of the next event [s]; the current time if none is due."""
    return float(run.heaps.key[0] if run.heaps.size[EVENTS] > 0 else run.clock[0])


@step
def show_completion(board: DispatchState, seen: DispatchObservation, lane: int, compared: int) -> None:
    """Write completion, flow and regret of the legal actions.

    Args:
        compared: number of actions, from the first on, whose least completion regrets are relative to. Without
            roll-outs this leaves out waiting, whose bound is not an estimate.
    """
    best = np.inf
    for action in range(compared):
        if seen.mask[lane, action]:
            best = min(best, board.completion[lane, action])
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            row = seen.candidates[lane, action]
            row[DispatchCandidateColumn.COMPLETION] = share(board.completion[lane, action], board.scale[lane])
            row[DispatchCandidateColumn.REGRET] = share(board.completion[lane, action] - best, board.scale[lane])
            row[DispatchCandidateColumn.FLOW] = share(board.flow[lane, action], board.scale[lane])
