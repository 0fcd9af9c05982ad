"""Problems and schedules of measured graphs, which replay what a profiler recorded."""

import numpy as np

from hetgym.errors import ProblemError
from hetgym.graph import MeasuredGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule

NOMINAL = 1e9  # Bandwidth between tracks [byte/s]: an edge carries as many bytes as take its delay
MAX_ENTRIES = 50_000_000  # Largest cost table, operators x devices


def replay(graph: MeasuredGraph) -> tuple[Problem, Schedule]:
    """The problem of a measured graph, and the schedule with which it ran.

    Every track is a device, and an operator can run on its own track only. Besides the graph's edges there is one from
    each operator to the next on its track, so every schedule keeps the order. A delay is a transfer over
    a link of 1 GB/s: a millisecond is a megabyte. The same graph, changed by
    :meth:`~hetgym.graph.MeasuredGraph.scaled`, keeps its tracks and orders.

    Args:
        graph: a graph that :func:`hetgym.graph.from_trace` returned.

    Returns:
        What :func:`hetgym.simulate` takes; its runtime must be one without contention, as ``classic`` is.

    Raises:
        ProblemError: not a measured graph, or one with too many nodes for its tracks.
    """
    if not isinstance(graph, MeasuredGraph):
        raise ProblemError(f"replay takes what hetgym.graph.from_trace returns, not {type(graph).__name__}")
    n, d = len(graph.names), len(graph.tracks)
    if n * d > MAX_ENTRIES:
        raise ProblemError(f"measured graph {graph.name!r} has {n} nodes and {d} tracks; that is too many")
    cost = np.full((n, d), np.inf)
    cost[np.arange(n), graph.track] = graph.duration
    rows = np.argsort(graph.track, kind="stable").astype(np.int32)
    order = np.split(rows, np.cumsum(np.bincount(graph.track, minlength=d))[:-1])
    neighbours = graph.track[rows[:-1]] == graph.track[rows[1:]]
    source = np.concatenate([graph.edge_source, rows[:-1][neighbours]])
    target = np.concatenate([graph.edge_target, rows[1:][neighbours]])
    delay = np.concatenate([graph.edge_delay, np.zeros(int(neighbours.sum()))])
    problem = Problem(
        cost=cost,
        edge_source=source,
        edge_target=target,
        edge_bytes=delay * NOMINAL,
        edge_tensor=np.arange(len(source), dtype=np.int32),
        latency=np.zeros((d, d)),
        bandwidth=np.full((d, d), NOMINAL),
        weight_bytes=np.zeros(n),
        output_bytes=np.zeros(n),
        memory_capacity=np.full(d, np.inf),
        operator_names=graph.names,
        operator_kinds=graph.kinds,
        device_names=graph.tracks,
        name=graph.name,
        asynchronous=~graph.host,
        notes=graph.notes,
    )
    return problem, Schedule(graph.track, order=order, scheduler="as recorded")
