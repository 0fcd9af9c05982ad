"""MeasuredGraph: what a profiler recorded, as a graph that can be replayed and changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from numbers import Real

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.errors import GraphError, shown


@dataclass(frozen=True, eq=False)
class MeasuredGraph:
    """Measured intervals of host threads and GPU streams, and what each of them waited for.

    A *track* is a thread or a stream; its nodes run one at a time, in the order of their numbers. A node starts once
    the node before it on its track has finished and, for each of its edges, the edge's delay has passed since the
    source finished. Replayed with the durations and delays that were measured, the nodes run when they ran.
    :func:`hetgym.workloads.replay` makes a problem and a schedule of the graph, which :func:`hetgym.simulate` runs.

    ==========================  ====================================================================================
    kind of a node              what it is
    ==========================  ====================================================================================
    ``operator``                an operator of the framework on a thread, without the calls inside it
    ``annotation``, ``python``  code within a user's range, or a Python function, that no operator covers
    ``runtime``                 a call of the device's runtime, such as the launch of a kernel
    ``idle``                    no event was recorded: untraced work of the host, or a pause of a stream
    ``kernel``                  a kernel of a device that no other kind covers
    ``memcpy``, ``memset``      a copy, a fill
    ``all-reduce`` ...          a collective: also ``all-gather``, ``reduce-scatter``, ``broadcast``, ``reduce``,
                                ``all-to-all``, ``send-recv``; ``collective`` if its name does not tell
    ``rendezvous``              the point at which the last rank has come to a collective; takes no time
    ==========================  ====================================================================================

    ONNX Runtime's nodes have the ONNX operator as their kind. Events of other categories have the category.
    """

    names: tuple[str, ...]  # [n] names of the events; parts of one event share its name
    kinds: tuple[str, ...]  # [n] kinds, as in the table
    track: IntArray  # [n] track of each node
    duration: FloatArray  # [n] run time [s]; of a node that waited, the time after the last event that it waited for
    start: FloatArray  # [n] start in the replay of the measured graph [s]
    tracks: tuple[str, ...]  # [t] names of the tracks
    host: BoolArray  # [t] True for a thread of the host, False for a stream of a device
    # edge_source, edge_target: [e] nodes; an edge joins different tracks and its source has the smaller number
    edge_source: IntArray
    edge_target: IntArray
    edge_delay: FloatArray  # [e] time from the finish of the source until the target may start [s]
    # [e] part of the delay beyond the usual latency of a launch: the target started later than all that it was found to
    # wait for allowed [s]
    edge_unexplained: FloatArray
    # [e] `launch`, `sync` (a host waits for a device), `wait` (a stream waits for another), `handoff` (a thread waits
    # for another), `collective` or `data`
    edge_kind: tuple[str, ...]
    span: float  # from the first start to the last finish as recorded [s]
    name: str  # for messages
    notes: tuple[str, ...] = ()  # what of the file is left out and can change the span, a sentence each

    def __repr__(self) -> str:
        return (
            f"MeasuredGraph({self.name!r}, {len(self.names)} nodes on {len(self.tracks)} tracks, "
            f"{len(self.edge_kind)} edges, {self.span:.6g} s)"
        )

    def select(
        self,
        kind: str | Sequence[str] | None = None,
        name: str | None = None,
        track: str | None = None,
        host: bool | None = None,
    ) -> BoolArray:
        """Mark the nodes that fulfil all conditions.

        Args:
            kind: a kind, or several; one must fit.
            name: pattern of the name with the wildcards ``*`` and ``?``; upper and lower case differ.
            track: such a pattern of the track's name.
            host: True for nodes on threads, False for nodes on streams.

        Returns:
            [n] True for the nodes selected; all of them if there is no condition.

        Raises:
            GraphError: a condition of the wrong type, or a kind that no node has.
        """
        chosen = np.ones(len(self.names), np.bool_)
        if kind is not None:
            wanted = {kind} if isinstance(kind, str) else {str(item) for item in kind}
            odd = sorted(wanted - set(self.kinds))
            if odd:
                known = ", ".join(sorted(set(self.kinds)))
                raise GraphError(f"measured graph {self.name!r}: no node is of kind {shown(odd[0])}; kinds: {known}")
            chosen &= _members(self.kinds, wanted)
        if name is not None:
            chosen &= _members(self.names, _matching(self.names, name, "name"))
        if track is not None:
            fitting = _matching(self.tracks, track, "track")
            chosen &= np.array([item in fitting for item in self.tracks], np.bool_)[self.track]
        if host is not None:
            if not isinstance(host, bool | np.bool_):
                raise GraphError(f"host must be True, False or None, not {shown(host)}")
            chosen &= self.host[self.track] == host
        return chosen

    def scaled(
        self,
        factor: float,
        kind: str | Sequence[str] | None = None,
        name: str | None = None,
        track: str | None = None,
        host: bool | None = None,
    ) -> MeasuredGraph:
        """A copy in which the selected nodes take ``factor`` (from 0 on) times as long; delays are unchanged.

        The nodes are those of :meth:`select` under the same conditions.

        Raises:
            GraphError: an invalid factor, or no node is selected.
        """
        if isinstance(factor, bool) or not isinstance(factor, Real) or not 0 <= factor <= 1e9:
            raise GraphError(f"factor must be a number from 0 to 1e9, not {shown(factor)}")
        chosen = self.select(kind, name, track, host)
        if not chosen.any():
            raise GraphError(f"measured graph {self.name!r}: the conditions select no node")
        return replace(self, duration=frozen(np.where(chosen, self.duration * float(factor), self.duration)))

    def without_dispatch(self) -> MeasuredGraph:
        """A copy in which the host and the launches take no time: devices wait for each other and for nothing else.

        Every node of a host thread takes no time, launches have no latency, and pauses of devices that nothing
        explains are left out. Work of the host that devices must wait for, such as reading data, is removed as well, so
        the makespan is a lower bound on what less dispatch can reach. It is never shorter than the busy time of a
        stream.

        Raises:
            GraphError: there is no device.
        """
        if self.host.all():
            raise GraphError(f"measured graph {self.name!r} has no device, so nothing is dispatched")
        made = self.explained()
        launch = np.array([kind == "launch" for kind in made.edge_kind], np.bool_)
        return replace(
            made,
            duration=frozen(np.where(made.host[made.track], 0.0, made.duration)),
            edge_delay=frozen(np.where(launch, 0.0, made.edge_delay)),
        )

    def explained(self) -> MeasuredGraph:
        """A copy without the pauses of devices that no dependency explains.

        Unexplained parts of delays are left out, and so are the pauses of a stream between nodes. The replay of this
        copy tells how much of the span follows from the times of the nodes and the dependencies that were found; the
        smaller the difference, the more a replay of a changed graph can be trusted.
        """
        pauses = _members(self.kinds, {"idle"}) & ~self.host[self.track]
        return replace(
            self,
            duration=frozen(np.where(pauses, 0.0, self.duration)),
            edge_delay=frozen(self.edge_delay - self.edge_unexplained),
            edge_unexplained=frozen(np.zeros(len(self.edge_kind))),
        )

    def busy(self) -> FloatArray:
        """[t] total run time of the nodes of each track, ``idle`` ones left out [s]."""
        working = ~_members(self.kinds, {"idle"})
        total = np.bincount(self.track[working], self.duration[working], minlength=len(self.tracks))
        return frozen(total.astype(np.float64))


def _members(values: Sequence[str], wanted: set[str]) -> BoolArray:
    return np.array([value in wanted for value in values], np.bool_)


def _matching(values: Sequence[str], pattern: str, what: str) -> set[str]:
    if not isinstance(pattern, str):
        raise GraphError(f"the pattern for a {what} must be text, not {shown(pattern)}")
    return {value for value in set(values) if fnmatchcase(value, pattern)}
