"""CostModel: the interface of all models of operator run times."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hetgym._types import FloatArray
from hetgym.costs.explanation import Explanation, Ledger
from hetgym.costs.features import times
from hetgym.device import Device
from hetgym.graph.ops import Operator


@runtime_checkable
class CostModel(Protocol):
    """Prices many operators on a device at once."""

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] expected run times on one device of a platform [s]; inf = the operator cannot run on the device."""
        ...

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """[n] tenth and [n] ninetieth percentile of run times [s], whose scatter :meth:`predict` does not show."""
        ...

    def explain(self, operator: Operator, device: Device) -> Explanation:
        """Why an operator has its price: which model, class, bound and rules made it.

        Price and percentiles are those of :meth:`predict` and :meth:`spread`, bit for bit. This default serves models
        that do not explain their prices: it compares the price with the data sheet's bound.
        """
        (seconds,) = self.predict([operator], device).tolist()
        spread = getattr(self, "spread", None)
        (low,), (high,) = spread([operator], device) if callable(spread) else ([seconds], [seconds])
        ledger = Ledger(rules=["the model does not explain its prices; the bound is that of the data sheet"])
        ledger.priced("", max(times(operator, device)), seconds)
        return ledger.explanation(type(self).__name__, operator, device, (seconds, low, high))
