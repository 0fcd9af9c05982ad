"""Steps: intervals of tracks before they become a measured graph, and the pass that makes one of them.

A reader of a format turns events into steps and links steps to those that they waited for. :func:`assemble` runs the
steps in the order of their measured times and gives each one the duration or delay with which it runs when it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hetgym._types import frozen
from hetgym.errors import GraphError
from hetgym.graph.measured import MeasuredGraph

MAX_STEPS = 4_000_000  # Most steps of a measured graph: each takes about 1 kB until the graph is assembled


@dataclass(eq=False, slots=True)
class Step:
    """One interval of a track."""

    # name, kind: see MeasuredGraph
    name: str
    kind: str
    track: int  # number of the track
    # start, finish: measured times [s]
    start: float
    finish: float
    # False if the step takes as long as it took; True if it ends at its measured finish, so that waiting is part of it:
    # a pause, or a call that waits
    flexible: bool = False
    after: list[tuple[Step, str]] = field(default_factory=list)  # steps that it waits for, and the kinds of these edges
    turn: int = 2  # rank among steps of one instant; the smaller comes first

    @property
    def key(self) -> tuple[float, int]:
        """A flexible step may wait for whatever starts before its end."""
        return (self.finish if self.flexible else self.start), self.turn


def assemble(
    steps: Sequence[Step],
    tracks: Sequence[str],
    host: Sequence[bool],
    name: str,
    latency: float = 0.0,
    notes: Sequence[str] = (),
) -> MeasuredGraph:
    """The measured graph of steps, those of a track in the order in which they ran.

    A rigid step that would start earlier than it did waited for something that is not recorded. This time becomes a
    delay of the edge that it waited for last, or, if that was its own track, an idle node before it. If it would start
    later, because clocks differ by some microseconds or intervals overlap by their rounding, it does so, and the next
    flexible step of the track is shorter. So errors do not add up. Links to steps that come later are dropped. Every
    launch takes ``latency``, the usual time until a kernel starts on an idle stream, unless it started sooner [s].

    Raises:
        GraphError: there are no steps, or too many.
    """
    if not steps:
        raise GraphError(f"{name}: the trace has no events with a duration")
    if len(steps) > MAX_STEPS:
        raise GraphError(f"{name}: the trace has more than {MAX_STEPS} intervals")
    made = _Assembly(len(tracks))
    for step in sorted(steps, key=lambda step: step.key):
        made.add(step, latency)
    names, kinds, track, start, duration = zip(*made.nodes, strict=True)
    source, target, delay, extra, edge_kind = zip(*made.edges, strict=True) if made.edges else ((),) * 5
    return MeasuredGraph(
        names=names,
        kinds=kinds,
        track=frozen(np.array(track, np.int32)),
        duration=frozen(np.array(duration)),
        start=frozen(np.array(start)),
        tracks=tuple(tracks),
        host=frozen(np.array(host, np.bool_)),
        edge_source=frozen(np.array(source, np.int32)),
        edge_target=frozen(np.array(target, np.int32)),
        edge_delay=frozen(np.array(delay, np.float64)),
        edge_unexplained=frozen(np.array(extra, np.float64)),
        edge_kind=edge_kind,
        span=max(step.finish for step in steps) - min(step.start for step in steps),
        name=name,
        notes=tuple(notes),
    )


class _Assembly:
    """The graph so far; ``clock`` holds the replayed finish of the last node of each track."""

    def __init__(self, tracks: int) -> None:
        self.nodes: list[tuple[str, str, int, float, float]] = []  # name, kind, track, start and duration
        self.edges: list[tuple[int, int, float, float, str]] = []  # ends, delay, its unexplained part, and kind
        self.finish: list[float] = []  # of each node
        self.clock = [0.0] * tracks
        self.number: dict[int, int] = {}

    def add(self, step: Step, latency: float) -> None:
        """Append a step: all that come before it in time have been."""
        edges: dict[int, tuple[float, str]] = {}
        arrival, last = -1.0, -1
        for source, kind in step.after:
            i = self.number.get(id(source), -1)
            if i < 0 or source.track == step.track:
                continue
            delay = max(0.0, min(latency, step.start - source.finish)) if kind == "launch" else 0.0
            if i not in edges or edges[i][0] < delay:
                edges[i] = delay, kind
            ready = self.finish[i] + edges[i][0]
            if ready > arrival:
                arrival, last = ready, i
        own = self.clock[step.track]
        ready = max(own, arrival)
        duration = step.finish - (ready if step.flexible else step.start)
        missing = 0.0 if step.flexible else max(0.0, step.start - ready)
        bound = missing > 0 and arrival >= own
        if missing > 0:
            ready = step.start if bound else self._node("", "idle", step.track, own, missing)
        self.number[id(step)] = len(self.nodes)
        for i, (delay, kind) in edges.items():
            extra = missing if bound and i == last else 0.0
            self.edges.append((i, len(self.nodes), delay + extra, extra, kind))
        self._node(step.name, step.kind, step.track, ready, max(0.0, duration))

    def _node(self, name: str, kind: str, track: int, start: float, duration: float) -> float:
        self.nodes.append((name or f"idle on track {track}", kind, track, start, duration))
        self.finish.append(start + duration)
        self.clock[track] = start + duration
        return start + duration
