"""Networks of clusters: times of transfers and all-reduces within a node and between nodes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from hetgym._input.config import check_number
from hetgym.costs.collectives import Links, all_gather_seconds, all_reduce_seconds, send_seconds
from hetgym.errors import PlatformError


class Network(Protocol):
    """How the GPUs of a pool reach each other, and GPUs of other pools."""

    def send(self, size: float, nodes: int) -> float:
        """Time of a transfer of ``size`` bytes within a node (``nodes`` is 1) or to another node (2) [s]."""
        ...

    def all_reduce(self, size: float, gpus: int, nodes: int) -> float:
        """Time of an all-reduce of ``size`` bytes over GPUs that are spread over nodes as evenly as can be [s].

        Nodes may have one GPU less than others: their adapters are then the bottleneck.
        """
        ...

    def gather(self, size: float, gpus: int, nodes: int) -> float:
        """Time of an all-gather, or a reduce-scatter, of ``size`` bytes of all GPUs together [s]."""
        ...


@dataclass(frozen=True)
class Nccl:
    """NCCL by the figures of the links, see :mod:`hetgym.costs.collectives`."""

    links: Links  # the links of a node and its adapters

    def send(self, size: float, nodes: int) -> float:
        """Time of a transfer [s]."""
        return send_seconds(size, self.links, nodes)

    def all_reduce(self, size: float, gpus: int, nodes: int) -> float:
        """Time of an all-reduce [s]; the longer one with the GPUs of the emptiest node, or of the fullest, on each."""
        return max(all_reduce_seconds(size, nodes * each, self.links, nodes) for each in _each(gpus, nodes))

    def gather(self, size: float, gpus: int, nodes: int) -> float:
        """Time of an all-gather or a reduce-scatter [s]."""
        return max(all_gather_seconds(size, nodes * each, self.links, nodes) for each in _each(gpus, nodes))


@dataclass(frozen=True)
class Wire:
    """A measured connection: seconds = latency + bytes / bandwidth(bytes).

    Raises:
        PlatformError: no sizes, sizes that do not rise, different numbers of bandwidths and sizes, or a number out of
            range.

    >>> wire = Wire(5e-6, (1e3, 1e6), (1e9, 10e9))
    >>> wire.bandwidth(1e9), wire.bandwidth(1e3), wire.seconds(1e6)
    (10000000000.0, 1000000000.0, 0.000105)
    """

    latency: float  # time of an empty message [s]
    sizes: tuple[float, ...]  # message sizes, in rising order [byte]
    # payload bandwidth at each size [byte/s]; between them it is linear in the logarithm of the size, beyond them
    # constant
    bandwidths: tuple[float, ...]

    def __post_init__(self) -> None:
        for what in ("sizes", "bandwidths"):
            object.__setattr__(self, what, tuple(getattr(self, what)))
            for value in getattr(self, what):
                check_number(value, f"wire: {what}", PlatformError, positive=True)
        check_number(self.latency, "wire: latency", PlatformError)
        if not self.sizes or len(self.sizes) != len(self.bandwidths):
            raise PlatformError(f"wire: {len(self.sizes)} sizes and {len(self.bandwidths)} bandwidths; one for each")
        if any(b <= a for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise PlatformError("wire: the sizes do not rise")

    def bandwidth(self, size: float) -> float:
        """Payload bandwidth of a message [byte/s]."""
        if size <= self.sizes[0]:
            return self.bandwidths[0]
        for k in range(1, len(self.sizes)):
            if size < self.sizes[k]:
                low, high = math.log(self.sizes[k - 1]), math.log(self.sizes[k])
                share = (math.log(size) - low) / (high - low)
                return self.bandwidths[k - 1] + share * (self.bandwidths[k] - self.bandwidths[k - 1])
        return self.bandwidths[-1]

    def seconds(self, size: float) -> float:
        """Time of a message of ``size`` bytes [s]."""
        return self.latency + size / self.bandwidth(size)


@dataclass(frozen=True)
class MeasuredNetwork:
    """A network with measured messages; all-reduces are rings of such messages.

    In a ring every GPU sends 2 (gpus - 1) parts of size / gpus (Patarasuk and Yuan, JPDC 69(2), 2009).
    """

    between: Wire  # a GPU's connection to another node while all GPUs of its node send
    # number of GPUs -> connection of two GPUs of a node while that many send; the next larger number counts for others,
    # and `between` where none was measured
    inside: Mapping[int, Wire] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inside", MappingProxyType(dict(sorted(self.inside.items()))))

    def send(self, size: float, nodes: int) -> float:
        """Time of a transfer [s]."""
        return (self.between if nodes > 1 else self._near(2)).seconds(size)

    def all_reduce(self, size: float, gpus: int, nodes: int) -> float:
        """Time of an all-reduce [s]: a ring in each node, then rings over the nodes through the emptiest one's GPUs."""
        few, near = _each(gpus, nodes)
        return _ring(self._near(near), size, near) + _ring(self.between, size / few, nodes)

    def gather(self, size: float, gpus: int, nodes: int) -> float:
        """Time of an all-gather or a reduce-scatter [s]: half of the steps of an all-reduce."""
        return 0.5 * self.all_reduce(size, gpus, nodes)

    def _near(self, gpus: int) -> Wire:
        return next((wire for count, wire in self.inside.items() if count >= gpus), self.between)

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only view of a dict neither pickles nor deepcopies.
        return type(self), (self.between, dict(self.inside))


def _each(gpus: int, nodes: int) -> tuple[int, int]:
    """GPUs of the emptiest and of the fullest node."""
    return max(1, gpus // nodes), -(-gpus // nodes)


def _ring(wire: Wire, size: float, members: int) -> float:
    """Time of an all-reduce over a ring [s]."""
    return 2.0 * (members - 1) * wire.seconds(size / members) if members > 1 else 0.0
