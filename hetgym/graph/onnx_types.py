"""Inference of the types and small values in an ONNX graph, one operator after the other.

All dimensions are bound to numbers beforehand. ONNX's own inference of one node at a time therefore finds every shape,
and integer arithmetic on shapes is evaluated on the way. Weights are never materialised: only small values are known.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from hetgym.errors import GraphError
from hetgym.graph.assembly import Step, check_tensor
from hetgym.graph.onnx_bodies import rounds_of, work_of
from hetgym.graph.onnx_checks import check_operands
from hetgym.graph.onnx_nodes import (
    SUBGRAPHS,
    attributes_of,
    evaluate,
    kind_of,
    outer_names,
    small_value,
    stacked_of,
    states_of,
)
from hetgym.graph.ops import Attribute, Operator, Tensor

SMALL = 1024  # Most elements of a value that is kept for evaluation

_ALIASES = {"float": "float32", "double": "float64", "uint4": "int4", "float4e2m1": "int4"}
_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
_SAME_SHAPE = {"GroupNormalization", "MeanVarianceNormalization"}  # ONNX infers no shape for these
_DATA_SHAPED = {"NonZero", "Unique", "Compress"}  # their shapes follow from their operands' values

_CONSTANTS = {"value": 4, "value_int": 2, "value_ints": 7, "value_float": 1, "value_floats": 6}
"""Attribute of a Constant -> its type in onnx.AttributeProto."""

Reshape = Callable[[onnx.NodeProto, npt.NDArray[Any]], npt.NDArray[Any]]


def tensor_of(proto: onnx.TypeProto, where: str) -> Tensor | None:
    """A type as a Tensor; None if a dimension is unknown; GraphError for no tensor or a dtype without a size."""
    if not proto.HasField("tensor_type"):
        raise GraphError(f"{where} is a {proto.WhichOneof('value') or 'value without type'}, not a tensor")
    tensor = proto.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    return check_tensor(Tensor(shape, dtype_of(tensor.elem_type, where)), where)


def dtype_of(elem_type: int, where: str) -> str:
    """The dtype, in hetgym's vocabulary, of an ONNX element type."""
    try:
        name = onnx.TensorProto.DataType.Name(elem_type).lower()
    except ValueError:
        raise GraphError(f"{where} has element type {elem_type}, which the installed onnx does not know") from None
    return "float8" if name.startswith("float8") else _ALIASES.get(name, name)


class Walker:
    """Walks an ONNX graph and collects steps, types and small values.

    Args:
        opsets: domain -> version.
        declared: types that the model itself declares for values, with all dimensions bound.
        reshape: function from a Reshape node and its literal target to the target to use; it is not called for
            computed targets.
    """

    def __init__(
        self, opsets: Mapping[str, int], declared: Mapping[str, onnx.TypeProto], reshape: Reshape | None = None
    ) -> None:
        self.steps: list[Step] = []
        self.values: dict[str, Tensor] = {}
        self._assumed: set[str] = set()  # kinds whose output shapes are neither inferred nor declared
        self._uncounted: list[str] = []  # loops whose number of rounds depends on data
        self._guessed: dict[str, str] = {}  # value whose shape is unknown -> what is assumed to be its shape
        self._read: set[str] = set()  # values that a node or the model's user reads
        self._types: dict[str, onnx.TypeProto] = {}
        self._known: dict[str, npt.NDArray[Any]] = {}
        self._unshaped: dict[str, str] = {}
        self._literal: set[str] = set()
        self._opsets = dict(opsets)
        self._imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        self._declared = declared
        self._reshape = reshape

    def define(self, name: str, proto: onnx.TypeProto, constant: bool = False) -> None:
        """Add a graph input, or a weight without a known value."""
        self._set(name, proto, constant, f"value {name!r}")

    def literal(self, name: str, value: npt.NDArray[Any], elem_type: int) -> None:
        """Add a small constant with its value."""
        self.define(name, helper.make_tensor_type_proto(elem_type, value.shape), constant=True)
        self._known[name] = value
        self._literal.add(name)

    def walk(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Visit the nodes in order; GraphError if one reads a value that no earlier node makes or that has no shape."""
        for i, node in enumerate(nodes):
            where = f"node {i} ({node.op_type}{f' {node.name!r}' if node.name else ''})"
            operands = [name for name in node.input if name] + sorted(set(outer_names(node)))
            for name in operands:
                self.check(name, where)
            for name in node.output:
                if name in self.values or name in self._unshaped:
                    raise GraphError(f"{where} makes {name!r}, which exists already")
            self._visit(node, operands, where)

    def notes(self) -> Iterator[str]:
        """What was assumed about shapes."""
        if self._assumed:
            yield f"outputs assumed as large as the first input: {', '.join(sorted(self._assumed))}"
        if self._uncounted:
            yield f"rounds that depend on data are priced as one: {', '.join(sorted(self._uncounted))}"
        guessed = {name: guess for name, guess in sorted(self._guessed.items()) if name in self._read}
        for guess in sorted(set(guessed.values())):
            names = ", ".join(repr(name) for name, own in guessed.items() if own == guess)
            yield f"shape of {names} unknown, assumed to be that of {guess}"

    def check(self, name: str, where: str) -> None:
        """Raise an error if no value of this name exists so far, or its shape is unknown."""
        self._read.add(name)
        if name in self._unshaped:
            raise GraphError(f"{self._unshaped[name]}: shape of {name!r} unknown; it depends on data or is not stated")
        if name not in self.values:
            raise GraphError(f"{where} reads {name!r}, which no earlier node makes")

    def _visit(self, node: onnx.NodeProto, operands: list[str], where: str) -> None:
        if node.domain in ("", "ai.onnx") and node.op_type in ("Constant", "Shape", "Size"):
            if not node.output or (node.op_type != "Constant" and not operands):
                raise GraphError(f"{where} lacks an operand or a result")
            return self._constant(node, where) if node.op_type == "Constant" else self._shape(node)
        folded = bool(operands) and node.op_type not in _RANDOM and all(self.values[name].constant for name in operands)
        if folded and node.op_type in _DATA_SHAPED and self._evaluate(node):
            return None
        types = self._infer(node, operands, where)
        for name in filter(None, node.output):
            self._set(name, types[name], folded, f"{where}: output {name!r}")
        if folded:
            self._evaluate(node)
        else:
            outputs = [name for name in node.output if name in self.values]
            self.steps.append(Step(node.name, kind_of(node), operands, outputs, attributes_of(node) | self._work(node)))

    def _work(self, node: onnx.NodeProto) -> dict[str, Attribute]:
        """The work of a node's body; nothing of a node without one."""
        if node.op_type not in SUBGRAPHS or node.domain not in ("", "ai.onnx"):
            return {}
        rounds = rounds_of(node, self._known, self.values)
        if not rounds:
            self._uncounted.append(node.name or node.op_type)
        return {**work_of(node, rounds, self._types, self._body)}

    def _body(self, body: onnx.GraphProto, inputs: Mapping[str, onnx.TypeProto]) -> list[Operator]:
        """The operators of a body that reads values of this graph."""
        inner = Walker(self._opsets, {})
        for name in {name for node in body.node for name in (*node.input, *outer_names(node))} & self.values.keys():
            inner.define(name, self._types[name], self.values[name].constant)
            if name in self._known:
                inner._known[name] = self._known[name]
        for tensor in body.initializer:
            inner.define(tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)), True)
        for name, proto in inputs.items():
            inner.define(name, proto)
        inner.walk(body.node)
        found = []
        for k, step in enumerate(inner.steps):
            operands, results = (tuple(inner.values[name] for name in names) for names in (step.inputs, step.outputs))
            found.append(Operator(f"{k}", step.kind, operands, results, step.attributes))
        return found

    def _set(self, name: str, proto: onnx.TypeProto, constant: bool, where: str) -> None:
        tensor = tensor_of(proto, where)
        if tensor is None:
            self._unshaped[name] = where  # an error only if a node reads it
            return
        self._types[name] = proto
        self.values[name] = Tensor(tensor.shape, tensor.dtype, True, name) if constant else tensor

    def _constant(self, node: onnx.NodeProto, where: str) -> None:
        attribute = node.attribute[0] if node.attribute else onnx.AttributeProto()
        if attribute.type != _CONSTANTS.get(attribute.name):
            raise GraphError(f"{where} holds no tensor of numbers")
        if attribute.name == "value":
            type_ = helper.make_tensor_type_proto(attribute.t.data_type, list(attribute.t.dims))
            small = math.prod(attribute.t.dims) <= SMALL
            value = small_value(attribute.t, where) if small else None
        else:
            numbers = helper.get_attribute_value(attribute)
            whole = "int" in attribute.name
            value = np.array(numbers, np.int64 if whole else np.float32)
            type_ = helper.make_tensor_type_proto(7 if whole else 1, value.shape)
        if value is not None and value.size <= SMALL:
            self.literal(node.output[0], value, type_.tensor_type.elem_type)
        else:
            self.define(node.output[0], type_, constant=True)

    def _shape(self, node: onnx.NodeProto) -> None:
        shape = self.values[node.input[0]].shape
        if node.op_type == "Size":
            value = np.array(math.prod(shape), np.int64)
        else:
            bounds = {a.name: a.i for a in node.attribute}
            value = np.array(shape[bounds.get("start", 0) : bounds.get("end")], np.int64)
        self.define(node.output[0], helper.make_tensor_type_proto(7, value.shape), constant=True)
        self._known[node.output[0]] = value

    def _infer(self, node: onnx.NodeProto, operands: list[str], where: str) -> dict[str, onnx.TypeProto]:
        inferred: Mapping[str, onnx.TypeProto] = {}
        schema = self._schema(node)
        if schema is not None:
            types = {name: self._types[name] for name in operands}
            data = {name: self._data(node, name) for name in operands if name in self._known}
            check_operands(node, self.values, where)
            try:
                inferred = shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self._imports)
            except (shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as cause:
                shapes = ", ".join(f"{name!r} {list(self.values[name].shape)}" for name in operands)
                reason = " ".join(str(cause).replace("[ShapeInferenceError]", "").split())
                raise GraphError(f"{where}: ONNX infers no shape from {shapes}: {reason}") from cause
        return {name: self._complete(node, name, inferred, operands, schema is None, where) for name in node.output}

    def _complete(
        self,
        node: onnx.NodeProto,
        name: str,
        inferred: Mapping[str, onnx.TypeProto],
        operands: list[str],
        unknown: bool,
        where: str,
    ) -> onnx.TypeProto:
        """The inferred type if it is complete, else the declared one, else a documented guess."""
        for types in (inferred, self._declared):
            proto = types.get(name)
            if proto is not None and proto.HasField("tensor_type") and tensor_of(proto, where) is not None:
                self._check_size(node, proto, where)
                return proto
        if node.op_type in SUBGRAPHS and not unknown:
            return self._guess(node, name, inferred)
        elif operands and (unknown or node.op_type in _SAME_SHAPE):
            if node.op_type not in _SAME_SHAPE:
                self._assumed.add(kind_of(node))
            return self._types[operands[0]]
        return inferred.get(name, onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1)))

    def _guess(self, node: onnx.NodeProto, name: str, inferred: Mapping[str, onnx.TypeProto]) -> onnx.TypeProto:
        """A type for a result of a body that states no shape: that of a state's first value, or of stacked rounds.

        The number of rounds is the largest that a Loop allows, or one if that depends on data.
        """
        start = states_of(node).get(name)
        if start is not None:
            self._guessed[name] = "the state's start"
            return self._types[start]
        each = stacked_of(node).get(name)
        shape = None if each is None else tensor_of(each, name)
        if each is None or shape is None:
            return inferred.get(name, onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1)))
        rounds = rounds_of(node, self._known, self.values) or 1
        self._guessed[name] = f"{rounds} round{'' if rounds == 1 else 's'} of the loop"
        return helper.make_tensor_type_proto(each.tensor_type.elem_type, [rounds, *shape.shape])

    def _check_size(self, node: onnx.NodeProto, proto: onnx.TypeProto, where: str) -> None:
        if node.op_type != "Reshape" or node.domain:
            return
        before = self.values[node.input[0]]
        after = tensor_of(proto, where)
        if after is not None and after.size != before.size:
            raise GraphError(f"{where} cannot turn shape {list(before.shape)} into {list(after.shape)}")

    def _data(self, node: onnx.NodeProto, name: str) -> onnx.TensorProto:
        value = self._known[name]
        target = node.op_type == "Reshape" and len(node.input) > 1 and name == node.input[1]
        if target and self._reshape is not None and name in self._literal:
            value = self._reshape(node, value)
        return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)

    def _schema(self, node: onnx.NodeProto) -> Any:
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            return defs.get_schema(node.op_type, self._opsets.get(domain, 1), domain)
        except defs.SchemaError:
            return None

    def _evaluate(self, node: onnx.NodeProto) -> bool:
        """Evaluate a node and keep its results; False if they are unknown or not small."""
        if any(self.values[name].size > SMALL for name in node.output if name in self.values):
            return False
        results = evaluate(node, self._opsets, self._known)
        for name, value in zip(node.output, results or (), strict=False):
            if name:
                self._keep(name, value)
        return results is not None

    def _keep(self, name: str, value: npt.NDArray[Any]) -> None:
        if name not in self.values:
            elem_type = helper.np_dtype_to_tensor_dtype(value.dtype)
            self.define(name, helper.make_tensor_type_proto(elem_type, value.shape), constant=True)
        if value.shape == self.values[name].shape:
            self._known[name] = value
