"""Seen: the range of the fitted rows; predictions outside it are extrapolations."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray
from hetgym.costs.regressor import Arrays, check_columns, checked

MARGIN = 0.05
"""Distance beyond the box, and beyond the farthest row, at which a row still counts as seen; a share of the size."""

LARGEST = 1e12  # Largest legal feature in an artefact

_FLAT = 1e-9
_RANK = 1e-4


@dataclass(frozen=True)
class Seen:
    """A box around the rows, intersected with an ellipsoid around their centre.

    The box alone would contain combinations far from all measurements, such as the largest values of all dimensions at
    once. Features are correlated, and the ellipsoid (Mahalanobis distance no larger than that of the farthest row)
    excludes such combinations. A column that never varied allows its single value only.

    >>> x = np.array([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0]])
    >>> seen = Seen.fit(x, np.array([0.1, 0.2, 0.4]))
    >>> seen.holds(np.array([[2.0, 5.0], [2.0, 6.0], [9.0, 5.0]])).tolist()
    [True, False, False]
    """

    lower: FloatArray  # [f] least value of each column
    upper: FloatArray  # [f] largest value of each column
    centre: FloatArray  # [f] mean of the rows
    # [f, r] matrix from a row minus the centre to r coordinates of variance 1; directions in which the rows hardly vary
    # are left out
    root: FloatArray
    reach: FloatArray  # [1] squared distance of the farthest row
    ratio: FloatArray  # [3] least, median and largest log ratio

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
        """[f] True for columns with more than one value."""
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
        """[n] True where a row of the [n, f] features lies in the range; False for rows with NaN."""
        check_columns(x, len(self.lower), "fitted model")
        in_box = ~self.beyond(x).any(axis=1)
        distance = self._distance(np.clip(self._offset(x), self.lower - self.centre, self.upper - self.centre))
        return np.asarray(in_box & (distance <= self.reach * (1 + MARGIN) ** 2 + _FLAT))

    def beyond(self, x: FloatArray) -> BoolArray:
        """[n, f] True for the features of [n, f] rows that lie outside the box; True for NaN."""
        slack = MARGIN * (self.upper - self.lower) + _FLAT
        return np.asarray(~((x >= self.lower - slack) & (x <= self.upper + slack)))

    def inward(self, x: FloatArray) -> FloatArray:
        """[n, f] rows moved into the box, so that a fit can be evaluated there; rows inside stay unchanged.

        There are two natural moves. One clips each feature to its own limits, but yields impossible operators (whose
        FLOPs are not the product of the dimensions). The other moves the whole row towards the centre until it
        reaches the edge, but also changes features within their limits. The midpoint of the two had the smallest
        errors outside the range (result costs-learned-models). NaN, and columns that never varied, become the centre.
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
        """[n, f] rows minus the centre, bounded against overflow; NaN is replaced by the centre."""
        return np.clip(np.where(np.isnan(x), 0.0, x - self.centre), -LARGEST, LARGEST)

    def _distance(self, offset: FloatArray) -> FloatArray:
        return np.asarray((offset @ self.root) ** 2 @ np.ones(self.root.shape[1]))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fields, by name."""
        return dict(self.__dict__)

    @classmethod
    def from_arrays(cls, arrays: Arrays, who: str) -> Self:
        """Check the arrays of an artefact and build the range from them; raises ArtefactError about an invalid one."""
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
