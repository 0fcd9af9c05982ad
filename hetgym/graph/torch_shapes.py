"""Types of the results of PyTorch's operators that compute, from the types of their operands.

Windows over images are in :mod:`.torch_windows`, views in :mod:`.torch_views`. A rule is a function of a call's
arguments by name, in which tensors are types. It raises an exception of :data:`MISFITS` where arguments are missing or
do not fit.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from hetgym._sums import summed
from hetgym.graph.pt2_nodes import SavedTensor
from hetgym.graph.torch_layouts import (
    Shape,
    axis_of,
    broadcast,
    category,
    channels_last,
    elementwise,
    floating,
    promoted,
    sizes_of,
    tensor,
)

Arguments = Mapping[str, Any]
Result = SavedTensor | list[SavedTensor]
Rule = Callable[[Arguments], Result]

MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a rule raises if arguments do not fit."""

MOST_PARTS = 1 << 12  # Most results of one operator


class Unknown:
    """A number that depends on data."""

    def __repr__(self) -> str:
        return "a number that depends on data"


UNKNOWN = Unknown()


class Dtype(str):
    """A dtype as an argument."""


def whole(value: object) -> int:
    """A size or an axis."""
    if isinstance(value, Unknown):
        raise ValueError("a size depends on data")
    if not isinstance(value, int):
        raise TypeError(f"{type(value).__name__} where a whole number is due")
    return int(value)


def wholes(value: object, count: int = 0) -> Shape:
    """Sizes or axes; one number stands for ``count`` equal ones."""
    if isinstance(value, list | tuple):
        found = tuple(whole(item) for item in value)
        return found * count if len(found) == 1 and count else found
    return (whole(value),) * max(1, count)


def main(a: Arguments) -> SavedTensor:
    """The first argument, which must be a tensor."""
    value = next(iter(a.values()))
    if not isinstance(value, SavedTensor):
        raise TypeError("the first argument is not a tensor")
    return value


def _typed(a: Arguments, default: str) -> str:
    return str(a["dtype"]) if isinstance(a.get("dtype"), Dtype) else default


def _tensors(a: Arguments) -> list[object]:
    return [value for value in a.values() if isinstance(value, SavedTensor | int | float)]


def same(a: Arguments) -> Result:
    """As the first operand."""
    value = main(a)
    return tensor(sizes_of(value), _typed(a, value.dtype), value)


def plain(a: Arguments) -> Result:
    """As the first operand, in the usual order of axes."""
    value = main(a)
    return tensor(sizes_of(value), _typed(a, value.dtype))


def floats(a: Arguments) -> Result:
    """As the first operand, in floating-point numbers."""
    value = main(a)
    return tensor(sizes_of(value), _typed(a, floating(value.dtype)), value)


def truths(a: Arguments) -> Result:
    """Truth values of all operands, element by element."""
    return elementwise(_tensors(a), "bool")


def binary(a: Arguments) -> Result:
    """Arithmetic on the operands, element by element."""
    return elementwise([value for key, value in a.items() if key not in ("alpha", "value")])


def quotient(a: Arguments) -> Result:
    """A division, exact unless it is rounded."""
    items = [a["self"], a["other"]]
    return elementwise(items, promoted(items) if a.get("rounding_mode") else floating(promoted(items)))


def chosen(a: Arguments) -> Result:
    """``where``: elements of one operand or the other."""
    items = [a["self"], a["other"]]
    return elementwise([a["condition"], *items], promoted(items))


def masked(a: Arguments) -> Result:
    """The first operand with some elements replaced."""
    return elementwise([a["self"], a["mask"]], main(a).dtype)


def complex_of(a: Arguments) -> Result:
    """A Fourier transform, of all axes at full length."""
    value = main(a)
    return tensor(sizes_of(value), "complex128" if value.dtype == "float64" else "complex64")


def real_of(a: Arguments) -> Result:
    """The real part."""
    value = main(a)
    return tensor(sizes_of(value), {"complex64": "float32", "complex128": "float64"}.get(value.dtype, value.dtype))


def _reduced(value: SavedTensor, dim: object, keep: object) -> Shape:
    shape = sizes_of(value)
    axes = range(len(shape)) if dim in (None, (), []) else wholes(dim)
    dropped = {axis_of(value, axis) for axis in axes}
    return tuple(1 if k in dropped else size for k, size in enumerate(shape) if keep or k not in dropped)


def reduction(a: Arguments) -> Result:
    """A sum or a mean over axes."""
    value = main(a)
    dtype = "int64" if category(value.dtype) < 2 else value.dtype
    return tensor(_reduced(value, a.get("dim"), a.get("keepdim")), _typed(a, dtype))


def truth(a: Arguments) -> Result:
    """``any`` and ``all``."""
    return tensor(_reduced(main(a), a.get("dim"), a.get("keepdim")), "bool")


def places(a: Arguments) -> Result:
    """``argmax`` and ``argmin``."""
    return tensor(_reduced(main(a), a.get("dim"), a.get("keepdim")), "int64")


def largest(a: Arguments) -> Result:
    """``amax``, and ``max`` in its three forms: of two tensors, along an axis with the places, or of all elements."""
    value = main(a)
    if isinstance(a.get("other"), SavedTensor):
        return binary(a)
    shape = _reduced(value, a.get("dim"), a.get("keepdim"))
    return tensor(shape, value.dtype)


def largest_along(a: Arguments) -> Result:
    """The largest elements along an axis, and their places."""
    shape = _reduced(main(a), a.get("dim", -1), a.get("keepdim"))
    return [tensor(shape, main(a).dtype), tensor(shape, "int64")]


def moments(a: Arguments) -> Result:
    """The variance and the mean."""
    found = tensor(_reduced(main(a), a.get("dim"), a.get("keepdim")), main(a).dtype)
    return [found, found]


def first_of_axis(a: Arguments) -> Result:
    """The ``k`` largest elements of an axis, and their places."""
    value, shape = main(a), list(sizes_of(main(a)))
    axis = axis_of(value, whole(a.get("dim", -1)))
    if "k" in a:
        if not 0 <= whole(a["k"]) <= shape[axis]:
            raise ValueError(f"k is {whole(a['k'])}, of {shape[axis]} elements")
        shape[axis] = whole(a["k"])
    return [tensor(shape, value.dtype), tensor(shape, "int64")]


def running(a: Arguments) -> Result:
    """Sums along an axis so far."""
    value = main(a)
    return tensor(sizes_of(value), _typed(a, "int64" if category(value.dtype) < 2 else value.dtype), value)


def linear(a: Arguments) -> Result:
    """A product with a weight of shape [out, in]."""
    value, weight = main(a), a["weight"]
    shape, matrix = sizes_of(value), sizes_of(weight)
    if shape[-1] != matrix[-1]:
        raise ValueError(f"a weight of shape {list(matrix)} does not fit an operand of shape {list(shape)}")
    return tensor((*shape[:-1], *matrix[:-1]), value.dtype)


def matrix_product(a: Arguments) -> Result:
    """A product of matrices, rows or batches of matrices."""
    left, right = (sizes_of(value) for value in list(a.values())[:2])
    one, two = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
    if one[-1] != two[-2]:
        raise ValueError(f"shapes {list(left)} and {list(right)} do not multiply")
    rows = one[-2:-1] if len(left) > 1 else ()
    columns = two[-1:] if len(right) > 1 else ()
    return tensor((*broadcast([one[:-2], two[:-2]]), *rows, *columns), main(a).dtype)


def outer_product(a: Arguments) -> Result:
    """The products of all elements of two rows."""
    return tensor((*sizes_of(a["self"]), *sizes_of(a["vec2"])), promoted([a["self"], a["vec2"]]))


def added_product(a: Arguments) -> Result:
    """A product of two matrices, or batches of these, that is added to something."""
    _, left, right = list(a.values())[:3]
    return matrix_product({"mat1": left, "mat2": right})


def einsum(a: Arguments) -> Result:
    """Einstein's sums; the operands are a list."""
    terms, _, result = str(a["equation"]).replace(" ", "").partition("->")
    names = terms.split(",")
    items: list[SavedTensor] = a["tensors"]
    sizes: dict[str, int] = {}
    middle: Shape = ()
    for name, item in zip(names, items, strict=True):
        shape = sizes_of(item)
        head, dots, tail = name.partition("...")
        if len(head) + len(tail) > len(shape) or (not dots and len(head) != len(shape)):
            raise ValueError(f"the term {name!r} does not fit an operand of {len(shape)} dimensions")
        sizes.update(zip(head, shape, strict=False))
        sizes.update(zip(reversed(tail), reversed(shape), strict=False))
        middle = broadcast([middle, shape[len(head) : len(shape) - len(tail)]])
    if "->" not in str(a["equation"]):
        every = terms.replace(",", "").replace("...", "")
        result = "..." * ("..." in terms) + "".join(sorted(c for c in set(every) if every.count(c) == 1))
    head, dots, tail = result.partition("...")
    shape = tuple(sizes[c] for c in head) + (middle if dots else ()) + tuple(sizes[c] for c in tail)
    return tensor(shape, promoted(items))


def attention(a: Arguments) -> Result:
    """Attention by a fused kernel, which lays its result out as the queries are."""
    query = a["query"]
    return tensor((*sizes_of(query)[:-1], sizes_of(a["value"])[-1]), query.dtype, query)


def rows_of(a: Arguments) -> Result:
    """Rows of a table."""
    table, chosen_rows = a["weight"], a["indices"]
    return tensor((*sizes_of(chosen_rows), *sizes_of(table)[1:]), table.dtype)


def joined(a: Arguments) -> Result:
    """Tensors one after the other along an axis."""
    items: list[SavedTensor] = [item for item in a["tensors"] if item.shape != (0,)] or list(a["tensors"])
    axis = axis_of(items[0], whole(a.get("dim", 0)))
    shapes = [sizes_of(item) for item in items]
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ValueError("shapes " + ", ".join(str(list(shape)) for shape in shapes[:4]) + " cannot be joined")
    size = summed(shape[axis] for shape in shapes)
    return tensor((*shapes[0][:axis], size, *shapes[0][axis + 1 :]), promoted(items), channels_last(items[0]))


def stacked(a: Arguments) -> Result:
    """Tensors of one shape along a new axis."""
    items: list[SavedTensor] = list(a["tensors"])
    if len({item.shape for item in items}) > 1:
        raise ValueError("tensors of different shapes cannot be stacked")
    axis = axis_of(items[0], whole(a.get("dim", 0)), 1 if items[0].shape else 0)
    shape = sizes_of(items[0])
    return tensor((*shape[:axis], len(items), *shape[axis:]), promoted(items))


def differences(a: Arguments) -> Result:
    """``diff``: of neighbours along an axis, once."""
    value, shape = main(a), list(sizes_of(main(a)))
    axis = axis_of(value, whole(a.get("dim", -1)))
    ends = [sizes_of(a[key])[axis] for key in ("prepend", "append") if isinstance(a.get(key), SavedTensor)]
    shape[axis] = max(0, shape[axis] + summed(ends) - whole(a.get("n", 1)))
    return tensor(shape, value.dtype)


def repeated(a: Arguments) -> Result:
    """A tensor several times along each axis."""
    value, times = main(a), wholes(a["repeats"])
    shape = sizes_of(value)
    longest = max(len(times), len(shape)) if "tile" in a else len(times)
    if len(times) < len(shape) and "tile" not in a:
        raise ValueError(f"{len(times)} repeats do not fit {len(shape)} dimensions")
    wide, many = (1,) * (longest - len(shape)) + shape, (1,) * (longest - len(times)) + times
    return tensor((n * k for n, k in zip(wide, many, strict=True)), value.dtype)


def interleaved(a: Arguments) -> Result:
    """Each element several times."""
    value = main(a)
    if isinstance(a["repeats"], SavedTensor):
        raise ValueError("a size depends on data")
    shape = sizes_of(value) if a.get("dim") is not None else (math.prod(sizes_of(value)),)
    axis = axis_of(value, whole(a["dim"])) if a.get("dim") is not None else 0
    return tensor((*shape[:axis], shape[axis] * whole(a["repeats"]), *shape[axis + 1 :]), value.dtype)


def selected(a: Arguments) -> Result:
    """Slices of a tensor along an axis."""
    value, axis = main(a), axis_of(main(a), whole(a["dim"]))
    shape = sizes_of(value)
    return tensor((*shape[:axis], *sizes_of(a["index"]), *shape[axis + 1 :]), value.dtype)


def gathered(a: Arguments) -> Result:
    """Elements of a tensor, as many as there are places."""
    return tensor(sizes_of(a["index"]), main(a).dtype)


def gated(a: Arguments) -> Result:
    """``glu``: half of a tensor, gated by the other half."""
    value = main(a)
    axis, shape = axis_of(value, whole(a.get("dim", -1))), list(sizes_of(value))
    shape[axis] //= 2
    return tensor(shape, value.dtype)


def classes(a: Arguments) -> Result:
    """``one_hot``."""
    return tensor((*sizes_of(main(a)), whole(a.get("num_classes", UNKNOWN))), "int64")
