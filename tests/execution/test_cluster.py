"""Clusters on this machine: what they compute and measure, and what happens when a worker fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from execution.small import DEVICES, diamond, placed

from hetgym.errors import ExecutionError, InvalidSchedule
from hetgym.execution import Cluster, execute, run
from hetgym.execution.steps import Flow
from hetgym.execution.work import Work
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.schedule import Schedule

pytest.importorskip("torch")
if not hasattr(os, "sched_setaffinity"):
    pytest.skip("workers are bound to cores, which only Linux does", allow_module_level=True)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:  # of a worker whose parent died, until somebody reaps it
        return file.read().rpartition(")")[2].split()[0] == "Z"


@pytest.fixture(scope="module")
def graph() -> DataflowGraph:
    return diamond(depth=3)


@pytest.fixture(scope="module")
def cluster(graph: DataflowGraph) -> Iterator[Cluster]:
    work = Work.of_graph(graph)
    flow = Flow(work.flow.maker, work.flow.readers, frozenset(range(len(work.tensors))))  # let us see all tensors
    with Cluster(Work(graph, work.tensors, flow, work.program), DEVICES) as made:
        yield made


def values(cluster: Cluster) -> list[bytes]:
    slots = cluster.memory.layout.slots
    return [bytes(cluster.memory.data[s.offset : s.offset + int(s.tensor.bytes)]) for s in slots]


def test_every_placement_computes_the_same(cluster: Cluster, graph: DataflowGraph) -> None:
    found = []
    for assignment in ([0] * 10, [1] * 10, [0, 1] * 5, [0, 0, 1, 1, 0, 1, 0, 1, 1, 0]):
        cluster.run(cluster.load(placed(graph, assignment)))
        found.append(values(cluster))
        cluster.memory.data[cluster.memory.layout.slots[0].offset :] = bytes(
            len(cluster.memory.data) - cluster.memory.layout.slots[0].offset
        )  # so that nothing is left over from this run
    assert any(any(value) for value in found[0])
    assert found[1:] == found[:1] * 3


def test_times_respect_data_and_devices(cluster: Cluster, graph: DataflowGraph) -> None:
    schedules = [placed(graph, [0, 1] * 5, "mixed"), placed(graph, [0] * 10, "left")]
    mixed, left = execute(cluster, schedules, rounds=3, warmups=1)
    assert mixed.start.shape == (3, 10)
    assert mixed.makespan == np.median(mixed.makespans) > 0
    for k in range(3):
        trace = mixed.trace(k)
        source, target = graph.edge_source, graph.edge_target
        assert (trace.start >= 0).all()
        assert (trace.finish > trace.start).all()
        assert (trace.sent >= trace.finish[source]).all()
        assert (trace.arrived[trace.remote] > trace.sent[trace.remote]).all()
        assert (trace.arrived[~trace.remote] == trace.finish[source[~trace.remote]]).all()
        assert (trace.start[target] >= np.where(trace.remote, trace.sent, trace.finish[source])).all()
        for row in trace.order:
            assert (trace.start[row[1:]] >= trace.finish[row[:-1]]).all()
    assert not left.trace().remote.any()
    chrome = mixed.trace().to_chrome()
    assert chrome["otherData"]["runtime"] == "executed"
    assert chrome["otherData"]["scheduler"] == "mixed"
    assert sum(mixed.trace().blame.seconds.values()) == pytest.approx(mixed.trace().makespan)


def test_schedules_that_cannot_run_are_refused(cluster: Cluster, graph: DataflowGraph) -> None:
    backwards = Schedule([0] * 10, [list(range(9, -1, -1)), []])
    with pytest.raises(InvalidSchedule, match="deadlock"):
        cluster.load(backwards)
    with pytest.raises(InvalidSchedule, match="priorities"):
        cluster.load(Schedule([0] * 10, priority=np.zeros(10)))
    assert not cluster.closed


@pytest.mark.slow
def test_an_operator_without_a_kernel_is_named_and_nothing_is_left() -> None:
    x = Tensor((4,))
    graph = DataflowGraph([Operator("fine", "Relu", (x,), (x,)), Operator("odd", "Riddle", (x,), (x,))], [(0, 0, 1)])
    cluster = Cluster(graph, DEVICES)
    pids = cluster.pids
    with pytest.raises(ExecutionError, match="'right' failed at operator 'odd': .*Riddle") as caught:
        cluster.load(placed(graph, [0, 1]))
    assert (caught.value.worker, caught.value.operator) == ("right", "odd")
    assert cluster.closed
    assert all(map(gone, pids))
    with pytest.raises(ExecutionError, match="closed"):
        cluster.load(placed(graph, [0, 0]))


@pytest.mark.parametrize("blow", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_killed_or_hung_worker_ends_the_run_with_its_name(blow: signal.Signals) -> None:
    graph = diamond(500, 20)
    patience = 1.5 if blow == signal.SIGSTOP else 300.0
    cluster = Cluster(graph, DEVICES, patience=patience)
    loaded = cluster.load(placed(graph, [k % 2 for k in range(len(graph))]))
    assert os.fstat(cluster.memory.descriptor).st_nlink == 0  # without a name, which would outlive it in /dev/shm
    struck = []

    def strike() -> None:
        struck.append(time.monotonic())
        os.kill(cluster.pids[1], blow)

    timer = threading.Timer(0.3, strike)
    timer.start()
    with pytest.raises(ExecutionError) as caught:
        while True:
            cluster.run(loaded)
    timer.join()
    assert time.monotonic() - struck[0] < 100.0  # a death is noticed at once, without patience
    assert caught.value.worker == "right"
    assert caught.value.operator == "" or caught.value.operator in {op.name for op in graph.operators}
    assert "SIGKILL" in str(caught.value) if blow == signal.SIGKILL else "made no progress" in str(caught.value)
    assert cluster.closed
    assert all(map(gone, cluster.pids))
    assert cluster.memory.descriptor == -1


SCRIPT = """
import os, sys
sys.path.insert(0, {folder!r})
from small import DEVICES, diamond, placed
from hetgym.execution import Cluster
graph = diamond(500, 20)
cluster = Cluster(graph, DEVICES)
loaded = cluster.load(placed(graph, [k % 2 for k in range(len(graph))]))
print(*cluster.pids, flush=True)
while True:
    cluster.run(loaded)
"""


@pytest.mark.parametrize("blow", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL])
def test_no_worker_outlives_its_parent(blow: signal.Signals) -> None:
    script = SCRIPT.format(folder=os.path.dirname(__file__))
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.2)
    parent.send_signal(blow)
    try:
        _, errors = parent.communicate(timeout=100)
    finally:
        parent.kill()
    if blow == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
        assert all(map(gone, pids))
    give_up = time.monotonic() + 100
    while not all(map(gone, pids)):
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.mark.slow
def test_run_starts_and_ends_its_own_workers() -> None:
    graph = diamond()
    result = run(graph, placed(graph, [0, 0, 1, 0]), DEVICES, rounds=2, warmups=0)
    assert len(result.makespans) == 2


def test_tensors_that_do_not_fit_into_memory_are_refused() -> None:
    huge = Tensor((1 << 40,))
    graph = DataflowGraph(
        [Operator("a", "Relu", (huge,), (huge,)), Operator("b", "Relu", (huge,), (huge,))], [(0, 0, 1)]
    )
    with pytest.raises(ExecutionError, match="4.4e.03 GB of shared memory"):
        Cluster(graph, DEVICES)
