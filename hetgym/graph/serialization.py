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

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym._archive import atomic_write
from hetgym.errors import GraphError, suggestion
from hetgym.graph.assembly import check_batch, check_operator, check_tensor
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Attribute, Operator, Tensor

FORMAT = "hetgym-graph"
VERSION = 1
LIMIT_BYTES = 256 << 20
"""Longest document, decompressed, that is read."""

_LARGEST = 1 << 62
_SYMBOLIC = re.compile(r"(?:([1-9][0-9]{0,17})\*)?batch")
_DOCUMENT = {"format", "version", "name", "tensors", "operators", "edges"}
_TENSOR = {"shape", "dtype"}, {"constant", "name"}
_OPERATOR = {"name", "kind", "inputs", "outputs"}, {"attributes"}


def to_json(graph: DataflowGraph, path: str | os.PathLike[str] | None = None) -> str:
    """Write a graph as JSON.

    Args:
        graph: any graph.
        path: also write it here; compressed if the name ends in ``.gz``.

    Returns:
        The document; equal graphs of one name give equal text.

    Raises:
        GraphError: the file cannot be written.
    """
    text = dumps(to_document(graph))
    if path is not None:
        write_text(text, Path(path))
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
        "tensors": [_tensor_row(tensor) for tensor in positions],
        "operators": operators,
        "edges": [list(edge) for edge in graph.edges],
    }


def _plain(value: Attribute) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tensor_row(tensor: Tensor) -> dict[str, Any]:
    row: dict[str, Any] = {"shape": [int(size) for size in tensor.shape], "dtype": tensor.dtype}
    if tensor.constant:
        row["constant"] = True
    if tensor.name:
        row["name"] = tensor.name
    return row


def dumps(document: Mapping[str, Any]) -> str:
    """The document as text, one tensor, operator or edge list a line, so that versions can be compared."""
    lines = []
    for key, value in document.items():
        if key in ("tensors", "operators") and value:
            rows = ",\n".join("  " + json.dumps(row, separators=(",", ":"), allow_nan=False) for row in value)
            lines.append(f" {json.dumps(key)}: [\n{rows}]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "}\n"


def write_text(text: str, path: Path) -> None:
    """Write a document; the same text always gives the same bytes, compressed or not.

    Raises:
        GraphError: the file cannot be written.
    """
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, 9, mtime=0)
    try:
        atomic_write(path, lambda file: file.write(data))
    except OSError as cause:
        raise GraphError(f"{path}: cannot be written ({cause.strerror})") from cause


def from_json(source: str | os.PathLike[str] | Mapping[str, Any], batch: int = 1) -> DataflowGraph:
    """Read a graph from JSON.

    Args:
        source: a path (``.json`` or ``.json.gz``), the text itself (it starts with ``{``), or a
            document as :func:`to_document` makes it.
        batch: what ``batch`` in a dimension stands for.

    Raises:
        GraphError: the file is missing, damaged, too long, or not a graph; the sentence names the
            place in it.

    >>> text = '''{"format": "hetgym-graph", "version": 1, "name": "one", "edges": [],
    ...   "tensors": [{"shape": ["12*batch", 8], "dtype": "float32"}],
    ...   "operators": [{"name": "a", "kind": "Relu", "inputs": [0], "outputs": [0]}]}'''
    >>> from_json(text, batch=2).operators[0].outputs[0].shape
    (24, 8)
    """
    size = check_batch(batch)
    if isinstance(source, Mapping):
        return _Reader("document", size).graph(source)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return _Reader("JSON text", size).graph(_parsed(source, "JSON text"))
    if not isinstance(source, str | os.PathLike):
        raise GraphError(f"a graph is read from a path, JSON text or a dictionary, not {type(source).__name__}")
    path = Path(source)
    return _Reader(str(path), size).graph(_parsed(read_text(path), str(path)))


def read_text(path: Path) -> str:
    """Text of a plain or gzipped file of at most :data:`LIMIT_BYTES`.

    Raises:
        GraphError: missing, unreadable, damaged, too long, or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
        if len(data) > LIMIT_BYTES:
            raise GraphError(f"{path}: longer than {LIMIT_BYTES >> 20} MiB")
        return data.decode()
    except FileNotFoundError:
        raise GraphError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as cause:
        raise GraphError(f"{path}: damaged gzip file ({cause})") from cause
    except UnicodeDecodeError as cause:
        raise GraphError(f"{path}: not UTF-8 text ({cause.reason} at byte {cause.start})") from cause
    except (OSError, ValueError) as cause:  # ValueError: a null character in the name
        raise GraphError(f"{path}: cannot be read ({getattr(cause, 'strerror', None) or cause})") from cause


def _parsed(text: str, where: str) -> object:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            keys = [key for key, _ in pairs]
            raise GraphError(f"{where}: field {next(k for k in keys if keys.count(k) > 1)!r} stands twice in an object")
        return dict(pairs)

    def number(word: str) -> float:
        raise GraphError(f"{where}: {word} is no JSON number")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=number)
    except GraphError:
        raise
    except RecursionError:
        raise GraphError(f"{where}: nested too deeply") from None
    except ValueError as cause:  # JSONDecodeError, or a number of thousands of digits
        raise GraphError(f"{where}: not JSON ({cause})") from cause


class _Reader:
    """Turns a parsed document into a graph; every complaint names the file and the place."""

    def __init__(self, where: str, batch: int) -> None:
        self.where = where
        self.batch = batch

    def fail(self, place: str, what: str) -> GraphError:
        return GraphError(f"{self.where}: {place} {what}")

    def graph(self, document: object) -> DataflowGraph:
        """Check the whole document and build the graph."""
        if not isinstance(document, Mapping):
            raise self.fail("the document", f"is {_noun(document)}, not an object")
        if document.get("format") != FORMAT:
            raise self.fail("format", f"is {_show(document.get('format'))}, not {FORMAT!r}")
        if document.get("version") != VERSION or isinstance(document["version"], bool):
            raise self.fail("version", f"is {_show(document.get('version'))}; this hetgym reads version {VERSION}")
        self.fields(document, "the document", _DOCUMENT, set())
        name = self.string(document["name"], "name")
        tensors = [
            self.tensor(row, f"tensors[{i}]") for i, row in enumerate(self.array(document["tensors"], "tensors"))
        ]
        rows = self.array(document["operators"], "operators")
        operators = [self.operator(row, f"operators[{i}]", tensors) for i, row in enumerate(rows)]
        edges = [self.edge(row, f"edges[{i}]") for i, row in enumerate(self.array(document["edges"], "edges"))]
        try:
            return DataflowGraph(operators, edges, name)
        except GraphError as error:
            raise GraphError(f"{self.where}: {error}") from None

    def tensor(self, row: object, place: str) -> Tensor:
        """One row of ``tensors``."""
        fields = self.fields(row, place, *_TENSOR)
        dims = self.array(fields["shape"], f"{place}.shape")
        shape = tuple(self.dimension(dim, f"{place}.shape[{i}]") for i, dim in enumerate(dims))
        dtype = self.string(fields["dtype"], f"{place}.dtype")
        constant = fields.get("constant", False)
        if not isinstance(constant, bool):
            raise self.fail(f"{place}.constant", f"is {_show(constant)}, not true or false")
        name = self.string(fields.get("name", ""), f"{place}.name")
        return check_tensor(Tensor(shape, dtype, constant, name), f"{self.where}: {place}")

    def dimension(self, dim: object, place: str) -> int:
        """A number, or a multiple of the batch."""
        if isinstance(dim, str):
            match = _SYMBOLIC.fullmatch(dim)
            if match is None:
                raise self.fail(place, f"is {_show(dim)}; a dimension is a whole number, 'batch' or 'k*batch'")
            return int(match[1] or 1) * self.batch
        return self.whole(dim, place)

    def operator(self, row: object, place: str, tensors: list[Tensor]) -> Operator:
        """One row of ``operators``."""
        fields = self.fields(row, place, *_OPERATOR)
        name = self.string(fields["name"], f"{place}.name")
        kind = self.string(fields["kind"], f"{place}.kind")
        if not name or not kind:
            raise self.fail(place, "has an empty name or kind")
        sides = []
        for side in ("inputs", "outputs"):
            at = [self.whole(item, f"{place}.{side}") for item in self.array(fields[side], f"{place}.{side}")]
            if any(i >= len(tensors) for i in at):
                raise self.fail(f"{place}.{side}", f"names tensor {max(at)}, but there are {len(tensors)}")
            sides.append(tuple(tensors[i] for i in at))
        if not sides[1]:
            raise self.fail(f"{place}.outputs", "is empty; an operator has one output or more")
        attributes = fields.get("attributes", {})
        if not isinstance(attributes, Mapping):
            raise self.fail(f"{place}.attributes", f"is {_noun(attributes)}, not an object")
        values = {key: self.attribute(value, f"{place}.attributes[{key!r}]") for key, value in attributes.items()}
        operator = Operator(name, kind, sides[0], sides[1], values)
        check_operator(operator, f"{self.where}: {place}")
        return operator

    def attribute(self, value: object, place: str) -> Attribute:
        """A number, a string, or a list of whole numbers."""
        if isinstance(value, str):
            return value
        if isinstance(value, float) and abs(value) <= _LARGEST:
            return value
        if isinstance(value, list):
            return tuple(self.attribute_int(item, place) for item in value)
        return self.attribute_int(value, place)

    def attribute_int(self, value: object, place: str) -> int:
        """A whole number, which may be negative."""
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
            raise self.fail(place, f"is {_show(value)}, not a number, a string or a list of whole numbers")
        return value

    def edge(self, row: object, place: str) -> tuple[int, int, int]:
        """One row of ``edges``."""
        items = [self.whole(item, place) for item in self.array(row, place)]
        if len(items) != 3:
            raise self.fail(place, f"has {len(items)} numbers, not source, slot and target")
        return items[0], items[1], items[2]

    def fields(self, row: object, place: str, needed: set[str], optional: set[str]) -> Mapping[str, Any]:
        """An object with exactly these fields."""
        if not isinstance(row, Mapping):
            raise self.fail(place, f"is {_noun(row)}, not an object")
        missing = sorted(needed - row.keys())
        if missing:
            raise self.fail(place, f"has no {missing[0]!r}")
        odd = sorted(str(key) for key in row.keys() - needed - optional)
        if odd:
            raise self.fail(place, f"has an unknown field {odd[0]!r}; {suggestion(odd[0], needed | optional)}")
        return row

    def array(self, value: object, place: str) -> list[Any]:
        """A JSON list."""
        if not isinstance(value, list):
            raise self.fail(place, f"is {_noun(value)}, not a list")
        return value

    def string(self, value: object, place: str) -> str:
        """A JSON string."""
        if not isinstance(value, str):
            raise self.fail(place, f"is {_noun(value)}, not a string")
        return value

    def whole(self, value: object, place: str) -> int:
        """A whole number, not negative."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
            raise self.fail(place, f"is {_show(value)}, not a whole number from 0 on")
        return value


def _noun(value: object) -> str:
    nouns = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return nouns.get(type(value), "a number")


def _show(value: object) -> str:
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a huge number"
    text = repr(value) if isinstance(value, str | int | float) else _noun(value)
    return text if len(text) <= 60 else text[:60] + "…"
