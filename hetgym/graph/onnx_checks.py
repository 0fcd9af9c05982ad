"""Checks of an ONNX model before anything is inferred from it, executed or allocated.

A file of a few hundred bytes can request more memory than there is: by functions that call each other, by operands that
give the number of dimensions of a result, or by constants to be computed. ONNX's own inference runs in C++ and trusts
its arguments, so they are bounded here.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from hetgym._sums import summed
from hetgym.errors import GraphError, shown
from hetgym.graph.assembly import MAX_RANK
from hetgym.graph.ops import Tensor

FILE_LIMIT = 2 << 30  # Largest file that is accepted [byte]: protobuf's own limit for a message
MAX_INLINED = 100_000  # Most nodes after a model's functions are inlined: ten times as many as in the largest exports
MAX_INLINED_BYTES = 256 << 20  # Most bytes of these nodes, which every call copies [byte]
MAX_OPSET = 10_000  # Highest version of an operator set that is accepted; ONNX's own is below 30

MAX_FOLDED = 1 << 20
"""Most elements that evaluating one constant node may touch: the product of the sizes of two small operands."""

_MAKERS = {"ConstantOfShape", "Expand", "Range", "Tile"}
_BROADCASTING = {"Max", "Min", "Where"}
_TENSOR = onnx.TensorProto.DESCRIPTOR.full_name


def check_model(model: onnx.ModelProto) -> None:
    """Refuse (GraphError) a model without results, with unknown operator sets, or with names that are not text."""
    if not model.graph.output:
        raise GraphError("has no outputs; it is empty or not an ONNX model")
    for entry in model.opset_import:
        if not 0 <= entry.version <= MAX_OPSET:
            raise GraphError(f"imports the impossible version {entry.version} of operator set {shown(entry.domain)}")
    for word in _words(model):
        if not isinstance(word, str):  # protobuf returns invalid UTF-8 of damaged files as bytes
            raise GraphError(f"damaged: the name {shown(word)} is not text")


def _words(message: Any) -> Iterator[Any]:
    """All strings of a message, except the contents of tensors."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            yield from (value,) if isinstance(value, str | bytes) else value
        elif field.type == field.TYPE_MESSAGE:
            for part in (value,) if hasattr(value, "ListFields") else value:
                if field.message_type.full_name == _TENSOR:
                    yield part.name
                else:
                    yield from _words(part)


def check_calls(model: onnx.ModelProto) -> None:
    """Refuse (GraphError) recursive functions, and inlined nodes or bytes above :data:`MAX_INLINED` and the like."""
    functions: dict[tuple[str, str], list[onnx.FunctionProto]] = {}
    for function in model.functions:  # of several overloads of a name, the largest counts
        functions.setdefault((_domain(function.domain), function.name), []).append(function)
    sizes: dict[tuple[str, str], tuple[int, int]] = {}

    def unfolded(nodes: Iterable[onnx.NodeProto]) -> tuple[int, int]:
        """Number of nodes and bytes after the calls among some nodes are inlined."""
        count, size = 0, 0
        for node in nodes:
            more = called((_domain(node.domain), node.op_type))
            inside = [unfolded(graph.node) for graph in _subgraphs(node)]
            count += max(1, more[0]) + summed(part[0] for part in inside)
            size += node.ByteSize() + more[1] + summed(part[1] for part in inside)
            if count > MAX_INLINED or size > MAX_INLINED_BYTES:
                raise GraphError(
                    f"its functions unfold to more than {MAX_INLINED} nodes or {MAX_INLINED_BYTES >> 20} MiB"
                )
        return count, size

    def called(key: tuple[str, str]) -> tuple[int, int]:
        """Number of nodes and bytes that a call adds; 0 if the model has no function of that name."""
        if key not in functions:
            return 0, 0
        if key not in sizes:
            sizes[key] = -1, 0
            found = [unfolded(function.node) for function in functions[key]]
            sizes[key] = max(part[0] for part in found), max(part[1] for part in found)
        if sizes[key][0] < 0:
            raise GraphError(f"its function {shown(key[1])} calls itself")
        return sizes[key]

    try:
        unfolded(model.graph.node)
    except RecursionError:
        raise GraphError("its functions are nested too deeply") from None


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def check_operands(node: onnx.NodeProto, values: Mapping[str, Tensor], where: str) -> None:
    """Refuse (GraphError) a node for which inference would allocate too much memory, or end the process."""
    if node.domain not in ("", "ai.onnx"):
        return
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type == "Split" and numbers.get("num_outputs", len(node.output)) != len(node.output):
        raise GraphError(f"{where} has num_outputs {numbers['num_outputs']}, but {len(node.output)} outputs")
    if node.op_type == "Expand" and len(node.input) > 1:
        target = values.get(node.input[1])
        if target is not None and target.size > MAX_RANK:
            raise GraphError(f"{where} makes a tensor of {target.size} dimensions; at most {MAX_RANK} are allowed")
    if node.op_type == "GatherND" and not 0 <= numbers.get("batch_dims", 0) <= MAX_RANK:
        raise GraphError(f"{where} has batch_dims {numbers['batch_dims']}; expected 0 to {MAX_RANK}")


def foldable(node: onnx.NodeProto, operands: list[npt.NDArray[Any]]) -> bool:
    """True if evaluating a node on small operands produces at most :data:`MAX_FOLDED` elements.

    Two operands produce at most the product of their sizes. The number is computed for nodes that broadcast any number
    of operands, and for nodes that produce a tensor whose size is the value of an operand.
    """
    if node.op_type in _MAKERS:
        return _made(node.op_type, operands) <= MAX_FOLDED
    return node.op_type not in _BROADCASTING or _broadcast(operands) <= MAX_FOLDED


def _made(kind: str, operands: list[npt.NDArray[Any]]) -> float:
    """Number of elements that a node produces; inf if it is unknown."""
    try:
        if kind == "Range":
            start, limit, delta = (float(operand.reshape(())) for operand in operands)
            return abs((limit - start) / delta)
        sizes = [float(size) for size in operands[-1].ravel().tolist()]
        largest = math.prod(max(1.0, abs(size)) for size in sizes)
        return largest if kind == "ConstantOfShape" else largest * operands[0].size
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return math.inf


def _broadcast(operands: list[npt.NDArray[Any]]) -> float:
    try:
        return float(math.prod(np.broadcast_shapes(*(operand.shape for operand in operands))))
    except ValueError:
        return math.inf
