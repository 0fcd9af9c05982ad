"""Work of operators of ONNX that have a body: its rounds, or the dearest branch, times what its operators do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from hetgym._sums import summed
from hetgym.errors import GraphError
from hetgym.graph.ops import Operator, Tensor

MOST_ROUNDS = 1 << 20  # Number of rounds from which a Loop's is taken for "until the condition fails"

Types = Mapping[str, onnx.TypeProto]
Walk = Callable[[onnx.GraphProto, Types], list[Operator]]  # operators of a body whose inputs have some types


def rounds_of(node: onnx.NodeProto, known: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Tensor]) -> int:
    """Rounds of a Loop or Scan; 0 if they depend on data, 1 of an If."""
    if node.op_type == "If":
        return 1
    if node.op_type == "Loop":
        limit = known.get(node.input[0]) if node.input[0] else None
        count = 0 if limit is None or limit.size != 1 else int(limit.reshape(-1)[0])
        return count if 0 < count < MOST_ROUNDS else 0
    scanned = _scanned(node)
    return next((values[name].shape[axis] for name, axis in scanned if len(values[name].shape) > axis), 0)


def work_of(node: onnx.NodeProto, rounds: int, types: Types, walk: Walk) -> dict[str, float]:
    """``flops`` and ``reads`` [byte] of an operator with a body, all its rounds together; empty if they are unknown."""
    try:
        dearest = max((_sums(walk(body, inputs)) for body, inputs in _bodies(node, types)), default=(0.0, 0.0))
    except (GraphError, KeyError):
        return {}
    flops, moved = (max(1, rounds) * one for one in dearest)
    return {"flops": flops, "reads": moved}


def _sums(operators: list[Operator]) -> tuple[float, float]:
    """FLOPs and bytes moved."""
    return summed(op.flops for op in operators), summed(op.bytes_read + op.bytes_written for op in operators)


def _bodies(node: onnx.NodeProto, types: Types) -> Iterator[tuple[onnx.GraphProto, Types]]:
    """The bodies of a node, and the types of their inputs."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names = [value.name for value in attribute.g.input]
            yield attribute.g, dict(zip(names, _inputs(node, types), strict=False))


def _inputs(node: onnx.NodeProto, types: Types) -> list[onnx.TypeProto]:
    """Types of a body's inputs: of a Loop the round, the condition and the states, of a Scan states and slices."""
    if node.op_type == "Loop":
        first = [helper.make_tensor_type_proto(kind, []) for kind in (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)]
        return first + [types[name] for name in node.input[2:]]
    scanned = _scanned(node)
    found = [types[name] for name in node.input[: len(node.input) - len(scanned)]]
    for name, axis in scanned:
        whole = types[name].tensor_type
        shape = [dim.dim_value for k, dim in enumerate(whole.shape.dim) if k != axis]
        found.append(helper.make_tensor_type_proto(whole.elem_type, shape))
    return found


def _scanned(node: onnx.NodeProto) -> list[tuple[str, int]]:
    """Operands that a Scan takes a slice of in each round, with the axis that it slices."""
    kept: dict[str, Any] = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    count = int(kept.get("num_scan_inputs", 0)) if node.op_type == "Scan" else 0
    names = list(node.input[max(0, len(node.input) - count) :]) if count > 0 else []
    axes = np.resize(kept.get("scan_input_axes") or [0], len(names)).tolist()
    return [(name, max(0, int(axis))) for name, axis in zip(names, axes, strict=True)]
