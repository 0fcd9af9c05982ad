"""Dispatch policies without roll-outs, beside online heuristics and beside rules with roll-outs.

    python studies/agents/dispatch_learned.py --policies runs/gnn-dispatch-s*/policy.safetensors

Run times vary by 20 %, and one device slows down during the run. *large* problems have 300 to 400 operators, the others
30 to 80; of *4 jobs* three arrive during the run. The best of the fourteen heuristics of agents_dispatch.py is that of
least mean makespan on the set. Figures are ratios of mean makespans over the reference with paired bootstrap intervals
over episodes; of several training seeds that of the median seed, and the range. A decision's time includes the step of
the environment, but not the look at the jobs before the first one, which has a column of its own.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym.envs import HetDispatchEnv
from hetgym.workloads import RandomMix

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402
from agents_dispatch import OPPONENTS, POLICIES, opponents, paired  # noqa: E402

LARGE = {"generator": RandomMix(operators=(300, 400)), "max_operators": 400, "max_edges": 1600, "max_devices": 4}
SETS: dict[str, dict[str, Any]] = {"random": {}, "large": LARGE, "4 jobs": {"jobs": 4}}
FIRST = 980_000  # seed of the first episode


def played(env: HetDispatchEnv, policy: Any, seed: int) -> tuple[float, int, float, float]:
    """Makespan over the reference, number of decisions, and the seconds of looking at the jobs and of all decisions."""
    agent = policy.agent()
    seen, info = env.reset(seed=seed)
    began = time.thread_time()
    getattr(agent, "begin", lambda _: None)(env.lanes)
    first, over = time.thread_time(), False
    while not over:
        seen, _, over, _, info = env.step(agent(seen, info))
    decisions = len(info["replay"].actions)
    return info["makespan"] / info["reference"], decisions, first - began, time.thread_time() - first


def measured(options: Namespace) -> list[dict[str, Any]]:
    """A row for each set, runtime and method: its makespans, one list for each policy, and its times."""
    rules = {name: [hetgym.agents.rule(name)] for name in POLICIES}
    learned: list[Any] = [hetgym.agents.load(path) for path in options.policies]
    rows = []
    for kind in options.sets.split(","):
        for runtime in options.runtimes.split(","):
            count = options.episodes if kind == "random" else options.few
            seeds = range(options.first, options.first + count)
            given = {"runtime": runtime, "noise": 0.2, "slow_downs": 1, **SETS[kind]}
            ratios: dict[str, list[list[float]]] = {name: [[]] for name in OPPONENTS}
            env = HetDispatchEnv(**given, completion="off")
            for seed in seeds:
                env.reset(seed=seed)
                for name, ratio in opponents(env).items():
                    ratios[name][0].append(ratio)
            rows += [_row(kind, runtime, name, found) for name, found in ratios.items()]
            for name, policies in {**rules, "learned": learned}.items():
                env = HetDispatchEnv(**given, **policies[0].arguments)
                played(env, policies[0], options.first)  # compiles
                found = [[played(env, policy, seed) for seed in seeds] for policy in policies]
                decisions, look, spent = (sum(run[k] for runs in found for run in runs) for k in (1, 2, 3))
                times = {"decision": spent / decisions, "look": look / len(found) / count}
                rows.append(_row(kind, runtime, name, [[run[0] for run in runs] for runs in found], **times))
            print(f"{kind}, {runtime} done", file=sys.stderr, flush=True)
    return rows


def _row(kind: str, runtime: str, name: str, ratios: list[list[float]], **times: float) -> dict[str, Any]:
    return {"kind": kind, "runtime": runtime, "what": name, "ratios": ratios, **times}


def over(row: dict[str, Any], base: dict[str, Any]) -> str:
    """Ratio of the median seed with its interval, and the range over seeds."""
    found = sorted(paired([ratios], base["ratios"]) for ratios in row["ratios"])
    mean, (low, high) = found[len(found) // 2]
    text = f"{mean:.3f} ({low:.3f} to {high:.3f})"
    return text if len(found) == 1 else f"{text} [{found[0][0]:.3f}, {found[-1][0]:.3f}]"


def tables(rows: list[dict[str, Any]]) -> None:
    """Print the policies over the others, the figure of each seed, and times."""
    groups = dict.fromkeys((row["kind"], row["runtime"]) for row in rows)
    ratios, seeds, times = [], [], []
    for kind, runtime in groups:
        by = {row["what"]: row for row in rows if (row["kind"], row["runtime"]) == (kind, runtime)}
        best, learned = min((by[name] for name in OPPONENTS), key=lambda row: np.mean(row["ratios"])), by["learned"]
        head = {"problems": f"{kind}, {runtime}"}
        ratios.append(
            {**head, "episodes": str(len(best["ratios"][0])), "best heuristic": best["what"]}
            | {"over it": over(learned, best), **{f"over {name}": over(learned, by[name]) for name in POLICIES}}
            | {f"{name} over it": over(by[name], best) for name in POLICIES}
        )
        each = [f"{np.mean(seed) / np.mean(best['ratios']):.3f}" for seed in learned["ratios"]]
        seeds.append({**head, **{f"seed {k}": ratio for k, ratio in enumerate(each)}})
        micro = {f"{name}, µs a decision": f"{1e6 * by[name]['decision']:.0f}" for name in ("learned", *POLICIES)}
        times.append({**head, "learned, ms of looking": f"{1e3 * learned['look']:.1f}", **micro})
    for title, name, lines in (
        ("Mean makespans of learned policies over those of others", "ratios", ratios),
        ("Each training seed over the best heuristic", "seeds", seeds),
        ("Processor time", "times", times),
    ):
        show(title, lines, {column: itemgetter(column) for column in lines[0]}, name)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--policies", nargs="+", default=["gnn-dispatch-v1"], help="names or files")
    parser.add_argument("--sets", default=",".join(SETS), help="names, with commas")
    parser.add_argument("--runtimes", default="links,classic", help="names, with commas")
    parser.add_argument("--episodes", type=int, default=200, help="of the first set")
    parser.add_argument("--few", type=int, default=24, help="episodes of each other set")
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first episode")
    options = parser.parse_args()
    rows = measured(options)
    tables(rows)
    save(options.json, "dispatch-learned", rows)


if __name__ == "__main__":
    main()
