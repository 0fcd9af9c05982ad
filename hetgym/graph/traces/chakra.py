"""Execution traces of MLCommons Chakra: one file for each rank, of nodes with durations and dependencies.

An ``.et`` file is a stream of protocol buffers (``et_def.proto``): one ``GlobalMetadata``, then one ``Node`` after the
other. There are two forms in JSON: an object whose ``workload_graph`` lists nodes, and what ``chakra_jsonizer`` prints,
the same messages as objects one after the other, with numbers as text and types by name. Of a node the reader uses the
id, name, type, duration, start, control and data dependencies, and the attributes ``is_cpu_op``, ``tid``, ``stream``,
``pg_name`` and ``comm_type``. Dependencies on nodes that the file leaves out are ignored, as Chakra's own feeder does,
and noted.

Source: Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using Standardized Execution
Traces", 2023; github.com/mlcommons/chakra.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx

from hetgym._input.files import read_unpacked
from hetgym._input.json import noun, repeated, spelled
from hetgym.errors import GraphError
from hetgym.graph.measured import MeasuredGraph
from hetgym.graph.traces.chrome import MICROSECOND, collective
from hetgym.graph.traces.steps import MAX_STEPS, Step, assemble
from hetgym.graph.traces.wire import Wire

_DIGITS = re.compile(r"-?[0-9]{1,20}")
_LARGEST = 1e17  # microseconds
_METADATA, _LOAD, _STORE, _SEND, _RECEIVE, _COLLECTIVE = 1, 2, 3, 5, 6, 7
_READ = ("is_cpu_op", "tid", "stream", "pg_name", "comm_type")
_TYPES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)  # fmt: skip
_COMMUNICATION = {0: "all-reduce", 1: "reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter"}


@dataclass(eq=False, slots=True)
class Node:
    """A node of a Chakra trace; times in seconds, ``start`` 0 if it is not recorded."""

    number: int
    name: str = ""
    type: int = 0
    start: float = 0.0
    duration: float = 0.0
    after: list[int] = field(default_factory=list)
    callers: list[int] = field(default_factory=list)
    attributes: dict[str, int | float | str] = field(default_factory=dict)

    @property
    def host(self) -> bool:
        """True for a node of a thread; nodes that do not state it are the host's unless they communicate."""
        return bool(self.attributes.get("is_cpu_op", self.type < _SEND))

    @property
    def kind(self) -> str:
        """See :class:`~hetgym.graph.MeasuredGraph`."""
        if self.host:
            return "operator"
        if self.type == _COLLECTIVE:
            code = self.attributes.get("comm_type")
            return _COMMUNICATION.get(int(code), "collective") if isinstance(code, int) else _named(self.name)
        if self.type in (_SEND, _RECEIVE):
            return "send-recv"
        if self.type in (_LOAD, _STORE) or "memcpy" in self.name.lower():
            return "memcpy"
        return "memset" if "memset" in self.name.lower() else "kernel"

    @property
    def place(self) -> str:
        """Name of the track."""
        if self.host:
            return f"thread {self.attributes.get('tid', 0)}"
        stream = self.attributes.get("stream", self.attributes.get("tid"))
        if stream is not None:
            return f"stream {stream}"
        return "communication" if self.type >= _SEND else "compute"


def _named(name: str) -> str:
    return collective(name, {"Collective name": name})


def is_protobuf(file: Path) -> bool:
    """True for names of protocol buffers of Chakra."""
    return file.name.endswith((".et", ".et.gz"))


def is_chakra(document: object) -> bool:
    """True if parsed JSON looks like this format."""
    if isinstance(document, list):  # of messages: the metadata, then nodes
        return (
            len(document) > 1 and isinstance(document[1], Mapping) and "ph" not in document[1] and "attr" in document[1]
        )
    return isinstance(document, Mapping) and "workload_graph" in document


def read_nodes(file: Path, limit: int) -> list[Node]:
    """Nodes of a protocol buffer of at most ``limit`` bytes; GraphError if it is damaged or ids repeat."""
    wire = Wire(read_unpacked(file, limit, GraphError), str(file))
    nodes = [_node(wire, *span) for i, span in enumerate(wire.messages()) if i]
    return _checked(nodes, str(file))


def _node(wire: Wire, at: int, end: int) -> Node:
    node = Node(0)
    for number, value, length in wire.fields(at, end):
        if number == 1:
            node.number = int(value)
        elif number == 2:
            node.name = wire.text(value, length)
        elif number == 3:
            node.type = int(value)
        elif number == 4:
            node.callers += wire.numbers(value, length)
        elif number == 5:
            node.after += wire.numbers(value, length)
        elif number in (6, 7) and length < 0:
            if not 0 <= value <= _LARGEST:
                raise GraphError(f"{wire.where}: node {node.number} has the time {value:g} us, not 0 to {_LARGEST:g}")
            if number == 6:
                node.start = value * MICROSECOND
            else:
                node.duration = value * MICROSECOND
        elif number == 10 and length >= 0:
            _attribute(wire, int(value), length, node)
    return node


def _attribute(wire: Wire, at: int, length: int, node: Node) -> None:
    """An attribute with one number or text; lists are ignored."""
    name = ""
    found: int | float | str | None = None
    for number, value, size in wire.fields(at, at + length):
        if number == 1:
            name = wire.text(value, size)
        elif number == 29:
            found = wire.text(value, size)
        elif number in (13, 15) and size < 0:
            found = (int(value) >> 1) ^ -(int(value) & 1)
        elif number > 2 and size < 0:
            found = value
    if found is not None and name in _READ:
        node.attributes[name] = found


def nodes_of(document: Any, where: str) -> list[Node]:
    """Nodes of parsed JSON, a list for ``chakra_jsonizer``'s; GraphError about invalid fields or repeated ids."""
    printed = isinstance(document, list)
    rows = document[1:] if printed else document["workload_graph"]
    if not isinstance(rows, list):
        raise GraphError(f"{where}: workload_graph is {noun(rows)}, not a list")
    nodes = []
    for i, row in enumerate(rows):
        place = f"{where}: node {i}" if printed else f"{where}: workload_graph[{i}]"
        if not isinstance(row, Mapping):
            raise GraphError(f"{place} is {noun(row)}, not an object")
        row = _plain(row) if printed else row
        node = Node(_whole(row, ("Id", "id"), place))
        name = row.get("Name", row.get("name", ""))
        node.name = name if isinstance(name, str) else ""
        node.type = _whole(row, ("NodeType", "type"), place, 0)
        node.duration = _whole(row, ("runtime", "duration_micros", "durationMicros"), place, 0) * MICROSECOND
        node.start = _whole(row, ("start_time_micros", "startTimeMicros"), place, 0) * MICROSECOND
        for key in ("data_deps", "dataDeps", "ctrl_deps", "ctrlDeps"):
            listed = row.get(key, [])
            if not isinstance(listed, list) or not all(type(item) is int for item in listed):
                raise GraphError(f"{place}: {key!r} is not a list of ids")
            (node.after if key.startswith("data") else node.callers).extend(listed)
        node.attributes = {key: row[key] for key in _READ if isinstance(row.get(key), int | str)}
        nodes.append(node)
    return _checked(nodes, where)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A printed message in the other form: numbers of 64 bits are texts there, and zeros are left out."""
    kind = row.get("type", 0)
    found: dict[str, Any] = {"id": 0} | {key: _number(value) for key, value in row.items() if key != "name"}
    found["name"] = row.get("name", "")
    found["type"] = _TYPES.index(kind) if kind in _TYPES else kind
    for key in ("dataDeps", "ctrlDeps"):
        if isinstance(row.get(key), list):
            found[key] = [_number(item) for item in row[key]]
    listed = row.get("attr")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") in _READ:
            values = [value for key, value in entry.items() if key.endswith("Val")]
            if values:
                found[entry["name"]] = values[0] if "stringVal" in entry else _number(values[0])
    return found


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


def _whole(row: Mapping[str, Any], keys: Sequence[str], place: str, default: int | None = None) -> int:
    key = next((key for key in keys if key in row), keys[0])
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise GraphError(f"{place}: {key!r} is {spelled(value)}, not a non-negative whole number")
    return value


def _checked(nodes: list[Node], where: str) -> list[Node]:
    if len(nodes) > MAX_STEPS:
        raise GraphError(f"{where}: more than {MAX_STEPS} nodes")
    twice = repeated(node.number for node in nodes)
    if twice is not None:
        raise GraphError(f"{where}: two nodes have the id {twice}")
    if not any(node.duration > 0 for node in nodes):
        raise GraphError(f"{where}: no node has a duration, so nothing was measured")
    return nodes


def measured_graph(ranks: Sequence[list[Node]], name: str) -> MeasuredGraph:
    """The measured graph of the nodes of one or several ranks.

    Host nodes run on the thread that ``tid`` names, others on the stream that ``stream`` or ``tid`` names; where the
    file names none, on one for computing and one for communication. If the file records starts, the nodes run when
    they ran; otherwise, as is usual, they run first come, first served, and the graph's span is that of this run.
    Without starts, collectives of several ranks that have one kind and process group start together, if the ranks have
    equally many of them, and take as long as on the rank that took least, since the others' times include waiting. A
    control dependency names the caller; where converters left some that form a cycle, with data dependencies or among
    themselves, those of the cycle are ignored. A cycle of data dependencies is a GraphError. The graph's notes say what
    of the file is not in it.
    """
    try:
        return _measured(ranks, name, [{}] * len(ranks))
    except _Cycle:
        pass
    try:
        return _measured(ranks, name, [_circles(nodes) for nodes in ranks])
    except _Cycle as cause:
        raise GraphError(f"{name}: {cause}") from None


def _circles(nodes: list[Node]) -> dict[int, int]:
    """Nodes on cycles of dependencies -> the number of their cycle."""
    graph = nx.DiGraph((before, node.number) for node in nodes for before in (*node.after, *node.callers))
    found = [members for members in nx.strongly_connected_components(graph) if len(members) > 1]
    return {member: k for k, members in enumerate(found) for member in members}


class _Cycle(Exception):
    """Dependencies that no order of the nodes keeps."""


def _measured(ranks: Sequence[list[Node]], name: str, circles: Sequence[Mapping[int, int]]) -> MeasuredGraph:
    """The measured graph, without the control dependencies of some cycles of each rank."""
    tracks: dict[str, int] = {}
    host: list[bool] = []
    steps: list[list[Step]] = []
    timed = all(_placed(nodes) for nodes in ranks)
    missing, ignored = 0, dict[str, None]()
    for rank, (nodes, circle) in enumerate(zip(ranks, circles, strict=True)):
        prefix = f"rank {rank} " if len(ranks) > 1 else ""
        origin = min(node.start for node in nodes) if timed else 0.0
        made: dict[int, Step] = {}
        for node in sorted(nodes, key=lambda node: (node.start, node.number)):
            track = tracks.setdefault(prefix + node.place, len(tracks))
            host += [node.host] * (track == len(host))
            start = node.start - origin if timed else 0.0
            made[node.number] = Step(node.name, node.kind, track, start, start + node.duration)
        for node in nodes:
            callers = [k for k in node.callers if k not in circle or circle.get(node.number) != circle[k]]
            ignored |= dict.fromkeys([node.name] * (len(callers) < len(node.callers)))
            listed = dict.fromkeys([*node.after, *callers])
            before = [made[k] for k in listed if k in made and k != node.number]
            missing += sum(k not in made for k in listed)
            made[node.number].after = [(step, _edge(host[step.track], node.host)) for step in before]
        steps.append(list(made.values()))
    flat = [step for row in steps for step in row]
    notes = [f"dependencies on nodes that the file leaves out are ignored: {missing}"] if missing else []
    if ignored:
        few = ", ".join(list(ignored)[:3]) + (", …" if len(ignored) > 3 else "")
        notes.append(f"control dependencies that form a cycle are ignored, those of {few}")
    if not timed:
        read = {id(source) for step in flat for source, _ in step.after}
        ends = sum(id(step) not in read for step in flat)
        last = sum(id(step) not in read and not host[step.track] for step in flat)
        flat = _first_come(flat + _meetings(steps, ranks), len(tracks))
        if last > 1:
            notes.append(
                f"no starts are recorded, and {ends} of {sum(map(len, steps))} nodes have no reader, kernels among "
                "them: what waited for these is unknown, and the span is a lower bound"
            )
    else:
        late = sum(source.key > step.key for step in flat for source, _ in step.after)
        if late:
            notes.append(f"dependencies on nodes that start later are ignored: {late}")
    return assemble(flat, list(tracks), host, name, notes=notes)


def _placed(nodes: Sequence[Node]) -> bool:
    """True if the nodes of a rank say when they start.

    A start that is missing reads as 0, as that of a node at the origin does; such a node depends on no later one.
    """
    starts = {node.number: node.start for node in nodes if node.type != _METADATA}
    first = [node for node in nodes if node.number in starts and node.start == 0]
    behind = any(starts.get(k, 0.0) > 0 for node in first for k in node.after)
    return any(starts.values()) and not behind


def _edge(source: bool, target: bool) -> str:
    """Kind of an edge between a host (True) or device (False) and another."""
    return {(True, False): "launch", (False, True): "sync", (True, True): "handoff"}.get((source, target), "data")


def _meetings(steps: Sequence[Sequence[Step]], ranks: Sequence[list[Node]]) -> list[Step]:
    """Rendezvous of collectives that all ranks have in common."""
    groups: dict[tuple[str, str], dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
    for rank, (row, nodes) in enumerate(zip(steps, ranks, strict=True)):
        ordered = sorted(nodes, key=lambda node: (node.start, node.number))
        for step, node in zip(row, ordered, strict=True):
            if node.type == _COLLECTIVE and not node.host:
                groups[(step.kind, str(node.attributes.get("pg_name", "")))][rank].append(step)
    new = []
    for members in groups.values():
        if len(members) < 2 or len({len(row) for row in members.values()}) > 1:
            continue
        for together in zip(*members.values(), strict=True):
            meeting = Step(together[0].name, "rendezvous", together[0].track, 0.0, 0.0)
            meeting.after = [(source, "collective") for step in together for source, _ in step.after]
            least = min(step.finish for step in together)
            for step in together:
                step.after.append((meeting, "collective"))
                step.finish = least
            new.append(meeting)
    return new


def _first_come(steps: list[Step], tracks: int) -> list[Step]:
    """Give steps the times at which they run first come, first served, and return them in this order."""
    readers: dict[int, list[int]] = defaultdict(list)
    number = {id(step): i for i, step in enumerate(steps)}
    waiting = []
    for i, step in enumerate(steps):
        waiting.append(len(step.after))
        for source, _ in step.after:
            readers[number[id(source)]].append(i)
    ready = [(0.0, i) for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    clock, arrival = [0.0] * tracks, [0.0] * len(steps)
    order: list[Step] = []
    while ready:
        time, i = heapq.heappop(ready)
        step = steps[i]
        start = max(time, clock[step.track])
        step.start, step.finish = start, start + step.finish
        clock[step.track] = step.finish
        step.turn = len(order)
        order.append(step)
        for k in readers[i]:
            arrival[k] = max(arrival[k], step.finish)
            waiting[k] -= 1
            if waiting[k] == 0:
                heapq.heappush(ready, (arrival[k], k))
    if len(order) < len(steps):
        circle = _circle([step for step, count in zip(steps, waiting, strict=True) if count])
        raise _Cycle(
            f"the dependencies of {len(steps) - len(order)} nodes have a cycle: "
            f"{' -> '.join(repr(step.name) for step in (*circle, circle[0]))}"
        )
    return order


def _circle(stuck: Sequence[Step]) -> list[Step]:
    """Steps in a circle, each waiting for the one before; every step given waits for another."""
    among = {id(step) for step in stuck}
    path: dict[int, Step] = {}
    step = stuck[0]
    while id(step) not in path:
        path[id(step)] = step
        step = next(source for source, _ in step.after if id(source) in among)
    steps = list(path.values())
    return steps[steps.index(step) :][::-1]
