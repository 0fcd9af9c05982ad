"""Times of collectives between GPUs, without a graph: NCCL within a node and between nodes.

seconds = (latency + transfer) x exp(curve(log2(transfer / latency)))

* *latency*: ``start`` plus ``hop`` for each step, the time of the smallest message;
* *transfer*: bytes that a GPU must send, over the bandwidth of its link by the data sheet;
* *curve*: NCCL's protocols. It sends small messages with flags among the data, at a quarter to a half of the link's
  bandwidth, and large ones in pipelined chunks. The share that is reached depends on transfer / latency alone: the
  curves of A100 and H100 agree within a few per cent, although bandwidth and latency differ by a factor of 1.5 to 1.8.

The curves and the latencies of NVLink 3 and 4 are fitted to NVIDIA's aiconfigurator tables (Apache-2.0) of NCCL on
eight A100, H100 and H200; the result costs-collectives has the errors. Everything between nodes is an assumption.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._input.config import check_number
from hetgym._types import FloatArray
from hetgym.errors import PlatformError, check_name

FORMS = {
    "all-reduce": "ring",
    "all-gather": "half",
    "reduce-scatter": "half",
    "all-to-all": "all-to-all",
    "custom-all-reduce": "custom",
}
"""Collective -> the form whose curve it takes."""

KINDS = tuple(FORMS)
"""Collectives that can be priced. *custom-all-reduce* is that of vLLM in a captured graph: GPUs of one node read each
other's memory directly; from :data:`CUSTOM_LIMIT` on, and between nodes, it is NCCL's."""

CUSTOM_LIMIT = 8.0 * 2**20
"""Buffer from which vLLM leaves an all-reduce to NCCL [byte]: ``max_size`` of its custom_all_reduce.py."""

CUSTOM_HOP = 0.3e-6  # How much the smallest custom all-reduce takes longer when the number of GPUs doubles [s]

NETWORK_HOP = 5e-6
"""Time of a step between two nodes [s]: that of trees over a network in NCCL's tuning tables (src/graph/tuning.cc)."""

NETWORK_SHARE = 0.93
"""Share of a network adapter's bandwidth that large messages reach: NCCL's developers name 46 to 48 of 50 GB/s for one
NDR adapter (github.com/NVIDIA/nccl-tests, issue 290)."""

P2P_START = 1.2  # Start of an all-to-all over that of a ring


@dataclass(frozen=True)
class Links:
    """How the GPUs of a group reach each other; PlatformError about a figure that is not a positive number."""

    # bytes that one GPU can send to the others of its node, in one direction, by the data sheet [byte/s]
    bandwidth: float
    start: float  # time of a collective without its steps [s]
    hop: float  # time of a step between two GPUs of a node [s]
    switch: bool = False  # True if the node's switches add numbers themselves (NVLink SHARP)
    network: float = 25e9  # bytes that one GPU can send to other nodes: its share of the node's adapters [byte/s]
    network_hop: float = NETWORK_HOP  # time of a step between two nodes [s]
    # time of an all-reduce of GPUs that read each other's memory directly, without its steps [s]
    direct: float = 4.3e-6

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if name != "switch":
                check_number(value, f"links: {name}", PlatformError, positive=True)


LINKS: dict[str, Links] = {
    "nvlink2": Links(150e9, 8.1e-6, 1.0e-6, network=12.5e9, direct=4.6e-6),
    "nvlink3": Links(300e9, 8.1e-6, 1.0e-6, network=25e9, direct=4.6e-6),
    "nvlink4": Links(450e9, 4.5e-6, 0.86e-6, switch=True, network=50e9, direct=3.9e-6),
    "nvlink5": Links(900e9, 4.5e-6, 0.86e-6, switch=True, network=50e9, direct=3.9e-6),
    "pcie3": Links(16e9, 8.1e-6, 2.0e-6, network=12.5e9),
    "pcie4": Links(32e9, 8.1e-6, 2.0e-6, network=12.5e9),
    "pcie5": Links(64e9, 4.5e-6, 1.7e-6, network=25e9),
}
"""Generation of links -> its figures. Bandwidths are those of data sheets; ``network`` is one adapter for each GPU, as
in DGX systems of that generation. Latencies of nvlink3 (A100) and nvlink4 (H100, H200) are fitted. The others are
assumptions: those of the nearest generation, and twice the hop for PCIe, as in NCCL's tuning tables."""

Curves = Mapping[str, Mapping[int, Sequence[float]]]
"""Form of a collective -> number of GPUs -> a number for each of :data:`KNOTS`."""

KNOTS = np.arange(-10.0, 8.0)
"""log2(transfer / latency) at which curves are given; between them they are straight, beyond them constant."""

_STEEPEST = np.concatenate([[0.0], np.cumsum(math.log(2) / (1 + 2.0 ** -KNOTS[:-1]))])
"""By how much a curve may fall up to each knot without making a larger message faster than a smaller one."""

CURVES: Curves = {
    "ring": {
        2: (0.00, 0.07, 0.17, 0.20, 0.20, 0.20, 0.23, 0.36, 0.52, 0.86, 0.97, 0.73, 0.67, 0.63, 0.56, 0.48, 0.45, 0.38),
        4: (-0.01, 0.01, 0.09, 0.21, 0.19, 0.20, 0.14, 0.20, 0.36,
            0.52, 0.63, 0.53, 0.50, 0.45, 0.38, 0.35, 0.31, 0.27),
        8: (-0.01, -0.01, 0.04, 0.19, 0.23, 0.22, 0.18, 0.15, 0.31,
            0.45, 0.45, 0.46, 0.44, 0.40, 0.34, 0.32, 0.29, 0.27),
    },
    "half": {
        2: (-0.01, 0.14, 0.17, 0.17, 0.18, 0.20, 0.30, 0.37, 0.60,
            0.81, 1.00, 0.87, 0.82, 0.78, 0.70, 0.66, 0.63, 0.57),
        4: (0.01, 0.06, 0.16, 0.20, 0.21, 0.21, 0.20, 0.30, 0.43, 0.60, 0.95, 0.74, 0.62, 0.55, 0.51, 0.44, 0.41, 0.37),
        8: (0.00, 0.01, 0.07, 0.18, 0.23, 0.21, 0.16, 0.17, 0.36, 0.49, 0.58, 0.47, 0.49, 0.49, 0.35, 0.37, 0.30, 0.30),
    },
    "all-to-all": {
        2: (0.03, 0.18, 0.25, 0.46, 0.68, 0.76, 0.73, 0.64, 0.61, 0.62, 0.68, 0.76, 0.74, 0.57, 0.54, 0.51, 0.48, 0.44),
        4: (0.03, 0.05, 0.06, 0.16, 0.28, 0.48, 0.62, 0.60, 0.54, 0.50, 0.55, 0.62, 0.66, 0.56, 0.48, 0.45, 0.43, 0.41),
        8: (0.03, 0.11, 0.15, 0.16, 0.10, 0.20, 0.41, 0.48, 0.49, 0.47, 0.50, 0.55, 0.61, 0.54, 0.48, 0.42, 0.38, 0.36),
    },
    "switch": {
        8: (-0.04, -0.01, 0.11, 0.11, 0.13, 0.14, 0.11, 0.09, 0.23,
            0.42, 0.45, 0.47, 0.40, 0.30, 0.15, 0.06, 0.01, -0.01),
    },
    "custom": {
        2: (0.00, 0.01, 0.04, 0.07, 0.05, 0.04, 0.06, 0.08, 0.15, 0.22, 0.30, 0.33, 0.28, 0.23, 0.18, 0.13, 0.08, 0.03),
        4: (0.00, 0.01, 0.03, 0.06, 0.09, 0.09, 0.15, 0.26, 0.42, 0.60, 0.55, 0.50, 0.47, 0.44, 0.41, 0.38, 0.35, 0.32),
        8: (-0.01, 0.01, 0.16, 0.12, 0.11, 0.15, 0.30, 0.52, 0.67,
            0.65, 0.55, 0.44, 0.39, 0.41, 0.42, 0.43, 0.45, 0.46),
    },
}  # fmt: skip
"""log(seconds / (latency + transfer)): *ring* is an all-reduce, *half* an all-gather or a reduce-scatter, *switch* an
all-reduce in the node's switches, *custom* that of vLLM. Printed by ``scripts/fit/nccl.py fit``."""


def collective_seconds(
    kind: str, size: npt.ArrayLike, gpus: int, links: Links, nodes: int = 1, *, curves: Curves = CURVES
) -> FloatArray:
    """Times of collectives among GPUs that do nothing else.

    Args:
        kind: one of :data:`KINDS`.
        size: [r] bytes of the whole buffer: what every GPU holds before an all-reduce, a reduce-scatter or an
            all-to-all, and after an all-gather [byte].
        gpus: GPUs of the group.
        links: how they reach each other. Groups that communicate at the same time through the same adapters share
            ``network``: divide it before.
        nodes: nodes over which the GPUs are spread evenly.
        curves: those of another fit.

    Returns:
        [r] seconds, which do not fall with the size; 0 for a single GPU or an empty buffer.

    Raises:
        UnknownName: no such collective.
        PlatformError: a number of GPUs or nodes below 1, or GPUs that the nodes do not divide.
    """
    check_name("collective", kind, KINDS)
    check_number(gpus, "number of GPUs", PlatformError, minimum=1)
    check_number(nodes, "number of nodes", PlatformError, minimum=1)
    if gpus % nodes:
        raise PlatformError(f"{gpus} GPUs cannot be spread evenly over {nodes} nodes")
    bytes_ = np.maximum(np.atleast_1d(np.asarray(size, np.float64)), 0.0)
    if gpus == 1:
        return np.zeros(len(bytes_))
    if kind == "custom-all-reduce":
        library = collective_seconds("all-reduce", bytes_, gpus, links, nodes, curves=curves)
        if nodes > 1:
            return library
        return np.where(
            bytes_ < CUSTOM_LIMIT, np.minimum(_shaped(kind, bytes_, gpus, links, 1, curves), library), library
        )
    return _shaped(kind, bytes_, gpus, links, nodes, curves)


def _shaped(kind: str, bytes_: FloatArray, gpus: int, links: Links, nodes: int, curves: Curves) -> FloatArray:
    """Latency and transfer, times the curve [s]."""
    latency = latency_of(kind, gpus, links, nodes)
    transfer = bytes_ * seconds_per_byte(kind, gpus, links, nodes)
    position = np.log2(np.maximum(transfer, 1e-30) / latency)
    seconds = (latency + transfer) * np.exp(np.interp(position, KNOTS, _curve(kind, gpus, nodes, links, curves)))
    return np.where(bytes_ > 0, seconds, 0.0)


def latency_of(kind: str, gpus: int, links: Links, nodes: int = 1) -> float:
    """Time of the smallest message [s]: rings, or trees between the nodes where NCCL knows them and they are faster."""
    each = gpus // nodes
    if kind == "custom-all-reduce":
        return links.direct + CUSTOM_HOP * math.log2(gpus)
    if kind == "all-to-all":
        hop = links.hop if nodes == 1 else links.network_hop
        return P2P_START * links.start + hop * math.log2(gpus)
    rounds = 2 if kind == "all-reduce" else 1
    steps = (gpus - 1) * links.hop + (nodes - 1) * (links.network_hop - links.hop)
    if kind == "all-reduce" and nodes > 1:
        steps = min(steps, (each - 1) * links.hop + math.log2(nodes) * links.network_hop)
    return links.start + rounds * steps


def seconds_per_byte(kind: str, gpus: int, links: Links, nodes: int = 1) -> float:
    """Time for which the busiest link works, for each byte of the buffer [s]."""
    each = gpus // nodes
    if kind == "all-to-all":
        return max((each - 1) / gpus / links.bandwidth, (gpus - each) / gpus / links.network if nodes > 1 else 0.0)
    share = (2 if kind.endswith("all-reduce") else 1) * (gpus - 1) / gpus
    within = share / links.bandwidth if each > 1 else 0.0
    return max(within, share / (each * links.network) if nodes > 1 else 0.0)


def _curve(kind: str, gpus: int, nodes: int, links: Links, curves: Curves) -> FloatArray:
    """The curve at the knots: interpolated between the fitted numbers of GPUs; beyond them, that of the nearest."""
    rows = dict(curves[FORMS[kind]])
    if nodes == 1 and kind == "all-reduce" and links.switch:
        rows |= curves["switch"]
    sizes = sorted(rows)
    at = float(np.interp(math.log2(gpus), np.log2(sizes), np.arange(len(sizes))))
    low = math.floor(at)
    high = min(low + 1, len(sizes) - 1)
    curve = (1 - at + low) * np.array(rows[sizes[low]]) + (at - low) * np.array(rows[sizes[high]])
    if nodes > 1:  # large messages fill adapters better than they fill NVLink
        curve = curve * np.interp(KNOTS, (2.0, 7.0), (1.0, -math.log(NETWORK_SHARE) / curve[-1]))
    return np.asarray(np.maximum.accumulate(curve + _STEEPEST) - _STEEPEST, np.float64)


def all_reduce_seconds(size: float, gpus: int, links: Links, nodes: int = 1) -> float:
    """Time of one all-reduce [s]; arguments as for :func:`collective_seconds`.

    >>> round(1e6 * all_reduce_seconds(2**25, 8, LINKS["nvlink3"]))
    322
    """
    return float(collective_seconds("all-reduce", size, gpus, links, nodes)[0])


def all_gather_seconds(size: float, gpus: int, links: Links, nodes: int = 1) -> float:
    """Time of one all-gather of ``size`` bytes in all [s]; arguments as for :func:`collective_seconds`."""
    return float(collective_seconds("all-gather", size, gpus, links, nodes)[0])


def reduce_scatter_seconds(size: float, gpus: int, links: Links, nodes: int = 1) -> float:
    """Time of one reduce-scatter [s]; arguments as for :func:`collective_seconds`."""
    return float(collective_seconds("reduce-scatter", size, gpus, links, nodes)[0])


def all_to_all_seconds(size: float, gpus: int, links: Links, nodes: int = 1) -> float:
    """Time of one all-to-all [s]; arguments as for :func:`collective_seconds`."""
    return float(collective_seconds("all-to-all", size, gpus, links, nodes)[0])


def send_seconds(size: float, links: Links, nodes: int = 1) -> float:
    """Time to send ``size`` bytes to one GPU, of another node if ``nodes`` is 2: half of an all-to-all of two [s]."""
    return float(collective_seconds("all-to-all", 2 * size, 2, links, nodes)[0])
