r"""Laws of language models: how long programs such as llama.cpp take to decode a token, and to read a prompt.

Decoding reads all weights that a token passes through, and the cache. A layer takes

.. math:: t = \frac{\text{bytes}}{e \cdot \text{bandwidth}} + c,

with the share :math:`e` of the data sheet's bandwidth, and a constant :math:`c` for the launches of its kernels, which
small and sparse models pay. Where conversion of blocks takes longer than their bytes, as on old GPUs, it counts
instead. A prompt is arithmetic: its FLOPs over a share of the peak in 16 bits, since blocks are converted in
registers.

``studies/language_models/rates.py`` fits the share and the constant of dense models on GPUs to public rates of people's
machines, and reports further rates to which nothing was fitted. All other constants were chosen on few public rows,
which therefore do not test them: those of mixtures, prompts, quantised caches, CPUs, data-centre GPUs and shared
memories. Which boards form a class was seen from where the law of one share and one constant erred.
"""

import re
from typing import NamedTuple

from hetgym.costs.rates import peak_flops
from hetgym.device import Device
from hetgym.graph.formats import FORMATS
from hetgym.graph.ops import DTYPE_BYTES


class Pace(NamedTuple):
    """Constants of a kind of device."""

    share: float  # of the bandwidth that decoding reaches
    dense: float  # time of a layer beside its bytes [s]
    mixture: float  # the same of a layer with experts [s]
    peak: float  # share of the peak that a prompt reaches in a wide model
    attention: float  # share of the peak that attention to a cache reaches
    prompt_attention: float = 1.0  # speed of attention in a prompt over that of products of a wide model
    experts: float = 1.0  # speed at which the chosen experts are read over that of other weights
    linear: float = 0.0  # time that a layer of linear attention takes beside that of another [s]


PACES = {
    "gpu": Pace(0.895, 63e-6, 80e-6, 0.9, 1.0),
    "shared": Pace(0.77, 63e-6, 80e-6, 0.9, 1.0),
    "datacentre": Pace(0.6, 63e-6, 80e-6, 0.3, 1.0),
    "amd": Pace(0.895, 63e-6, 80e-6, 0.45, 1.0, linear=100e-6),
    "amd shared": Pace(0.77, 63e-6, 80e-6, 0.25, 1.0, linear=100e-6),
    "apple": Pace(0.895, 63e-6, 145e-6, 0.75, 1.0, prompt_attention=0.3),
    "apple ultra": Pace(0.8, 100e-6, 180e-6, 0.75, 1.0, prompt_attention=0.3),
    "cpu": Pace(0.7, 0.0, 0.0, 0.5, 0.15, experts=0.75),
}  # fmt: skip
"""Class of devices -> constants: GPUs; those of AMD and Apple, under ROCm and Metal, of two chips those called Ultra;
those that share the memory of a CPU; those for large batches (:data:`DATACENTRE`); CPUs."""

EARLY = re.compile(r"NVIDIA .*\b(RTX 50\d\d|RTX PRO|GB\d\d|B\d00)\b")
"""Models of GPUs that start a kernel before the last one has ended."""

EARLY_LAYER = 39e-6  # Time of a layer beside its bytes on them [s]

CONVERSION, PLAIN_CONVERSION = 27.0, 21.0
"""FLOPs to convert a weight stored in blocks, and in blocks with one scale and no offset, on a GPU that computes with
integers and floats in turn."""

PLAIN_BLOCKS = ("q4_0", "q8_0")

IN_TURN = re.compile(r"Apple M[12]\b|NVIDIA .*\b(GTX 10\d\d|P\d{1,3})\b")
"""Models of GPUs that compute with integers and floats in turn: later ones convert beside their other arithmetic."""

DATACENTRE = 6.0
"""Peak in 16 bits over that in 32 from which a GPU is built for large batches: one sequence keeps neither its many
channels of memory busy nor its matrix units."""

ACCUMULATED = 2.0
"""Peak in 16 bits over that in 32 beyond which a GPU of less than :data:`DATACENTRE` reads prompts no faster: its power
is spent, though workstation boards state twice as much."""

NARROW = 1000
"""Width at which a prompt reaches half of what it does in a wide model: narrow products fill no GPU."""

MIXTURE_PEAK = 0.5  # share of the rate of a prompt's dense products that those of experts reach

CACHE_SHARES = {"float32": 1.0, "float16": 1.0, "bfloat16": 1.0, "float8": 1.0, "q8_0": 0.85}
"""Format of a cache -> speed at which its numbers are read, over that of 16 bits; :data:`SLOW_CACHE` of all others.

Quantised caches are converted while they are read: they save memory, not time.
"""

SLOW_CACHE = 0.75

LOW, HIGH = 0.85, 1.08
"""Factors of a rate between which seven of ten measured ones lie: drivers and builds differ."""


def pace(device: Device) -> Pace:
    """The constants of a device; an NPU has those of a GPU."""
    maker = device.model.partition(" ")[0].lower()
    if device.kind == "cpu":
        return PACES["cpu"]
    if maker == "apple":
        return PACES["apple ultra" if device.model.endswith("Ultra") else "apple"]
    if datacentre(device):
        return PACES["datacentre"]
    words = ("amd" if maker == "amd" else "", "shared" if device.memory_pool else "")
    own = PACES[" ".join(filter(None, words)) or "gpu"]
    return own._replace(dense=EARLY_LAYER) if EARLY.search(device.model) else own


def datacentre(device: Device) -> bool:
    """Whether a GPU is built for large batches; see :data:`DATACENTRE`."""
    return peak_flops(device, "float16") >= DATACENTRE * peak_flops(device, "float32") > 0


def conversion(dtype: str) -> float:
    """FLOPs to convert a weight of a format; 0 unless it is stored in blocks."""
    return 0.0 if dtype not in FORMATS else PLAIN_CONVERSION if dtype in PLAIN_BLOCKS else CONVERSION


def convert_seconds(device: Device, flops: float) -> float:
    """Time to convert weights that are stored in blocks, where no other arithmetic hides it; else 0 [s]."""
    return flops / peak_flops(device, "float32") if IN_TURN.search(device.model) else 0.0


def read_seconds(device: Device, moved: float, flops: float = 0.0) -> float:
    """Time to read some weights while decoding [s].

    Args:
        moved: their bytes.
        flops: FLOPs of their :func:`conversion`.
    """
    return max(moved / (pace(device).share * device.memory_bandwidth), convert_seconds(device, flops))


def expert_seconds(device: Device, moved: float, flops: float = 0.0) -> float:
    """As :func:`read_seconds`, for the weights of the experts that a token passes through [s]."""
    return read_seconds(device, moved, flops) / pace(device).experts


def layer_seconds(device: Device, moved: float, flops: float, experts: bool, linear: bool) -> float:
    """Time of a layer while decoding one token of one sequence, without its cache and experts [s].

    Args:
        moved: bytes of its other weights.
        flops: FLOPs of their :func:`conversion`.
        experts: whether it has experts.
        linear: whether its attention is linear.
    """
    own = pace(device)
    constant = (own.mixture if experts else own.dense) + (own.linear if linear else 0.0)
    return read_seconds(device, moved, flops) + constant


def cache_seconds(device: Device, numbers: float, dtype: str, flops: float) -> float:
    """Time to attend to cached keys and values, by their numbers, format and arithmetic [s]."""
    size = max(2.0, DTYPE_BYTES[dtype]) if dtype != "float8" else 1.0
    own, speed = pace(device), CACHE_SHARES.get(dtype, SLOW_CACHE)
    return max(read_seconds(device, numbers * size) / speed, flops / (own.attention * peak_flops(device, "float32")))


def prompt_seconds(device: Device, flops: float, hidden: int, attention: float = 0.0) -> float:
    """Time of some arithmetic of a prompt [s].

    Args:
        flops: FLOPs of products with weights, in a model whose residual stream is ``hidden`` wide.
        attention: FLOPs of attention.
    """
    own, peak = pace(device), peak_flops(device, "float32")
    narrow = 0 if device.kind == "cpu" else NARROW
    if device.kind != "cpu":
        half = max(peak, peak_flops(device, "float16"))
        bounded = own.peak == PACES["gpu"].peak and peak > 0
        peak = min(half, ACCUMULATED * peak) if bounded else half
    if peak <= 0:
        return float("inf")
    return (flops * (hidden + narrow) / hidden + attention / own.prompt_attention) / (own.peak * peak)
