"""Ctrl-C on a search of a large problem, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SEARCH = """
import sys, threading, time
import numpy as np
import hetgym
from hetgym.search.search import ended_by_interrupt, watched

n, runtime = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
target = np.repeat(np.arange(1, n), 2)
edge = np.unique(np.maximum(0, target - rng.integers(1, 101, len(target))) * n + target)
payload = rng.uniform(0.0, 10.0, len(edge))
problem = hetgym.Problem.from_edges(rng.uniform(1.0, 10.0, (n, 4)), edge // n, edge % n, payload, "large")
first = hetgym.plan(problem, runtime, "100ms")  # which also compiles

def watch():
    while not interrupts.came:
        time.sleep(0.002)
    came.append(time.process_time())

came = []
with ended_by_interrupt() as interrupts, watched(lambda makespan: print("best", makespan, flush=True)):
    threading.Thread(target=watch, daemon=True).start()
    plan = hetgym.plan(problem, runtime, "1h")
    took = time.process_time() - came[0]
hetgym.validate(problem, plan)
print("end", interrupts.came, hetgym.simulate(problem, plan, runtime).makespan == plan.makespan, took, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["links", "framework"])
def test_a_signal_ends_the_search_of_a_large_problem_with_its_best_plan(runtime: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SEARCH, "10000", runtime], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("best ")
        process.send_signal(signal.SIGINT)
        *_, last = process.stdout.read().splitlines()
    word, interrupted, same, took = last.split()
    assert (word, interrupted, same) == ("end", "True", "True")
    assert float(took) < 2.0  # of processor time, of two threads
    assert process.returncode == 0
