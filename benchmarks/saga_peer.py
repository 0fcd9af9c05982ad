"""The peer's side of ``saga.py``, run by a Python that has anrg-saga; it does not need hetgym.

It reads problems from a file, then requests ``[problem, scheduler]``, one JSON line each, and answers each with
``[seconds, makespan]``. Building SAGA's objects is not timed. The ranks that SAGA caches between calls are cleared
before each call, since computing them is part of the work.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

sys.path.pop(0)  # this folder, whose saga.py would hide the package

from saga import Network, TaskGraph  # noqa: E402
from saga.schedulers import cpop  # noqa: E402


def build(problem: dict[str, Any]) -> tuple[Any, Any]:
    """SAGA's network and task graph of one problem."""
    speeds = problem["speeds"]
    links = [
        (f"d{a}", f"d{b}", problem["bandwidth"][a][b]) for a in range(len(speeds)) for b in range(a + 1, len(speeds))
    ]
    network = Network.create([(f"d{a}", speed) for a, speed in enumerate(speeds)], links)
    graph = TaskGraph.create(
        [(f"t{i}", work) for i, work in enumerate(problem["work"])],
        [(f"t{i}", f"t{j}", size) for i, j, size in problem["edges"]],
    )
    return network, graph


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        built = [build(problem) for problem in json.load(file)]
    for line in sys.stdin:
        number, path = json.loads(line)
        module, _, name = path.partition(":")
        scheduler = getattr(importlib.import_module(f"saga.schedulers.{module}"), name)()
        network, graph = built[number]
        cpop.upward_rank.cache_clear()
        cpop.cpop_ranks.cache_clear()
        begin = time.perf_counter()
        schedule = scheduler.schedule(network, graph)
        print(json.dumps([time.perf_counter() - begin, float(schedule.makespan)]), flush=True)


if __name__ == "__main__":
    main()
