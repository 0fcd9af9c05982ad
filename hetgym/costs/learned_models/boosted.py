"""Boosted: gradient-boosted trees on the log ratio, one ensemble per class of operators."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.forest import ARRAYS, TRAINING, Forest
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, check_rows, checked, refuse_others, settled
from hetgym.errors import require

ROUNDS = 160  # Number of trees in an ensemble; with the absolute error as loss, it does not overfit at this number

LEARNING_RATE = 0.08


@dataclass(frozen=True)
class Boosted:
    """Trees fitted by LightGBM (Ke et al., NeurIPS 2017) with the absolute error as loss.

    Beyond the measured shapes the ratio stays constant, so the prediction grows with the physical bound.
    """

    name: ClassVar[str] = "boosted"
    forest: Forest  # the trees
    seen: Seen  # the range of the fitted rows

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.fit`; needs LightGBM."""
        lightgbm = require("lightgbm", "costs", "fitting boosted trees")
        check_rows(x, y, groups)
        rows = len(y)
        options = TRAINING | {
            "objective": "regression_l1",
            "learning_rate": LEARNING_RATE,
            "num_leaves": min(16, max(4, rows // 16)),
            "min_data_in_leaf": min(12, max(2, rows // 30)),
            "feature_fraction": 0.6,
            "bagging_freq": int(rows >= 5),  # of fewer rows it may leave none
            "seed": seed,
            "max_bin": 255,
        }
        booster = lightgbm.train(options, lightgbm.Dataset(x, y, params={"verbosity": -1}), ROUNDS)
        return cls(Forest.from_lightgbm(booster), Seen.fit(x, y))

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """See :meth:`~hetgym.costs.regressor.Regressor.predict`."""
        within = self.seen.holds(x)
        return settled(self.forest.predict(x), self.seen.low, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """See :meth:`~hetgym.costs.regressor.Regressor.arrays`."""
        return {**self.forest.arrays(), **self.seen.arrays()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        seen = Seen.from_arrays(arrays, "boosted")
        refuse_others(arrays, (*ARRAYS, *Seen.names()), "boosted")
        checked(arrays, "leaf", "boosted", (None,), np.float32, -100.0, 100.0)
        return cls(Forest.from_arrays(arrays, len(seen.lower), "boosted"), seen)
