r"""Decisions during a run that follow the outputs of a network, greedily or by draws.

The network says what it says for :mod:`hetgym.agents.lists.decoder`, and weights of :class:`OnlineFeature`. Of the
operators that may be committed, one is taken by the softmax of priorities, and committed to a device by the softmax of
:math:`-z_{id} / \tau_i`, with :math:`z` as there from the finishes that the run estimates now.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.draws import Draws
from hetgym._kernels.heap import push
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, FloatArray, Int64Array, IntArray
from hetgym.agents.lists.decoder import DeviceFeature, chances, differentiate, drawn, look_around, soften
from hetgym.envs.core.features import Column
from hetgym.envs.dispatch.state import read_lanes, read_problem, read_run, read_state
from hetgym.planning.ranks import list_order, upward_rank
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim.decisions import GO_ON, WAIT, backlog, estimate, play
from hetgym.sim.kernel import State, Switches
from hetgym.sim.loop import DECIDE
from hetgym.sim.progress import CHANGE, EVENTS, OPEN, RELEASE, Progress, Sharing, clear, open_up


class OnlineFeature(Column):
    """Further features of a device for the operator that may be committed to it.

    In a row they follow those of :class:`~hetgym.agents.lists.decoder.DeviceFeature`, whose ``WAIT`` begins now here.
    """

    SLOWED = "factor", "by which the device takes longer, less 1"
    WANTED = "scale", "what the others offered would lose on their next best device, summed where it is their best"
    EXCESS = "scale", "by which finish and optimistic cost to an exit exceed those of all operators committed"
    DEMAND = "factor", "demand for the device, by its queue and the known operators that suit it, over the mean, less 1"


FIRST = len(DeviceFeature)  # column of the first OnlineFeature
COUNT = FIRST + len(OnlineFeature)
LIMIT = 20.0  # upper bound of the features
WHOLE = COUNT + 2
"""Outputs for each operator, bonuses aside: priority, weights, logarithm of the temperature."""


@record
class Desk(NamedTuple):
    """What the runs of one problem share, and scratch of one decision at a time."""

    outputs: FloatArray  # [n, d + WHOLE] of the network, the bonuses behind the priority
    scale: FloatArray  # [n] unit of time of each operator [s]
    tail: FloatArray  # [n, d] optimistic costs to an exit [s]
    communication: FloatArray  # [e] mean transfer times [s]
    suited: IntArray  # [n] device of least run time and optimistic cost to an exit
    release: FloatArray  # [n] time at which each operator becomes known [s]
    line: IntArray  # [n] operators by descending upward rank
    ready: IntArray  # [offered] operators that may be committed
    chance: FloatArray  # [offered] their probabilities
    arrival: FloatArray  # [offered, d] of the last input on each device [s]
    start: FloatArray  # [offered, d] start on each [s]
    finish: FloatArray  # [offered, d] finish on each [s]
    seen: FloatArray  # [d, COUNT] features of the devices
    score: FloatArray  # [d] z, then probability
    ends: FloatArray  # [d] end of the last operator on each [s]
    demand: FloatArray  # [d] time of each for its queue and for the known operators that suit it best [s]
    reach: FloatArray  # [1] latest finish and optimistic cost to an exit of the operators committed [s]


def new_desk(
    problem: Problem, outputs: FloatArray, scale: FloatArray, tail: FloatArray, release: FloatArray, offered: int
) -> Desk:
    """Allocate for runs with ``offered`` operators to choose from at a time; for the arrays see :class:`Desk`."""
    d = problem.num_devices
    arrival, start, finish = (np.zeros((offered, d)) for _ in range(3))
    return Desk(
        outputs=outputs,
        scale=scale,
        tail=tail,
        communication=np.array(problem.mean_communication),
        suited=np.argmin(problem.cost + tail, axis=1).astype(np.int32),
        release=np.array(release),
        line=list_order(problem.arrays, upward_rank(problem)),
        ready=np.zeros(offered, np.int32),
        chance=np.zeros(offered),
        arrival=arrival,
        start=start,
        finish=finish,
        seen=np.zeros((d, COUNT)),
        score=np.zeros(d),
        ends=np.zeros(d),
        demand=np.zeros(d),
        reach=np.zeros(1),
    )


_NONE = np.zeros((1, 1))
DESK = new_desk(Problem.from_arrays([[1.0]], []), _NONE, _NONE[0], _NONE, _NONE[0], 1)  # an example
read_desk = reader(DESK)


@lean
def play_runs(
    p: ProblemArrays,
    s: State,
    run: Progress,
    sharing: Sharing | None,
    switches: Switches,
    desk: Desk,
    release: FloatArray,
    moment: FloatArray,
    draws: Draws,
    greedy: bool,
    makespan: FloatArray,
    gradient: FloatArray,
) -> None:
    """Play runs from time 0 on, under equal conditions.

    Args:
        release: [n] time at which each operator becomes known [s].
        moment: [c] times of the run's changes [s].
        greedy: true for the most probable decisions.
        makespan: [K] filled in [s].
        gradient: [K, n, d + WHOLE] to which the gradients of log-probabilities are added; or [K, 0, 0].
    """
    for k in range(len(makespan)):
        _again(p, s, run, sharing, release, moment)
        desk.reach[0] = 0.0
        operator, device = GO_ON, 0
        while play(p, s, run, sharing, operator, device, switches) == DECIDE:
            count = _open(run, desk)
            operator, device = choose(p, s, run, switches, desk, count, draws, greedy, gradient[k])
        makespan[k] = 0.0
        for i in range(len(s.finish)):
            makespan[k] = max(makespan[k], s.finish[i])


@lean
def decide(
    lanes: Int64Array,
    desks: Int64Array,
    switches: Switches,
    active: BoolArray,
    draws: Draws,
    nothing: FloatArray,
    actions: Int64Array,
) -> None:
    """Fill in the most probable actions of active lanes of HetDispatch-v0.

    Args:
        lanes: the row of the lanes' record.
        desks: [L, row] rows of their desks.
        draws: not read.
        nothing: [0, 0].
        actions: [L].
    """
    r = read_lanes(lanes)
    offered, width = r.observation.candidate_operators, r.observation.devices.shape[1]
    for lane in range(len(active)):
        if not active[lane]:
            continue
        desk, count = read_desk(desks[lane]), 0
        while count < offered.shape[1] and offered[lane, count] >= 0:
            desk.ready[count] = offered[lane, count]
            count += 1
        p, s, run = read_problem(r.problems[lane]), read_state(r.states[lane]), read_run(r.runs[lane])
        operator, device = choose(p, s, run, switches, desk, count, draws, True, nothing)
        actions[lane] = r.observation.mask.shape[1] - 1
        for k in range(count):
            if offered[lane, k] == operator:
                actions[lane] = k * width + device


@step
def _again(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, release: FloatArray, moment: FloatArray
) -> None:
    """Return a run to time 0."""
    clear(p, s, run, sharing)
    for i in range(len(run.status)):
        run.missing[i] = s.waiting[i]
        if release[i] > 0.0:
            run.missing[i] += 1
            push(run.heaps, EVENTS, release[i], RELEASE + p.position[i])
        if run.missing[i] == 0:
            open_up(run, i)
    for device in range(len(run.head)):
        run.head[device] = run.tail[device] = run.pulled[device] = device * len(run.status)
    for c in range(len(moment)):
        push(run.heaps, EVENTS, moment[c], CHANGE + c)


@step
def _open(run: Progress, desk: Desk) -> int:
    """List the first operators in line that may be committed; their number."""
    count = 0
    for i in desk.line:
        if run.status[i] == OPEN:
            desk.ready[count] = i
            count += 1
            if count == len(desk.ready) or count == run.tally[0]:
                break
    return count


@step
def choose(
    p: ProblemArrays,
    s: State,
    run: Progress,
    switches: Switches,
    desk: Desk,
    count: int,
    draws: Draws,
    greedy: bool,
    gradient: FloatArray,
) -> tuple[int, int]:
    """One of the first ``count`` operators of ``ready``, and its device; or WAIT, if no device can run it."""
    for k in range(count):
        estimate(p, s, run, desk.ready[k], switches, desk.arrival[k], desk.start[k], desk.finish[k])
    at = 0
    for k in range(count):
        if desk.outputs[desk.ready[k], 0] > desk.outputs[desk.ready[at], 0]:
            at = k
    if not greedy:
        chances(desk, desk.outputs, count)
        at = drawn(desk.chance, count, draws.random())
    operator = int(desk.ready[at])
    device = _look(p, s, run, desk, count, at)
    if device < 0:
        return WAIT, 0
    if not greedy:
        out = desk.outputs[operator]
        soften(desk, out[len(out) - 1], device)
        device = drawn(desk.score, len(desk.score), draws.random())
        if len(gradient) > 0:
            for k in range(count):
                gradient[desk.ready[k], 0] -= desk.chance[k]
            gradient[operator, 0] += 1.0
            differentiate(desk, out, device, gradient[operator])
    desk.reach[0] = max(desk.reach[0], desk.finish[at, device] + desk.tail[operator, device])
    return operator, device


@step
def _look(p: ProblemArrays, s: State, run: Progress, desk: Desk, count: int, at: int) -> int:
    """Write features and z of each device for the operator at a place; the device of least z, -1 if there is none."""
    operator, d, now = int(desk.ready[at]), p.cost.shape[1], run.clock[0]
    out, scale, finish = desk.outputs[operator], desk.scale[operator], desk.finish[at]
    least, earliest = np.inf, np.inf
    for a in range(d):
        desk.ends[a] = backlog(p, s, run, a)
        if run.alive[a]:
            least = min(least, desk.ends[a])
        earliest = min(earliest, finish[a])
        for k in range(COUNT):
            desk.seen[a, k] = 0.0
    look_around(p, run.assignment, desk.communication, operator, desk.seen)
    for k in range(count):
        if k != at:
            _want(desk.finish[k], desk.seen)
    mean = _demand(p, run, desk)
    best = -1
    for a in range(d):
        desk.score[a] = np.inf
        if finish[a] == np.inf:
            continue
        seen = desk.seen[a]
        seen[DeviceFeature.IDLE] = desk.start[at, a] - desk.ends[a]
        seen[DeviceFeature.BACKLOG] = desk.ends[a] - least
        seen[DeviceFeature.WAIT] = desk.arrival[at, a] - now
        seen[FIRST + OnlineFeature.SLOWED] = (run.slowdown[a] - 1.0) * scale
        seen[FIRST + OnlineFeature.EXCESS] = max(0.0, finish[a] + desk.tail[operator, a] - desk.reach[0])
        seen[FIRST + OnlineFeature.DEMAND] = (desk.demand[a] / mean - 1.0) * scale if mean > 0.0 else 0.0
        z = (finish[a] - earliest) / scale + out[1 + a]
        for k in range(COUNT):
            seen[k] = min(seen[k] / scale, LIMIT)
            z += out[1 + d + k] * seen[k]
        desk.score[a] = z
        if best < 0 or z < desk.score[best]:
            best = a
    return best


@step
def _demand(p: ProblemArrays, run: Progress, desk: Desk) -> float:
    """Write the demand for each device, 0 for one that is lost; its mean."""
    d, now, mean = len(desk.demand), run.clock[0], 0.0
    for a in range(d):
        desk.demand[a] = 0.0
    for i in range(len(run.status)):
        if run.status[i] <= OPEN and desk.release[i] <= now:
            desk.demand[desk.suited[i]] += p.cost[i, desk.suited[i]]
    for a in range(d):
        desk.demand[a] = desk.ends[a] - now + desk.demand[a] * run.slowdown[a] if run.alive[a] else 0.0
        mean += desk.demand[a] / d
    return mean


@step
def _want(finish: FloatArray, seen: FloatArray) -> None:
    """Add what an operator with such finishes would lose if its best device were taken."""
    best, least, second = 0, np.inf, np.inf
    for a in range(len(finish)):
        if finish[a] < least:
            best, least, second = a, finish[a], least
        else:
            second = min(second, finish[a])
    if second < np.inf:
        seen[best, FIRST + OnlineFeature.WANTED] += second - least
