"""Rates of a device in a dtype, and what a device without units for it does."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.device import Device
from hetgym.graph.formats import FORMATS
from hetgym.graph.ops import DTYPE_BYTES, Operator, Tensor

FALLBACK: dict[str, tuple[str, ...]] = {
    "float64": (), "float32": ("float16", "bfloat16"), "bfloat16": ("float32", "float16"),
    "float16": ("float32", "bfloat16"), "float8": ("float16", "bfloat16", "float32"),
    "uint8": ("int8", "float32", "float16"), "int4": ("int8", "float32", "float16"),
}  # fmt: skip
"""Dtype -> dtypes whose peak replaces its own on a device without it; the first that the device has is used.

Narrow floats are widened, as libraries do. Float32 on a device that computes in 16 bits only runs in 16 bits, as NPU
tool chains do by default. Other integers and booleans take the float32 rate, as vector units do. Float64 has no
fallback: a device without a rate for it cannot run operators in float64.
"""

PRODUCTS = ("conv", "matmul", "recurrent")  # Families that compute in matrix units, if the device has any for the dtype

NARROW = ("float16", "bfloat16", "float8")
"""Dtypes that a device without units for them converts to a wider one of :data:`FALLBACK` before a product."""

_OTHER = ("float32", "float16", "bfloat16")


def rate(device: Device, dtype: str) -> tuple[str, float]:
    """The dtype whose peak rate a device has for another one, and that rate [FLOP/s]; 0 if it cannot compute in it."""
    for candidate in (dtype, *FALLBACK.get(dtype, _OTHER)):
        if candidate in device.peak_flops:
            return candidate, device.peak_flops[candidate]
    return dtype, 0.0


def peak_flops(device: Device, dtype: str) -> float:
    """FLOP/s of a device in a dtype, with :data:`FALLBACK` where it states none; 0 if it cannot compute in it."""
    return rate(device, dtype)[1]


def quantised(operator: Operator) -> bool:
    """Whether a constant of an operator is kept in blocks that share scales."""
    return any(tensor.constant and tensor.dtype in FORMATS for tensor in operator.inputs)


def arithmetic(operator: Operator) -> str:
    """The dtype of an operator's arithmetic; those of family ``generic`` compute in float32 whatever they hold."""
    return "float32" if operator.spec.family == "generic" else operator.dtype


def widened(operator: Operator, device: Device, constants: bool = False) -> tuple[Operator, float]:
    """A product as a device without units for its narrow floats computes it, and the bytes that conversions move.

    Activations are converted through memory. Constants are converted in registers, so that a step
    reads each weight once, in its own format; ``constants`` widens them in memory, too. Anything but a product,
    and a product whose dtype the device can compute in, is returned unchanged with 0 bytes.

    >>> gpu = Device("v100", "gpu", {"float32": 15.7e12, "float16": 125e12}, 900e9)
    >>> x, w = Tensor((1024, 1024), "bfloat16"), Tensor((1024, 1024), "bfloat16", constant=True)
    >>> wide, moved = widened(Operator("product", "MatMul", (x, w), (x,)), gpu)
    >>> wide.dtype, wide.inputs[1].dtype, moved / 2**20
    ('float32', 'bfloat16', 12.0)
    """
    narrow = operator.dtype
    if operator.spec.family not in PRODUCTS or narrow in device.peak_flops or narrow not in NARROW:
        return operator, 0.0
    wide = next((dtype for dtype in FALLBACK[narrow] if dtype in device.peak_flops), narrow)
    ratio = DTYPE_BYTES[wide] / DTYPE_BYTES[narrow]
    if ratio <= 1:
        return operator, 0.0

    def convert(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        whole = (t.dtype in NARROW and (constants or not t.constant) for t in tensors)
        return tuple(replace(t, dtype=wide) if change else t for t, change in zip(tensors, whole, strict=True))

    attributes = dict(operator.attributes)
    reads = attributes.get("reads")
    if isinstance(reads, int | float):  # fused and backward products state their traffic
        fixed = 0.0 if constants else min(reads, operator.weight_bytes)
        attributes["reads"] = fixed + (reads - fixed) * ratio
    inputs, outputs = convert(operator.inputs), convert(operator.outputs)
    both = zip((*operator.inputs, *operator.outputs), (*inputs, *outputs), strict=True)
    moved = summed(before.bytes + after.bytes for before, after in both if before.dtype != after.dtype)
    return Operator(operator.name, operator.kind, inputs, outputs, attributes), float(moved)


def least_seconds(moved: FloatArray, device: Device, cache: float | None = None) -> FloatArray:
    """[n] seconds that the memory takes for the [n] bytes that operators move: no price is below that.

    An operator whose data fit the cache may find them there, in 0 seconds. One with more finds nothing, since what it
    needs next was always evicted longest ago. By default ``cache`` is what the device states, and 0 if it states none.
    """
    held = (device.cache_bytes or 0.0) if cache is None else cache
    return np.asarray(np.where(moved > held, moved, 0.0) / device.memory_bandwidth, np.float64)


def traffic(operators: Sequence[Operator]) -> FloatArray:
    """[n] bytes that operators read and write."""
    return np.array([op.bytes_read + op.bytes_written for op in operators], np.float64)
