"""Agents without parameters and the shipped policies in HetSplit-v0 beside greedy splitting and EOP, on the zoo.

    python studies/agents/agents_split.py --json agents-split.json
    python studies/agents/agents_split.py --random 12 --keys 16 --schedulers heft

Networks are fused, at batch 8. Figures are ratios of makespans to HEFT's on the unsplit graph, and the time of each
agent. ``makespan`` takes the best choice for each operator in turn, ``completion`` the best choice if all later
operators are split by the pattern; ``pattern`` uses the pattern only. ``best`` is the share of problems on which an
agent is at least as fast as both opponents, greedy_split under the same inner scheduler and EOP.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym.baselines import eop, greedy_split
from hetgym.envs import SPLIT_CANDIDATE_FEATURES, HetSplitEnv
from hetgym.envs.split.networks import RandomNetworks
from hetgym.graph import load_graph
from hetgym.graph.transforms import fuse
from hetgym.platform import load_platform

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _agents import Rule, linear, play  # noqa: E402
from _common import command_line, save, show  # noqa: E402

NETWORKS = ("alexnet", "vgg19", "zfnet512", "squeezenet", "inception_v1", "resnet50")
PLATFORMS = ("core-pair", "even-pair", "cpu-gpu-balanced", "cpu-2gpu-nvlink")
OPPONENTS = ("greedy-split", "eop")


def measure(network: str, platform: str, scheduler: str, keys: int) -> dict[str, Any]:
    """One row: makespans [s] and times [s]."""
    if network == "random":
        graph, machine = RandomNetworks()(np.random.default_rng(int(platform)))
    else:
        graph, machine = load_graph(network, batch=8), load_platform(platform)
    fused = fuse(graph).graph
    row: dict[str, Any] = {"network": network, "platform": platform, "scheduler": scheduler}
    begin = time.thread_time()
    row["greedy-split"] = greedy_split(fused, machine, inner=scheduler).makespan
    row["greedy-split time"] = time.thread_time() - begin
    begin = time.thread_time()
    row["eop"] = eop(graph, machine).makespan
    row["eop time"] = time.thread_time() - begin
    arguments: dict[str, Any] = {
        "graph": fused,
        "platform": machine,
        "scheduler": scheduler,
        "key_operators": keys,
        "divisible": False,
        "observation": "candidates",
    }
    agents: tuple[tuple[str, str, Rule], ...] = (
        ("makespan", "lookahead", linear(SPLIT_CANDIDATE_FEATURES, makespan=1.0)),
        ("completion", "completion", linear(SPLIT_CANDIDATE_FEATURES, completion=1.0)),
        ("split", "completion", hetgym.agents.rule("split")),
    )
    for name, switch, agent in agents:
        env = HetSplitEnv(**arguments, **{switch: True})
        begin = time.thread_time()
        info = play(env, agent, 0)
        row[f"{name} time"] = time.thread_time() - begin
        row[name] = info["makespan"]
    begin = time.thread_time()
    planned = hetgym.agents.load("split-v2").plan(graph, machine, scheduler=scheduler, key_operators=keys)
    row["split-v2 time"] = time.thread_time() - begin
    row["split-v2"] = planned.makespan
    context = env.lanes.state(0).instance  # type: ignore[attr-defined]
    row["pattern"] = env.lanes.splits.completion(context, (), 0)  # type: ignore[attr-defined]
    row["reference"], row["decisions"] = info["reference"], len(context.keys)
    return row


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--platforms", nargs="*", default=PLATFORMS)
    parser.add_argument("--random", type=int, default=0, help="so many random networks in place of the zoo")
    parser.add_argument("--schedulers", nargs="*", default=("heft", "peft"))
    parser.add_argument("--keys", type=int, default=56, help="most decisions of an episode")
    options = parser.parse_args()
    if options.random:  # seeds that neither training nor any choice saw
        options.networks, options.platforms = ["random"], [str(7_000_000 + k) for k in range(options.random)]
    rows = []
    for network in options.networks:
        for platform in options.platforms:
            made = [measure(network, platform, scheduler, options.keys) for scheduler in options.schedulers]
            base = made[0]["reference"]
            for row in made:
                rows.append({key: value / base if key in COLUMNS else value for key, value in row.items()})
    agents = ("pattern", "makespan", "completion", "split", "split-v2")
    for scheduler in options.schedulers:
        chosen = [row for row in rows if row["scheduler"] == scheduler]
        total: dict[str, Any] = {"network": "mean", "platform": "", "scheduler": scheduler, "decisions": ""}
        total |= {name: float(np.mean([row[name] for row in chosen])) for name in COLUMNS}
        least = [min(row[name] for name in OPPONENTS) * (1 + 1e-9) for row in chosen]
        total |= {name: float(np.mean([row[name] for row in chosen])) for name in chosen[0] if name.endswith(" time")}
        total["best"] = {
            name: float(np.mean([row[name] <= limit for row, limit in zip(chosen, least, strict=True)]))
            for name in agents
        }
        rows.append(total)
    show(
        f"Makespan over that of {options.schedulers[0]} of the unsplit graph",
        rows,
        {
            "what": lambda row: f"{row['network']} {row['platform']}",
            "inner": lambda row: row["scheduler"],
            "keys": lambda row: str(row["decisions"]),
            **{name: lambda row, name=name: f"{row[name]:.3f}" for name in COLUMNS},  # type: ignore[misc]
            "best": lambda row: " ".join(f"{share:.0%}" for share in row["best"].values()) if "best" in row else "",
        },
    )
    save(options.json, "agents-split", rows)


COLUMNS = ("reference", *OPPONENTS, "pattern", "makespan", "completion", "split", "split-v2")

if __name__ == "__main__":
    main()
