"""The candidates of ``mode="dispatch"``: ready operators, and the results of committing them to each device."""

from __future__ import annotations

import numpy as np

from hetgym._jit import lean, step
from hetgym._types import BoolArray, Int64Array
from hetgym.envs.core.scaling import CLIP, share
from hetgym.envs.dispatch.improving import FIRST, improve
from hetgym.envs.dispatch.observation import DispatchCandidateColumn
from hetgym.envs.dispatch.plans import FLOW, NOTHING, adopt, follow, jobs_left, judge, keep, refresh, take_back
from hetgym.envs.dispatch.rollouts import Rollouts, play_on, survey
from hetgym.envs.dispatch.state import (
    DispatchObservation,
    DispatchState,
    DispatchTables,
    Plan,
    read_lanes,
    read_plan,
    read_problem,
    read_rollouts,
    read_run,
    read_state,
    read_tables,
)
from hetgym.envs.place.observation import OperatorColumn
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import busy_until, done_after, estimate
from hetgym.sim.kernel import State, Switches
from hetgym.sim.progress import EVENTS, OPEN, Progress


@step
def offer(
    p: ProblemArrays,
    tables: DispatchTables,
    s: State,
    g: Progress,
    b: DispatchState,
    seen: DispatchObservation,
    lane: int,
    switches: Switches,
    over: bool,
) -> None:
    """Write the candidates and the mask; completions are set to the bounds. At the end only waiting is legal."""
    wait = seen.mask.shape[1] - 1
    for action in range(wait + 1):
        seen.mask[lane, action] = 0
        for column in range(seen.candidates.shape[2]):
            seen.candidates[lane, action, column] = 0.0
    for k in range(seen.candidate_operators.shape[1]):
        seen.candidate_operators[lane, k] = -1
    if over:
        seen.mask[lane, wait] = 1
        return
    count = 0
    for i in tables.order:
        if g.status[i] == OPEN and count < seen.candidate_operators.shape[1]:
            seen.candidate_operators[lane, count] = i
            if seen.operators.shape[1] > 0:
                seen.operators[lane, i, OperatorColumn.IS_CURRENT] = 1.0
            _offer_one(p, tables, s, g, b, seen, lane, count, i, switches)
            count += 1
    _offer_wait(g, b, seen, lane)
    show_completion(b, seen, lane, wait)


# After each device: ends, ahead, completion and the row of the candidate on it are written; on a device where the
# operator cannot run they are inf, or CLIP in the row, and the action stays masked. Cost: one estimate.
@step
def _offer_one(
    p: ProblemArrays,
    tables: DispatchTables,
    s: State,
    g: Progress,
    b: DispatchState,
    seen: DispatchObservation,
    lane: int,
    k: int,
    operator: int,
    switches: Switches,
) -> None:
    """Write the rows of candidate k, one for every device."""
    scale, now = b.scale[lane], g.clock[0]
    ready, start, finish = b.ready[lane], b.start[lane], b.finish[lane]
    estimate(p, s, g, operator, switches, ready, start, finish)
    for device in range(p.cost.shape[1]):
        action = k * seen.devices.shape[1] + device
        row = seen.candidates[lane, action]
        b.ends[lane, action] = b.ahead[lane, action] = b.completion[lane, action] = finish[device]
        if finish[device] == np.inf:
            for column in range(len(row)):
                row[column] = CLIP
            row[DispatchCandidateColumn.IS_WAIT] = row[DispatchCandidateColumn.NEXT_EVENT] = 0.0
        else:
            ahead = _ahead(tables, tables.job[operator], finish[device] + tables.tail[operator, device])
            b.ahead[lane, action] = b.completion[lane, action] = b.flow[lane, action] = ahead
            seen.mask[lane, action] = 1
            row[DispatchCandidateColumn.COST] = share(p.cost[operator, device] * g.slowdown[device], scale)
            row[DispatchCandidateColumn.READY] = share(ready[device] - now, scale)
            row[DispatchCandidateColumn.START] = share(start[device] - now, scale)
            row[DispatchCandidateColumn.FINISH] = share(finish[device] - now, scale)
            row[DispatchCandidateColumn.WAIT] = share(start[device] - ready[device], scale)
            row[DispatchCandidateColumn.COST_TO_GO] = share(tables.optimistic[operator, device], scale)
            row[DispatchCandidateColumn.BOUND] = share(ahead, scale)
        row[DispatchCandidateColumn.UPWARD_RANK] = share(tables.rank[operator], scale)


@step
def _ahead(tables: DispatchTables, job: int, end: float) -> float:
    """Bound on the objective if a job cannot end before ``end`` [s]."""
    total = 0.0
    for j in range(len(tables.came)):
        total += (max(tables.bound[j], end) if j == job else tables.bound[j]) - tables.came[j]
    return total / len(tables.came)


@step
def _offer_wait(g: Progress, b: DispatchState, seen: DispatchObservation, lane: int) -> None:
    """Write the row of waiting, which is legal while an event is due or a device has work."""
    wait, now = seen.mask.shape[1] - 1, g.clock[0]
    waiting = g.heaps.size[EVENTS] > 0
    for device in range(len(g.running)):
        waiting = waiting or g.running[device] > 0 or g.head[device] < g.tail[device]
    seen.mask[lane, wait] = waiting
    row = seen.candidates[lane, wait]
    row[DispatchCandidateColumn.IS_WAIT] = 1.0
    if waiting:
        b.completion[lane, wait] = b.flow[lane, wait] = b.bound[lane]
        row[DispatchCandidateColumn.BOUND] = share(b.bound[lane], b.scale[lane])
        row[DispatchCandidateColumn.NEXT_EVENT] = share(_next_event(g) - now, b.scale[lane])


@step
def _next_event(g: Progress) -> float:
    """Time of the next event [s]; the current time if none is due."""
    return float(g.heaps.key[0] if g.heaps.size[EVENTS] > 0 else g.clock[0])


@step
def _next_finish(p: ProblemArrays, s: State, g: Progress, otherwise: float) -> float:
    """Estimated time of the next finish of an operator [s], until which waiting lasts if nothing else happens.

    Where nothing runs or is queued, waiting would last until a job arrives or a device changes, which nobody foresees:
    the current time plus ``otherwise`` [s], which should be long.
    """
    least = np.inf
    for device in range(len(g.running)):
        if g.running[device] > 0:
            least = min(least, busy_until(s, g, device))
        elif g.head[device] < g.tail[device]:
            least = min(least, done_after(p, s, g, g.queue[g.head[device]], device, g.clock[0]))
    return float(least if least < np.inf else g.clock[0] + otherwise)


@step
def show_completion(b: DispatchState, seen: DispatchObservation, lane: int, compared: int) -> None:
    """Write completion, flow and regret of the legal actions.

    Args:
        b: of all lanes.
        seen: of all lanes.
        lane: number of the lane.
        compared: number of actions, from the first on, whose least completion regrets are relative to. Without
            roll-outs this leaves out waiting, whose bound is not an estimate.
    """
    best = np.inf
    for action in range(compared):
        if seen.mask[lane, action]:
            best = min(best, b.completion[lane, action])
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            row = seen.candidates[lane, action]
            row[DispatchCandidateColumn.COMPLETION] = share(b.completion[lane, action], b.scale[lane])
            row[DispatchCandidateColumn.REGRET] = share(b.completion[lane, action] - best, b.scale[lane])
            row[DispatchCandidateColumn.FLOW] = share(b.flow[lane, action], b.scale[lane])


@lean
def complete(lanes: Int64Array, switches: Switches, active: BoolArray, tries: int) -> None:
    """Compute and write the completion and flow of each legal action in every active lane that is not over.

    Args:
        lanes: row of a :class:`~hetgym.envs.dispatch.state.DispatchRecord`.
        switches: of the runtime.
        active: [L] true for lanes that have taken a decision.
        tries: changes of the plan to try for each job that is left,
            :data:`~hetgym.envs.dispatch.improving.FIRST` times as many where operators are new, as before the first
            decision; without any there is no plan.
    """
    r = read_lanes(lanes)
    b, seen = r.state, r.observation
    for lane in range(len(active)):
        if not active[lane] or r.over[lane]:
            continue
        p, tables = read_problem(r.problems[lane]), read_tables(r.tables[lane])
        s, g, spare = read_state(r.states[lane]), read_run(r.runs[lane]), read_rollouts(r.spares[lane])
        survey(p, s, g, tables.order, tables.release, tables.job, spare)
        wait, best = seen.mask.shape[1] - 1, -1
        due = (
            _next_event(g)
            if tries == 0
            else _next_finish(p, s, g, tables.rank[max(0, seen.candidate_operators[lane, 0])])
        )
        for action in range(wait + 1):
            if seen.mask[lane, action]:
                operator, device = _decision(seen, lane, action)
                completion, flow = _better(p, tables, g, spare, switches, operator, device, due)
                b.completion[lane, action], b.flow[lane, action] = completion, flow
                if best < 0 or _worth(b, lane, action) < _worth(b, lane, best):
                    best = action
        if tries > 0 and best >= 0:
            plan = read_plan(r.plans[lane])
            operator, device = _decision(seen, lane, best)
            effort = tries * FIRST if refresh(tables, g, plan) else tries
            effort *= jobs_left(tables, plan)
            _renew(p, tables, g, spare, plan, switches, operator, device, due)
            improve(p, tables, g, spare, plan, switches, effort)
            for action in range(wait + 1):
                if seen.mask[lane, action]:
                    operator, device = _decision(seen, lane, action)
                    end, flow = follow(p, tables, g, spare, plan, switches, operator, device, due)
                    if end + FLOW * flow < _worth(b, lane, action):
                        b.completion[lane, action], b.flow[lane, action] = end, flow
        show_completion(b, seen, lane, wait + 1)


@step
def _decision(seen: DispatchObservation, lane: int, action: int) -> tuple[int, int]:
    """The operator and the device that an action stands for; :data:`~hetgym.envs.dispatch.plans.NOTHING` to wait."""
    width = seen.devices.shape[1]
    if action == seen.mask.shape[1] - 1:
        return NOTHING, 0
    return int(seen.candidate_operators[lane, action // width]), action % width


@step
def _worth(b: DispatchState, lane: int, action: int) -> float:
    """What the best roll-out behind an action is compared by: completion and flow [s]; less is better."""
    return float(b.completion[lane, action] + FLOW * b.flow[lane, action])


@step
def _renew(
    p: ProblemArrays,
    tables: DispatchTables,
    g: Progress,
    spare: Rollouts,
    plan: Plan,
    switches: Switches,
    operator: int,
    device: int,
    due: float,
) -> None:
    """Replace a plan, which is up to date, by one of the two roll-outs after a decision if that is better."""
    for by_rank in range(2):
        keep(plan)
        before = judge(p, tables, g, spare, plan, switches)
        _play_on(p, tables, spare, switches, operator, device, due, by_rank, np.inf)
        adopt(spare.later, plan)
        if not judge(p, tables, g, spare, plan, switches) < before:
            take_back(plan)


@step
def _better(
    p: ProblemArrays,
    tables: DispatchTables,
    g: Progress,
    spare: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    due: float,
) -> tuple[float, float]:
    """Completion and flow of a decision [s]: the better of two roll-outs, one by order of opening and one by rank.

    Args:
        p: the problem.
        tables: of the episode.
        g: the run.
        spare: scratch, surveyed.
        switches: of the runtime.
        operator: the operator that the decision commits; -1 to wait.
        device: its device; not read when waiting.
        due: time until which waiting lasts [s].
    """
    completion, flow = np.inf, np.inf
    for by_rank in range(2):
        other, slower = _play_on(p, tables, spare, switches, operator, device, due, by_rank, completion)
        if other < completion:
            completion, flow = other, slower
    return completion, flow


@step
def _play_on(
    p: ProblemArrays,
    tables: DispatchTables,
    spare: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    due: float,
    by_rank: int,
    limit: float,
) -> tuple[float, float]:
    """Play one of the two roll-outs after a decision, up to a limit."""
    order, job, bonus, optimistic = tables.turn, tables.job, tables.bonus, tables.optimistic
    return play_on(p, order, job, bonus, optimistic, spare, switches, operator, device, due, by_rank == 1, limit)
