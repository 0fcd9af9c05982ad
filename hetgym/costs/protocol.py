"""CostModel: what every model of operator run times offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hetgym._types import FloatArray
from hetgym.device import Device
from hetgym.graph.ops import Operator


@runtime_checkable
class CostModel(Protocol):
    """Says how long operators take on a device, many at once."""

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
        """How far run times scatter around :meth:`predict`.

        Returns:
            The tenth and the ninetieth percentile, [n] seconds each.
        """
        ...
