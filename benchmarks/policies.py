"""The pretrained place policy compared with the heuristics and, at equal time, with the searches.

    python benchmarks/policies.py --json policies.json

Held-out problems: random ones of unrelated devices (:class:`hetgym.workloads.RandomMix`) of 30-80, 400 and
2000 operators, and the thirty networks of hetbench-v1. Random problems are judged by the mean makespan over
that of the better of HEFT and PEFT, both with insertion, and over that of the best of *all* list heuristics;
networks by the mean gap to the best known makespan, and by the worst ratio to HEFT. Searches get as much
wall-clock time as the policy's; a column gives the paired bootstrap interval of the policy's makespan over
the method's. Methods take turns on each problem, so that other load on the machine affects them equally.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import command_line, ends, save, seconds, show

import hetgym
from hetgym import Problem
from hetgym.baselines import get, names
from hetgym.bench.significance import compare
from hetgym.schedule import Schedule
from hetgym.workloads import RandomMix, load_suite

UNLIMITED = 10**15
SEARCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lns", {"start": "pilot"}),
    ("pilot-annealing", {}),
    ("pilot-annealing", {"decode": "order"}),
    ("annealing", {}),
    ("rand-heft", {}),
    ("pilot", {}),
)
"""Searches and options; the first two lead on most problems."""

LIST = names("list")
Method = Callable[[Problem], Schedule]


def searches(budget: float, count: int) -> dict[str, Method]:
    """The first searches, each with so much time [s]."""
    return {
        " ".join([name, *(f"{key}={value}" for key, value in options.items())]): get(
            name, **options, seconds=budget, budget=UNLIMITED
        )
        for name, options in SEARCHES[:count]
    }


def play(problems: list[Problem], methods: dict[str, Method]) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Makespans and times of each method on each problem; methods take turns."""
    for method in methods.values():
        method(problems[0])
    makespans: dict[str, list[float]] = {name: [] for name in methods}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for problem in problems:
        for name, method in methods.items():
            begin = time.perf_counter()
            makespans[name].append(method(problem).makespan)
            times[name].append(time.perf_counter() - begin)
    return {name: np.array(values) for name, values in makespans.items()}, times


def rows(
    size: str,
    problems: list[Problem],
    budgets: tuple[float, ...],
    count: int,
    best: list[float] | None,
    passes: tuple[int, ...] = (1,),
) -> list[dict[str, Any]]:
    """One row for each method and budget; ``passes`` are numbers of greedy passes beside the four of the default."""
    planner = hetgym.agents.load("place-v1")
    heft = np.array([get("heft")(p).makespan for p in problems])
    pair = np.minimum(heft, [get("peft")(p).makespan for p in problems])
    every = np.min([[get(name)(p).makespan for p in problems] for name in LIST], axis=0)
    greedy: dict[str, Method] = {
        "heft": get("heft"),
        "peft": get("peft"),
        "lookahead-heft": get("lookahead-heft"),
        **{f"policy, passes={k}": lambda p, k=k: planner.plan(p, passes=k) for k in passes},
        "policy": planner,
    }
    found = []
    for budget in (0.0, *budgets):
        ours = "policy"
        methods = greedy
        if budget:
            ours = "policy + search"
            methods = {ours: lambda p, b=budget: planner.plan(p, b), **searches(budget, count)}
        makespans, times = play(problems, methods)
        for name, values in makespans.items():
            against = compare(makespans[ours], values, np.random.default_rng(0))
            found.append(
                {
                    "problems": size,
                    "budget": budget,
                    "method": name,
                    "seconds": statistics.median(times[name]),
                    "heft_peft": float(np.mean(values / pair)),
                    "lists": float(np.mean(values / every)),
                    "worst_heft": float(np.max(values / heft)),
                    "gap": float(np.mean(values / best) - 1.0) if best is not None else None,
                    "policy_over": None if name == ours else [against.low, against.ratio, against.high],
                }
            )
    return found


def interval(found: list[Any] | None) -> str:
    """Low end, ratio and high end as text."""
    return "-" if found is None else f"{found[1]:.4f} ({ends(found[0], found[2])})"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--small", type=int, default=96, help="problems of 30-80 operators")
    parser.add_argument("--large", type=int, default=48, help="problems of 400 operators")
    parser.add_argument("--huge", type=int, default=4, help="problems of 2000 operators")
    parser.add_argument("--networks", type=int, default=30, help="networks of hetbench-v1")
    parser.add_argument("--long", type=float, default=10.0, help="longest budget at 2000 operators [s]")
    parser.add_argument("--searches", type=int, default=3, help="how many searches at each budget")
    parser.add_argument("--seed", type=int, default=20_000, help="no training draws from it")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    small = [RandomMix()(rng) for _ in range(options.small)]
    large = [RandomMix(operators=(400, 400))(rng) for _ in range(options.large)]
    huge = [RandomMix(operators=(2000, 2000))(rng) for _ in range(options.huge)]
    specs = [
        spec for spec in load_suite("hetbench-v1").specs if spec.platform.endswith(("unrelated", "uniform")) is False
    ]
    networks = [
        (spec.build(), spec.known.best["classic"].makespan_s) for spec in specs[: options.networks] if spec.known
    ]
    table: list[dict[str, Any]] = []
    if small:
        table += rows("30-80", small, (0.005, 0.05, 0.5), options.searches, None)
    if large:
        table += rows("400", large, (0.15, 1.0), options.searches, None)
    if huge:
        table += rows("2000", huge, (1.0, options.long), options.searches, None)
    if networks:
        table += rows(
            "networks",
            [p for p, _ in networks],
            (0.1, 1.0),
            options.searches,
            [best for _, best in networks],
            (1, 16, 64),
        )
    show(
        "Mean makespans, and the policy's over each method's",
        table,
        {
            "problems": lambda row: row["problems"],
            "budget": lambda row: seconds(row["budget"]) if row["budget"] else "-",
            "method": lambda row: row["method"],
            "time": lambda row: seconds(row["seconds"]),
            "over HEFT, PEFT": lambda row: f"{row['heft_peft']:.3f}",
            "over lists": lambda row: f"{row['lists']:.3f}",
            "gap": lambda row: "-" if row["gap"] is None else f"{row['gap']:.1%}",
            "worst over HEFT": lambda row: f"{row['worst_heft']:.3f}",
            "policy over it": lambda row: interval(row["policy_over"]),
        },
    )
    save(options.json, "policies", table)


if __name__ == "__main__":
    main()
