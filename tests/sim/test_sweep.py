"""Runs that need no clock against the plain-Python simulator and against the event loop: the same bits."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem, Schedule, evaluate, simulate
from hetgym.planning import DECODES
from hetgym.planning.ranks import assigned_bottom_level, upward_rank
from hetgym.sim import PRESETS, Runtime
from hetgym.sim.run import new_workspace, run, setting
from hetgym.sim.simulation import dispatch_order, flat_order

RUNTIMES = ("classic", "links")


def assert_same(problem: Problem, schedule: Schedule, runtime: str) -> None:
    trace = simulate(problem, schedule, runtime)
    order = None if schedule.priority is not None else [row.tolist() for row in schedule.device_order(problem)]
    priority = None if schedule.priority is None else schedule.priority.tolist()
    expected = oracle.simulate(problem, schedule.assignment.tolist(), order, priority, fifo=runtime == "links")
    for name in ("start", "finish", "sent", "arrived"):
        assert getattr(trace, name).tolist() == getattr(expected, name), name
    assert trace.makespan == expected.makespan


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", ["order", "priority", "start"])
@examples(150)
@given(data=st.data())
def test_equals_oracle(runtime: str, kind: str, data: st.DataObject) -> None:
    problem, schedule = data.draw(strategies.cases((kind,)))
    assert_same(problem, schedule, runtime)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("decode", DECODES)
@examples(60)
@given(problem=strategies.problems(max_operators=25), seed=st.integers(0, 2**32 - 1))
def test_evaluate_equals_simulating_the_decoded_schedule(
    runtime: str, decode: str, problem: Problem, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    batch = [strategies.random_assignment(problem, rng) for _ in range(3)]
    makespans = evaluate(problem, np.array(batch), runtime, decode)
    for assignment, makespan in zip(batch, makespans, strict=True):
        rank = assigned_bottom_level(problem.arrays, assignment) if decode == "bottom-level" else upward_rank(problem)
        order = oracle.list_order(problem, rank.tolist())
        plan = oracle.place(problem, order, assignment.tolist(), insertion=decode != "append")
        schedule = Schedule(assignment, order=plan.device_order(problem.num_devices))
        assert makespan == simulate(problem, schedule, runtime).makespan
        if runtime == "classic":
            assert makespan == plan.makespan


@examples(60)
@given(problem=strategies.problems(max_operators=20), data=st.data())
def test_evaluate_takes_schedules(problem: Problem, data: st.DataObject) -> None:
    candidates = [data.draw(strategies.schedules(problem)) for _ in range(3)]
    expected = [simulate(problem, schedule, "links").makespan for schedule in candidates]
    assert evaluate(problem, candidates, "links").tolist() == expected


@examples(60)
@given(case=strategies.cases(("order", "start")))
def test_contention_never_helps_a_fixed_order(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    free, fifo = simulate(problem, schedule, "classic"), simulate(problem, schedule, "links")
    assert (fifo.start >= free.start).all()
    assert (fifo.arrived >= free.arrived).all()


@examples(100)
@given(case=strategies.cases())
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_trace_is_physical(runtime: str, case: tuple[Problem, Schedule]) -> None:
    """No overlap on devices and links, no data before it exists: what must hold in any run."""
    problem, schedule = case
    trace = simulate(problem, schedule, runtime)
    assert (trace.start >= 0).all()
    assert (trace.sent >= trace.finish[problem.edge_source]).all()
    assert (trace.start[problem.edge_target] >= trace.arrived).all()
    for device in range(problem.num_devices):
        assert_disjoint(trace.start[trace.assignment == device], trace.finish[trace.assignment == device])
    if runtime == "links":
        a, b = trace.assignment[problem.edge_source], trace.assignment[problem.edge_target]
        for link in {(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x != y}:
            on_link = (a == link[0]) & (b == link[1])
            assert_disjoint(trace.sent[on_link], trace.arrived[on_link])


def assert_disjoint(begin: np.ndarray, end: np.ndarray) -> None:
    order = np.lexsort((end, begin))
    assert (begin[order][1:] >= end[order][:-1]).all()


def test_fifo_by_hand() -> None:
    """Two operators on device 0 feed two on device 1; each transfer takes 1 + 4 / 2 = 3 s."""
    problem = Problem.from_arrays(
        [[1.0, 9.0], [1.0, 9.0], [9.0, 1.0], [9.0, 1.0]], [(0, 2, 4.0), (0, 3, 4.0), (1, 2, 4.0)], 1.0, 2.0
    )
    trace = simulate(problem, Schedule([0, 0, 1, 1], order=[[0, 1], [3, 2]]), "links")
    assert trace.sent.tolist() == [1.0, 4.0, 7.0]
    assert trace.arrived.tolist() == [4.0, 7.0, 10.0]
    assert trace.start.tolist() == [0.0, 1.0, 10.0, 7.0]
    assert simulate(problem, Schedule([0, 0, 1, 1], order=[[0, 1], [3, 2]])).start.tolist() == [0.0, 1.0, 5.0, 4.0]


def test_fifo_ties_go_by_position_on_the_device_then_consumer() -> None:
    """Operators 2 and 0 take no time, so all requests fall on time 0; device 0 runs 2 first."""
    edges = [(0, 1, 1.0), (0, 3, 1.0), (2, 1, 1.0), (2, 3, 1.0)]
    problem = Problem.from_arrays([[0.0, 0.0]] * 4, edges)
    trace = simulate(problem, Schedule([0, 1, 0, 1], order=[[2, 0], [1, 3]]), "links")
    assert trace.sent.tolist() == [2.0, 3.0, 0.0, 1.0]


def test_parallel_edges_ride_one_after_the_other_in_edge_order() -> None:
    problem = Problem.from_arrays([[0.0, 9.0], [9.0, 0.0]], [(0, 1, 5.0), (0, 1, 3.0)], tensors=[7, 4])
    assert problem.edge_bytes.tolist() == [3.0, 5.0]  # edges are sorted by tensor
    trace = simulate(problem, Schedule([0, 1], order=[[0], [1]]), "links")
    assert trace.sent.tolist() == [0.0, 3.0]
    assert trace.start[1] == 8.0
    assert simulate(problem, Schedule([0, 1], order=[[0], [1]]), "classic").start[1] == 5.0


def test_a_zero_byte_edge_pays_the_latency() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]] * 2, [(0, 1, 0.0)], latency=0.5)
    for runtime in RUNTIMES:
        assert simulate(problem, Schedule([0, 1], order=[[0], [1]]), runtime).start.tolist() == [0.0, 1.5]
        assert simulate(problem, Schedule([0, 0], order=[[0, 1], []]), runtime).start.tolist() == [0.0, 1.0]


def test_priority_is_work_conserving() -> None:
    """The urgent operator 2 is not there yet at 0, so the device takes 1 and does not wait."""
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 4.0], [9.0, 1.0]], [(0, 2, 0.0)])
    trace = simulate(problem, Schedule([0, 1, 1], priority=[0.0, 1.0, 2.0]))
    assert trace.start.tolist() == [0.0, 0.0, 4.0]


def test_priority_sees_all_arrivals_of_an_instant_before_it_chooses() -> None:
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0], [9.0, 4.0], [9.0, 1.0]], [(0, 3, 0.0)])
    trace = simulate(problem, Schedule([0, 1, 1, 1], priority=[0.0, 3.0, 1.0, 2.0]))
    assert trace.start.tolist() == [0.0, 0.0, 2.0, 1.0]


def test_priority_ties_go_to_the_topological_position() -> None:
    """Kahn's order with smallest ids first is 1, 0, 2: equal priorities follow it, not the ids."""
    problem = Problem.from_arrays([[1.0]] * 3, [(1, 0, 0.0)])
    assert problem.topological_order.tolist() == [1, 0, 2]
    assert simulate(problem, Schedule([0] * 3, priority=[0.0] * 3)).start.tolist() == [1.0, 0.0, 2.0]


@given(case=strategies.cases(("order",)))
def test_run_order_counts_what_ran(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    assert schedule.order is not None
    order, pointer = flat_order(schedule.order)
    plan = [array[None] for array in (schedule.assignment.copy(), order, pointer, np.zeros(problem.num_operators))]
    links = setting(problem, PRESETS["links"])
    makespan, done = run(problem.arrays, new_workspace(problem.arrays, links), *plan, links)
    assert done == problem.num_operators
    assert makespan == simulate(problem, schedule, "links").makespan
    if problem.num_edges and problem.num_devices == 1:
        plan[1] = np.ascontiguousarray(order[None, ::-1])
        for clock in (False, True):
            how = links._replace(clock=clock)
            makespan, done = run(problem.arrays, new_workspace(problem.arrays, how), *plan, how)
            assert done < problem.num_operators
            assert makespan == np.inf


CLOCKLESS = st.builds(
    Runtime,
    communication=st.sampled_from(["free", "fifo"]),
    transfers=st.sampled_from(["per_edge", "cached"]),
    dispatch=st.sampled_from([0.0, 0.5, 3.0]),
    noise=st.sampled_from([0.0, 0.3]),
)


@given(case=strategies.cases(("order", "start")), runtime=CLOCKLESS)
def test_a_clock_changes_nothing_where_none_is_needed(case: tuple[Problem, Schedule], runtime: Runtime) -> None:
    problem, schedule = case
    how = setting(problem, runtime)
    assert not how.clock
    plan = [array[None] for array in (schedule.assignment.copy(), *dispatch_order(problem, schedule))]
    states = []
    for clock in (False, True):
        space = new_workspace(problem.arrays, how._replace(clock=clock))
        states.append(space.state)
        run(problem.arrays, space, *plan, how._replace(clock=clock))
    for name in ("start", "finish", "sent", "arrived"):
        assert np.array_equal(getattr(states[0], name), getattr(states[1], name)), name


@given(case=strategies.cases(("order",)))
def test_links_that_do_not_depend_on_each_other_are_shared_alike(case: tuple[Problem, Schedule]) -> None:
    """The short cut for routes of one link gives the rates of progressive filling."""
    problem, schedule = case
    how = setting(problem, PRESETS["fair"])
    plan = [array[None] for array in (schedule.assignment.copy(), *dispatch_order(problem, schedule))]
    states = []
    for direct in {False, bool((np.diff(problem.route_pointer) <= 1).all())}:
        space = new_workspace(problem.arrays, how)
        assert space.sharing is not None
        space.sharing.flows.direct[0] = direct
        run(problem.arrays, space, *plan, how)
        states.append(space.state)
    for name in ("start", "finish", "sent", "arrived"):
        assert np.array_equal(getattr(states[0], name), getattr(states[-1], name)), name
