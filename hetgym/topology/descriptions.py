"""Readers of descriptions: ``nvidia-smi topo -m``, NCCL's XML, and the XML of ``lstopo`` (hwloc 2)."""

import re
from dataclasses import replace

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import MOST_DEVICES, Cpu, Gpu, Machine
from hetgym.topology.xml import Element

MOST_NVLINKS = 36  # Most NVLinks of one GPU: twice the 18 of Hopper and Blackwell, NVIDIA's data sheets

_NVIDIA = "10de"
_CLASSES = ("03", "12")  # of the PCI bus: display controllers, processing accelerators
_BRIDGE, _CPU_BRIDGE = "0x0680", "0x068001"  # of the PCI bus: NVLink switches, and IBM's processors
_NAME_THEM = "name them all by 'hetgym platform --gpu', as in --gpu 'A100 SXM4 80GB'"


def nvidia_smi(text: str, where: str, gpu: str = "") -> Machine:
    """The matrix of ``nvidia-smi topo -m``, with the names of ``nvidia-smi -L`` if they are in the text.

    An entry ``NV4`` is four NVLinks; ``PIX``, ``PXB``, ``PHB``, ``NODE`` and ``SYS`` are ways over PCIe. The heading
    names GPUs, network cards of any name, then CPU and NUMA affinity, which say the socket.

    Args:
        gpu: name of all GPUs; those of the text by default.

    Raises:
        PlatformError: no matrix or several, rows that do not fit it, entries of a pair that contradict each other, more
            than :data:`MOST_NVLINKS`, sockets that are crossed but not named, or no names of GPUs.
    """
    lines = [re.sub(r"\x1b?\[[0-9;]*m", "", line) for line in text.splitlines()]  # pasted text lacks the escape
    first = [k for k, line in enumerate(lines) if re.match(r"\s*GPU0(\s|$)", line)]
    begin = next((k for k in first if "X" in lines[k].split()), len(lines))
    head = max((k for k in first if k < begin), default=None)  # the heading is the last before the first row
    if head is None:
        raise PlatformError(f"{where}: no matrix of 'nvidia-smi topo -m', which begins with GPU0")
    columns, affinities = _columns(lines[head])
    count = sum(re.fullmatch(r"GPU\d+", column) is not None for column in columns)
    if count > MOST_DEVICES:
        raise PlatformError(f"{where}: it names more than {MOST_DEVICES} devices")
    if columns[:count] != [f"GPU{k}" for k in range(count)]:
        raise PlatformError(f"{where}: its heading does not name the GPUs from GPU0 to GPU{count - 1} first")
    entries: dict[tuple[int, int], str] = {}
    tails: dict[int, list[str]] = {}
    for line in lines[head + 1 :]:
        match = re.match(r"\s*GPU(\d{1,4})\s+(.*)", line)
        if not match:
            continue
        row, cells = int(match[1]), match[2].split()
        if row in tails:
            raise PlatformError(f"{where}: it has two rows of GPU{row}; keep one matrix, that of 'topo -m'")
        cells, tails[row] = cells[: len(columns)], cells[len(columns) :]
        if row >= count or len(cells) < len(columns) or ("NUMA Affinity" in affinities and not tails[row]):
            raise PlatformError(f"{where}: row {shown('GPU' + match[1])} does not fit a matrix of {count} GPUs")
        for column, cell in zip(columns, cells, strict=True):
            _check(cell, f"{where}: GPU{row} and {column}", column == f"GPU{row}")
        entries |= {(row, other): cell for other, cell in enumerate(cells[:count])}
    if len(tails) != count:
        raise PlatformError(f"{where}: the matrix names {count} GPUs and has {len(tails)} rows of them")
    for (one, other), cell in entries.items():
        if one < other and entries[other, one] != cell:
            raise PlatformError(
                f"{where}: GPU{one} is linked to GPU{other} by {cell}, and GPU{other} to GPU{one} by "
                f"{entries[other, one]}"
            )
    if not affinities and {"SYS", "SOC"} & set(entries.values()):
        raise PlatformError(
            f"{where}: GPUs are on several sockets, and no column 'CPU Affinity' says on which; keep the whole heading"
        )
    names = dict.fromkeys(range(count), gpu) if gpu else _names(lines)
    if not set(range(count)) <= names.keys():
        raise PlatformError(
            f"{where}: it does not name its GPUs; put the output of 'nvidia-smi -L' before it, or {_NAME_THEM}"
        )
    sockets = _sockets([tails[k] for k in range(count)], affinities)
    gpus = tuple(Gpu(names[k], socket=sockets[k]) for k in range(count))
    nvlinks = {pair: int(cell[2:]) for pair, cell in entries.items() if pair[0] < pair[1] and cell.startswith("NV")}
    return Machine(where, gpus, nvlinks=nvlinks)


def _check(cell: str, pair: str, same: bool) -> None:
    """Refuse an entry that no matrix has there; ``same`` is whether row and column are the same device."""
    links = re.fullmatch(r"NV(\d{1,3})", cell)
    if not (links or re.fullmatch(r"X|PIX|PXB|PHB|NODE|SYS|SOC", cell)):
        raise PlatformError(f"{pair} are linked by {shown(cell)}, which 'nvidia-smi topo -m' never prints")
    if links and not 1 <= int(links[1]) <= MOST_NVLINKS:
        raise PlatformError(f"{pair} are linked by {shown(cell)}, and a GPU has up to {MOST_NVLINKS}")
    if (cell == "X") != same:
        raise PlatformError(f"{pair} are linked by {shown(cell)}")


def _names(lines: list[str]) -> dict[int, str]:
    """Names of GPUs by number, from ``GPU 0: NAME (UUID: …)`` or ``GPU 0,1: NAME``, as reports of environments say."""
    names: dict[int, str] = {}
    for line in lines:
        if match := re.match(r"\s*GPU (\d{1,4}(?:,\d{1,4})*): (.+)", line):
            for number in match[1].split(","):
                names.setdefault(int(number), match[2].partition("(UUID")[0].strip())
    return names


def _columns(heading: str) -> tuple[list[str], list[str]]:
    """The columns of links, which are GPUs and network cards, and those that follow them: affinities."""
    heading = re.sub(r"(CPU|NUMA)\s+Affinity", r"\1 Affinity", heading.strip())
    found = re.split(r"\s+(?=(?:CPU|NUMA) Affinity|GPU NUMA ID)", heading)
    return found[0].split(), found[1:]


def _sockets(rows: list[list[str]], affinities: list[str]) -> list[int]:
    """The sockets of GPUs: their NUMA nodes, the first of several; if none is stated, one for each CPU affinity.

    Args:
        rows: the columns after the links in each row. It may lack the CPU affinity, so columns count from the last.
        affinities: the headings of these columns.
    """
    if "NUMA Affinity" in affinities:
        back = len(affinities) - affinities.index("NUMA Affinity")
        numa = [re.match(r"(\d{1,3})(?!\d)", row[-back]) if back <= len(row) else None for row in rows]
        if any(numa):
            return [int(found[1]) if found else 0 for found in numa]
    cpus = [row[0] if row else "" for row in rows]
    return [list(dict.fromkeys(cpus)).index(cpu) for cpu in cpus]


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
            raise PlatformError(f"{where}: the GPU {shown(bus)} has no PCI numbers; {_NAME_THEM}")
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
    """Bandwidth of a PCI device in each direction [byte/s]; None if it is not stated.

    Up to 5 GT/s eight bits are sent as ten, from 8 GT/s on 128 as 130 (PCI Express base specification).
    """
    speed = re.match(r"(\d{1,3}(?:\.\d{1,3})?)\s*GT/s", pci.get("link_speed"))
    width = re.fullmatch(r"\d{1,2}", pci.get("link_width"))
    if not speed or not width or not int(width[0]) or not float(speed[1]):
        return None
    rate = float(speed[1]) * 1e9
    return rate * int(width[0]) / 8 * (0.8 if rate < 8e9 else 128 / 130)


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
