"""Readers of descriptions: ``nvidia-smi topo -m``, NCCL's XML, and the XML of ``lstopo`` (hwloc 2)."""

from __future__ import annotations

import re

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import MOST_DEVICES, Cpu, Gpu, Machine
from hetgym.topology.xml import Element

MOST_NVLINKS = 36
"""Most NVLinks of one GPU: twice the 18 of Hopper and Blackwell, NVIDIA's data sheets."""

_NVIDIA = "10de"
_CLASSES = ("03", "12")  # of the PCI bus: display controllers, processing accelerators
_BRIDGE = "0x0680"  # of the PCI bus, as which NVLink switches show


def nvidia_smi(text: str, where: str, gpu: str = "") -> Machine:
    """The matrix of ``nvidia-smi topo -m``, with the names of ``nvidia-smi -L`` if they are in the text.

    An entry ``NV4`` is four NVLinks; ``PIX``, ``PXB``, ``PHB``, ``NODE`` and ``SYS`` are ways over PCIe, of which the
    NUMA affinity says the socket. The heading names GPUs, network cards of any name, then CPU and NUMA affinity.

    Args:
        text: the output.
        where: the file, for messages.
        gpu: name of all GPUs, if the text has none.

    Raises:
        PlatformError: no matrix, rows that do not fit it, entries of a pair that contradict each other, more than
            :data:`MOST_NVLINKS`, or no names of GPUs.
    """
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    names = {int(m[1]): m[2].strip() for line in lines if (m := re.match(r"\s*GPU (\d{1,4}): (.+?)\s*\(UUID", line))}
    head = next((k for k, line in enumerate(lines) if re.match(r"\s*GPU0\b", line) and " X " not in line), None)
    if head is None:
        raise PlatformError(f"{where}: no matrix of 'nvidia-smi topo -m', which begins with GPU0")
    columns, affinities = _columns(lines[head])
    count = sum(re.fullmatch(r"GPU\d+", column) is not None for column in columns)
    if count > MOST_DEVICES:
        raise PlatformError(f"{where}: it names more than {MOST_DEVICES} devices")
    if columns[:count] != [f"GPU{k}" for k in range(count)]:
        raise PlatformError(f"{where}: its heading does not name the GPUs from GPU0 to GPU{count - 1} first")
    entries: dict[tuple[int, int], str] = {}
    sockets: dict[int, int] = {}
    for line in lines[head + 1 :]:
        match = re.match(r"\s*GPU(\d{1,4})\s+(.*)", line)
        if not match:
            continue
        row, cells = int(match[1]), match[2].split(None, len(columns))
        if row >= count or row in sockets or len(cells) < len(columns):
            raise PlatformError(f"{where}: row {shown('GPU' + match[1])} does not fit a matrix of {count} GPUs")
        for column, cell in zip(columns, cells, strict=False):
            links = re.fullmatch(r"NV(\d{1,3})", cell)
            if not (links or re.fullmatch(r"X|PIX|PXB|PHB|NODE|SYS|SOC", cell)):
                raise PlatformError(f"{where}: GPU{row} and {column} are linked by {shown(cell)}, which is no link")
            if links and not 1 <= int(links[1]) <= MOST_NVLINKS:
                raise PlatformError(
                    f"{where}: GPU{row} and {column} are linked by {shown(cell)}, and a GPU has up to {MOST_NVLINKS}"
                )
        for other, cell in enumerate(cells[:count]):
            if (cell == "X") != (other == row):
                raise PlatformError(f"{where}: GPU{row} and GPU{other} are linked by {shown(cell)}")
            entries[row, other] = cell
        sockets[row] = _socket(match[2], len(columns), affinities)
    if sorted(sockets) != list(range(count)):
        raise PlatformError(f"{where}: the matrix names {count} GPUs and has {len(sockets)} rows of them")
    for (one, other), cell in entries.items():
        if one < other and entries[other, one] != cell:
            raise PlatformError(
                f"{where}: GPU{one} is linked to GPU{other} by {cell}, and GPU{other} to GPU{one} by "
                f"{entries[other, one]}"
            )
    if not gpu and not set(range(count)) <= names.keys():
        raise PlatformError(
            f"{where}: it does not name its GPUs; put the output of 'nvidia-smi -L' before it, or name them all by "
            "'hetgym platform --gpu', as in --gpu 'A100 SXM4 80GB'"
        )
    gpus = tuple(Gpu(gpu or names[k], socket=sockets[k]) for k in range(count))
    nvlinks = {pair: int(cell[2:]) for pair, cell in entries.items() if pair[0] < pair[1] and cell.startswith("NV")}
    return Machine(where, gpus, nvlinks=nvlinks)


def _columns(heading: str) -> tuple[list[str], list[str]]:
    """The columns of links, which are GPUs and network cards, and those that follow them: affinities."""
    found = re.split(r"\s+(?=(?:CPU|NUMA) Affinity|GPU NUMA ID)", heading.strip())
    return found[0].split(), found[1:]


def _socket(row: str, links: int, affinities: list[str]) -> int:
    """The NUMA node of a GPU, the first of several; 0 if the row does not say, or the heading has no such column."""
    cells = row.split()[links:]
    if "NUMA Affinity" not in affinities:
        return 0
    if len(cells) < len(affinities) and re.match(rf"\s*(?:\S+\s+){{{links - 1}}}\S+ *\t\t", row):
        cells.insert(0, "")  # without a CPU affinity; elsewhere two tabs are one step
    at = affinities.index("NUMA Affinity")
    found = re.match(r"(\d{1,3})(?!\d)", cells[at]) if at < len(cells) else None
    return int(found[1]) if found else 0


def nccl(root: Element, where: str) -> Machine:
    """The topology that NCCL writes to ``NCCL_TOPO_DUMP_FILE``.

    GPUs are known by their numbers on the PCI bus. NVLinks to a bus number of no GPU are links to a switch.

    Raises:
        PlatformError: a GPU without a PCI device around it, or a count that is no number or above :data:`MOST_NVLINKS`.
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
            raise PlatformError(f"{where}: a gpu stands outside cpu and pci")
        socket = sockets.setdefault(id(cpu), len(sockets))
        number = len(gpus)
        buses[pci.get("busid").lower()] = number
        ids = f"{pci.get('vendor').lower().removeprefix('0x')}:{pci.get('device').lower().removeprefix('0x')}"
        gpus.append(Gpu(pci=ids, socket=socket, pcie=_pcie(pci)))
        targets += [(number, link) for link in element.children if link.tag == "nvlink"]
    nvlinks: dict[tuple[int, int], int] = {}
    switched: dict[int, int] = {}
    for number, link in targets:
        if not re.fullmatch(r"\d{1,3}", link.get("count")):
            raise PlatformError(f"{where}: an nvlink of count {shown(link.get('count'))}, which is no whole number")
        if int(link.get("count")) > MOST_NVLINKS:
            raise PlatformError(f"{where}: an nvlink of count {link.get('count')}, and a GPU has up to {MOST_NVLINKS}")
        count, other = int(link.get("count")), buses.get(link.get("target").lower())
        if other is None and (link.get("tclass").startswith(_BRIDGE) or link.get("target").startswith("fffffff")):
            switched[number] = switched.get(number, 0) + count
        elif other is not None and other != number:
            nvlinks[min(number, other), max(number, other)] = count
    return Machine(where, tuple(gpus), nvlinks=nvlinks, switched={k: n for k, n in switched.items() if n})


def _pcie(pci: Element) -> float | None:
    """Bandwidth of a PCI device in each direction [byte/s]; None if it is not stated.

    Up to 5 GT/s eight bits are sent as ten, from 8 GT/s on 128 as 130 (PCI Express base specification).
    """
    speed = re.match(r"(\d{1,3}(?:\.\d{1,3})?)\s*GT/s", pci.get("link_speed"))
    width = re.fullmatch(r"\d{1,2}", pci.get("link_width"))
    if not speed or not width or not int(width[0]) or not float(speed[1]):
        return None
    rate = float(speed[1]) * 1e9
    return rate * int(width[0]) / 8 * (0.8 if rate < 8e9 else 128 / 130)


def hwloc(root: Element, where: str, cpus: bool = True) -> Machine:
    """The machine of ``lstopo --of xml``: packages, their memory, and PCI devices that compute.

    Args:
        root: the element ``topology``.
        where: the file, for messages.
        cpus: False to leave out the CPUs.

    Raises:
        PlatformError: an old version of the format, or a figure that is no number.
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
                gpus.append(Gpu(name, found[2], socket, _speed(element)))
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
        raise PlatformError(f"{where}: {key} is {shown(text)}, which is no whole number")
    return int(text)


def _speed(element: Element) -> float | None:
    """``pci_link_speed`` of hwloc in byte/s; None if it is not stated."""
    text = element.get("pci_link_speed")
    found = float(text) if re.fullmatch(r"\d{1,4}(\.\d{1,9})?", text) else 0.0
    return found * 1e9 or None
