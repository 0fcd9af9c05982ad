"""The dynamics of ``mode="place"``: operators come one by one, an action names a device.

Operators come in the order of their upward rank. A decision books the current one on a device at the
time that HEFT's rule gives; the decoded schedule is then simulated under the environment's runtime.
One call of :func:`place` takes a decision in every lane and writes what the agents see next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import _records as records
from hetgym import metrics
from hetgym._jit import lean, step
from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.baselines import critical_path_bound, heft
from hetgym.errors import unknown_name
from hetgym.planning import decode, list_scheduling, ranks, timeline
from hetgym.planning.intervals import last_end
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, simulate

DECODES = (*decode.DECODES, "best")
"""How the final placement becomes a schedule; ``best`` takes the shortest of the others."""

COMPLETIONS = ("off", "eft", "eft+oct")
"""What finishes the job in the completion feature: nothing, earliest finish, or the same plus PEFT's
optimistic cost."""

MEMORY = ("ignore", "mask")
"""Whether devices whose capacity a decision would surely exceed are masked."""

CLIP = 10.0
"""Upper bound of every feature; costs of devices that cannot run an operator stand here."""


@dataclass(frozen=True)
class Rules:
    """What an episode is played by.

    Attributes:
        runtime: the simulated runtime that prices the final schedule.
        decode: one of :data:`DECODES`.
        completion: one of :data:`COMPLETIONS`.
        memory: one of :data:`MEMORY`.
    """

    runtime: Runtime
    decode: str = "insertion"
    completion: str = "eft+oct"
    memory: str = "ignore"

    def __post_init__(self) -> None:
        for what, known in (("decode", DECODES), ("completion", COMPLETIONS), ("memory", MEMORY)):
            if getattr(self, what) not in known:
                raise unknown_name(what, getattr(self, what), known)


class Plan(NamedTuple):
    """What a kernel needs to know of a problem besides its arrays.

    Attributes:
        order: [n] operators as they are decided.
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        tail: [n, d] proven least time from the operator's finish to the end [s].
        bonus: [n, d] what the completion adds to finish times when it compares devices [s].
        free: [n] -1: no operator's device is fixed.
        weights: [n] bytes that stay on the operator's device.
        working: [n] bytes of its inputs and outputs.
        capacity: [d] memory of each device [byte]; inf where it is not looked at.
    """

    order: IntArray
    optimistic: FloatArray
    tail: FloatArray
    bonus: FloatArray
    free: IntArray
    weights: FloatArray
    working: FloatArray
    capacity: FloatArray


class Context(NamedTuple):
    """What episodes need to know of their problem; computed once a problem.

    Attributes:
        problem: the problem.
        plan: what the kernel sees of what follows.
        upward, downward: [n] ranks [s].
        reference: makespan of HEFT's schedule under the environment's runtime [s].
        alone: makespan of everything on the one best device, likewise [s].
        path: the critical path with every operator at its fastest [s].
    """

    problem: Problem
    plan: Plan
    upward: FloatArray
    downward: FloatArray
    reference: float
    alone: float
    path: float


def prepare(problem: Problem, rules: Rules) -> Context:
    """Compute a problem's context: ranks, cost tables and the reference makespan."""
    n, d = problem.num_operators, problem.num_devices
    upward = ranks.upward_rank(problem)
    optimistic = ranks.optimistic_cost(problem)
    working = problem.output_bytes.copy()
    np.add.at(working, problem.edge_target, problem.edge_bytes)
    plan = Plan(
        order=ranks.list_order(problem.arrays, upward),
        optimistic=optimistic,
        tail=ranks.least_cost_to_exit(problem),
        bonus=optimistic if rules.completion == "eft+oct" else np.zeros((n, d)),
        free=np.full(n, -1, np.int32),
        weights=problem.weight_bytes,
        working=working,
        capacity=problem.memory_capacity if rules.memory == "mask" else np.full(d, np.inf),
    )
    return Context(
        problem, Plan._make(frozen(np.ascontiguousarray(array)) for array in plan), upward,
        ranks.downward_rank(problem),
        reference=simulate(problem, heft(problem), rules.runtime).makespan,
        alone=metrics.single_device_makespan(problem, rules.runtime),
        path=critical_path_bound(problem),
    )  # fmt: skip


class Board(NamedTuple):
    """The state of the episodes, apart from their timelines.

    Attributes:
        turn: [L] number of operators that are placed.
        reference: [L] see :class:`Context` [s].
        scale: [L] what a second is in the features: 1 / reference.
        bound: [L] proven lower bound on the makespan of what is placed [s].
        potential: [L] estimate of the makespan that rewards are differences of [s]: the reference at the
            start, the bound on the way, the makespan at the end.
        last: [L] finish of the last placed operator [s].
        start, finish, ahead, completion: [L, D] of the current operator on each device: when it would
            start and finish, and the bound and the completion after it [s]; inf where it cannot run.
        busy: [L, D] summed run time of what is placed [s].
        held, peak: [L, D] weights that are placed, and the largest working set [byte].
        log: [L, N] actions as they came.
    """

    turn: npt.NDArray[np.int64]
    reference: FloatArray
    scale: FloatArray
    bound: FloatArray
    potential: FloatArray
    last: FloatArray
    start: FloatArray
    finish: FloatArray
    ahead: FloatArray
    completion: FloatArray
    busy: FloatArray
    held: FloatArray
    peak: FloatArray
    log: npt.NDArray[np.int64]


def new_board(lanes: int, operators: int, devices: int) -> Board:
    """An empty board."""
    per_lane = [np.zeros(lanes) for _ in range(5)]
    per_device = [np.zeros((lanes, devices)) for _ in range(7)]
    log = np.zeros((lanes, operators), np.int64)
    return Board._make([np.zeros(lanes, np.int64), *per_lane, *per_device, log])


class Seen(NamedTuple):
    """What changes in observations from step to step; see :mod:`hetgym.envs.place.observation`.

    Attributes:
        operators: [L, N, 12], or [L, 0, 12] where nobody sees the graph.
        assignment: [L, N], or [L, 0].
        devices: [L, D, 4].
        candidates: [L, D, 9].
        current: [L, 1].
        mask: [L, D].
    """

    operators: npt.NDArray[np.float32]
    assignment: npt.NDArray[np.int64]
    devices: npt.NDArray[np.float32]
    candidates: npt.NDArray[np.float32]
    current: npt.NDArray[np.int64]
    mask: npt.NDArray[np.int8]


def _examples() -> tuple[ProblemArrays, Plan, timeline.Timeline]:
    problem = Problem.from_arrays(np.ones((1, 1)), [])
    n, d = problem.cost.shape
    whole, row = np.ones(n), np.ones(d)  # of the types that other callers of the timeline pass
    table, number = np.ones((n, d)), np.zeros(n, np.int32)
    plan = Plan(number, table, table, table, number, whole, whole, row)
    return problem.arrays, plan, timeline.new_timeline(n, d)


PROBLEM, PLAN, TIMELINE = _examples()
"""Records of the kinds that lanes hold."""

_problem, _plan, _timeline = records.reader(PROBLEM), records.reader(PLAN), records.reader(TIMELINE)


@step
def feature(seconds: float, scale: float) -> float:
    """A time as a share of the reference, clipped; infinite ones stand at the clip."""
    return min(max(seconds * scale, 0.0), CLIP) if seconds < np.inf else CLIP


@lean
def place(
    problems: npt.NDArray[np.int64], plans: npt.NDArray[np.int64], placed: npt.NDArray[np.int64],
    spare: npt.NDArray[np.int64], board: Board, seen: Seen, actions: npt.NDArray[np.int64], active: BoolArray,
    illegal: npt.NDArray[np.int64], reward: FloatArray, over: BoolArray, insertion: bool, complete: bool,
    sparse: bool,
) -> None:  # fmt: skip
    """Take a decision in every active lane.

    A lane whose last operator this places is over; its reward is what the classic model says, where
    the plan is the run. What is no legal action is replaced by the legal device on which the operator
    finishes first, the smaller number on ties.

    Args:
        problems: [L, …] rows of records: each lane's problem,
        plans: its plan,
        placed: its timeline,
        spare: and another one as scratch.
        board: of all lanes.
        seen: of all lanes.
        actions: [L] devices.
        active: [L] lanes that go on.
        illegal: [L] see :class:`hetgym.envs.core.lanes.Lanes`.
        reward: likewise.
        over: likewise.
        insertion: whether idle gaps are filled.
        complete: whether the completion feature is computed.
        sparse: whether the whole return comes with the last reward.
    """
    for lane in range(len(actions)):
        if not active[lane]:
            continue
        p, plan, t = _problem(problems[lane]), _plan(plans[lane]), _timeline(placed[lane])
        turn = board.turn[lane]
        operator, device = plan.order[turn], actions[lane]
        board.log[lane, turn] = device
        if device < 0 or device >= p.cost.shape[1] or seen.mask[lane, device] == 0:
            illegal[lane] += 1
            device = -1
            for other in range(p.cost.shape[1]):
                better = device < 0 or board.finish[lane, other] < board.finish[lane, device]
                if seen.mask[lane, other] and better:
                    device = other
        start, finish = board.start[lane, device], board.finish[lane, device]
        timeline.book(p, t, operator, device, start)
        board.turn[lane] = turn + 1
        board.last[lane] = max(board.last[lane], finish)
        board.bound[lane] = board.ahead[lane, device]
        board.busy[lane, device] += finish - start
        board.held[lane, device] += plan.weights[operator]
        board.peak[lane, device] = max(board.peak[lane, device], plan.working[operator])
        over[lane] = turn + 1 == len(plan.order)
        before = board.potential[lane]
        board.potential[lane] = board.last[lane] if over[lane] else board.bound[lane]
        total = before - board.potential[lane]
        if sparse:
            total = board.reference[lane] - board.last[lane] if over[lane] else 0.0
        reward[lane] = total / board.reference[lane] if board.reference[lane] > 0 else 0.0
        _show_placed(p, t, board, seen, lane, operator, device, start, finish)
        if not over[lane]:
            _look_ahead(p, plan, t, _timeline(spare[lane]), board, seen, lane, insertion, complete)
        else:
            _show_nothing(p, seen, lane)


@lean
def open_lane(
    problems: npt.NDArray[np.int64], plans: npt.NDArray[np.int64], placed: npt.NDArray[np.int64],
    spare: npt.NDArray[np.int64], board: Board, seen: Seen, lane: int, reference: float, insertion: bool,
    complete: bool,
) -> None:  # fmt: skip
    """Begin an episode in a lane whose rows and fixed observations are in place."""
    p, plan, t = _problem(problems[lane]), _plan(plans[lane]), _timeline(placed[lane])
    timeline.clear(t)
    board.turn[lane] = 0
    board.reference[lane] = reference
    board.scale[lane] = 1.0 / reference if reference > 0 else 0.0
    board.bound[lane] = 0.0
    board.potential[lane] = reference
    board.last[lane] = 0.0
    for device in range(board.busy.shape[1]):
        board.busy[lane, device] = board.held[lane, device] = board.peak[lane, device] = 0.0
        seen.mask[lane, device] = 0
        for k in range(seen.candidates.shape[2]):
            seen.candidates[lane, device, k] = 0.0
        for k in range(3):
            seen.devices[lane, device, k] = 0.0
    _look_ahead(p, plan, t, _timeline(spare[lane]), board, seen, lane, insertion, complete)


@step
def _show_placed(
    p: ProblemArrays, t: timeline.Timeline, board: Board,
    seen: Seen, lane: int, operator: int, device: int, start: float,
    finish: float,
) -> None:  # fmt: skip
    """Write what a decision changed into the observation."""
    scale = board.scale[lane]
    if seen.operators.shape[1] > 0:
        seen.operators[lane, operator, 8] = 1.0
        seen.operators[lane, operator, 9] = 0.0
        seen.operators[lane, operator, 10] = feature(start, scale)
        seen.operators[lane, operator, 11] = feature(finish, scale)
        seen.assignment[lane, operator] = device
    seen.devices[lane, device, 0] = feature(board.busy[lane, device], scale)
    seen.devices[lane, device, 1] = feature(last_end(t.busy, device), scale)
    for other in range(p.cost.shape[1]):
        seen.devices[lane, other, 2] = t.busy.size[other] / board.turn[lane]


@step
def _show_nothing(p: ProblemArrays, seen: Seen, lane: int) -> None:
    """After the last decision there are no candidates; the mask stays, so that it never is empty."""
    for device in range(p.cost.shape[1]):
        for k in range(seen.candidates.shape[2]):
            seen.candidates[lane, device, k] = 0.0


@step
def _look_ahead(
    p: ProblemArrays, plan: Plan, t: timeline.Timeline, spare: timeline.Timeline, board: Board, seen: Seen, lane: int,
    insertion: bool, complete: bool,
) -> None:  # fmt: skip
    """Find out what each device would lead to for the current operator, and write it down."""
    turn, scale = board.turn[lane], board.scale[lane]
    operator, devices = plan.order[turn], p.cost.shape[1]
    seen.current[lane, 0] = operator
    if seen.operators.shape[1] > 0:
        seen.operators[lane, operator, 9] = 1.0
    legal, room, roomiest = 0, -np.inf, -1
    best = np.inf
    for device in range(devices):
        duration = p.cost[operator, device]
        seen.mask[lane, device] = 0
        if duration == np.inf:
            board.start[lane, device] = board.finish[lane, device] = np.inf
            board.ahead[lane, device] = board.completion[lane, device] = np.inf
            for k in range(seen.candidates.shape[2]):
                seen.candidates[lane, device, k] = CLIP
            continue
        ready = timeline.data_ready(p, t, operator, device)
        start = timeline.earliest_start(t, device, ready, duration, insertion)
        finish = start + duration
        ahead = max(board.bound[lane], finish + plan.tail[operator, device])
        completion = ahead
        if complete:
            timeline.copy_into(t, spare)
            timeline.book(p, spare, operator, device, start)
            rest = list_scheduling.place_in_order(p, spare, plan.order[turn + 1 :], plan.free, plan.bonus, insertion)
            completion = max(board.last[lane], max(finish, rest))
        board.start[lane, device], board.finish[lane, device] = start, finish
        board.ahead[lane, device], board.completion[lane, device] = ahead, completion
        row = seen.candidates[lane, device]
        row[0] = feature(duration, scale)
        row[1] = feature(ready, scale)
        row[2] = feature(start, scale)
        row[3] = feature(finish, scale)
        row[4] = feature(start - ready, scale)
        row[5] = feature(plan.optimistic[operator, device], scale)
        row[6] = feature(ahead, scale)
        row[7] = feature(completion, scale)
        best = min(best, completion)
        need = board.held[lane, device] + plan.weights[operator]
        left = plan.capacity[device] - need - max(board.peak[lane, device], plan.working[operator])
        if left >= 0:
            seen.mask[lane, device] = 1
            legal += 1
        if left > room or roomiest < 0:
            room, roomiest = left, device
    if legal == 0:
        seen.mask[lane, roomiest] = 1
    for device in range(devices):
        if p.cost[operator, device] < np.inf:
            seen.candidates[lane, device, 8] = feature(board.completion[lane, device] - best, scale)


def decoded(context: Context, rules: Rules, placed: timeline.Timeline) -> tuple[Schedule, float]:
    """The schedule of a finished episode, and its makespan under the rules' runtime [s].

    Of equal decodes the first in :data:`DECODES` wins.
    """
    best: tuple[Schedule, float] | None = None
    for how in decode.DECODES if rules.decode == "best" else (rules.decode,):
        schedule = decode.decode_placement(context.problem, placed.assignment, how)
        makespan = simulate(context.problem, schedule, rules.runtime).makespan
        if best is None or makespan < best[1]:
            best = schedule, makespan
    assert best is not None
    return replace(best[0], scheduler="agent"), best[1]
