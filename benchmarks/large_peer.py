"""A search of large problems in another process, for ``benchmarks/large.py``: maybe that of an older hetgym.

Reads an object of JSON a line, ``{"problem": file, "runtime": name, "seconds": processor time}``, and writes the
makespan.
"""

from __future__ import annotations

import json
import sys
import time

from hetgym import Problem
from hetgym.agents import load
from hetgym.search import search


def main() -> None:
    search.perf_counter = time.process_time  # other work on the machine does not count
    policy = load("place-v2")
    for line in sys.stdin:
        task = json.loads(line)
        plan = policy.plan(Problem.load(task["problem"]), task["seconds"], runtime=task["runtime"])
        print(json.dumps(plan.makespan), flush=True)


if __name__ == "__main__":
    main()
