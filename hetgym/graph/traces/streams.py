"""Streams: intervals of work, the calls that launched it, and the order in which it was issued."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetgym.errors import GraphError
from hetgym.graph.traces.chrome import Event
from hetgym.graph.traces.steps import Step

ROUNDING = 2e-6
"""Time by which intervals may overlap, or an effect precede its cause, through rounded and different clocks [s]."""

MAX_LANES = 64  # Most intervals of a stream that may overlap


@dataclass(eq=False, slots=True)
class Work:
    """A kernel, copy or fill on a stream."""

    event: Event  # the event
    step: Step  # the interval of the stream
    launch: Event | None  # the host's event that launched it; None if it is not recorded
    issued: float  # time from which the device may know of it [s]


def lanes(events: Sequence[Event]) -> list[list[Event]]:
    """Rows without overlap (at most :data:`MAX_LANES`, else GraphError) of a stream's events; nearly always one.

    Streams run in order, but graphs of kernels and programmatic launches overlap within one.
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


def work_of(row: Sequence[Event], track: int, launches: Launches) -> list[Work]:
    """Steps of a row of events, each linked to its launch; overlap by rounding is cut off."""
    found = []
    for i, event in enumerate(row):
        finish = event.finish if i + 1 == len(row) else max(event.start, min(event.finish, row[i + 1].start))
        step = Step(event.name, event.kind, track, event.start, finish)
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
        """The event that launched a given one, if it did not begin after that."""
        found, external = self.call(event.number("correlation")), event.number("External id", "external id")
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
