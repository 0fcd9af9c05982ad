"""The dynamics of ``mode="dispatch"``: the agent is the scheduler of a run that goes on.

Whenever operators are ready the agent names one of them and a device, or waits. Time is that of
:mod:`hetgym.sim.live`: transfers, contention, noise, late jobs, slow-downs and losses are the
simulator's. One call of :func:`dispatch` takes a decision in every lane and writes what the agents
see next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import _records as records
from hetgym._jit import lean, step
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.envs.dispatch.rollouts import Rollouts, play_on, read_rollouts, survey
from hetgym.envs.place.dynamics import CLIP, PROBLEM, feature
from hetgym.problem import ProblemArrays
from hetgym.sim import live
from hetgym.sim.fair import Flows, new_flows
from hetgym.sim.kernel import FAIR, State, Switches, new_state


class Task(NamedTuple):
    """What a kernel needs to know of one episode besides the problem and the run.

    Attributes:
        order: [n] operators by falling priority, which is that of the candidates.
        rank: [n] upward rank [s].
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        tail: [n, d] proven least time from the operator's finish to the end [s].
        bonus: [n, d] what the completion adds to finish times when it compares devices [s].
        turn: [n] position of each operator in ``order``.
        release: [n] when each operator becomes known [s].
        known: [n] whether its row is shown.
        operators, costs: [N, 12], [N, D] rows of the operators, as they are shown when they are known.
        edges, transfer: [2, E], [E] likewise the edges.
    """

    order: IntArray
    rank: FloatArray
    optimistic: FloatArray
    tail: FloatArray
    bonus: FloatArray
    turn: IntArray
    release: FloatArray
    known: BoolArray
    operators: npt.NDArray[np.float32]
    costs: npt.NDArray[np.float32]
    edges: npt.NDArray[np.int64]
    transfer: npt.NDArray[np.float32]


class Desk(NamedTuple):
    """The state of the episodes, apart from their runs.

    Attributes:
        turn: [L] decisions so far.
        reference, scale: [L] see :class:`hetgym.envs.place.dynamics.Board`.
        bound: [L] the least makespan that what is committed seems to allow [s].
        potential: [L] estimate of the makespan that rewards are differences of [s]: the reference at the
            start, the bound on the way, the makespan at the end.
        ready, start, finish: [L, D] scratch: estimates for one candidate [s].
        ends, ahead: [L, K * D] finish and bound of each decision [s].
        completion: [L, K * D + 1] makespan if list scheduling followed; of waiting at last [s].
        flow: [L, K * D + 1] mean over what is left of finish and optimistic cost to the exit then [s].
    """

    turn: npt.NDArray[np.int64]
    reference: FloatArray
    scale: FloatArray
    bound: FloatArray
    potential: FloatArray
    ready: FloatArray
    start: FloatArray
    finish: FloatArray
    ends: FloatArray
    ahead: FloatArray
    completion: FloatArray
    flow: FloatArray


def new_desk(lanes: int, candidates: int, devices: int) -> Desk:
    """An empty desk."""
    per_lane = [np.zeros(lanes) for _ in range(4)]
    per_device = [np.zeros((lanes, devices)) for _ in range(3)]
    per_action = [np.zeros((lanes, candidates * devices + wait)) for wait in (0, 0, 1, 1)]
    return Desk(np.zeros(lanes, np.int64), *per_lane, *per_device, *per_action)


class View(NamedTuple):
    """Observations; see :mod:`hetgym.envs.place.observation`. Where nobody sees the graph, N and E are 0.

    Attributes:
        operators: [L, N, 12].
        costs: [L, N, D].
        assignment: [L, N].
        edges, edge_transfer: [L, 2, E], [L, E].
        operator_mask, edge_mask: [L, N], [L, E].
        devices: [L, D, 8].
        candidates: [L, K * D + 1, 13].
        candidate_operators: [L, K].
        now: [L, 1].
        mask: [L, K * D + 1].
    """

    operators: npt.NDArray[np.float32]
    costs: npt.NDArray[np.float32]
    assignment: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    edge_transfer: npt.NDArray[np.float32]
    operator_mask: npt.NDArray[np.int8]
    edge_mask: npt.NDArray[np.int8]
    devices: npt.NDArray[np.float32]
    candidates: npt.NDArray[np.float32]
    candidate_operators: npt.NDArray[np.int64]
    now: npt.NDArray[np.float32]
    mask: npt.NDArray[np.int8]


def new_run(
    p: ProblemArrays, switches: Switches, factor: FloatArray, changed: IntArray, change: FloatArray
) -> tuple[State, live.Live, Flows]:
    """Allocate one run."""
    flows = new_flows(p, switches.communication == FAIR)
    flows.next[:] = -1
    return new_state(p), live.new_live(p, switches.streams, factor, changed, change), flows


def _examples() -> tuple[State, live.Live, Flows, Task]:
    p, switches = PROBLEM, Switches(0, 0, 0.0, 1, 0.0, False)
    state, run, flows = new_run(p, switches, np.ones(1), np.zeros(0, np.int32), np.zeros(0))
    whole, table, number = np.ones(1), np.ones((1, 1)), np.zeros(1, np.int32)
    shown = np.zeros((1, 1), np.float32)
    task = Task(
        number, whole, table, table, table, number, whole, np.ones(1, np.bool_), shown, shown,
        np.zeros((2, 1), np.int64), np.zeros(1, np.float32),
    )  # fmt: skip
    return state, run, flows, task


STATE, LIVE, FLOWS, TASK = _examples()
"""Records of the kinds that lanes hold."""

_problem, _task = records.reader(PROBLEM), records.reader(TASK)
_state, _live, _flows = records.reader(STATE), records.reader(LIVE), records.reader(FLOWS)


@lean
def dispatch(
    problems: npt.NDArray[np.int64], tasks: npt.NDArray[np.int64], states: npt.NDArray[np.int64],
    runs: npt.NDArray[np.int64], flows: npt.NDArray[np.int64], spares: npt.NDArray[np.int64], desk: Desk, view: View,
    switches: Switches, actions: npt.NDArray[np.int64], active: BoolArray, illegal: npt.NDArray[np.int64],
    reward: FloatArray, over: BoolArray, complete: bool, sparse: bool,
) -> None:  # fmt: skip
    """Take a decision in every active lane.

    Action ``k * D + d`` commits candidate k to device d, action ``K * D`` waits until something happens. What
    is no legal action becomes the first candidate's commitment to the device where it seems to finish first.

    Args:
        problems: [L, …] rows of records, as are the following.
        tasks: likewise.
        states: likewise.
        runs: likewise.
        flows: likewise.
        spares: likewise.
        desk: of all lanes.
        view: of all lanes.
        switches: of the runtime.
        actions: [L].
        active: [L] lanes that go on.
        illegal: [L] see :class:`hetgym.envs.core.lanes.Lanes`.
        reward: likewise.
        over: likewise.
        complete: whether the completion feature is computed.
        sparse: whether the whole return comes with the last reward.
    """
    for lane in range(len(actions)):
        if not active[lane]:
            continue
        p, task, s = _problem(problems[lane]), _task(tasks[lane]), _state(states[lane])
        g, f, spare = _live(runs[lane]), _flows(flows[lane]), read_rollouts(spares[lane])
        width = view.devices.shape[1]
        wait = view.mask.shape[1] - 1
        action = actions[lane]
        if action < 0 or action > wait or view.mask[lane, action] == 0:
            illegal[lane] += 1
            action = -1
            for other in range(width):
                if view.mask[lane, other] and (action < 0 or desk.ends[lane, other] < desk.ends[lane, action]):
                    action = other
        desk.turn[lane] += 1
        outcome = live.DECIDE
        if action == wait:
            outcome = live.advance(p, s, g, f, switches, True)
            if outcome == live.STUCK:
                outcome = live.advance(p, s, g, f, switches, False)
        else:
            operator = view.candidate_operators[lane, action // width]
            desk.bound[lane] = desk.ahead[lane, action]
            live.commit(p, s, g, f, operator, action % width, switches)
            if g.tally[0] == 0:
                outcome = live.advance(p, s, g, f, switches, False)
        over[lane] = outcome != live.DECIDE
        desk.bound[lane] = max(desk.bound[lane], g.clock[0])
        before = desk.potential[lane]
        makespan = 0.0
        if over[lane]:
            for i in range(len(g.status)):
                makespan = max(makespan, s.finish[i])
        desk.potential[lane] = makespan if over[lane] else desk.bound[lane]
        total = before - desk.potential[lane]
        if sparse:
            total = desk.reference[lane] - makespan if over[lane] else 0.0
        reward[lane] = total / desk.reference[lane] if desk.reference[lane] > 0 else 0.0
        _look(p, task, s, g, spare, desk, view, lane, switches, complete, over[lane])


@lean
def open_run(
    problems: npt.NDArray[np.int64], tasks: npt.NDArray[np.int64], states: npt.NDArray[np.int64],
    runs: npt.NDArray[np.int64], flows: npt.NDArray[np.int64], spares: npt.NDArray[np.int64], desk: Desk, view: View,
    switches: Switches, moments: FloatArray, lane: int, reference: float, complete: bool,
) -> bool:  # fmt: skip
    """Begin an episode in a lane whose records are fresh and in place.

    Returns:
        Whether anybody has to decide; without operators nobody has.
    """
    p, task, s = _problem(problems[lane]), _task(tasks[lane]), _state(states[lane])
    g, f, spare = _live(runs[lane]), _flows(flows[lane]), read_rollouts(spares[lane])
    live.begin(p, s, g, task.release, moments)
    outcome = live.advance(p, s, g, f, switches, False)
    desk.turn[lane] = 0
    desk.reference[lane] = reference
    desk.scale[lane] = 1.0 / reference if reference > 0 else 0.0
    desk.bound[lane] = g.clock[0]
    desk.potential[lane] = reference
    _look(p, task, s, g, spare, desk, view, lane, switches, complete, outcome != live.DECIDE)
    return outcome == live.DECIDE


@lean
def follow(
    p: ProblemArrays, s: State, g: live.Live, f: Flows, switches: Switches, order: IntArray, release: FloatArray,
    moments: FloatArray, scratch: FloatArray,
) -> float:  # fmt: skip
    """The makespan of a run in which the first open operator always goes where it seems to finish first [s].

    Args:
        p: the problem.
        s: of a fresh run; used up.
        g: likewise.
        f: likewise.
        switches: of the runtime.
        order: [n] operators by falling priority.
        release: [n] when each becomes known [s].
        moments: [c] when each change happens [s].
        scratch: [3, d].
    """
    live.begin(p, s, g, release, moments)
    outcome = live.advance(p, s, g, f, switches, False)
    while outcome == live.DECIDE:
        chosen = order[0]
        for i in order:
            if g.status[i] == live.OPEN:
                chosen = i
                break
        live.estimate(p, s, g, chosen, switches, scratch[0], scratch[1], scratch[2])
        best = 0
        for device in range(p.cost.shape[1]):
            if scratch[2, device] < scratch[2, best]:
                best = device
        live.commit(p, s, g, f, chosen, best, switches)
        if g.tally[0] == 0:
            outcome = live.advance(p, s, g, f, switches, False)
    makespan = 0.0
    for i in range(len(g.status)):
        makespan = max(makespan, s.finish[i])
    return makespan


@step
def _look(
    p: ProblemArrays, task: Task, s: State, g: live.Live, spare: Rollouts, desk: Desk, view: View, lane: int,
    switches: Switches, complete: bool, over: bool,
) -> None:  # fmt: skip
    """Write down what can be seen, and what each decision would lead to."""
    scale, now = desk.scale[lane], g.clock[0]
    d = p.cost.shape[1]
    width, wait = view.devices.shape[1], view.mask.shape[1] - 1
    view.now[lane, 0] = feature(now, scale)
    for device in range(d):
        _show_device(p, s, g, view, lane, device, scale, now)
    if view.operators.shape[1] > 0:
        _show_operators(p, task, s, g, view, lane, scale, now)
    for action in range(wait + 1):
        view.mask[lane, action] = 0
        for k in range(view.candidates.shape[2]):
            view.candidates[lane, action, k] = 0.0
    for k in range(view.candidate_operators.shape[1]):
        view.candidate_operators[lane, k] = -1
    if over:
        view.mask[lane, wait] = 1
        return
    count = 0
    for i in task.order:
        if g.status[i] == live.OPEN and count < view.candidate_operators.shape[1]:
            view.candidate_operators[lane, count] = i
            count += 1
    if complete:
        survey(p, s, g, task.release, spare.now)
    best = np.inf
    for k in range(count):
        operator = view.candidate_operators[lane, k]
        if view.operators.shape[1] > 0:
            view.operators[lane, operator, 9] = 1.0
        ready, start, finish = desk.ready[lane], desk.start[lane], desk.finish[lane]
        live.estimate(p, s, g, operator, switches, ready, start, finish)
        for device in range(d):
            action = k * width + device
            row = view.candidates[lane, action]
            row[9] = feature(task.rank[operator], scale)
            if finish[device] == np.inf:
                desk.ends[lane, action] = desk.ahead[lane, action] = desk.completion[lane, action] = np.inf
                for column in range(9):
                    row[column] = CLIP
                row[12] = CLIP
                continue
            ahead = max(desk.bound[lane], finish[device] + task.tail[operator, device])
            completion, flow = ahead, ahead
            if complete:
                completion, flow = _complete(p, task, g, spare, switches, operator, device, now)
            desk.ends[lane, action], desk.ahead[lane, action] = finish[device], ahead
            desk.completion[lane, action], desk.flow[lane, action] = completion, flow
            best = min(best, completion)
            view.mask[lane, action] = 1
            row[0] = feature(p.cost[operator, device] * g.slowdown[device], scale)
            row[1] = feature(ready[device] - now, scale)
            row[2] = feature(start[device] - now, scale)
            row[3] = feature(finish[device] - now, scale)
            row[4] = feature(start[device] - ready[device], scale)
            row[5] = feature(task.optimistic[operator, device], scale)
            row[6] = feature(ahead, scale)
            row[7] = feature(completion, scale)
            row[12] = feature(flow, scale)
    following = g.events.key[0, 0] if g.events.size[0] > 0 else now
    waiting = g.events.size[0] > 0
    for device in range(d):
        waiting = waiting or g.running[device] > 0 or g.head[device] < g.tail[device]
    view.mask[lane, wait] = waiting
    if waiting:
        completion, flow = desk.bound[lane], desk.bound[lane]
        if complete:
            completion, flow = _complete(p, task, g, spare, switches, -1, 0, following)
            best = min(best, completion)
        desk.completion[lane, wait], desk.flow[lane, wait] = completion, flow
        row = view.candidates[lane, wait]
        row[6] = feature(desk.bound[lane], scale)
        row[7] = feature(completion, scale)
        row[8] = feature(completion - best, scale)
        row[11] = feature(following - now, scale)
        row[12] = feature(flow, scale)
    view.candidates[lane, wait, 10] = 1.0
    for k in range(count):
        for device in range(d):
            action = k * width + device
            if view.mask[lane, action]:
                view.candidates[lane, action, 8] = feature(desk.completion[lane, action] - best, scale)


@step
def _complete(
    p: ProblemArrays, task: Task, g: live.Live, spare: Rollouts, switches: Switches, operator: int, device: int,
    wait: float,
) -> tuple[float, float]:  # fmt: skip
    """Completion and flow of a decision: of operators committed as they open or by rank, what ends earlier [s]."""
    makespan, flow = play_on(
        p, g, task.turn, task.bonus, task.optimistic, spare, switches, operator, device, wait, False
    )  # fmt: skip
    other, slower = play_on(
        p, g, task.turn, task.bonus, task.optimistic, spare, switches, operator, device, wait, True
    )  # fmt: skip
    return (other, slower) if other < makespan else (makespan, flow)


@step
def _show_device(
    p: ProblemArrays, s: State, g: live.Live, view: View, lane: int, device: int, scale: float, now: float
) -> None:  # fmt: skip
    busy, committed = 0.0, 0
    for i in range(len(g.status)):
        if g.assignment[i] == device:
            committed += 1
            busy += p.cost[i, device]
    total = 0
    for i in range(len(g.status)):
        total += g.assignment[i] >= 0
    row = view.devices[lane, device]
    row[0] = feature(busy, scale)
    row[1] = feature(_free(p, s, g, device, now) - now, scale)
    row[2] = committed / max(1, total)
    row[4] = min(g.tail[device] - g.head[device], 80) / 8
    row[5] = min(g.running[device], 80) / 8
    row[6] = g.alive[device]
    row[7] = min(g.slowdown[device], CLIP)


@step
def _free(p: ProblemArrays, s: State, g: live.Live, device: int, now: float) -> float:
    """When a device would be done with what was committed to it, one after the other [s]."""
    free = max(now, s.free[device]) if g.running[device] > 0 else now
    for k in range(g.head[device], g.tail[device]):
        queued = g.queue[device, k]
        free = max(free, s.ready[queued]) + p.cost[queued, device] * g.slowdown[device]
    return free


@step
def _show_operators(
    p: ProblemArrays, task: Task, s: State, g: live.Live, view: View, lane: int, scale: float, now: float
) -> None:
    """Rows of the operators that are known by now, and the edges between them."""
    news = False
    for i in range(len(g.status)):
        if not task.known[i] and task.release[i] <= now:
            task.known[i] = news = True
            view.operator_mask[lane, i] = 1
            for k in range(task.operators.shape[1]):
                view.operators[lane, i, k] = task.operators[i, k]
            for device in range(task.costs.shape[1]):
                view.costs[lane, i, device] = task.costs[i, device]
        view.operators[lane, i, 9] = 0.0
        committed = g.assignment[i] >= 0
        started = g.status[i] >= live.RUNNING
        view.assignment[lane, i] = g.assignment[i] if committed else -1
        view.operators[lane, i, 8] = committed
        view.operators[lane, i, 10] = feature(s.start[i], scale) if started else 0.0
        view.operators[lane, i, 11] = feature(s.finish[i], scale) if started else 0.0
    if news:
        for edge in range(len(p.successor)):
            if task.known[p.edge_source[edge]] and task.known[p.successor[edge]]:
                view.edge_mask[lane, edge] = 1
                view.edges[lane, 0, edge] = task.edges[0, edge]
                view.edges[lane, 1, edge] = task.edges[1, edge]
                view.edge_transfer[lane, edge] = task.transfer[edge]
