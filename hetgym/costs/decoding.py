r"""Laws of language models: how long programs such as llama.cpp take to decode a token, and to read a prompt.

Decoding reads all weights that a token passes through, and the cache. A layer takes

.. math:: t = \frac{\text{bytes}}{e \cdot \text{bandwidth}} + c,

with the share :math:`e` of the data sheet's bandwidth, and a constant :math:`c` for the launches of its kernels, which
small and sparse models pay. A prompt is arithmetic: its FLOPs over a share of the peak in 16 bits, since blocks are
converted in registers.

``studies/language_models/rates.py`` fits the share and the constant of dense models on GPUs to public rates of people's
machines. All other constants were chosen on few public rows, which therefore do not test them: those of mixtures,
prompts, quantised caches and CPUs.
"""

from typing import NamedTuple

from hetgym.costs.rates import peak_flops
from hetgym.device import Device
from hetgym.graph.ops import DTYPE_BYTES


class Pace(NamedTuple):
    """Constants of a kind of device."""

    share: float  # of the bandwidth that decoding reaches
    dense: float  # time of a layer beside its bytes [s]
    mixture: float  # the same of a layer with experts [s]
    peak: float  # share of the peak that a prompt reaches in a wide model
    attention: float  # share of the peak that attention to a cache reaches


PACES = {
    "gpu": Pace(0.87, 54e-6, 80e-6, 0.9, 1.0),
    "amd": Pace(0.87, 54e-6, 80e-6, 0.45, 1.0),
    "apple": Pace(0.87, 54e-6, 145e-6, 0.75, 1.0),
    "cpu": Pace(0.5, 0.0, 0.0, 0.3, 0.15),
}  # fmt: skip
"""Kind -> constants: GPUs under CUDA, those of AMD under ROCm, those of Apple under Metal, CPUs."""

NARROW = 1000
"""Width at which a prompt reaches half of what it does in a wide model: narrow products do not fill a GPU."""

MIXTURE_PEAK = 0.5  # share of the rate of a prompt's dense products that those of experts reach

CACHE_SHARES = {"float32": 1.0, "float16": 1.0, "bfloat16": 1.0, "float8": 1.0, "q8_0": 0.85}
"""Format of a cache -> speed at which its numbers are read, over that of 16 bits; :data:`SLOW_CACHE` of all others.

Quantised caches are converted while they are read: they save memory, not time.
"""

SLOW_CACHE = 0.75

LOW, HIGH = 0.85, 1.08
"""Factors of a rate between which seven of ten measured ones lie: drivers and builds differ."""


def pace(device: Device) -> Pace:
    """The constants of a device, by the maker that its model names; an NPU has those of a GPU."""
    if device.kind == "cpu":
        return PACES["cpu"]
    return PACES.get(device.model.partition(" ")[0].lower(), PACES["gpu"])


def read_seconds(device: Device, moved: float) -> float:
    """Time to read some bytes while decoding [s]."""
    return moved / (pace(device).share * device.memory_bandwidth)


def layer_seconds(device: Device, moved: float, experts: bool) -> float:
    """Time of a layer that reads some bytes while decoding one token of one sequence [s]."""
    own = pace(device)
    return read_seconds(device, moved) + (own.mixture if experts else own.dense)


def cache_seconds(device: Device, numbers: float, dtype: str, flops: float) -> float:
    """Time to attend to cached keys and values, by their numbers, format and arithmetic [s]."""
    size = max(2.0, DTYPE_BYTES[dtype]) if dtype != "float8" else 1.0
    own, speed = pace(device), CACHE_SHARES.get(dtype, SLOW_CACHE)
    return max(read_seconds(device, numbers * size) / speed, flops / (own.attention * peak_flops(device, "float32")))


def prompt_seconds(device: Device, flops: float, hidden: int) -> float:
    """Time of some arithmetic of a prompt in a model whose residual stream is ``hidden`` wide [s]."""
    peak = peak_flops(device, "float32" if device.kind == "cpu" else "float16")
    share = pace(device).peak * hidden / (hidden + NARROW)
    return flops / (share * peak) if peak > 0 else float("inf")
