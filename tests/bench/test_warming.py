"""Schedulers that run while other processes compile: the same attempts in the same order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from hetgym import Problem, Schedule, baselines
from hetgym._kernels.jit import compiling
from hetgym.baselines import Baseline
from hetgym.bench import Row, run, warm_up, warming
from hetgym.bench.warming import Kernels, WarmingUp
from hetgym.workloads import ProblemSpec

SPECS = tuple(ProblemSpec.textbook(name) for name in ("topcuoglu", "arabnejad-barbosa"))
NAMES = ("met", "olb", "heft", "peft", "pilot", "rand-heft")


def timeless(rows: list[Row]) -> list[Row]:
    return [replace(row, schedule_seconds=None) for row in rows]


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers start although nothing has to be compiled, two of them at least."""
    monkeypatch.setattr(warming, "PATIENCE", 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)


@pytest.mark.usefixtures("helpers")
@pytest.mark.parametrize("ahead", [*(pytest.param(count, marks=pytest.mark.slow) for count in (0, 64)), 1])
def test_rows_are_those_of_a_run_without_helpers_and_it_says_what_it_waits_for(ahead: int) -> None:
    table = [baselines.get(name) for name in NAMES]
    executor, told = WarmingUp(table, ahead), list[str]()
    executor.tell = told.append
    found = run(SPECS, table, executor=executor)
    assert timeless(found.rows) == timeless(run(SPECS, table).rows)
    assert told and all(
        line.startswith("kernels of ") and f" of {len(NAMES)} schedulers are ready" in line for line in told
    )


@pytest.mark.usefixtures("helpers")
def test_helpers_that_die_are_done_without() -> None:
    table = [baselines.get(name) for name in NAMES]
    with Kernels(table, ("classic",)) as kernels:
        processes = [helper._process for helper in kernels._helpers]
        assert len(processes) == 2 and kernels.compiling_elsewhere
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        while kernels.load_next():
            pass
        assert kernels.ready == set(NAMES)
    assert all(process.poll() is not None for process in processes)


@pytest.mark.usefixtures("helpers")
def test_helpers_end_with_the_context() -> None:
    with Kernels([baselines.get(name) for name in NAMES], ("classic",)) as kernels:
        processes = [helper._process for helper in kernels._helpers]
    assert len(processes) == 2 and all(process.poll() is not None for process in processes)


def test_without_compiling_there_are_no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the process compiled before the run."""
    monkeypatch.setattr(compiling, "_finished", compiling._finished + 100.0)
    table = [baselines.get(name) for name in NAMES]
    warm_up(table, ("classic",))
    before = compiling.seconds
    with Kernels(table, ("classic",)) as kernels:
        while kernels.load_next():
            pass
        assert compiling.seconds == before
        assert not kernels._helpers


def test_warming_up_survives_a_broken_scheduler() -> None:
    calls = []

    def broken(problem: Problem) -> Schedule:
        calls.append(problem.name)
        raise ZeroDivisionError

    warm_up([Baseline("broken", "search", broken, "a test", "O(1)"), "heft"], ("classic", "links"))
    assert calls == ["topcuoglu"]


@pytest.mark.usefixtures("helpers")
def test_an_interrupt_keeps_what_was_made_before_its_turn() -> None:
    """The first scheduler of the run stops it on the second problem."""
    seen = []

    def stop(problem: Problem) -> Schedule:
        seen.append(problem.name)
        if len(seen) == 3:  # after the warm-up and the first problem
            raise KeyboardInterrupt
        return baselines.heft(problem)

    table = [Baseline("stop", "list", stop, "a test", "O(1)"), *(baselines.get(name) for name in NAMES)]
    result = run(SPECS, table, ("classic",), executor=WarmingUp(table))
    makespans = {(row.problem, row.scheduler): row.makespan_s for row in run(SPECS, NAMES, ("classic",)).rows}
    assert result.interrupted and seen == ["topcuoglu", "topcuoglu", "arabnejad-barbosa"]
    assert (result.rows[0].problem, result.rows[0].scheduler) == ("topcuoglu", "stop")
    for row in result.rows[1:]:
        assert row.makespan_s == makespans[row.problem, row.scheduler]


@pytest.mark.slow
def test_a_helper_looks_up_every_scheduler_that_the_run_has() -> None:
    """In a process of its own, in which nothing was imported before."""
    names = "".join(f"{name}\n" for name in baselines.names())
    script = (
        "import sys; from hetgym.bench import warming; from hetgym import baselines\n"
        "found = []\n"
        "warming.get = lambda name: found.append(baselines.get(name)) or (lambda problem: None)\n"
        "import os; warming.serve(os.getppid())\n"
        f"sys.exit(len(found) != {len(baselines.names())})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=names, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "." * len(baselines.names())), done.stderr


def test_searches_with_a_limit_of_time_only_glance() -> None:
    asked = baselines.get("region-annealing", seconds=30.0, budget=2**62)
    began = time.process_time() - compiling.seconds  # a busy machine leaves less of the processor, never more
    warm_up([asked], ["classic"])
    assert time.process_time() - compiling.seconds - began < 10.0
