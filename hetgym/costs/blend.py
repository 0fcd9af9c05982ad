"""Blend: the mean of a neural and a boosted fit, which err in different places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.boosted import Boosted
from hetgym.costs.neural import Neural
from hetgym.costs.regressor import Arrays, refuse_others, settled

_PARTS = ("neural", "boosted")


@dataclass(frozen=True)
class Blend:
    """Half of a committee of perceptrons, half of an ensemble of trees.

    Perceptrons are smooth and miss steps, trees are steps and miss slopes; the mean of their log ratios is
    better than either on most classes.

    Args:
        neural: the perceptrons.
        boosted: the trees.
    """

    name: ClassVar[str] = "blend"
    neural: Neural
    boosted: Boosted

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.fit`.

        Raises:
            ArtefactError: rows that cannot be fitted.
            MissingExtra: LightGBM or torch is not installed.
        """
        return cls(Neural.fit(x, y, groups, seed), Boosted.fit(x, y, groups, seed))

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """See :meth:`~hetgym.costs.regressor.Regressor.predict`."""
        (one, inside), (other, _) = self.neural.predict(x), self.boosted.predict(x)
        return settled((one + other) / 2, self.boosted.seen.low, self.boosted.seen.high), inside

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of both, their names behind ``neural.`` and ``boosted.``."""
        parts = (self.neural.arrays(), self.boosted.arrays())
        return {f"{part}.{name}": a for part, arrays in zip(_PARTS, parts, strict=True) for name, a in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        refuse_others({name.partition(".")[0]: np.zeros(0) for name in arrays}, _PARTS, cls.name)
        neural, boosted = (
            {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
            for part in _PARTS
        )
        return cls(Neural.from_arrays(neural), Boosted.from_arrays(boosted))
