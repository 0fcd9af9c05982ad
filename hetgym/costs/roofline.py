"""Roofline: run time from a data sheet alone."""

import math
from collections.abc import Sequence

import numpy as np

from hetgym._types import FloatArray
from hetgym.costs.explanation import Explanation, Ledger, Priced
from hetgym.costs.rates import arithmetic, peak_flops, quantised, widened
from hetgym.device import Device
from hetgym.graph.ops import Operator

EFFICIENCY: dict[str, dict[str, float]] = {
    "cpu": {"conv": 0.6, "matmul": 0.7, "recurrent": 0.4, "pool": 0.1, "elementwise": 0.2, "reduce": 0.2,
            "normalise": 0.1, "move": 0.1, "generic": 0.5},
    "gpu": {"conv": 0.6, "matmul": 0.7, "recurrent": 0.25, "pool": 0.1, "elementwise": 0.1, "reduce": 0.1,
            "normalise": 0.1, "move": 0.1, "generic": 0.5},
    "npu": {"conv": 0.6, "matmul": 0.6, "recurrent": 0.2, "pool": 0.05, "elementwise": 0.05, "reduce": 0.05,
            "normalise": 0.05, "move": 0.05, "generic": 0.3},
}  # fmt: skip
"""Default fraction of the peak by device kind and operator family, for devices that do not state their own.

* conv, matmul: tuned kernels reach 0.5 to 0.8 of the peak on shapes that fill the device.
* recurrent: small products, each waiting for the previous step; the wider the device, the lower its utilisation.
* elementwise, reduce, normalise, pool: no fused multiply-adds and no matrix unit. A matrix unit's peak
  is the NPU's only published one, hence the smallest fractions there.
* move: copies count no FLOPs, so the fraction never matters.
* generic: operators that state a number of FLOPs but not their kind.

Operators that are slow because they are memory-bound, such as depthwise convolutions, need no fraction of their own:
the roofline covers them.
"""

MEMORY_EFFICIENCY: dict[str, float] = {"cpu": 0.7, "gpu": 0.8, "npu": 0.7}
"""Default fraction of the memory bandwidth, for devices that do not state their own: that of STREAM-like copies."""


def efficiency(device: Device, family: str) -> float:
    """Fraction of the peak that a family of operators reaches: the device's own if it states one, else the default."""
    return device.efficiency.get(family, EFFICIENCY[device.kind].get(family, 1.0))


class Roofline:
    """Launch overhead plus the slower of arithmetic and memory (Williams et al., CACM 52(4), 2009).

    seconds = launch + max(FLOPs / (peak x efficiency), bytes / (bandwidth x memory efficiency))

    The roofline needs no measurements and prices every operator of the vocabulary. On single operators it is wrong by a
    factor of up to about two. Views (reshape, flatten, …) move no data and cost 0.
    Operators of family ``generic`` compute in float32 whatever their tensors hold.

    >>> from hetgym import load_platform
    >>> from hetgym.graph import Operator, Tensor
    >>> x = Tensor((1024, 1024))
    >>> product = Operator("product", "MatMul", (x, x), (x,))
    >>> platform = load_platform("cpu-gpu")
    >>> [f"{Roofline().predict([product], device)[0]:.2e}" for device in platform]
    ['1.50e-03', '2.24e-04']
    """

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] run times [s]; inf for arithmetic in a dtype that the device cannot compute in."""
        return np.array(_seconds(operators, device))

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile: both the prediction itself, since data sheets state no scatter."""
        seconds = self.predict(operators, device)
        return seconds, seconds.copy()

    def explain(self, operator: Operator, device: Device) -> Explanation:
        """Why an operator has its price; see :class:`~hetgym.costs.protocol.CostModel`."""
        ledger = Ledger()
        (seconds,) = _seconds([operator], device, ledger)
        return ledger.explanation("roofline", operator, device, (seconds,) * 3)


def by_roofline(
    operators: Sequence[Operator], device: Device, ledger: Ledger | None = None, why: str = ""
) -> FloatArray:
    """[n, 3] prices of operators that another model leaves to the roofline, thrice; the ledger notes why."""
    if ledger is not None and why:
        ledger.say(why)
    seconds = np.array(_seconds(operators, device, ledger), np.float64)
    return np.stack([seconds, seconds, seconds], axis=1)


NO_GPU = "the device is not a GPU: the roofline prices it"

QUANTISED = "quantised weights were not measured: the roofline prices operators that read them"
"""Rule of explanations of models that were fitted to plain numbers."""


class PricedPlain(Priced):
    """Base of cost models that were fitted to plain numbers: the roofline prices operators with quantised constants."""

    def _rows(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        packed = np.array([quantised(op) for op in operators], np.bool_)
        if not packed.any():
            return super()._rows(operators, device, ledger)
        rows = np.zeros((len(operators), 3))
        some = [op for op, own in zip(operators, packed, strict=True) if own]
        rows[packed] = by_roofline(some, device, ledger, QUANTISED)
        if not packed.all():
            plain = [op for op, own in zip(operators, packed, strict=True) if not own]
            rows[~packed] = super()._rows(plain, device, ledger)
        return rows


def _seconds(operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> list[float]:
    """[n] run times by the roofline [s]."""
    working = zip(operators, _working(operators, device, ledger), strict=True)
    return [0.0 if op.spec.family == "view" else device.launch_overhead + took for op, took in working]


# Plain numbers: most calls price a few operators of a network that was split, for which arrays take longer to make.
def _working(operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> list[float]:
    """[n] the slower of arithmetic and memory, without the launch, and conversions to a wider dtype [s]."""
    share = MEMORY_EFFICIENCY[device.kind] if device.memory_efficiency is None else device.memory_efficiency
    bandwidth = device.memory_bandwidth * share
    rates: dict[tuple[str, str], float] = {}
    found = []
    for given in operators:
        op, converted = widened(given, device)
        family, dtype, flops = op.spec.family, op.dtype, op.flops
        if (family, dtype) not in rates:
            rates[family, dtype] = peak_flops(device, arithmetic(op)) * efficiency(device, family)
        rate = rates[family, dtype]
        compute = flops / rate if rate > 0 else math.inf if flops > 0 else 0.0
        slower = max(compute, (op.bytes_read + op.bytes_written) / bandwidth)
        found.append(slower + converted / bandwidth)
        if ledger is not None:
            ledger.by_roofline(op, slower, device.launch_overhead)
            ledger.widened(given, op, converted / bandwidth)
    return found


LEAST_OCCUPANCY = 1e-6  # Occupancy of an operator that does next to nothing with the device


def occupancy(operators: Sequence[Operator], device: Device, seconds: FloatArray) -> FloatArray:
    """[n] share of a device that each operator needs to run at full speed, in (0, 1].

    It is the share of its run time that its arithmetic would take, or its memory traffic if that takes longer, at the
    rates that its kind of operator sustains: near 1 for a large product, small for an operator of a few thousand
    elements, whose time is latency. It is 1 for operators that take no time or cannot run.

    Args:
        operators: n operators.
        device: the device.
        seconds: [n] their run times on the device, from any cost model; inf = cannot run [s].
    """
    timed = (seconds > 0) & np.isfinite(seconds)
    share = np.divide(_working(operators, device), seconds, out=np.ones(len(operators)), where=timed)
    return np.clip(share, LEAST_OCCUPANCY, 1.0)
