"""AutoCosts: for each device the fitted models that its description names, or the roofline."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.costs import artefact
from hetgym.costs.explanation import Explanation
from hetgym.costs.gpu import eager as gpu_eager
from hetgym.costs.gpu import gemm as gpu_gemm
from hetgym.costs.gpu import half as gpu_half
from hetgym.costs.learned import LearnedCosts
from hetgym.costs.phone import costs as phone
from hetgym.costs.protocol import CostModel
from hetgym.costs.rates import NARROW, quantised, widened
from hetgym.costs.roofline import Roofline
from hetgym.device import Device
from hetgym.graph.ops import Operator


def load_costs(name: str | Path) -> CostModel:
    """Load a shipped cost model by name or an ``.npz`` file by path; ArtefactError if it is missing or damaged."""
    path = artefact.locate(name)
    stat = path.stat()
    return _loaded(path, stat.st_mtime_ns, stat.st_size)


_FORMS: dict[str, Callable[[dict[str, Any], dict[str, npt.NDArray[Any]], str], CostModel]] = {
    gpu_eager.MODEL: gpu_eager.EagerGpuCosts.of_parts,
    gpu_gemm.MODEL: gpu_gemm.GemmCosts.of_parts,
    gpu_half.MODEL: gpu_half.HalfGpuCosts.of_parts,
    phone.MODEL: phone.PhoneCosts.of_parts,
}
"""Kind of model in an artefact's header -> its reader; any other kind is read as :class:`LearnedCosts`."""


@lru_cache(maxsize=32)
def _loaded(path: Path, changed: int, size: int) -> CostModel:
    header, arrays = artefact.load(path)
    build = _FORMS.get(str(header.get("model")), LearnedCosts.of_parts)
    return build(header, arrays, str(path))


class AutoCosts:
    """The best known models of each device: the fitted ones that its description names, or the roofline.

    Where one model prices 16 bits and another one float32, no product or attention is dearer in 16 bits than in
    float32: its price is the smaller one.
    """

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """See :class:`~hetgym.costs.protocol.CostModel`; ArtefactError if the device names an unknown model."""
        if not device.half_costs:
            return _model(device.costs).predict(operators, device)
        seconds = np.zeros(len(operators))
        for model, at in self._models(operators, device):
            seconds[at] = model.predict([operators[i] for i in at], device)
        model, at, wide = self._in_float32(operators, device)
        if at:
            seconds[at] = np.minimum(seconds[at], model.predict(wide, device))
        return seconds

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile; see :class:`~hetgym.costs.protocol.CostModel`."""
        low, high = np.zeros(len(operators)), np.zeros(len(operators))
        for model, at in self._models(operators, device):
            low[at], high[at] = model.spread([operators[i] for i in at], device)
        model, at, wide = self._in_float32(operators, device)
        if at:
            lower, upper = model.spread(wide, device)
            low[at], high[at] = np.minimum(low[at], lower), np.minimum(high[at], upper)
        return low, high

    def explain(self, operator: Operator, device: Device) -> Explanation:
        """Why an operator has its price; see :class:`~hetgym.costs.protocol.CostModel`."""
        if not device.half_costs:
            return named(_model(device.costs).explain(operator, device), device.costs)
        (half,) = _by_half_costs([operator], device)
        ((model, _),) = self._models([operator], device)
        found = named(model.explain(operator, device), device.half_costs if half else device.costs)
        if half:
            found = replace(found, rules=(f"half_costs of the device prices {operator.dtype}", *found.rules))
        model, at, wide = self._in_float32([operator], device)
        if not at:
            return found
        other = named(model.explain(wide[0], device), device.costs)
        rule = (
            f"no dearer than in float32: {found.seconds:.4g} s by {found.model}, {other.seconds:.4g} s by {other.model}"
        )
        chosen = replace(other, rules=(rule, *other.rules)) if other.seconds < found.seconds else found
        return replace(chosen, low=min(found.low, other.low), high=min(found.high, other.high))

    def _models(self, operators: Sequence[Operator], device: Device) -> list[tuple[CostModel, list[int]]]:
        """Models of the device, each with the numbers of the operators that it prices."""
        narrow = _by_half_costs(operators, device)
        names = {False: device.costs, True: device.half_costs}
        return [
            (_model(name), [i for i, half in enumerate(narrow) if half == kind])
            for kind, name in names.items()
            if kind in narrow or not (kind or operators)
        ]

    def _in_float32(self, operators: Sequence[Operator], device: Device) -> tuple[CostModel, list[int], list[Operator]]:
        """The float32 model of a device with another one for 16 bits; numbers of the products; these in float32."""
        if not (device.costs and device.half_costs) or "float32" not in device.peak_flops:
            return Roofline(), [], []
        rates = {dtype: rate for dtype, rate in device.peak_flops.items() if dtype not in NARROW}
        plain = replace(device, peak_flops=rates)
        narrow = _by_half_costs(operators, device)
        found = enumerate(operators)
        at = [i for i, op in found if narrow[i] and op.spec.family == "matmul" and not quantised(op)]
        return load_costs(device.costs), at, [widened(operators[i], plain, constants=True)[0] for i in at]


def _model(name: str) -> CostModel:
    """The model of a name; without one the roofline."""
    return load_costs(name) if name else Roofline()


def named(found: Explanation, name: str) -> Explanation:
    """An explanation by a model that was loaded by a name; unchanged without one."""
    return replace(found, model=name) if name else found


def _by_half_costs(operators: Sequence[Operator], device: Device) -> list[bool]:
    """For each operator, true if the device's ``half_costs`` prices it."""
    if not device.half_costs or device.peak_flops.keys().isdisjoint(NARROW):
        return [False] * len(operators)
    return [op.dtype in NARROW for op in operators]
