"""Schedulers on hetbench-v1 under ``classic``: gaps to the best known makespans, by size and by communication.

python benchmarks/hetbench_schedulers.py --json schedulers.json    # minutes
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from _common import command_line, ends, save, show

REFERENCE = "heft"
SCHEDULERS = (
    "place-v1-search", "pilot-annealing", "annealing", "place-v1", "lns", "cpgc", "rand-heft", "pilot",
    "lookahead-heft", "cpgc-partition", "peft", "heft", "dls", "cpop", "mct", "single-device",
)  # fmt: skip


def main() -> None:
    options = command_line(__doc__).parse_args()
    command = ["hetgym", "bench", "--suite", "hetbench-v1", "--runtimes", "classic", "--against", REFERENCE, "--json"]
    run = subprocess.run([*command, "--schedulers", ",".join(SCHEDULERS)], check=True, stdout=subprocess.PIPE)
    document = json.loads(run.stdout)
    rows = {line["scheduler"]: {**line, "groups": {}} for line in document["summary"]}
    for line in document["against"]:
        rows[line["scheduler"]]["over"] = line
    for by in ("size", "ccr"):
        for line in document["groups"][by]:
            name = f"{line['group']} operators" if by == "size" else f"CCR {line['group']}"
            rows[line["scheduler"]]["groups"][name] = line["gap_to_best"]
    lines = list(rows.values())
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "scheduler": lambda row: row["scheduler"],
        "gap to best": lambda row: f"{row['gap_to_best']:.1%}".replace("%", " %"),
        "gap to bound": lambda row: f"{row['gap_to_bound']:.1%}".replace("%", " %"),
        "wins": lambda row: f"{row['wins']} of {row['problems']}",
    }
    show("Mean gaps", lines, columns, "gaps")
    columns = {
        "scheduler": lambda row: row["scheduler"],
        "over HEFT": lambda row: f"{row['over']['ratio']:.3f}" if "over" in row else "1",
        "95 % interval": lambda row: ends(row["over"]["low"], row["over"]["high"], ".3f") if "over" in row else "–",
    }
    for name in lines[0]["groups"]:
        columns[name] = lambda row, name=name: f"{100 * row['groups'][name]:.1f}"
    show("Over HEFT, and gap to the best known makespan by group [%]", lines, columns, "groups")
    save(options.json, "hetbench_schedulers", lines)


if __name__ == "__main__":
    main()
