"""Conversion from and to networkx graphs.

A node is an operator and its label the operator's name. These attributes of nodes are read:

=============  ==========================================================================
node           meaning
=============  ==========================================================================
kind           operator kind; ``Task`` by default
flops          work of a ``Task`` [FLOP]; needed unless ``attributes`` has it
attributes     mapping that the kind's FLOP formula needs (``kernel_shape``, …)
outputs        tensors; by default one uint8 tensor for each size among the outgoing edges
output_bytes   instead of ``outputs``: the size of the only output, which all edges carry
inputs         tensors; by default those that the incoming edges carry
=============  ==========================================================================

A tensor is a :class:`~hetgym.graph.Tensor`, a shape, or a mapping of the Tensor's fields. An edge has
``bytes`` if its source has neither ``outputs`` nor ``output_bytes``, else ``slot``, the number of the
output that it carries (0 by default). Other attributes are the user's own.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from hetgym.errors import GraphError, HetgymError, shown, suggestion
from hetgym.graph.assembly import check_tensor
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import DTYPE_BYTES, Attribute, Operator, Tensor

_FIELDS = {field.name for field in dataclasses.fields(Tensor)}


def from_networkx(graph: Any, name: str | None = None) -> DataflowGraph:
    """Read a ``networkx.DiGraph`` or ``MultiDiGraph``; the module's docstring lists the attributes.

    Args:
        graph: nodes in insertion order become operators 0, 1, ….
        name: name of the result; the networkx graph's own name by default.

    Raises:
        GraphError: an undirected graph, a cycle, two labels with the same text, or an attribute that is
            missing, negative, NaN or of the wrong type; the message names the node or the edge.

    >>> import networkx as nx
    >>> g = nx.DiGraph()
    >>> g.add_node("load", flops=0)
    >>> g.add_node("solve", flops=2e9)
    >>> g.add_edge("load", "solve", bytes=4096)
    >>> from_networkx(g, "small").edge_bytes
    array([4096.])
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise GraphError(f"expected a networkx.DiGraph or MultiDiGraph, got {type(graph).__name__}")
    if not graph.is_directed():
        raise GraphError("the networkx graph is undirected; a dataflow graph needs a DiGraph or a MultiDiGraph")
    ids = {label: i for i, label in enumerate(graph)}
    outputs = {label: _outputs(graph, label) for label in graph}
    edges: list[tuple[int, int, int]] = []
    read: dict[Any, dict[tuple[Any, int], Tensor]] = {label: {} for label in graph}
    for u, v, data in graph.edges(data=True):
        slot = _slot(u, v, data, outputs[u])
        edges.append((ids[u], slot, ids[v]))
        read[v][u, slot] = outputs[u].tensors[slot]
    operators = []
    for label, data in graph.nodes(data=True):
        where = f"node {shown(label)}"
        inputs = _tensors(data["inputs"], f"{where}: inputs") if "inputs" in data else tuple(read[label].values())
        kind = data.get("kind", "Task")
        if not isinstance(kind, str):
            raise GraphError(f"{where}: kind is {shown(kind)}, expected text")
        attributes = _attributes(kind, data, where)
        operators.append(Operator(_name(label), kind, inputs, outputs[label].tensors, attributes))
    return DataflowGraph(operators, edges, name if name is not None else _name(title_of(graph)))


def _name(label: Any) -> str:
    return text_of(label, f"node {shown(label)}: its label cannot be converted to text", GraphError)


def text_of(value: Any, otherwise: str, error: type[HetgymError]) -> str:
    """A label as text; ``error`` if it has none."""
    try:
        return str(value)
    except Exception as cause:  # a whole number of thousands of digits, or an object of the caller's
        raise error(otherwise) from cause


def title_of(graph: Any) -> Any:
    """The name of a networkx graph; ``graph`` if it has none, or attributes that are no mapping, as files may state."""
    found = graph.graph.get("name") if isinstance(graph.graph, Mapping) else None
    return found or "graph"


def to_networkx(graph: DataflowGraph) -> Any:
    """Convert a graph to a ``networkx.MultiDiGraph`` from which :func:`from_networkx` reads an equal graph.

    All attributes are plain values, so networkx can write them as JSON. Parallel edges, one for each tensor, have the
    slot as their key. ``flops`` and ``bytes`` are added for information only.
    """
    if not isinstance(graph, DataflowGraph):
        raise GraphError(f"to_networkx takes a DataflowGraph, not {type(graph).__name__}")
    import networkx as nx

    result = nx.MultiDiGraph(name=graph.name)
    for operator in graph.operators:
        result.add_node(
            operator.name,
            kind=operator.kind,
            flops=operator.flops,
            attributes=dict(operator.attributes),
            inputs=[dataclasses.asdict(tensor) for tensor in operator.inputs],
            outputs=[dataclasses.asdict(tensor) for tensor in operator.outputs],
        )
    for (source, slot, target), size in zip(graph.edges, graph.edge_bytes.tolist(), strict=True):
        ends = graph.operators[source].name, graph.operators[target].name
        result.add_edge(*ends, key=slot, slot=slot, bytes=size)
    return result


@dataclasses.dataclass(frozen=True)
class _Outputs:
    """Outputs of a node; ``slots`` maps a size to an output where only the edges define the outputs."""

    tensors: tuple[Tensor, ...]
    slots: Mapping[int, int] | None = None


def _outputs(graph: Any, label: Any) -> _Outputs:
    data, where = graph.nodes[label], f"node {shown(label)}"
    if "outputs" in data:
        if "output_bytes" in data:
            raise GraphError(f"{where} has both outputs and output_bytes; give one of them")
        return _Outputs(_tensors(data["outputs"], f"{where}: outputs"))
    if "output_bytes" in data:
        return _Outputs((check_tensor(Tensor((_size(data, "output_bytes", where),), "uint8"), where),))
    sizes = sorted(
        {_size(edge, "bytes", f"edge {shown(label)} -> {shown(v)}") for _, v, edge in graph.out_edges(label, data=True)}
    )
    tensors = tuple(check_tensor(Tensor((size,), "uint8"), where) for size in sizes)
    return _Outputs(tensors, {size: i for i, size in enumerate(sizes)})


def _slot(u: Any, v: Any, data: Mapping[str, Any], outputs: _Outputs) -> int:
    where = f"edge {shown(u)} -> {shown(v)}"
    if outputs.slots is not None:
        return outputs.slots[_size(data, "bytes", where)]
    slot = data.get("slot", 0)
    if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot < len(outputs.tensors):
        raise GraphError(f"{where}: slot is {shown(slot)}, but {shown(u)} has {len(outputs.tensors)} outputs")
    stated = data.get("bytes", outputs.tensors[slot].bytes)
    size = outputs.tensors[slot].bytes
    if not isinstance(stated, int | float) or stated != size:
        raise GraphError(f"{where}: bytes is {shown(stated)}, but output {slot} has {size:g} bytes")
    return slot


def _number(data: Mapping[str, Any], key: str, where: str) -> float:
    if key not in data:
        raise GraphError(f"{where}: attribute {shown(key)} is missing")
    try:
        value = float(data[key])
    except (OverflowError, TypeError, ValueError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise GraphError(f"{where}: {key} is {shown(data[key])}; it must be a finite non-negative number")
    return value


def _size(data: Mapping[str, Any], key: str, where: str) -> int:
    size = _number(data, key, where)
    if not size.is_integer():
        raise GraphError(f"{where}: {key} is {size}; it must be a whole number")
    return int(size)


def _attributes(kind: str, data: Mapping[str, Any], where: str) -> dict[str, Attribute]:
    given = data.get("attributes", {})
    if not isinstance(given, Mapping):
        raise GraphError(f"{where}: attributes is {shown(given)}, expected a mapping")
    attributes: dict[str, Attribute] = {}
    for key, value in given.items():
        whole = isinstance(value, list | tuple) and all(isinstance(v, int) for v in value)
        if not isinstance(value, int | float | str) and not whole:
            raise GraphError(
                f"{where}: attribute {shown(key)} is {shown(value)}, expected a number, text or whole numbers"
            )
        attributes[str(key)] = tuple(value) if isinstance(value, list) else value
    if kind == "Task":
        attributes["flops"] = _number(attributes if "flops" in attributes else data, "flops", where)
    return attributes


def _tensors(given: Any, where: str) -> tuple[Tensor, ...]:
    if not isinstance(given, list | tuple):
        raise GraphError(f"{where} is {shown(given)}, expected a list of tensors")
    return tuple(_tensor(item, f"{where}[{i}]") for i, item in enumerate(given))


def _tensor(given: Any, where: str) -> Tensor:
    if isinstance(given, Tensor):
        return given
    fields = given if isinstance(given, Mapping) else {"shape": given}
    for key in fields:
        if key not in _FIELDS:
            raise GraphError(f"{where}: unknown key {shown(key)}; {suggestion(key, _FIELDS)}")
    shape = fields.get("shape")
    if not isinstance(shape, list | tuple) or not all(isinstance(s, int) and s >= 0 for s in shape):
        raise GraphError(f"{where}: shape is {shown(shape)}, expected non-negative whole numbers")
    dtype = fields.get("dtype", "float32")
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise GraphError(f"{where}: unknown dtype {shown(dtype)}; {suggestion(dtype, DTYPE_BYTES)}")
    tensor = Tensor(tuple(shape), dtype, bool(fields.get("constant", False)), str(fields.get("name", "")))
    return check_tensor(tensor, where)
