"""HostSettings: the cores of a process and the instruction sets that its libraries may use."""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from hetgym.errors import ConfigError, suggestion

LIBRARIES = ("mkl", "onednn", "aten")
"""Libraries with a cap of their own: oneMKL runs products, oneDNN convolutions, ATen all else.

oneMKL heeds its cap on Intel's processors only: on others, products run at full speed under any cap.
"""

_VARIABLE = {"mkl": "MKL_ENABLE_INSTRUCTIONS", "onednn": "ONEDNN_MAX_CPU_ISA", "aten": "ATEN_CPU_CAPABILITY"}
_CAPS: dict[str, dict[str, str]] = {
    "full": {},
    "avx512": {"mkl": "AVX512", "onednn": "AVX512_CORE", "aten": "avx512"},
    "avx2": {"mkl": "AVX2", "onednn": "AVX2", "aten": "avx2"},
    "sse4.2": {"mkl": "SSE4_2", "onednn": "SSE41", "aten": "default"},
}
ISA_CAPS: tuple[str, ...] = tuple(_CAPS)  # Names of instruction-set caps, widest first; `full` caps nothing

_MALLOPT = {-4: 0, -1: 2**31 - 1, -2: 64 << 20}  # glibc: no mapped blocks, never trim, grow by 64 MiB


@dataclass(frozen=True)
class HostSettings:
    """Settings of one process on its host, under which measurements are comparable.

    A process that is bound to its own cores and capped in its instruction set is a device of its own, since the cap
    changes the speed of each library by a different factor.

    Raises:
        ConfigError: no cores, a core that this process may not use, or an unknown cap or library.

    >>> HostSettings((0,), "avx2").environment()["ATEN_CPU_CAPABILITY"]
    'avx2'
    >>> HostSettings((0,), {"mkl": "sse4.2"}).label
    'mkl=sse4.2'
    """

    cores: tuple[int, ...] = (0,)  # numbers of the cores; there are as many threads
    isa: str | Mapping[str, str] = "full"  # a name of ISA_CAPS for all libraries, or library -> name for separate caps

    def __post_init__(self) -> None:
        cores = tuple(self.cores)
        if not cores or not all(isinstance(core, int) and core >= 0 for core in cores) or len(set(cores)) < len(cores):
            raise ConfigError(f"cores are {self.cores!r}; expected at least one core number, each once")
        caps = {library: self.isa for library in LIBRARIES} if isinstance(self.isa, str) else dict(self.isa)
        for library, cap in caps.items():
            if library not in LIBRARIES:
                raise ConfigError(f"no instruction-set cap for {library!r}; {suggestion(library, LIBRARIES)}")
            if cap not in _CAPS:
                raise ConfigError(f"unknown instruction set {cap!r} for {library}; {suggestion(cap, ISA_CAPS)}")
        object.__setattr__(self, "cores", cores)
        if not isinstance(self.isa, str):
            object.__setattr__(self, "isa", MappingProxyType(dict(sorted(caps.items()))))

    def __hash__(self) -> int:
        return hash((self.cores, self.label))

    @property
    def label(self) -> str:
        """A short name of the cap, or of the capped libraries."""
        if isinstance(self.isa, str):
            return self.isa
        capped = [f"{library}={cap}" for library, cap in self.isa.items() if cap != "full"]
        return ",".join(capped) or "full"

    def environment(self) -> dict[str, str]:
        """Environment variables of a child process; the caps only work if these are set before torch is imported."""
        caps = {library: self.isa for library in LIBRARIES} if isinstance(self.isa, str) else self.isa
        variables = {_VARIABLE[library]: _CAPS[cap][library] for library, cap in caps.items() if library in _CAPS[cap]}
        threads = str(len(self.cores))
        return variables | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "KMP_BLOCKTIME": "0"}

    def settle(self) -> None:
        """Apply the settings to this process after torch is imported: cores, threads, no denormals, kept memory.

        The process keeps freed memory; otherwise every large tensor would cause page faults again. If it may not run
        on one of the cores, that is a ConfigError.
        """
        from hetgym.errors import require

        torch = require("torch", "torch", "measuring and running operators")
        try:
            os.sched_setaffinity(0, self.cores)
        except OSError as cause:
            raise ConfigError(f"cannot run on cores {self.cores}: {cause.strerror}") from cause
        torch.set_num_threads(len(self.cores))
        torch.set_flush_denormal(True)
        torch.set_grad_enabled(False)
        keep_memory()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(HostSettings(self.cores, "full"))
        return plain | {"cores": list(self.cores), "isa": self.isa if isinstance(self.isa, str) else dict(self.isa)}


def keep_memory() -> bool:
    """Tell the allocator to keep freed memory instead of giving it back to the system; False where unknown."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return False
    return all([mallopt(key, value) for key, value in _MALLOPT.items()])
