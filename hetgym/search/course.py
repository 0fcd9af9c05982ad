"""Courses: a plan with its simulated times, which a search changes a little at a time.

A plan is a placement and an order of all operators; each device takes its own. The operators are launched in
that order, and a finished one sends its outputs at once, by the same steps as in :mod:`hetgym.sim`. So a course is an
exact simulation wherever a run needs no clock: where no link serves two pairs of devices, for example. Otherwise links
serve requests in the order of the plan instead of that of time. :func:`sort` brings the plan into the order in
which the operators finish, which changes no device's order: then the two agree, or nearly so. Fair sharing is taken for
first come, first served.

A change is priced from the first operator on that it can affect, and no further than to where its effects have died
away, or to where the makespan must exceed the limit of acceptance.

Invariant, before and after each step of a search: ``now`` holds the times of ``assignment`` in ``order``, ``turn`` is
the inverse of ``order``, ``tail`` holds the least times from each operator's finish to the end, and
``marks`` the state of devices and links before every operator whose turn is a multiple of :data:`GRID`. :func:`put` and
:func:`shift` break it; :func:`keep` after a price, or undoing the change, restores it.
"""

from dataclasses import replace
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import inlined, lean, step, variant
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.planning import ranks
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import clockwork, outside
from hetgym.search.clockwork import Clockwork, new_clockwork
from hetgym.search.outside import Outside
from hetgym.search.walk import TIE, shift_turns
from hetgym.sim import Runtime
from hetgym.sim.kernel import (
    AGGREGATED,
    CACHED,
    FAIR,
    FIFO,
    Switches,
    book_transfer,
    copy_size,
    keeps_order,
    makespan_of,
    shares_copy,
)
from hetgym.sim.progress import QUEUED
from hetgym.sim.run import setting
from hetgym.transfer import transfer_time
from hetgym.weights import SharedWeights, present

GRID = 16  # Turns between two marks, from which a price can begin
SORT = 16  # Changes kept between two times that the plan is brought into the order of finishes
SLACK = 1.0 + 1e-9  # Factor by which a bound may exceed a limit because it adds the same times in another order

CURRENT, BEST = 0, 1  # in Course.value
PLACED, TRIED, KEPT, SORTED, UNTIL, CHAIN = 0, 1, 2, 3, 4, 5  # in Course.counts


@record
class Times(NamedTuple):
    """Simulated times of a plan."""

    # time at which each operator takes its device, for which a CPU then spends the dispatch [s]
    begin: Annotated[FloatArray, "n"]
    finish: Annotated[FloatArray, "n"]  # finish of each operator [s]
    arrived: Annotated[FloatArray, "e"]  # time at which what an edge carries is on its reader's device [s]
    makespan: Annotated[FloatArray, "1"]  # the last finish [s]


@record
class Front(NamedTuple):
    """The state of devices and links between two turns; or, with a first axis more, before each marked turn."""

    free: Annotated[FloatArray, "d"]  # time from which each device is free [s]
    load: Annotated[FloatArray, "d"]  # time that the operators still to come take on each device [s]
    launched: Annotated[IntArray, "d"]  # operators launched on each device
    # time of each device's latest request for inputs, if transfers are aggregated [s]
    asked: Annotated[FloatArray, "d"]
    link_free: Annotated[FloatArray, "l"]  # time from which each link is free [s]
    channel_free: Annotated[FloatArray, "2, d"]  # time from which each device may send, and receive [s]
    # least time from the start of each device's next operator to the end; only in marks [s]
    behind: Annotated[FloatArray, "d"]


@record
class Nothing(NamedTuple):
    """In place of the event loop's arrays where a sweep along the plan will do."""

    nothing: IntArray  # [0]


NOTHING = cast(Clockwork, Nothing(np.zeros(0, np.int32)))


@record
class Course(NamedTuple):
    """A plan with its times, and room for a change of it."""

    assignment: Annotated[IntArray, "n"]  # device of each operator, with the change while one is priced
    # order, turn: the operators in the order of the plan, and its inverse; with the change while one is priced
    order: Annotated[IntArray, "n"]
    turn: Annotated[IntArray, "n"]
    # now, trial: the times of the plan, and of the latest change that was priced
    now: Times
    trial: Times
    # marks, ahead: fronts before every turn that is a multiple of GRID, of the plan and of that change
    marks: Annotated[Front, "m"]
    ahead: Annotated[Front, "m"]
    front: Front  # scratch: where a price has come to
    # the least time from the operator's finish to the end in the plan: the longest path over its readers and, where
    # devices keep to their orders, over the operators behind it on its device [s]
    tail: Annotated[FloatArray, "n"]
    following: Annotated[FloatArray, "d"]  # scratch of the tails [s]
    bound: Annotated[FloatArray, "n, d"]  # a lower bound on that under any placement [s]
    change: Annotated[FloatArray, "d"]  # what the change adds to the load of each device [s]
    # weights of each operator [byte]; `shared`: those of them that other operators read, too
    weight: Annotated[FloatArray, "n"]
    shared: SharedWeights
    room: Annotated[FloatArray, "d"]  # room for weights on each device [byte]
    held: Annotated[FloatArray, "d"]  # weights on each device, with the change [byte]
    message: Annotated[FloatArray, "d"]  # scratch: bytes from each device to one reader
    # chain, block: operators that the makespan waits for, from the last one back to the first; and for each the
    # place in the chain of the first one of those that follow each other on its device without a break
    chain: Annotated[IntArray, "n"]
    block: Annotated[IntArray, "n"]
    # moved, before: operators of a change, and the devices that they come from
    moved: Annotated[IntArray, "n"]
    before: Annotated[IntArray, "n"]
    inside: Annotated[npt.NDArray[np.bool_], "n"]  # true for the operators of a change while it is made
    # best_assignment, best_order: the best plan of all
    best_assignment: Annotated[IntArray, "n"]
    best_order: Annotated[IntArray, "n"]
    clockwork: Clockwork  # the event loop's arrays, if it is needed
    outside: Outside | None  # the rest of the plan, if this is a window of one
    value: Annotated[FloatArray, "2"]  # makespans of the plan and of the best one [s], see CURRENT and BEST
    # operators launched, changes proposed and changes kept so far, changes kept when the plan was sorted last, the turn
    # up to which the latest price went, and the length of the chain, -1 while it is out of date; see PLACED
    counts: Annotated[npt.NDArray[np.int64], "6"]


def new_course(problem: Problem, runtime: Runtime, assignment: IntArray, order: IntArray) -> Course:
    """The course of a placement [n] and an order [n], a topological one."""
    course = blank_course(problem, runtime)
    restart(problem, course, assignment, order, switches_of(problem, replace(runtime, noise=0.0)))
    return course


def blank_course(problem: Problem, runtime: Runtime) -> Course:
    """The arrays of a course, without a plan."""
    (n, d), links = problem.cost.shape, len(problem.arrays.link_bandwidth)
    runtime = replace(runtime, noise=0.0)
    given = {
        "bound": np.array(ranks.least_cost_to_exit(problem)),
        "weight": np.array(problem.weight_bytes),
        "shared": problem.shared_weights,
        "room": np.full(d, np.inf),
        "clockwork": NOTHING if runtime.keeps_order else new_clockwork(problem, runtime),
        "outside": None,
    }
    return blank(Course, given, n=n, e=problem.num_edges, d=d, l=links, m=(n - 1) // GRID + 1)


def restart(problem: Problem, course: Course, assignment: IntArray, order: IntArray, switches: Switches) -> None:
    """Take another plan into a course, as :func:`new_course` does; its room stays."""
    write(course, assignment, order)
    begin(problem.arrays, course, switches)


def write(course: Course, assignment: IntArray, order: IntArray) -> None:
    """Write another plan into a course, which has no times until it begins."""
    course.assignment[:] = assignment
    course.order[:] = order
    course.turn[order] = np.arange(len(order), dtype=np.int32)
    course.counts[:] = 0


def turns_of(problem: Problem, schedule: Schedule) -> IntArray:
    """[n] operators by finish, ties by topological position: an order that agrees with the device orders."""
    assert schedule.start is not None and schedule.finish is not None
    return np.lexsort((problem.arrays.position, schedule.start, schedule.finish)).astype(np.int32)


def exact(problem: Problem, runtime: Runtime) -> bool:
    """True if the times of a course are those of a simulation, bit for bit."""
    return not runtime.keeps_order or not setting(problem, runtime).clock


def switches_of(problem: Problem, runtime: Runtime) -> Switches:
    """A runtime as courses see it: without the event loop, links serve one transfer at a time, in the plan's order."""
    switches = setting(problem, runtime).switches
    if not runtime.keeps_order:
        return switches
    communication = FIFO if switches.communication == FAIR else switches.communication
    return switches._replace(
        communication=communication, streams=1, overlap=0.0, work_conserving=False, by_arrival=False
    )


def best_plan(problem: Problem, course: Course, scheduler: str = "") -> Schedule:
    """Placement and device orders of the best plan of a course, without times."""
    assignment, order = course.best_assignment, course.best_order
    rows = [frozen(order[assignment[order] == a]) for a in range(problem.num_devices)]
    return Schedule.timed(assignment, rows, None, None, scheduler)


@lean
def begin(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """As :func:`set_off`, for Python."""
    set_off(p, course, switches)


@step
def set_off(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """Simulate the plan from the start, and take it for the best one."""
    _again(p, course, switches)
    _renew_best(course)


@lean
def renew_best(course: Course) -> None:
    """Take the plan for the best one; if it lacks room, any that does not will be better."""
    _renew_best(course)


@step
def _renew_best(course: Course) -> None:
    keep_best(course)
    if lacking(course) > 0.0:
        course.value[BEST] = np.inf


@step
def lacking(course: Course) -> float:
    """Weights for which devices have no room, summed up [byte]."""
    total = 0.0
    for device in range(len(course.room)):
        total += max(0.0, course.held[device] - course.room[device])
    return total


@lean
def lack(course: Course) -> float:
    """As :func:`lacking`, for Python."""
    return lacking(course)


@step
def _again(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """Simulate the plan from the start."""
    add_up(p, course, switches)
    n = len(course.order)
    price(p, course, 0, n, np.inf, switches)
    _adopt(p, course, 0)
    find_tails(p, course, 0, n - 1, switches)


@step
def add_up(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """Add up loads and weights on each device anew, whatever part of the plan has changed.

    Then :func:`price` from turn 0 to the last one, and :func:`keep`, work as after any other change.
    """
    _add_up(p, course, course.outside, switches)


@step
def _add_up(p: ProblemArrays, course: Course, rest: Outside | None, switches: Switches) -> None:
    if rest is not None:  # a window's sums are kept with each change
        return
    for device in range(len(course.change)):
        course.change[device] = 0.0
        course.marks.load[0, device] = 0.0
        course.held[device] = 0.0
    for i in range(len(course.order)):
        course.marks.load[0, course.assignment[i]] += load_of(p, i, course.assignment[i], switches)
        course.held[course.assignment[i]] += course.weight[i] - present(
            course.shared, course.assignment, i, course.assignment[i], i
        )


@step
def keep_best(course: Course) -> None:
    """Save the plan as the best one."""
    course.value[BEST] = course.value[CURRENT]
    for k in range(len(course.order)):
        course.best_assignment[k] = course.assignment[k]
        course.best_order[k] = course.order[k]


@inlined
def load_of(p: ProblemArrays, operator: int, device: int, switches: Switches) -> float:
    """Time for which an operator keeps a device [s]; on a CPU it includes the dispatch."""
    if p.asynchronous[device]:
        return float(p.cost[operator, device])
    return float(p.cost[operator, device] + switches.dispatch)


@step
def restore(marks: Front, row: int, front: Front) -> None:
    """Set a front to a mark."""
    for device in range(len(front.free)):
        front.free[device] = marks.free[row, device]
        front.load[device] = marks.load[row, device]
        front.launched[device] = marks.launched[row, device]
        front.asked[device] = marks.asked[row, device]
        front.channel_free[0, device] = marks.channel_free[row, 0, device]
        front.channel_free[1, device] = marks.channel_free[row, 1, device]
    for link in range(len(front.link_free)):
        front.link_free[link] = marks.link_free[row, link]


@step
def mark(front: Front, marks: Front, row: int) -> None:
    """Save a front as a mark."""
    for device in range(len(front.free)):
        marks.free[row, device] = front.free[device]
        marks.load[row, device] = front.load[device]
        marks.launched[row, device] = front.launched[device]
        marks.asked[row, device] = front.asked[device]
        marks.channel_free[row, 0, device] = front.channel_free[0, device]
        marks.channel_free[row, 1, device] = front.channel_free[1, device]
    for link in range(len(front.link_free)):
        marks.link_free[row, link] = front.link_free[link]


@step
def _same(front: Front, marks: Front, row: int, switches: Switches) -> bool:
    """True if a front is that of a mark, in all that times can depend on."""
    for device in range(len(front.free)):
        if front.free[device] != marks.free[row, device]:
            return False
        if switches.dispatch > 0.0 and front.launched[device] != marks.launched[row, device]:
            return False
        if front.asked[device] != marks.asked[row, device]:
            return False
        for way in range(2):
            if front.channel_free[way, device] != marks.channel_free[row, way, device]:
                return False
    same = True
    for link in range(len(front.link_free)):
        same = same and front.link_free[link] == marks.link_free[row, link]
    return same


# Before each turn k the front is that of the plan with the change, and `trial` holds the times of the operators of
# turns `first` .. k - 1; those of earlier turns are in `now`. No operator behind the turn `reach` reads anything whose
# arrival has changed: where the front is that of the plan, too, all that follows is as it was. A plan that goes on from
# here ends no earlier than what must follow an operator, nor than all that a device still has to run.
# Under event-loop runtimes `_price_by_events` stands in for this function.
@step
def price(p: ProblemArrays, course: Course, first: int, last: int, limit: float, switches: Switches) -> float:
    """Makespan of the changed plan [s], inf if it must exceed a limit.

    Args:
        course: with the change in ``assignment``, ``order``, ``turn`` and ``change``.
        first: turn before which nothing changes: no operator, and no reader of one, has another device or turn.
        last: turn after which nothing changes: no operator has another device or turn.
        limit: largest makespan of interest [s].
    """
    n, d = p.cost.shape
    f, most = course.front, limit * SLACK
    end = outside.turns(course.outside, n)[1]
    first = first // GRID * GRID
    restore(course.marks, first // GRID, f)
    outside.restore(course.outside, first // GRID)
    for device in range(d):
        f.load[device] += course.change[device]
        if f.free[device] + f.load[device] > most:
            return np.inf
    aggregated = switches.transfers == AGGREGATED
    reach = last
    for k in range(first, end):
        if k % GRID == 0:
            if k > reach and _same(f, course.marks, k // GRID, switches) and outside.same(course.outside, k // GRID):
                course.counts[UNTIL] = k
                course.trial.makespan[0] = course.value[CURRENT]
                return float(course.value[CURRENT] if course.value[CURRENT] <= limit else np.inf)
            mark(f, course.ahead, k // GRID)
            outside.mark(course.outside, k // GRID)
        i = course.order[k]
        a = course.assignment[i]
        start = f.free[a]
        if aggregated:
            start = max(start, _pull(p, course, i, a, first, switches))
        else:
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                edge, earlier = p.predecessor_edge[m], course.turn[p.predecessor[m]] < first
                start = max(start, course.now.arrived[edge] if earlier else course.trial.arrived[edge])
        if p.asynchronous[a]:
            start = max(start, (f.launched[a] + 1) * switches.dispatch)
        course.trial.begin[i] = start
        if not p.asynchronous[a]:
            start += switches.dispatch
        finish = start + p.cost[i, a]
        course.trial.finish[i] = finish
        f.free[a] = finish
        f.launched[a] += 1
        f.load[a] -= load_of(p, i, a, switches)
        course.counts[PLACED] += 1
        if finish + max(f.load[a], course.bound[i, a] if k <= last else course.tail[i]) > most:
            return np.inf
        if not aggregated:
            reach = _push(p, course, i, a, finish, reach, end, switches)
        elif finish != course.now.finish[i] or k <= last:
            for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
                if course.turn[p.successor[edge]] < end:
                    reach = max(reach, course.turn[p.successor[edge]])
        _cross(p, course, course.outside, i, switches)
    course.counts[UNTIL] = end
    makespan = _pass_on(course, course.outside)
    for device in range(d):
        makespan = max(makespan, f.free[device] + outside.behind(course.outside, device))
    course.trial.makespan[0] = makespan
    return makespan if makespan <= limit else np.inf


def _by_events(*kinds: Any) -> bool:
    """True if a course with the event loop's arrays is among arguments of these Numba types."""
    return any(
        kind.kind.types[kind.kind.fields.index("clockwork")].kind.instance_class is Clockwork
        for kind in kinds
        if getattr(getattr(kind, "kind", None), "instance_class", None) is Course
    )


@variant(price, _by_events)
def _price_by_events(
    p: ProblemArrays, course: Course, first: int, last: int, limit: float, switches: Switches
) -> float:
    e, run, most = course.clockwork, course.clockwork.progress, limit * SLACK
    for device in range(len(run.load)):
        run.load[device] = 0.0
    for i in range(len(course.order)):
        run.load[course.assignment[i]] += _work(p, i, course.assignment[i], switches)
    for device in range(len(run.load)):
        if run.load[device] > most:
            return np.inf
    clockwork.lay_out(e, course.assignment, course.order, course.turn, switches)
    clockwork.wind(p, e, course.now.finish, switches)
    before = run.tally[1]
    for i in range(len(course.order)):
        a = course.assignment[i]
        run.rest[i] = course.bound[i, a] if course.turn[i] <= last else course.tail[i]
        if run.status[i] != QUEUED:
            run.load[a] -= _work(p, i, a, switches)
    run.limit[0] = most
    clockwork.run(p, e, switches)
    course.counts[PLACED] += run.tally[1] - before
    makespan = makespan_of(e.state, run.tally[1])
    course.trial.makespan[0] = makespan
    return makespan if makespan <= limit else np.inf


@inlined
def _work(p: ProblemArrays, operator: int, device: int, switches: Switches) -> float:
    """Device time that an operator takes in the event loop, shared or not [s]."""
    cost = p.cost[operator, device]
    return float(cost if switches.streams == 1 else cost * p.occupancy[operator, device])


@inlined
def _push(
    p: ProblemArrays, course: Course, operator: int, a: int, finish: float, reach: int, end: int, switches: Switches
) -> int:
    """Send the outputs of a finished operator to its readers.

    Returns:
        ``reach``, or if later the last turn before ``end`` of those whose arrival has changed.
    """
    f, arrived = course.front, course.trial.arrived
    first, last = p.successor_pointer[operator], p.successor_pointer[operator + 1]
    for edge in range(first, last):
        other = course.assignment[p.successor[edge]]
        leader = edge
        if a == other:
            arrived[edge] = finish
        else:
            size = float(p.edge_bytes[edge])
            if switches.transfers == CACHED:
                leader = shares_copy(p, course.assignment, edge, first)
                size = copy_size(p, course.assignment, edge, last)
            if leader == edge:
                way = switches.communication, f.link_free, f.channel_free
                arrived[edge] = book_transfer(p, *way, a, other, size, finish)[1]
            else:
                arrived[edge] = arrived[leader]
        if arrived[edge] != course.now.arrived[edge] and course.turn[p.successor[edge]] < end:
            reach = max(reach, course.turn[p.successor[edge]])
    return reach


@inlined
def _pass_on(course: Course, rest: Outside | None) -> float:
    """Least makespan that the state of links, and what was sent, leave possible where a window ends [s]."""
    if rest is None:
        return 0.0
    f, makespan = course.front, rest.crossed[0]
    for link in range(len(f.link_free)):
        makespan = max(makespan, f.link_free[link] + rest.behind.link[link])
    for device in range(len(f.free)):
        makespan = max(makespan, f.asked[device] + rest.behind.asked[device])
        for way in range(2):
            makespan = max(makespan, f.channel_free[way, device] + rest.behind.channel[way, device])
    return float(makespan)


@inlined
def _cross(p: ProblemArrays, course: Course, rest: Outside | None, operator: int, switches: Switches) -> None:
    """Raise the bound on the makespan that the readers of an operator behind the window give."""
    if rest is None:
        return
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        if course.turn[j] < rest.turns[1]:
            continue
        sent = course.trial.finish[operator] if switches.transfers == AGGREGATED else course.trial.arrived[edge]
        rest.crossed[0] = max(rest.crossed[0], sent + rest.wait[j - len(rest.pointer) + 1])
    for k in range(rest.pointer[operator], rest.pointer[operator + 1]):
        rest.crossed[0] = max(rest.crossed[0], rest.floor[k, course.assignment[operator]])


@step
def _pull(p: ProblemArrays, course: Course, operator: int, device: int, first: int, switches: Switches) -> float:
    """Arrival of a reader's inputs [s]; each other device sends all that it holds in one message."""
    f, message = course.front, course.message
    request = f.asked[device]
    for a in range(len(message)):
        message[a] = -1.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[m]
        a = course.assignment[i]
        request = max(request, course.now.finish[i] if course.turn[i] < first else course.trial.finish[i])
        if a != device:
            message[a] = max(0.0, message[a]) + p.edge_bytes[p.predecessor_edge[m]]
    f.asked[device] = request
    ready = request
    for a in range(len(message)):
        if message[a] >= 0.0:
            way = switches.communication, f.link_free, f.channel_free
            ready = max(ready, book_transfer(p, *way, a, device, message[a], request)[1])
    return float(ready)


@step
def keep(p: ProblemArrays, course: Course, first: int, last: int, switches: Switches) -> None:
    """Make the changed plan, which :func:`price` with the same turns has priced to its end, the current one."""
    _adopt(p, course, first)
    find_tails(p, course, first, last, switches)
    course.counts[KEPT] += 1
    _compare(course)


@step
def _compare(course: Course) -> None:
    """Save the plan if it is the best one."""
    if course.value[CURRENT] < course.value[BEST] * TIE and lacking(course) == 0.0:
        keep_best(course)


# Under event-loop runtimes `_adopt_by_events` stands in for this function.
@step
def _adopt(p: ProblemArrays, course: Course, first: int) -> None:
    """Copy times and marks of the changed plan."""
    d, until = p.cost.shape[1], course.counts[UNTIL]
    first = first // GRID
    for k in range(first * GRID, until):
        i = course.order[k]
        course.now.begin[i] = course.trial.begin[i]
        course.now.finish[i] = course.trial.finish[i]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            course.now.arrived[edge] = course.trial.arrived[edge]
    for row in range(first):  # earlier marks change only in what is still to come
        for device in range(d):
            course.marks.load[row, device] += course.change[device]
    for row in range(first, (until + GRID - 1) // GRID):
        restore(course.ahead, row, course.front)
        mark(course.front, course.marks, row)
        outside.adopt(course.outside, row)
    for device in range(d):
        course.change[device] = 0.0
    course.value[CURRENT] = course.trial.makespan[0]
    course.counts[CHAIN] = -1


@variant(_adopt, _by_events)
def _adopt_by_events(p: ProblemArrays, course: Course, first: int) -> None:
    s = course.clockwork.state
    clockwork.adopt(course.clockwork, course.trial.makespan[0])
    for i in range(len(course.order)):
        course.now.begin[i] = s.start[i]
        course.now.finish[i] = s.finish[i]
    for edge in range(len(s.arrived)):
        course.now.arrived[edge] = s.arrived[edge]
    for device in range(len(course.change)):
        course.marks.load[0, device] += course.change[device]
        course.change[device] = 0.0
    course.value[CURRENT] = course.trial.makespan[0]
    course.counts[CHAIN] = -1


# Behind the turn `last` tails are as they were. Before each turn k, downwards, `following` holds the least time from
# the start of each device's next operator to the end, and no operator before the turn `reach` has a reader whose tail
# has changed: where `following` is as in the marks, too, all earlier tails are as they were.
@step
def find_tails(p: ProblemArrays, course: Course, first: int, last: int, switches: Switches) -> None:
    """Find the tails anew: behind an operator come its readers and, in a fixed order, the next on its device.

    No operator of a turn before ``first`` or after ``last`` has moved.
    """
    n, d = p.cost.shape
    in_order = keeps_order(switches)
    row = last // GRID + 1
    top = min(outside.turns(course.outside, n)[1], row * GRID) - 1
    for device in range(d):
        known = row < len(course.marks.behind)
        course.following[device] = course.marks.behind[row, device] if known else outside.behind(course.outside, device)
    reach = first
    for k in range(top, -1, -1):
        i = course.order[k]
        a = course.assignment[i]
        tail = course.following[a] if in_order else 0.0
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            other = course.assignment[j]
            transfer = 0.0
            if a != other:
                transfer = transfer_time(p, a, other, p.edge_bytes[edge])
            tail = max(tail, transfer + p.cost[j, other] + course.tail[j])
        if tail != course.tail[i] or k <= last:
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                if course.turn[p.predecessor[m]] >= 0:
                    reach = min(reach, course.turn[p.predecessor[m]])
        course.tail[i] = tail
        course.following[a] = p.cost[i, a] + tail
        if k % GRID == 0:
            same = k <= reach
            for device in range(d):
                same = same and course.following[device] == course.marks.behind[k // GRID, device]
                course.marks.behind[k // GRID, device] = course.following[device]
            if same:
                return


# Each step goes to the operator that leaves the device at the moment at which this one takes it, else to a predecessor
# whose data arrive at that moment, and down in turns: so it ends.
# Under event-loop runtimes `_find_chain_by_events` stands in for this function.
@step
def find_chain(p: ProblemArrays, course: Course) -> None:
    """Bring the critical chain up to date."""
    if course.counts[CHAIN] >= 0:
        return
    i, low = _last(course, course.outside), outside.turns(course.outside, len(course.order))[0]
    count, first = 0, 0
    while i >= 0 and course.turn[i] >= low:
        course.chain[count], course.block[count] = i, first
        count += 1
        device, begin, before = course.assignment[i], course.now.begin[i], -1
        k = course.turn[i] - 1
        while k >= low and course.assignment[course.order[k]] != device:
            k -= 1
        if k >= low and course.now.finish[course.order[k]] == begin:
            before = course.order[k]
        else:
            first = count
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                if course.now.arrived[p.predecessor_edge[m]] == begin:
                    before = p.predecessor[m]
        i = before
    course.counts[CHAIN] = count


@step
def _last(course: Course, rest: Outside | None) -> int:
    """The last operator of the plan; in a window the one from whose finish on it takes longest."""
    i = course.order[len(course.order) - 1]
    if rest is None:
        for k in range(len(course.order)):
            if course.now.finish[course.order[k]] > course.now.finish[i]:
                i = course.order[k]
        return int(i)
    latest = -1.0
    for k in range(rest.turns[0], rest.turns[1]):
        j = course.order[k]
        if course.now.finish[j] + course.tail[j] >= latest:
            i, latest = j, course.now.finish[j] + course.tail[j]
    return int(i)


# Operators may run beside each other, and start some time after what they wait for: each step goes to whatever ended
# last before the start, an input that arrived or an operator of the device. Steps go down in (start, position).
@variant(find_chain, _by_events)
def _find_chain_by_events(p: ProblemArrays, course: Course) -> None:
    if course.counts[CHAIN] >= 0:
        return
    i = course.order[0]
    for k in range(len(course.order)):
        if course.now.finish[course.order[k]] > course.now.finish[i]:
            i = course.order[k]
    count = 0
    while i >= 0:
        course.chain[count], course.block[count] = i, count
        count += 1
        begin, before, latest = course.now.begin[i], -1, 0.0
        for j in range(len(course.order)):
            earlier = course.now.begin[j] < begin or p.position[j] < p.position[i]
            if course.assignment[j] == course.assignment[i] and latest < course.now.finish[j] <= begin and earlier:
                before, latest = j, course.now.finish[j]
        for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            arrived = course.now.arrived[p.predecessor_edge[m]]
            if latest <= arrived:
                before, latest = p.predecessor[m], arrived
        i = before
    course.counts[CHAIN] = count


# Few operators are out of place, so that insertion sort takes about one pass.
@step
def sort(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """Bring the plan into the order in which its operators finish, and simulate it again if that changes it."""
    course.counts[SORTED] = course.counts[KEPT]
    moved, (low, end) = False, outside.turns(course.outside, len(course.order))
    for k in range(low + 1, end):
        i, m = course.order[k], k
        while m > low and course.now.finish[course.order[m - 1]] > course.now.finish[i]:
            course.order[m] = course.order[m - 1]
            m -= 1
        course.order[m] = i
        moved = moved or m < k
    if moved:
        for k in range(low, end):
            course.turn[course.order[k]] = k
        _again(p, course, switches)
        _compare(course)


@lean
def sort_now(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """As :func:`sort`, for Python."""
    sort(p, course, switches)


@step
def sort_now_and_then(p: ProblemArrays, course: Course, switches: Switches) -> None:
    """As :func:`sort`, if enough changes were kept since the last time."""
    if course.counts[KEPT] - course.counts[SORTED] >= SORT:
        sort(p, course, switches)


@step
def put(p: ProblemArrays, course: Course, count: int, operator: int, device: int, switches: Switches) -> None:
    """Put an operator on a device that can run it, as number ``count`` of a change."""
    course.moved[count] = operator
    course.before[count] = course.assignment[operator]
    course.change[course.assignment[operator]] -= load_of(p, operator, course.assignment[operator], switches)
    course.change[device] += load_of(p, operator, device, switches)
    _reload(course, operator, device)


@step
def _reload(course: Course, operator: int, device: int) -> None:
    """Move an operator, and those of its weights that no other one on its device reads, to a device."""
    before, n = course.assignment[operator], len(course.weight)
    course.held[before] -= course.weight[operator] - present(course.shared, course.assignment, operator, before, n)
    course.held[device] += course.weight[operator] - present(course.shared, course.assignment, operator, device, n)
    course.assignment[operator] = device
    outside.bring(course.outside, course.now.arrived, operator, device)


@step
def take_back(course: Course, count: int) -> None:
    """Undo a change of ``count`` operators."""
    for k in range(count):
        _reload(course, course.moved[k], course.before[k])
    for device in range(len(course.change)):
        course.change[device] = 0.0


@step
def shift(course: Course, source: int, target: int) -> None:
    """Give the operator of one turn another turn; those between move up or down by one."""
    shift_turns(course.order, course.turn, source, target)
