"""Events of a Chrome trace, as PyTorch's Kineto and ONNX Runtime write them.

Kineto writes an object with ``traceEvents``, ONNX Runtime a list. Only complete events (``"ph": "X"``) are read, with
``name``, ``cat``, ``pid``, ``tid``, ``ts`` and ``dur`` (microseconds) and some of the ``args``; everything else is
ignored, and so is the profiler's own window (``"cat": "Trace"``). Two kinds are dropped and noted: events without
duration, or with a negative one, which never finished, and pairs of events that begin and end (``"ph": "B"``, ``"E"``).

Source: "Trace Event Format", Google; pytorch.org/docs/stable/profiler.html; libkineto/src/output_json.cpp of
github.com/pytorch/kineto; onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetgym._input.json import noun, spelled
from hetgym.errors import GraphError
from hetgym.graph.traces.steps import Step

MICROSECOND = 1e-6
MAX_EVENTS = 2_000_000
_LARGEST = 1e17  # microseconds: 3000 years
_DEVICE = frozenset(
    ("kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events", "hpu_op")
    + ("xpu_kernel", "privateuse1_kernel", "collective_comm")
)
_RUNTIME = frozenset(
    f"{maker}{layer}"
    for maker in ("", "cuda_", "mtia_", "xpu_", "privateuse1_", "glow_", "hpu_")
    for layer in ("runtime", "driver")
)
_SKIPPED = frozenset(("trace", "gpu_user_annotation"))
_ARGS = frozenset(
    ("correlation", "External id", "external id", "Record function id", "device", "stream", "op_name", "parent_name")
    + ("Collective name", "Process Group Name", "Process Group Ranks")
    + ("wait_on_stream", "wait_on_cuda_event_record_corr_id")
)
"""What is read of an event's ``args``; the rest is dropped to save memory."""

_KINDS = {
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "concurrent_kernel": "kernel",
} | dict.fromkeys(_RUNTIME, "runtime")
_COLLECTIVES = (
    ("reducescatter", "reduce-scatter"), ("allreduce", "all-reduce"), ("allgather", "all-gather"),
    ("alltoall", "all-to-all"), ("broadcast", "broadcast"), ("sendrecv", "send-recv"), ("reduce", "reduce"),
)  # fmt: skip


@dataclass(eq=False, slots=True)
class Event:
    """A complete event."""

    # name, kind: see MeasuredGraph
    name: str
    kind: str
    place: tuple[str, str]  # the thread, or the device and stream
    # start, finish: times since the first event of the file began [s]
    start: float
    finish: float
    args: Mapping[str, Any]  # further fields, those of them that hetgym reads
    runtime: bool = False  # True for a call of the device's runtime
    parent: Event | None = None  # on a thread, the event around it
    before: Step | None = None  # on a thread, the step that ends when the event begins
    # the last step of the event itself, without the events inside; None as long as there is none
    step: Step | None = None

    def number(self, *keys: str) -> int | None:
        """The first of some fields that is a whole number, such as ``correlation``."""
        for key in keys:
            value = self.args.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None


@dataclass(frozen=True)
class Events:
    """Events of one process or rank."""

    host: list[Event]  # events on threads
    device: list[Event]  # events on streams
    # Kineto's records of synchronisations, which name the streams; they are no intervals of their own
    syncs: list[Event]
    notes: list[str]  # what was dropped


def is_chrome(document: object) -> bool:
    """True if a document looks like this format."""
    if isinstance(document, Mapping):
        return "traceEvents" in document
    return isinstance(document, list) and bool(document) and isinstance(document[0], Mapping) and "ph" in document[0]


def read_events(document: Any, where: str) -> Events:
    """Check a parsed document and sort its events; GraphError about events without name or time, or too many."""
    rows = document["traceEvents"] if isinstance(document, Mapping) else document
    if not isinstance(rows, list):
        raise GraphError(f"{where}: traceEvents is {noun(rows)}, not a list")
    found = Events([], [], [], [])
    unfinished, paired = 0, 0
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise GraphError(f"{where}: event {i} is {noun(row)}, not an object")
        category = str(row.get("cat", "")).lower()
        if row.get("ph") != "X" or category in _SKIPPED:
            paired += row.get("ph") == "B"
            continue
        event = _event(row, category, f"{where}: event {i}") if "dur" in row else None
        if event is None:
            unfinished += 1
            continue
        if category == "cuda_sync":
            found.syncs.append(event)
        elif category in _DEVICE or ("stream" in event.args and not event.runtime):
            found.device.append(event)
        else:
            found.host.append(event)
        if len(found.host) + len(found.device) > MAX_EVENTS:
            raise GraphError(f"{where}: more than {MAX_EVENTS} events")
    # Times count from the first event on; before, differences of large numbers would lose digits.
    first = min((event.start for event in (*found.host, *found.device)), default=0.0)
    for event in (*found.host, *found.device, *found.syncs):
        event.start, event.finish = (event.start - first) * MICROSECOND, (event.finish - first) * MICROSECOND
    for count, what in ((unfinished, "never finished"), (paired, "begin and end in two rows")):
        if count:
            found.notes.append(f"events that {what} are left out: {count}")
    return found


def _event(row: Mapping[str, Any], category: str, place: str) -> Event | None:
    """One row, with times in microseconds; None if it never finished."""
    args = row.get("args", {})
    args = args if isinstance(args, Mapping) else {}
    start, length = _time(row, "ts", place), _time(row, "dur", place)
    if length < 0:
        return None
    name = row.get("name")
    if not isinstance(name, str):
        raise GraphError(f"{place}: 'name' is {noun(name)}, not a string")
    runtime = category in _RUNTIME
    args = {key: args[key] for key in _ARGS & args.keys()}
    thread = str(row.get("pid")), str(row.get("tid"))
    if category in _DEVICE and "stream" in args:
        thread = str(args.get("device", row.get("pid"))), f"stream {args['stream']}"
    kind = _KINDS.get(category, category or "event")
    if category in _DEVICE:
        kind = collective(name, args) or kind
    elif category == "node":  # ONNX Runtime
        operator = args.get("op_name")
        kind = operator if isinstance(operator, str) and operator else "operator"
        name = name.removesuffix("_kernel_time")
    return Event(name, kind, thread, start, start + length, args, runtime)


def _time(row: Mapping[str, Any], key: str, place: str) -> float:
    """A time of an event [us]."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        raise GraphError(f"{place}: {key!r} is {spelled(value)}, not a time in microseconds")
    return float(value)


def collective(name: str, args: Mapping[str, Any]) -> str:
    """Kind of collective of a kernel, by what PyTorch notes or by the name that NCCL or RCCL gives it; "" if none."""
    lowered = name.lower()
    noted = args.get("Collective name")
    if not isinstance(noted, str) and not lowered.startswith(("nccl", "rccl", "mscclkernel", "oneccl", "hccl")):
        return ""
    for text in (noted, lowered):
        if isinstance(text, str):
            plain = text.lower().replace("_", "").replace("-", "")
            for word, kind in _COLLECTIVES:
                if word in plain:
                    return kind
    return "collective"
