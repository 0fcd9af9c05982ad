"""Memory in use: by hand on small runs, by a plain recount on random ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import InvalidSchedule, OutOfMemory, Problem, Runtime, Schedule, evaluate, simulate, validate
from hetgym.planning import get
from hetgym.sim import Trace
from hetgym.sim.memory import excess, memory_use
from hetgym.sim.runtime import TRANSFERS


def chain(**arguments: object) -> Problem:
    """Two operators of one second that hand 10 bytes on, over a link of one second for them."""
    return Problem.from_arrays(
        [[1.0, 1.0]] * 3,
        [(0, 1, 10.0), (1, 2, 10.0)],
        bandwidth=10.0,
        weight_bytes=[100.0, 0.0, 7.0],
        output_bytes=[10.0, 10.0, 5.0],
        **arguments,
    )


def test_a_chain_on_one_device() -> None:
    use = simulate(chain(), Schedule([0, 0, 0], order=[[0, 1, 2], []])).memory
    # output 0 from 0 to 2, output 1 from 1 to 3, output 2 from 2 on; at 2, 10 go before 5 come
    assert use.peak.tolist() == [127.0, 0.0]
    assert list(zip(use.time.tolist(), use.used.tolist(), strict=True)) == [
        (0.0, 117.0),
        (1.0, 127.0),
        (2.0, 117.0),
        (2.0, 122.0),
        (3.0, 112.0),
    ]


def test_a_chain_over_a_link() -> None:
    use = simulate(chain(), Schedule([0, 1, 1], order=[[0], [1, 2]])).memory
    # operator 0 runs 0 to 1, its output travels 1 to 2, the copy stays until operator 1 ends at 3
    assert use.peak.tolist() == [110.0, 7.0 + 10.0 + 10.0]
    first = [(t, u) for t, d, u in zip(use.time, use.device, use.used, strict=True) if d == 0]
    assert first == [(0.0, 110.0), (2.0, 100.0)]


def test_readers_share_a_cached_copy() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 3, [(0, 1, 10.0), (0, 2, 10.0)], bandwidth=10.0, tensors=[0, 0], output_bytes=[10.0, 0.0, 0.0]
    )
    schedule = Schedule([0, 1, 1], order=[[0], [1, 2]])
    assert simulate(problem, schedule, Runtime(transfers="cached")).memory.peak.tolist() == [10.0, 10.0]
    assert simulate(problem, schedule).memory.peak.tolist() == [10.0, 20.0]


def test_enforcing_names_device_peak_and_residents() -> None:
    problem = chain(memory_capacity=[120.0, 1e9])
    schedule = Schedule([0, 0, 0], order=[[0, 1, 2], []])
    assert simulate(problem, schedule, Runtime(memory="track")).memory.peak[0] == 127.0
    with pytest.raises(OutOfMemory, match=r"device 0 \('dev0'\) would hold 127 bytes at 1 s.*120.*op0 \(110\)"):
        simulate(problem, schedule, Runtime(memory="enforce"))
    assert evaluate(problem, [[0, 0, 0], [0, 1, 1]], Runtime(memory="enforce")).tolist() == [np.inf, 4.0]


def recount(trace: Trace, device: int, moment: float) -> float:
    """Bytes on a device just after a moment, from the rules, one tensor at a time."""
    p = trace.problem
    total = sum(p.weight_bytes[i] for i in range(p.num_operators) if trace.assignment[i] == device)
    for i in range(p.num_operators):
        edges = np.flatnonzero(p.edge_source == i)
        reads = [trace.arrived[k] if trace.remote[k] else trace.finish[p.edge_target[k]] for k in edges]
        if trace.assignment[i] == device and trace.start[i] <= moment and (not reads or moment < max(reads)):
            total += p.output_bytes[i]
        for k in edges:
            reader = p.edge_target[k]
            there = trace.remote[k] and trace.assignment[reader] == device
            if there and trace.sent[k] <= moment < trace.finish[reader]:
                total += p.edge_bytes[k]
    return float(total)


@given(case=strategies.cases(("order",)))
def test_use_equals_a_recount(case: tuple[Problem, Schedule]) -> None:
    trace = simulate(*case, Runtime(communication="fifo"))
    use = memory_use(trace)
    for device in range(trace.problem.num_devices):
        mine = use.device == device
        for moment in np.unique(use.time[mine])[:20]:
            now = use.used[mine & (use.time == moment)][-1]
            assert now == pytest.approx(recount(trace, device, moment), rel=1e-9, abs=1e-6)
        assert use.peak[device] >= use.used[mine].max(initial=0.0) - 1e-6


@examples(50)
@given(
    case=strategies.cases(("order",)), share=st.sampled_from([0.5, 0.9, 1.0, 1.1]), transfers=st.sampled_from(TRANSFERS)
)
def test_enforced_capacities_are_never_exceeded(case: tuple[Problem, Schedule], share: float, transfers: str) -> None:
    """A run is refused exactly if somewhere on the way, by the recount, a device holds more than it can."""
    problem, schedule = case
    free = simulate(problem, schedule, Runtime(communication="fifo", transfers=transfers, memory="track"))
    edges = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_bytes.tolist(), strict=True)
    limited = Problem.from_arrays(
        problem.cost,
        edges,
        problem.latency,
        problem.bandwidth,
        tensors=problem.edge_tensor.tolist(),
        weight_bytes=problem.weight_bytes,
        output_bytes=problem.output_bytes,
        memory_capacity=share * free.memory.peak,
    )
    try:
        trace = simulate(limited, schedule, Runtime(communication="fifo", transfers=transfers, memory="enforce"))
    except OutOfMemory:
        assert share < 1.0
    else:
        assert share >= 1.0 or not free.memory.peak.any()
        assert (trace.memory.peak <= limited.memory_capacity * (1 + 1e-12)).all()


def test_a_shared_copy_begins_with_its_first_transfer_and_has_its_largest_size() -> None:
    """An online run fetched 5 bytes of a tensor from 1 s on, then all its 10 bytes; the readers ended at 4 and 3 s."""
    edges = [(0, 1, 5.0), (0, 2, 10.0)]
    problem = Problem.from_arrays([[1.0, 1.0]] * 3, edges, tensors=[0, 0], output_bytes=0.0)
    for sent in ([1.0, 2.0], [2.0, 1.0]):
        times = {"start": [0.0, 3.0, 2.0], "finish": [1.0, 4.0, 3.0], "sent": sent, "arrived": [2.0, 3.0]}
        arrays = {name: np.array(values) for name, values in times.items()}
        trace = Trace(problem, np.array([0, 1, 1], np.int32), **arrays, runtime="", scheduler="", switches=Runtime())
        use = memory_use(trace, cached=True)
        assert list(zip(use.time.tolist(), use.used.tolist(), strict=True)) == [(1.0, 10.0), (4.0, 0.0)]


def test_devices_that_share_a_memory_fill_it_together() -> None:
    """A machine of 64 bytes whose GPU may take 48 of them."""
    one = Problem.from_arrays(
        [[1.0, 2.0]] * 4, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)], weight_bytes=20.0, memory_capacity=[48.0, 64.0]
    ).replace(memory_pool=[7, 7])
    assert one.total_memory == 64.0
    plan = Schedule([0, 0, 1, 1], order=[[0, 1], [2, 3]])
    with pytest.raises(InvalidSchedule, match="memory: the operators on devices 'dev0', 'dev1' read 80 B of weights"):
        validate(one, plan)
    with pytest.raises(OutOfMemory, match=r"devices 'dev0', 'dev1' would hold 82 bytes in their shared memory of 64"):
        simulate(one, plan, "memory=enforce")
    for planner in (hetgym.plan, get("heft")):
        with pytest.raises(OutOfMemory, match="the weights take 80 B, and all devices together have 64 B; 16 B are"):
            planner(one, hetgym.Runtime(memory="enforce"))
    small = one.replace(weight_bytes=[14.0] * 4)
    found = hetgym.plan(small, "memory=enforce", budget="50ms")
    trace = simulate(small, found, "memory=enforce")
    assert trace.memory.peak.sum() <= 64.0
    apart = simulate(small, plan, "memory=track")
    assert excess(apart, apart.memory).tolist() == [0.0, 0.0]
    again = pickle.loads(pickle.dumps(small))
    assert again.digest == small.digest != small.replace(memory_pool=[0, 1]).digest
    assert small.replace(memory_pool=[0, 1]).digest == small.replace(memory_pool=None).digest
