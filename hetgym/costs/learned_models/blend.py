"""Blend: a weighted mean of a Gaussian process (two parts) and boosted trees (one part)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.learned_models.boosted import Boosted
from hetgym.costs.learned_models.gaussian import Gaussian
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, refuse_others, settled

_PARTS = ("gaussian", "boosted")
_SHARES = (2 / 3, 1 / 3)


@dataclass(frozen=True)
class Blend:
    """Weighted mean of the log ratios of two regressors.

    A Gaussian process is smooth and misses steps; trees are step functions and miss slopes. The mean is better than
    either on most classes.
    """

    name: ClassVar[str] = "blend"
    gaussian: Gaussian  # the Gaussian process
    boosted: Boosted  # the trees

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.fit`; needs LightGBM and torch."""
        return cls(Gaussian.fit(x, y, groups, seed), Boosted.fit(x, y, groups, seed))

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """See :meth:`~hetgym.costs.regressor.Regressor.predict`."""
        (one, inside), (other, _) = self.gaussian.predict(x), self.boosted.predict(x)
        return settled(_SHARES[0] * one + _SHARES[1] * other, self.boosted.seen.low, self.boosted.seen.high), inside

    @property
    def seen(self) -> Seen:
        """The range of the fitted rows."""
        return self.gaussian.seen

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of both, with the prefixes ``gaussian.`` and ``boosted.`` before their names."""
        parts = (self.gaussian.arrays(), self.boosted.arrays())
        return {f"{part}.{name}": a for part, arrays in zip(_PARTS, parts, strict=True) for name, a in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        refuse_others({name.partition(".")[0]: np.zeros(0) for name in arrays}, _PARTS, cls.name)
        gaussian, boosted = (
            {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
            for part in _PARTS
        )
        return cls(Gaussian.from_arrays(gaussian), Boosted.from_arrays(boosted))
