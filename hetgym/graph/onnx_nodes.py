"""Reading of one ONNX node: its kind, the attributes that are kept, the names that it reads, its small values."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
from onnx import numpy_helper

from hetgym.errors import GraphError
from hetgym.graph.onnx_checks import foldable
from hetgym.graph.ops import KINDS, Attribute

ATTRIBUTES = (
    "alpha", "auto_pad", "axes", "axis", "block_size", "blocksize", "ceil_mode", "count_include_pad", "dilations",
    "direction", "equation", "group", "hidden_size", "is_causal", "keepdims", "kernel_shape", "kv_num_heads", "layout",
    "linear_before_reset", "mode", "num_groups", "output_padding", "pads", "perm", "q_num_heads", "size", "strides",
    "transA", "transB",
)  # fmt: skip
"""Attributes that are kept: those that determine the amount of work, or how a tensor may be split."""

SUBGRAPHS = {"If", "Loop", "Scan"}  # Operators with a body of their own, which is not imported

_CONTRIB = {
    "BiasGelu": "Gelu", "FastGelu": "Gelu", "FusedConv": "Conv", "FusedGemm": "Gemm", "FusedMatMul": "MatMul",
    "Gelu": "Gelu", "QuickGelu": "Swish",
}  # fmt: skip
"""Operator of ONNX Runtime's own domain -> hetgym's kind."""

_ARITHMETIC = {
    "Abs", "Add", "And", "Cast", "Ceil", "Compress", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten",
    "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual",
    "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceSum", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Slice", "Split", "Sqrt", "Squeeze", "Sub",
    "Tile", "Transpose", "Unique", "Unsqueeze", "Where",
}  # fmt: skip
"""Operators that shapes are computed with; on small operands they are evaluated at import and take no run time."""


def small_value(tensor: onnx.TensorProto, where: str) -> npt.NDArray[Any] | None:
    """The values of a tensor of numbers in the file itself, None for others; GraphError if its bytes do not fit."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.data_type == onnx.TensorProto.STRING:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as cause:  # onnx raises many types for damaged tensors
        raise GraphError(f"{where}: tensor {tensor.name!r} is damaged ({cause})") from cause


def evaluate(
    node: onnx.NodeProto, opsets: Mapping[str, int], known: Mapping[str, npt.NDArray[Any]]
) -> Sequence[npt.NDArray[Any]] | None:
    """Results of a node with known operands; None if shapes are not computed with such nodes or evaluation fails."""
    names = [name for name in node.input if name]
    if node.domain not in ("", "ai.onnx") or node.op_type not in _ARITHMETIC or not known.keys() >= set(names):
        return None
    if not foldable(node, [known[name] for name in names]):
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # such as NumPy's about a division by zero within the model
            runner = onnx.reference.ReferenceEvaluator(node, opsets=dict(opsets))
            results = runner.run(None, {name: known[name] for name in names})
    except Exception:  # the reference may raise anything on a model's data; without a value the shape is still known
        return None
    return [np.asarray(value) for value in results]


def kind_of(node: onnx.NodeProto) -> str:
    """The kind of a node; an operator of another domain never gets the name of one of hetgym's kinds."""
    if node.domain in ("", "ai.onnx"):
        return str(node.op_type)
    if node.domain == "com.microsoft" and node.op_type in _CONTRIB:
        return _CONTRIB[node.op_type]
    return f"{node.domain}::{node.op_type}" if node.op_type in KINDS else str(node.op_type)


def attributes_of(node: onnx.NodeProto) -> dict[str, Attribute]:
    """The attributes of a node that are in :data:`ATTRIBUTES`."""
    kept: dict[str, Attribute] = {}
    for attribute in node.attribute:
        if attribute.name not in ATTRIBUTES:
            continue
        if attribute.type == onnx.AttributeProto.STRING:
            kept[attribute.name] = attribute.s.decode("utf-8", "replace")
        elif attribute.type == onnx.AttributeProto.INTS:
            kept[attribute.name] = tuple(attribute.ints)
        elif attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT):
            kept[attribute.name] = attribute.i if attribute.type == onnx.AttributeProto.INT else attribute.f
    return kept


def states_of(node: onnx.NodeProto) -> dict[str, str]:
    """Result of a Loop or Scan that is the last value of a state -> the operand that is its first value."""
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type == "Loop":
        first = node.input[2:]  # after the number of rounds and the condition
    else:
        first = (
            node.input[: max(0, len(node.input) - numbers["num_scan_inputs"])] if "num_scan_inputs" in numbers else []
        )
    return {result: start for result, start in zip(node.output, first, strict=False) if result and start}


def stacked_of(node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
    """Result of a Loop that stacks one value of each round -> the type that the body states for that value."""
    body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
    if node.op_type != "Loop" or body is None:
        return {}
    states = max(0, len(node.input) - 2)  # after the number of rounds and the condition
    pairs = zip(node.output[states:], body.output[1 + states :], strict=False)
    return {name: value.type for name, value in pairs if name and value.type.HasField("tensor_type")}


def stated_by_body(node: onnx.NodeProto) -> Iterator[onnx.ValueInfoProto]:
    """The results of an If, and the states of a Loop or Scan, with the types that a body states for its results.

    Results that are stacked round by round are left out: how many rounds there are depends on data.
    """
    if node.op_type not in SUBGRAPHS or node.domain not in ("", "ai.onnx"):
        return
    wanted = list(node.output) if node.op_type == "If" else list(states_of(node))
    for attribute in node.attribute:
        if attribute.HasField("g"):
            inside = attribute.g.output[1:] if node.op_type == "Loop" else attribute.g.output
            for name, value in zip(wanted, inside, strict=False):
                if name:
                    yield onnx.ValueInfoProto(name=name, type=value.type)


def outer_names(node: onnx.NodeProto) -> Iterator[str]:
    """Names of outer values that the node's subgraphs read."""
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
            inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            for inner in graph.node:
                yield from (name for name in (*inner.input, *outer_names(inner)) if name and name not in inside)
                inside.update(inner.output)
            yield from (value.name for value in graph.output if value.name not in inside)
