"""hetgym's fusion beside TVM's, on the nine models that the onnx package ships. Needs ``hetgym[tvm]``.

    python studies/fusion_tvm/fusion_tvm.py --json fusion_tvm.json --markdown table.md

A difference is an edge whose two operators share a group here and not there; it is counted by the kinds of the two.
The time is the sum over groups on the GPU of ``cpu-gpu-balanced``, by the roofline.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx

from hetgym import Problem, load_platform
from hetgym.graph import from_tvm
from hetgym.graph.transforms import Fusion, fuse

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
COLUMNS = ("model", "operators", "ours", "tvm", "kernels", "same", "only_ours", "only_tvm", "time")


def merged(fusion: Fusion) -> set[tuple[int, int]]:
    """Edges inside groups."""
    group = fusion.group
    return {(e.source, e.target) for e in fusion.source.edges if group[e.source] == group[e.target]}


def row(path: Path) -> dict[str, Any]:
    """One model."""
    tvm = from_tvm(path)
    graph = tvm.fusion.source
    ours = fuse(graph)
    platform = load_platform("cpu-gpu-balanced")
    gpu = next(i for i, device in enumerate(platform.devices) if "gpu" in device.name)
    seconds = [float(Problem.build(fusion.graph, platform).cost[:, gpu].sum()) for fusion in (ours, tvm.fusion)]

    def kinds(edges: set[tuple[int, int]]) -> dict[str, int]:
        names = Counter(f"{graph.operators[s].kind} -> {graph.operators[t].kind}" for s, t in edges)
        return dict(sorted(names.items(), key=lambda item: (-item[1], item[0])))

    mine, theirs = merged(ours), merged(tvm.fusion)
    name = path.stem.removeprefix("light_").removeprefix("bvlc_")
    return {
        "model": name,
        "operators": len(graph),
        "ours": len(ours.members),
        "tvm": len(tvm.fusion.members),
        "kernels": tvm.kernels,
        "same": len(set(ours.members) & set(tvm.fusion.members)),
        "only_ours": kinds(mine - theirs),
        "only_tvm": kinds(theirs - mine),
        "split": len(tvm.split),
        "elided": len(tvm.elided),
        "seconds": seconds,
        "time": seconds[1] / seconds[0],
    }


def cell(value: object) -> str:
    """A number, or kinds with their counts."""
    if isinstance(value, dict):
        return "; ".join(f"{count} {kind}" for kind, count in value.items())
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="*", default=[""], help="part of the names; all by default")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    paths = [path for path in sorted(LIGHT.glob("light_*.onnx")) if any(word in path.stem for word in args.models)]
    rows = [row(path) for path in paths]
    show("groups of operators", rows, {name: lambda r, name=name: cell(r[name]) for name in COLUMNS})
    save(args.json, "fusion_tvm", rows)
    if args.markdown is not None:
        names = [name.replace("_", " ").replace("tvm", "TVM") for name in COLUMNS]
        lines = ["| " + " | ".join(names) + " |", "|---" * len(COLUMNS) + "|"]
        lines += ["| " + " | ".join(cell(r[name]) for name in COLUMNS) + " |" for r in rows]
        args.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
