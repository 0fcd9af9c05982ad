"""Streams: kernels wait for their launch, for their stream and for other streams, and the host waits for kernels."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetgym.errors import GraphError
from hetgym.graph.traces.chrome import Event, Events
from hetgym.graph.traces.steps import Step

ROUNDING = 2e-6
"""Time by which intervals may overlap, or an effect precede its cause, through rounded and different clocks [s]."""

LATE = 50e-6
"""Pause of a stream that calls for an explanation [s]: several times the latency of a launch."""

JUST = 10e-6
"""Longest time from an event on one stream to its effect on another one [s]."""

CANDIDATES = 64
"""Most intervals that are looked at to explain one pause."""

MAX_LANES = 64
"""Most intervals of a stream that may overlap."""


@dataclass(eq=False, slots=True)
class Work:
    """A kernel, copy or fill on a stream.

    Attributes:
        event: the event.
        step: the interval of the stream.
        launch: the host's event that launched it; None if it is not recorded.
        issued: time from which the device may know of it [s].
    """

    event: Event
    step: Step
    launch: Event | None
    issued: float


def lanes(events: Sequence[Event]) -> list[list[Event]]:
    """Divide the events of a stream into rows without overlap; nearly always there is one.

    Streams run in order, but graphs of kernels and programmatic launches overlap within one.

    Raises:
        GraphError: more than :data:`MAX_LANES` events overlap.
    """
    rows: list[list[Event]] = []
    for event in sorted(events, key=lambda event: (event.start, event.finish)):
        row = next((row for row in rows if row[-1].finish <= event.start + ROUNDING), None)
        if row is None:
            if len(rows) == MAX_LANES:
                raise GraphError(f"{' '.join(event.place)}: more than {MAX_LANES} intervals of one stream overlap")
            rows.append([event])
        else:
            row.append(event)
    return rows


def work_of(row: Sequence[Event], track: int, origin: float, launches: Launches) -> list[Work]:
    """Steps of a row of events, each linked to its launch; overlap by rounding is cut off."""
    found = []
    for i, event in enumerate(row):
        finish = event.finish if i + 1 == len(row) else max(event.start, min(event.finish, row[i + 1].start))
        step = Step(event.name, event.kind, track, event.start - origin, finish - origin)
        launch = launches.of(event)
        if launch is not None and launch.before is not None:
            step.after.append((launch.before, "launch"))
        event.step = step
        found.append(Work(event, step, launch, event.start if launch is None else launch.start))
    return found


class Launches:
    """The events of the host that launched work.

    They are found by the correlation id of the call, or else by the external id of the operator around it (Kineto), or
    by the name of the node (ONNX Runtime).
    """

    def __init__(self, host: Sequence[Event]) -> None:
        self._correlation: dict[int, Event] = {}
        self._external: dict[int, Event] = {}
        self._node: dict[str, list[Event]] = defaultdict(list)
        for event in host:
            key = event.number("correlation") if event.runtime else event.number("External id", "external id")
            if key is not None:
                (self._correlation if event.runtime else self._external).setdefault(key, event)
            if "op_name" in event.args:
                self._node[event.name].append(event)

    def call(self, correlation: int | None) -> Event | None:
        """The runtime call with a correlation id."""
        return None if correlation is None else self._correlation.get(correlation)

    def of(self, event: Event) -> Event | None:
        """What launched an event; nothing that begins after the event."""
        correlation, external = event.number("correlation"), event.number("External id", "external id")
        found = None if correlation is None else self._correlation.get(correlation)
        if found is None and external is not None:
            found = self._external.get(external)
        parent = event.args.get("parent_name")
        if found is None and isinstance(parent, str):
            before = [
                node for node in self._node.get(parent.removesuffix("_kernel_time"), ()) if node.start <= event.start
            ]
            found = max(before, key=lambda node: node.start, default=None)
        return found if found is not None and found.start <= event.start + ROUNDING else None


def launch_latency(rows: Sequence[Sequence[Work]]) -> float:
    """Median time from a launch to the start of the kernel, where it waited for nothing else [s]."""
    waits = [
        work.event.start - work.issued
        for row in rows
        for previous, work in zip((None, *row[:-1]), row, strict=True)
        if work.launch is not None and len(work.step.after) == 1
        if previous is None or previous.event.finish <= work.issued
    ]
    return max(0.0, float(np.median(waits))) if waits else 0.0


class Issued:
    """The work of each stream in the order in which it was issued."""

    def __init__(self, rows: Sequence[Sequence[Work]]) -> None:
        streams: dict[tuple[str, str], list[Work]] = defaultdict(list)
        for row in rows:
            for work in row:
                streams[work.event.place].append(work)
        self.streams = {place: sorted(row, key=lambda work: work.issued) for place, row in streams.items()}
        self._times = {place: [work.issued for work in row] for place, row in self.streams.items()}

    def last(self, place: tuple[str, str], time: float) -> Work | None:
        """The last work that was issued to a stream before a time."""
        k = bisect_left(self._times.get(place, []), time)
        return self.streams[place][k - 1] if k else None

    def next(self, place: tuple[str, str], time: float) -> Work | None:
        """The first work that was issued to a stream from a time on."""
        times = self._times.get(place, [])
        k = bisect_left(times, time)
        return self.streams[place][k] if k < len(times) else None


def synchronise(events: Events, rows: Sequence[Sequence[Work]], launches: Launches) -> None:
    """Link calls that wait for a device to the work that they wait for, and streams that wait for other streams.

    A call that synchronises a device waits for all work issued before it. The stream of other calls is taken from
    Kineto's records of synchronisations. Without these it is the one whose work, of that issued before the call,
    finished last within the call. A copy that finishes within the call that issued it was waited for.

    Args:
        events: all events; the host's have their steps.
        rows: work of the streams.
        launches: calls by their ids.
    """
    issued = Issued(rows)
    records = {sync.number("correlation"): sync for sync in events.syncs}
    for call in (event for event in events.host if event.runtime and event.step is not None):
        lowered = call.name.lower()
        if "synchronize" not in lowered:
            continue
        record = records.get(call.number("correlation"))
        for work in _awaited(call, record, issued, everything="device" in lowered or "ctx" in lowered):
            _wait(call, work)
    for row in rows:
        for work in row:
            copy = work.launch
            if copy is None or copy.step is None or not copy.runtime or "memcpy" not in copy.name.lower():
                continue
            if copy.start < work.event.finish <= copy.finish + ROUNDING:
                _wait(copy, work)
    waits = [sync for sync in events.syncs if sync.number("wait_on_stream") is not None and "Wait" in sync.name]
    if waits:
        _recorded_waits(waits, issued, launches)
    else:
        _inferred_waits([event.start for event in events.host if "streamwaitevent" in event.name.lower()], issued)


def infer(rows: Sequence[Sequence[Work]], latency: float) -> None:
    """Find waits between streams that no event records, by their times.

    Work that overlaps other work of its stream, as within a graph of kernels, waits for what finished last on the
    stream before it began. Work that begins much later than all that it is known to wait for waits for the work of
    another stream of the device that finished just then, if there is any.

    Args:
        rows: work of the streams, with all links that are known.
        latency: usual launch latency [s].
    """
    streams: dict[tuple[str, str], list[Sequence[Work]]] = defaultdict(list)
    devices: dict[str, list[Work]] = defaultdict(list)
    for row in rows:
        streams[row[0].event.place].append(row)
        devices[row[0].event.place[0]] += row
    for lanes_of_one in streams.values():
        if len(lanes_of_one) > 1:
            _order_lanes(lanes_of_one)
    for works in devices.values():
        _explain_pauses(works, latency)


def _order_lanes(rows: Sequence[Sequence[Work]]) -> None:
    """Let work of a divided stream wait for what finished last in the other rows before it began."""
    finishes = [[work.step.finish for work in row] for row in rows]
    for row in rows:
        for work in row:
            before = [
                other[k - 1]
                for other, times in zip(rows, finishes, strict=True)
                if other is not row and (k := bisect_right(times, work.step.start + ROUNDING)) > 0
            ]
            if before:
                _follow(max(before, key=lambda other: other.step.finish), work)


def _explain_pauses(works: list[Work], latency: float) -> None:
    """Let work that begins late wait for what has just finished on another stream of the device."""
    works.sort(key=lambda work: work.step.finish)
    finishes = [work.step.finish for work in works]
    ready: dict[int, float] = {}  # of each track: when its last work finished
    for work in sorted(works, key=lambda work: work.step.start):
        step = work.step
        issued = step.start - (work.event.start - work.issued) + latency
        known = [source.finish for source, kind in step.after if kind != "launch"]
        late = step.start - max(ready.get(step.track, 0.0), issued, *known) > LATE
        ready[step.track] = step.finish
        last = bisect_right(finishes, step.start + ROUNDING) if late else 0
        for other in reversed(works[max(0, last - CANDIDATES) : last]):
            just = step.start - other.step.finish <= JUST and other.step.start < step.start
            if just and other.step.track != step.track:
                step.after.append((other.step, "wait"))
                break


def _wait(call: Event, work: Work) -> None:
    """Let a call end after some work."""
    assert call.step is not None
    call.step.flexible = True
    call.step.after.append((work.step, "sync"))


def _awaited(call: Event, record: Event | None, issued: Issued, everything: bool) -> list[Work]:
    """Work for which a call waited."""
    before = [work for place in issued.streams if (work := issued.last(place, call.start)) is not None]
    before = [work for work in before if work.event.finish <= call.finish + ROUNDING]
    if everything:
        return before
    stream = None if record is None else record.number("wait_on_stream", "stream")
    if stream is not None:
        named = [work for work in before if work.event.place[1] == f"stream {stream}"]
        if named:
            return named
    return sorted(before, key=lambda work: work.event.finish)[-1:]


def _recorded_waits(waits: Sequence[Event], issued: Issued, launches: Launches) -> None:
    """Waits of streams for events, as Kineto records them: the waiting stream, the other one and the event's record."""
    for sync in waits:
        device = str(sync.args.get("device", ""))
        record = launches.call(sync.number("wait_on_cuda_event_record_corr_id"))
        call = launches.call(sync.number("correlation"))
        if record is None or call is None:
            continue
        source = issued.last((device, f"stream {sync.number('wait_on_stream')}"), record.start)
        target = issued.next((device, f"stream {sync.number('stream')}"), call.start)
        if source is not None and target is not None:
            _follow(source, target)


def _inferred_waits(calls: list[float], issued: Issued) -> None:
    """Waits of streams for events where only the calls are recorded, without streams.

    If such a call lies between the launches of two neighbours on a stream, the second one is taken to wait for
    another stream: for the last work issued there before the call, on the stream where it finished last.
    """
    calls.sort()
    for place, row in issued.streams.items():
        for i, work in enumerate(row):
            k = bisect_left(calls, work.issued)
            if work.launch is None or k == 0 or (i > 0 and calls[k - 1] < row[i - 1].issued):
                continue
            others = [
                other
                for elsewhere in issued.streams
                if elsewhere != place and elsewhere[0] == place[0]
                if (other := issued.last(elsewhere, calls[k - 1])) is not None
                if other.event.finish <= work.event.start + ROUNDING
            ]
            if others:
                _follow(max(others, key=lambda other: other.event.finish), work)


def _follow(source: Work, target: Work) -> None:
    """Let work start after other work."""
    if source.step.track != target.step.track and source.event.finish <= target.event.start + ROUNDING:
        target.step.after.append((source.step, "wait"))
