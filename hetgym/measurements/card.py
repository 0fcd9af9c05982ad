"""MachineCard: a description of the machine on which a table of run times was measured."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hetgym.errors import ArtefactError

ISA_FLAGS = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "fphp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip
"""Processor flags that affect libraries' choice of kernels, x86 first, then ARM; other flags are not recorded."""

SIZE_LIMIT = 1 << 20  # Longest card that is accepted [characters]

_LONGEST_TEXT = 200


@dataclass(frozen=True)
class GpuCard:
    """One GPU as CUDA describes it; 0 and empty strings stand for figures that could not be read."""

    model: str  # name of the product
    driver: str = ""  # version of the kernel driver
    memory: int = 0  # size of the memory [byte]
    processors: int = 0  # number of streaming multiprocessors
    capability: str = ""  # compute capability, such as `9.0`
    cache: int = 0  # size of the L2 cache [byte]
    clock: float = 0.0  # highest clock of the processors [Hz]
    memory_clock: float = 0.0  # highest clock of the memory [Hz]


@dataclass(frozen=True)
class MachineCard:
    """The machine and the software behind a table of run times.

    It contains no names of users, hosts or folders.

    Raises:
        ArtefactError: a number out of range, or a text that is not a short printable line.
    """

    cpu: str  # name of the product
    cores: int  # number of cores that the machine reports
    cores_used: tuple[int, ...]  # numbers of the cores that measured
    memory: int  # size of the memory [byte]
    kernel: str = ""  # release of the operating system
    # `L1d`, `L2`, … -> size of that cache of the first used core [byte]
    caches: Mapping[str, int] = field(default_factory=dict, hash=False)
    isa: tuple[str, ...] = ()  # those of ISA_FLAGS that the processor has
    isa_cap: str = "full"  # instruction-set cap of the libraries, `full` for none
    clock: float = 0.0  # clock rate at the time of collection [Hz]; 0 if it is unknown
    governor: str = ""  # frequency governor; empty if it cannot be read, as in most virtual machines
    turbo: bool | None = None  # True if turbo is on; None if it cannot be read
    smt: bool | None = None  # True if two threads share a core; None if it cannot be read
    hypervisor: bool = False  # True if the processor reports that it is virtual
    # load averages over 1, 5 and 15 minutes at the time of collection
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)  # library -> version
    gpus: tuple[GpuCard, ...] = ()  # the GPUs that CUDA shows

    def __post_init__(self) -> None:
        if self.cores < 1 or not self.cores_used or min(self.cores_used) < 0:
            raise ArtefactError(f"machine card: cores {self.cores_used} of {self.cores} measured; expected 1 or more")
        _check(asdict_plain(self), "machine card")
        for name in ("caches", "versions"):
            object.__setattr__(self, name, MappingProxyType(dict(sorted(getattr(self, name).items()))))

    @property
    def label(self) -> str:
        """The machine in one line.

        >>> MachineCard("Xeon", cores=2, cores_used=(0,), memory=1, isa_cap="avx2").label
        'Xeon, 1 of 2 cores, avx2'
        """
        return f"{self.cpu}, {len(self.cores_used)} of {self.cores} cores, {self.isa_cap}"

    @classmethod
    def collect(
        cls,
        cores: tuple[int, ...] | None = None,
        isa_cap: str = "full",
        versions: Mapping[str, str] | None = None,
        gpus: tuple[GpuCard, ...] | None = None,
        root: str | Path = "/",
    ) -> MachineCard:
        """Describe this machine from ``/proc`` and ``/sys``; figures that they lack are left out.

        Args:
            cores: numbers of the cores that measure; by default those that this process may use.
            isa_cap: instruction-set cap of the measuring processes.
            versions: library -> version; by default :func:`library_versions`, which imports torch.
            gpus: the GPUs; by default :func:`cuda_gpus`, which imports torch.
            root: folder that contains ``proc`` and ``sys``.
        """
        base = Path(root)
        info = _cpuinfo(_text(base / "proc/cpuinfo"))
        flags = set((info.get("flags") or info.get("Features") or "").split())
        used = tuple(sorted(os.sched_getaffinity(0))) if cores is None else tuple(cores)
        system = base / "sys/devices/system/cpu"
        frequency = system / f"cpu{used[0] if used else 0}/cpufreq"
        return cls(
            cpu=_line(info.get("model name") or _arm_model(info) or platform.machine()),
            cores=_count(_text(system / "online")) or os.cpu_count() or 1,
            cores_used=used,
            memory=int(_number(_match(r"MemTotal:\s+(\d+) kB", _text(base / "proc/meminfo")))) << 10,
            kernel=_line(_text(base / "proc/sys/kernel/osrelease")),
            caches=_caches(system / f"cpu{used[0] if used else 0}/cache"),
            isa=tuple(flag for flag in ISA_FLAGS if flag in flags),
            isa_cap=isa_cap,
            clock=_number(info.get("cpu MHz", "")) * 1e6 or _number(_text(frequency / "scaling_cur_freq")) * 1e3,
            governor=_line(_text(frequency / "scaling_governor")),
            turbo=_turbo(system),
            smt=_flag(_text(system / "smt/active")),
            hypervisor="hypervisor" in flags,
            load=_load(_text(base / "proc/loadavg")),
            versions=library_versions() if versions is None else versions,
            gpus=cuda_gpus(base) if gpus is None else gpus,
        )


def asdict_plain(card: MachineCard) -> dict[str, Any]:
    """The fields as JSON values."""
    plain = {name: getattr(card, name) for name in card.__dataclass_fields__}
    gpus = [asdict(gpu) for gpu in card.gpus]
    return plain | {"caches": dict(card.caches), "versions": dict(card.versions), "gpus": gpus}


def library_versions() -> dict[str, str]:
    """Versions of Python, NumPy and, if it is installed, of torch and its computing libraries."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    if find_spec("torch") is None:
        return versions
    torch: Any = import_module("torch")
    build = torch.__config__.show()
    found = {
        "torch": str(torch.__version__),
        "mkl": _match(r"Math Kernel Library Version ([\w.]+)", build),
        "onednn": _match(r"MKL-DNN v([\w.]+)", build),
        "cuda": str(torch.version.cuda or ""),
        "cudnn": str(torch.backends.cudnn.version() or "") if torch.cuda.is_available() else "",
    }
    return versions | {name: version for name, version in found.items() if version}


def cuda_gpus(root: str | Path = "/") -> tuple[GpuCard, ...]:
    """The GPUs that torch can use; empty without torch or CUDA. ``root`` has ``proc``, for the driver's version."""
    if find_spec("torch") is None:
        return ()
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        return ()
    driver = _match(r"Kernel Module(?:\s+for\s+\S+)?\s+([\d.]+)", _text(Path(root) / "proc/driver/nvidia/version"))
    return tuple(
        gpu_card(torch.cuda.get_device_properties(number), driver) for number in range(torch.cuda.device_count())
    )


def gpu_card(properties: Any, driver: str = "") -> GpuCard:
    """Make a card from torch's device properties; older versions of torch have fewer."""
    return GpuCard(
        model=_line(str(properties.name)),
        driver=driver,
        memory=int(properties.total_memory),
        processors=int(properties.multi_processor_count),
        capability=f"{properties.major}.{properties.minor}",
        cache=int(getattr(properties, "L2_cache_size", 0)),
        clock=float(getattr(properties, "clock_rate", 0)) * 1e3,
        memory_clock=float(getattr(properties, "memory_clock_rate", 0)) * 1e3,
    )


def _check(value: Any, where: str) -> None:
    """Refuse numbers that are negative or not finite, and texts that are long or not printable."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _check(key, where)
            _check(entry, f"{where}: {key}")
    elif isinstance(value, list | tuple):
        for entry in value:
            _check(entry, where)
    elif isinstance(value, str):
        if len(value) > _LONGEST_TEXT or not value.isprintable():
            raise ArtefactError(f"{where} is {ascii(value[:40])}…; expected a printable line, {_LONGEST_TEXT} at most")
    elif value is not None and not 0 <= value < math.inf:
        raise ArtefactError(f"{where} is {value}; it must be finite and at least 0")


def _text(path: Path) -> str:
    """Content of a small file; empty if it is missing or may not be read."""
    try:
        return path.read_text("utf-8", "replace")[:SIZE_LIMIT]
    except OSError:
        return ""


def _line(text: str) -> str:
    """Put a text on one line, cut to the length that a card allows."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:_LONGEST_TEXT]


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _number(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _cpuinfo(text: str) -> dict[str, str]:
    """Keys and values of the first processor."""
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def _arm_model(info: Mapping[str, str]) -> str:
    """Model of an ARM processor, which reports numbers instead of a name."""
    if "CPU part" not in info:
        return ""
    return f"ARM implementer {info.get('CPU implementer', '?')} part {info['CPU part']}"


def _count(online: str) -> int:
    """Number of cores in a list such as ``0-3,8``."""
    total = 0
    for part in re.findall(r"\d+(?:-\d+)?", online):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def _caches(folder: Path) -> dict[str, int]:
    sizes = {}
    for index in sorted(folder.glob("index[0-9]*")):
        kind = _line(_text(index / "type"))
        size = re.fullmatch(r"(\d+)([KMG]?)", _line(_text(index / "size")))
        if size and kind in ("Data", "Unified"):
            name = f"L{_line(_text(index / 'level'))}" + ("d" if kind == "Data" else "")
            sizes[name] = int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]
    return sizes


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text.strip())


def _turbo(system: Path) -> bool | None:
    off = _flag(_text(system / "intel_pstate/no_turbo"))
    return _flag(_text(system / "cpufreq/boost")) if off is None else not off


def _load(text: str) -> tuple[float, float, float]:
    first, second, third = ([_number(word) for word in text.split()[:3]] + [0.0] * 3)[:3]
    return first, second, third
