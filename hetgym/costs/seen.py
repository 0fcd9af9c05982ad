"""Seen: the range of the rows that a fit saw, outside of which it must not be believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray
from hetgym.costs.regressor import Arrays, check_columns, checked

MARGIN = 0.05
"""How far beyond the box, and beyond the farthest row, a row still counts as seen; share of the size."""

LARGEST = 1e12
"""Largest legal feature in an artefact."""

_FLAT = 1e-9
_RANK = 1e-4


@dataclass(frozen=True)
class Seen:
    """A box around the rows, and within it an ellipsoid around their centre.

    The box alone holds combinations that no measurement was near, such as the largest of all
    dimensions at once: features go together, and the ellipsoid (Mahalanobis distance no larger than
    that of the farthest row) follows them. A column that never varied admits its one value only.

    Args:
        lower: [f] least value of each column.
        upper: [f] largest value of each column.
        centre: [f] mean of the rows.
        root: [f, r] maps a row minus the centre to coordinates of variance 1; directions in which the
            rows hardly vary are left out.
        reach: [1] squared distance of the farthest row.
        ratio: [3] least, median and largest log ratio.

    >>> x = np.array([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0]])
    >>> seen = Seen.fit(x, np.array([0.1, 0.2, 0.4]))
    >>> seen.holds(np.array([[2.0, 5.0], [2.0, 6.0], [9.0, 5.0]])).tolist()
    [True, False, False]
    """

    lower: FloatArray
    upper: FloatArray
    centre: FloatArray
    root: FloatArray
    reach: FloatArray
    ratio: FloatArray

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray) -> Self:
        """The range of [n, f] features and [n] log ratios."""
        centre, scale = x.mean(axis=0), x.std(axis=0)
        varies = scale > _FLAT
        unit = np.divide(x - centre, scale, out=np.zeros_like(x), where=varies)
        variance, direction = np.linalg.eigh(unit.T @ unit / len(x))
        kept = variance > _RANK
        per_unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=varies)
        root = per_unit[:, None] * direction[:, kept] / np.sqrt(variance[kept])
        reach = np.array([((x - centre) @ root) ** 2 @ np.ones(root.shape[1])]).max(axis=1)
        return cls(x.min(axis=0), x.max(axis=0), centre, root, reach, np.quantile(y, (0.0, 0.5, 1.0)))

    @property
    def varying(self) -> BoolArray:
        """[f] columns that had more than one value."""
        return np.asarray(self.upper - self.lower > _FLAT)

    @property
    def low(self) -> float:
        """Least log ratio."""
        return float(self.ratio[0])

    @property
    def median(self) -> float:
        """Median log ratio."""
        return float(self.ratio[1])

    @property
    def high(self) -> float:
        """Largest log ratio."""
        return float(self.ratio[2])

    def holds(self, x: FloatArray) -> BoolArray:
        """[n] whether each row of [n, f] features lies in the range; rows with NaN do not."""
        check_columns(x, len(self.lower), "fitted model")
        slack = MARGIN * (self.upper - self.lower) + _FLAT
        in_box = ((x >= self.lower - slack) & (x <= self.upper + slack)).all(axis=1)
        distance = self._distance(np.clip(self._offset(x), self.lower - self.centre, self.upper - self.centre))
        return np.asarray(in_box & (distance <= self.reach * (1 + MARGIN) ** 2 + _FLAT))

    def inward(self, x: FloatArray) -> FloatArray:
        """Move rows that lie outside to where a fit may be evaluated in their place; rows inside stay.

        Two moves offer themselves: each feature to its own limit, which makes operators that cannot be
        (FLOPs that are not the product of the dimensions), or the whole row along the ray to the centre
        as far as the edge, which changes features that had no need to. Midway between the two, errors
        outside the range were the smallest; docs/cost-models.md has the figures.

        Returns:
            [n, f] features within the box; NaN and what never varied become the centre.
        """
        offset = np.where(self.varying, self._offset(x), 0.0)
        low, high = self.lower - self.centre, self.upper - self.centre
        cut = np.clip(offset, low, high)
        room = np.where(offset < 0, low, high)
        share = np.divide(room, offset, out=np.ones_like(offset), where=np.abs(offset) > np.abs(room))
        ray = offset * share.min(axis=1, initial=1.0)[:, None]
        distance = self._distance(ray)
        shorter = np.divide(self.reach, distance, out=np.ones_like(distance), where=distance > self.reach)
        return np.asarray(self.centre + 0.5 * (cut + ray * np.sqrt(shorter)[:, None]))

    def _offset(self, x: FloatArray) -> FloatArray:
        """[n, f] rows minus the centre, small enough to calculate with; NaN lies at the centre."""
        return np.clip(np.where(np.isnan(x), 0.0, x - self.centre), -LARGEST, LARGEST)

    def _distance(self, offset: FloatArray) -> FloatArray:
        return np.asarray((offset @ self.root) ** 2 @ np.ones(self.root.shape[1]))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fields, by name."""
        return dict(self.__dict__)

    @classmethod
    def from_arrays(cls, arrays: Arrays, who: str) -> Self:
        """Check and take the fields out of an artefact.

        Raises:
            ArtefactError: one is missing or is not what it should be.
        """
        lower = checked(arrays, "lower", who, (None,), low=-LARGEST, high=LARGEST)
        f = len(lower)
        upper = checked(arrays, "upper", who, (f,), low=-LARGEST, high=LARGEST)
        centre = checked(arrays, "centre", who, (f,), low=-LARGEST, high=LARGEST)
        root = checked(arrays, "root", who, (f, None), low=-LARGEST, high=LARGEST)
        reach = checked(arrays, "reach", who, (1,), low=0.0)
        ratio = checked(arrays, "ratio", who, (3,), low=-50.0, high=50.0)
        checked({"upper": upper - lower}, "upper", f"{who}: above 'lower'", (f,), low=0.0)
        checked({"ratio": np.diff(ratio)}, "ratio", f"{who}: in rising order", (2,), low=0.0)
        checked({"root": np.array(root.shape[1:])}, "root", f"{who}: columns", (1,), np.int64, high=f)
        return cls(lower, upper, centre, root, reach, ratio)

    @staticmethod
    def names() -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(Seen.__dataclass_fields__)
