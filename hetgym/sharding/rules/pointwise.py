"""Rules of elementwise operators, normalisations, reductions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym.graph.ops import KINDS, Operator, integer, integers
from hetgym.sharding.rules.indices import Indices, Letters, Rule, aligned, dimensions, windowed, without

SUMS = ("Add", "Sub", "Sum", "Mean")
"""Elementwise kinds that are linear in all operands together."""

PRODUCTS = ("Mul",)
"""Elementwise kinds that are linear in each operand alone."""

SCALINGS = ("Neg", "Copy", "Identity", "Dropout", "Div")
"""Kinds that are linear in the first operand."""

SUMMED = ("ReduceSum", "ReduceSumSquare", "ReduceL1")
"""Reductions whose parts add up."""

LINEAR_REDUCTIONS = ("ReduceSum", "ReduceMean", "GlobalAveragePool", "AveragePool")
"""Reductions that are linear in the operand."""

PER_CHANNEL = ("BatchNormalization", "QuantizeLinear", "DequantizeLinear")
"""Kinds whose vectors belong to dimension 1, unless an attribute names another one."""


def elementwise(op: Operator) -> Indices | None:
    """Any dimension of the result; operands follow where they have it in full. Batch norms use the ranks' own data."""
    if not op.outputs:
        return None
    out = op.outputs[0].shape
    letters = dimensions(len(out))
    if any(tensor.shape != out for tensor in op.outputs):
        return None
    rows = tuple(_operand(op, at, letters) for at in range(len(op.inputs)))
    return Indices(rows, tuple(without(letters, _ones(out)) for _ in op.outputs), linear=linear_groups(op))


def _operand(op: Operator, at: int, letters: Letters) -> Letters:
    """Letters of an operand of an elementwise operator."""
    shape, out = op.inputs[at].shape, op.outputs[0].shape
    if len(shape) > len(out):
        return ("",) * len(shape)
    channels = op.kind in PER_CHANNEL or (op.inputs[at].constant and len(out) >= 4)
    if at and len(shape) == 1 and channels and len(out) > 1:
        axis = integer(op, "axis", 1) % len(out)
        return (letters[axis] if shape[0] == out[axis] and shape[0] > 1 else "",)
    return aligned(shape, out, letters)


def _ones(shape: Sequence[int]) -> list[int]:
    return [at for at, size in enumerate(shape) if size == 1]


def linear_groups(op: Operator) -> tuple[tuple[int, ...], ...]:
    """Groups of operands that may be partial sums together; constants never are."""
    values = tuple(at for at, tensor in enumerate(op.inputs) if not tensor.constant)
    if not all("float" in tensor.dtype for tensor in op.outputs) or not values:
        return ()
    if op.kind in SUMS:
        return (values,) if len(values) == len(op.inputs) else ()
    if op.kind in PRODUCTS:
        floats = tuple((at,) for at in values if "float" in op.inputs[at].dtype)
        return floats if len(op.inputs) > 1 else ()
    if op.kind in SCALINGS:
        return ((0,),) if 0 in values and (op.kind != "Div" or len(op.inputs) > 1) else ()
    return ()


def rotary(op: Operator) -> Indices | None:
    """RotaryEmbedding: all dimensions but the last, whose numbers are turned in pairs."""
    if len(op.outputs) != 1 or not op.inputs or op.inputs[0].shape != op.outputs[0].shape:
        return None
    out = op.outputs[0].shape
    letters = without(dimensions(len(out)), [len(out) - 1, *_ones(out)])
    if any("int" in tensor.dtype for tensor in op.inputs):  # tables of all positions, and the positions of tokens
        rows = (without(letters, [len(out) - 2]), *(("",) * len(tensor.shape) for tensor in op.inputs[1:]))
        return Indices(rows, rows[:1])
    return Indices((letters, *(aligned(t.shape, out, letters) for t in op.inputs[1:])), (letters,))


def normalised(op: Operator) -> Indices | None:
    """Softmax and norms: the dimensions that are not normalised; scales follow where they have them."""
    if not op.outputs or not op.inputs:
        return None
    out = op.outputs[0].shape
    rank = len(out)
    if op.inputs[0].shape != out or not rank:
        return None
    axis = integer(op, "axis", -1) % rank
    averaged = [at % rank for at in integers(op, "axes") or (0, 2, 3)]
    free: dict[str, Sequence[int]] = {
        "Softmax": [d for d in range(rank) if d != axis],
        "LogSoftmax": [d for d in range(rank) if d != axis],
        "LpNormalization": [d for d in range(rank) if d != axis],
        "LayerNormalization": range(axis),
        "RMSNormalization": range(axis),
        "InstanceNormalization": range(min(2, rank)),
        "GroupNormalization": range(1),
        "LRN": [d for d in range(rank) if d != 1],
        "MeanVarianceNormalization": [d for d in range(rank) if d not in averaged],
    }  # fmt: skip
    letters = without(dimensions(rank), [d for d in range(rank) if d not in free[op.kind] or out[d] == 1])
    if op.kind == "InstanceNormalization":
        rest: list[Letters] = [(letters[1],) if len(t.shape) == 1 and rank > 1 else ("",) * len(t.shape)
                               for t in op.inputs[1:]]  # fmt: skip
    elif op.kind == "GroupNormalization":
        rest = [("",) * len(t.shape) for t in op.inputs[1:]]
    else:
        rest = [aligned(t.shape, out, letters) if len(t.shape) <= rank else ("",) * len(t.shape) for t in op.inputs[1:]]
    extra = [letters if t.shape == out else aligned(t.shape, out, letters) for t in op.outputs[1:]]
    if any(len(t.shape) != rank for t in op.outputs):
        return None
    return Indices((letters, *rest), (letters, *extra))


def reduction(op: Operator) -> Indices | None:
    """Reductions: the dimensions that are kept; those that are summed, in sums."""
    if not op.inputs or not op.outputs:
        return None
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    dropped = reduced_dimensions(op)
    if dropped is None or any(tensor.shape != out for tensor in op.outputs):
        return None
    letters = without(dimensions(len(shape)), _ones(shape))
    kept = [at for at in range(len(shape)) if at not in dropped]
    result = without(letters, dropped) if len(out) == len(shape) else tuple(letters[at] for at in kept)
    if len(result) != len(out):
        return None
    sums = op.kind in SUMMED
    summed = frozenset(letters[at] for at in dropped if letters[at]) if sums else frozenset[str]()
    rest = tuple(("",) * len(tensor.shape) for tensor in op.inputs[1:])
    first = letters if sums else without(letters, dropped)
    linear = ((0,),) if op.kind in LINEAR_REDUCTIONS and not op.inputs[0].constant else ()
    return Indices((first, *rest), tuple(result for _ in op.outputs), summed, linear=linear)


def reduced_dimensions(op: Operator) -> list[int] | None:
    """Dimensions that a reduction drops or sets to 1, or selects from; None if neither attributes nor shapes tell."""
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    stated = [int(axis) for axis in integers(op, "axes") or integers(op, "axis")]
    if not stated and op.kind == "TopK":
        stated = [-1]
    if stated and all(-len(shape) <= axis < len(shape) for axis in stated):
        return sorted({axis % len(shape) for axis in stated})
    if not out or (len(out) == len(shape) and all(size == 1 for size in out)):
        return list(range(len(shape)))
    if len(out) == len(shape):
        if any(b not in (a, 1) for a, b in zip(shape, out, strict=True)):
            return None
        return [at for at, (a, b) in enumerate(zip(shape, out, strict=True)) if a != b]
    ways = {out[:at] + shape[at : at + len(shape) - len(out)] + out[at:] for at in range(len(out) + 1)}
    if shape not in ways or len(set(shape)) < len(shape):
        return None
    return [at for at, size in enumerate(shape) if size not in out]


def pooling(op: Operator) -> Indices | None:
    """Pooling: images and channels; rows of images with halos."""
    if len(op.inputs) != 1 or len(op.outputs) != 1 or len(op.outputs[0].shape) < 3:
        return None
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    if shape[:2] != out[:2] or len(shape) != len(out):
        return None
    window = integers(op, "kernel_shape")
    halo = windowed(op, window[0]) if window else None
    letters = ("batch", "channels", "height" if halo else "", *("",) * (len(out) - 3))
    linear = ((0,),) if op.kind in LINEAR_REDUCTIONS and not op.inputs[0].constant else ()
    return Indices((letters,), (letters,), linear=linear, halos={"height": halo} if halo else {})


def running(op: Operator) -> Indices | None:
    """CumSum: the dimensions along which it does not run."""
    stated = integers(op, "axis")
    if not stated or not op.inputs or op.inputs[0].shape != op.outputs[0].shape:
        return None
    shape = op.inputs[0].shape
    letters = without(dimensions(len(shape)), [stated[0] % max(1, len(shape)), *_ones(shape)])
    return Indices((letters, *(("",) * len(t.shape) for t in op.inputs[1:])), (letters,))


POINTWISE: dict[str, Rule] = {
    **{kind: elementwise for kind, entry in KINDS.items() if entry.family == "elementwise"},
    **dict.fromkeys(("Copy", "Identity", "Dropout"), elementwise),
    "RotaryEmbedding": rotary,
    **{kind: normalised for kind, entry in KINDS.items() if entry.family == "normalise"},
    **{kind: reduction for kind, entry in KINDS.items() if entry.family == "reduce"},
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), pooling),
    "CumSum": running,
}
"""Kind -> its rule."""

for _kind in [kind for kind in POINTWISE if kind.startswith(("Fused-", "Gradient-", "Recv"))]:
    del POINTWISE[_kind]
