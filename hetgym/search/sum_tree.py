"""Sum trees: draws of one of many things by weights that change.

A tree of m leaves is an array [2 m], m a power of two: the weight of leaf k is at m + k, and each place i < m holds the
sum of the places 2 i and 2 i + 1, so that place 1 holds the sum of all. Sums are formed anew, never corrected, so that
rounding does not add up.
"""

import numpy as np

from hetgym._kernels.jit import step
from hetgym._types import FloatArray


def new_tree(leaves: int) -> FloatArray:
    """A tree with room for some leaves, all of weight 0."""
    return np.zeros(2 << max(0, leaves - 1).bit_length())


@step
def weigh(tree: FloatArray, leaf: int, weight: float) -> None:
    """Give a leaf another weight, which is finite and not negative."""
    k = len(tree) // 2 + leaf
    tree[k] = weight
    while k > 1:
        k //= 2
        tree[k] = tree[2 * k] + tree[2 * k + 1]


@step
def weight_of(tree: FloatArray, leaf: int) -> float:
    """The weight of a leaf."""
    return float(tree[len(tree) // 2 + leaf])


# Below every place that is reached some leaf has weight: rounding may carry `rest` beyond the left sum, but a place of
# weight 0 is never entered.
@step
def draw_leaf(tree: FloatArray, share: float) -> int:
    """The leaf at which the weights from the first one on add up to a share of all, in [0, 1); some weight is not 0."""
    k, rest = 1, share * tree[1]
    while k < len(tree) // 2:
        k *= 2
        if rest >= tree[k] and tree[k + 1] > 0.0:
            rest -= tree[k]
            k += 1
    return k - len(tree) // 2
