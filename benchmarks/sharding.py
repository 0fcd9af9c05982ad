"""Sharding problems of the ASPLOS 2025 contest, solved within the contest's time, beside the best published costs.

``python benchmarks/sharding.py FOLDER --problems A,B --seeds 3`` reads ``A.json.gz`` and so on, which are those of
github.com/google/iopddl (Apache-2.0) under the letters of its evaluation. ``--share 0.5`` gives half of the time.
``--steps`` replaces the time by a number of steps. Every plan is checked by :func:`hetgym.sharding.validate`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import command_line, save, show

from hetgym.sharding import ShardingProblem, load, reduce, solve, validate

BEST: dict[str, tuple[int, int]] = {
    "A": (60, 6_548_641_531), "B": (60, 532_843), "C": (60, 84_102_445_244), "D": (60, 309_396_217_000),
    "G": (120, 217_039), "K": (180, 2_242_635_784), "L": (180, 1_970_993_742), "M": (180, 49_928_157_500),
    "P": (240, 651_833_115_436), "Q": (240, 526_776_842_042),
}  # fmt: skip
"""Letter -> the contest's limit [s] and the lowest published cost: of the teams and XLA (results of the contest), and
of later runs of the winner (github.com/ti2-group/iopddl_experiments)."""

READING = 10.0  # Time of the limit that the contest gives to reading [s]


SMALL = ShardingProblem.from_lists(
    [[1, 3, 2]] * 3, [[3, 1, 2]] * 3, [[0, 9]] * 3, [[0, 1], [1, 2], [2, 0]], [[0, 1, 2, 2, 0, 3, 1, 2, 0]] * 3, limit=6
)

COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "what": lambda row: row["what"],
    "seed": lambda row: str(row["seed"]),
    "nodes": lambda row: str(row["nodes"]),
    "reduced": lambda row: str(row["reduced"]),
    "reading": lambda row: f"{row['reading']:.1f} s",
    "reducing": lambda row: f"{row['reducing']:.2f} s",
    "cost": lambda row: str(row["cost"]),
    "over best published": lambda row: f"{row['cost'] / row['best']:.6f}" if row["best"] else "-",
    "gap": lambda row: f"{row['gap']:.1e}",
    "by": lambda row: row["by"],
    "within 0.1 % after": lambda row: f"{row['near']:.1f} s",
    "last change after": lambda row: f"{row['last']:.1f} s",
    "in all": lambda row: f"{row['seconds']:.1f} s",
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", default=",".join(BEST))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--share", type=float, default=1.0)
    arguments = parser.parse_args()
    began = time.perf_counter()
    solve(SMALL, 1.0, solver=arguments.solver)
    print(f"first use, compilation included: {time.perf_counter() - began:.1f} s")
    rows: list[dict[str, Any]] = []
    for letter in arguments.problems.split(","):
        limit, best = BEST.get(letter, (60, 0))
        began = time.perf_counter()
        problem = load(arguments.folder / f"{letter}.json.gz")
        reading = time.perf_counter() - began
        began = time.perf_counter()
        reduced = reduce(problem)
        reducing = time.perf_counter() - began
        budget = arguments.share * (limit - READING)
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            began = time.perf_counter()
            plan = solve(problem, budget, solver=arguments.solver, seed=seed)
            seconds = time.perf_counter() - began
            assert validate(problem, plan.choice) == plan.cost
            last = min(moment.seconds for moment in plan.history if moment.cost == plan.cost)
            within = [m.seconds for m in plan.history if m.cost is not None and m.cost <= 1.001 * plan.cost]
            rows.append(
                {
                    "what": letter, "seed": seed, "nodes": problem.nodes, "reduced": reduced.core.nodes,
                    "reading": reading, "reducing": reducing, "seconds": seconds, "cost": plan.cost, "best": best,
                    "gap": plan.gap, "by": plan.solver, "near": min(within), "last": last,
                }
            )  # fmt: skip
            print(f"{letter} {seed}: {plan}, {plan.cost / max(1, best):.6f}, {seconds:.0f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    show("Shardings within the contest's time", rows, COLUMNS)
    print(f"peak memory {peak:.1f} GB")
    save(arguments.json, "sharding", rows)


if __name__ == "__main__":
    main()
