"""Calibrated roofline: a constant efficiency for each kind of operator."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, check_rows, refuse_others, settled


@dataclass(frozen=True)
class Calibrated:
    """The median log ratio, whatever the shape.

    This is the simplest model that can be fitted: a roofline with measured efficiencies. Time grows with FLOPs and
    bytes exactly as in the roofline, so the model is monotone, and as good (or bad) far outside the measured shapes as
    inside. It does not model small shapes, odd alignments or caches.

    >>> fit = Calibrated.fit(np.zeros((3, 1)), np.log([2.0, 3.0, 9.0]), np.arange(3, dtype=np.int32), seed=0)
    >>> ratio, within = fit.predict(np.array([[0.0], [7.0]]))
    >>> np.exp(ratio).round(6), within
    (array([3., 3.]), array([ True, False]))
    """

    name: ClassVar[str] = "calibrated"
    seen: Seen  # the range of the fitted rows, which includes the median ratio

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Take the median; groups and seed have no effect. See :class:`hetgym.costs.regressor.Regressor`."""
        check_rows(x, y, groups)
        return cls(Seen.fit(x, y))

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] the median log ratio, [n] True where the row lies in the fitted range."""
        within = self.seen.holds(x)
        return settled(np.full(len(x), self.seen.median), self.seen.low, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as plain arrays."""
        return self.seen.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        refuse_others(arrays, Seen.names(), cls.name)
        return cls(Seen.from_arrays(arrays, cls.name))
