"""Memory of this machine: arrays that would not fit are refused before they are made."""

import contextlib
from pathlib import Path

from hetgym.errors import ConfigError, size

SMALL = 1e8  # Fewer bytes are not worth a question to the system


def available() -> float:
    """Memory that is available without swapping [byte]; inf if the system does not report it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    return float("inf")


def check_memory(what: str, needed: float, instead: str, error: type[Exception] = ConfigError) -> None:
    """Refuse arrays that take more memory than is available.

    Args:
        what: the subject of the message, such as ``"observations of 100000 operators"``.
        needed: bytes of all of them.
        instead: what to do about it, as the last clause of the message.
        error: type of the exception.

    Raises:
        ConfigError: or an exception of another type: they do not fit.
    """
    if needed > SMALL and needed > (free := available()):
        raise error(f"{what}: {size(needed)} are needed, and {size(free)} of memory are available; {instead}")
