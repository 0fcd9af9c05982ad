"""Nodes of a saved PyTorch program, read from its JSON, in the form in which :class:`.torch_types.Walker` visits them.

The classes here stand in for those of ``torch.fx``: a node has ``op``, ``name``, ``target``, ``args``, ``kwargs`` and
``meta`` with the values it makes, and a target has the operator's schema. The format is that of
``torch/_export/serde/schema.py``, major version 8.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hetgym._input.json import noun
from hetgym.errors import shown
from hetgym.graph.json_reader import Reader
from hetgym.graph.torch_ops import ALIASES, ATEN, MAY_COPY
from hetgym.graph.torch_types import unchanged

MAJOR = 8  # Version of the format that is read; minor versions only add to it

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8",
    30: "float8", 31: "float8", 32: "float8", 33: "float8", 34: "uint32", 35: "uint64",
}  # fmt: skip
"""Number of a dtype in the format -> its name."""

_VIEWS = ALIASES | MAY_COPY | {"to", "type_as", "_to_copy"}
_VIEW_KINDS = {"View", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}


@dataclass(frozen=True)
class SavedTensor:
    """Type of a value."""

    shape: tuple[int | None, ...]  # sizes; None where one is not known
    dtype: str  # name of the dtype
    strides: tuple[int | None, ...]  # numbers from one element to the next along each axis; None where one is not known

    def is_contiguous(self) -> bool:
        """True if the last axis moves fastest and nothing lies between the elements."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size == 0:
                return True
            if size != 1 and stride != step:
                return False
            step *= size or 1
        return True

    def view(self, shape: tuple[int, ...]) -> None:
        """Do nothing if the strides allow a view of that shape; otherwise raise ValueError."""
        if 0 in self.shape:
            return
        # Axes that lie one after the other in memory are one run; every run must be a product of new axes.
        runs: list[list[int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size is None or stride is None:
                raise ValueError("a size is not known")
            if size == 1:
                continue
            if runs and runs[-1][1] == size * stride:
                runs[-1] = [runs[-1][0] * size, stride]
            else:
                runs.append([size, stride])
        left = iter([size for size in shape if size != 1])
        for length, _ in runs:
            made = 1
            while made < length:
                made *= next(left, length + 1)
            if made != length:
                raise ValueError("the strides do not allow it")


class Argument(NamedTuple):
    """An argument of a schema."""

    name: str


class Schema(NamedTuple):
    """Name and arguments of an operator."""

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Target:
    """What a node calls; ``_schema`` is None where it is not an operator of a library."""

    __name__: str
    _schema: Schema | None = None


@dataclass(eq=False)
class Node:
    """A node of the graph."""

    op: str
    name: str
    target: Target | None = None
    args: tuple[Any, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    kwargs: dict[str, Any] = field(default_factory=dict)


class ProgramReader:
    """Makes the nodes of a parsed program (``models/*.json``), given its table of weights, or None.

    All methods raise :class:`~hetgym.errors.GraphError` with the file, ``where``, and the place in it.
    """

    def __init__(self, where: str, program: object, weights: object) -> None:
        self._check = Reader(where, 1)
        top = self._object(program, "the program")
        version = self._object(top.get("schema_version"), "schema_version").get("major")
        if version != MAJOR:
            raise self._check.fail("schema_version", f"is {shown(version)}; this hetgym reads version {MAJOR}")
        module = self._object(top.get("graph_module"), "graph_module")
        self._graph = self._object(module.get("graph"), "graph")
        self._signature = self._object(module.get("signature"), "signature")
        self._config = {} if weights is None else self._object(weights, "the weights").get("config")
        self._types = self._object(self._graph.get("tensor_values"), "tensor_values")
        self._made: dict[str, Node] = {}

    def weights(self) -> dict[str, str]:
        """Placeholder -> name of its weight; tied weights all get the first of their names."""
        first: dict[str, str] = {}
        same: dict[str, str] = {}
        for name, row in self._object(self._config, "the weights: config").items():
            entry = self._object(row, f"the weights: {shown(name)}")
            meta = entry.get("tensor_meta")
            if isinstance(meta, Mapping):
                key = [entry.get("path_name"), *(meta.get(k) for k in ("sizes", "strides", "storage_offset"))]
                same[name] = first.setdefault(repr(key), name)
        return {placeholder: same.get(weight, weight) for placeholder, weight, _ in self._constants()}

    def held(self) -> list[str]:
        """Names of all parameters and buffers, tied ones under each of their names."""
        read = [weight for _, weight, kind in self._constants() if kind != "tensor_constant"]
        return list(dict.fromkeys([*self._object(self._config, "the weights: config"), *read]))

    def _constants(self) -> Iterator[tuple[str, str, str]]:
        """Placeholder, name and kind of each constant."""
        for i, spec in enumerate(self._array(self._signature, "input_specs")):
            place = f"input_specs[{i}]"
            what, entry = self._only(spec, place)
            if what in ("parameter", "buffer", "tensor_constant"):
                entry = self._object(entry, place)
                weight = self._check.string(entry.get(f"{what}_name"), place)
                yield self._name(entry.get("arg"), place), weight, what

    def nodes(self) -> list[Node]:
        """The nodes in order: placeholders, calls and the output."""
        found: list[Node] = []
        for i, entry in enumerate(self._array(self._graph, "inputs")):
            what, value = self._only(entry, f"inputs[{i}]")
            if what == "as_tensor":
                name = self._name(value, f"inputs[{i}]")
                found.append(self._enter(Node("placeholder", name, meta={"val": self._type(name)}), f"inputs[{i}]"))
        for i, entry in enumerate(self._array(self._graph, "nodes")):
            found += self._call(self._object(entry, f"nodes[{i}]"), f"nodes[{i}]")
        results = tuple(
            self._argument(entry, f"outputs[{i}]") for i, entry in enumerate(self._array(self._graph, "outputs"))
        )
        _resolve_mutations(found, results, self._check)
        return [*found, Node("output", "output", args=(results,))]

    def _enter(self, node: Node, place: str) -> Node:
        if node.name in self._made:
            raise self._check.fail(place, f"makes {shown(node.name)}, which exists already")
        self._made[node.name] = node
        return node

    def _call(self, entry: Mapping[str, Any], place: str) -> list[Node]:
        """A call, followed by a node for each of its results if it has several."""
        text = self._check.string(entry.get("target"), f"{place}.target")
        inputs = [
            self._object(item, f"{place}.inputs[{k}]") for k, item in enumerate(self._array(entry, "inputs", place))
        ]
        names = tuple(Argument(str(item.get("name", k))) for k, item in enumerate(inputs))
        args = tuple(self._argument(item.get("arg"), f"{place}.inputs[{k}]") for k, item in enumerate(inputs))
        node = Node("call_function", "", _target(text, names), args)
        stack = self._object(entry.get("metadata", {}), f"{place}.metadata").get("nn_module_stack", "")
        if isinstance(stack, str):
            rows = [row.partition(",")[2].rpartition(",") for row in stack.split(";") if row]
            node.meta["nn_module_stack"] = {k: (path, kind) for k, (path, _, kind) in enumerate(rows)}
        outputs = [
            self._only(item, f"{place}.outputs[{k}]") for k, item in enumerate(self._array(entry, "outputs", place))
        ]
        if len(outputs) == 1 and outputs[0][0] == "as_tensor":
            node.name = self._name(outputs[0][1], place)
            node.meta["val"] = self._type(node.name)
            return [self._enter(node, place)]
        results: list[str | None] = []
        for what, value in outputs:
            if what == "as_tensors":
                results += [self._name(item, place) for item in self._check.array(value, f"{place}.outputs")]
            else:
                results.append(self._name(value, place) if what == "as_tensor" else None)
        given = entry.get("name")
        node.name = given if isinstance(given, str) else f"{text} ({place})"
        node.meta["val"] = [None if name is None else self._type(name) for name in results]
        parts = [Node("call_function", name, _ITEM, (node, k)) for k, name in enumerate(results) if name is not None]
        return [self._enter(node, place), *(self._enter(part, place) for part in parts)]

    def _argument(self, value: object, place: str) -> Any:
        """A node, a list of nodes, or a plain value; None where it is something else, such as a subgraph."""
        what, inner = self._only(value, place)
        if what == "as_tensor":
            return self._node(inner, place)
        if what in ("as_tensors", "as_optional_tensors"):
            return [
                self._argument(item, place) if what == "as_optional_tensors" else self._node(item, place)
                for item in self._check.array(inner, place)
            ]
        if what == "as_optional_tensor":
            return self._argument(inner, place)
        if what == "as_nested_tensors":
            rows = self._check.array(inner, place)
            return [self._node(item, place) for row in rows for item in self._check.array(row, place)]
        if what == "as_string_to_argument":
            return [self._argument(item, place) for item in self._object(inner, place).values()]
        if what == "as_ints":
            return [self._check.attribute_int(item, place) for item in self._check.array(inner, place)]
        if what == "as_int":
            return self._check.attribute_int(inner, place)
        return inner if what in ("as_bool", "as_string") and isinstance(inner, bool | str) else None

    def _node(self, value: object, place: str) -> Node:
        name = self._name(value, place)
        if name not in self._made:
            raise self._check.fail(place, f"reads {shown(name)}, which no earlier node makes")
        return self._made[name]

    def _name(self, value: object, place: str) -> str:
        return self._check.string(self._object(value, place).get("name"), f"{place}.name")

    def _type(self, name: str) -> SavedTensor:
        place = f"tensor_values[{shown(name)}]"
        meta = self._object(self._types.get(name), place)
        number = meta.get("dtype")
        if type(number) is not int or number not in _DTYPES:
            raise self._check.fail(place, f"has the unknown dtype {shown(number)}")
        shape, strides = self._sizes(meta, "sizes", place), self._sizes(meta, "strides", place)
        if len(shape) != len(strides):
            raise self._check.fail(place, f"has {len(shape)} sizes but {len(strides)} strides")
        return SavedTensor(shape, _DTYPES[number], strides)

    def _sizes(self, meta: Mapping[str, Any], key: str, place: str) -> tuple[int | None, ...]:
        return tuple(self._size(size, f"{place}.{key}") for size in self._array(meta, key, place))

    def _size(self, value: object, place: str) -> int | None:
        """A size; that of the example where it is an expression, which is not evaluated."""
        what, inner = self._only(value, place)
        if what == "as_expr":
            hint = self._object(inner, place).get("hint")
            what, inner = ("", None) if hint is None else self._only(hint, place)
        return self._check.whole(inner, place) if what == "as_int" else None

    def _only(self, value: object, place: str) -> tuple[str, Any]:
        """The only entry of a union."""
        fields = self._object(value, place)
        if len(fields) != 1:
            raise self._check.fail(place, f"has {len(fields)} fields, not one")
        return next(iter(fields.items()))

    def _object(self, value: object, place: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._check.fail(place, f"is {noun(value)}, not an object")
        return value

    def _array(self, holder: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
        return self._check.array(holder.get(key), f"{place}.{key}" if place else key)


_ITEM = Target("getitem")


def _target(text: str, arguments: tuple[Argument, ...]) -> Target:
    """The operator that ``torch.ops.aten.add.Tensor`` and the like name."""
    words = text.split(".")
    if len(words) >= 4 and words[:2] == ["torch", "ops"] and words[2] != "higher_order":
        name, overload = ".".join(words[3:-1]) or words[-1], words[-1] if len(words) > 4 else "default"
        return Target(name, Schema(f"{words[2]}::{name}", "" if overload == "default" else overload, arguments))
    return Target(words[-1])


def _resolve_mutations(nodes: list[Node], results: tuple[Any, ...], check: Reader) -> None:
    """Turn operators that change their operand in place into those that do not, where that makes no difference."""
    readers: Counter[int] = Counter(id(read) for node in nodes for read in _read(node.args))
    readers.update(id(read) for read in _read(results))
    for node in nodes:
        schema = node.target._schema if node.target else None
        if schema is None or not schema.name.endswith("_") or schema.name.endswith("__"):
            continue
        name = schema.name.removesuffix("_")
        node.target = Target(name, schema._replace(name=name))
        operand = node.args[0] if node.args else None
        alone = isinstance(operand, Node) and readers[id(operand)] == 1 and not _may_share(operand)
        if not alone and not unchanged(node):
            raise check.fail(
                f"operator {shown(node.name)}",
                "changes in place a tensor that others may read; save program.run_decompositions({}) instead",
            )


def _read(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _read(item)


def _may_share(node: Node) -> bool:
    """True if a value may lie in the memory of another: an input, a weight, or a view."""
    if node.target is _ITEM:
        node = node.args[0]
    schema = node.target._schema if node.target else None
    if schema is None:
        return True
    name = schema.name.partition("::")[2]
    return name in _VIEWS or ATEN.get(name) in _VIEW_KINDS
