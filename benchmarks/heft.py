"""HEFT's time against problem size, compared with a linear bound and with plain Python.

    python benchmarks/heft.py --json heft.json

HEFT visits every edge once for every device. Appending instead of searching for gaps does only that, so its time is
the linear bound: ``gap search`` is the time with insertion over the time without. The ratio to the plain-Python
insertion scheduler is measured in the same run.
"""

from __future__ import annotations

from typing import Any

from _common import SIZES, command_line, median_seconds, random_problem, save, seconds, show

import hetgym
from hetgym.planning.ranks import list_order, upward_rank

ORACLE_LIMIT = 1_000  # operators; beyond it the oracle takes minutes


def measure(operators: int, devices: int) -> dict[str, Any]:
    """One row of the table."""
    import oracle

    problem = random_problem(operators, devices)
    time = {
        name: median_seconds(lambda options=options: hetgym.baselines.get("heft", **options)(problem))
        for name, options in (("insertion", {}), ("append", {"insertion": False}))
    }
    slow = None
    if operators <= ORACLE_LIMIT:
        order = list_order(problem.arrays, upward_rank(problem).copy()).tolist()
        slow = median_seconds(lambda: oracle.place(problem, order), repeats=3)
    return {
        "operators": operators,
        "edges": problem.num_edges,
        "devices": devices,
        "seconds": time["insertion"],
        "append_seconds": time["append"],
        "gap_search_ratio": time["insertion"] / time["append"],
        "seconds_per_pair": time["insertion"] / (problem.num_edges * devices),
        "oracle_ratio": slow / time["insertion"] if slow is not None else None,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    parser.add_argument("--devices", type=int, default=8)
    options = parser.parse_args()
    rows = [measure(size, options.devices) for size in options.sizes]
    show(
        f"HEFT on {options.devices} devices",
        rows,
        {
            "operators": lambda row: f"{row['operators']:,}",
            "edges": lambda row: f"{row['edges']:,}",
            "insertion": lambda row: seconds(row["seconds"]),
            "append": lambda row: seconds(row["append_seconds"]),
            "an edge and device": lambda row: seconds(row["seconds_per_pair"]),
            "gap search": lambda row: f"{row['gap_search_ratio']:.2f} x",
            "times the oracle": lambda row: "-" if row["oracle_ratio"] is None else f"{row['oracle_ratio']:,.0f} x",
        },
    )
    save(options.json, "heft", rows)


if __name__ == "__main__":
    main()
