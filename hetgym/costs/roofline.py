"""Roofline: run time from a data sheet alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetgym._types import FloatArray
from hetgym.device import Device
from hetgym.graph.ops import DTYPE_BYTES, Operator, Tensor

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
* recurrent: small products, each of which waits for the previous step; the wider the device, the lower its utilisation.
* elementwise, reduce, normalise, pool: no fused multiply-adds and no matrix unit. A matrix unit's peak
  is the NPU's only published one, hence the smallest fractions there.
* move: copies count no FLOPs, so the fraction never matters.
* generic: operators that state a number of FLOPs but not their kind.

Operators that are slow because they are memory-bound, such as depthwise convolutions, need no fraction of their own:
the roofline covers them.
"""

MEMORY_EFFICIENCY: dict[str, float] = {"cpu": 0.7, "gpu": 0.8, "npu": 0.7}
"""Default fraction of the memory bandwidth, for devices that do not state their own: that of STREAM-like copies."""

FALLBACK: dict[str, tuple[str, ...]] = {
    "float64": (),
    "float32": ("float16", "bfloat16"),
    "bfloat16": ("float32", "float16"),
    "float16": ("float32", "bfloat16"),
    "float8": ("float16", "bfloat16", "float32"),
    "uint8": ("int8", "float32", "float16"),
    "int4": ("int8", "float32", "float16"),
}
"""Dtype -> dtypes whose peak it takes on a device that has no peak for it; the first one that the device has counts.

Narrow floats are widened, as libraries do. Float32 on a device that computes in 16 bits only runs in 16 bits, as NPU
tool chains do by default. Other integers and booleans take the float32 rate, as vector units do. Float64 has no
fallback: a device without a rate for it cannot run operators in float64.
"""

PRODUCTS = ("conv", "matmul", "recurrent")
"""Families that compute in matrix units, if the device has any for the dtype."""

NARROW = ("float16", "bfloat16", "float8")
"""Dtypes that a device without units for them converts to a wider one of :data:`FALLBACK` before a product."""

_OTHER = ("float32", "float16", "bfloat16")


def peak_flops(device: Device, dtype: str) -> float:
    """Peak rate of a device for a dtype, with :data:`FALLBACK` where the data sheet has none.

    Returns:
        FLOP/s; 0 if the device cannot compute in that dtype.
    """
    for candidate in (dtype, *FALLBACK.get(dtype, _OTHER)):
        if candidate in device.peak_flops:
            return device.peak_flops[candidate]
    return 0.0


def efficiency(device: Device, family: str) -> float:
    """Fraction of the peak that a family of operators reaches: the device's own if it states one, else the default."""
    return device.efficiency.get(family, EFFICIENCY[device.kind].get(family, 1.0))


def widened(operator: Operator, device: Device) -> tuple[Operator, float]:
    """A product as a device without units for its narrow floats computes it: in a wider dtype, between conversions.

    Args:
        operator: any operator.
        device: the device.

    Returns:
        The operator with all its tensors in the wider dtype, and the bytes that conversions read and write. Anything
        but a product, and a product whose dtype the device can compute in, is returned unchanged with 0 bytes.

    >>> gpu = Device("v100", "gpu", {"float32": 15.7e12, "float16": 125e12}, 900e9)
    >>> x = Tensor((1024, 1024), "bfloat16")
    >>> wide, moved = widened(Operator("product", "MatMul", (x, x), (x,)), gpu)
    >>> wide.dtype, moved / 2**20
    ('float32', 18.0)
    """
    narrow = operator.dtype
    if operator.spec.family not in PRODUCTS or narrow in device.peak_flops or narrow not in NARROW:
        return operator, 0.0
    wide = next((dtype for dtype in FALLBACK[narrow] if dtype in device.peak_flops), narrow)
    ratio = DTYPE_BYTES[wide] / DTYPE_BYTES[narrow]
    if ratio <= 1:
        return operator, 0.0

    def convert(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(replace(t, dtype=wide) if t.dtype in NARROW else t for t in tensors)

    attributes = dict(operator.attributes)
    reads = attributes.get("reads")
    if isinstance(reads, int | float):  # fused and backward products state their traffic
        attributes["reads"] = reads * ratio
    inputs, outputs = convert(operator.inputs), convert(operator.outputs)
    both = zip((*operator.inputs, *operator.outputs), (*inputs, *outputs), strict=True)
    moved = sum(before.bytes + after.bytes for before, after in both if before.dtype != after.dtype)
    return Operator(operator.name, operator.kind, inputs, outputs, attributes), float(moved)


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
        """Run times on a device.

        Returns:
            [n] seconds; inf for arithmetic in a dtype that the device cannot compute in.
        """
        working = zip(operators, _working(operators, device), strict=True)
        return np.array([0.0 if op.spec.family == "view" else device.launch_overhead + took for op, took in working])

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile: both the prediction itself, since data sheets state no scatter."""
        seconds = self.predict(operators, device)
        return seconds, seconds.copy()


# Plain numbers: most calls price a few operators of a network that was split, for which arrays take longer to make.
def _working(operators: Sequence[Operator], device: Device) -> list[float]:
    """[n] the slower of arithmetic and memory, without the launch, and conversions to a wider dtype [s]."""
    share = MEMORY_EFFICIENCY[device.kind] if device.memory_efficiency is None else device.memory_efficiency
    bandwidth = device.memory_bandwidth * share
    rates: dict[tuple[str, str], float] = {}
    found = []
    for given in operators:
        op, converted = widened(given, device)
        family, dtype, flops = op.spec.family, op.dtype, op.flops
        if (family, dtype) not in rates:
            peak = peak_flops(device, "float32" if family == "generic" else dtype)
            rates[family, dtype] = peak * efficiency(device, family)
        rate = rates[family, dtype]
        arithmetic = flops / rate if rate > 0 else math.inf if flops > 0 else 0.0
        found.append(max(arithmetic, (op.bytes_read + op.bytes_written) / bandwidth) + converted / bandwidth)
    return found


LEAST_OCCUPANCY = 1e-6
"""Occupancy of an operator that does next to nothing with the device."""


def occupancy(operators: Sequence[Operator], device: Device, seconds: FloatArray) -> FloatArray:
    """Share of a device that each operator needs to run at full speed.

    It is the share of its run time that its arithmetic would take, or its memory traffic if that takes longer, at the
    rates that its kind of operator sustains: near 1 for a large product, small for an operator of a few thousand
    elements, whose time is latency.

    Args:
        operators: n operators.
        device: the device.
        seconds: [n] their run times on the device, from any cost model; inf = cannot run [s].

    Returns:
        [n] shares in (0, 1]; 1 for operators that take no time or cannot run.
    """
    timed = (seconds > 0) & np.isfinite(seconds)
    share = np.divide(_working(operators, device), seconds, out=np.ones(len(operators)), where=timed)
    return np.clip(share, LEAST_OCCUPANCY, 1.0)
