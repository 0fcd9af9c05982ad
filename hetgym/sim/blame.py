"""Blame: what the makespan was spent on, along the chain of causes that ends with the last operator."""

from dataclasses import dataclass

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, IntArray
from hetgym.sim.record import Record

CAUSES = ("compute", "partition entry", "transfer", "link wait", "dispatch", "idle")
"""Causes of time along the realised critical chain."""


@dataclass(frozen=True)
class Blame:
    """Shares of the makespan along the realised critical chain."""

    seconds: dict[str, float]  # cause -> seconds; they sum to the makespan
    chain: tuple[int, ...]  # operators of the chain, first to last

    @property
    def shares(self) -> dict[str, float]:
        """Cause -> share of the makespan; they sum to 1 if the makespan is not 0."""
        total = summed(self.seconds.values())
        return {cause: value / total if total > 0 else 0.0 for cause, value in self.seconds.items()}


def blame(trace: Record) -> Blame:
    """Split the makespan by cause, walking back from the last operator to finish.

    Each step of the walk goes to what the operator waited for last: the producer of its last input if that arrived no
    earlier than its device became free, otherwise the operator that left the device last.

    The time between a producer's finish and the start of its transfer is ``link wait``: until a link was free or, where
    inputs are pulled, until the transfer was requested. The time between the cause and the operator's start is
    ``dispatch`` if the runtime has any, and ``idle`` otherwise. An operator that begins a partition first spends the
    ``partition entry`` of its device.
    """
    problem = trace.problem
    seconds = dict.fromkeys(CAUSES, 0.0)
    pointer, incoming = problem.predecessors.pointer, problem.predecessors.edge
    members = [np.flatnonzero(trace.assignment == d).astype(np.int32) for d in range(problem.num_devices)]
    position, entering = problem.arrays.position, _entries(trace)
    operator = int(np.lexsort((position, trace.finish))[-1])
    chain = [operator]
    while True:
        start = float(trace.start[operator])
        spent = float(trace.finish[operator]) - start
        seconds["compute"] += spent - min(spent, float(entering[operator]))
        seconds["partition entry"] += min(spent, float(entering[operator]))
        edges = incoming[pointer[operator] : pointer[operator + 1]]
        latest = edges[np.argmax(trace.arrived[edges])] if len(edges) else None
        arrival = float(trace.arrived[latest]) if latest is not None else -1.0
        before = _left_last(trace, members[trace.assignment[operator]], operator, start, position)
        freed = float(trace.finish[before]) if before is not None else -1.0
        cause = max(arrival, freed, 0.0)
        seconds["dispatch" if trace.switches.dispatch > 0 else "idle"] += start - cause
        if latest is not None and arrival >= freed:
            source = int(problem.edge_source[latest])
            sent = float(trace.sent[latest])
            seconds["transfer"] += arrival - sent
            seconds["link wait"] += sent - float(trace.finish[source])
            operator = source
        elif before is not None:
            operator = before
        else:
            return Blame(seconds, tuple(chain[::-1]))
        chain.append(operator)


def _entries(trace: Record) -> FloatArray:
    """[n] seconds for which each operator enters a partition; see :attr:`hetgym.Problem.partition_overhead`."""
    problem, found = trace.problem, np.zeros(trace.problem.num_operators)
    if not trace.switches.partitions:
        return found
    pointer, incoming = problem.predecessors.pointer, problem.predecessors.edge
    for device in np.flatnonzero(problem.partition_overhead).tolist():
        own, entered = np.flatnonzero(trace.assignment == device), -1.0
        for operator in own[np.lexsort((trace.finish[own], trace.start[own]))].tolist():
            sources = problem.edge_source[incoming[pointer[operator] : pointer[operator + 1]]]
            latest = trace.finish[sources[trace.assignment[sources] != device]].max(initial=0.0)
            if latest > entered:
                entered, found[operator] = float(trace.start[operator]), problem.partition_overhead[device]
    return found


def _left_last(trace: Record, members: IntArray, operator: int, start: float, position: IntArray) -> int | None:
    """The operator that finished last on the same device before this one started; None if it was the first."""
    sooner = (trace.start[members] < start) | (position[members] < position[operator])
    earlier = members[(trace.finish[members] <= start) & sooner & (members != operator)]
    if len(earlier) == 0:
        return None
    return int(earlier[np.lexsort((position[earlier], trace.finish[earlier]))[-1]])
