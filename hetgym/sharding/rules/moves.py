"""Rules of operators that move data: views, transpositions, slices, joins and look-ups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hetgym.graph.ops import Operator, integer, integers
from hetgym.sharding.rules.indices import Indices, Letters, Rule, aligned, dimensions, identified, without


def reshaping(op: Operator) -> Indices | None:
    """Reshapes: where dimensions are split or merged, the outermost one keeps the shard.

    A dimension that is split keeps its shard on the outermost factor that is larger than 1, and factors that are merged
    keep that of the outermost one.
    """
    if not op.inputs or len(op.outputs) != 1 or op.inputs[0].size != op.outputs[0].size or not op.inputs[0].size:
        return None
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    first, last = [""] * len(shape), [""] * len(out)
    for number, (here, there) in enumerate(runs(shape, out)):
        if here and there:
            first[here[0]] = last[there[0]] = f"d{number}"
    return _moved(op, tuple(first), (tuple(last),))


def runs(shape: Sequence[int], out: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions of two shapes that have the same number of elements, without those of size 1.

    >>> runs((8, 12, 1), (2, 4, 3, 4))
    [([0], [0, 1]), ([1], [2, 3])]
    """
    left = [at for at, size in enumerate(shape) if size != 1]
    right = [at for at, size in enumerate(out) if size != 1]
    found, here, there = [], list[int](), list[int]()
    a = b = 1
    while left or right or here or there:
        if here and a == b:
            found.append((here, there))
            here, there, a, b = [], [], 1, 1
        elif not here or (a <= b and left):
            if not left:
                break
            a *= shape[left[0]]
            here.append(left.pop(0))
        else:
            if not right:
                break
            b *= out[right[0]]
            there.append(right.pop(0))
    return found


def transposition(op: Operator) -> Indices | None:
    """Transpose: dimensions move with their shards."""
    if not op.inputs or len(op.outputs) != 1:
        return None
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    order = integers(op, "perm") or tuple(reversed(range(len(shape))))
    if sorted(at % max(1, len(shape)) for at in order) != list(range(len(shape))):
        return view(op)
    order = tuple(at % len(shape) for at in order)
    letters = dimensions(len(shape))
    if tuple(shape[at] for at in order) != out:
        return view(op)
    return _moved(op, letters, (tuple(letters[at] for at in order),))


def view(op: Operator) -> Indices | None:
    """Views of any kind, whose shapes must tell what they do.

    Known are an exchange of two dimensions; heads, ``[b, t, h * s]`` seen as ``[b, h, t, s]``, and back; parts along
    one dimension. Otherwise a dimension is followed if its size occurs once in both shapes.
    """
    if not op.inputs or not op.outputs:
        return None
    shape = op.inputs[0].shape
    letters = without(dimensions(len(shape)), [at for at, size in enumerate(shape) if size == 1])
    if len(op.inputs) == len(op.outputs) == 1:
        known = _exchanged(shape, op.outputs[0].shape, letters) or _heads(shape, op.outputs[0].shape)
        if known is not None:
            return _moved(op, known[0], (known[1],))
    if sum(not tensor.constant for tensor in op.inputs) > 1:
        return _joined(op)
    outputs = tuple(_seen(op, shape, tensor.shape, letters) for tensor in op.outputs)
    return _moved(op, letters, outputs)


def _exchanged(shape: Sequence[int], out: Sequence[int], letters: Letters) -> tuple[Letters, Letters] | None:
    """Letters of an exchange of two dimensions, if there is only one that fits."""
    if len(shape) != len(out) or tuple(shape) == tuple(out):
        return None
    differ = [at for at in range(len(shape)) if shape[at] != out[at]]
    if len(differ) != 2 or shape[differ[0]] != out[differ[1]] or shape[differ[1]] != out[differ[0]]:
        return None
    moved = list(letters)
    moved[differ[0]], moved[differ[1]] = letters[differ[1]], letters[differ[0]]
    return letters, tuple(moved)


def _heads(shape: Sequence[int], out: Sequence[int]) -> tuple[Letters, Letters] | None:
    """Letters of heads that are taken apart and moved before the tokens, or moved back and put together."""
    if len(shape) == 3 and len(out) == 4:
        if (out[0], out[2], out[1] * out[3]) == tuple(shape):
            return ("batch", "tokens", "heads"), ("batch", "heads", "tokens", "")
    elif len(shape) == 4 and len(out) == 3:
        found = _heads(out, shape)
        return found and (found[1], found[0])
    return None


def _seen(op: Operator, shape: Sequence[int], out: Sequence[int], letters: Letters) -> Letters:
    """Letters of a part of a tensor, or of another view of it."""
    axis = integers(op, "axis")
    if len(axis) == 1 and shape and len(out) in (len(shape), len(shape) - 1):
        at = axis[0] % len(shape)
        kept = [d for d in range(len(shape)) if d != at]
        if len(out) == len(shape) and all(shape[d] == out[d] for d in kept):
            return without(letters, [at])
        if len(out) < len(shape) and [shape[d] for d in kept] == list(out):
            return tuple(letters[d] for d in kept)
    same = len(shape) == len(out) and tuple(shape) != tuple(out)
    if same and math.prod(shape) > math.prod(out) and all(b <= a for a, b in zip(shape, out, strict=True)):
        return tuple(letter if a == b else "" for a, b, letter in zip(shape, out, letters, strict=True))
    return identified(shape, out, letters)


def _joined(op: Operator) -> Indices | None:
    """Letters of a view of several tensors side by side: those of sizes that identify them in all."""
    out = op.outputs[0].shape
    if len(op.outputs) != 1:
        return None
    letters = dimensions(len(out))
    rows = tuple(identified(out, tensor.shape, letters) for tensor in op.inputs)
    common = {letter for letter in letters if all(letter in row for row in rows)}
    keep = [tuple(letter if letter in common else "" for letter in row) for row in (*rows, letters)]
    return Indices(tuple(keep[:-1]), (keep[-1],), linear=_linear(op))


def cut(op: Operator) -> Indices | None:
    """Slices, splits, pads, crops and enlargements: the dimensions whose size does not change."""
    if not op.inputs or any(len(tensor.shape) != len(op.inputs[0].shape) for tensor in op.outputs):
        return view(op) if op.kind in ("Slice", "Split") else None
    shape = op.inputs[0].shape
    along = [at % len(shape) for at in integers(op, "axis") + integers(op, "axes")] if shape else []
    letters = dimensions(len(shape))
    ends = [at for at in range(len(shape)) if shape[at] == 1 or any(t.shape[at] != shape[at] for t in op.outputs)]
    letters = without(letters, [*ends, *along])
    return _moved(op, letters, tuple(letters for _ in op.outputs))


def joining(op: Operator) -> Indices | None:
    """Concat: every dimension but the one along which tensors are joined, or stacked."""
    if len(op.outputs) != 1 or not op.outputs[0].shape:
        return None
    out = op.outputs[0].shape
    along = [axis % len(out) for axis in integers(op, "axis")]
    if len(along) == 1 and all(tensor.shape == (*out[: along[0]], *out[along[0] + 1 :]) for tensor in op.inputs):
        letters = without(dimensions(len(out)), along)
        return Indices(
            tuple((*letters[: along[0]], *letters[along[0] + 1 :]) for _ in op.inputs), (letters,), linear=_linear(op)
        )
    if any(len(tensor.shape) != len(out) for tensor in op.inputs):
        return None
    differ = [at for at in range(len(out)) if any(tensor.shape[at] != out[at] for tensor in op.inputs)]
    letters = without(dimensions(len(out)), [*along, *differ])
    return Indices(tuple(letters for _ in op.inputs), (letters,), linear=_linear(op))


def expansion(op: Operator) -> Indices | None:
    """Expand and Tile: the dimensions that are neither repeated nor added."""
    if not op.inputs or len(op.outputs) != 1 or len(op.inputs[0].shape) > len(op.outputs[0].shape):
        return None
    out = op.outputs[0].shape
    letters = without(dimensions(len(out)), [at for at, size in enumerate(out) if size == 1])
    first = aligned(op.inputs[0].shape, out, letters)
    skip = len(out) - len(first)
    kept = tuple(letter if at >= skip and first[at - skip] else "" for at, letter in enumerate(letters))
    return _moved(op, first, (kept,))


def lookup(op: Operator) -> Indices | None:
    """Gather: indices, columns, and rows of the table: each rank returns the rows that it has, and zeros for others."""
    if len(op.inputs) != 2 or len(op.outputs) != 1:
        return None
    table, indices, out = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    if not table:
        return None
    axis = integer(op, "axis", 0) % len(table)
    if len(table) > 2 and out == (*indices, table[-1]):  # rows of all leading dimensions, as experts gather tokens
        return Indices((("",) * (len(table) - 1) + ("columns",), ("rows",)), (("rows", "columns"),))
    if out != (*table[:axis], *indices, *table[axis + 1 :]):
        return None
    columns, places = dimensions(len(table)), tuple(f"i{at}" for at in range(len(indices)))
    rows = (*columns[:axis], "rows", *columns[axis + 1 :])
    floats = "float" in op.outputs[0].dtype
    result = (*columns[:axis], *places, *columns[axis + 1 :])
    return Indices(
        (rows if floats else without(rows, [axis]), places), (result,), frozenset({"rows"} if floats else ())
    )


def selection(op: Operator) -> Indices | None:
    """GatherElements: the dimensions along which it does not select, where the indices have them in full."""
    if len(op.inputs) != 2 or len(op.outputs) != 1 or len(op.inputs[0].shape) != len(op.outputs[0].shape):
        return None
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    along = integer(op, "axis", 0) % max(1, len(shape))
    letters = without(dimensions(len(out)), [along, *(at for at in range(len(out)) if shape[at] != out[at])])
    return Indices((letters, letters), (letters,)) if op.inputs[1].shape == out else None


def matrices(op: Operator) -> Indices | None:
    """Trilu: all dimensions before the matrix."""
    rank = len(op.outputs[0].shape) if op.outputs else 0
    return _moved(op, without(dimensions(rank), [rank - 2, rank - 1]), None) if rank >= 2 else None


def blocks(op: Operator) -> Indices | None:
    """DepthToSpace and SpaceToDepth: images."""
    return _moved(op, ("batch", "", "", ""), None) if op.outputs and len(op.outputs[0].shape) == 4 else None


def writing(op: Operator) -> Indices | None:
    """TensorScatter into caches ``[batch, heads, tokens, size]``: sequences and heads, in all operands alike."""
    if len({len(tensor.shape) for tensor in op.inputs}) != 1 or len(op.inputs[0].shape) != 4:
        return None
    rows = tuple(("batch", "heads" if tensor.shape[1] > 1 else "", "", "") for tensor in op.inputs)
    return Indices(rows, tuple(("",) * len(t.shape) for t in op.outputs)) if len(set(rows)) == 1 else None


def _linear(op: Operator) -> tuple[tuple[int, ...], ...]:
    """All values together may be partial sums, unless constants lie beside them."""
    values = tuple(at for at, tensor in enumerate(op.inputs) if not tensor.constant and "float" in tensor.dtype)
    beside = [at for at, tensor in enumerate(op.inputs) if at not in values and "float" in tensor.dtype]
    return (values,) if values and not beside and all("float" in tensor.dtype for tensor in op.outputs) else ()


def _moved(op: Operator, first: Letters, outputs: tuple[Letters, ...] | None) -> Indices:
    """Letters of an operator that moves its first operand; the others, such as a target shape, are replicated."""
    rest = tuple(("",) * len(tensor.shape) for tensor in op.inputs[1:])
    results = tuple(first for _ in op.outputs) if outputs is None else outputs
    common = {letter for letter in first if letter and all(letter in row for row in results)}
    kept = [tuple(letter if letter in common else "" for letter in row) for row in (first, *results)]
    return Indices((kept[0], *rest), tuple(kept[1:]), linear=_linear(op))


MOVES: dict[str, Rule] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), reshaping),
    "Transpose": transposition,
    **dict.fromkeys(("View", "SplitView"), view),
    **dict.fromkeys(("Slice", "Split", "Pad", "Resize"), cut),
    "Concat": joining,
    **dict.fromkeys(("Expand", "Tile"), expansion),
    "Gather": lookup,
    "GatherElements": selection,
    "Trilu": matrices,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), blocks),
    "TensorScatter": writing,
}
"""Kind -> its rule."""
