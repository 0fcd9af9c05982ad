"""A run on a Ray cluster gives the rows of the local run, whatever happens to its processes."""

from __future__ import annotations

import _thread
import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hetgym import ConfigError, Problem, Schedule, _ray, baselines
from hetgym.baselines import Baseline
from hetgym.bench import on_ray
from hetgym.bench.executor import Executor
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, execute
from hetgym.bench.loop import Progress
from hetgym.bench.rows import Row
from hetgym.bench.runner import run
from hetgym.bench.sink import Sink
from hetgym.errors import ClusterError, ProblemError
from hetgym.sim import Trace
from hetgym.workloads import ProblemSpec

ray = pytest.importorskip("ray")

THIRD = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], [(0, 1, 1.0), (0, 2, 2.0)], name="third")
SPECS = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa"), ProblemSpec.held(THIRD))
RUNTIMES = ("classic", "links")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with on_ray() as executor:
        yield executor


class Recorder(Sink):
    """Keeps all traces and the order of events."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.events: list[tuple[str, int]] = []

    def problem(self, spec: ProblemSpec, problem: Problem, lower_bound: float) -> None:
        self.events.append((spec.name, 0))

    def rows(self, rows: object) -> None:
        self.events.append(("rows", len(rows)))  # type: ignore[arg-type]

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        self.traces.append(trace)

    def complete(self, rows: object) -> None:
        self.events.append(("complete", len(rows)))  # type: ignore[arg-type]


def timeless(rows: list[Row]) -> list[Row]:
    return [replace(row, schedule_seconds=None) for row in rows]


def plugin(name: str, function: Callable[[Problem], Schedule]) -> Baseline:
    return Baseline(name, "search", function, "a test", "O(1)")


def failing() -> Baseline:
    def fail(problem: Problem) -> Schedule:
        raise ZeroDivisionError("division\nby zero")

    return plugin("broken", fail)


def test_all_but_the_times_is_as_in_the_local_run(executor: Executor) -> None:
    def absent() -> Problem:
        raise ProblemError("gone.npz: no such file")

    specs = (*SPECS[:2], ProblemSpec("gone", "gone", "-", absent), SPECS[2])
    table = ["heft", baselines.get("annealing", seed=3), failing(), "random"]
    here, there = Recorder(), Recorder()
    steps: list[Progress] = []
    local = run(specs, table, RUNTIMES, here)
    remote = run(specs, table, RUNTIMES, there, steps.append, executor)
    assert timeless(remote.rows) == timeless(local.rows)
    assert all(row.schedule_seconds for row in remote.rows if row.ok) and not remote.interrupted
    assert there.events == here.events
    for x, y in zip(there.traces, here.traces, strict=True):
        assert (x.scheduler, x.runtime, x.problem.id) == (y.scheduler, y.runtime, y.problem.id)
        assert np.array_equal(x.sent, y.sent) and np.array_equal(x.arrived, y.arrived)
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1] == Progress(16, 16, "", "")


def waiting(name: str, folder: Path) -> Baseline:
    """Tells its process number the first time, and then waits to be killed."""
    path = str(folder / "pid")

    def wait(problem: Problem) -> Schedule:
        import os
        import time

        from hetgym import baselines

        if problem.name == "arabnejad-barbosa" and not os.path.exists(path):
            with open(path + "~", "w") as file:
                file.write(str(os.getpid()))
            os.replace(path + "~", path)
            time.sleep(100)
        return baselines.heft(problem)

    return plugin(name, wait)


def doomed() -> Baseline:
    """Ends its process whenever it is run on one problem."""

    def die(problem: Problem) -> Schedule:
        import os
        import signal

        from hetgym import baselines

        if problem.name == "third":
            os.kill(os.getpid(), signal.SIGKILL)
        return baselines.heft(problem)

    return plugin("doomed", die)


def when(path: Path, act: Callable[[], None]) -> threading.Thread:
    """Do something as soon as a file is there."""

    def watch() -> None:
        for _ in range(600):
            if path.exists():
                return act()
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_killed_processes_are_replaced_and_cost_at_most_a_row(executor: Executor, tmp_path: Path) -> None:
    """``kill -9`` from outside, once: run again. A scheduler that kills every process: rows that say so."""
    killed: list[int] = []

    def kill() -> None:
        killed.append(int((tmp_path / "pid").read_text()))
        os.kill(killed[0], signal.SIGKILL)

    thread = when(tmp_path / "pid", kill)
    table = ["heft", waiting("waiting", tmp_path), doomed(), "cpop"]
    result = run(SPECS, table, RUNTIMES, executor=executor)
    thread.join()
    assert killed and killed[0] != os.getpid()
    lost = [(row.problem, row.scheduler, row.status) for row in result.rows if not row.ok]
    assert lost == [("third", "doomed", "the process that ran it was killed or crashed, 4 times")] * 2
    alike = [plugin(name, lambda problem: baselines.heft(problem)) for name in ("waiting", "doomed")]
    expected = run(SPECS, ["heft", *alike, "cpop"], RUNTIMES).rows
    for row, same in zip(result.rows, expected, strict=True):
        assert row.makespan_s == (same.makespan_s if row.ok else None)


def test_ctrl_c_keeps_all_that_is_done(executor: Executor, tmp_path: Path) -> None:
    """This includes results that are ready before the one that the run waits for."""
    ready = tmp_path / "ready"

    def tell(problem: Problem) -> Schedule:
        from pathlib import Path

        from hetgym import baselines

        if problem.name == "third":
            Path(str(ready)).touch()
        return baselines.heft(problem)

    def press() -> None:
        time.sleep(0.6)  # the result that follows the file is on its way
        _thread.interrupt_main()

    thread = when(ready, press)
    table = tuple(baselines.get(b) if isinstance(b, str) else b for b in ("heft", waiting("stuck", tmp_path), "cpop"))
    job = Job("test", SPECS, (*table, plugin("tell", tell)), ("classic",))
    outcome = execute(job, RunFolder(tmp_path, "run"), executor=executor)
    thread.join()
    assert outcome.exit_code == 130 and outcome.document["executor"].startswith("Ray, ")
    with (tmp_path / "run" / "rows.csv").open(newline="") as file:
        kept = [(row["problem"], row["scheduler"]) for row in csv.DictReader(file)]
    names = ("heft", "stuck", "cpop", "tell")
    all_of_them = [(spec.name, name) for spec in SPECS for name in names]
    assert kept == [pair for pair in all_of_them if pair != ("arabnejad-barbosa", "stuck")]
    assert {line.problems for line in outcome.summary} == {2}
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_the_command_joins_a_cluster_and_says_nothing_of_it(executor: Executor, tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    words = ["bench", "--suite", "quick", "--schedulers", "heft,peft", "--name", "x", "--json", "--ray", address]
    command = [sys.executable, "-W", "error", "-c", "from hetgym.cli import main; main()", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    told = [line for line in done.stderr.splitlines() if not line.startswith("hetgym: quick: ")]  # how far the run is
    assert (done.returncode, told) == (0, [])
    document = json.loads(done.stdout)
    assert document["executor"] == executor.description
    assert len(document["rows"]) == 3 * 2 * 2 and all(row["status"] == "ok" for row in document["rows"])
    assert ray.is_initialized(), "the cluster of others stays"


def test_a_scheduler_that_cannot_travel_is_refused(executor: Executor) -> None:
    lock = threading.Lock()

    def locked(problem: Problem) -> Schedule:
        with lock:
            return baselines.heft(problem)

    with pytest.raises(ConfigError, match="scheduler 'locked' cannot be sent to another process"):
        run(SPECS, [plugin("locked", locked)], executor=executor)


def test_nodes_with_other_versions_are_refused(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "1.0")
    with pytest.raises(ClusterError, match=r"node \S+ of the Ray cluster has numpy \S+, this process 1.0"):
        _ray._check_nodes(ray)
