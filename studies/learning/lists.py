"""List policies: plans by one look of a graph network, beside heuristics, search, and the same without parts of it.

    python studies/learning/lists.py plans --policies results/gnn-s*/policy.safetensors
    python studies/learning/lists.py train --seeds 0,1,2,3,4 --variants gnn,no-messages,linear,no-imitation
    python studies/learning/lists.py parts --seeds 0,1,2,3,4  # of what train has written

All heuristics plan for the runtime. Figures are geometric means of ratios of makespans with paired bootstrap intervals
over problems; of several training seeds that of the median seed, and the range. ``plan`` is :func:`hetgym.plan` within
a time. *linear algebra*, *large* and *networks* are kinds of problems that training never saw.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym import Problem
from hetgym.agents import ListPlanner, Recipe, TrainingRun, load_recipe
from hetgym.agents.lists.tokens import EDGE_FEATURES, TOKEN_FEATURES
from hetgym.agents.networks.lists import ListNetwork
from hetgym.agents.training.trainer import arrays
from hetgym.baselines import get
from hetgym.bench.significance import compare
from hetgym.schedule import Schedule
from hetgym.workloads import RandomMix, RealMix
from hetgym.workloads.generated_mix import GeneratedMix

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

LINEAR_ALGEBRA: dict[str, dict[str, tuple[float, ...]]] = {
    "cholesky": {"tiles": (5, 8)},
    "gaussian_elimination": {"size": (8, 14)},
    "fft": {"points": (16, 16)},
}
NETWORKS = "densenet121", "lstm", "nasnet", "vit_b16"
MIXES: dict[str, Callable[[np.random.Generator], Problem]] = {
    "random": RandomMix(),
    "generated": GeneratedMix(),
    "linear algebra": GeneratedMix(families=LINEAR_ALGEBRA, devices=(4,)),
    "large": RandomMix(operators=(300, 400)),
    "networks": RealMix(networks=NETWORKS, most=1000),
}
"""Kinds of problems; training saw the first two, with other seeds."""

FIRST = 9_700_000  # seed of the first problem
PLANS: dict[str, dict[str, int]] = {
    "greedy": {},
    "8 orders": {"samples": 8, "orders": 8},
    "16 plans": {"samples": 16},
    "64 plans": {"samples": 64},
}
"""Name -> arguments of a list policy."""

CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gnn": ({}, {}),
    "no-messages": ({}, {"layers": 0}),
    "linear": ({"linear": True}, {}),
    "no-imitation": ({"imitation": 0.0}, {}),
    "no-leaders": ({"leaders": 1.0}, {}),
}
"""Variant of the recipe -> changes of its settings, and of the sizes of its network."""

HEURISTICS = "donf", "heft", "peft", "cpgc"
BUDGETS = {"plan 5 ms": 0.005, "plan 50 ms": 0.05}
OTHERS = (*HEURISTICS, *BUDGETS)


def drawn(kind: str, count: int, first: int) -> list[Problem]:
    """Problems of a kind."""
    return [MIXES[kind](np.random.default_rng([first, k])) for k in range(count)]


def timed(problems: list[Problem], make: Callable[..., Schedule], **given: Any) -> tuple[list[float], float]:
    """Makespans of a method's plans, and the median processor time of a plan [s]."""
    makespans, times = [], []
    for problem in problems:
        began = time.process_time()
        makespans.append(make(problem, **given).makespan)
        times.append(time.process_time() - began)
    return makespans, float(np.median(times))


def measured(options: Namespace, kinds: list[str]) -> list[dict[str, Any]]:
    """A row for each kind, runtime and method: its makespans, one list for each policy, and its time."""
    rows = []
    policies: list[Any] = [hetgym.agents.load(path) for path in options.policies]
    for kind in kinds:
        problems = drawn(kind, options.count if kind == "random" else options.few, options.first)
        for runtime in options.runtime.split(","):
            methods = {name: [partial(timed, problems, get(name))] for name in HEURISTICS}
            methods |= {name: [partial(timed, problems, hetgym.plan, budget=time)] for name, time in BUDGETS.items()}
            for name, given in PLANS.items():
                methods[name] = [partial(timed, problems, policy.plan, **given) for policy in policies]
            for name, makers in methods.items():
                found = [make(runtime=runtime) for make in makers]
                spent = float(np.median([seconds for _, seconds in found]))
                rows.append(_row(kind, runtime, name, [makespans for makespans, _ in found], spent))
    return rows


def _row(kind: str, runtime: str, name: str, makespans: list[list[float]], spent: float) -> dict[str, Any]:
    print(f"{kind}, {runtime}: {name} done", file=sys.stderr, flush=True)
    return {"kind": kind, "runtime": runtime, "plan": name, "makespans": makespans, "seconds": spent}


def cell(other: dict[str, Any], row: dict[str, Any]) -> str:
    """Ratio to another method of the median seed with its interval, and the range over seeds."""
    if row is other:
        return "1"
    bases = other["makespans"] if len(other["makespans"]) == len(row["makespans"]) else other["makespans"][:1]
    pairs = zip(row["makespans"], bases * (len(row["makespans"]) // len(bases)), strict=True)
    found = [compare(one, base, np.random.default_rng(0)) for one, base in pairs]
    middle = sorted(found, key=lambda each: each.ratio)[len(found) // 2]
    text = f"{middle.ratio:.3f} ({middle.low:.3f} to {middle.high:.3f})"
    if len(found) > 1:
        text += f" [{min(f.ratio for f in found):.3f}, {max(f.ratio for f in found):.3f}]"
    return text


def tables(rows: list[dict[str, Any]]) -> None:
    """Print a table for each kind of problems and runtime."""
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["runtime"]), {})[row["plan"]] = row
    for (kind, runtime), by_name in groups.items():
        columns: dict[str, Callable[[dict[str, Any]], str]] = {"plan": lambda row: str(row["plan"])}
        columns["ms a plan"] = lambda row: f"{1e3 * row['seconds']:.3g}"
        for other in OTHERS:
            if other in by_name:
                columns[f"over {other}"] = partial(cell, by_name[other])
        count = len(next(iter(by_name.values()))["makespans"][0])
        show(f"{count} problems, {kind}, {runtime}", list(by_name.values()), columns, f"{kind} {runtime}")


def show_summary(rows: list[dict[str, Any]]) -> None:
    """Print the policy's plans over CPGC's, for all kinds of problems and runtimes."""
    by = {(row["kind"], row["runtime"], row["plan"]): row for row in rows}
    groups = list(dict.fromkeys((row["kind"], row["runtime"]) for row in rows))
    lines = [
        {"problems": kind, "runtime": runtime}
        | {plan: cell(by[kind, runtime, "cpgc"], by[kind, runtime, plan]) for plan in PLANS}
        for kind, runtime in groups
    ]
    columns = {name: itemgetter(name) for name in lines[0]}
    show("Makespans over those of CPGC", lines, columns, "summary")


def recipe(variant: str, seed: int) -> Recipe:
    """The recipe ``gnn`` without one of its parts."""
    base = load_recipe("gnn", seed=seed)
    settings, sizes = CHANGES[variant]
    network = replace(base.network, **sizes)
    return replace(base, settings={**base.settings, **settings}, network=network)


def train(variants: list[str], seeds: list[int], out: Path) -> None:
    """Train variants of the recipe, each seed in a folder of its own; runs that were stopped are resumed."""
    for seed in seeds:
        for variant in variants:
            run = TrainingRun(recipe(variant, seed), out / f"{variant}-s{seed}")
            run.train()
            print(variant, seed, f"{run.times['core_seconds']:.0f} s", run.results()["final"], flush=True)


def parts(options: Namespace) -> list[dict[str, Any]]:
    """Makespans of each variant on random problems under the first runtime, one list for each seed that is trained."""
    problems, runtime = drawn("random", options.count, options.first), options.runtime.split(",")[0]
    reference, _ = timed(problems, get("cpgc"), runtime=runtime)
    rows: list[dict[str, Any]] = [{"variant": "cpgc", "plan": "cpgc", "makespans": [reference]}]
    for variant in ("untrained", *CHANGES):
        runs = {seed: options.out / f"{variant}-s{seed}" for seed in options.seeds}
        ended = [seed for seed, run in runs.items() if (run / "results.json").exists()]
        policies: dict[int, Any] = {seed: hetgym.agents.load(runs[seed] / "policy.safetensors") for seed in ended}
        if variant == "untrained":
            policies = {-1: ListPlanner(arrays(ListNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), 4, 0)))}
        for name in ("greedy", "16 plans", "64 plans") if policies else ():
            found = [timed(problems, policy.plan, runtime=runtime, **PLANS[name])[0] for policy in policies.values()]
            rows.append({"variant": variant, "plan": name, "seeds": list(policies), "makespans": found})
    return rows


def show_parts(rows: list[dict[str, Any]]) -> None:
    """Print the variants over CPGC, and the whole network over each of them, seed by seed where both are trained."""
    reference, by = rows[0], {(row["variant"], row["plan"]): row for row in rows}
    variants = [name for name in ("untrained", *CHANGES) if (name, "greedy") in by]
    lines: list[dict[str, Any]] = [
        {"network": name, "seeds": str(len(by[name, "greedy"]["seeds"])) if name != "untrained" else "-"}
        for name in variants
    ]
    columns: dict[str, Callable[[dict[str, Any]], str]] = {"network": lambda line: str(line["network"])}
    for plan in ("greedy", "16 plans", "64 plans"):
        for line in lines:
            row, whole = by[line["network"], plan], by["gnn", plan]
            pairs = zip(whole["seeds"], whole["makespans"], strict=True)
            shared = [makespans for seed, makespans in pairs if seed in row["seeds"]] or whole["makespans"]
            line[f"{plan}, over cpgc"] = cell(reference, row)
            line[f"{plan}, gnn over it"] = cell(row, {"makespans": shared})
    columns |= {name: itemgetter(name) for name in lines[0] if name != "network"}
    show("What the parts of the list policy add", lines, columns, "parts")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("part", choices=("plans", "train", "parts"))
    parser.add_argument("--policies", nargs="+", default=["gnn-v1"], help="names or files")
    parser.add_argument("--runtime", default="links", help="names, with commas")
    parser.add_argument("--kinds", default=",".join(MIXES), help="names, with commas")
    parser.add_argument("--count", type=int, default=300, help="random problems")
    parser.add_argument("--few", type=int, default=64, help="problems of each other kind")
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the problems")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0])
    parser.add_argument("--variants", default=",".join(CHANGES), help="names, with commas, for train")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the runs of train")
    options = parser.parse_args()
    if options.part == "train":
        train(options.variants.split(","), options.seeds, options.out)
        return
    if options.part == "parts":
        rows = parts(options)
        show_parts(rows)
    else:
        rows = measured(options, options.kinds.split(","))
        show_summary(rows)
        tables(rows)
    save(options.json, f"lists {options.part}", rows)


if __name__ == "__main__":
    main()
