"""The dynamics of HetImprove-v0: an action makes one of the moves that are offered, and the plan is simulated anew.

Moves are drawn by the rules of region annealing (:mod:`hetgym.search.regions`) and priced on a course
(:mod:`hetgym.search.course`), from the first operator on that they affect. So an agent that always takes the only move
that it is offered, under the rule of Metropolis, is region annealing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.draws import Draws, read_draws
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import alike
from hetgym._kernels.threads import done, take
from hetgym._types import FloatArray, Int64Array
from hetgym.envs.core.scaling import CLIP, scale_of, share
from hetgym.envs.improve.observation import MoveColumn, PlanColumn
from hetgym.envs.improve.state import ImproveObservation, ImproveState, read_lanes
from hetgym.envs.place.observation import DeviceColumn, OperatorColumn
from hetgym.envs.place.state import read_problem
from hetgym.problem import ProblemArrays
from hetgym.search import course as courses
from hetgym.search import regions
from hetgym.search.course import Course
from hetgym.sim.kernel import Switches, keeps_order
from hetgym.transfer import transfer_time

ALWAYS, BETTER, METROPOLIS = range(3)  # see ImproveRules.accept
DRAWN, PAIRS, IN_TURN = range(3)  # see ImproveRules.moves
TURN, NOTHING = -1, 0  # in ImproveState.size, where other numbers are of operators that go to another device


class How(NamedTuple):
    """The rules of all lanes, for the kernel."""

    accept: int
    heat: float  # first temperature, as a share of the start's makespan
    cooling: float  # last temperature over the first
    gains: bool  # true to price all moves that are offered
    offers: int  # which moves: drawn ones, all pairs of an operator and a device, or the devices of one in its turn
    tabu: int  # number of steps for which an operator that was moved stays
    current: bool  # true if the last plan counts, not the best
    sparse: bool  # true if all is paid with the last step
    masks: bool  # true if moves are illegal that leave devices without room for weights


@lean
def improve(
    lanes: Int64Array, like: Course, switches: Switches, how: How, actions: Int64Array, shared: Int64Array
) -> None:
    """Make the chosen move in every lane of a list, or open the episode there if it is fresh, and offer new moves.

    Args:
        lanes: row of an :class:`~hetgym.envs.improve.state.ImproveRecord`.
        like: a course of the kind of those of the lanes.
        actions: [L] legal actions.
        shared: the list of lanes, see :func:`~hetgym._kernels.threads.share`.
    """
    r = read_lanes(lanes)
    s, seen = r.state, r.observation
    lane = take(shared)
    while lane >= 0:
        p, course, rng = read_problem(r.problems[lane]), alike(r.courses[lane], like), read_draws(r.draws[lane])
        if r.fresh[lane]:
            r.fresh[lane] = False
            courses.set_off(p, course, switches)
            s.first[lane] = course.value[courses.CURRENT]
        else:
            s.log[lane, s.turn[lane]] = actions[lane]
            _make(p, course, s, lane, actions[lane], _temperature(s, lane, how), switches, how)
            s.turn[lane] += 1
            r.over[lane] = s.turn[lane] == s.budget[lane]
            _pay(course, s, r.reward, lane, r.over[lane], how)
        if not r.over[lane]:
            s.patience[lane] = -np.log(1.0 - rng.random())
            _offer(p, course, rng, s, seen, lane, switches, how)
        scale = scale_of(s.reference[lane])
        _show_plan(p, course, s, seen, lane, scale, how)
        _show_moves(p, course, s, seen, lane, scale, r.over[lane], switches)
        done(shared)
        lane = take(shared)


@step
def _temperature(s: ImproveState, lane: int, how: How) -> float:
    """The temperature at a step [s]."""
    return float(how.heat * s.first[lane] * how.cooling ** (s.turn[lane] / s.budget[lane]))


@step
def _make(
    p: ProblemArrays,
    course: Course,
    s: ImproveState,
    lane: int,
    action: int,
    temperature: float,
    switches: Switches,
    how: How,
) -> None:
    """Make a move if it is accepted."""
    size = s.size[lane, action]
    if size == NOTHING:
        return
    value, limit = course.value[courses.CURRENT], np.inf
    if how.accept != ALWAYS:
        limit = value + (temperature * s.patience[lane] if how.accept == METROPOLIS else 0.0)
    lacked = courses.lacking(course)
    first, last = _apply(p, course, s, lane, action, switches)
    lacks, price = courses.lacking(course), np.inf
    if lacks <= lacked:
        price = courses.price(p, course, first, last, np.inf if lacks < lacked else limit, switches)
    if price < np.inf and (how.accept != BETTER or price < value or lacks < lacked):
        for k in range(size):
            s.free[lane, s.operator[lane, action, k]] = s.turn[lane] + 1 + how.tabu
        courses.keep(p, course, first, last, switches)
        courses.sort_now_and_then(p, course, switches)
    else:
        _undo(course, s, lane, action)


@step
def _apply(
    p: ProblemArrays, course: Course, s: ImproveState, lane: int, action: int, switches: Switches
) -> tuple[int, int]:
    """Make a change of the course; the first turn that it affects, and the last turn of an operator that it moves."""
    size, operator, device = s.size[lane, action], s.operator[lane, action], s.device[lane, action]
    if size == TURN:
        courses.shift(course, operator[0], device[0])
        return min(operator[0], device[0]), max(operator[0], device[0])
    for k in range(size):
        courses.put(p, course, k, operator[k], device[k], switches)
    return regions.span(p, course, size)


@step
def _undo(course: Course, s: ImproveState, lane: int, action: int) -> None:
    """Undo a change that was made last."""
    size = s.size[lane, action]
    if size == TURN:
        courses.shift(course, s.device[lane, action, 0], s.operator[lane, action, 0])
    else:
        courses.take_back(course, size)


@step
def _pay(course: Course, s: ImproveState, reward: FloatArray, lane: int, over: bool, how: How) -> None:
    """Pay the decrease of the potential or, for sparse rewards, the whole return at the end."""
    before, reference = s.potential[lane], s.reference[lane]
    now = course.value[courses.CURRENT]
    if not how.current and course.value[courses.BEST] < np.inf:
        now = course.value[courses.BEST]
    if not how.sparse or over:
        s.potential[lane] = now
    reward[lane] = (before - s.potential[lane]) / reference if reference > 0 else 0.0


@step
def _offer(
    p: ProblemArrays,
    course: Course,
    rng: Draws,
    s: ImproveState,
    seen: ImproveObservation,
    lane: int,
    switches: Switches,
    how: How,
) -> None:
    """Draw the moves of the next step, and price them if gains are shown."""
    d, legal = seen.devices.shape[1], 0
    lacked = courses.lacking(course)
    for action in range(s.size.shape[1]):
        s.makespan[lane, action] = course.value[courses.CURRENT]
        if how.offers == PAIRS:
            _take_pair(p, course, s, lane, action, action // d, action % d)
        elif how.offers == IN_TURN:
            _take_pair(p, course, s, lane, action, _in_turn(p, s, lane), action)
        else:
            _draw_move(p, course, rng, s, lane, action, switches)
        allowed = s.operator[lane, action, 0] >= 0
        for k in range(s.size[lane, action]):
            allowed = allowed and s.free[lane, s.operator[lane, action, k]] <= s.turn[lane]
        if s.size[lane, action] != NOTHING and (how.gains or how.masks):
            first, last = _apply(p, course, s, lane, action, switches)
            if how.masks:
                allowed = allowed and courses.lacking(course) <= lacked
            if how.gains:
                s.makespan[lane, action] = courses.price(p, course, first, last, np.inf, switches)
            _undo(course, s, lane, action)
        seen.mask[lane, action] = allowed
        legal += allowed
    if legal == 0:
        seen.mask[lane, 0] = 1


@step
def _in_turn(p: ProblemArrays, s: ImproveState, lane: int) -> int:
    """The operator whose turn it is, in topological order over and over again."""
    return int(p.topological_order[s.turn[lane] % len(p.topological_order)])


@step
def _take_pair(p: ProblemArrays, course: Course, s: ImproveState, lane: int, action: int, i: int, device: int) -> None:
    """Offer to put one operator on a device; on its own, that does nothing."""
    s.size[lane, action], s.operator[lane, action, 0] = NOTHING, -1
    if i < p.cost.shape[0] and device < p.cost.shape[1] and p.cost[i, device] < np.inf:
        s.size[lane, action] = course.assignment[i] != device
        s.operator[lane, action, 0], s.device[lane, action, 0] = i, device


@step
def _draw_move(
    p: ProblemArrays, course: Course, rng: Draws, s: ImproveState, lane: int, action: int, switches: Switches
) -> None:
    """Draw a move as region annealing does."""
    s.size[lane, action], s.operator[lane, action, 0] = NOTHING, -1
    if rng.random() < s.reorder[lane]:
        source, to = regions.draw_shift(p, course, rng, regions.CRITICAL, switches)
        if source != to:
            s.size[lane, action], s.operator[lane, action, 0], s.device[lane, action, 0] = TURN, source, to
        return
    count = regions.draw_region(p, course, rng, regions.DOUBLINGS, regions.EXCHANGED, switches)
    for k in range(count):
        i = course.moved[k]
        s.operator[lane, action, k], s.device[lane, action, k] = i, course.assignment[i]
    s.size[lane, action] = count
    courses.take_back(course, count)


@step
def _show_plan(
    p: ProblemArrays, course: Course, s: ImproveState, seen: ImproveObservation, lane: int, scale: float, how: How
) -> None:
    """Write the plan into the observation."""
    n, d = p.cost.shape
    value, best = course.value[courses.CURRENT], course.value[courses.BEST]
    seen.plan[lane, PlanColumn.CURRENT] = share(value, scale)
    seen.plan[lane, PlanColumn.BEST] = share(best, scale)
    seen.plan[lane, PlanColumn.LEFT] = 1.0 - s.turn[lane] / s.budget[lane]
    devices = seen.devices[lane]
    for device in range(d):
        devices[device, DeviceColumn.BUSY] = share(course.marks.load[0, device], scale)
        devices[device, DeviceColumn.SHARE] = devices[device, DeviceColumn.AVAILABLE] = 0.0
    for i in range(n):
        device, finish = course.assignment[i], share(course.now.finish[i], scale)
        devices[device, DeviceColumn.SHARE] += np.float32(1.0 / n)
        devices[device, DeviceColumn.AVAILABLE] = max(devices[device, DeviceColumn.AVAILABLE], finish)
    if seen.operators.shape[1] > 0:
        for i in range(n):
            row = seen.operators[lane, i]
            seen.assignment[lane, i] = course.assignment[i]
            wait = p.position[i] - s.turn[lane] % n if how.offers == IN_TURN else -1  # steps until its turn
            row[OperatorColumn.IS_PLACED], row[OperatorColumn.IS_CURRENT] = wait < 0, wait == 0
            row[OperatorColumn.TURN] = course.turn[i] / max(1, n - 1)
            row[OperatorColumn.START] = share(course.now.begin[i], scale)
            row[OperatorColumn.FINISH] = share(course.now.finish[i], scale)


@step
def _show_moves(
    p: ProblemArrays,
    course: Course,
    s: ImproveState,
    seen: ImproveObservation,
    lane: int,
    scale: float,
    over: bool,
    switches: Switches,
) -> None:
    """Write the moves that are offered; none at the end, where the mask stays, so that it is never empty."""
    n, in_order = len(course.order), keeps_order(switches)
    for action in range(s.size.shape[1]):
        row, size = seen.candidates[lane, action], s.size[lane, action]
        for column in range(len(row)):
            row[column] = 0.0
        seen.operator[lane, action] = seen.device[lane, action] = -1
        i, device = s.operator[lane, action, 0], s.device[lane, action, 0]
        if over or i < 0:
            continue
        if size == TURN:
            source, to = i, device
            i = course.order[source]
            device = course.assignment[i]
            row[MoveColumn.EARLIER], row[MoveColumn.LATER] = max(0, source - to) / n, max(0, to - source) / n
        a = course.assignment[i]
        seen.operator[lane, action], seen.device[lane, action] = i, device
        row[MoveColumn.IS_TURN], row[MoveColumn.IS_REGION] = size == TURN, size > 0
        row[MoveColumn.SIZE] = min(abs(size) / 8, CLIP)
        row[MoveColumn.RUN_HERE] = share(p.cost[i, a], scale)
        row[MoveColumn.RUN_THERE] = share(p.cost[i, device], scale)
        saved = regions.saving(p, course, i, device) if device != a else 0.0
        row[MoveColumn.SAVED], row[MoveColumn.LOST] = share(saved, scale), share(-saved, scale)
        row[MoveColumn.FINISH] = share(_finish(p, course, i, device), scale)
        row[MoveColumn.LOAD_HERE] = share(course.marks.load[0, a], scale)
        row[MoveColumn.LOAD_THERE] = share(course.marks.load[0, device], scale)
        if in_order:
            slack = course.value[courses.CURRENT] - course.now.finish[i] - course.tail[i]
            row[MoveColumn.SLACK] = share(slack, scale)
        row[MoveColumn.MAKESPAN] = share(s.makespan[lane, action], scale)


@step
def _finish(p: ProblemArrays, course: Course, operator: int, device: int) -> float:
    """Arrival of an operator's last input on a device under the plan, plus its run time there [s]."""
    arrival = 0.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i, edge = p.predecessor[m], p.predecessor_edge[m]
        moved = transfer_time(p, course.assignment[i], device, p.edge_bytes[edge])
        arrival = max(arrival, course.now.finish[i] + moved)
    return float(arrival + p.cost[operator, device])
