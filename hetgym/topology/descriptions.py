"""Readers of XML: that of NCCL, and that of ``lstopo`` (hwloc 2)."""

import re
from dataclasses import replace

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import Cpu, Gpu, Machine
from hetgym.topology.nvidia_smi import MOST_NVLINKS, NAME_THEM
from hetgym.topology.pcie import pcie_rate
from hetgym.topology.xml import Element

_NVIDIA = "10de"
_CLASSES = ("03", "12")  # of the PCI bus: display controllers, processing accelerators
_BRIDGE, _CPU_BRIDGE = "0x0680", "0x068001"  # of the PCI bus: NVLink switches, and IBM's processors


def nccl(root: Element, where: str, gpu: str = "") -> Machine:
    """The topology that NCCL writes to ``NCCL_TOPO_DUMP_FILE``.

    GPUs are known by their numbers on the PCI bus. NVLinks to a switch need no target that the file has; those to GPUs
    that a run left out are left out.

    Args:
        gpu: name of all GPUs; their PCI numbers say it by default.

    Raises:
        PlatformError: no GPU, a duplicate one, one outside a PCI device or without PCI numbers; links of RCCL or to
            processors, a link of a GPU to itself, counts of a pair that contradict each other, or a count that is no
            number or above :data:`MOST_NVLINKS`.
    """
    gpus: list[Gpu] = []
    buses: dict[str, int] = {}
    targets: list[tuple[int, Element]] = []
    sockets: dict[int, int] = {}
    for element, above in root.walk():
        if element.tag != "gpu":
            continue
        cpu = next((one for one in above if one.tag == "cpu"), None)
        pci = next((one for one in reversed(above) if one.tag == "pci"), None)
        if cpu is None or pci is None:
            raise PlatformError(f"{where}: a gpu element lies outside cpu and pci")
        socket = sockets.setdefault(id(cpu), len(sockets))
        bus, number = pci.get("busid").lower(), len(gpus)
        if bus in buses:
            raise PlatformError(
                f"{where}: duplicate GPU {shown(bus)}; let a run on one node write it, with a rank for each GPU"
            )
        if any(link.tag == "xgmi" for link in element.children):
            raise PlatformError(
                f"{where}: written by RCCL, whose xgmi links are not supported; write a platform file instead"
            )
        vendor, device = (pci.get(key).lower().removeprefix("0x") for key in ("vendor", "device"))
        if not gpu and not (vendor and device):
            raise PlatformError(f"{where}: the GPU {shown(bus)} has no PCI numbers; {NAME_THEM}")
        buses[bus] = number
        gpus.append(_nccl_gpu(element, pci, Gpu(gpu, "" if gpu else f"{vendor}:{device}", socket), where))
        targets += [(number, link) for link in element.children if link.tag == "nvlink"]
    if not gpus:
        raise PlatformError(
            f"{where}: it names no GPUs, as files for NCCL_TOPO_FILE do; take what a run writes to NCCL_TOPO_DUMP_FILE"
        )
    nvlinks: dict[tuple[int, int], int] = {}
    switched: dict[int, int] = {}
    for number, link in targets:
        count, target, kind = _count(link, where), link.get("target").lower(), link.get("tclass")
        other = buses.get(target)
        if other == number:
            raise PlatformError(f"{where}: an nvlink of {shown(target)} leads to itself; let NCCL write the file anew")
        if other is not None:
            pair = min(number, other), max(number, other)
            if nvlinks.setdefault(pair, count) != count:
                raise PlatformError(f"{where}: GPUs {pair[0]} and {pair[1]} state {nvlinks[pair]} and {count} NVLinks")
        elif kind.startswith(_CPU_BRIDGE):
            raise PlatformError(f"{where}: NVLinks to processors are not supported; write a platform file instead")
        elif kind.startswith(_BRIDGE) or target.startswith("fffffff"):
            switched[number] = switched.get(number, 0) + count
    return Machine(where, tuple(gpus), nvlinks=nvlinks, switched={k: n for k, n in switched.items() if n})


def _nccl_gpu(element: Element, pci: Element, gpu: Gpu, where: str) -> Gpu:
    """The GPU with its way to the socket: C2C if it has such links, whose ``bw`` is in MB/s, else PCIe."""
    for link in element.children:
        if link.tag == "c2c" and (rate := _count(link, where) * _whole(link, "bw", where)):
            return replace(gpu, pcie=rate * 1e6, way="C2C")
    return replace(gpu, pcie=_pcie(pci))


def _count(link: Element, where: str) -> int:
    """Number of NVLinks or C2C links."""
    count = link.get("count")
    if not re.fullmatch(r"\d{1,3}", count):
        raise PlatformError(f"{where}: an {link.tag} of count {shown(count)}, which is not a whole number")
    if int(count) > MOST_NVLINKS:
        raise PlatformError(f"{where}: an {link.tag} of count {count}, and a GPU has up to {MOST_NVLINKS}")
    return int(count)


def _pcie(pci: Element) -> float | None:
    """Bandwidth of a PCI device in each direction [byte/s]; None if it is not stated."""
    speed = re.match(r"(\d{1,3}(?:\.\d{1,3})?)\s*GT/s", pci.get("link_speed"))
    width = re.fullmatch(r"\d{1,2}", pci.get("link_width"))
    if not speed or not width or not int(width[0]) or not float(speed[1]):
        return None
    return pcie_rate(float(speed[1]) * 1e9, int(width[0]))


def hwloc(root: Element, where: str, cpus: bool = True, gpu: str = "") -> Machine:
    """The machine of ``lstopo --of xml``: packages, their memory, and PCI devices that compute.

    Args:
        cpus: False to leave out the CPUs.
        gpu: name of all GPUs; those of the file by default.

    Raises:
        PlatformError: an old version of the format, or a figure that is not a number.
    """
    if not root.get("version").startswith(("2", "3")):
        raise PlatformError(
            f"{where}: written by hwloc 1, whose form differs; write it with 'lstopo --of xml' of hwloc 2"
        )
    objects = [(element, above) for element, above in root.walk() if element.tag == "object"]
    packages = [element for element, _ in objects if element.get("type") == "Package"]
    sets = [_mask(element.get("nodeset")) for element in packages]
    memory, cores = [0] * len(packages), [0] * len(packages)
    gpus: list[Gpu] = []
    for element, above in objects:
        kind = element.get("type")
        inside = next((packages.index(one) for one in above if one.get("type") == "Package"), None)
        if kind in ("NUMANode", "Core"):
            nodes = _mask(element.get("nodeset"))
            at = inside if inside is not None else next((k for k, own in enumerate(sets) if own & nodes), None)
            if at is not None and kind == "NUMANode":
                memory[at] += _whole(element, "local_memory", where)
            elif at is not None:
                cores[at] += 1
        elif kind == "PCIDev":
            found = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}:[0-9a-f]{4})\]", element.get("pci_type").lower())
            names = [_info(child, "GPUModel") for child, _ in element.walk()]
            name = next(filter(None, names), "")
            if found and found[1].startswith(_CLASSES) and (name or found[2].startswith(_NVIDIA)):
                group = next((_mask(one.get("nodeset")) for one in reversed(above) if one.get("nodeset")), 0)
                socket = next((k for k, own in enumerate(sets) if own & group), 0) if inside is None else inside
                gpus.append(Gpu(gpu or name, "" if gpu else found[2], socket, _speed(element)))
    named = tuple(
        Cpu(k, _info(package, "CPUModel") or "without a name", memory[k], cores[k])
        for k, package in enumerate(packages)
    )
    return Machine(where, tuple(gpus), named if cpus else (), nvlinks_known=False)


def _info(element: Element, key: str) -> str:
    """Value of an ``info`` of an object."""
    return next((c.get("value") for c in element.children if c.tag == "info" and c.get("name") == key), "")


def _mask(text: str) -> int:
    """A set of nodes as bits; hwloc writes words of 32 bits, the highest first."""
    digits = "".join(word.removeprefix("0x").zfill(8) for word in text.split(",")) if len(text) < 2000 else ""
    return int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]+", digits) else 0


def _whole(element: Element, key: str, where: str) -> int:
    text = element.get(key) or "0"
    if not re.fullmatch(r"\d{1,18}", text):
        raise PlatformError(f"{where}: {key} is {shown(text)}, which is not a whole number")
    return int(text)


def _speed(element: Element) -> float | None:
    """``pci_link_speed`` of hwloc in byte/s; None if it is not stated."""
    text = element.get("pci_link_speed")
    found = float(text) if re.fullmatch(r"\d{1,4}(\.\d{1,9})?", text) else 0.0
    return found * 1e9 or None
