"""Searches against the better of HEFT and PEFT, at several budgets.

    python benchmarks/search.py --json search.json

Random problems of unrelated devices (:class:`hetgym.workloads.RandomMix`): many of 30-80 operators and
a few of 400. Each figure is the mean makespan over that of the better of HEFT and PEFT; ``append`` has
PEFT place operators at the ends of the devices, as some papers do, and ``insertion`` in gaps, which is
the harder peer. Times are medians over the problems, start included.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from _common import command_line, save, seconds, show

from hetgym import Problem
from hetgym.baselines import get
from hetgym.planning import place_by_priority
from hetgym.planning.ranks import optimistic_cost
from hetgym.workloads import RandomMix

MILLION = 1_000_000
SINGLE = {"start": "single-device"}
ROWS: tuple[tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...]], ...] = (
    # scheduler, options, budgets at 30-80 operators, budgets at 400; 0 = no budget
    ("heft", {}, (0,), (0,)),
    ("peft", {}, (0,), (0,)),
    ("pilot-append-eft", {}, (MILLION,), (MILLION,)),
    ("pilot-append", {}, (MILLION,), (MILLION,)),
    ("pilot-eft", {}, (MILLION,), (MILLION,)),
    ("pilot", {}, (MILLION,), (MILLION,)),
    ("rand-heft", {}, (20_000, 200_000), (MILLION,)),
    ("annealing", SINGLE, (30_000, 300_000, MILLION), (2 * MILLION, 8 * MILLION)),
    ("annealing", SINGLE | {"decode": "insertion"}, (30_000, 300_000, MILLION), (2 * MILLION, 8 * MILLION)),
    ("annealing", SINGLE | {"decode": "order"}, (30_000, 300_000, MILLION), (2 * MILLION, 8 * MILLION)),
    ("pilot-annealing", {}, (30_000, 300_000, MILLION), (2 * MILLION, 8 * MILLION, 30 * MILLION)),
    ("lns", {"start": "pilot"}, (30_000, 300_000, MILLION), (2 * MILLION, 8 * MILLION, 30 * MILLION)),
    ("cpgc", {}, (100_000, MILLION), (MILLION, 10 * MILLION)),
)


def reference(problem: Problem, insertion: bool) -> float:
    """Makespan of the better of HEFT and PEFT [s], PEFT by insertion or append."""
    table = optimistic_cost(problem)
    peft = place_by_priority(problem, np.mean(table, axis=1), bonus=table, insertion=insertion)
    return min(get("heft")(problem).makespan, peft.makespan)


def measure(size: str, problems: list[Problem], which: int) -> list[dict[str, Any]]:
    """One row for each scheduler and budget."""
    references = {kind: [reference(p, kind == "insertion") for p in problems] for kind in ("append", "insertion")}
    rows = []
    for name, options, *budgets in ROWS:
        for budget in budgets[which]:
            scheduler = get(name, **options, **({"budget": budget} if budget else {}))
            scheduler(problems[0])
            makespans, times = [], []
            for problem in problems:
                begin = time.perf_counter()
                makespans.append(scheduler(problem).makespan)
                times.append(time.perf_counter() - begin)
            rows.append(
                {
                    "operators": size,
                    "scheduler": name,
                    "options": options,
                    "budget": budget,
                    "seconds": statistics.median(times),
                    **{kind: float(np.mean(np.array(makespans) / base)) for kind, base in references.items()},
                }
            )
    return rows


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--small", type=int, default=48, help="problems of 30-80 operators")
    parser.add_argument("--large", type=int, default=12, help="problems of 400 operators")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    small = [RandomMix()(rng) for _ in range(options.small)]
    large = [RandomMix(operators=(400, 400))(rng) for _ in range(options.large)]
    rows = []
    for which, (size, problems) in enumerate((("30-80", small), ("400", large))):
        if problems:
            rows += measure(size, problems, which)
    show(
        "Mean makespan over the better of HEFT and PEFT",
        rows,
        {
            "operators": lambda row: row["operators"],
            "what": lambda row: " ".join([row["scheduler"], *(f"{k}={v}" for k, v in row["options"].items())]),
            "budget": lambda row: f"{row['budget']:,}" if row["budget"] else "-",
            "time": lambda row: seconds(row["seconds"]),
            "append": lambda row: f"{row['append']:.3f}",
            "insertion": lambda row: f"{row['insertion']:.3f}",
        },
    )
    save(options.json, "search", rows)


if __name__ == "__main__":
    main()
