"""The effects of the parts of DONF: ratios of makespans to HEFT's, by size, communication and runtime.

    python studies/donf/donf_study.py --json studies/donf/donf_study.json

``loop`` is the makespan that DONF's own event loop plans, against HEFT inside the same loop. The other
runtimes simulate the orders that each scheduler decides, against HEFT with insertion.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from hetgym import simulate
from hetgym.baselines import get
from hetgym.metrics import geometric_mean
from hetgym.workloads import load_suite

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

LOOP = {
    "PEFT in the loop": get("donf", communication="per-edge", priority="optimistic"),
    **{name: get(name) for name in ("donf", "donf-w", "donf-l", "donf2", "adon", "fifo-donf", "heft-donf")},
}
INSIDE = get("donf", communication="per-edge", priority="upward")
SIMULATED = {
    name: get(name)
    for name in (
        "peft",
        "donf-classic",
        "donf",
        "donf-w",
        "donf-l",
        "donf2",
        "adon",
        "fifo-donf",
        "heft-donf",
        "single-device",
    )
}
RUNTIMES = ("classic", "links", "donf")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--suite", default="donf-study")
    options = parser.parse_args()
    ratios: dict[tuple[str, str, int, str], list[float]] = defaultdict(list)
    for spec in load_suite(options.suite).specs:
        problem = spec.build()
        n, ccr = problem.num_operators, spec.platform.rpartition("=")[2]
        base = INSIDE(problem).makespan
        single = simulate(problem, get("single-device")(problem)).makespan  # nothing to pull: the same in the loop
        for name, value in {**{k: s(problem).makespan for k, s in LOOP.items()}, "single-device": single}.items():
            ratios["loop", name, n, ccr].append(value / base)
        heft = get("heft")(problem)
        references = {runtime: simulate(problem, heft, runtime).makespan for runtime in RUNTIMES}
        schedules = {name: scheduler(problem) for name, scheduler in SIMULATED.items()}
        for runtime, reference in references.items():
            for name, schedule in schedules.items():
                ratios[runtime, name, n, ccr].append(simulate(problem, schedule, runtime).makespan / reference)
    columns = sorted({(n, ccr) for _, _, n, ccr in ratios})
    for runtime in ("loop", *RUNTIMES):
        title = "inside DONF's loop" if runtime == "loop" else f"simulated under {runtime}"
        rows = [{"scheduler": name} for name in dict.fromkeys(name for r, name, _, _ in ratios if r == runtime)]
        for row in rows:
            for n, ccr in columns:
                mean = geometric_mean(ratios[runtime, row["scheduler"], n, ccr])
                row[f"{n} tasks, CCR {ccr}"] = f"{mean:.3f}"
        show(title, rows, {name: (lambda row, name=name: row[name]) for name in rows[0]})
    numbers = [
        {
            "runtime": r,
            "scheduler": s,
            "operators": n,
            "ccr": float(c),
            "ratio": geometric_mean(v),
            "graphs": len(v),
        }
        for (r, s, n, c), v in ratios.items()
    ]
    save(options.json, "donf_study", numbers)


if __name__ == "__main__":
    main()
