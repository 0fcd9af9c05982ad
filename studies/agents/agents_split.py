"""Agents without parameters and the shipped policies in HetSplit-v0 beside greedy splitting and EOP, on the zoo.

    python studies/agents/agents_split.py --json agents-split.json
    python studies/agents/agents_split.py --random 20 --keys 16 8

Networks are fused, at batch 8. Figures are ratios of makespans to HEFT's on the unsplit graph. *Pattern alone* splits
all key operators by one entry of the menu; *least makespan* takes the best choice for each operator in turn; *least
completion*, the rule ``split``, takes the best choice if all later operators are split by the pattern. Counts compare
with both opponents, greedy splitting under the same inner scheduler and EOP. With ``--random``, so many random networks
take the place of the zoo. Intervals are 95 % bootstrap intervals over cases; times are processor times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym import DataflowGraph, Platform
from hetgym.baselines import eop, greedy_split
from hetgym.bench.significance import mean_intervals
from hetgym.envs import SPLIT_CANDIDATE_FEATURES, HetSplitEnv
from hetgym.envs.split.networks import RandomNetworks
from hetgym.graph import load_graph
from hetgym.graph.transforms import fuse
from hetgym.platform import load_platform

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _agents import linear, play, uniform  # noqa: E402
from _common import command_line, ends, save, seconds, show  # noqa: E402

NETWORKS = ("alexnet", "vgg19", "zfnet512", "squeezenet", "inception_v1", "resnet50")
PLATFORMS = ("core-pair", "even-pair", "cpu-gpu-balanced", "cpu-2gpu-nvlink")
OPPONENTS = ("greedy splitting", "EOP")
COMPLETION = "least completion"
METHODS = (*OPPONENTS, "pattern alone", "least makespan", COMPLETION, "split-v2")
FIRST = 7_000_000
"""First seed of random networks, which neither training nor any choice saw."""


def timed(row: dict[str, Any], name: str, call: Callable[[], float]) -> None:
    """Write what a call returns, and its processor time [s] beside it."""
    begin = time.thread_time()
    row[name] = call()
    row[f"{name} time"] = time.thread_time() - begin


def measure(name: str, graph: DataflowGraph, machine: Platform, scheduler: str, keys: int) -> dict[str, Any]:
    """One row: makespans [s] and times [s]."""
    fused = fuse(graph).graph
    row: dict[str, Any] = {"name": name, "scheduler": scheduler, "keys": keys}
    timed(row, "greedy splitting", lambda: greedy_split(fused, machine, inner=scheduler).makespan)
    timed(row, "EOP", lambda: eop(graph, machine).makespan)
    arguments: dict[str, Any] = {"graph": fused, "platform": machine, "scheduler": scheduler, "key_operators": keys}
    arguments |= {"divisible": False, "observation": "candidates"}
    ahead = HetSplitEnv(**arguments, lookahead=True)
    least = linear(SPLIT_CANDIDATE_FEATURES, makespan=1.0)
    timed(row, "least makespan", lambda: play(ahead, least, 0)["makespan"])
    env, rule = HetSplitEnv(**arguments, completion=True), hetgym.agents.rule("split")
    timed(row, COMPLETION, lambda: play(env, rule, 0)["makespan"])
    policy = hetgym.agents.load("split-v2")
    plan = policy.plan
    timed(row, "split-v2", lambda: plan(graph, machine, scheduler=scheduler, key_operators=keys).makespan)
    lanes: Any = env.lanes
    context = lanes.state(0).instance
    row["pattern alone"] = lanes.splits.completion(context, (), 0)
    return row | {"reference": context.reference, "decisions": len(context.keys)}


def means(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Means of all methods over the reference."""
    return {name: float(np.mean([row[name] / row["reference"] for row in rows])) for name in METHODS}


def lead(rows: Sequence[dict[str, Any]]) -> str:
    """Mean ratio of split-v2 to the rule, with its interval, and the largest."""
    ratios = [row["split-v2"] / row[COMPLETION] for row in rows]
    (found,) = mean_intervals([ratios], np.random.default_rng(0))
    return f"{found.mean:.3f} ({ends(found.low, found.high, '.3f')}), at most {max(ratios):.3f}"


def counts(rows: Sequence[dict[str, Any]], name: str) -> str:
    """On how many cases a method is at least as fast as both opponents, and on how many it is faster."""
    shares = np.array([row[name] / min(row[other] for other in OPPONENTS) for row in rows])
    return f"{(shares <= 1 + 1e-9).sum()} of {len(rows)}, faster on {(shares < 1 - 1e-9).sum()}"


def per_step(episodes: int = 24, **switches: Any) -> tuple[float, float]:
    """Mean processor times of a reset and of a step, under random choices on random networks [s]."""
    env, rule, start, steps, count = HetSplitEnv(**switches), uniform(), 0.0, 0.0, 0
    play(env, rule, 0)  # compiles
    for seed in range(episodes):
        begin = time.thread_time()
        seen: Any
        seen, info = env.reset(seed=seed)
        start += time.thread_time() - begin
        over = False
        while not over:
            action = rule(seen, info)
            begin = time.thread_time()
            seen, _, over, _, info = env.step(action)
            steps += time.thread_time() - begin
            count += 1
    return start / episodes, steps / count


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Further figures on the zoo under HEFT."""

    def mean(name: str) -> str:
        return seconds(float(np.mean([row[f"{name} time"] for row in rows])))

    large: dict[str, Any] = {}
    timed(large, "EOP", lambda: eop(load_graph("bert_base", batch=8), load_platform("cpu-2gpu-nvlink")).makespan)
    found = {f"split-v2 over split on the {len(rows)} cases": lead(rows)}
    found |= {f"cases with {name} at least as fast as both opponents": counts(rows, name) for name in METHODS[2:]}
    found |= {
        "time of a plan of split-v2, EOP and greedy splitting included": mean("split-v2"),
        "time of EOP": mean("EOP"),
        "time of EOP, bert_base on cpu-2gpu-nvlink": seconds(large["EOP time"]),
        "time of greedy splitting": mean("greedy splitting"),
        "time of an episode with look-ahead": mean("least makespan"),
        "time of an episode with completions": mean(COMPLETION),
    }
    settings: dict[str, dict[str, bool]] = {
        "with completions": {"completion": True},
        "with look-ahead": {"lookahead": True},
        "without both": {},
    }
    for words, switches in settings.items():
        times = map(seconds, per_step(**switches))
        found |= dict(zip((f"a {part} {words}, random networks" for part in ("reset", "step")), times, strict=True))
    return found


def on_the_zoo(networks: Sequence[str], platforms: Sequence[str], keys: int) -> list[dict[str, Any]]:
    """Rows of networks under HEFT and PEFT, and their tables."""
    rows = [
        measure(f"`{network}`, `{platform}`", load_graph(network, batch=8), load_platform(platform), scheduler, keys)
        for network in networks
        for platform in platforms
        for scheduler in ("heft", "peft")
    ]
    heft, peft = rows[::2], rows[1::2]
    total = {"name": "mean", "decisions": "", "reference": 1.0, **means(heft)}
    show(
        f"Makespan over HEFT's of the unsplit graph, {len(heft)} cases",
        [*heft, total],
        {
            "network, platform": lambda row: row["name"],
            "decisions": lambda row: str(row["decisions"]),
            **{name: lambda row, name=name: f"{row[name] / row['reference']:.3f}" for name in METHODS},  # type: ignore[misc]
        },
        "networks",
    )
    under_peft = means([{**row, "reference": base["reference"]} for row, base in zip(peft, heft, strict=True)])
    show(
        "Means with PEFT placing the parts",
        [{"what": name, "mean": under_peft[name]} for name in METHODS],
        {"method": lambda row: row["what"], "over HEFT of the whole graph": lambda row: f"{row['mean']:.3f}"},
        "peft",
    )
    show(
        "Further figures",
        [{"what": what, "figure": figure} for what, figure in figures(heft).items()],
        {"what": lambda row: row["what"], "figure": lambda row: row["figure"]},
        "key-figures",
    )
    return rows


def on_random(count: int, keys: Sequence[int]) -> list[dict[str, Any]]:
    """Rows of random networks under HEFT, and their table, a column for each number of key operators."""
    columns: dict[str, dict[str, str]] = {}
    rows = []
    for most in keys:
        pairs = [(str(seed), *RandomNetworks()(np.random.default_rng(seed))) for seed in range(FIRST, FIRST + count)]
        made = [measure(*pair, "heft", most) for pair in pairs]
        found = {name: f"{mean:.3f}" for name, mean in means(made).items()} | {"split-v2 over split": lead(made)}
        found |= {f"cases with {name} at least as fast as both": counts(made, name) for name in METHODS[-2:]}
        columns[f"{count} networks, {most} key operators"] = found
        rows += made
    show(
        "Random networks",
        [{"what": what, **{name: column[what] for name, column in columns.items()}} for what in found],
        {
            "method": lambda row: row["what"],
            **{name: lambda row, name=name: row[name] for name in columns},  # type: ignore[misc]
        },
        "random",
    )
    return rows


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--platforms", nargs="*", default=PLATFORMS)
    parser.add_argument("--random", type=int, default=0, help="so many random networks in place of the zoo")
    parser.add_argument("--keys", type=int, nargs="+", default=(56,), help="most decisions of an episode")
    options = parser.parse_args()
    if options.random:
        rows = on_random(options.random, options.keys)
    else:
        rows = on_the_zoo(options.networks, options.platforms, options.keys[0])
    save(options.json, "agents-split", rows)


if __name__ == "__main__":
    main()
