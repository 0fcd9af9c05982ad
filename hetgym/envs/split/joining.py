"""Joining: HEFT's schedule of a graph with splits in compiled code, from the forms of its operators.

A search or an episode asks for the makespans of hundreds of splits of one graph, and hardly ever for a schedule. So no
:class:`~hetgym.Problem` is made: forms are written one behind the other into arrays that are kept, ranked and placed.
The result is that of ``heft`` on the problem of :meth:`~hetgym.envs.split.assembly.Assembly.problem`, bit for bit.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import entry, reader, record
from hetgym._kernels.threads import done, take
from hetgym._types import BoolArray, FloatArray, Int64Array, IntArray, Scalar, frozen
from hetgym.envs.split.forms import GATHERS, PARTS, RESULT, SCATTERS, FormArrays, GraphForms, read_form, read_graph
from hetgym.graph.topology import Adjacency, fill_rows, write_kahn_order
from hetgym.planning import timeline
from hetgym.planning.intervals import new_intervals
from hetgym.planning.list_scheduling import place_in_order
from hetgym.planning.ranks import write_list_order, write_longest_path_to_exit
from hetgym.planning.ready_queue import ReadyQueue, new_queue
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim.memory import Changes, new_changes, write_changes, write_peaks
from hetgym.transfer import transfer_time

OPERATORS, EDGES, CONSTANTS = range(3)  # Fields of DeskArrays.size
READ, SPARED = 1, 2  # Bits of DeskArrays.result: a reader needs the whole result; a reader takes the parts one by one


@record
class DeskArrays(NamedTuple):
    """Room for a problem in the making: n operators that take the place of b, e edges, c named constants, d devices."""

    size: Annotated[Int64Array, "3"]  # n, e, c
    form: Annotated[Int64Array, "b"]  # row of each operator's form
    result: Annotated[Int64Array, "b"]  # how its result is read, READ and SPARED
    offset: Annotated[Int64Array, "b"]  # where its form begins
    first: Annotated[Int64Array, "b"]  # its first part
    last: Annotated[Int64Array, "b"]  # the one with the whole result
    holds: Annotated[npt.NDArray[np.bool_], "d, c"]  # whether a device holds each constant
    transfer: Annotated[FloatArray, "2"]  # mean latency [s], and mean time that a byte takes [s]
    # source, slot, target: ends of the edges as they come
    source: Annotated[IntArray, "e"]
    slot: Annotated[IntArray, "e"]
    target: Annotated[IntArray, "e"]
    bytes: Annotated[FloatArray, "e"]
    member: Annotated[IntArray, "n"]  # place of each operator among the scatters, parts and gather of its form
    cost: Annotated[FloatArray, "n, d"]  # run times [s]
    mean: Annotated[FloatArray, "n"]  # over devices
    output: Annotated[FloatArray, "n"]  # bytes
    weights: Annotated[FloatArray, "n"]  # bytes
    latency: Annotated[FloatArray, "d, d"]  # of the platform [s]
    bandwidth: Annotated[FloatArray, "d, d"]  # of the platform [byte/s]
    start: Annotated[IntArray, "e"]  # source of each edge, sorted by source
    payload: Annotated[FloatArray, "e"]  # its bytes
    delay: Annotated[FloatArray, "e"]  # its mean transfer time [s]
    after: Adjacency  # successors
    before: Adjacency  # predecessors
    order: Annotated[IntArray, "n"]  # Kahn's order
    position: Annotated[IntArray, "n"]  # its inverse


@record
class DeskRecord(NamedTuple):
    """A desk, as kernels see it."""

    joined: DeskArrays  # the problem in the making, writable
    problem: ProblemArrays  # the same as HEFT reads it, with `mean` and `delay`
    mean: FloatArray
    delay: FloatArray
    placed: Timeline  # this and the next five are of HEFT
    queue: ReadyQueue
    rank: FloatArray
    turns: IntArray
    free: IntArray
    bonus: FloatArray
    sent: FloatArray  # [e] times of transfers [s]
    arrived: FloatArray  # [e]
    changes: Changes  # allocations and releases
    used: FloatArray  # [d] bytes


class Room(NamedTuple):
    """Sizes of a desk, at least 1 each: operators of a graph before any split, and after it; edges; named constants."""

    graph: int
    operators: int
    edges: int
    constants: int


def grown(room: Room, size: Int64Array) -> Room:
    """A room in which a problem of some :attr:`DeskArrays.size` fits, and some larger ones."""
    n, e, constants = (size * 3 // 2).tolist()
    return Room(room.graph, max(room.operators, n), max(room.edges, e), max(room.constants, constants))


class Desk:
    """Arrays in which graphs with splits are put together, for graphs on a number of devices.

    Kernels see arrays of exactly the size of the problem at hand: they read a row of addresses and shapes
    (:mod:`hetgym._kernels.records`), and :func:`measure` writes the shapes.

    Args:
        devices: number of devices.

    Attributes:
        arrays: all of them, as long as there is room.
        row: for kernels, of the size that was measured last.
        shapes: [3, …] what the row holds without operators and edges, and what an operator and an edge add to it.
        limits: [3] most operators, edges and named constants.
    """

    def __init__(self, devices: int, room: Room) -> None:
        self.devices, self.room = devices, room
        self.arrays = _new_desk(devices, Room(*(max(size, 2) for size in room)))
        small, wide, long = (entry(sized(self.arrays, n, e)).row for n, e in ((1, 1), (2, 1), (1, 2)))
        self.row = small
        self.shapes = np.stack([3 * small - wide - long, wide - small, long - small])
        self.limits = np.array([max(size, 2) for size in room[1:]], np.int64)

    def holds(self, room: Room) -> bool:
        """True if `room` fits."""
        return all(own >= other for own, other in zip(self.room, room, strict=True))

    def take(self, problem: Problem) -> None:
        """Put the links of a problem's platform on the desk."""
        joined = self.arrays.joined
        joined.transfer[:] = problem.mean_transfer
        joined.latency[:], joined.bandwidth[:] = problem.latency, problem.bandwidth


def _new_desk(d: int, room: Room) -> DeskRecord:
    graph, n, e, constants = room

    joined = blank(DeskArrays, b=graph, n=n, e=e, c=constants, d=d)
    placed = Timeline(np.full(n, -1, np.int32), np.zeros(n), np.zeros(n), new_intervals(n, d))
    return DeskRecord(
        joined, _EMPTY.arrays, joined.mean, joined.delay, placed, new_queue(n),
        rank=np.zeros(n), turns=np.zeros(n, np.int32), free=np.full(n, -1, np.int32), bonus=np.zeros((n, d)),
        sent=np.zeros(e), arrived=np.zeros(e), changes=new_changes(n, e), used=np.zeros(d),
    )  # fmt: skip


_EMPTY = Problem.from_arrays(np.ones((1, 1)), [])


def sized(desk: DeskRecord, n: int, e: int) -> DeskRecord:
    """A desk of exactly n operators and e edges, on the same memory."""
    full = desk.joined

    def rows(a: Adjacency) -> Adjacency:
        return Adjacency(a.pointer[: n + 1], a.node[:e], a.edge[:e])

    joined = full._replace(
        source=full.source[:e], slot=full.slot[:e], target=full.target[:e], bytes=full.bytes[:e],
        member=full.member[:n], cost=full.cost[:n], mean=full.mean[:n], output=full.output[:n],
        weights=full.weights[:n], start=full.start[:e], payload=full.payload[:e], delay=full.delay[:e],
        after=rows(full.after), before=rows(full.before), order=full.order[:n], position=full.position[:n],
    )  # fmt: skip
    problem = desk.problem._replace(
        cost=_seen(joined.cost), successor_pointer=_seen(joined.after.pointer), successor=_seen(joined.after.node),
        edge_source=_seen(joined.start), predecessor_pointer=_seen(joined.before.pointer),
        predecessor=_seen(joined.before.node), predecessor_edge=_seen(joined.before.edge),
        edge_bytes=_seen(joined.payload), edge_tensor=_seen(joined.slot), latency=_seen(joined.latency),
        bandwidth=_seen(joined.bandwidth), topological_order=_seen(joined.order), position=_seen(joined.position),
    )  # fmt: skip
    placed, queue = desk.placed, desk.queue
    return DeskRecord(
        joined, problem, _seen(joined.mean), _seen(joined.delay),
        placed._replace(assignment=placed.assignment[:n], start=placed.start[:n], finish=placed.finish[:n]),
        queue._replace(waiting=queue.waiting[:n]),
        desk.rank[:n], desk.turns[:n], desk.free[:n], desk.bonus[:n], desk.sent[:e], desk.arrived[:e], desk.changes,
        desk.used,
    )  # fmt: skip


def _seen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A read-only view, as kernels are compiled for."""
    return frozen(array.view())


DESK = sized(_new_desk(1, Room(2, 2, 2, 2)), 1, 1)  # An example of the record
read_desk = reader(DESK)
FITS, LACKS_FORM, LACKS_ROOM, UNRUNNABLE = range(4)  # Results of measure


@lean
def measure(
    graphs: Int64Array,
    entries: Int64Array,
    desks: Int64Array,
    shapes: Int64Array,
    limits: Int64Array,
    asked: BoolArray,
    found: Int64Array,
) -> bool:
    """Find out how large problems of graphs with splits are, and give desks those sizes.

    Args:
        graphs: [L, …] rows of :class:`~hetgym.envs.split.forms.GraphForms`.
        entries: [L, k or more] entries of the menu of the key operators; 0 leaves one whole.
        desks: [L, …] rows of :class:`DeskRecord`; their shapes are written, and the desks' ``size``.
        shapes: [L, 3, …] of the desks.
        limits: [L, 3] of the desks.
        asked: [L] which problems are measured.
        found: [L] written: :data:`FITS`, for those that are not asked for too; :data:`LACKS_FORM`, with the row of a
            form that has not been made as the first number of ``size``; :data:`LACKS_ROOM`, where the desk is smaller
            than ``size`` says; or :data:`UNRUNNABLE`, if there is an operator that no device can run.

    Returns:
        True if no problem lacks anything.
    """
    whole = True
    for lane in range(len(asked)):
        found[lane] = FITS
        if asked[lane]:
            found[lane] = _measure(graphs[lane], entries[lane], desks[lane], shapes[lane], limits[lane])
            whole = whole and (found[lane] == FITS or found[lane] == UNRUNNABLE)
    return whole


# The row of the desk must not change while somebody reads it: only arrays whose shapes do not depend on the sizes are
# read here.
@step
def _measure(graph: Int64Array, entries: Int64Array, desk: Int64Array, shapes: Int64Array, limits: Int64Array) -> int:
    forms, joined = read_graph(graph), read_desk(desk).joined
    joined.size[:] = 0
    for i in range(len(forms.first)):
        joined.form[i] = forms.first[i] + (entries[forms.turn[i]] if forms.turn[i] >= 0 else 0)
        joined.result[i] = 0
        if forms.table[joined.form[i], 0] == 0:
            joined.size[OPERATORS] = joined.form[i]
            return LACKS_FORM
    for i in range(len(forms.first)):
        form = read_form(forms.table[joined.form[i]])
        for k in range(form.shape[SCATTERS]):
            joined.result[form.deals[0, k]] |= SPARED if _spared(forms, joined, form, k) else READ
        for k in range(form.wholes.shape[1]):
            joined.result[form.wholes[0, k]] |= READ
    stuck = 0
    for i in range(len(forms.first)):
        form = read_form(forms.table[joined.form[i]])
        stuck += _count(forms, joined, form, i)
        for k in range(len(form.constants)):
            joined.size[CONSTANTS] = max(joined.size[CONSTANTS], form.constants[k] + 1)
    for what in range(3):
        if joined.size[what] > limits[what]:
            return LACKS_ROOM
    for word in range(len(desk)):
        desk[word] = shapes[0, word] + joined.size[OPERATORS] * shapes[1, word] + joined.size[EDGES] * shapes[2, word]
    return FITS if stuck == 0 else UNRUNNABLE


@step
def _spared(forms: GraphForms, joined: DeskArrays, form: FormArrays, scatter: int) -> bool:
    """True if a scatter cancels with the gather of what it deals out: the parts are there already."""
    source = read_form(forms.table[joined.form[form.deals[0, scatter]]])
    return bool(source.shape[RESULT] == form.deals[2, scatter])


@step
def _gathered(joined: DeskArrays, form: FormArrays, i: int) -> bool:
    """True if the parts of an operator are gathered: it is split, and some reader needs the whole result."""
    return bool(form.shape[GATHERS] == 1 and joined.result[i] != SPARED)


@step
def _count(forms: GraphForms, joined: DeskArrays, form: FormArrays, i: int) -> int:
    """Say where a form goes, add up operators and edges, and return how many of its operators no device can run."""
    scatters, parts = form.shape[SCATTERS], form.shape[PARTS]
    kept = 0
    stuck = 0
    for k in range(scatters):
        if not _spared(forms, joined, form, k):
            kept += 1
            stuck += np.isnan(form.mean[k])
    for k in range(scatters, scatters + parts):
        stuck += np.isnan(form.mean[k])
    joined.offset[i] = joined.size[OPERATORS]
    joined.first[i] = joined.offset[i] + kept
    joined.size[OPERATORS] += kept + parts
    joined.size[EDGES] += kept + form.reads.shape[1] + form.wholes.shape[1]
    if _gathered(joined, form, i):
        joined.size[OPERATORS] += 1
        joined.size[EDGES] += parts
        stuck += np.isnan(form.mean[scatters + parts])
    joined.last[i] = joined.size[OPERATORS] - 1
    return int(stuck)


@lean
def join(graph: Int64Array, desk: Int64Array) -> None:
    """Write the problem that was measured: operators and edges, these first within forms and then between them.

    Args:
        graph: row of a :class:`~hetgym.envs.split.forms.GraphForms`.
        desk: row of a :class:`DeskRecord`.
    """
    _join(graph, desk)


@step
def _join(graph: Int64Array, desk: Int64Array) -> None:
    forms, joined = read_graph(graph), read_desk(desk).joined
    edge = 0
    for i in range(len(forms.first)):
        form = read_form(forms.table[joined.form[i]])
        _write_operators(forms, joined, form, i)
        edge = _write_inner(forms, joined, form, i, edge)
    for i in range(len(forms.first)):
        form = read_form(forms.table[joined.form[i]])
        edge = _write_outer(forms, joined, form, i, edge)
        for k in range(len(form.constants)):
            joined.weights[joined.first[i] + form.readers[k]] += form.constant_bytes[k]
        for k in range(form.shape[PARTS]):
            joined.weights[joined.first[i] + k] += form.unnamed[k]


@step
def _write_operators(forms: GraphForms, joined: DeskArrays, form: FormArrays, i: int) -> None:
    scatters, parts = form.shape[SCATTERS], form.shape[PARTS]
    at = joined.offset[i]
    for k in range(scatters + parts + form.shape[GATHERS]):
        if (k < scatters and _spared(forms, joined, form, k)) or (
            k == scatters + parts and not _gathered(joined, form, i)
        ):
            continue
        for a in range(joined.cost.shape[1]):
            joined.cost[at, a] = form.cost[k, a]
        joined.member[at], joined.mean[at], joined.output[at], joined.weights[at] = k, form.mean[k], form.output[k], 0.0
        at += 1


@step
def _write_inner(forms: GraphForms, joined: DeskArrays, form: FormArrays, i: int, edge: int) -> int:
    """Write the edges within a form; returns where the next edge goes."""
    place, last = joined.offset[i] - 1, -1
    for k in range(form.reads.shape[1]):
        scatter, part = form.reads[0, k], form.reads[1, k]
        if _spared(forms, joined, form, scatter):
            continue
        place += scatter != last
        last = scatter
        edge = _write_edge(joined, edge, place, part, joined.first[i] + part, form.read_bytes[k])
    if _gathered(joined, form, i):
        for k in range(form.shape[PARTS]):
            edge = _write_edge(joined, edge, joined.first[i] + k, 0, joined.last[i], form.part_bytes[k])
    return edge


@step
def _write_outer(forms: GraphForms, joined: DeskArrays, form: FormArrays, i: int, edge: int) -> int:
    """Write the edges that come from other forms; returns where the next edge goes."""
    place = joined.offset[i]
    for k in range(form.shape[SCATTERS]):
        if not _spared(forms, joined, form, k):
            edge = _write_edge(joined, edge, joined.last[form.deals[0, k]], form.deals[1, k], place, form.deal_bytes[k])
            place += 1
    for k in range(form.reads.shape[1]):
        scatter, part = form.reads[0, k], form.reads[1, k]
        if _spared(forms, joined, form, scatter):
            source = joined.first[form.deals[0, scatter]] + part
            edge = _write_edge(joined, edge, source, 0, joined.first[i] + part, form.read_bytes[k])
    for k in range(form.wholes.shape[1]):
        source, target = joined.last[form.wholes[0, k]], joined.first[i] + form.wholes[2, k]
        edge = _write_edge(joined, edge, source, form.wholes[1, k], target, form.whole_bytes[k])
    return edge


@step
def _write_edge(joined: DeskArrays, edge: int, source: int, slot: int, target: int, size: float) -> int:
    joined.source[edge], joined.slot[edge], joined.target[edge], joined.bytes[edge] = source, slot, target, size
    return edge + 1


@lean
def price(
    graphs: Int64Array,
    desks: Int64Array,
    busy: FloatArray,
    operators: Int64Array,
    held: FloatArray,
    makespan: FloatArray,
    found: Int64Array,
    shared: Int64Array,
) -> None:
    """Find HEFT's schedules of the problems that were measured, in every lane of a list that has one.

    Args:
        graphs: [L, …] as in :func:`measure`, and so are ``desks`` and ``found``.
        busy: [L, d or more] overwritten, as the next three; see :class:`~hetgym.envs.split.instance.Loads`.
        operators: [L, d or more].
        held: [L, d or more] weights of operators [byte].
        makespan: [L] of the schedules [s].
        shared: the list of lanes, see :func:`~hetgym._kernels.threads.share`.
    """
    lane = take(shared)
    while lane >= 0:
        if found[lane] == FITS:
            makespan[lane] = _price(graphs[lane], desks[lane], busy[lane], operators[lane], held[lane])
        done(shared)
        lane = take(shared)


@step
def _price(graph: Int64Array, desk: Int64Array, busy: FloatArray, operators: Int64Array, held: FloatArray) -> float:
    """The makespan of HEFT's schedule of the problem that was measured [s]; every operator can run on some device."""
    _join(graph, desk)
    r = read_desk(desk)
    joined, queue = r.joined, r.queue
    n, latency, per_byte = len(joined.mean), joined.transfer[0], joined.transfer[1]
    fill_rows(joined.source, joined.target, joined.after.pointer, joined.after.node, joined.after.edge, joined.position)
    for i in range(n):
        for k in range(joined.after.pointer[i], joined.after.pointer[i + 1]):
            joined.start[k] = i
            joined.payload[k] = joined.bytes[joined.after.edge[k]]
            joined.delay[k] = latency + joined.payload[k] * per_byte
    before = joined.before
    fill_rows(joined.after.node, joined.start, before.pointer, before.node, before.edge, joined.position)
    for i in range(n):
        queue.waiting[i] = before.pointer[i + 1] - before.pointer[i]
    write_kahn_order(joined.after.pointer, joined.after.node, queue.waiting, queue.heaps, joined.order)
    for k in range(n):
        joined.position[joined.order[k]] = k
    timeline.clear(r.placed)
    write_longest_path_to_exit(r.problem, r.mean, r.delay, r.rank)
    write_list_order(r.problem, queue, r.rank, r.turns)
    makespan = place_in_order(r.problem, r.placed, r.turns, r.free, r.bonus, True)
    for a in range(len(busy)):
        busy[a] = held[a] = 0.0
        operators[a] = 0
    for i in range(n):
        a = r.placed.assignment[i]
        busy[a] += joined.cost[i, a]
        operators[a] += 1
    _load(read_graph(graph), joined, r.placed.assignment, held)
    return makespan


@step
def _load(forms: GraphForms, joined: DeskArrays, assignment: IntArray, held: FloatArray) -> None:
    """Add up what devices hold of weights, constants with a name once [byte]; ``held`` is 0 before."""
    for a in range(len(joined.holds)):
        for k in range(joined.size[CONSTANTS]):
            joined.holds[a, k] = False
    for i in range(len(forms.first)):
        form = read_form(forms.table[joined.form[i]])
        for k in range(form.shape[PARTS]):
            held[assignment[joined.first[i] + k]] += form.unnamed[k]
        for k in range(len(form.constants)):
            a, constant = assignment[joined.first[i] + form.readers[k]], form.constants[k]
            if not joined.holds[a, constant]:
                joined.holds[a, constant] = True
                held[a] += form.constant_bytes[k]


@lean
def peaks(desk: Int64Array, held: FloatArray, peak: FloatArray) -> None:
    """Largest memory in use on each device under the schedule that was priced last.

    Args:
        held: [d] bytes of weights on each device.
        peak: [d] overwritten [byte].
    """
    r = read_desk(desk)
    p, t = r.problem, r.placed
    for i in range(len(t.assignment)):
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            source, target = t.assignment[i], t.assignment[p.successor[edge]]
            r.sent[edge] = t.finish[i]
            r.arrived[edge] = t.finish[i] + transfer_time(p, source, target, p.edge_bytes[edge])
    count = write_changes(p, r.joined.output, t.assignment, t.start, t.finish, r.sent, r.arrived, True, r.changes)
    write_peaks(r.changes, count, held, r.used, peak)
