"""Measured graphs of Chrome traces, one for each rank, that ran together."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from hetgym.errors import GraphError
from hetgym.graph.measured import MeasuredGraph
from hetgym.graph.traces.chrome import Event, Events
from hetgym.graph.traces.collectives import clock_shifts, couple, matched
from hetgym.graph.traces.execution import Dataflow
from hetgym.graph.traces.steps import Step, assemble
from hetgym.graph.traces.streams import Launches, Work, lanes, launch_latency, work_of
from hetgym.graph.traces.threads import hand_over, tile
from hetgym.graph.traces.waits import infer, synchronise

MAX_THREADS = 256  # Most threads of a process among which waits are looked for
MAX_TRACKS = 4096  # Most threads and streams of all ranks


class Rank:
    """Steps of one rank, on tracks that are numbered from a given number on."""

    def __init__(self, events: Events, prefix: str, first: int, dataflow: Dataflow | None) -> None:
        self.tracks: list[str] = []
        self.threads: list[list[Step]] = []
        self.rows: list[list[Work]] = []
        processes: dict[str, list[list[Step]]] = defaultdict(list)
        for (process, thread), members in _by_place(events.host).items():
            track = first + len(self.tracks)
            self.tracks.append(f"{prefix}thread {thread} of {process}")
            steps = tile(members, track)
            self.threads.append(steps)
            processes[process].append(steps)
        for together in processes.values():
            if len(together) <= MAX_THREADS:
                hand_over(together)
        launches = Launches(events.host)
        for (device, stream), members in _by_place(events.device).items():
            for lane, row in enumerate(lanes(members)):
                self.rows.append(work_of(row, first + len(self.tracks), launches))
                self.tracks.append(f"{prefix}device {device} {stream}" + (f" lane {lane}" if lane else ""))
        synchronise(events, self.rows, launches)
        if dataflow is not None:
            dataflow.link(events.host, self.rows)
        self.latency = launch_latency(self.rows)
        infer(self.rows, self.latency)

    @property
    def works(self) -> list[Work]:
        """Work of all streams."""
        return [work for row in self.rows for work in row]

    def shift(self, seconds: float) -> None:
        """Let all steps begin later; threads are idle until then."""
        for steps in (*self.threads, [work.step for work in self.works]):
            for step in steps:
                step.start += seconds
                step.finish += seconds


def measured_graph(ranks: Sequence[tuple[Events, Dataflow | None]], name: str) -> MeasuredGraph:
    """The measured graph of events of one or several ranks.

    The clocks of several ranks are aligned at the ends of their collectives. Without collectives in common, all ranks
    start at once. No events, or too many events, threads or streams raise a GraphError.
    """
    made: list[Rank] = []
    tracks: list[str] = []
    for number, (events, dataflow) in enumerate(ranks):
        made.append(Rank(events, f"rank {number} " if len(ranks) > 1 else "", len(tracks), dataflow))
        tracks += made[-1].tracks
        if len(tracks) > MAX_TRACKS:
            raise GraphError(f"{name}: the trace has more than {MAX_TRACKS} threads and streams")
    together = matched([rank.works for rank in made]) if len(made) > 1 else []
    if together:
        shifts = clock_shifts(len(made), together)
        for rank, shift in zip(made, shifts, strict=True):
            rank.shift(shift - min(shifts))
    steps: list[Step] = []
    for row in together:
        steps += couple(row)
    steps += [work.step for rank in made for work in rank.works]
    host = [False] * len(tracks)
    for rank in made:
        for thread in rank.threads:
            steps += thread
            host[thread[0].track] = True
    notes = dict.fromkeys(note for events, _ in ranks for note in events.notes)
    return assemble(steps, tracks, host, name, float(np.median([rank.latency for rank in made])), list(notes))


def _by_place(events: Sequence[Event]) -> dict[tuple[str, str], list[Event]]:
    found: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        found[event.place].append(event)
    return dict(sorted(found.items()))
