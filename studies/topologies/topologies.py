"""Descriptions of machines that others published, read by import_platform and checked against a count of its own.

    python studies/topologies/topologies.py --data hwloc/tests/hwloc/xml --data rccl/tools/topo_expl

Every ``.txt`` (a matrix of ``nvidia-smi topo -m``) and ``.xml`` (of ``lstopo`` or NCCL) below a folder is tried, copies
once. A platform must have as many GPUs as the file, as many NVLinks at each GPU and, but for ``lstopo``, as many
sockets with GPUs; these are counted here from the raw file. Whatever else is not read must be refused by a
PlatformError. If anything disagrees, the exit code is 1. Data sheets are no part of the test: all GPUs get that of an
A100 with as many NVLinks as their generation has, and all CPUs that of one Xeon.
"""

from __future__ import annotations

import hashlib
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetgym import Platform, PlatformError
from hetgym.topology import Board, import_platform
from hetgym.topology.boards import shipped_boards

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

SHEETS = {board.name: board for board in shipped_boards()}
GPU, CPU = SHEETS["A100 SXM4 80GB"], SHEETS["Xeon Gold 6148"]


def matrix(text: str) -> tuple[list[Counter[str]], int]:
    """Entries of each GPU's row, and the number of sockets, of ``nvidia-smi topo -m``."""
    lines = [re.sub(r"\x1b?\[\d*m", "", line).split() for line in text.splitlines()]
    rows = [cells[1:] for cells in lines if re.match(r"GPU\d", cells[0] if cells else "") and "X" in cells]
    head = [cells for cells in lines if cells[:1] == ["GPU0"] and "X" not in cells][-1]
    links = len([cell for cell in head if re.fullmatch(r"GPU\d+|(NIC|mlx|rdma|ib|roce|bnxt|hfi|efa)\w*", cell)])
    count = len([cell for cell in head if re.fullmatch(r"GPU\d+", cell)])
    numa = [row[-2 if "ID" in head else -1] for row in rows] if "NUMA" in head else []
    if any(cell[0].isdigit() for cell in numa):
        return [Counter(row[:count]) for row in rows], len({re.split(r"[-,]", cell)[0] for cell in numa})
    return [Counter(row[:count]) for row in rows], len({row[links] if len(row) > links else "" for row in rows})


def stated(path: Path) -> tuple[str, list[set[int]], int | None]:
    """What the raw file says: its form, the NVLinks of each GPU, and the sockets with GPUs.

    An entry ``NV12`` may be all links of a GPU, to a switch, or those to one neighbour, so both numbers are possible.
    """
    if path.suffix == ".txt":
        rows, sockets = matrix(path.read_text(errors="replace"))
        links = [[int(cell[2:]) for cell in row.elements() if cell.startswith("NV")] for row in rows]
        return "nvidia-smi", [{sum(each), max(each, default=0)} for each in links], sockets
    root = ET.parse(path).getroot()
    if root.tag == "system":
        buses = {pci.get("busid") for pci in root.iter("pci") if pci.find("gpu") is not None}
        counts = []
        for gpu in root.iter("gpu"):
            ends = [(link.get("target"), link.get("tclass", ""), link.get("count", "")) for link in gpu.iter("nvlink")]
            counts.append({sum(int(n) for bus, kind, n in ends if bus in buses or kind.startswith("0x0680"))})
        return "NCCL", counts, len([cpu for cpu in root.iter("cpu") if cpu.find(".//gpu") is not None])
    kinds = [device for device in root.iter("object") if device.get("type") == "PCIDev"]
    gpus = [
        device
        for device in kinds
        if re.match(r"(03|12)\d\d", device.get("pci_type", ""))
        and ("[10de:" in device.get("pci_type", "") or device.find(".//info[@name='GPUModel']") is not None)
    ]
    return "lstopo", [{0} for _ in gpus], None


def read(path: Path) -> Platform:
    """The platform, with data sheets for whatever the file names."""
    text = path.read_text(errors="replace")
    most = max([int(count) for count in re.findall(r"\bNV(\d+)\b", text)], default=18)
    sheet = replace(GPU, name="any", nvlinks=6 if most <= 3 else 12 if most <= 12 else 18)
    models = {"without a name", *re.findall(r'name="CPUModel" value="([^"]*\w[^"]*)"', text)}
    return import_platform(path, boards=[sheet, *(Board(model, CPU.device) for model in models)], gpu="any")


def links(platform: Platform) -> tuple[dict[str, int], int, int, set[str]]:
    """NVLinks of each GPU, pairs of GPUs with NVLinks, links to switches, and the sockets that GPUs are linked to."""
    count = {device.name: 0 for device in platform if device.kind == "gpu"}
    above = {link.start: link.end for link in platform.links if link.start.startswith("pcie")}
    pairs, switched, sockets = 0, 0, set()
    for link in platform.links:
        if link.start in count and link.kind.endswith("NVLinks"):
            count[link.start] += int(link.kind.split()[0])
            switched += link.end == "nvswitch"
            pairs += link.end in count and link.start < link.end
        elif link.start in count:
            sockets.add(above.get(link.end, link.end))
    return count, pairs, switched, sockets


def row_of(path: Path, name: str) -> dict[str, Any]:
    """One row: what was read, or why not, and whether the file says the same."""
    try:
        platform = read(path)
    except PlatformError as error:
        return {"what": name, "refused": str(error).removeprefix(f"{path}: "), "agrees": True}
    form, gpus, sockets = stated(path)
    count, pairs, switched, hosts = links(platform)
    agrees = len(count) == len(gpus) and all(n in each for n, each in zip(count.values(), gpus, strict=False))
    if sockets is not None and len(platform) > 1:
        agrees = agrees and len(hosts) == sockets
    return {
        "what": name,
        "form": form,
        "gpus": len(count),
        "cpus": len(platform) - len(count),
        "sockets": len(hosts),
        "pairs": pairs,
        "switched": switched,
        "agrees": agrees,
    }


COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "what": lambda row: row["what"],
    "form": lambda row: row["form"],
    "GPUs": lambda row: str(row["gpus"]),
    "CPUs": lambda row: str(row["cpus"]),
    "sockets of GPUs": lambda row: str(row["sockets"]),
    "pairs with NVLinks": lambda row: str(row["pairs"]),
    "links to switches": lambda row: str(row["switched"]),
    "as the file says": lambda row: "yes" if row["agrees"] else "NO",
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, action="append", required=True, help="folder or file; may be repeated")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    seen: set[bytes] = set()
    for place in options.data:
        found = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in (".txt", ".xml"))
        for path in found:
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in seen:
                seen.add(digest)
                rows.append(row_of(path, str(path.relative_to(place.parent))))
    if not rows:
        raise SystemExit("no .txt and no .xml there")
    refused = [row for row in rows if "refused" in row]
    show("Descriptions of machines", [row for row in rows if "refused" not in row], COLUMNS)
    for row in refused:
        print(f"{row['what']}: {row['refused']}")
    wrong = [row["what"] for row in rows if not row["agrees"]]
    print(f"{len(rows)} files: {len(rows) - len(refused)} read, {len(refused)} refused, {len(wrong)} wrong")
    save(options.json, "topologies", rows)
    if wrong:
        raise SystemExit("not as the file says: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
