"""Policies that ``hetgym train`` made from nothing, beside heuristics, on problems that no training saw.

    hetgym train maskable-ppo-graph
    python studies/agents/from_scratch.py results/maskable-ppo-graph-s0 --curves learning.png

Each policy plays one greedy episode on each problem, under the runtime of its recipe. Figures are mean ratios of its
makespans to those of each heuristic, with 95 % paired bootstrap intervals: once with plans for that runtime, and once
with plans for the classic model; both are simulated under the runtime. ``--curves`` draws the evaluations of the
runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym.agents.network_policy import NetworkPolicy, load_policy
from hetgym.baselines import get
from hetgym.bench.significance import mean_intervals
from hetgym.envs.core.autoreset import make_lanes
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.runtime import runtime_name

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, ends, save, show  # noqa: E402

SEEDS = 5_000_000
"""First seed of the problems; trainings and their evaluations use others."""

HEURISTICS = ("donf", "heft", "cpgc", "peft", "peft-again")


def played(policy: NetworkPolicy, problems: int) -> tuple[list[hetgym.Problem], list[float]]:
    """Problems, and the makespan of a greedy episode on each [s]."""
    recipe = policy.card["recipe"]
    lanes = make_lanes(recipe["env"], problems, **recipe["arguments"])
    for lane in range(problems):
        lanes.prepare(lane, np.random.default_rng(SEEDS + lane), {}, None)
    lanes.open()
    while not lanes.over.all():
        lanes.step(policy.decide(lanes.seen), ~lanes.over)  # type: ignore[arg-type]
    return [lanes.problem(k) for k in range(problems)], [float(lanes.result(k)["makespan"]) for k in range(problems)]


def compared(folder: Path, problems: int) -> list[dict[str, Any]]:
    """A row for each heuristic and runtime that it plans for."""
    policy = load_policy(folder / "best.safetensors")
    runtime = as_runtime(policy.card["recipe"]["arguments"].get("runtime", "classic"))
    drawn, makespans = played(policy, problems)
    rows = []
    for name in HEURISTICS:
        for plans_for in dict.fromkeys((as_runtime("classic"), runtime)):
            plans = [get(name)(problem, plans_for) for problem in drawn]
            spans = [hetgym.simulate(p, plan, runtime).makespan for p, plan in zip(drawn, plans, strict=True)]
            (found,) = mean_intervals([np.array(makespans) / np.array(spans)], np.random.default_rng(0))
            row = {"what": folder.name, "over": name, "planned for": runtime_name(plans_for), "problems": problems}
            rows.append({**row, "ratio": found.mean, "low": found.low, "high": found.high})
    return rows


def draw(folders: list[Path], path: Path) -> None:
    """A picture of the evaluations of runs: makespans over DONF's against steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for folder in folders:
        history = json.loads((folder / "results.json").read_text())["history"]
        later = [one for one in history if one["step"]]
        axes.plot([one["step"] for one in later], [one["ratio_donf"] for one in later], marker="o", label=folder.name)
    axes.set_xlabel("steps")
    axes.set_ylabel("makespan over DONF's")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--curves", type=Path, help="picture to draw")
    options = parser.parse_args()
    rows = [row for folder in options.runs for row in compared(folder, options.problems)]
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        lines.setdefault((row["over"], row["planned for"]), dict(row))[row["what"]] = row
    columns: dict[str, Any] = {
        "makespan over": lambda row: f"`{row['over']}`",
        "planned for": lambda row: f"`{row['planned for']}`",
    }
    for folder in options.runs:
        columns[folder.name] = lambda row, name=folder.name: (
            f"{row[name]['ratio']:.3f} ({ends(row[name]['low'], row[name]['high'], '.3f')})"
        )
    show("Makespan of a greedy episode over that of a heuristic", list(lines.values()), columns, "from-nothing")
    if options.curves is not None:
        draw(options.runs, options.curves)
    save(options.json, "from-scratch", rows)


if __name__ == "__main__":
    main()
