r"""Decoder: a list scheduler that follows the outputs of a network, greedily or by draws.

The network says for each operator a priority :math:`q_i`, for each device a bonus :math:`b_{id}`, weights :math:`w_i`
of the columns of :class:`DeviceFeature`, and the logarithm of a temperature :math:`\tau_i`. The decoder takes one ready
operator after the other, by :math:`\operatorname{softmax} q`, and puts it on a device by the softmax of

.. math:: -z_{id} / \tau_i, \qquad z_{id} = f_{id} + b_{id} + \sum_k w_{ik}\, y_{idk},

with :math:`f` its finish on the device, gaps filled and transfers booked, over the earliest one, and :math:`y` the
features, all in units of the problem's ``scale``. Logits are affine in the outputs, so the kernel returns the gradient
of the logarithm of a schedule's probability by them, and only the network needs automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.envs.core.features import Column
from hetgym.planning import intervals, timeline
from hetgym.planning.ranks import assigned_bottom_level, list_order
from hetgym.problem import Problem, ProblemArrays
from hetgym.transfer import transfer_time


class DeviceFeature(Column):
    """Features of a device for the operator whose turn it is, besides the finish."""

    IDLE = "scale", "time for which the device would stand idle before it, behind its last operator"
    ASKED = "scale", "transfer times of the inputs that are elsewhere, in sum"
    KIN = "scale", "mean transfer times of what its readers also read and the device holds, in sum"
    BACKLOG = "scale", "end of the device's last operator, over the least of all"
    WAIT = "scale", "from the end of its last predecessor to the arrival of the last input"


COUNT = len(DeviceFeature)
LIMIT = 20.0  # upper bound of the features


def width(devices: int) -> int:
    """Number of outputs for each operator: priority, bonuses, weights of the features, logarithm of the temperature."""
    return devices + COUNT + 2


@record
class Desk(NamedTuple):
    """What the schedules of one problem share, and scratch of one schedule at a time."""

    placed: timeline.Timeline
    communication: FloatArray  # [e] mean transfer times [s]
    scale: FloatArray  # [1] unit of time [s]
    waiting: IntArray  # [n] inputs that are not placed
    ready: IntArray  # [n] operators that wait for no input
    chance: FloatArray  # [n] their probabilities
    seen: FloatArray  # [d, COUNT] features of the devices
    start: FloatArray  # [d] start on each [s]
    score: FloatArray  # [d] z, then probability


def new_desk(problem: Problem, placed: timeline.Timeline, scale: float) -> Desk:
    """Allocate for schedules of a problem on an empty timeline."""
    n, d = problem.num_operators, problem.num_devices
    return Desk(
        placed=placed,
        communication=np.array(problem.mean_communication),
        scale=np.array([scale]),
        waiting=np.zeros(n, np.int32),
        ready=np.zeros(n, np.int32),
        chance=np.zeros(n),
        seen=np.zeros((d, COUNT)),
        start=np.zeros(d),
        score=np.zeros(d),
    )


class Plans(NamedTuple):
    """Schedules of a problem, a row for each."""

    turns: IntArray  # [K, n] operators in the order in which they were placed
    devices: IntArray  # [K, n] device of each operator
    order: IntArray  # [K, n] operators device by device, in the order of the timeline
    pointer: IntArray  # [K, d + 1] where each device's operators begin


def new_plans(count: int, n: int, d: int) -> Plans:
    """Allocate for some schedules."""
    turns, devices, order = (np.zeros((count, n), np.int32) for _ in range(3))
    return Plans(turns, devices, order, np.zeros((count, d + 1), np.int32))


def joined(parts: Sequence[Plans]) -> Plans:
    """The schedules of several tables."""
    turns, devices, order, pointer = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    return Plans(turns, devices, order, pointer)


def decode(problem: Problem, desk: Desk, outputs: FloatArray, turns: IntArray) -> Plans:
    """The most probable devices in given orders of operators, [K, n] and topological."""
    plans = new_plans(len(turns), problem.num_operators, problem.num_devices)
    plans.turns[:] = turns
    _run(problem, desk, outputs, plans)
    return plans


def sample(problem: Problem, desk: Desk, outputs: FloatArray, uniform: FloatArray) -> Plans:
    """Schedules drawn with uniform numbers [K, n, 2]."""
    plans = new_plans(len(uniform), problem.num_operators, problem.num_devices)
    _run(problem, desk, outputs, plans, uniform)
    return plans


def reordered(problem: Problem, desk: Desk, outputs: FloatArray, plans: Plans) -> Plans:
    """The devices of schedules, operators in the order of their bottom levels there."""
    levels = [assigned_bottom_level(problem.arrays, devices) for devices in plans.devices]
    found = new_plans(len(levels), problem.num_operators, problem.num_devices)
    found.turns[:] = [list_order(problem.arrays, level) for level in levels]
    found.devices[:] = plans.devices
    _run(problem, desk, outputs, found, forced=True)
    return found


def sample_with_gradients(
    problem: Problem, desk: Desk, outputs: FloatArray, uniform: FloatArray
) -> tuple[Plans, FloatArray]:
    """As :func:`sample`, and the gradients of the schedules' log-probabilities by the outputs, [K, n, width]."""
    plans = new_plans(len(uniform), problem.num_operators, problem.num_devices)
    gradient = np.zeros((len(uniform), *outputs.shape))
    _run(problem, desk, outputs, plans, uniform, gradient=gradient)
    return plans, gradient


def gradient_of(problem: Problem, desk: Desk, outputs: FloatArray, turns: IntArray, devices: IntArray) -> FloatArray:
    """[n, width] gradient of the log-probability of a schedule: the order of its operators [n], and their devices."""
    plans = new_plans(1, problem.num_operators, problem.num_devices)
    plans.turns[0], plans.devices[0] = turns, devices
    gradient = np.zeros((1, *outputs.shape))
    _run(problem, desk, outputs, plans, forced=True, gradient=gradient)
    found: FloatArray = gradient[0]
    return found


def _run(
    problem: Problem,
    desk: Desk,
    outputs: FloatArray,
    plans: Plans,
    uniform: FloatArray | None = None,
    forced: bool = False,
    gradient: FloatArray | None = None,
) -> None:
    count = len(plans.turns)
    uniform = np.zeros((count, 0, 2)) if uniform is None else uniform
    gradient = np.zeros((count, 0, 0)) if gradient is None else gradient
    _schedules(problem.arrays, desk, outputs, uniform, forced, *plans, gradient)


@lean
def _schedules(
    p: ProblemArrays,
    desk: Desk,
    outputs: FloatArray,
    uniform: FloatArray,
    forced: bool,
    turns: IntArray,
    devices: IntArray,
    order: IntArray,
    pointer: IntArray,
    gradient: FloatArray,
) -> None:
    for k in range(len(turns)):
        _schedule(p, desk, outputs, uniform[k], forced, turns[k], devices[k], gradient[k])
        timeline.write_device_order(desk.placed, order[k], pointer[k])


# Before each turn the timeline holds the operators of the turns before it, `ready` those that could be next, in no
# particular order, and `chance` their probabilities. They are needed to draw, and for the gradient.
@step
def _schedule(
    p: ProblemArrays,
    desk: Desk,
    outputs: FloatArray,
    uniform: FloatArray,
    forced: bool,
    turns: IntArray,
    devices: IntArray,
    gradient: FloatArray,
) -> None:
    """Fill the timeline with one schedule.

    Args:
        uniform: [n, 2] to draw operators and devices; [0, 2] to take the operators in their turns.
        forced: true if devices are given.
        gradient: [n, width] to which the gradient is added; [0, 0] for none.
    """
    t, n, d = desk.placed, p.cost.shape[0], p.cost.shape[1]
    timeline.clear(t)
    listed = len(uniform) > 0 or len(gradient) > 0
    count = 0
    for i in range(n):
        desk.waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if desk.waiting[i] == 0:
            desk.ready[count] = i
            count += 1
    for turn in range(n):
        if listed:
            chances(desk, outputs, count)
            at = drawn(desk.chance, count, uniform[turn, 0]) if len(uniform) > 0 else 0
            while len(uniform) == 0 and desk.ready[at] != turns[turn]:
                at += 1
            operator = desk.ready[at]
            turns[turn] = operator
            if len(gradient) > 0:
                for k in range(count):
                    gradient[desk.ready[k], 0] -= desk.chance[k]
                gradient[operator, 0] += 1.0
            count -= 1
            desk.ready[at] = desk.ready[count]
        operator = turns[turn]
        device = _look(p, desk, outputs[operator], operator)
        if listed:
            soften(desk, outputs[operator, d + COUNT + 1], device)
        if len(uniform) > 0:
            device = drawn(desk.score, d, uniform[turn, 1])
        elif forced:
            device = devices[operator]
        if len(gradient) > 0:
            differentiate(desk, outputs[operator], device, gradient[operator])
        devices[operator] = device
        timeline.book(p, t, operator, device, desk.start[device])
        if listed:
            for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
                j = p.successor[edge]
                desk.waiting[j] -= 1
                if desk.waiting[j] == 0:
                    desk.ready[count] = j
                    count += 1


@step
def chances(desk: Any, outputs: FloatArray, count: int) -> None:
    """Write the probabilities of the ready operators; a desk is a record with ``ready`` and ``chance``."""
    most, total = -np.inf, 0.0
    for k in range(count):
        most = max(most, outputs[desk.ready[k], 0])
    for k in range(count):
        desk.chance[k] = np.exp(outputs[desk.ready[k], 0] - most)
        total += desk.chance[k]
    for k in range(count):
        desk.chance[k] /= total


@step
def drawn(chance: FloatArray, count: int, uniform: float) -> int:
    """The place that a number in [0, 1) draws by probabilities; the last that can be if rounding leaves none."""
    found = 0
    for k in range(count):
        if chance[k] > 0.0:
            found = k
            uniform -= chance[k]
            if uniform < 0.0:
                break
    return found


# A device that cannot run the operator, or has no room for it, has the score inf; without any that has room there is
# the roomiest.
@step
def _look(p: ProblemArrays, desk: Desk, outputs: FloatArray, operator: int) -> int:
    """Write start, features and z of each device for an operator; the device of least z, the smaller of equal ones."""
    t, d, scale = desk.placed, p.cost.shape[1], desk.scale[0]
    made, least, earliest = 0.0, np.inf, np.inf
    for a in range(d):
        least = min(least, intervals.last_end(t.busy, a))
        for k in range(COUNT):
            desk.seen[a, k] = 0.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        made = max(made, t.finish[p.predecessor[m]])
    look_around(p, t.assignment, desk.communication, operator, desk.seen)
    roomy = False
    for a in range(d):
        roomy = roomy or (p.cost[operator, a] < np.inf and timeline.fits(t, operator, a))
    only = -1 if roomy else timeline.roomiest(p, t, operator)
    for a in range(d):
        desk.score[a] = np.inf
        if p.cost[operator, a] == np.inf:
            continue
        ready, last = timeline.data_ready(p, t, operator, a), intervals.last_end(t.busy, a)
        desk.start[a] = timeline.start_after(p, t, operator, a, ready, True)
        if (roomy and not timeline.fits(t, operator, a)) or (only >= 0 and a != only):
            continue
        finish = desk.start[a] + p.cost[operator, a]
        earliest = min(earliest, finish)
        seen = desk.seen[a]
        seen[DeviceFeature.IDLE] = max(0.0, desk.start[a] - last)
        seen[DeviceFeature.BACKLOG] = last - least
        seen[DeviceFeature.WAIT] = max(0.0, ready - made)
        for k in range(COUNT):
            seen[k] = min(seen[k] / scale, LIMIT)
        desk.score[a] = finish
    best = -1
    for a in range(d):
        if desk.score[a] < np.inf:
            z = (desk.score[a] - earliest) / scale + outputs[1 + a]
            for k in range(COUNT):
                z += outputs[1 + d + k] * desk.seen[a, k]
            desk.score[a] = z
            if best < 0 or z < desk.score[best]:
                best = a
    return best


@step
def look_around(
    p: ProblemArrays, assignment: IntArray, communication: FloatArray, operator: int, seen: FloatArray
) -> None:
    """Add to each device the transfers of an operator's inputs from elsewhere, and of what its readers read there."""
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i, edge = p.predecessor[m], p.predecessor_edge[m]
        for a in range(p.cost.shape[1]):
            if a != assignment[i]:
                seen[a, DeviceFeature.ASKED] += transfer_time(p, assignment[i], a, p.edge_bytes[edge])
    for e in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[e]
        for m in range(p.predecessor_pointer[j], p.predecessor_pointer[j + 1]):
            a = assignment[p.predecessor[m]]
            if a >= 0:
                seen[a, DeviceFeature.KIN] += communication[p.predecessor_edge[m]]


@step
def soften(desk: Any, logarithm: float, best: int) -> None:
    """Turn the scores of a desk into probabilities at a temperature, given by its logarithm."""
    rate, least, total = np.exp(-logarithm), desk.score[best], 0.0
    for a in range(len(desk.score)):
        if desk.score[a] < np.inf:
            desk.score[a] = np.exp((least - desk.score[a]) * rate)
            total += desk.score[a]
        else:
            desk.score[a] = 0.0
    for a in range(len(desk.score)):
        desk.score[a] /= total


# With l = -z / tau: dl/db = -1 / tau, dl/dw = -y / tau, dl/d(log tau) = -l; and d(log p of a device)/dl is 1 for that
# device minus its probability for each. A constant added to all l changes nothing, so l is log p here.
@step
def differentiate(desk: Any, outputs: FloatArray, device: int, gradient: FloatArray) -> None:
    """Add the gradient of the logarithm of a device's probability; the temperature is the last output."""
    d, last = len(desk.score), len(outputs) - 1
    rate = np.exp(-outputs[last])
    for a in range(d):
        slope = (1.0 if a == device else 0.0) - desk.score[a]
        gradient[1 + a] -= slope * rate
        for k in range(desk.seen.shape[1]):
            gradient[1 + d + k] -= slope * rate * desk.seen[a, k]
        if desk.score[a] > 0.0:
            gradient[last] -= slope * np.log(desk.score[a])
