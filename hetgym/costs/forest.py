"""Forest: an ensemble of regression trees as plain arrays, evaluated without the library that fitted them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.costs.regressor import Arrays, checked
from hetgym.errors import ArtefactError

ARRAYS = ("start", "feature", "threshold", "low", "high", "leaf")
TRAINING: dict[str, Any] = {
    "bagging_fraction": 0.8, "deterministic": True, "force_row_wise": True, "lambda_l2": 1.0, "num_threads": 1,
    "verbosity": -1,
}  # fmt: skip
"""LightGBM's options of all fits; equal seeds give equal trees on one thread."""


@dataclass(frozen=True)
class Forest:
    """Trees stored one after another; a prediction is the sum of the leaves that a row reaches.

    At an inner node a row goes to ``low`` if its feature is at most the threshold, otherwise to ``high``. A child of 0
    or more is the number of an inner node, which comes after its parent in the same tree. A child -1 - j is leaf j.
    """

    # [t + 1] first inner node of each tree; a tree of a single leaf has one inner node, both of whose children are that
    # leaf
    start: IntArray
    feature: IntArray  # [i] column that an inner node compares
    threshold: npt.NDArray[np.float32]  # [i] threshold of the comparison
    # low, high: [i] children
    low: IntArray
    high: IntArray
    leaf: npt.NDArray[np.float32]  # [l] values of the leaves

    @classmethod
    def from_lightgbm(cls, booster: Any) -> Self:
        """Take the trees of a LightGBM booster with numeric features and no missing values.

        Thresholds are rounded to 32 bits; measured features do not differ by less.
        """
        start, rows, leaves = [0], [], []
        for tree in booster.dump_model()["tree_info"]:
            root = tree["tree_structure"]
            if "split_feature" not in root:  # a tree of one leaf
                leaves.append(float(root["leaf_value"]))
                rows.append((0, 0.0, -len(leaves), -len(leaves)))
            else:
                _flatten(root, rows, leaves)
            start.append(len(rows))
        feature, threshold, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
        ints, floats = np.int32, np.float32
        return cls(
            np.array(start, ints),
            np.array(feature, ints),
            np.array(threshold, floats),
            np.array(low, ints),
            np.array(high, ints),
            np.array(leaves, floats),
        )

    def predict(self, x: FloatArray) -> FloatArray:
        """[n] sums of the leaves that the rows of ``x`` ([n, f] finite features) reach."""
        rows = np.ascontiguousarray(x, np.float64)
        result = np.zeros(len(rows))
        _sum_leaves(rows, self.start, self.feature, self.threshold, self.low, self.high, self.leaf, result)
        return result

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fields by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Arrays, columns: int, who: str = "forest") -> Self:
        """Rebuild from :meth:`arrays`, which may come from anywhere; arrays that belong to no forest are ignored.

        Raises:
            ArtefactError: an array is missing or of the wrong shape, or a child is not allowed.
        """
        start = checked(arrays, "start", who, (None,), np.int32, 0)
        feature = checked(arrays, "feature", who, (None,), np.int32, 0, columns - 1)
        inner = len(feature)
        threshold = checked(arrays, "threshold", who, (inner,), np.float32)
        leaf = checked(arrays, "leaf", who, (None,), np.float32)
        low, high = (checked(arrays, name, who, (inner,), np.int32, -len(leaf), inner - 1) for name in ("low", "high"))
        if not len(start) or start[0] != 0 or start[-1] != inner or (np.diff(start) <= 0).any():
            raise ArtefactError(f"{who}: array 'start' does not list the first nodes of the trees in order")
        node = np.arange(inner)
        end = np.repeat(start[1:], np.diff(start))
        for child in (low, high):
            if ((child >= 0) & ((child <= node) | (child >= end))).any():
                raise ArtefactError(f"{who}: a node's child comes before it or lies in another tree")
        return cls(start, feature, threshold, low, high, leaf)


def _flatten(root: dict[str, Any], rows: list[tuple[int, float, int, int]], leaves: list[float]) -> None:
    """Append a tree in preorder, so that every child follows its parent."""
    pending: list[tuple[dict[str, Any], int, int]] = [(root, -1, 0)]  # node, parent's row, side
    while pending:
        node, parent, side = pending.pop()
        if "split_feature" in node:
            place = len(rows)
            rows.append((int(node["split_feature"]), float(node["threshold"]), 0, 0))
            pending += [(node["right_child"], place, 1), (node["left_child"], place, 0)]
        else:
            leaves.append(float(node["leaf_value"]))
            place = -len(leaves)
        if parent >= 0:
            feature, threshold, low, high = rows[parent]
            rows[parent] = (feature, threshold, place, high) if side == 0 else (feature, threshold, low, place)


@jit
def _sum_leaves(
    x: FloatArray,
    start: IntArray,
    feature: IntArray,
    threshold: npt.NDArray[np.float32],
    low: IntArray,
    high: IntArray,
    leaf: npt.NDArray[np.float32],
    result: FloatArray,
) -> None:
    """Write the sum of the leaves that each row reaches to ``result`` ([n]).

    The walk down a tree ends because a child that is an inner node always follows its parent.
    """
    for row in range(len(x)):
        total = 0.0
        for tree in range(len(start) - 1):
            node = start[tree]
            while node >= 0:
                node = low[node] if x[row, feature[node]] <= threshold[node] else high[node]
            total += leaf[-1 - node]
        result[row] = total
