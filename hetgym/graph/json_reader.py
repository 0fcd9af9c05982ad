"""Reader that checks a JSON document field by field and builds a graph; see :mod:`hetgym.graph.serialization`."""

import re
from collections.abc import Mapping
from typing import Any

from hetgym._input.json import noun, spelled
from hetgym.errors import GraphError, suggestion
from hetgym.graph.assembly import check_operator, check_tensor
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Attribute, Operator, Tensor

FORMAT = "hetgym-graph"
VERSION = 1
_LARGEST = (1 << 63) - 1  # PyTorch states the end of a slice so where it has none
_SYMBOLIC = re.compile(r"(?:([1-9][0-9]{0,17})\*)?batch")
_DOCUMENT = {"format", "version", "name", "tensors", "operators", "edges"}
_TENSOR = {"shape", "dtype"}, {"constant", "name"}
_OPERATOR = {"name", "kind", "inputs", "outputs"}, {"attributes"}


class Reader:
    """Builds a graph from a parsed document.

    All methods that check a part raise :class:`~hetgym.errors.GraphError` with the file and the place in it.
    """

    def __init__(self, where: str, batch: int) -> None:
        self.where = where
        self.batch = batch
        self.grows = False  # a dimension has been bound to the batch

    def fail(self, place: str, what: str) -> GraphError:
        """The error to raise; its message names the document, the place in it and what is wrong."""
        return GraphError(f"{self.where}: {place} {what}")

    def graph(self, document: object) -> DataflowGraph:
        """Check the whole document and build the graph."""
        if not isinstance(document, Mapping):
            raise self.fail("the document", f"is {noun(document)}, not an object")
        if document.get("format") != FORMAT:
            raise self.fail("format", f"is {spelled(document.get('format'))}, not {FORMAT!r}")
        if document.get("version") != VERSION or type(document["version"]) is not int:
            raise self.fail("version", f"is {spelled(document.get('version'))}; this hetgym reads version {VERSION}")
        self.fields(document, "the document", _DOCUMENT, {"notes"})
        name = self.string(document["name"], "name")
        tensors = [
            self.tensor(row, f"tensors[{i}]") for i, row in enumerate(self.array(document["tensors"], "tensors"))
        ]
        if self.batch != 1 and not self.grows:
            raise self.fail("tensors", f"have fixed sizes, so the batch cannot be {self.batch}; leave the batch out")
        rows = self.array(document["operators"], "operators")
        operators = [self.operator(row, f"operators[{i}]", tensors) for i, row in enumerate(rows)]
        edges = [self.edge(row, f"edges[{i}]") for i, row in enumerate(self.array(document["edges"], "edges"))]
        listed = self.array(document.get("notes", []), "notes")
        notes = [self.string(note, f"notes[{i}]") for i, note in enumerate(listed)]
        try:
            return DataflowGraph(operators, edges, name, notes)
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
            raise self.fail(f"{place}.constant", f"is {spelled(constant)}, not true or false")
        name = self.string(fields.get("name", ""), f"{place}.name")
        return check_tensor(Tensor(shape, dtype, constant, name), f"{self.where}: {place}")

    def dimension(self, dim: object, place: str) -> int:
        """The size of a dimension: a whole number, or a multiple of the batch."""
        if isinstance(dim, str):
            match = _SYMBOLIC.fullmatch(dim)
            if match is None:
                raise self.fail(place, f"is {spelled(dim)}; a dimension is a whole number, 'batch' or 'k*batch'")
            self.grows = True
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
                raise self.fail(f"{place}.{side}", f"names tensor {max(at)}, but there are {len(tensors)} tensors")
            sides.append(tuple(tensors[i] for i in at))
        if not sides[1]:
            raise self.fail(f"{place}.outputs", "is empty; an operator has at least one output")
        attributes = fields.get("attributes", {})
        if not isinstance(attributes, Mapping):
            raise self.fail(f"{place}.attributes", f"is {noun(attributes)}, not an object")
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
            raise self.fail(place, f"is {spelled(value)}, not a number, a string or a list of whole numbers")
        return value

    def edge(self, row: object, place: str) -> tuple[int, int, int]:
        """One row of ``edges``."""
        items = [self.whole(item, place) for item in self.array(row, place)]
        if len(items) != 3:
            raise self.fail(place, f"has {len(items)} numbers, not three (source, slot, target)")
        return items[0], items[1], items[2]

    def fields(self, row: object, place: str, needed: set[str], optional: set[str]) -> Mapping[str, Any]:
        """Check that a value is an object with all needed fields and no unknown ones."""
        if not isinstance(row, Mapping):
            raise self.fail(place, f"is {noun(row)}, not an object")
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
            raise self.fail(place, f"is {noun(value)}, not a list")
        return value

    def string(self, value: object, place: str) -> str:
        """A JSON string."""
        if not isinstance(value, str):
            raise self.fail(place, f"is {noun(value)}, not a string")
        return value

    def whole(self, value: object, place: str) -> int:
        """A non-negative whole number."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
            raise self.fail(place, f"is {spelled(value)}, not a non-negative whole number")
        return value
