"""Sums of nodes' times compared with times of models, and effects of fusion; runs ONNX Runtime on one core.

    python studies/onnxruntime_nodes/onnxruntime_nodes.py --core 1 --json nodes.json

Nine real models that the onnx package ships, batch 1, float32. Their weights are ConstantOfShape nodes; they become
stored weights of random values first, scaled so that activations neither vanish nor overflow. Each model runs as it is
(no optimisation), with ONNX Runtime's fusions (``fused``: batch normalisation folded into convolutions, activations
and sums appended) and with its blocked layouts as well (``layout``). *Nodes* is the sum of the nodes' medians from
ONNX Runtime's own profile, *wall* the median of runs without profiling in between, *dispatch* what is left, for each
node; negative where the profile costs more than dispatch does.

Protocol: one thread, pinned; a run counts only where its wall time is within 2 % of the thread's CPU time, so that
runs which another process interrupted drop out (the share kept is printed; where fewer than eight are left, the fastest
quarter counts); at most 40 runs; *spread* is the distance from the tenth to the ninetieth percentile of the runs kept,
over the median. The profile counts whole microseconds.

With ``--device PLATFORM/DEVICE`` the fused graph is priced as well, by the costs that the device names: an outside
check, since ONNX Runtime's kernels are not those that hetgym's models were fitted to.
Needs ``hetgym[onnx]`` and onnxruntime.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show

from hetgym import load_platform
from hetgym.costs import cost_model
from hetgym.device import Device
from hetgym.graph import from_onnx
from hetgym.graph.transforms import Fusion, fuse

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
LEVELS = {
    "as written": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "fused": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
QUIET = 1.02
"""Largest ratio of wall time to CPU time of an undisturbed run."""

SHORT, LONG = "shufflenet", "vgg19"
"""A model whose nodes are so short that the profiler shows, and one whose runs are seldom undisturbed."""

OFTEN = 20
"""Number of pieces of a kind from which on it counts in the summary."""

ENOUGH, FEW = 40, 8
"""Number of undisturbed runs after which measuring ends, and least number of them that suffices."""


def light_models(words: list[str]) -> list[Path]:
    return [path for path in sorted(LIGHT.glob("light_*.onnx")) if any(word in path.stem for word in words)]


def prepared(path: Path, seed: int = 0) -> onnx.ModelProto:
    """The model with stored random weights in place of generated constant ones, and a name for every node."""
    model = onnx.load(str(path))
    rng = np.random.default_rng(seed)
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    role = {name: (node.op_type, at) for node in model.graph.node for at, name in enumerate(node.input)}
    nodes, made = [], {}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            made[node.output[0]] = _weight(tuple(held[node.input[0]].tolist()), role.get(node.output[0]), rng)
        elif node.op_type == "Unsqueeze" and node.input[0] in made:
            axes = tuple(helper.get_node_attr_value(node, "axes"))
            kind = role.get(node.output[0], ("", 0))[0]
            value = np.expand_dims(made[node.input[0]], axes)
            made[node.output[0]] = value + np.float32(1) if kind == "Mul" else value
        else:
            node.name = f"{node.op_type}_{len(nodes)}"
            nodes.append(node)
    used = {name for node in nodes for name in node.input}
    kept = [t for t in model.graph.initializer if t.name in used and t.name not in made]
    inputs = [v for v in model.graph.input if v.name in used and v.name not in held and v.name not in made]
    tensors = [*kept, *(numpy_helper.from_array(value, name) for name, value in made.items() if name in used)]
    graph = helper.make_graph(
        nodes, path.stem.removeprefix("light_").removeprefix("bvlc_"), inputs, list(model.graph.output), tensors
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(4, model.ir_version))


def _weight(shape: tuple[int, ...], role: tuple[str, int] | None, rng: np.random.Generator) -> Any:
    """Random values of a weight: variance 2 / fan-in for products, about 1 for scales and variances."""
    kind, at = role or ("", 0)
    if kind in ("Conv", "Gemm", "MatMul") and at == 1:
        fan = int(np.prod(shape[1:])) if kind == "Conv" else max(shape)
        return (rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan))).astype(np.float32)
    if kind == "BatchNormalization" and at in (1, 4):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    return (0.1 * rng.standard_normal(shape, np.float32)).astype(np.float32)


@dataclass(frozen=True)
class Timing:
    """Times of one session.

    Args:
        nodes: name -> median time of a node [s].
        wall: median time of runs without profiling [s].
        spread: distance between the tenth and ninetieth percentile of these runs, over the median.
        kept: share of runs that no other process interrupted.
    """

    nodes: dict[str, float]
    wall: float
    spread: float
    kept: float


def feeds(session: onnxruntime.InferenceSession, rng: np.random.Generator) -> dict[str, Any]:
    return {i.name: rng.standard_normal([int(d) for d in i.shape]).astype(np.float32) for i in session.get_inputs()}


def session_of(file: Path, level: str, profile: Path | None, optimised: Path | None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = LEVELS[level]
    options.log_severity_level = 3
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def runs(sessions: list[onnxruntime.InferenceSession], data: dict[str, Any], seconds: float) -> tuple[Any, Any, Any]:
    """Run sessions in turn, so that all see the same clock rates.

    Returns:
        [sessions, runs] wall times [s]; [sessions, runs] True for runs that count, which are the undisturbed ones or,
        if these are few, the fastest quarter; [sessions] share of undisturbed runs.
    """
    wall: list[list[float]] = [[] for _ in sessions]
    alone: list[list[bool]] = [[] for _ in sessions]
    begin = time.perf_counter()
    while len(wall[0]) < 12 or (time.perf_counter() - begin < seconds and min(map(sum, alone)) < ENOUGH):
        for session, times, left in zip(sessions, wall, alone, strict=True):
            c0, w0 = time.thread_time(), time.perf_counter()
            session.run(None, data)
            w1, c1 = time.perf_counter(), time.thread_time()
            left.append(len(times) >= 2 and w1 - w0 <= QUIET * (c1 - c0))  # two warm-ups
            times.append(w1 - w0)
    taken, counts = np.array(wall), np.array(alone)
    share = counts[:, 2:].mean(axis=1)
    for row, times in zip(counts, taken, strict=True):
        if row.sum() < FEW:
            row[:] = times <= np.quantile(times[2:], 0.25)
    return taken, counts, share


def measure(file: Path, level: str, folder: Path, seconds: float, optimised: Path | None) -> Timing:
    """Time a model with and without the profiler."""
    rng = np.random.default_rng(1)
    plain = session_of(file, level, None, optimised)
    profiled = session_of(file, level, folder / "profile", None)
    (wall, _), (alone, counts), (share, _) = runs([plain, profiled], feeds(plain, rng), seconds)
    trace = Path(profiled.end_profiling())
    events = json.loads(trace.read_text())
    trace.unlink()
    chosen = np.quantile(wall[alone], (0.1, 0.5, 0.9))
    return Timing(per_node(events, counts), float(chosen[1]), float((chosen[2] - chosen[0]) / chosen[1]), float(share))


def per_node(events: list[dict[str, Any]], counts: Any) -> dict[str, float]:
    """Median of each node over the runs that count."""
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == "model_run")
    starts = np.array([start for start, _ in spans])
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            run = int(np.searchsorted(starts, event["ts"], "right")) - 1
            if counts[run]:
                times[event["name"].removesuffix("_kernel_time")].append(event["dur"] * 1e-6)
    return {name: float(np.median(values)) for name, values in times.items()}


def covered(model: onnx.ModelProto, optimised: onnx.ModelProto) -> dict[str, set[str]]:
    """Optimised node -> original nodes that it replaces: those between its inputs and its outputs."""
    maker = {out: node for node in model.graph.node for out in node.output}
    handed = {out for node in optimised.graph.node for out in node.output}
    found: dict[str, set[str]] = {}
    taken: set[str] = set()
    for node in optimised.graph.node:
        pending = [out for out in node.output if out in maker]
        stop = handed - set(node.output)
        mine: set[str] = set()
        while pending:
            value = pending.pop()
            source = maker[value]
            if source.name not in mine and source.name not in taken:
                mine.add(source.name)
                pending += [name for name in source.input if name in maker and name not in stop]
        found[node.name] = mine
        taken |= mine
    return found


def pieces(fusion: Fusion, stands_for: dict[str, set[str]]) -> Iterator[tuple[set[int], set[str]]]:
    """Smallest sets of hetgym's groups and of optimised nodes that cover the same original nodes."""
    group = {op.name: int(g) for op, g in zip(fusion.source.operators, fusion.group, strict=True)}
    parent: dict[Any, Any] = {}

    def root(x: Any) -> Any:
        while parent.setdefault(x, x) != x:
            x = parent[x]
        return x

    for node, names in stands_for.items():
        for name in names:
            if name in group:
                parent[root(("group", group[name]))] = root(("node", node))
    both: dict[Any, tuple[set[int], set[str]]] = defaultdict(lambda: (set(), set()))
    for kind, x in list(parent):
        both[root((kind, x))][kind == "node"].add(x)
    yield from both.values()  # type: ignore[misc]


def study(
    path: Path, folder: Path, seconds: float, device: Device | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Study one model: a row for each level, and one for each piece that fusion changes.

    Args:
        path: one of the light models.
        folder: folder for temporary files.
        seconds: time to measure each level [s].
        device: device on which hetgym's groups are priced; None = do not price them.
    """
    model = prepared(path)
    file, small = folder / "model.onnx", folder / "optimised.onnx"
    onnx.save(model, str(file))
    fusion = fuse(from_onnx(model))
    name = model.graph.name
    timings = {level: measure(file, level, folder, seconds, small if level == "fused" else None) for level in LEVELS}
    stands_for = covered(model, onnx.load(str(small)))
    rows = []
    priced = None if device is None else float(cost_model().predict(fusion.graph.operators, device).sum())
    for level, timing in timings.items():
        total = sum(timing.nodes.values())
        rows.append(
            {
                "model": name,
                "level": level,
                "nodes": len(timing.nodes),
                "groups": len(fusion.members),
                "sum": total,
                "wall": timing.wall,
                "apart": total / timing.wall - 1,
                "dispatch": (timing.wall - total) / len(timing.nodes),
                "spread": timing.spread,
                "kept": timing.kept,
                "predicted": priced,
            }
        )
    before, after = timings["as written"].nodes, timings["fused"].nodes
    parts = []
    for groups, nodes in pieces(fusion, stands_for):
        members = [i for g in sorted(groups) for i in fusion.members[g]]
        kinds = Counter(fusion.source.operators[i].kind for i in members)
        names = [fusion.source.operators[i].name for i in members]
        parts.append(
            {
                "model": name,
                "what": " + ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items()),
                "groups": len(groups),
                "nodes": len(nodes),
                "before": sum(before.get(n, 0.0) for n in names),
                "after": sum(after.get(n, 0.0) for n in nodes),
            }
        )
    file.unlink()
    small.unlink()
    return rows, parts


def summed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums over pieces of the same kinds, the longest time first."""
    table: dict[str, dict[str, Any]] = {}
    for part in parts:
        row = table.setdefault(
            part["what"], {"what": part["what"], "count": 0, "groups": 0, "nodes": 0, "before": 0.0, "after": 0.0}
        )
        row["count"] += 1
        for key in ("groups", "nodes", "before", "after"):
            row[key] += part[key]
    return sorted(table.values(), key=lambda row: -row["before"])


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="*", default=[""], help="part of the names; all by default")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="of measuring, for each of three levels")
    parser.add_argument("--device", help="PLATFORM/DEVICE whose prices of hetgym's groups stand beside the wall time")
    args = parser.parse_args()
    device = None
    if args.device is not None:
        platform, _, name = args.device.partition("/")
        device = load_platform(platform)[load_platform(platform).index(name)]
    os.sched_setaffinity(0, {args.core})
    rows: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in light_models(args.models):
            more = study(path, Path(folder), args.seconds, device)
            rows += more[0]
            parts += more[1]
    show_models(rows)
    show_fusion(parts)
    show_figures(rows, [part for part in parts if part["model"] != LONG])
    save(args.json, "onnxruntime-nodes", [*rows, *parts])


def by_model(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Model -> level -> row."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["model"], {})[row["level"]] = row
    return found


def show_models(rows: list[dict[str, Any]]) -> None:
    """A line for each model; cells have a figure for each level."""

    def cell(form: Callable[[dict[str, Any]], str], unit: str = "") -> Callable[[dict[str, Any]], str]:
        return lambda row: " / ".join(form(row[level]) for level in LEVELS) + unit

    columns = {
        "model": lambda row: row["fused"]["model"],
        "nodes run": cell(lambda r: str(r["nodes"])),
        "hetgym's groups": lambda row: str(row["fused"]["groups"]),
        "wall [ms]": cell(lambda r: f"{1e3 * r['wall']:.1f}"),
        "sum of nodes over wall": cell(lambda r: f"{100 * r['apart']:+.1f}", " %"),
        "remainder a node [us]": cell(lambda r: f"{1e6 * r['dispatch']:.1f}"),
        "spread": cell(lambda r: f"{100 * r['spread']:.0f}", " %"),
        "runs kept": cell(lambda r: f"{100 * r['kept']:.0f}", " %"),
    }
    if rows[0]["predicted"] is not None:
        columns["predicted over wall"] = cell(lambda r: f"{r['predicted'] / r['wall']:.2f}")
    show("Sum of nodes against wall time", list(by_model(rows).values()), columns, "models")


def show_fusion(parts: list[dict[str, Any]]) -> None:
    """What fusion does to the times of pieces."""
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "operators as written": lambda r: r["what"],
        "times": lambda r: str(r["count"]),
        "nodes run": lambda r: str(r["nodes"]),
        "as written [ms]": lambda r: f"{1e3 * r['before']:.2f}",
        "fused [ms]": lambda r: f"{1e3 * r['after']:.2f}",
        "fused over written": lambda r: f"{r['after'] / max(r['before'], 1e-12):.2f}",
    }
    show("The effect of fusion", summed([part for part in parts if part["model"] != LONG]), columns, "fusion")


def show_figures(rows: list[dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    """The largest difference of a sum of nodes, and what fusion and layouts save."""
    models = by_model(rows)
    apart = max(abs(row["apart"]) for row in rows if row["model"] not in (SHORT, LONG))
    pieces = [part for part in summed(parts) if part["what"].startswith("Conv + ") and part["count"] >= OFTEN]
    saved = [100 * (1 - part["after"] / part["before"]) for part in pieces]
    layout = [
        100 * (1 - levels["layout"]["wall"] / levels["fused"]["wall"])
        for name, levels in models.items()
        if name != LONG
    ]
    figures = [
        ("sum of nodes against wall time", f"{100 * apart:.1f} %", f"largest difference, without {SHORT} and {LONG}"),
        (
            "fusing a convolution's group",
            f"{min(saved, default=0):.0f} to {max(saved, default=0):.0f} %" if saved else "-",
            f"saved, over kinds of pieces of which there are {OFTEN} and more",
        ),
        (
            "blocked layouts",
            f"{min(layout):.0f} to {max(layout):.0f} %" if layout else "-",
            f"of the time of a fused model saved, without {LONG}",
        ),
    ]
    names = ("what", "figure", "condition")
    lines = [dict(zip(names, line, strict=True)) for line in figures]
    show("In short", lines, {name: lambda row, name=name: row[name] for name in names}, "key-figures")


if __name__ == "__main__":
    main()
