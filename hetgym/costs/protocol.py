"""CostModel: the interface of all models of operator run times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hetgym._types import FloatArray
from hetgym.device import Device
from hetgym.graph.ops import Operator


@runtime_checkable
class CostModel(Protocol):
    """Prices many operators on a device at once."""

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """Expected run times.

        Args:
            operators: n operators.
            device: one device of a platform.

        Returns:
            [n] seconds; inf = the operator cannot run on the device.
        """
        ...

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Percentiles of run times, whose scatter :meth:`predict` does not show.

        Args:
            operators: n operators.
            device: one device of a platform.

        Returns:
            The tenth and the ninetieth percentile, [n] seconds each.
        """
        ...
