"""ExecutionDevice: a worker process that runs operators, bound to cores or to a GPU."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hetgym.errors import ConfigError
from hetgym.profiling.host import ISA_CAPS, HostSettings

_ENTRY = re.compile(r"(?P<what>cpu|cuda)(?P<cores>\d+(?:\+\d+)*)(?::(?P<isa>[\w.]+))?(?:@cpu(?P<host>\d+(?:\+\d+)*))?")


@dataclass(frozen=True)
class ExecutionDevice:
    """A real device that runs operators: one worker process.

    Raises:
        ConfigError: an empty name, or a processor that is neither a CPU nor a CUDA device.

    >>> ExecutionDevice("capped", HostSettings((1,), "avx2")).staged
    False
    """

    name: str  # unique among the devices that run one graph
    host: HostSettings = field(default_factory=HostSettings)  # cores and instruction set of the worker
    # torch's name of the processor: `cpu`, or a GPU such as `cuda:0`, to which the worker copies tensors from pinned
    # memory
    processor: str = "cpu"

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("an execution device has an empty name")
        if not re.fullmatch(r"cpu|cuda:\d+", self.processor):
            raise ConfigError(f"device {self.name!r}: processor {self.processor!r} is neither cpu nor cuda:<number>")

    @property
    def staged(self) -> bool:
        """True if tensors of other devices are copied to this one before they are read; a CPU reads them in place."""
        return self.processor != "cpu"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"name": self.name, "host": self.host.to_dict(), "processor": self.processor, "staged": self.staged}


def parse_devices(text: str) -> tuple[ExecutionDevice, ...]:
    """Parse a list of devices from a command line.

    Args:
        text: entries separated by commas: ``cpu<core>:<isa>``, several cores as in ``cpu0+1:full``, or
            ``cuda<number>``, whose worker runs on the cores after ``@cpu``. The default cap is ``full``.

    Returns:
        One device per entry, which is also its name.

    Raises:
        ConfigError: an entry of another form, or one given twice.

    >>> [device.name for device in parse_devices("cpu0:full, cpu1:avx2")]
    ['cpu0:full', 'cpu1:avx2']
    """
    devices: list[ExecutionDevice] = []
    for entry in (part.strip() for part in text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None or (match["what"] == "cuda" and "+" in match["cores"]):
            raise ConfigError(
                f"devices: {entry!r} is not an entry such as cpu0:full, cpu0+1:avx2 or cuda0@cpu1; "
                f"instruction sets: {', '.join(ISA_CAPS)}"
            )
        gpu = match["what"] == "cuda"
        cores = tuple(int(core) for core in ((match["host"] or "0") if gpu else match["cores"]).split("+"))
        host = HostSettings(cores, match["isa"] or "full")
        devices.append(ExecutionDevice(entry, host, f"cuda:{match['cores']}" if gpu else "cpu"))
    check_names(devices)
    return tuple(devices)


def check_names(devices: Sequence[ExecutionDevice]) -> None:
    """Refuse (ConfigError) no devices, and two of the same name."""
    names = [device.name for device in devices]
    if not names:
        raise ConfigError("at least one execution device is needed")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two execution devices are named {twice[0]!r}")


def check_cores(devices: Sequence[ExecutionDevice]) -> None:
    """Refuse (ConfigError) devices on whose cores this process may not run."""
    known = os.sched_getaffinity(0)
    for device in devices:
        absent = sorted(set(device.host.cores) - known)
        if absent:
            cores = ", ".join(map(str, sorted(known)))
            raise ConfigError(f"device {device.name!r}: core {absent[0]} is unavailable; this process may use {cores}")


def shares_cores(devices: Sequence[ExecutionDevice]) -> bool:
    """True if two workers are bound to one core; a worker that waits must then yield the core."""
    cores = [core for device in devices for core in device.host.cores]
    return len(set(cores)) < len(cores)
