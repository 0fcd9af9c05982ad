"""Twice the batch is never faster: a price below that of half the batch would be a fault of the model.

Measurements are few where operators are small, and fits to them wave. A price that breaks the law can be raised to that
of half the batch, or the price of the half can be lowered. Where a fit prices little work too high, as fits to long
kernels do, the latter is right.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hetgym._types import BoolArray, FloatArray
from hetgym.costs.explanation import Ledger
from hetgym.graph.ops import Operator, Tensor

DOUBLINGS = 24
"""Most doublings of a batch whose prices bound that of the batch; an operator without numbers never grows."""


def not_below_halves(operators: Sequence[Operator], price: Callable[[list[Operator]], FloatArray]) -> FloatArray:
    """[n, k] prices, each at least that of half the batch; ``price`` gives [m, k] prices of m operators."""
    chains = [list(halves(operator)) for operator in operators]
    first = np.cumsum([0, *map(len, chains[:-1])])
    prices = price([operator for chain in chains for operator in chain])
    return np.asarray(np.maximum.reduceat(prices, first, axis=0))


def halves(operator: Operator) -> Iterator[Operator]:
    """The operator, the operator with half the batch, half of that, and so on while its size is even.

    The batch is the leading axis of the first output. All outputs and all operands that are no constants follow, if
    their leading axis has the same size; an operand of one axis does so only beside an output of one axis. FLOPs and
    bytes that the attributes state, as those of gradients do, follow as well, but for the bytes of constants.

    >>> x, w, y = Tensor((6, 8)), Tensor((8, 2), constant=True), Tensor((6, 2))
    >>> [(op.inputs[0].shape, op.outputs[0].shape) for op in halves(Operator("fc", "MatMul", (x, w), (y,)))]
    [((6, 8), (6, 2)), ((3, 8), (3, 2))]
    """
    yield operator
    shape = operator.outputs[0].shape if operator.outputs else ()
    batch = shape[0] if shape else 0

    def follows(tensor: Tensor) -> bool:
        own = tensor.shape
        return own[:1] == shape[:1] and not tensor.constant and (len(own) > 1 or len(shape) == 1)

    sides = [[(tensor, follows(tensor)) for tensor in side] for side in (operator.inputs, operator.outputs)]
    if not any(half for _, half in sides[0]):
        return
    attributes, fixed = dict(operator.attributes), operator.weight_bytes
    while batch and batch % 2 == 0:
        batch //= 2
        inputs, outputs = (
            tuple(Tensor((batch, *t.shape[1:]), t.dtype, t.constant, t.name) if half else t for t, half in side)
            for side in sides
        )
        for key, rest in (("flops", 0.0), ("reads", fixed)):
            stated = attributes.get(key)
            if isinstance(stated, int | float):
                attributes[key] = rest + max(0.0, stated - rest) / 2
        yield Operator(operator.name, operator.kind, inputs, outputs, attributes)


def never_faster(
    price: Callable[[FloatArray], FloatArray],
    least: Callable[[FloatArray], FloatArray],
    table: FloatArray,
    grows: BoolArray,
    fixed: FloatArray | float = 0.0,
    ledger: Ledger | None = None,
) -> FloatArray:
    """[r] prices that do not fall when a batch is doubled: the smallest of the batch, its double, and so on [s].

    Libraries, and trees that are fitted to them, take less time for a few more rows in one case of six. A caller may
    pad its batch, so the larger batch's price is the bound of the smaller one's.

    Args:
        price: map from rows of a table to seconds.
        least: map from rows of a table to seconds that no price is below; it grows with the batch.
        table: [r, c] operators.
        grows: [r, c] True for the columns that double with the batch.
        fixed: [r, c] the part of these columns that does not, such as the bytes of weights.
        ledger: ledger of the price of a single operator.
    """
    best = price(table)
    own = float(best[0]) if ledger is not None else 0.0
    rest, table = np.arange(len(table)), table.copy()
    more = np.where(grows, table - fixed, 0.0)
    for _ in range(DOUBLINGS):
        table[rest] += more[rest]
        more[rest] *= 2.0
        rest = rest[least(table[rest]) < best[rest]]
        if not len(rest):
            break
        best[rest] = np.minimum(best[rest], price(table[rest]))
    if ledger is not None and best[0] < own:
        ledger.say(f"batch: by the fit a larger batch takes less than the {own:.4g} s of this one; its price is used")
    return best
