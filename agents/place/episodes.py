"""Episodes of the place policy: operators in upward-rank order, each on the device that the head prefers.

Order and insertion rule are those of ``HetSchedule-v0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.agents.inference import HeadWeights, linear, rectify
from hetgym.agents.place.inference import prepare_head
from hetgym.agents.place.tokens import LIMIT, View
from hetgym.envs.core.features import Column, features_of
from hetgym.planning import timeline
from hetgym.planning.look_ahead import Remainder, look_ahead
from hetgym.problem import Problem, ProblemArrays


class DeviceFeature(Column):
    """Features of a candidate device for the head, besides its embedding.

    All but the last two are relative to the least value over the devices.
    """

    OUTLOOK = "operator", "estimated time of the end: average of greatest and mean, best of four roll-outs"
    GREATEST = "operator", "greatest estimate of the end in that roll-out"
    CONSENSUS = "operator", "mean of the four outlooks"
    FINISH = "operator", "earliest finish time, EFT"
    PATH = "operator", "finish and optimistic cost to an exit, PEFT's key"
    START = "operator", "start, idle gaps filled"
    WAIT = "operator", "start minus arrival of the last input"
    COST = "operator", "run time"
    READY = "operator", "arrival of the last input"
    COMPLETION = "operator", "estimated time of the end if EFT plus optimistic cost places the next 300"
    EXPOSURE = "operator", "least outlook minus the bound from placed operators; the same for all devices"
    TURN = "episode", "position in the order, 0 first to 1 last; the same for all devices"


CANDIDATE_FEATURES = features_of(DeviceFeature)  # Names, units and meanings of DeviceFeature
COUNT = len(CANDIDATE_FEATURES)
HORIZON = 10  # Number of operators that a short roll-out places
FAR = 300  # Number of operators that the long roll-out places


@record
class Stage(NamedTuple):
    """The data that episodes on a problem share."""

    order: IntArray  # [n] operators in the order of decisions
    free: IntArray  # [n] -1: no operator's device is fixed
    bonus: FloatArray  # [4, n, d] of the roll-outs [s]
    tail: FloatArray  # [n, d] optimistic time to an exit [s]
    scale: FloatArray  # [1] mean run time of an operator [s]
    # own, whole, rule: the part of the head that depends on the embeddings alone; see prepare_head
    own: FloatArray
    whole: FloatArray
    rule: FloatArray


@record
class Desk(NamedTuple):
    """Scratch of an episode: the timeline, and the features of each candidate."""

    placed: timeline.Timeline
    seen: FloatArray
    start: FloatArray
    score: FloatArray
    first: FloatArray
    second: FloatArray
    mean: FloatArray


def set_up(problem: Problem, view: View, hidden: FloatArray, head: HeadWeights) -> Stage:
    """Prepare episodes on a problem from its embeddings [n, d, h]."""
    free = np.full(problem.num_operators, -1, np.int32)
    return Stage(view.order, free, view.bonus, view.tail, np.array([view.scale]), *prepare_head(hidden, head))


def without_policy(problem: Problem, head: HeadWeights) -> Stage:
    """A stage of the same shapes for searches that do not use the policy."""
    n, d, size = problem.num_operators, problem.num_devices, len(head.score)
    free, nothing = np.full(n, -1, np.int32), np.zeros((n, d, size))
    return Stage(free, free, np.zeros((1, n, d)), np.zeros((n, d)), np.ones(1), nothing, nothing, np.zeros((n, d)))


def new_desk(problem: Problem, head: HeadWeights) -> Desk:
    """Allocate the scratch of one episode at a time on a problem."""
    d, size = problem.num_devices, len(head.score)
    rows = (np.zeros(count) for count in (d, d, size, size, COUNT + size))
    return Desk(timeline.new_timeline(problem), np.zeros((d, COUNT)), *rows)


def greedy(problem: Problem, stage: Stage, head: HeadWeights, desk: Desk) -> tuple[float, IntArray]:
    """Play the episode in which every decision is the most preferred.

    Returns:
        Makespan [s] and devices [n]; the desk's timeline holds the schedule.
    """
    choice = np.zeros(problem.num_operators, np.int32)
    none = np.zeros((0, problem.num_devices))
    return episode(problem.arrays, stage, head, desk, choice, none, none[:, :, None]), choice


def sample(
    problem: Problem,
    stage: Stage,
    head: HeadWeights,
    desk: Desk,
    temperatures: Sequence[float],
    rng: np.random.Generator,
) -> tuple[FloatArray, IntArray]:
    """Play episodes in which every decision is drawn from the policy, one at each temperature.

    Returns:
        Makespans [count] [s] and devices [count, n].
    """
    n, d = problem.num_operators, problem.num_devices
    count = len(temperatures)
    makespans, choices = np.zeros(count), np.zeros((count, n), np.int32)
    nothing = np.zeros((0, d, COUNT))
    for k, temperature in enumerate(temperatures):
        noise = temperature * rng.gumbel(size=(n, d))
        makespans[k] = episode(problem.arrays, stage, head, desk, choices[k], noise, nothing)
    return makespans, choices


def replay(problem: Problem, stage: Stage, head: HeadWeights, desk: Desk, choice: IntArray) -> FloatArray:
    """[n, d, F] features of the candidates, turn by turn, in the episode with given devices [n]."""
    n, d = problem.num_operators, problem.num_devices
    seen = np.zeros((n, d, COUNT))
    episode(problem.arrays, stage, head, desk, choice.copy(), np.zeros((0, d)), seen)
    return seen


# Before each turn the timeline holds the operators before it in the order; last is their latest finish, and bound the
# largest of their finishes plus optimistic time to an exit. Cost: for each operator and device, one roll-out for each
# heuristic and a long one.
@lean
def episode(
    p: ProblemArrays,
    stage: Stage,
    head: HeadWeights,
    desk: Desk,
    choice: IntArray,
    noise: FloatArray,
    record: FloatArray,
) -> float:
    """Play one episode; return its makespan [s].

    Args:
        choice: [n] device of each operator; filled in, or read if there is a record.
        noise: [n, d] added to the scores, turn by turn; [0, d] for none.
        record: [n, d, F] filled in with the features, turn by turn; [0, d, F] for no record.
    """
    t = desk.placed
    timeline.clear(t)
    rest = Remainder(stage.order, stage.free, stage.tail, stage.tail)
    bound, last = 0.0, 0.0
    for turn in range(len(stage.order)):
        operator = stage.order[turn]
        consider(p, t, rest, stage.bonus, stage.scale[0], desk, turn, bound, HORIZON, FAR)
        if record.shape[0] > 0:
            device = choice[operator]
            for a in range(p.cost.shape[1]):
                for k in range(COUNT):
                    record[turn, a, k] = desk.seen[a, k]
        else:
            prefer(p, stage, head, desk, operator)
            device = -1
            for a in range(p.cost.shape[1]):
                if p.cost[operator, a] == np.inf:
                    continue
                if noise.shape[0] > 0:
                    desk.score[a] += noise[turn, a]
                if device < 0 or desk.score[a] > desk.score[device]:
                    device = a
            choice[operator] = device
        timeline.book(p, t, operator, device, desk.start[device])
        finish = desk.start[device] + p.cost[operator, device]
        bound = max(bound, finish + stage.tail[operator, device])
        last = max(last, finish)
    return last


# For each device that can run the operator: one short roll-out with each row of bonus, of which best is the least key
# and worst the greatest finish in the same roll-out. The timeline itself does not change.
@step
def consider(
    p: ProblemArrays,
    t: timeline.Timeline,
    rest: Remainder,
    bonus: FloatArray,
    scale: float,
    desk: Desk,
    turn: int,
    bound: float,
    horizon: int,
    far: int,
) -> None:
    """Write the features of each device for the operator whose turn it is.

    Args:
        t: timeline with the operators before the turn.
        rest: the order of the operators, and estimates of the time that remains.
        bonus: [k, n, d] added to finish times in each of the roll-outs [s].
        scale: mean run time of an operator [s].
        bound: lower bound on the makespan from the operators placed so far [s].
        horizon: number of operators that a short roll-out places.
        far: number of operators that the long roll-out places; 0 to use the best short one instead.
    """
    n, d = p.cost.shape
    operator, seen = rest.order[turn], desk.seen
    stop = min(n, turn + 1 + horizon)
    for device in range(d):
        duration = p.cost[operator, device]
        if duration == np.inf:
            continue
        ready = timeline.data_ready(p, t, operator, device)
        start = timeline.earliest_start(t, device, ready, duration, True)
        desk.start[device] = start
        best, worst, total = np.inf, 0.0, 0.0
        for k in range(bonus.shape[0]):
            greatest, mean = look_ahead(p, t, rest, turn, device, start, stop, bonus[k])
            greatest = max(greatest, bound)
            key = 0.5 * (greatest + mean) if stop < n else greatest
            total += key
            if key < best:
                best, worst = key, greatest
        row = seen[device]
        row[DeviceFeature.OUTLOOK] = best
        row[DeviceFeature.GREATEST] = worst
        row[DeviceFeature.CONSENSUS] = total / bonus.shape[0]
        row[DeviceFeature.FINISH] = start + duration
        row[DeviceFeature.PATH] = start + duration + rest.loose[operator, device]
        row[DeviceFeature.START] = start
        row[DeviceFeature.WAIT] = start - ready
        row[DeviceFeature.COST] = duration
        row[DeviceFeature.READY] = ready
        row[DeviceFeature.COMPLETION] = best
        if far > 0:
            end = min(n, turn + 1 + far)
            greatest, _ = look_ahead(p, t, rest, turn, device, start, end, bonus[0])
            row[DeviceFeature.COMPLETION] = max(greatest, bound)
    relate(p, operator, seen, scale, bound, turn / max(1, n - 1))


@step
def relate(p: ProblemArrays, operator: int, seen: FloatArray, scale: float, bound: float, progress: float) -> None:
    """Make the features of each device relative to the least value over the devices, in units of ``scale``."""
    exposure = np.inf
    for a in range(len(seen)):
        if p.cost[operator, a] < np.inf:
            exposure = min(exposure, seen[a, DeviceFeature.OUTLOOK])
    for k in range(DeviceFeature.EXPOSURE):
        least = np.inf
        for a in range(len(seen)):
            if p.cost[operator, a] < np.inf:
                least = min(least, seen[a, k])
        for a in range(len(seen)):
            if p.cost[operator, a] < np.inf:
                seen[a, k] = min((seen[a, k] - least) / scale, LIMIT)
    for a in range(len(seen)):
        if p.cost[operator, a] == np.inf:
            for k in range(COUNT):
                seen[a, k] = 0.0
        else:
            seen[a, DeviceFeature.EXPOSURE] = min(max(exposure - bound, 0.0) / scale, LIMIT)
            seen[a, DeviceFeature.TURN] = progress


@step
def prefer(p: ProblemArrays, stage: Stage, head: HeadWeights, desk: Desk, operator: int) -> None:
    """Score the devices for an operator from their features: the candidate head, in the form of :func:`prepare_head`.

    mean holds sums over the legal devices, of the features and of their embeddings' share of the first layer.
    """
    size, seen = len(head.score), desk.seen
    legal = 0
    for k in range(len(desk.mean)):
        desk.mean[k] = 0.0
    for a in range(len(seen)):
        if p.cost[operator, a] < np.inf:
            legal += 1
            for k in range(COUNT):
                desk.mean[k] += seen[a, k]
            for k in range(size):
                desk.mean[COUNT + k] += stage.whole[operator, a, k]
    for a in range(len(seen)):
        if p.cost[operator, a] == np.inf:
            continue
        for k in range(size):
            desk.first[k] = stage.own[operator, a, k] + desk.mean[COUNT + k] / legal
        cost = stage.rule[operator, a]
        for f in range(COUNT):
            x, mean = seen[a, f], desk.mean[f] / legal
            cost += head.rule[f] * x
            for k in range(size):
                desk.first[k] += x * head.own[f, k] + mean * head.all[f, k]
        rectify(desk.first)
        linear(desk.first, head.mix, head.mix_bias, desk.second)
        value = 0.0
        for k in range(size):
            value += max(0.0, desk.second[k]) * head.score[k]
        desk.score[a] = value - cost
