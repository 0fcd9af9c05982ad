"""Cuts of an operator along an axis: the operands that are sliced, and the resulting pieces."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hetgym._sums import summed
from hetgym.errors import GraphError, unknown_name
from hetgym.graph.ops import Attribute, Operator, Tensor, integer

AXES = ("batch", "output", "reduction", "spatial")
"""Images or sequences; output channels or columns; the summed dimension; rows of images or of a sequence."""


@dataclass(frozen=True)
class Cut:
    """A possible cut of an operator along an axis."""

    size: int  # length of the axis
    result: int | None  # dimension of the output that is cut; None if the results of the pieces are to be summed
    # for each input the dimension that is cut; None if every piece needs the whole input
    operands: tuple[int | None, ...]
    unit: int = 1  # lengths of pieces must be multiples of this
    once: frozenset[int] = frozenset()  # inputs that only the first piece gets, such as the bias if results are summed
    # stride, kernel extent and rows of padding before, for a convolution that is cut along its rows
    window: tuple[int, int, int] | None = None


def cut(op: Operator, axis: str) -> Cut:
    """The cut of an operator along an axis.

    Raises:
        UnknownName: no such axis.
        GraphError: an operator of this kind or shape cannot be cut along this axis.
    """
    if axis not in AXES:
        raise unknown_name("axis", axis, AXES)
    found = None
    if len(op.outputs) == 1 and op.inputs:
        anchor = str(op.attributes.get("anchor", op.kind))
        if anchor == "Conv" and len(op.outputs[0].shape) >= 3:
            found = _convolution(op, axis)
        elif anchor in ("MatMul", "Gemm") and min(len(t.shape) for t in (*op.inputs[:2], *op.outputs)) >= 2:
            found = _product(op, axis)
        elif op.kind == anchor:
            found = _pointwise(op, axis)
    if found is None or found.size < 2:
        raise GraphError(f"operator {op.name!r} ({op.kind}) cannot be split by {axis}")
    return found


def _own(op: Operator) -> int:
    """Number of operands of the operator itself, without those of the operators fused to it."""
    return integer(op, "operands", len(op.inputs))


def _numbers(op: Operator, key: str) -> tuple[int, ...]:
    value = op.attributes.get(key, ())
    return value if isinstance(value, tuple) else ()


def _aligned(op: Operator, tensor: Tensor, result: int) -> int | None:
    """The dimension of an operand that corresponds to a dimension of the output by NumPy's broadcasting."""
    shape = op.outputs[0].shape
    channels = len(tensor.shape) == 1 and tensor.constant and len(shape) >= 4
    if channels:  # vectors of normalisation and bias apply to the channels of images
        return 0 if result == 1 and tensor.shape[0] == shape[1] else None
    at = result - (len(shape) - len(tensor.shape))
    return at if at >= 0 and tensor.shape[at] == shape[result] else None


def _with_extras(op: Operator, own: Sequence[int | None], result: int) -> tuple[int | None, ...]:
    extras = [_aligned(op, tensor, result) for tensor in op.inputs[len(own) :]]
    return (*own, *extras)


def _convolution(op: Operator, axis: str) -> Cut | None:
    data, weight, out = op.inputs[0], op.inputs[1], op.outputs[0]
    group, bias = integer(op, "group", 1), _own(op) > 2
    if axis == "batch":
        return Cut(out.shape[0], 0, _with_extras(op, (0, None, None)[: 2 + bias], 0))
    if axis == "output":
        own = (1 if group > 1 else None, 0, 0)[: 2 + bias]
        return Cut(out.shape[1], 1, _with_extras(op, own, 1), unit=weight.shape[0] // group if group > 1 else 1)
    if axis == "reduction":
        if group > 1 or "fused" in op.attributes:
            return None
        return Cut(data.shape[1], None, (1, 1, None)[: 2 + bias], once=frozenset({2} if bias else ()))
    stride = (_numbers(op, "strides") or (1,))[0]
    extent = (weight.shape[2] - 1) * (_numbers(op, "dilations") or (1,))[0] + 1
    missing = (out.shape[2] - 1) * stride + extent - data.shape[2]
    before = (_numbers(op, "pads") or (max(0, missing) // 2,))[0]
    if missing > 2 * extent:
        return None  # a fused operator has enlarged the image
    own = (2, None, None)[: 2 + bias]
    return Cut(out.shape[2], 2, _with_extras(op, own, 2), window=(stride, extent, before))


def _product(op: Operator, axis: str) -> Cut | None:
    left, right, out = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    swap_left, swap_right = integer(op, "transA", 0), integer(op, "transB", 0)
    rows, inner = (len(left) - 1, len(left) - 2) if swap_left else (len(left) - 2, len(left) - 1)
    columns, deep = (len(right) - 2, len(right) - 1) if swap_right else (len(right) - 1, len(right) - 2)
    last, bias = len(out) - 1, _own(op) > 2

    def along(result: int, *own: int | None) -> Cut:
        return Cut(out[result], result, _with_extras(op, own, result))

    if axis == "output":
        return along(last, None, columns) if right[columns] == out[last] else None
    if axis == "reduction":
        if "fused" in op.attributes:
            return None
        return Cut(left[inner], None, (inner, deep, None)[: 2 + bias], once=frozenset({2} if bias else ()))
    if axis == "batch" and len(out) > 2:
        whole = [0 if len(shape) == len(out) and shape[0] == out[0] else None for shape in (left, right)]
        return along(0, *whole) if whole != [None, None] else None
    if axis == "batch" or len(out) > 2:  # the rows of a matrix are its batch
        return along(last - 1, rows, None) if left[rows] == out[last - 1] else None
    return None


def _pointwise(op: Operator, axis: str) -> Cut | None:
    """Elementwise operators along any axis; pooling by batch and channel; normalisation by batch."""
    rank, family = len(op.outputs[0].shape), op.spec.family
    images = rank >= 4
    result = {"batch": 0, "output": 1 if images else rank - 1, "spatial": 2 if images else 1}.get(axis, rank)
    allowed = {"elementwise": AXES, "pool": ("batch", "output"), "normalise": ("batch",)}.get(family, ())
    if axis not in allowed or result >= rank or (axis == "spatial" and rank < 3) or (axis == "output" and rank < 2):
        return None
    return Cut(op.outputs[0].shape[result], result, tuple(_aligned(op, tensor, result) for tensor in op.inputs))


def sizes(
    op: Operator, axis: str, parts: int | Sequence[float], granularity: int = 1, found: Cut | None = None
) -> tuple[int, ...]:
    """Lengths of the pieces along an axis, multiples of the granularity except that of the last piece.

    ``parts`` is the number of equal pieces, or their relative sizes; ``found`` the cut, if it is known.

    Raises:
        UnknownName: no such axis.
        GraphError: the operator cannot be cut along this axis, or a piece would be empty.
    """
    found = found or cut(op, axis)
    ratios = [1.0] * parts if isinstance(parts, int) else [float(ratio) for ratio in parts]
    if len(ratios) < 2 or not all(math.isfinite(r) and r > 0 for r in ratios) or granularity < 1:
        raise GraphError(
            f"splitting {op.name!r}: expected at least two positive ratios or a number of parts of at least 2, and a "
            f"granularity of at least 1, not {parts!r} and {granularity}"
        )
    unit = math.lcm(found.unit, granularity)
    ends = [
        round(found.size * math.fsum(ratios[: k + 1]) / math.fsum(ratios) / unit) * unit for k in range(len(ratios))
    ]
    ends[-1] = found.size
    lengths = tuple(end - start for start, end in zip([0, *ends[:-1]], ends, strict=True))
    if min(lengths) < 1:
        raise GraphError(
            f"splitting {op.name!r} by {axis}: {found.size} in steps of {unit} cannot be divided as {parts!r}; "
            "a part would be empty"
        )
    return lengths


def input_range(found: Cut, operand: int, length: int, start: int, stop: int) -> tuple[int, int]:
    """Range of a dimension of that length of an operand that the outputs from ``start`` to ``stop`` need.

    Windows belong to the first operand; their ranges overlap.
    """
    if found.window is not None and operand == 0:
        stride, extent, before = found.window
        low, high = start * stride - before, (stop - 1) * stride + extent - before
        return min(max(0, low), length - 1), max(1, min(length, high))
    return start * length // found.size, stop * length // found.size


def pieces(op: Operator, axis: str, lengths: Sequence[int], found: Cut | None = None) -> list[Operator]:
    """Operators ``name/0``, ``name/1``, … with the shapes of the pieces of an operator along an axis.

    ``lengths`` are those that :func:`sizes` returns; ``found`` is the cut, if it is known.
    """
    found, start, result = found or cut(op, axis), 0, []
    for number, length in enumerate(lengths):
        result.append(piece(op, axis, found, number, start, start + length))
        start += length
    return result


def piece(op: Operator, axis: str, found: Cut, number: int, start: int, stop: int) -> Operator:
    """The piece of an operator that computes its output from ``start`` to ``stop``; see :func:`pieces`."""
    inputs = [
        _operand(found, at, tensor, start, stop)
        for at, tensor in enumerate(op.inputs)
        if at not in found.once or number == 0
    ]
    out = op.outputs[0]
    if found.result is not None:
        out = _resized(out, found.result, stop - start, out.name)
    attributes = _attributes(op, found, axis, inputs, start, stop)
    return Operator(f"{op.name}/{number}", op.kind, tuple(inputs), (out,), attributes)


def shapes(op: Operator, found: Cut, number: int, start: int, stop: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of a piece's operands and of its result, without making the piece."""
    ends = [
        (tensor.shape, found.operands[at], at)
        for at, tensor in enumerate(op.inputs)
        if at not in found.once or number == 0
    ]
    result = []
    for shape, where, at in ends:
        if where is not None:
            low, high = input_range(found, at, shape[where], start, stop)
            shape = (*shape[:where], high - low, *shape[where + 1 :])
        result.append(shape)
    shape, where = op.outputs[0].shape, found.result
    return *result, shape if where is None else (*shape[:where], stop - start, *shape[where + 1 :])


def _operand(found: Cut, at: int, tensor: Tensor, start: int, stop: int) -> Tensor:
    where = found.operands[at]
    if where is None:
        return tensor
    low, high = input_range(found, at, tensor.shape[where], start, stop)
    return _resized(tensor, where, high - low, f"{tensor.name}[{where}, {low}:{high}]" if tensor.name else "")


def _resized(tensor: Tensor, at: int, length: int, name: str) -> Tensor:
    return Tensor((*tensor.shape[:at], length, *tensor.shape[at + 1 :]), tensor.dtype, tensor.constant, name)


def _attributes(
    op: Operator, found: Cut, axis: str, inputs: Sequence[Tensor], start: int, stop: int
) -> dict[str, Attribute]:
    attributes = dict(op.attributes)
    group = integer(op, "group", 1)
    if axis == "output" and group > 1 and str(op.attributes.get("anchor", op.kind)) == "Conv":
        attributes["group"] = (stop - start) * group // found.size
    if "fused" in attributes:
        attributes.pop("shapes", None)
        whole, inner = attributes.pop("anchor_output", None), attributes.pop("anchor_inner", None)
        if whole == op.outputs[0].shape and inner is None and found.result is not None:
            assert isinstance(whole, tuple)
            attributes["anchor_output"] = (*whole[: found.result], stop - start, *whole[found.result + 1 :])
        attributes["flops"] = op.flops * (stop - start) / found.size
        saved = summed(t.bytes for t in op.inputs) - summed(t.bytes for t in inputs)
        attributes["reads"] = max(0.0, op.bytes_read - saved)
    pads = _numbers(op, "pads")
    if found.window is not None and pads:
        stride, extent, before = found.window
        over = (stop - 1) * stride + extent - before - op.inputs[0].shape[2]
        half = len(pads) // 2
        attributes["pads"] = (max(0, before - start * stride), *pads[1:half], max(0, over), *pads[half + 1 :])
    return attributes
