"""Reader of lists of devices: plain ``nvidia-smi``, ``nvidia-smi -L``, llama.cpp, ``vulkaninfo`` and ``rocminfo``.

They name GPUs. Some state the memory and what is free of it; none says anything of links.
"""

import re
from collections import Counter
from dataclasses import replace

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import MOST_DEVICES, Gpu, Machine
from hetgym.topology.unified import mac_memory

_BACKEND = r"(?P<backend>CUDA|ROCm|HIP|Vulkan|SYCL|Metal|MTL)(?P<number>\d{0,3})"

_FORMS = {
    "llama.cpp --list-devices": r"(?m)^[ \t]*" + _BACKEND + r"[ \t]{0,9}: (?P<name>\S.{0,200}?)[ \t]{0,9}"
    r"\((?P<total>\d{1,8}) MiB, (?P<free>\d{1,8}) MiB free\)",
    "llama.cpp, loading": r"using device " + _BACKEND + r" \((?P<name>.{1,120}?)\)(?: \([^()\n]{1,40}\))?"
    r" - (?P<free>\d{1,8}) MiB free",
    "nvidia-smi": r"(?m)^\|[ \t]{1,9}(?P<number>\d{1,3})[ \t]{1,9}(?P<name>\S.{0,60}?)[ \t]{1,60}"
    r"(?:On|Off|WDDM|TCC|MCDM)[ \t]{0,9}\|.*"
    r"(?:\n\|.{0,80}?(?P<used>\d{1,8})MiB[ \t]{0,9}/[ \t]{0,9}(?P<total>\d{1,8})MiB)?",
    "nvidia-smi -L": r"(?m)^[ \t]*GPU (?P<number>\d{1,4}): (?P<name>.{1,200}?) \(UUID: ",
    "llama.cpp, start": r"(?m)^.{0,80}?\bDevice (?P<number>\d{1,3}): (?P<name>\S[^,\n]{0,200}), "
    r"(?:compute capability|gfx)(?:[^\n]{0,200}?VRAM: (?P<total>\d{1,8}) MiB)?",
    "llama.cpp, start with Vulkan": r"ggml_vulkan: (?P<number>\d{1,3}) = (?P<name>\S[^|\n]{0,200}?)[ \t]{0,9}\|",
    "vulkaninfo --summary": r"deviceType[ \t]{0,20}= PHYSICAL_DEVICE_TYPE_(?P<backend>\w{1,20}?)_GPU[ \t]*\r?\n"
    r"[ \t]*deviceName[ \t]{0,20}= (?P<name>.{1,200})",
    "rocminfo": r"(?m)^[ \t]*Marketing Name:[ \t]{1,40}(?P<name>\S.{0,200})\n(?:(?![ \t]*Marketing Name).*\n){0,20}?"
    r"[ \t]*Device Type:[ \t]{1,40}GPU",
}
"""Program -> the form of a device, with the number, the name and memories [MiB]; the first that a text has is read."""

_NAMELESS = re.compile(r"AMD Radeon(\(TM\))? Graphics\b")  # graphics of processors


def lists_devices(text: str) -> bool:
    """Whether a text has a device in one of the forms."""
    return any(re.search(form, text) for form in _FORMS.values())


def device_list(text: str, where: str, gpu: str = "") -> Machine:
    """The GPUs of a list; memory that is in use is kept free.

    Of several backends that list the same cards, the first is read. On a Mac, the size of the memory follows from what
    macOS lets the GPU use.

    Args:
        gpu: name of all GPUs; those of the text by default.

    Raises:
        PlatformError: more than :data:`~hetgym.topology.machine.MOST_DEVICES` GPUs, names that are cut short, or a
            device that is listed with two names.
    """
    form = next(form for form in _FORMS.values() if re.search(form, text))
    found = _by_number(form, text, where)
    if len(found) > MOST_DEVICES:
        raise PlatformError(f"{where}: it names more than {MOST_DEVICES} devices")
    full = _by_number(_FORMS["nvidia-smi -L"], text, where)
    names = full if full.keys() == found.keys() else found
    gpus = [_gpu(figures, gpu or names[number]["name"].strip(), where) for number, figures in sorted(found.items())]
    kept = [each for each in gpus if not _NAMELESS.match(each.name)]
    return Machine(where, tuple(kept or gpus), nvlinks_known=False)


def _by_number(form: str, text: str, where: str) -> dict[int, dict[str, str]]:
    """Number of each device of the first backend -> its figures; devices without a number are counted."""
    matches = [{k: v for k, v in match.groupdict().items() if v} for match in re.finditer(form, text)]
    backends = Counter(each.get("backend", "") for each in matches)
    backend = "DISCRETE" if "DISCRETE" in backends else next(iter(backends), "")
    counted = "(?P<number>" not in form
    found: dict[int, dict[str, str]] = {}
    for k, each in enumerate(each for each in matches if each.get("backend", "") == backend):
        known = found.setdefault(k if counted else int(each.get("number", 0)), each)
        if known["name"] != each["name"]:
            raise PlatformError(
                f"{where}: a device has the names {shown(known['name'])} and {shown(each['name'])}; keep one list"
            )
    return found


def _gpu(figures: dict[str, str], name: str, where: str) -> Gpu:
    """A GPU; of a Mac, whose list states what macOS lets it use, with the memory of the machine."""
    if name.endswith(".."):
        raise PlatformError(
            f"{where}: the name {shown(name)} is cut short; put the output of 'nvidia-smi -L' before it"
        )
    total, used = (float(int(figures.get(key, 0)) << 20) for key in ("total", "used"))
    free = float(int(figures["free"]) << 20) if "free" in figures else total - used if used else None
    found = Gpu(name, memory=total, free=free)
    if name.startswith("Apple"):
        usable = total or free or 0.0
        return replace(found, memory=mac_memory(usable) if usable else 0.0, free=None)
    return found
