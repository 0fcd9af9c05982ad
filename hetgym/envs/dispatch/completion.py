"""The completion of a decision of HetDispatch-v0: the end of the run by the best roll-out from there on.

Two roll-outs by list scheduling follow each decision, and a plan where the environment keeps one.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._kernels.threads import done, take
from hetgym._types import Int64Array
from hetgym.envs.dispatch.candidates import next_event, show_completion
from hetgym.envs.dispatch.dynamics import dispatch_one
from hetgym.envs.dispatch.improving import FIRST, MANY, improve
from hetgym.envs.dispatch.plans import FLOW, NOTHING, adopt, jobs_left, judge, keep, refresh, take_back
from hetgym.envs.dispatch.plans import follow as follow_plan
from hetgym.envs.dispatch.rollouts import Rollouts, play_on, read_rollouts, survey
from hetgym.envs.dispatch.state import (
    DispatchObservation,
    DispatchRecord,
    DispatchState,
    DispatchTables,
    Plan,
    read_lanes,
    read_plan,
    read_problem,
    read_run,
    read_state,
    read_tables,
)
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import busy_until, done_after
from hetgym.sim.kernel import State, Switches
from hetgym.sim.progress import Progress, Sharing


# Plans are a kernel of their own, which takes twice as long to compile; whoever keeps none does not need it. Both play
# the reference, too, so that one event loop is compiled for an environment, not two.
@lean
def dispatch_and_complete(
    lanes: Int64Array,
    kind: Sharing | None,
    switches: Switches,
    actions: Int64Array,
    shared: Int64Array,
    follow: bool,
    sparse: bool,
) -> None:
    """As :func:`~hetgym.envs.dispatch.dynamics.dispatch`, and write completion and flow of each legal next action."""
    r = read_lanes(lanes)
    lane = take(shared)
    while lane >= 0:
        dispatch_one(r, kind, switches, lane, actions[lane], follow, sparse)
        if not (follow or r.over[lane]):
            _complete(r, switches, lane, next_event(read_run(r.runs[lane])))
            show_completion(r.state, r.observation, lane, r.observation.mask.shape[1])
        done(shared)
        lane = take(shared)


@lean
def dispatch_and_plan(
    lanes: Int64Array,
    kind: Sharing | None,
    switches: Switches,
    actions: Int64Array,
    shared: Int64Array,
    follow: bool,
    sparse: bool,
    tries: int,
) -> None:
    """As :func:`dispatch_and_complete` with a plan as a third roll-out.

    Args:
        tries: changes of the plan to try for each job that is left, :data:`~hetgym.envs.dispatch.improving.FIRST` times
            as many where operators are new, as before the first decision.
    """
    r = read_lanes(lanes)
    lane = take(shared)
    while lane >= 0:
        dispatch_one(r, kind, switches, lane, actions[lane], follow, sparse)
        if not (follow or r.over[lane]):
            _plan(r, switches, lane, tries)
            show_completion(r.state, r.observation, lane, r.observation.mask.shape[1])
        done(shared)
        lane = take(shared)


@step
def _complete(r: DispatchRecord, switches: Switches, lane: int, due: float) -> int:
    """Write completion and flow of each legal action in a lane, by list scheduling; the action of the best one.

    Waiting lasts until ``due`` [s].
    """
    board, seen = r.state, r.observation
    p, tables = read_problem(r.problems[lane]), read_tables(r.tables[lane])
    s, run, spare = read_state(r.states[lane]), read_run(r.runs[lane]), read_rollouts(r.spares[lane])
    survey(p, tables, s, run, spare)
    best = -1
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            operator, device = _decision(seen, lane, action)
            completion, flow = _better(p, tables, spare, switches, operator, device, due)
            board.completion[lane, action], board.flow[lane, action] = completion, flow
            if best < 0 or _worth(board, lane, action) < _worth(board, lane, best):
                best = action
    return best


@step
def _plan(r: DispatchRecord, switches: Switches, lane: int, tries: int) -> None:
    """As :func:`_complete`; then improve the plan, and write what it gives where that is better."""
    board, seen = r.state, r.observation
    p, tables = read_problem(r.problems[lane]), read_tables(r.tables[lane])
    s, run, spare = read_state(r.states[lane]), read_run(r.runs[lane]), read_rollouts(r.spares[lane])
    due = _next_finish(p, s, run, tables.rank[max(0, seen.candidate_operators[lane, 0])])
    best = _complete(r, switches, lane, due)
    if best < 0:
        return
    plan = read_plan(r.plans[lane])
    operator, device = _decision(seen, lane, best)
    first = refresh(tables, run, plan)
    effort = tries * jobs_left(tables, plan)
    effort = effort * FIRST if first else min(effort, effort * MANY // max(1, plan.many[0]))
    _renew(p, tables, run, spare, plan, switches, operator, device, due)
    improve(p, tables, run, spare, plan, switches, effort)
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            operator, device = _decision(seen, lane, action)
            end, flow = follow_plan(p, tables, run, spare, plan, switches, operator, device, due)
            if end + FLOW * flow < _worth(board, lane, action):
                board.completion[lane, action], board.flow[lane, action] = end, flow


@step
def _next_finish(p: ProblemArrays, s: State, run: Progress, otherwise: float) -> float:
    """Estimated time of the next finish of an operator [s], until which waiting lasts if nothing else happens.

    Where nothing runs or is queued, waiting would last until a job arrives or a device changes, which is unknown:
    the current time plus ``otherwise`` [s], which should be long.
    """
    least = np.inf
    for device in range(len(run.running)):
        if run.running[device] > 0:
            least = min(least, busy_until(s, run, device))
        elif run.head[device] < run.tail[device]:
            least = min(least, done_after(p, s, run, run.queue[run.head[device]], device, run.clock[0]))
    return float(least if least < np.inf else run.clock[0] + otherwise)


@step
def _decision(seen: DispatchObservation, lane: int, action: int) -> tuple[int, int]:
    """The operator and the device that an action stands for; :data:`~hetgym.envs.dispatch.plans.NOTHING` to wait."""
    width = seen.devices.shape[1]
    if action == seen.mask.shape[1] - 1:
        return NOTHING, 0
    return int(seen.candidate_operators[lane, action // width]), action % width


@step
def _worth(board: DispatchState, lane: int, action: int) -> float:
    """What the best roll-out behind an action is compared by: completion and flow [s]; less is better."""
    return float(board.completion[lane, action] + FLOW * board.flow[lane, action])


@step
def _renew(
    p: ProblemArrays,
    tables: DispatchTables,
    run: Progress,
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
        before = judge(p, tables, run, spare, plan, switches)
        play_on(p, tables, spare, switches, operator, device, due, by_rank == 1, np.inf)
        adopt(spare.later, plan)
        if not judge(p, tables, run, spare, plan, switches) < before:
            take_back(plan)


@step
def _better(
    p: ProblemArrays,
    tables: DispatchTables,
    spare: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    due: float,
) -> tuple[float, float]:
    """Completion and flow of a decision [s]: the better of two roll-outs, one by order of opening and one by rank.

    Args:
        spare: scratch, surveyed.
        operator: the operator that the decision commits; -1 to wait.
        due: time until which waiting lasts [s].
    """
    completion, flow = np.inf, np.inf
    for by_rank in range(2):
        other, slower = play_on(p, tables, spare, switches, operator, device, due, by_rank == 1, completion)
        if other < completion:
            completion, flow = other, slower
    return completion, flow
