"""Joining: HEFT's schedule of a graph with splits in compiled code, from the forms of its operators.

A search or an episode asks for the makespans of hundreds of splits of one graph, and hardly ever for a schedule. So no
:class:`~hetgym.Problem` is made: forms are written one behind the other into arrays that are kept, ranked and placed.
The result is that of ``heft`` on the problem of :meth:`~hetgym.envs.split.assembly.Assembly.problem`, bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import entry, reader, record
from hetgym._types import FloatArray, Int64Array, IntArray, Scalar, frozen
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

OPERATORS, EDGES, CONSTANTS, STUCK = range(4)
"""Fields of :attr:`DeskArrays.size`."""

READ, SPARED = 1, 2
"""Bits of :attr:`DeskArrays.result`: a reader needs the whole result; a reader takes the parts one by one."""


@record
class DeskArrays(NamedTuple):
    """Room for a problem in the making: n operators that take the place of b, e edges, c named constants, d devices.

    Attributes:
        size: n, e, c, and the number of operators that no device can run.
        form: [b] row of each operator's form; ``result``: [b] how its result is read, :data:`READ` and :data:`SPARED`.
        offset: [b] where its form begins; ``first``: [b] its first part; ``last``: [b] the one with the whole result.
        holds: [d, c] whether a device holds each constant.
        transfer: [2] mean latency [s], and mean time that a byte takes [s].
        source, slot, target: [e] ends of the edges as they come; ``bytes``: [e].
        member: [n] place of each operator among the scatters, parts and gather of its form.
        cost: [n, d] run times [s]; ``mean``: [n] over devices; ``output``, ``weights``: [n] bytes.
        latency, bandwidth: [d, d] of the platform.
        start, payload, delay: [e] source, bytes and mean transfer time [s] of each edge, sorted by source.
        after, before: successors and predecessors.
        order, position: [n] Kahn's order and its inverse.
    """

    size: Int64Array
    form: Int64Array
    result: Int64Array
    offset: Int64Array
    first: Int64Array
    last: Int64Array
    holds: npt.NDArray[np.bool_]
    transfer: FloatArray
    source: IntArray
    slot: IntArray
    target: IntArray
    bytes: FloatArray
    member: IntArray
    cost: FloatArray
    mean: FloatArray
    output: FloatArray
    weights: FloatArray
    latency: FloatArray
    bandwidth: FloatArray
    start: IntArray
    payload: FloatArray
    delay: FloatArray
    after: Adjacency
    before: Adjacency
    order: IntArray
    position: IntArray


@record
class DeskRecord(NamedTuple):
    """A desk, as kernels see it.

    Attributes:
        joined: the problem in the making, writable.
        problem: the same as HEFT reads it, with ``mean`` and ``delay``.
        placed, queue, rank, turns, free, bonus: of HEFT.
        sent, arrived: [e] times of transfers [s].
        changes: allocations and releases; ``used``: [d] bytes.
    """

    joined: DeskArrays
    problem: ProblemArrays
    mean: FloatArray
    delay: FloatArray
    placed: Timeline
    queue: ReadyQueue
    rank: FloatArray
    turns: IntArray
    free: IntArray
    bonus: FloatArray
    sent: FloatArray
    arrived: FloatArray
    changes: Changes
    used: FloatArray


class Room(NamedTuple):
    """Sizes of a desk, at least 1 each: operators of a graph before any split, and after it; edges; named constants."""

    graph: int
    operators: int
    edges: int
    constants: int


def grown(room: Room, size: Int64Array) -> Room:
    """A room in which a problem of some :attr:`DeskArrays.size` fits, and some larger ones."""
    n, e, c = (size[:3] * 3 // 2).tolist()
    return Room(room.graph, max(room.operators, n), max(room.edges, e), max(room.constants, c))


class Desk:
    """Arrays in which graphs with splits are put together, for graphs on a number of devices.

    Kernels see arrays of exactly the size of the problem at hand: they read a row of addresses and shapes
    (:mod:`hetgym._kernels.records`), and :func:`measure` writes the shapes.

    Args:
        devices: number of devices.
        room: what the desk has room for.

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
    b, n, e, c = room

    def ints(count: int) -> IntArray:
        return np.zeros(count, np.int32)

    form, result, offset, first, last = (np.zeros(b, np.int64) for _ in range(5))
    joined = DeskArrays(
        size=np.zeros(4, np.int64), form=form, result=result, offset=offset, first=first, last=last,
        holds=np.zeros((d, c), np.bool_), transfer=np.zeros(2),
        source=ints(e), slot=ints(e), target=ints(e), bytes=np.zeros(e),
        member=ints(n), cost=np.zeros((n, d)), mean=np.zeros(n), output=np.zeros(n), weights=np.zeros(n),
        latency=np.zeros((d, d)), bandwidth=np.zeros((d, d)), start=ints(e), payload=np.zeros(e), delay=np.zeros(e),
        after=Adjacency(ints(n + 1), ints(e), ints(e)), before=Adjacency(ints(n + 1), ints(e), ints(e)),
        order=ints(n), position=ints(n),
    )  # fmt: skip
    placed = Timeline(np.full(n, -1, np.int32), np.zeros(n), np.zeros(n), new_intervals(n, d))
    return DeskRecord(
        joined, _EMPTY.arrays, joined.mean, joined.delay, placed, new_queue(n),
        rank=np.zeros(n), turns=ints(n), free=np.full(n, -1, np.int32), bonus=np.zeros((n, d)),
        sent=np.zeros(e), arrived=np.zeros(e), changes=new_changes(n, e), used=np.zeros(d),
    )  # fmt: skip


_EMPTY = Problem.from_arrays(np.ones((1, 1)), [])


def sized(desk: DeskRecord, n: int, e: int) -> DeskRecord:
    """A desk of exactly n operators and e edges, on the same memory."""
    s = desk.joined

    def rows(a: Adjacency) -> Adjacency:
        return Adjacency(a.pointer[: n + 1], a.node[:e], a.edge[:e])

    joined = s._replace(
        source=s.source[:e], slot=s.slot[:e], target=s.target[:e], bytes=s.bytes[:e],
        member=s.member[:n], cost=s.cost[:n], mean=s.mean[:n], output=s.output[:n], weights=s.weights[:n],
        start=s.start[:e], payload=s.payload[:e], delay=s.delay[:e], after=rows(s.after), before=rows(s.before),
        order=s.order[:n], position=s.position[:n],
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


DESK = sized(_new_desk(1, Room(2, 2, 2, 2)), 1, 1)
"""An example of the record."""

read_desk = reader(DESK)

FITS, LACKS_FORM, LACKS_ROOM = range(3)
"""Results of :func:`measure`."""


# The row of the desk must not change while somebody reads it: only arrays whose shapes do not depend on the sizes are
# read here.
@lean
def measure(graph: Int64Array, entries: Int64Array, desk: Int64Array, shapes: Int64Array, limits: Int64Array) -> int:
    """Find out how large the problem of a graph with splits is, and give the desk that size.

    Args:
        graph: row of a :class:`~hetgym.envs.split.forms.GraphForms`.
        entries: [k] entries of the menu of the key operators; 0 leaves one whole.
        desk: row of a :class:`DeskRecord`; its shapes are written, and the desk's ``size``.
        shapes: [3, …] see :class:`Desk`.
        limits: [3] see :class:`Desk`.

    Returns:
        :data:`FITS`; :data:`LACKS_FORM`, with the row of a form that has not been made as the first number of
        ``size``; or :data:`LACKS_ROOM`, where the desk is smaller than ``size`` says.
    """
    g, s = read_graph(graph), read_desk(desk).joined
    s.size[:] = 0
    for i in range(len(g.first)):
        s.form[i] = g.first[i] + (entries[g.turn[i]] if g.turn[i] >= 0 else 0)
        s.result[i] = 0
        if g.table[s.form[i], 0] == 0:
            s.size[OPERATORS] = s.form[i]
            return LACKS_FORM
    for i in range(len(g.first)):
        form = read_form(g.table[s.form[i]])
        for k in range(form.shape[SCATTERS]):
            s.result[form.deals[0, k]] |= SPARED if _spared(g, s, form, k) else READ
        for k in range(form.wholes.shape[1]):
            s.result[form.wholes[0, k]] |= READ
    for i in range(len(g.first)):
        form = read_form(g.table[s.form[i]])
        s.size[STUCK] += _count(g, s, form, i)
        for k in range(len(form.constants)):
            s.size[CONSTANTS] = max(s.size[CONSTANTS], form.constants[k] + 1)
    for what in range(3):
        if s.size[what] > limits[what]:
            return LACKS_ROOM
    for word in range(len(desk)):
        desk[word] = shapes[0, word] + s.size[OPERATORS] * shapes[1, word] + s.size[EDGES] * shapes[2, word]
    return FITS


@step
def _spared(g: GraphForms, s: DeskArrays, form: FormArrays, scatter: int) -> bool:
    """True if a scatter cancels with the gather of what it deals out: the parts are there already."""
    source = read_form(g.table[s.form[form.deals[0, scatter]]])
    return bool(source.shape[RESULT] == form.deals[2, scatter])


@step
def _gathered(s: DeskArrays, form: FormArrays, i: int) -> bool:
    """True if the parts of an operator are gathered: it is split, and some reader needs the whole result."""
    return bool(form.shape[GATHERS] == 1 and s.result[i] != SPARED)


@step
def _count(g: GraphForms, s: DeskArrays, form: FormArrays, i: int) -> int:
    """Say where a form goes, add up operators and edges, and return how many of its operators no device can run."""
    scatters, parts = form.shape[SCATTERS], form.shape[PARTS]
    kept = 0
    stuck = 0
    for k in range(scatters):
        if not _spared(g, s, form, k):
            kept += 1
            stuck += np.isnan(form.mean[k])
    for k in range(scatters, scatters + parts):
        stuck += np.isnan(form.mean[k])
    s.offset[i] = s.size[OPERATORS]
    s.first[i] = s.offset[i] + kept
    s.size[OPERATORS] += kept + parts
    s.size[EDGES] += kept + form.reads.shape[1] + form.wholes.shape[1]
    if _gathered(s, form, i):
        s.size[OPERATORS] += 1
        s.size[EDGES] += parts
        stuck += np.isnan(form.mean[scatters + parts])
    s.last[i] = s.size[OPERATORS] - 1
    return int(stuck)


@lean
def join(graph: Int64Array, desk: Int64Array) -> None:
    """Write the problem that was measured: operators and edges, these first within forms and then between them.

    Args:
        graph: row of a :class:`~hetgym.envs.split.forms.GraphForms`.
        desk: row of a :class:`DeskRecord`.
    """
    g, s = read_graph(graph), read_desk(desk).joined
    edge = 0
    for i in range(len(g.first)):
        form = read_form(g.table[s.form[i]])
        _write_operators(g, s, form, i)
        edge = _write_inner(g, s, form, i, edge)
    for i in range(len(g.first)):
        form = read_form(g.table[s.form[i]])
        edge = _write_outer(g, s, form, i, edge)
        for k in range(len(form.constants)):
            s.weights[s.first[i] + form.readers[k]] += form.constant_bytes[k]
        for k in range(form.shape[PARTS]):
            s.weights[s.first[i] + k] += form.unnamed[k]


@step
def _write_operators(g: GraphForms, s: DeskArrays, form: FormArrays, i: int) -> None:
    scatters, parts = form.shape[SCATTERS], form.shape[PARTS]
    at = s.offset[i]
    for k in range(scatters + parts + form.shape[GATHERS]):
        if (k < scatters and _spared(g, s, form, k)) or (k == scatters + parts and not _gathered(s, form, i)):
            continue
        for a in range(s.cost.shape[1]):
            s.cost[at, a] = form.cost[k, a]
        s.member[at], s.mean[at], s.output[at], s.weights[at] = k, form.mean[k], form.output[k], 0.0
        at += 1


@step
def _write_inner(g: GraphForms, s: DeskArrays, form: FormArrays, i: int, edge: int) -> int:
    """Write the edges within a form; returns where the next edge goes."""
    place, last = s.offset[i] - 1, -1
    for k in range(form.reads.shape[1]):
        scatter, part = form.reads[0, k], form.reads[1, k]
        if _spared(g, s, form, scatter):
            continue
        place += scatter != last
        last = scatter
        edge = _write_edge(s, edge, place, part, s.first[i] + part, form.read_bytes[k])
    if _gathered(s, form, i):
        for k in range(form.shape[PARTS]):
            edge = _write_edge(s, edge, s.first[i] + k, 0, s.last[i], form.part_bytes[k])
    return edge


@step
def _write_outer(g: GraphForms, s: DeskArrays, form: FormArrays, i: int, edge: int) -> int:
    """Write the edges that come from other forms; returns where the next edge goes."""
    place = s.offset[i]
    for k in range(form.shape[SCATTERS]):
        if not _spared(g, s, form, k):
            edge = _write_edge(s, edge, s.last[form.deals[0, k]], form.deals[1, k], place, form.deal_bytes[k])
            place += 1
    for k in range(form.reads.shape[1]):
        scatter, part = form.reads[0, k], form.reads[1, k]
        if _spared(g, s, form, scatter):
            source = s.first[form.deals[0, scatter]] + part
            edge = _write_edge(s, edge, source, 0, s.first[i] + part, form.read_bytes[k])
    for k in range(form.wholes.shape[1]):
        source, target = s.last[form.wholes[0, k]], s.first[i] + form.wholes[2, k]
        edge = _write_edge(s, edge, source, form.wholes[1, k], target, form.whole_bytes[k])
    return edge


@step
def _write_edge(s: DeskArrays, edge: int, source: int, slot: int, target: int, size: float) -> int:
    s.source[edge], s.slot[edge], s.target[edge], s.bytes[edge] = source, slot, target, size
    return edge + 1


@lean
def price(graph: Int64Array, desk: Int64Array, busy: FloatArray, operators: Int64Array, held: FloatArray) -> float:
    """The makespan of HEFT's schedule of the problem that was measured [s].

    Args:
        graph: row of a :class:`~hetgym.envs.split.forms.GraphForms`.
        desk: row of a :class:`DeskRecord`; every operator can run on some device.
        busy: [d or more] overwritten, as the other two; see :class:`~hetgym.envs.split.loads.Loads`.
        operators: [d or more].
        held: [d or more] weights of operators [byte].
    """
    join(graph, desk)
    r = read_desk(desk)
    s, queue = r.joined, r.queue
    n, latency, per_byte = len(s.mean), s.transfer[0], s.transfer[1]
    fill_rows(s.source, s.target, s.after.pointer, s.after.node, s.after.edge, s.position)
    for i in range(n):
        for k in range(s.after.pointer[i], s.after.pointer[i + 1]):
            s.start[k] = i
            s.payload[k] = s.bytes[s.after.edge[k]]
            s.delay[k] = latency + s.payload[k] * per_byte
    fill_rows(s.after.node, s.start, s.before.pointer, s.before.node, s.before.edge, s.position)
    for i in range(n):
        queue.waiting[i] = s.before.pointer[i + 1] - s.before.pointer[i]
    write_kahn_order(s.after.pointer, s.after.node, queue.waiting, queue.heaps, s.order)
    for k in range(n):
        s.position[s.order[k]] = k
    timeline.clear(r.placed)
    write_longest_path_to_exit(r.problem, r.mean, r.delay, r.rank)
    write_list_order(r.problem, queue, r.rank, r.turns)
    makespan = place_in_order(r.problem, r.placed, r.turns, r.free, r.bonus, True)
    for a in range(len(busy)):
        busy[a] = held[a] = 0.0
        operators[a] = 0
    for i in range(n):
        a = r.placed.assignment[i]
        busy[a] += s.cost[i, a]
        operators[a] += 1
    _load(read_graph(graph), s, r.placed.assignment, held)
    return makespan


@step
def _load(g: GraphForms, s: DeskArrays, assignment: IntArray, held: FloatArray) -> None:
    """Add up what devices hold of weights, constants with a name once [byte]; ``held`` is 0 before."""
    for a in range(len(s.holds)):
        for k in range(s.size[CONSTANTS]):
            s.holds[a, k] = False
    for i in range(len(g.first)):
        form = read_form(g.table[s.form[i]])
        for k in range(form.shape[PARTS]):
            held[assignment[s.first[i] + k]] += form.unnamed[k]
        for k in range(len(form.constants)):
            a, constant = assignment[s.first[i] + form.readers[k]], form.constants[k]
            if not s.holds[a, constant]:
                s.holds[a, constant] = True
                held[a] += form.constant_bytes[k]


@lean
def peaks(desk: Int64Array, held: FloatArray, peak: FloatArray) -> None:
    """Largest memory in use on each device under the schedule that was priced last.

    Args:
        desk: row of a :class:`DeskRecord`.
        held: [d] bytes of weights on each device.
        peak: [d] overwritten [byte].
    """
    r = read_desk(desk)
    p, t = r.problem, r.placed
    for i in range(len(t.assignment)):
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            a, b = t.assignment[i], t.assignment[p.successor[edge]]
            r.sent[edge] = t.finish[i]
            r.arrived[edge] = t.finish[i] + transfer_time(p, a, b, p.edge_bytes[edge])
    count = write_changes(p, r.joined.output, t.assignment, t.start, t.finish, r.sent, r.arrived, True, r.changes)
    write_peaks(r.changes, count, held, r.used, peak)
