"""AutoCosts: for each device the model that its description names, else the roofline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.costs import artefact, gpu_eager, gpu_gemm
from hetgym.costs.learned import LearnedCosts
from hetgym.costs.protocol import CostModel
from hetgym.costs.roofline import Roofline
from hetgym.device import Device
from hetgym.graph.ops import Operator


def load_costs(name: str | Path) -> CostModel:
    """Load a fitted cost model.

    Args:
        name: of a shipped one (:func:`hetgym.costs.artefact.names`), or the path of an ``.npz`` file.

    Raises:
        ArtefactError: no such model, or the file is damaged or tampered with.
    """
    path = artefact.locate(name)
    stat = path.stat()
    return _loaded(path, stat.st_mtime_ns, stat.st_size)


_FORMS: dict[str, Callable[[dict[str, Any], dict[str, npt.NDArray[Any]], str], CostModel]] = {
    gpu_eager.MODEL: gpu_eager.EagerGpuCosts.of_parts,
    gpu_gemm.MODEL: gpu_gemm.GemmCosts.of_parts,
}
"""What the header of an artefact says it is -> what reads it; all else are models by class of operators."""


@lru_cache(maxsize=32)
def _loaded(path: Path, changed: int, size: int) -> CostModel:
    header, arrays = artefact.load(path)
    build = _FORMS.get(str(header.get("model")), LearnedCosts.of_parts)
    return build(header, arrays, str(path))


class AutoCosts:
    """The best that is known of each device: a fitted model where its description names one."""

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """Run times on a device; see :class:`~hetgym.costs.protocol.CostModel`.

        Raises:
            ArtefactError: the device names a model that there is not.
        """
        return self._of(device).predict(operators, device)

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile; see :class:`~hetgym.costs.protocol.CostModel`."""
        return self._of(device).spread(operators, device)

    def _of(self, device: Device) -> CostModel:
        return load_costs(device.costs) if device.costs else Roofline()
