"""Reader of ``rocm-smi --showproductname --showmeminfo vram --showtopo``."""

import re
from dataclasses import replace

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import MOST_DEVICES, Gpu, Machine

INTEGRATED = 3 << 30
"""Memory [byte] below which a GPU is the graphics of a processor, which is left out beside other GPUs."""

_KEYS = {
    "card series": "series", "card model": "model", "device name": "device", "market name": "device",
    "vram total memory (b)": "memory", "vram total used memory (b)": "used", "(topology) numa node": "socket",
}  # fmt: skip
"""Key of a line in small letters, which differ between versions, and the figure that it states."""


def rocm_smi(text: str, where: str, gpu: str = "") -> Machine:
    """The GPUs of ``rocm-smi``, their memory and their NUMA nodes.

    Args:
        gpu: name of all GPUs; those of the text by default.

    Raises:
        PlatformError: no GPU or more than :data:`~hetgym.topology.machine.MOST_DEVICES`, one without a name, a figure
            stated twice, or links of the kind XGMI.
    """
    found: dict[int, dict[str, str]] = {}
    for line in text.splitlines():
        match = re.match(r"\s*GPU ?\[?(\d{1,4})\]?\s*: ([^:]{1,40}):(.{0,300})", line)
        key = _KEYS.get(match[2].strip().lower()) if match else None
        if match and key:
            value, figures = match[3].strip(), found.setdefault(int(match[1]), {})
            if figures.setdefault(key, value) != value:
                raise PlatformError(
                    f"{where}: GPU {match[1]} states {shown(figures[key])} and {shown(value)}; keep one output"
                )
        if re.match(r"\s*GPU\d{1,4}\s.*\bXGMI\b", line):
            raise PlatformError(
                f"{where}: its GPUs are linked by XGMI, whose links are not supported; write a platform file instead"
            )
    if not found:
        raise PlatformError(
            f"{where}: it names no GPU; write it by 'rocm-smi --showproductname --showmeminfo vram --showtopo'"
        )
    if len(found) > MOST_DEVICES:
        raise PlatformError(f"{where}: it names more than {MOST_DEVICES} devices")
    gpus = [_gpu(number, figures, where, gpu) for number, figures in sorted(found.items())]
    large = [each for each in gpus if not 0 < each.memory < INTEGRATED]
    kept = large or [replace(each, memory=0.0, free=None) for each in gpus]
    return Machine(where, tuple(kept), nvlinks_known="Link Type between two GPUs" in text)


def _gpu(number: int, figures: dict[str, str], where: str, gpu: str) -> Gpu:
    """A GPU; its name is the first that is not a number of the PCI bus, from ``Card model`` on."""
    names = [figures.get(key, "") for key in ("model", "series", "device")]
    name = gpu or next((name for name in names if name and not re.match(r"0x|N/A", name)), "")
    if not name:
        raise PlatformError(
            f"{where}: GPU {number} has no name; name them all by 'hetgym platform --gpu', as in --gpu 'RX 7900 XTX'"
        )
    memory, used = figures.get("memory", "0"), figures.get("used", "0")
    for text in (memory, used):
        if not re.fullmatch(r"\d{1,15}", text):
            raise PlatformError(
                f"{where}: GPU {number} has a memory of {shown(text)}, which is not a whole number of bytes"
            )
    socket = figures.get("socket", "0")
    inside = re.search(r"\[([^\]]{1,200})\]", name)  # as in `Navi 31 [Radeon RX 7900 XT/7900 XTX]`
    return Gpu(
        inside[1] if inside else name,
        socket=int(socket) if re.fullmatch(r"\d{1,3}", socket) else 0,
        memory=float(memory),
        free=float(memory) - float(used) if "memory" in figures and float(used) else None,
    )
