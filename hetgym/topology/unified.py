"""Unified memory: one memory that a GPU shares with the CPU of its chip."""

from dataclasses import replace

from hetgym.device import Device
from hetgym.errors import PlatformError

CPU_SHARE = 0.5
"""Share of the memory's bandwidth that the CPU reaches: an assumption."""

MACOS_SHARES = ((16, 0.667), (18, 0.74), (32, 0.78), (64, 0.81))
"""Memory of a Mac [GiB], and the share that its GPU may use: `recommendedMaxWorkingSetSize` in logs of macOS."""


MAC_SIZES = (8, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 256, 512)
"""Memories of Macs [GiB]."""


def macos_share(memory: float) -> float:
    """Share of a Mac's memory [byte] that the GPU may use by default; `iogpu.wired_limit_mb` changes it.

    >>> macos_share(64 * 2**30), macos_share(24 * 2**30), macos_share(8 * 2**30)
    (0.81, 0.74, 0.667)
    """
    return max((share for size, share in MACOS_SHARES if size * 2**30 <= memory), default=MACOS_SHARES[0][1])


def mac_memory(usable: float) -> float:
    """Memory of a Mac [byte] whose GPU may use about a part of it [byte].

    >>> mac_memory(49152 * 2**20) / 2**30, mac_memory(55662 * 1e6) / 2**30
    (64.0, 64.0)
    """
    return min((size * 2.0**30 for size in MAC_SIZES), key=lambda size: abs(macos_share(size) * size - usable))


def with_reserve(gpu: Device, where: str) -> Device:
    """A GPU with unified memory, whose reserve is what the system does not let it use.

    Raises:
        PlatformError: the size of the memory is unknown, since products with unified memory come in several.
    """
    if gpu.memory_capacity == float("inf"):
        raise PlatformError(
            f"{where}: {gpu.model or gpu.name} comes with several sizes of memory; state the size, as in "
            f"'{gpu.model or gpu.name} 64GB'"
        )
    if not gpu.model.startswith("Apple"):
        return gpu
    share = macos_share(gpu.memory_capacity)
    source = f"{gpu.source}; macOS lets the GPU use {share:.3g} of the memory, as in logs"
    return replace(gpu, memory_reserve=(1 - share) * gpu.memory_capacity, source=source)
