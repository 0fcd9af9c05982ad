"""DataflowGraph as JSON, plain or gzipped, with dimensions that may grow with the batch.

The document is one object::

    {"format": "hetgym-graph", "version": 1, "name": "tiny",
     "tensors": [{"shape": ["batch", 3, 8, 8], "dtype": "float32"},
                 {"shape": [4, 3, 3, 3], "dtype": "float32", "constant": true, "name": "w"},
                 {"shape": ["4*batch", 6, 6], "dtype": "float32"}],
     "operators": [{"name": "conv", "kind": "Conv", "inputs": [0, 1], "outputs": [2],
                    "attributes": {"kernel_shape": [3, 3]}}],
     "edges": [[0, 0, 1]]}

``tensors`` lists every distinct tensor type once; ``inputs`` and ``outputs`` are positions in it;
an edge is ``[source, slot, target]`` as in :class:`~hetgym.graph.DataflowGraph`. A dimension is a
whole number or ``"batch"`` or ``"k*batch"``, bound when the document is read. ``attributes`` may be
left out when empty; its values are numbers, strings or lists of whole numbers. Any other field is
an error.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hetgym._input.files import read_text, write_text
from hetgym._input.json import parse
from hetgym.errors import GraphError
from hetgym.graph.assembly import check_batch
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.json_reader import FORMAT, VERSION, Reader
from hetgym.graph.ops import Attribute, Tensor

LIMIT_BYTES = 64 << 20  # Longest document that is accepted, after decompression [byte]


def to_json(graph: DataflowGraph, path: str | os.PathLike[str] | None = None) -> str:
    """Write a graph as JSON.

    Args:
        graph: any graph.
        path: file to write the document to as well; it is compressed if the name ends in ``.gz``.

    Returns:
        The document; equal graphs with equal names give equal text.

    Raises:
        GraphError: the file cannot be written.
    """
    text = dumps(to_document(graph))
    if path is not None:
        write_text(Path(path), text, GraphError)
    return text


def to_document(graph: DataflowGraph) -> dict[str, Any]:
    """The graph as the dictionary that :func:`to_json` writes."""
    positions: dict[Tensor, int] = {}

    def position(tensor: Tensor) -> int:
        return positions.setdefault(tensor, len(positions))

    operators = []
    for op in graph.operators:
        row: dict[str, Any] = {"name": op.name, "kind": op.kind}
        row["inputs"] = [position(tensor) for tensor in op.inputs]
        row["outputs"] = [position(tensor) for tensor in op.outputs]
        if op.attributes:
            row["attributes"] = {key: _plain(op.attributes[key]) for key in sorted(op.attributes)}
        operators.append(row)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "tensors": [tensor_row(tensor, tensor.shape) for tensor in positions],
        "operators": operators,
        "edges": [list(edge) for edge in graph.edges],
    } | ({"notes": list(graph.notes)} if graph.notes else {})


def _plain(value: Attribute) -> Any:
    return list(value) if isinstance(value, tuple) else value


def tensor_row(tensor: Tensor, shape: Iterable[int | str]) -> dict[str, Any]:
    """A tensor in the document, with a shape whose numbers may be multiples of the batch."""
    sizes = [size if isinstance(size, str) else int(size) for size in shape]
    row: dict[str, Any] = {"shape": sizes, "dtype": tensor.dtype}
    if tensor.constant:
        row["constant"] = True
    if tensor.name:
        row["name"] = tensor.name
    return row


def dumps(document: Mapping[str, Any]) -> str:
    """The document as text with one tensor, operator or edge list per line, so that versions can be compared."""
    lines = []
    for key, value in document.items():
        if key in ("tensors", "operators") and value:
            rows = ",\n".join("  " + json.dumps(row, separators=(",", ":"), allow_nan=False) for row in value)
            lines.append(f" {json.dumps(key)}: [\n{rows}]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "}\n"


def from_json(source: str | os.PathLike[str] | Mapping[str, Any], batch: int = 1) -> DataflowGraph:
    """Read a graph from JSON.

    Args:
        source: a path (``.json`` or ``.json.gz``), the text itself (it starts with ``{``), or a
            document as :func:`to_document` makes it.
        batch: size of the batch, which replaces ``batch`` in dimensions; 1 for a graph whose sizes are all fixed.

    Raises:
        GraphError: the file is missing, damaged, too long, or not a graph, or its sizes are fixed and the batch is
            not 1; the message names the place in it.

    >>> text = '''{"format": "hetgym-graph", "version": 1, "name": "one", "edges": [],
    ...   "tensors": [{"shape": ["12*batch", 8], "dtype": "float32"}],
    ...   "operators": [{"name": "a", "kind": "Relu", "inputs": [0], "outputs": [0]}]}'''
    >>> from_json(text, batch=2).operators[0].outputs[0].shape
    (24, 8)
    """
    size = check_batch(batch)
    if isinstance(source, Mapping):
        return Reader("document", size).graph(source)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        if len(source) > LIMIT_BYTES:
            raise GraphError(f"JSON text: longer than {LIMIT_BYTES >> 20} MiB")
        return Reader("JSON text", size).graph(parse(source, "JSON text", GraphError))
    if not isinstance(source, str | os.PathLike):
        raise GraphError(f"a graph is read from a path, JSON text or a dictionary, not {type(source).__name__}")
    path = Path(source)
    text = read_text(path, LIMIT_BYTES, GraphError)
    return Reader(str(path), size).graph(parse(text, str(path), GraphError))
