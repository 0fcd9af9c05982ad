"""Waits: of the host for devices, of streams for other streams; recorded where traces record them, else inferred."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from hetgym.graph.traces.chrome import Event, Events
from hetgym.graph.traces.streams import ROUNDING, Issued, Launches, Work

LATE = 50e-6  # Pause of a stream that calls for an explanation [s]: several times the latency of a launch
JUST = 10e-6  # Longest time from an event on one stream to its effect on another one [s]
CANDIDATES = 64  # Most intervals that are looked at to explain one pause
FULL = 1000  # Least pending launches of a full queue; CUDA's driver holds some 1020


def synchronise(events: Events, rows: Sequence[Sequence[Work]], launches: Launches) -> None:
    """Link calls that wait for a device to the work that they wait for, and streams that wait for other streams.

    A call that synchronises a device waits for all work issued before it. The stream of other calls is taken from
    Kineto's records of synchronisations. Without these it is the one whose work, of that issued before the call,
    finished last within the call. Copies and full queues make calls wait, too.
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
        for before, work in zip((None, *row[:-1]), row, strict=True):
            _wait_for_copy(work, before)
    for issued_row in issued.streams.values():
        _wait_for_queue(issued_row)
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


def _wait_for_copy(work: Work, before: Work | None) -> None:
    """Let a call that copies end after the copy, if it did; or else after the work before, if the copy began within it.

    The latter happens where memory is not pinned: the call waits for the stream, then passes the data on piece by
    piece, and returns while the last piece is on its way.
    """
    call = work.launch
    if call is None or call.step is None or not call.runtime or "memcpy" not in call.name.lower():
        return
    if call.start < work.event.finish <= call.finish + ROUNDING:
        _wait(call, work)
    elif before is not None and work.event.start < call.finish and call.start < before.event.finish <= call.finish:
        _wait(call, before)


def _wait_for_queue(row: Sequence[Work]) -> None:
    """Let launches wait for a place in the queue of a stream, if it was ever full.

    The most launches that were pending at the end of a call are the length of the queue. When a call ends, the work
    that was issued as many calls before has therefore finished; the last work of about that age that has is the one
    whose end made room.
    """
    finishes = [work.event.finish for work in row]
    if len(row) <= FULL or any(a > b for a, b in pairwise(finishes)):
        return
    done = [
        k + 1 if work.launch is None else bisect_right(finishes, work.launch.finish + ROUNDING)
        for k, work in enumerate(row)
    ]
    length = max(k + 1 - count for k, count in enumerate(done))
    if length < FULL:
        return
    for k, work in enumerate(row):
        call, last = work.launch, min(done[k] - 1, k - length + 3)
        if call is not None and call.runtime and call.step is not None and last >= 0:
            _wait(call, row[last])


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
