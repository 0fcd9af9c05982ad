"""Reader of ``system_profiler SPHardwareDataType SPDisplaysDataType`` of a Mac."""

import re

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import Gpu, Machine

LARGEST_MEMORY = 4096  # Largest memory of a Mac [GiB]


def system_profiler(text: str, where: str, gpu: str = "") -> Machine:
    """The chip of a Mac, its memory and the cores of its GPU, which tell apart the versions of a chip.

    Args:
        gpu: name of the chip; that of the text by default.

    Raises:
        PlatformError: a processor that is not Apple's, no memory, or two different values of a figure.
    """
    chip = _one(r"Chip: ([^\n]{1,60})", text, where, "Chip")
    memory = _one(r"Memory: (\d{1,5}) GB", text, where, "Memory")
    if not chip or not chip.startswith("Apple "):
        raise PlatformError(
            f"{where}: it names no chip of Apple, in a line 'Chip: Apple M2'; for other Macs write a platform file"
        )
    if not memory or not 0 < int(memory) <= LARGEST_MEMORY:
        raise PlatformError(
            f"{where}: its memory is {shown(memory)} GB; keep the line 'Memory: 64 GB' of SPHardwareDataType"
        )
    displays = text.partition("Chipset Model:")[2]
    cores = _one(r"Total Number of Cores: (\d{1,3})", displays, where, "Total Number of Cores of the GPU")
    name = gpu or (f"{chip} {cores} core" if cores else chip)
    return Machine(where, (Gpu(name, memory=float(int(memory) << 30)),))


def _one(form: str, text: str, where: str, what: str) -> str:
    """The value that a text states of a figure; empty if it states none."""
    found = {match.strip() for match in re.findall(r"(?m)^[ \t]*" + form + r"[ \t]*\r?$", text)}
    if len(found) > 1:
        raise PlatformError(
            f"{where}: it states {' and '.join(sorted(map(shown, found))[:2])} as {what}; keep one machine"
        )
    return next(iter(found), "")
