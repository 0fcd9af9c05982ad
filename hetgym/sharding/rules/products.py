"""Rules of products: matrix products, einsums, convolutions and attention."""

from __future__ import annotations

from collections import Counter

from hetgym.graph.ops import Operator, Tensor, integer, integers
from hetgym.sharding.rules.indices import Indices, Letters, Rule, aligned, windowed


def matrix_product(op: Operator) -> Indices | None:
    """MatMul and Gemm: rows ``m``, columns ``n``, the summed ``k``, and batch dimensions, which broadcast.

    The operands after the first two are added: the bias, and those of operators that were fused to the product.
    """
    if len(op.inputs) < 2 or len(op.outputs) != 1:
        return None
    left, right, out = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    if min(len(left), len(right)) < 2 or len(out) != max(len(left), len(right)):
        return None
    batch = tuple(f"b{at}" for at in range(len(out) - 2))
    letters = (*batch, "m", "n")
    first, second = ("k", "m") if integer(op, "transA", 0) else ("m", "k"), ("k", "n")
    if integer(op, "transB", 0):
        second = ("n", "k")
    rows = (
        (*aligned(left[:-2], out[:-2], batch), *first),
        (*aligned(right[:-2], out[:-2], batch), *second),
        *(aligned(tensor.shape, out, letters) for tensor in op.inputs[2:]),
    )
    if not _fits(op, rows, (letters,)):
        return None
    own = integer(op, "operands", len(op.inputs))
    summed = frozenset() if "fused" in op.attributes else frozenset("k")  # what is fused need not be linear
    return Indices(rows, (letters,), summed, once=frozenset(range(2, own)))


def grouped_product(op: Operator) -> Indices | None:
    """GroupedMatMul: columns and the summed dimension; which rows belong to which matrix is not known."""
    if len(op.inputs) < 2 or len(op.outputs) != 1 or len(op.inputs[1].shape) != 3:
        return None
    left, right, out = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    if len(left) < 2 or len(out) < 2:
        return None
    turned = right[-1] == left[-1] and right[-2] == out[-1]
    plain = right[-2] == left[-1] and right[-1] == out[-1]
    if integer(op, "transB", 0):
        plain = False
    elif turned and plain:  # a square matrix
        turned = False
    if turned == plain:
        return None
    rest = tuple(
        (*("",) * (len(t.shape) - 1), "n") if "float" in t.dtype and t.shape[-1:] == out[-1:] else ("",) * len(t.shape)
        for t in op.inputs[2:]
    )
    rows = ((*("",) * (len(left) - 1), "k"), ("", "n", "k") if turned else ("", "k", "n"), *rest)
    biases = frozenset(at for at, row in enumerate(rest, 2) if "n" in row)
    return Indices(rows, ((*("",) * (len(out) - 1), "n"),), frozenset("k"), once=biases)


def einsum(op: Operator) -> Indices | None:
    """Einsum: the letters of its equation, without those that occur twice in a term."""
    left, arrow, right = str(op.attributes.get("equation", "")).replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or "." in left + right or len(terms) != len(op.inputs) or len(op.outputs) != 1:
        return None
    twice = {letter for term in (*terms, right) for letter, count in Counter(term).items() if count > 1}
    rows = tuple(tuple("" if letter in twice else letter for letter in term) for term in terms)
    out = tuple("" if letter in twice else letter for letter in right)
    return Indices(rows, (out,), frozenset(left) - frozenset(right) - {","}) if _fits(op, rows, (out,)) else None


def convolution(op: Operator) -> Indices | None:
    """Conv: images, output channels, input channels, which are summed, or whole groups; rows of images with halos."""
    return _convolution(op, weight=("out", "in"))


def transposed_convolution(op: Operator) -> Indices | None:
    """ConvTranspose: as a convolution, whose weight has the input channels first."""
    return _convolution(op, weight=("in", "out"))


def _convolution(op: Operator, weight: tuple[str, str]) -> Indices | None:
    if len(op.inputs) < 2 or len(op.outputs) != 1 or len(op.outputs[0].shape) < 3:
        return None
    data, out, group = op.inputs[0].shape, op.outputs[0].shape, integer(op, "group", 1)
    if len(data) != len(out) or len(op.inputs[1].shape) != len(out):
        return None
    inner, outer = ("groups", "groups") if group > 1 else ("in", "out")
    held = tuple({"in": inner, "out": outer}[name] for name in weight)
    if group > 1:  # the second dimension of the weight belongs to one group
        held = ("groups", "")
    own = integer(op, "operands", len(op.inputs))
    dilation = (integers(op, "dilations") or (1,))[0]
    halo = windowed(op, (op.inputs[1].shape[2] - 1) * dilation + 1) if op.kind == "Conv" else None
    spatial = ("height" if halo else "", *("",) * (len(out) - 3))
    letters = ("batch", outer, *spatial)
    rows = (
        ("batch", inner, *spatial),
        (*held, *("",) * (len(out) - 2)),
        *((outer,) for _ in op.inputs[2:own]),
        *(_channels(tensor, op.outputs[0], letters) for tensor in op.inputs[own:]),
    )
    if not _fits(op, rows, (letters,)):
        return None
    return Indices(
        rows,
        (letters,),
        frozenset() if group > 1 or "fused" in op.attributes else frozenset({"in"}),
        once=frozenset(range(2, own)),
        units={"groups": group} if group > 1 else {},
        scaled={"groups": ("group",)} if group > 1 else {},
        halos={"height": halo} if halo else {},
    )


def _channels(tensor: Tensor, result: Tensor, letters: Letters) -> Letters:
    """Letters of an operand fused to a convolution; vectors of constants apply to the channels."""
    if len(tensor.shape) == 1 and tensor.constant and len(result.shape) >= 4:
        return (letters[1] if tensor.shape[0] == result.shape[1] else "",)
    return aligned(tensor.shape, result.shape, letters)


def attention(op: Operator) -> Indices | None:
    """Attention of [batch, heads, tokens, size]: sequences, heads of queries with those of keys and values.

    Ranks that share out the queries of one sequence need all keys and values, and must not need their own place in the
    sequence, as a causal mask without an operand does.
    """
    shapes = [tensor.shape for tensor in op.inputs[:3]]
    if len(shapes) < 3 or len(op.outputs) != 1 or len({len(shape) for shape in (*shapes, op.outputs[0].shape)}) > 1:
        return None
    query, key, value = shapes
    rank = len(query)
    if rank not in (3, 4) or "q_num_heads" in op.attributes:
        return None
    placed = integer(op, "is_causal", 0) or integer(op, "window", 0)
    names = ("batch", "heads")[: rank - 2]
    tokens = "" if placed else "queries"
    out = (*names, tokens, "")
    rest = tuple(_mask(tensor, (*query[:-1], key[-2]), (*names, tokens, "")) for tensor in op.inputs[3:])
    shared = (*names[:1], "") if rank == 4 and key[1] == 1 else names  # one head of keys serves all queries
    rows = ((*names, tokens, ""), (*shared, "", ""), (*shared, "", ""), *rest)
    if not _fits(op, rows[:1], (out,)) or key[0] != query[0] or value[:-2] != key[:-2]:
        return None
    return Indices(rows, (out,))


def _mask(tensor: Tensor, scores: tuple[int, ...], letters: Letters) -> Letters:
    """Letters of a mask or a bias of the scores; a vector with a number for each head belongs to the heads."""
    if len(tensor.shape) == 1:
        return ("heads" if "heads" in letters and tensor.shape[0] == scores[1] else "",)
    return aligned(tensor.shape, scores, letters) if len(tensor.shape) <= len(scores) else ("",) * len(tensor.shape)


def recurrent_cell(op: Operator) -> Indices | None:
    """Cells of recurrent networks: the rows of all states."""
    states = [tensor for tensor in op.inputs if not tensor.constant]
    if not states or not op.outputs:
        return None
    count = states[0].shape[0] if states[0].shape else 0
    if any(len(tensor.shape) != 2 or tensor.shape[0] != count for tensor in (*states, *op.outputs)):
        return None
    rows = tuple(("",) * len(t.shape) if t.constant else ("batch", "") for t in op.inputs)
    return Indices(rows, tuple(("batch", "") for _ in op.outputs))


def _fits(op: Operator, operands: tuple[Letters, ...], outputs: tuple[Letters, ...]) -> bool:
    """Whether dimensions with the same letter have the same size, heads of keys and groups aside."""
    sizes: dict[str, int] = {}
    tensors = (*op.inputs[: len(operands)], *op.outputs)
    for row, tensor in zip((*operands, *outputs), tensors, strict=True):
        if len(row) != len(tensor.shape):
            return False
        for letter, size in zip(row, tensor.shape, strict=True):
            if letter and letter not in ("heads", "groups", "height") and sizes.setdefault(letter, size) != size:
                return False
    return True


PRODUCTS: dict[str, Rule] = {
    "MatMul": matrix_product,
    "Gemm": matrix_product,
    "Einsum": einsum,
    "GroupedMatMul": grouped_product,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Attention": attention,
    "LSTMCell": recurrent_cell,
    "GRUCell": recurrent_cell,
    "RNNCell": recurrent_cell,
}
"""Kind -> its rule."""
