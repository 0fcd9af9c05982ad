"""A cache of operators' prices: operators that a split does not change are not priced again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetgym._types import FloatArray
from hetgym.costs import CostModel
from hetgym.device import Device
from hetgym.graph import Operator

_PRICES = 20_000  # number of operators in the cache


class PriceList(CostModel):
    """A cost model that caches prices: operators that a split does not change are not priced again."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self._known: dict[str, dict[int, tuple[Operator, float]]] = {}

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] run times on a device [s]."""
        known = self._known.setdefault(device.name, {})
        if len(known) > _PRICES:
            known.clear()
        new = [op for op in operators if id(op) not in known]
        if new:
            priced = self.model.predict(new, device).tolist()
            known.update((id(op), (op, seconds)) for op, seconds in zip(new, priced, strict=True))
        return np.array([known[id(op)][1] for op in operators], np.float64)

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile, as the model gives them."""
        return self.model.spread(operators, device)

    def __reduce__(self) -> tuple[type[PriceList], tuple[CostModel]]:
        return PriceList, (self.model,)  # ids of operators have no meaning in another process
