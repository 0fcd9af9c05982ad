"""Types of the results of PyTorch's views, constants and indices; see :mod:`.torch_shapes`."""

import math

from hetgym._sums import summed
from hetgym.graph.pt2_nodes import SavedTensor
from hetgym.graph.torch_layouts import (
    Shape,
    axis_of,
    broadcast,
    cut,
    elementwise,
    reshaped,
    sizes_of,
    spread,
    steps_of,
    tensor,
    turned,
    whole_shape,
    with_one,
    without,
)
from hetgym.graph.torch_shapes import MOST_PARTS, Arguments, Dtype, Result, Unknown, main, whole, wholes


def unchanged(a: Arguments) -> Result:
    """The operand itself."""
    return main(a)


def cast(a: Arguments) -> Result:
    """``to``: the operand in another dtype, which may be that of another tensor; any further argument is a device."""
    value = main(a)
    words = [word for word in list(a.values())[1:] if isinstance(word, Dtype)]
    others = [other.dtype for other in list(a.values())[1:] if isinstance(other, SavedTensor)]
    dtype = str((words or others or [value.dtype])[0])
    return value if dtype == value.dtype else tensor(sizes_of(value), dtype, value)


def dense(a: Arguments) -> Result:
    """``contiguous``."""
    return main(a) if main(a).is_contiguous() else tensor(sizes_of(main(a)), main(a).dtype)


def viewed(a: Arguments) -> Result:
    """``view`` and ``reshape``; a view in another dtype of the same size."""
    value, shape = main(a), a["shape"]
    if isinstance(shape, Dtype):
        raise ValueError("a view in another dtype")
    return reshaped(value, wholes(shape))


def viewed_as(a: Arguments) -> Result:
    """In the shape of another tensor."""
    return reshaped(main(a), sizes_of(a["other"]))


def flattened(a: Arguments) -> Result:
    """Some axes as one."""
    value = main(a)
    shape = sizes_of(value) or (1,)
    first = axis_of(value, whole(a.get("start_dim", 0)))
    last = axis_of(value, whole(a.get("end_dim", -1)))
    return reshaped(value, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def unflattened(a: Arguments) -> Result:
    """One axis as several."""
    value, axis = main(a), axis_of(main(a), whole(a["dim"]))
    shape = sizes_of(value)
    inner = whole_shape(tensor(shape[axis : axis + 1]), wholes(a["sizes"]))
    return reshaped(value, (*shape[:axis], *inner, *shape[axis + 1 :]))


def swapped(a: Arguments) -> Result:
    """Two axes exchanged."""
    value = main(a)
    order = list(range(len(value.shape)))
    one, two = axis_of(value, whole(a["dim0"])), axis_of(value, whole(a["dim1"]))
    if order:
        order[one], order[two] = order[two], order[one]
    return turned(value, order)


def transposed(a: Arguments) -> Result:
    """``t``, ``T`` and ``mT``: the last two axes exchanged, or all of them reversed if there are at most two."""
    rank = len(main(a).shape)
    return turned(main(a), [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else range(rank))


def permuted(a: Arguments) -> Result:
    """Axes in a given order."""
    return turned(main(a), wholes(a["dims"]))


def moved(a: Arguments) -> Result:
    """Some axes at other places, the rest in order."""
    value = main(a)
    sources = [axis_of(value, axis) for axis in wholes(a["source"])]
    targets = [axis_of(value, axis) for axis in wholes(a["destination"])]
    rest = iter(axis for axis in range(len(value.shape)) if axis not in sources)
    at = dict(zip(targets, sources, strict=True))
    return turned(value, [at[k] if k in at else next(rest, 0) for k in range(len(value.shape))])


def expanded(a: Arguments) -> Result:
    """Axes of size 1 repeated without a copy."""
    return spread(main(a), sizes_of(a["size"]) if isinstance(a["size"], SavedTensor) else wholes(a["size"]))


def squeezed(a: Arguments) -> Result:
    """Axes of size 1 dropped."""
    value, shape = main(a), sizes_of(main(a))
    dim = a.get("dim")
    axes = range(len(shape)) if dim is None else [axis_of(value, axis) for axis in wholes(dim)]
    return without(value, [axis for axis in axes if axis < len(shape) and shape[axis] == 1])


def unsqueezed(a: Arguments) -> Result:
    """A new axis of size 1."""
    value = main(a)
    more = 1 if value.shape else 0
    return with_one(value, axis_of(value, whole(a["dim"]), more))


def narrowed(a: Arguments) -> Result:
    """``narrow``: some elements of an axis."""
    value, axis = main(a), axis_of(main(a), whole(a["dim"]))
    length = whole(a["length"])
    if not 0 <= length <= sizes_of(value)[axis]:
        raise ValueError(f"{length} elements of {sizes_of(value)[axis]}")
    return cut(value, axis, length)


def picked(a: Arguments) -> Result:
    """``select``: one element of an axis, which is dropped."""
    return without(main(a), [axis_of(main(a), whole(a["dim"]))])


def sliced(a: Arguments) -> Result:
    """``slice``: elements of an axis at equal distances."""
    value, axis = main(a), axis_of(main(a), whole(a["dim"]))
    ends = [None if a.get(key) is None else whole(a[key]) for key in ("start", "end", "step")]
    step = ends[2] or 1
    if step < 1:
        raise ValueError(f"the step of a slice is {step}")
    return cut(value, axis, len(range(*slice(*ends).indices(sizes_of(value)[axis]))), step)


def parts(a: Arguments) -> Result:
    """``split``: pieces of one size, or of given sizes."""
    value, axis = main(a), axis_of(main(a), whole(a.get("dim", 0)))
    total, sizes = sizes_of(value)[axis], a["split_size"]
    if isinstance(sizes, list | tuple):
        each = wholes(sizes)
        if summed(each) != total or min(each) < 0:
            raise ValueError(f"sizes {list(each)} do not add up to {total}")
        return [cut(value, axis, size) for size in each]
    piece = whole(sizes)
    if piece < 1 or total > piece * MOST_PARTS:
        raise ValueError(f"{total} elements in pieces of {piece}")
    return [cut(value, axis, min(piece, total - at)) for at in range(0, max(1, total), piece)]


def chunks(a: Arguments) -> Result:
    """``chunk``: a number of pieces, the last of them smaller or missing."""
    total = sizes_of(main(a))[axis_of(main(a), whole(a.get("dim", 0)))]
    count = whole(a["chunks"])
    if count < 1:
        raise ValueError(f"{count} pieces")
    return parts({**a, "split_size": max(1, -(-total // count))})


def even_parts(a: Arguments) -> Result:
    """``tensor_split``: a number of pieces whose sizes differ by at most 1, or pieces between given places."""
    value, axis = main(a), axis_of(main(a), whole(a.get("dim", 0)))
    total, places = sizes_of(value)[axis], a["indices_or_sections"]
    if isinstance(places, list | tuple):
        ends = [0, *(min(place % total if place < 0 else place, total) for place in wholes(places)), total]
        return [cut(value, axis, max(0, end - start)) for start, end in zip(ends, ends[1:], strict=False)]
    count = whole(places)
    if not 1 <= count <= MOST_PARTS:
        raise ValueError(f"{count} pieces")
    return [cut(value, axis, total // count + (k < total % count)) for k in range(count)]


def unbound(a: Arguments) -> Result:
    """``unbind``: a tensor for each element of an axis."""
    value, axis = main(a), axis_of(main(a), whole(a.get("dim", 0)))
    if sizes_of(value)[axis] > MOST_PARTS:
        raise ValueError(f"{sizes_of(value)[axis]} results")
    return [without(value, [axis])] * sizes_of(value)[axis]


def diagonal(a: Arguments) -> Result:
    """The diagonal of two axes, which comes last."""
    value = main(a)
    one, two = axis_of(value, whole(a.get("dim1", 0))), axis_of(value, whole(a.get("dim2", 1)))
    shape, offset = sizes_of(value), whole(a.get("offset", 0))
    length = max(0, min(shape[one] + min(offset, 0), shape[two] - max(offset, 0)))
    rest = without(value, [one, two])
    step = steps_of(value)[one] + steps_of(value)[two]
    return SavedTensor((*rest.shape, length), value.dtype, (*rest.strides, step))


def windows(a: Arguments) -> Result:
    """``Tensor.unfold``: windows along an axis, whose elements come last."""
    value, axis = main(a), axis_of(main(a), whole(a["dimension"]))
    size, step = whole(a["size"]), whole(a["step"])
    if step < 1 or not 0 <= size <= sizes_of(value)[axis]:
        raise ValueError(f"windows of {size} at steps of {step} in {sizes_of(value)[axis]} elements")
    found = cut(value, axis, (sizes_of(value)[axis] - size) // step + 1, step)
    strides = (*found.strides, value.strides[axis])
    return SavedTensor((*found.shape, size), value.dtype, strides)


def _word(a: Arguments, default: str = "float32") -> str:
    return str(a["dtype"]) if isinstance(a.get("dtype"), Dtype) else default


def _kind(value: object) -> str:
    return "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"


def blank(a: Arguments) -> Result:
    """``zeros``, ``ones``, ``empty`` and ``rand``."""
    return tensor(wholes(a["size"]), _word(a))


def full(a: Arguments) -> Result:
    """``full``."""
    return tensor(wholes(a["size"]), _word(a, _kind(a["fill_value"])))


def blank_like(a: Arguments) -> Result:
    """``zeros_like`` and its kin."""
    return tensor(sizes_of(main(a)), _word(a, main(a).dtype), main(a))


def new_blank(a: Arguments) -> Result:
    """``new_zeros`` and its kin."""
    return tensor(wholes(a["size"]), _word(a, main(a).dtype))


def counted(a: Arguments) -> Result:
    """``arange``: of an end; of a start and an end; with a step."""
    ends = [a[key] for key in ("start", "end") if a.get(key) is not None]
    step = 1 if a.get("step") is None else a["step"]
    numbers = [*ends, step]
    if any(isinstance(number, Unknown) for number in numbers):
        raise ValueError("a size depends on data")
    start, end = (0, ends[0]) if len(ends) == 1 else ends
    dtype = "int64" if all(isinstance(number, int) for number in numbers) else "float32"
    return tensor((math.ceil((end - start) / step),), _word(a, dtype))


def spaced(a: Arguments) -> Result:
    """``linspace``."""
    return tensor((whole(a["steps"]),), _word(a))


def square(a: Arguments) -> Result:
    """``eye``."""
    return tensor((whole(a["n"]), whole(a["n"] if a.get("m") is None else a["m"])), _word(a))


def literal(a: Arguments) -> Result:
    """``tensor``: of a number or of nested lists of equal lengths."""
    value, shape = a["data"], []
    while isinstance(value, list | tuple):
        shape.append(len(value))
        value = value[0] if value else 0.0
    return tensor(shape, value.dtype if isinstance(value, SavedTensor) else _word(a, _kind(value)))


def grids(a: Arguments) -> Result:
    """``meshgrid``: each tensor expanded along the axes of the others."""
    items: list[SavedTensor] = list(a["tensors"])
    shape = [math.prod(sizes_of(item)) for item in items]
    order = list(range(len(items)))
    if a.get("indexing") == "xy" and len(items) > 1:
        order[:2] = [1, 0]
    sizes = [shape[k] for k in order]
    apart = [[size if order[axis] == k else 1 for axis, size in enumerate(sizes)] for k in range(len(items))]
    return [spread(reshaped(item, alone), sizes) for item, alone in zip(items, apart, strict=True)]


def common(a: Arguments) -> Result:
    """``broadcast_tensors``."""
    items: list[SavedTensor] = list(a["tensors"])
    shape = broadcast(sizes_of(item) for item in items)
    return [spread(item, shape) for item in items]


def indexed(a: Arguments) -> Result:
    """Advanced indexing: a list with None for each axis that is kept.

    Notes:
        NumPy's rule: the broadcast places take the axis of the first of them if they are side by side, else the front.
    """
    value, places = main(a), list(a["indices"])
    if any(isinstance(place, SavedTensor) and place.dtype in ("bool", "uint8") for place in places):
        raise ValueError("the number of results depends on data")
    used = [k for k, place in enumerate(places) if place is not None]
    shape = sizes_of(value)
    if not used or len(places) > len(shape):
        raise IndexError(f"{len(places)} indices of {len(shape)} dimensions")
    found = sizes_of(elementwise([places[k] for k in used]))
    front = 0 if used != list(range(used[0], used[-1] + 1)) else used[0]
    kept: Shape = tuple(size for k, size in enumerate(shape) if k not in used)
    return tensor((*kept[:front], *found, *kept[front:]), value.dtype)
