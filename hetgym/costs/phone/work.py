"""The work of a phone's processors for an operator: amounts that cost models of whole networks add up.

A network runs on a phone as one compiled graph; its operators cannot be timed one by one. So a model of such a
processor must be a sum over operators with few coefficients. This module gives, for each operator, the amounts that
these coefficients multiply.

Compilers for these processors fuse less than :func:`~hetgym.graph.transforms.fuse`: a product takes in its bias,
normalisation and activation, but not the addition of another branch. And what is a view in PyTorch (a transposition, a
slice) moves data here, unless it only puts the channels of an image last or first: they are always last here. So the
parts of a fused operator count, except those in :data:`FREE`.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.costs.features import loops
from hetgym.costs.fused import anchor_of
from hetgym.graph.ops import GENERIC, KINDS, Operator

AMOUNTS: tuple[str, ...] = (
    "operations of products", "operations of strided products", "operations of dilated products",
    "operations of pointwise products", "operations of strided pointwise products",
    "operations of products of activations", "operations of grouped products", "operations of products in space",
    "operations of recurrent cells", "weights", "elements of products", "elements of grouped products",
    "elements of arithmetic", "elements of reductions", "elements of poolings", "elements of normalisations",
    "elements of softmax", "elements of functions", "elements of divisions of pictures", "elements of joints",
    "elements of resizing to the nearest", "elements of resizing", "elements of resizing with corners aligned",
    "elements of movements", "elements of views", "elements at the start of operators",
    "elements beyond the memory on the chip", "operators", "views",
)  # fmt: skip
"""Columns of a table of amounts.

* *Operations* of convolutions and products of matrices, in tiles of :data:`TILE` and :data:`SIDES`: multiply-adds times
  2. Pointwise products are convolutions with a window of one element, and products of matrices with weights. Strided
  products skip elements of their input, dilated ones spread their window. Grouped products are depthwise and grouped
  convolutions, which compute in vectors, without tiles. Products in space are convolutions over three axes, which few
  compilers map to the matrix unit.
* *Weights*: constant elements that a product reads.
* *Elements* that an operator reads and writes, without weights, in channels padded to :data:`TILE`: of products, of
  arithmetic (additions), of reductions (sums, means and extremes along axes), of poolings, of normalisations, of
  softmax, of functions (GELU, sigmoid, division), of divisions of pictures (images of 2 or 3 channels, for instance
  normalised before the first convolution), of joints (concatenations), of resizing by the nearest element, by
  interpolation, and by interpolation with the corners aligned, of other movements (copies, paddings, gathers) and of
  views that permute or cut. Those of one operator up to :data:`AT_START` count once more, since small operators do not
  fill the processor, and those beyond :data:`ON_CHIP`.
* *Operators*: 1 for each, and for each part of a fused one that is not free; *views* likewise.
"""

TILE = 32
"""Rows, columns and reduction of the blocks that the matrix unit multiplies; each is padded to a multiple of this."""

SIDES = (8, 4)  # Height and width of the blocks of an image that a convolution computes, each block TILE channels deep
ON_CHIP = 4e6  # Elements that the memory on the chip holds: 8 MiB of 16 bits
AT_START = 65536.0  # Elements that take as long as the start of an operator

FREE = frozenset({"BatchNormalization", "Relu", "Clip", "LeakyRelu", "PRelu", "Cast"})
"""Kinds that cost nothing behind another operator."""

FUNCTIONS = frozenset(
    {"Gelu", "Sigmoid", "Swish", "Tanh", "Erf", "Exp", "Log", "Softplus", "Mish", "Elu", "Celu", "HardSwish"}
    | {"HardSigmoid", "Div", "Pow", "Sqrt", "Reciprocal", "Sin", "Cos"}
)
"""Kinds that are computed from tables or in several steps."""

_SHAPE = re.compile(r"(\d{1,12}(x\d{1,12}){0,7})?", re.ASCII)  # what a file says instead is not looked at
_NUMBER = {name: i for i, name in enumerate(AMOUNTS)}
_VECTORS = 8  # products with fewer columns in a group than this do not fill a block


def amounts(operators: Sequence[Operator]) -> FloatArray:
    """The table of amounts.

    Args:
        operators: n operators, fused or not.

    Returns:
        [n, a] columns :data:`AMOUNTS`, finite and at least 0; all 0 for views that only change a shape.

    >>> from hetgym.graph import Tensor
    >>> x, w = Tensor((1, 40)), Tensor((40, 32), constant=True)
    >>> row = amounts([Operator("fc", "MatMul", (x, w), (Tensor((1, 32)),))])[0]
    >>> names = "operations of pointwise products", "weights", "elements of products"
    >>> [float(row[AMOUNTS.index(name)]) for name in names]
    [131072.0, 1280.0, 96.0]
    """
    return np.array([_row(op) for op in operators], np.float64).reshape(len(operators), len(AMOUNTS))


def _row(op: Operator) -> list[float]:
    row = [0.0] * len(AMOUNTS)
    parts = str(op.attributes.get("fused", op.kind)).split("+")
    shapes = _shapes(op, len(parts))
    before = [op.inputs[0].shape if op.inputs else (), *shapes]
    whole = list(zip(parts, before, shapes, strict=False))
    views = [_padded(shape) for kind, source, shape in whole if kind == "View" and not _reorders(source, shape)]
    row[_NUMBER["views"]] = float(len(views))
    row[_NUMBER["elements of views"]] = 2.0 * summed(views)
    if op.spec.family == "view":
        return row
    anchor, _ = anchor_of(op)
    _anchor(op, anchor, row)
    rest = [(kind, shape) for kind, shape in zip(parts, shapes, strict=True) if kind not in FREE]
    at = next((i for i, (kind, _) in enumerate(rest) if kind == anchor.kind), len(rest))
    del rest[at : at + 1]
    for kind, shape in rest:
        family = KINDS.get(kind, GENERIC).family
        if family == "view" or (kind == "Copy" and "View" in parts):  # a copy behind a view is the view's own
            continue
        row[_NUMBER["operators"]] += 1.0
        group = _resizing(anchor) if kind == "Resize" else _group(kind, family, shape)
        _move(row, group, 2.0 * (float(math.prod(shape)) if kind == "Resize" else _padded(shape)))
    return row


def _shapes(op: Operator, parts: int) -> list[tuple[int, ...]]:
    """Shapes of the results of an operator's parts; the shape of its own result where they are not known."""
    words = str(op.attributes.get("shapes", "")).split("+")
    if "shapes" in op.attributes and len(words) == parts and all(map(_SHAPE.fullmatch, words)):
        return [tuple(int(size) for size in word.split("x") if size) for word in words]
    return [op.outputs[0].shape if op.outputs else ()] * parts


def _reorders(before: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """True if a view only puts the channels of an image, or of a sequence, last or first."""
    if len(before) == len(shape) == 3:
        return before != shape and before[0] == 1 and shape == (1, before[2], before[1])
    if len(before) != 4 or before == shape:
        return False
    n, a, b, c = before
    return shape in ((n, b, c, a), (n, c, a, b))


def _move(row: list[float], group: str, moved: float) -> None:
    row[_NUMBER[f"elements of {group}"]] += moved
    row[_NUMBER["elements at the start of operators"]] += min(moved, AT_START)


def _anchor(op: Operator, anchor: Operator, row: list[float]) -> None:
    """Add the amounts of an operator's anchor, with all that the fused operator reads and writes."""
    family = anchor.spec.family
    weights = (
        float(summed(t.size for t in op.inputs if t.constant)) if family in ("conv", "matmul", "recurrent") else 0.0
    )
    moved = summed(_padded(t.shape) for t in op.outputs)
    selects = anchor.kind in ("Slice", "Split", "Gather", "GatherElements", "GatherND")  # read what they write
    moved += moved if selects else summed(_padded(t.shape) for t in op.inputs if not t.constant)
    shape = anchor.outputs[0].shape if anchor.outputs else ()
    kind = _resizing(anchor) if anchor.kind == "Resize" else _group(anchor.kind, family, shape)
    row[_NUMBER["operators"]] += 1.0
    if anchor.kind == "Attention":
        _attention(anchor, row)
        return
    if family in ("conv", "matmul"):
        name, operations = _product(anchor, weights > 0)
        row[_NUMBER[f"operations of {name}"]] += operations
        row[_NUMBER["weights"]] += weights
        kind = "grouped products" if name == "grouped products" else "products"
    elif family == "recurrent":
        row[_NUMBER["operations of recurrent cells"]] += anchor.flops
        row[_NUMBER["weights"]] += weights
        row[_NUMBER["operators"]] += _steps(anchor)
    _move(row, kind, moved)
    row[_NUMBER["elements beyond the memory on the chip"]] += max(0.0, moved - ON_CHIP)


def _group(kind: str, family: str, shape: tuple[int, ...]) -> str:
    """The group of an operator's elements, by its kind and its result, unless it is a product or resizes."""
    if kind == "Div" and len(shape) == 4 and 1 < shape[1] < 4 and min(shape[2:]) > 1:
        return "divisions of pictures"
    if kind.startswith(("Reduce", "Arg")):
        return "reductions"
    if family == "move":
        return "joints" if kind == "Concat" else "movements"
    if family == "normalise":
        return "softmax" if "Softmax" in kind else "normalisations"
    if family == "pool":
        return "poolings"
    return "functions" if kind in FUNCTIONS else "arithmetic"


def _resizing(anchor: Operator) -> str:
    """The group of the elements of a part that resizes: by its own attributes, which only an anchor keeps."""
    if anchor.attributes.get("mode", "nearest" if anchor.kind == "Resize" else "linear") == "nearest":
        return "resizing to the nearest"
    aligned = anchor.attributes.get("coordinate_transformation_mode") == "align_corners"
    return "resizing with corners aligned" if aligned else "resizing"


def _padded(shape: tuple[int, ...]) -> float:
    """Elements of a tensor when its channels, or its last axis if that wastes less, are padded to tiles."""
    axes = {shape[1] if len(shape) > 3 else 1, shape[-1] if shape else 1} - {1}
    return float(math.prod(shape)) * min((_pad(size) / size for size in axes if size), default=1.0)


def _product(op: Operator, constant: bool) -> tuple[str, float]:
    """The kind of a product, and its operations."""
    if op.kind not in ("Conv", "MatMul", "Gemm") or len(op.inputs) < 2:
        return "products", op.flops
    batch, m, n, k = loops(op)
    if op.kind != "Conv":
        return "pointwise products" if constant else "products of activations", 2.0 * batch * _pad(m) * _pad(n) * _pad(
            k
        )
    if n < _VECTORS and batch > 1:
        return "grouped products", 2.0 * batch * m * n * k
    window = max(float(math.prod(op.inputs[1].shape[2:])), 1.0)
    shape = op.outputs[0].shape
    image = len(shape) == 4 and min(shape[2:]) > 1  # one row is no image: it is cut into blocks along its length
    rows = float(shape[0]) * _pad(shape[2], SIDES[0]) * _pad(shape[3], SIDES[1]) if image else _pad(m)
    padded = 2.0 * batch * rows * _pad(n) * _pad(k / window) * window
    if len(op.inputs[1].shape) > 4:
        return "products in space", padded
    if _most(op, "dilations") > 1:
        return "dilated products", padded
    name = "pointwise products" if window == 1.0 else "products"
    return f"strided {name}" if _most(op, "strides") > 1 else name, padded


def _most(op: Operator, name: str) -> int:
    """The largest number of an attribute with one number for each axis."""
    value = op.attributes.get(name)
    return max((v for v in value if isinstance(v, int)), default=1) if isinstance(value, tuple) else 1


def _attention(op: Operator, row: list[float]) -> None:
    """Add two products and a softmax, as these compilers run it."""
    batch, m, n, k = loops(op)
    moved = 2.0 * batch * (m * k + n * k + m * n)
    row[_NUMBER["operations of products of activations"]] += 4.0 * batch * _pad(m) * _pad(n) * _pad(k)
    _move(row, "products", moved)
    _move(row, "softmax", 2.0 * batch * m * n)
    row[_NUMBER["elements beyond the memory on the chip"]] += max(0.0, moved - ON_CHIP)
    row[_NUMBER["operators"]] += 3.0


def _pad(size: float, tile: int | None = None) -> float:
    tile = tile or TILE
    return math.ceil(size / tile) * float(tile)


def _steps(op: Operator) -> float:
    """Steps of a recurrent operator; each starts operators of its own."""
    shape = op.inputs[0].shape if op.inputs else (1,)
    return float(max(shape[:-1], default=1)) if op.kind in ("LSTM", "GRU", "RNN") else 1.0
