"""Shapes, dtypes and strides of tensors as PyTorch has them: broadcasting, promotion, and views of the same memory."""

import math
from collections.abc import Iterable, Sequence

from hetgym.graph.assembly import MAX_ELEMENTS, MAX_RANK
from hetgym.graph.pt2_nodes import SavedTensor

Shape = tuple[int, ...]

ORDER = (
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float8", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""Dtypes by rank: a result of two of one category has the later one, but for the two of 16 bits."""

_RANKS = {name: rank for rank, name in enumerate(ORDER)}
_DEFAULTS = ("bool", "int64", "float32", "complex64")  # dtype of a number of each category


def tensor(shape: Iterable[int], dtype: str = "float32", like: SavedTensor | None = None) -> SavedTensor:
    """A tensor of its own memory, whose axes are in the order of another one of the same rank.

    Raises:
        ValueError: the shape is out of range.
    """
    sizes = tuple(shape)
    if len(sizes) > MAX_RANK or any(not 0 <= size <= MAX_ELEMENTS for size in sizes) or math.prod(sizes) > MAX_ELEMENTS:
        raise ValueError("a result has a negative size, or more than 2**48 elements or 64 dimensions")
    order = list(range(len(sizes)))
    if like is not None and len(like.shape) == len(sizes) and _orderly(like):
        order.sort(key=lambda axis: -(like.strides[axis] or 0))
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, sizes[axis])
    return SavedTensor(sizes, dtype, tuple(strides))


def _orderly(like: SavedTensor) -> bool:
    """Whether the strides of a tensor order its axes."""
    return not any(stride == 0 and size != 1 for size, stride in zip(like.shape, like.strides, strict=True))


def sizes_of(value: SavedTensor) -> Shape:
    """The shape of a tensor, all of whose sizes are known here."""
    return tuple(size or 0 for size in value.shape)


def steps_of(value: SavedTensor) -> Shape:
    """The strides of a tensor, which are all known here."""
    return tuple(stride or 0 for stride in value.strides)


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """The shape to which all shapes broadcast.

    >>> broadcast([(3, 1), (4,)])
    (3, 4)

    Raises:
        ValueError: there is none.
    """
    found: list[int] = []
    for shape in shapes:
        found = [1] * (len(shape) - len(found)) + found
        for axis, size in enumerate(shape, len(found) - len(shape)):
            if found[axis] == 1:
                found[axis] = size
            elif size not in (1, found[axis]):
                raise ValueError(f"shapes with the sizes {found[axis]} and {size} on one axis do not broadcast")
    return tuple(found)


def category(dtype: str) -> int:
    """0 for truth values, 1 for whole numbers, 2 for floating-point numbers, 3 for complex ones."""
    return 0 if dtype == "bool" else 1 if "int" in dtype else 3 if dtype.startswith("complex") else 2


def promoted(values: Iterable[object]) -> str:
    """The dtype of a result of tensors and numbers: tensors of some rank decide unless another's category is higher.

    >>> promoted([tensor((2,), "int32"), 1]), promoted([tensor((2,), "int32"), 1.0])
    ('int32', 'float32')
    """
    groups: list[list[str]] = [[], [], []]  # tensors of rank 1 or more, of rank 0, numbers
    for value in values:
        if isinstance(value, SavedTensor):
            groups[0 if value.shape else 1].append(value.dtype)
        elif isinstance(value, bool | int | float):
            groups[2].append(_DEFAULTS[0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2])
    found = ""
    for group in groups:
        best = max(group, key=lambda dtype: _RANKS.get(dtype, 0), default="")
        if {"float16", "bfloat16"} <= set(group) and category(best) == 2 and best in ("float16", "bfloat16"):
            best = "float32"
        if best and (not found or category(best) > category(found)):
            found = best
    return found or "float32"


def floating(dtype: str) -> str:
    """The dtype of a function such as the sine, which makes floating-point numbers of whole ones."""
    return "float32" if category(dtype) < 2 else dtype


def elementwise(values: Iterable[object], dtype: str = "") -> SavedTensor:
    """The result of an element-wise operator: in the memory order of the first operand of the result's rank."""
    items = list(values)
    tensors = [value for value in items if isinstance(value, SavedTensor)]
    if not tensors:
        raise TypeError("no operand is a tensor")
    shape = broadcast(sizes_of(value) for value in tensors)
    like = next((value for value in tensors if value.shape == shape), None)
    like = like or next((value for value in tensors if len(value.shape) == len(shape)), None)
    return tensor(shape, dtype or promoted(items), like)


def axis_of(value: SavedTensor, axis: int, more: int = 0) -> int:
    """An axis, counted from 0; ``more``: axes that the result has more.

    Raises:
        IndexError: there is no such axis.
    """
    rank = max(1, len(value.shape)) + more
    if not -rank <= axis < rank:
        raise IndexError(f"a tensor of {len(value.shape)} dimensions has no axis {axis}")
    return axis % rank


def turned(value: SavedTensor, order: Sequence[int]) -> SavedTensor:
    """The same memory with its axes in another order."""
    axes = [axis_of(value, axis) for axis in order]
    if sorted(axes) != list(range(len(value.shape))):
        raise ValueError(f"{list(order)} does not permute {len(value.shape)} axes")
    shape, strides = sizes_of(value), steps_of(value)
    return SavedTensor(tuple(shape[a] for a in axes), value.dtype, tuple(strides[a] for a in axes))


def cut(value: SavedTensor, axis: int, size: int, step: int = 1) -> SavedTensor:
    """A part of a tensor along an axis."""
    shape, strides = list(sizes_of(value)), list(steps_of(value))
    shape[axis], strides[axis] = size, strides[axis] * step
    return SavedTensor(tuple(shape), value.dtype, tuple(strides))


def without(value: SavedTensor, axes: Iterable[int]) -> SavedTensor:
    """A tensor without some axes."""
    dropped = set(axes)
    kept = [axis for axis in range(len(value.shape)) if axis not in dropped]
    shape, strides = sizes_of(value), steps_of(value)
    return SavedTensor(tuple(shape[a] for a in kept), value.dtype, tuple(strides[a] for a in kept))


def with_one(value: SavedTensor, axis: int) -> SavedTensor:
    """A tensor with an axis of size 1 more."""
    shape, strides = list(sizes_of(value)), list(steps_of(value))
    step = shape[axis] * strides[axis] if axis < len(shape) else 1
    return SavedTensor((*shape[:axis], 1, *shape[axis:]), value.dtype, (*strides[:axis], step, *strides[axis:]))


def spread(value: SavedTensor, shape: Sequence[int]) -> SavedTensor:
    """A tensor expanded to a shape, in which -1 keeps a size."""
    new = len(shape) - len(value.shape)
    old, strides = (1,) * new + sizes_of(value), (0,) * new + steps_of(value)
    sizes = tuple(before if size == -1 else size for before, size in zip(old, shape, strict=True))
    if new < 0 or any(before not in (1, size) for before, size in zip(old, sizes, strict=True)):
        raise ValueError(f"{list(sizes_of(value))} does not expand to {list(shape)}")
    moved = tuple(0 if before != size else step for before, size, step in zip(old, sizes, strides, strict=True))
    return SavedTensor(tensor(sizes).shape, value.dtype, moved)


def whole_shape(value: SavedTensor, shape: Sequence[int]) -> Shape:
    """A shape for all elements of a tensor, in which one size may be -1.

    Raises:
        ValueError: it has another number of elements.
    """
    count, known = math.prod(sizes_of(value)), math.prod(size for size in shape if size != -1)
    sizes = tuple(count // max(1, known) if size == -1 else size for size in shape)
    if list(shape).count(-1) > 1 or any(size < 0 for size in sizes) or math.prod(sizes) != count:
        raise ValueError(f"{list(sizes_of(value))} cannot become {list(shape)}")
    return sizes


def reshaped(value: SavedTensor, shape: Sequence[int]) -> SavedTensor:
    """The same elements in another shape: the same memory where strides allow it, otherwise a copy."""
    sizes = whole_shape(value, shape)
    strides = _strides_of_view(value, sizes)
    return tensor(sizes, value.dtype) if strides is None else SavedTensor(sizes, value.dtype, strides)


def _strides_of_view(value: SavedTensor, sizes: Shape) -> Shape | None:
    """Strides with which a shape views a tensor's memory; None if there are none."""
    old = [(size, step) for size, step in zip(sizes_of(value), steps_of(value), strict=True) if size != 1]
    if 0 in sizes or not old:
        return tensor(sizes).strides  # type: ignore[return-value]
    runs: list[list[int]] = []  # length and smallest stride of axes that lie one after the other
    for size, step in old:
        if runs and runs[-1][1] == size * step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    strides, left = [0] * len(sizes), len(sizes) - 1
    for length, step in reversed(runs):
        made = 1
        while left >= 0 and (made < length or sizes[left] == 1):
            strides[left] = step * made
            made *= sizes[left]
            left -= 1
        if made != length:
            return None
    return tuple(strides)


def channels_last(value: SavedTensor) -> SavedTensor | None:
    """The operand if its channels lie side by side in memory, which convolutions and poolings keep."""
    steps, shape = steps_of(value), sizes_of(value)
    return value if len(steps) == 4 and steps[1] == 1 and shape[1] > 1 and steps[3] == shape[1] else None
