"""Reader of the matrix of ``nvidia-smi topo -m``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import networkx as nx

from hetgym.errors import PlatformError, shown
from hetgym.topology.machine import MOST_DEVICES, Gpu, Machine
from hetgym.topology.nvidia_query import query

MOST_NVLINKS = 36  # Most NVLinks of one GPU: twice the 18 of Hopper and Blackwell, NVIDIA's data sheets

NAME_THEM = "name them all by 'hetgym platform --gpu', as in --gpu 'A100 SXM4 80GB'"


def nvidia_smi(text: str, where: str, gpu: str = "") -> Machine:
    """The matrix of ``nvidia-smi topo -m``, with the names of ``nvidia-smi -L`` or ``-q`` if they are in the text.

    An entry ``NV4`` is four NVLinks. Over PCIe, ``PIX`` and ``PXB`` stay below a switch, whose uplink these GPUs share;
    ``PHB``, ``NODE`` and ``SYS`` cross the host. The heading names GPUs, network cards of any name, then CPU and NUMA
    affinity, which say the socket.

    Args:
        gpu: name of all GPUs; those of the text by default.

    Raises:
        PlatformError: no matrix or several, rows that do not fit it, entries that contradict each other, more than
            :data:`MOST_NVLINKS`, sockets that are crossed but not named, or no names of GPUs.
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
    sockets = _sockets([tails[k] for k in range(count)], affinities)
    found = zip(_gpus(lines, count, gpu, where), sockets, strict=True)
    gpus = tuple(replace(each, socket=socket) for each, socket in found)
    nvlinks = {pair: int(cell[2:]) for pair, cell in entries.items() if pair[0] < pair[1] and cell.startswith("NV")}
    return Machine(where, gpus, nvlinks=nvlinks, shared=_shared(entries, sockets, where))


def _shared(entries: Mapping[tuple[int, int], str], sockets: Sequence[int], where: str) -> tuple[tuple[int, ...], ...]:
    """Groups of GPUs behind one PCIe switch; PlatformError if two of a group are not behind it by their entry."""
    graph = nx.Graph(pair for pair, cell in entries.items() if cell in ("PIX", "PXB"))
    groups = sorted(tuple(sorted(group)) for group in nx.connected_components(graph))
    for group in groups:
        for one, other in combinations(group, 2):
            if entries[one, other] in ("PHB", "NODE", "SYS", "SOC"):
                raise PlatformError(
                    f"{where}: GPU{one} and GPU{other} are linked by {entries[one, other]}, yet both are behind the "
                    "PCIe switch of a third GPU; write the matrix anew by 'nvidia-smi topo -m'"
                )
            if sockets[one] != sockets[other]:
                raise PlatformError(
                    f"{where}: GPU{one} and GPU{other} are behind one PCIe switch, and on the sockets {sockets[one]} "
                    f"and {sockets[other]}; write the matrix anew by 'nvidia-smi topo -m'"
                )
    return tuple(groups)


def _gpus(lines: list[str], count: int, gpu: str, where: str) -> list[Gpu]:
    """The GPUs that a text names beside its matrix; PlatformError if it does not name all of them."""
    if gpu:
        return [Gpu(gpu)] * count
    queried = query(lines, where)
    if len(queried) == count and all(each.name or each.pci for each in queried):
        return queried
    names = _names(lines)
    if not set(range(count)) <= names.keys():
        raise PlatformError(
            f"{where}: it does not name its GPUs; put the output of 'nvidia-smi -L' before it, or {NAME_THEM}"
        )
    return [Gpu(names[k]) for k in range(count)]


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
