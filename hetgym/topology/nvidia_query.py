"""Reader of ``nvidia-smi -q``: products, their memory, and the PCIe generation and width of their slots."""

import re
from collections.abc import Sequence
from dataclasses import replace

from hetgym.errors import PlatformError
from hetgym.topology.machine import MOST_DEVICES, Gpu, Machine
from hetgym.topology.pcie import GENERATIONS

_NUMBERED = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]\s*")

_WANTED = {
    ("", "Product Name"): r"(?P<name>\S.{0,200})",
    ("PCI", "Device Id"): r"0x(?P<device>[0-9A-Fa-f]{4})(?P<vendor>[0-9A-Fa-f]{4})",
    ("PCIe Generation", "Max"): r"(?P<generation>[1-6])",
    ("Link Width", "Max"): r"(?P<lanes>\d{1,2})x",
    ("FB Memory Usage", "Total"): r"(?P<memory>\d{1,8}) MiB",
    ("FB Memory Usage", "Used"): r"(?P<used>\d{1,8}) MiB",
}
"""Heading and key of a figure -> its form. The maximum is used, since idle GPUs lower the current generation."""


def query(lines: Sequence[str], where: str) -> list[Gpu]:
    """GPUs of the output of ``nvidia-smi -q`` among lines, in their order; figures that it marks N/A are left open.

    Raises:
        PlatformError: more than :data:`~hetgym.topology.machine.MOST_DEVICES` GPUs.
    """
    found: list[dict[str, str]] = []
    heading = ""
    for line in lines:
        if _NUMBERED.fullmatch(line):
            found.append({})
            heading = ""
        if len(found) > MOST_DEVICES:
            raise PlatformError(f"{where}: it names more than {MOST_DEVICES} devices")
        key, colon, value = (part.strip() for part in line.partition(" : "))
        if not colon:
            heading = key
        elif found and (form := _WANTED.get((heading if key != "Product Name" else "", key))):
            match = re.fullmatch(form, value)
            found[-1] |= match.groupdict() if match else {}
    return [_gpu(figures) for figures in found]


def _gpu(figures: dict[str, str]) -> Gpu:
    """A GPU of the figures that a section states."""
    lanes, generation = int(figures.get("lanes", 0)), int(figures.get("generation", 0))
    pci = f"{figures['vendor']}:{figures['device']}".lower() if "vendor" in figures else ""
    memory, used = (float(int(figures.get(key, 0)) << 20) for key in ("memory", "used"))
    return Gpu(
        figures.get("name", "").strip(), pci, memory=memory, free=memory - used if memory and used else None,
        lanes=lanes if lanes <= 16 else 0, generation=generation if generation in GENERATIONS else 0,
    )  # fmt: skip


def nvidia_query(text: str, where: str, gpu: str = "") -> Machine:
    """The GPUs of ``nvidia-smi -q``; it says nothing of links between them.

    Args:
        gpu: name of all GPUs; those of the text by default.

    Raises:
        PlatformError: no GPU, or one without a name.
    """
    found = query(text.splitlines(), where)
    if gpu:
        found = [replace(each, name=gpu, pci="") for each in found]
    if not found or not all(each.name or each.pci for each in found):
        raise PlatformError(f"{where}: it names no product; keep the line 'Product Name' of 'nvidia-smi -q'")
    return Machine(where, tuple(found), nvlinks_known=False)
