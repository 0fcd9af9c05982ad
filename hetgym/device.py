"""Devices that compute and directed links that carry data: the parts of a platform."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hetgym._input.config import check_number
from hetgym._text import brief
from hetgym.errors import PlatformError, suggestion
from hetgym.graph.ops import DTYPE_BYTES, FAMILIES

DEVICE_KINDS = ("cpu", "gpu", "npu")

GPU_RESERVE = 0.05
"""Share of a real GPU's memory that plans leave to context, allocator and buffers by default: an assumption, between
the context alone (about 0.5 GB) and the tenth that serving programs leave free."""


_FIGURES: dict[str, dict[str, Any]] = {
    "memory_bandwidth": {"positive": True}, "memory_capacity": {"positive": True, "finite": False},
    "memory_reserve": {}, "launch_overhead": {}, "partition_overhead": {}, "streams": {"minimum": 1},
    "memory_efficiency": {"positive": True, "maximum": 1.0}, "processors": {"minimum": 1},
    "cache_bytes": {"positive": True}, "power_limit": {"positive": True}, "process": {"positive": True},
    "lanes": {"minimum": 1}, "power_busy": {"positive": True}, "power_idle": {}, "price": {},
}  # fmt: skip
"""Figure of a device -> its legal range, as arguments of check_number; None is legal where it is the default."""


@dataclass(frozen=True)
class Device:
    """One processor; it runs ``streams`` operators at a time.

    Args:
        name: unique on the platform.
        kind: ``cpu``, ``gpu`` or ``npu``; it selects the default efficiencies of cost models.
        peak_flops: dtype -> peak arithmetic rate by the data sheet [FLOP/s].
        memory_bandwidth: peak by the data sheet [byte/s].
        memory_capacity: [byte]; inf = unlimited.
        memory_reserve: part of it that the driver's context, the allocator and buffers of libraries take [byte]; None =
            :data:`GPU_RESERVE` of a GPU that names its product in ``model``, nothing of other devices.
        memory_pool: name of a memory that devices share, such as unified memory; together they hold no more than the
            largest ``usable_memory`` among them. Empty = memory of its own.
        launch_overhead: time to start an operator [s].
        streams: number of operators that may run at the same time.
        efficiency: operator family -> fraction of the peak that is reached, in (0, 1]; families left
            out take the cost model's default.
        memory_efficiency: fraction of the bandwidth that is reached, in (0, 1]; None = default.
        processors: cores of a CPU, multiprocessors of a GPU; None = unknown.
        cache_bytes: last-level cache [byte]; None = unknown.
        power_limit: power of the whole board by the data sheet [W]; None = unknown.
        process: manufacturing process that the chip is named after, such as 7e-9 [m]; None = unknown.
        lanes: float32 lanes of a warp scheduler of a GPU, 16 or 32: with 32, a multiply-add leaves no issue slot in
            its clock cycle; None = unknown.
        costs: fitted cost model that prices this device: the name of a shipped one, or a path, also one beside the
            platform's file; empty = the roofline.
        half_costs: fitted cost model of operators in 16 and 8 bits of floating point, likewise; empty = the same as of
            all others.
        model: name of the product.
        source: the document that the figures come from.
        power_busy: power while it runs an operator at its full clock [W]; None = unknown.
        power_idle: power while it runs none [W]; None = unknown, treated as 0 if ``power_busy`` is known.
        price: rent of the device, in any currency [currency/h]; None = unknown.
        partition_overhead: time to enter a partition, as delegates of mobile runtimes need it [s]: before an operator
            that reads a result which another device finished after the latest partition was entered, and before the
            first operator.
        synchronous: the host waits while the device runs: the two take turns, an operator at a time.

    Raises:
        PlatformError: a number out of range, or an unknown kind, dtype or operator family.
    """

    name: str
    kind: Literal["cpu", "gpu", "npu"]
    peak_flops: Mapping[str, float] = field(hash=False)
    memory_bandwidth: float
    memory_capacity: float = float("inf")
    memory_reserve: float | None = None
    memory_pool: str = ""
    launch_overhead: float = 0.0
    streams: int = 1
    efficiency: Mapping[str, float] = field(default_factory=dict, hash=False)
    memory_efficiency: float | None = None
    processors: int | None = None
    cache_bytes: float | None = None
    power_limit: float | None = None
    process: float | None = None
    lanes: int | None = None
    costs: str = ""
    half_costs: str = ""
    model: str = ""
    source: str = ""
    power_busy: float | None = None
    power_idle: float | None = None
    price: float | None = None
    partition_overhead: float = 0.0
    synchronous: bool = False

    __repr__ = brief

    def __post_init__(self) -> None:
        who = f"device {self.name!r}"
        if not self.name:
            raise PlatformError("a device has an empty name")
        if self.kind not in DEVICE_KINDS:
            raise PlatformError(f"{who}: unknown kind {self.kind!r}; {suggestion(self.kind, DEVICE_KINDS)}")
        if not self.peak_flops:
            raise PlatformError(f"{who}: peak_flops is empty; give at least one dtype's FLOP/s")
        for dtype, rate in self.peak_flops.items():
            if dtype not in DTYPE_BYTES:
                raise PlatformError(f"{who}: peak_flops of unknown dtype {dtype!r}; {suggestion(dtype, DTYPE_BYTES)}")
            check_number(rate, f"{who}: peak_flops of {dtype}", PlatformError, positive=True)
        for family, share in self.efficiency.items():
            if family not in FAMILIES:
                raise PlatformError(f"{who}: efficiency of unknown family {family!r}; {suggestion(family, FAMILIES)}")
            check_number(share, f"{who}: efficiency of {family}", PlatformError, positive=True, maximum=1.0)
        for name, rule in _FIGURES.items():
            value = getattr(self, name)
            if value is not None or self.__dataclass_fields__[name].default is not None:
                check_number(value, f"{who}: {name}", PlatformError, **rule)
        if self.memory_reserve is not None and self.memory_reserve >= self.memory_capacity:
            raise PlatformError(
                f"{who}: memory_reserve is {self.memory_reserve:g}; memory_capacity, {self.memory_capacity:g}, "
                "must be more"
            )
        if self.power_idle is not None and self.power_busy is None:
            raise PlatformError(f"{who}: power_idle is given without power_busy: give both")
        if self.power_busy is not None and self.power_idle is not None and self.power_idle > self.power_busy:
            raise PlatformError(f"{who}: power_idle is {self.power_idle:g} W, above power_busy, {self.power_busy:g} W")
        object.__setattr__(self, "peak_flops", MappingProxyType(dict(self.peak_flops)))
        object.__setattr__(self, "efficiency", MappingProxyType(dict(self.efficiency)))

    @property
    def usable_memory(self) -> float:
        """Memory for weights and activations: ``memory_capacity`` less the reserve [byte]."""
        product = self.kind == "gpu" and bool(self.model) and self.memory_capacity < float("inf")
        default = GPU_RESERVE * self.memory_capacity if product else 0.0
        return self.memory_capacity - (default if self.memory_reserve is None else self.memory_reserve)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {**self.__dict__, "peak_flops": dict(self.peak_flops), "efficiency": dict(self.efficiency)}

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views of dicts neither pickle nor deepcopy; worker processes and env specs need both.
        return type(self), tuple(self.to_dict().values())


@dataclass(frozen=True)
class Link:
    """A directed connection between two devices or switches.

    Args:
        start: name of the device or switch that sends.
        end: name of the device or switch that receives.
        latency: time from sending to receiving an empty message [s].
        bandwidth: peak in this direction by the data sheet [byte/s]; inf = ideal.
        efficiency: fraction of the bandwidth that payload reaches, in (0, 1].
        kind: the technology, such as PCIe or NVLink; for people only.
        source: the document that the figures come from.

    Raises:
        PlatformError: a number out of range, or a link from a device to itself.
    """

    start: str
    end: str
    latency: float
    bandwidth: float
    efficiency: float = 1.0
    kind: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        who = f"link {self.start!r} -> {self.end!r}"
        if self.start == self.end:
            raise PlatformError(f"{who} connects a device with itself")
        check_number(self.latency, f"{who}: latency", PlatformError)
        check_number(self.bandwidth, f"{who}: bandwidth", PlatformError, positive=True, finite=False)
        check_number(self.efficiency, f"{who}: efficiency", PlatformError, positive=True, maximum=1.0)
