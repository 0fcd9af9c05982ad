"""The peer's side of ``proposals.py --peer``: region annealing of an earlier hetgym, run by a Python that has it.

It takes one JSON line for each search: a file of the problem, the runtime, the plan to begin with (``assignment`` and
``order``), and the seconds. It answers with the plan that it found, and the processor time that this took.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

sys.path.pop(0)  # this folder, beside which another hetgym may lie

import hetgym  # noqa: E402
from hetgym.baselines.region_search import RegionAnnealing  # noqa: E402
from hetgym.search import search


def main() -> None:
    search.perf_counter = time.process_time  # type: ignore[attr-defined]
    for line in sys.stdin:
        task = json.loads(line)
        problem = hetgym.Problem.load(task["problem"])
        start = hetgym.Schedule(np.array(task["assignment"], np.int32), order=task["order"])
        began = search.clock()
        found = RegionAnnealing(problem, start, runtime=task["runtime"])
        search.run(found, 2**62, task["seconds"], began=began)
        plan = found.schedule()
        took = search.clock() - began
        answer = {"assignment": plan.assignment.tolist(), "order": [row.tolist() for row in plan.order], "s": took}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
