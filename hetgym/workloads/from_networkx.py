"""Problems from networkx graphs whose nodes carry costs.

These attributes are read; others are the user's own. The graph of operators that a cost model prices is
:func:`hetgym.graph.from_networkx`.

==========  =====================================================================================
of a node   meaning
==========  =====================================================================================
cost        run time [s]: a number, or a sequence with one for each device; inf = not placeable
weight      instead of ``cost``
kind        operator kind; ``Task`` by default
==========  =====================================================================================

==========  =====================================================================================
of an edge  meaning
==========  =====================================================================================
bytes       size of the transfer [byte]; 0 by default
weight      instead of ``bytes``: with the default bandwidth of 1 byte/s, the seconds it takes
==========  =====================================================================================
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.errors import ProblemError, shown
from hetgym.graph.from_networkx import text_of, title_of
from hetgym.problem import Problem
from hetgym.workloads.lines import checked_devices, cost_table


def from_networkx(
    graph: Any,
    devices: int | None = None,
    latency: npt.ArrayLike = 0.0,
    bandwidth: npt.ArrayLike = 1.0,
    *,
    name: str | None = None,
) -> Problem:
    """Read a ``networkx.DiGraph`` or ``MultiDiGraph`` with costs; the module's docstring lists the attributes.

    Args:
        graph: nodes in insertion order become operators 0, 1, …; their labels become names. Parallel edges of a
            MultiDiGraph carry a tensor each.
        devices: number of devices, d; by default as many as the costs of a node that has one for each.
        latency: seconds, one number or [d, d].
        bandwidth: byte/s, one number or [d, d].
        name: name of the problem; the networkx graph's own name by default.

    Raises:
        ProblemError: not a directed graph; no node gives the number of devices, nor does the caller; a node without a
            cost; a number of costs other than that of devices; a negative number or NaN; a cycle.

    >>> import networkx as nx
    >>> g = nx.DiGraph()
    >>> g.add_node("load", cost=2.0)
    >>> g.add_node("solve", cost=[6.0, 3.0])
    >>> g.add_edge("load", "solve", bytes=1.0)
    >>> from_networkx(g, name="small").cost
    array([[2., 2.], [6., 3.]])
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph) or not graph.is_directed():
        raise ProblemError(f"expected a networkx.DiGraph or MultiDiGraph, got {type(graph).__name__}")
    if not len(graph):
        raise ProblemError("the graph has 0 operators; a problem needs at least one")
    rows = [_cost(data, f"node {shown(label)}") for label, data in graph.nodes(data=True)]
    given = {row.size for row in rows if row.ndim}
    d = checked_devices(_devices(given) if devices is None else devices)
    cost = cost_table(len(rows), d, "the graph")
    for label, row, into in zip(graph, rows, cost, strict=True):
        if row.ndim and row.size != d:
            raise ProblemError(f"node {shown(label)}: {row.size} costs for {d} devices")
        into[:] = row
    ids = {label: i for i, label in enumerate(graph)}
    edges = [(ids[u], ids[v], _bytes(data, u, v)) for u, v, data in graph.edges(data=True)]
    return Problem.from_arrays(
        cost,
        edges,
        latency,
        bandwidth,
        tensors=range(len(edges)) if graph.is_multigraph() else None,
        operator_names=[_text(label, "the label of a node") for label in graph],
        operator_kinds=[_text(kind, "the kind of a node") for _, kind in graph.nodes(data="kind", default="Task")],
        name=_text(title_of(graph), "the name of the graph") if name is None else name,
    )


def _devices(given: Iterable[int]) -> int:
    counts = sorted(given)
    if not counts:
        raise ProblemError("every cost is one number for all devices: give devices, their number")
    if len(counts) > 1:
        raise ProblemError(f"one node has costs of {counts[0]} devices, another of {counts[-1]}")
    return counts[0]


def _cost(data: Mapping[str, Any], where: str) -> FloatArray:
    """One cost, or a vector of costs."""
    key = "cost" if "cost" in data else "weight"
    if key not in data:
        raise ProblemError(f"{where} has no cost")
    return _numbers(data[key], 1, f"{where}: {key}")


def _bytes(data: Mapping[str, Any], u: object, v: object) -> float:
    key = "bytes" if "bytes" in data else "weight"
    return float(_numbers(data.get(key, 0.0), 0, f"edge {shown(u)} -> {shown(v)}: {key}"))


def _numbers(value: object, rank: int, where: str) -> FloatArray:
    """A number, or an array of a rank that is not larger."""
    try:
        array = np.asarray(None if isinstance(value, str) else value, np.float64)
    except (OverflowError, TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim > rank or not (array >= 0).all():
        wanted = "a non-negative number" + (", or one for each device" if rank else "")
        raise ProblemError(f"{where} is {shown(value)}, not {wanted}")
    return array


def _text(value: object, what: str) -> str:
    return text_of(value, f"{what} cannot be written out", ProblemError)
