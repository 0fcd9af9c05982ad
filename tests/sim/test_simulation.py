"""Properties of every run under any runtime; monotonicity in the runtime, and its exceptions."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import oracle_runtime
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem, Runtime, Schedule, Trace, evaluate, simulate
from hetgym.planning import DECODES, decode_placement
from hetgym.problem import Routes
from hetgym.sim import PRESETS


class Message(NamedTuple):
    """One transfer: an edge, a copy of a tensor, or all inputs that a reader pulls from one device."""

    origin: int
    to: int
    sent: float
    arrived: float
    bytes: float


def messages(trace: Trace, transfers: str) -> list[Message]:
    problem = trace.problem
    groups: dict[Hashable, list[int]] = defaultdict(list)
    ends = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_tensor.tolist(), strict=True)
    for k, (u, v, tensor) in enumerate(ends):
        a, b = int(trace.assignment[u]), int(trace.assignment[v])
        if a != b:
            key = {"per_edge": k, "cached": (u, tensor, b), "aggregated": (v, a)}[transfers]
            groups[a, b, key].append(k)
    found = []
    for (a, b, _), edges in groups.items():  # type: ignore[misc]
        assert len(set(trace.sent[edges])) == len(set(trace.arrived[edges])) == 1
        size = problem.edge_bytes[edges]
        total = size.sum() if transfers == "aggregated" else size.max()
        found.append(Message(a, b, trace.sent[edges[0]], trace.arrived[edges[0]], total))
    return found


def assert_disjoint(intervals: list[tuple[float, float]]) -> None:
    ordered = sorted(intervals)
    assert all(end <= begin for (_, end), (begin, _) in zip(ordered[:-1], ordered[1:], strict=True))


@st.composite
def runs(draw: st.DrawFn, kinds: tuple[str, ...] = ("order", "priority", "start"), **fixed: Any) -> Any:
    problem = draw(strategies.machines())
    schedule = draw(strategies.schedules(problem, kinds))
    runtime = draw(strategies.runtimes(**fixed))
    return problem, schedule, runtime, simulate(problem, schedule, runtime)


# In every run.


@examples(150)
@given(run=runs())
def test_operators_are_physical(run: tuple[Problem, Schedule, Runtime, Trace]) -> None:
    problem, schedule, runtime, trace = run
    fixed = schedule.priority is None and runtime.order == "fixed"
    assert (trace.start[problem.edge_target] >= trace.arrived).all()
    factor = np.exp(runtime.noise * np.random.default_rng(runtime.seed).standard_normal(problem.num_operators))
    cost = problem.cost[np.arange(problem.num_operators), trace.assignment] * factor
    if runtime.streams == 1:
        assert (trace.start + cost == trace.finish).all()
    rounding = 1e-9 * trace.makespan
    assert (trace.finish >= trace.start + cost - rounding).all()
    work = cost * problem.occupancy[np.arange(problem.num_operators), trace.assignment]
    for device in range(problem.num_devices):
        here = np.flatnonzero(trace.assignment == device)
        assert work[here].sum() <= trace.makespan + rounding  # no device does more than it can
        ahead = fixed and problem.asynchronous[device]
        taken = trace.start[here] - (0.0 if ahead else runtime.dispatch)
        for moment in taken:
            within = (taken < moment) & (moment < trace.finish[here] - 1e-9 * trace.makespan)
            assert within.sum() < runtime.streams
        if runtime.streams == 1:
            assert_disjoint(list(zip(trace.start[here].tolist(), trace.finish[here].tolist(), strict=True)))
    if fixed:
        for device, row in enumerate(schedule.device_order(problem)):
            assert (np.diff(trace.start[row]) >= 0).all()
            if problem.asynchronous[device]:
                assert (trace.start[row] >= np.arange(1, len(row) + 1) * runtime.dispatch).all()


@examples(150)
@given(run=runs())
def test_transfers_are_physical(run: tuple[Problem, Schedule, Runtime, Trace]) -> None:
    problem, _, runtime, trace = run
    rounding = 1e-9 * trace.makespan
    local = trace.assignment[problem.edge_source] == trace.assignment[problem.edge_target]
    assert (trace.sent >= trace.finish[problem.edge_source]).all()
    assert (trace.sent[local] == trace.arrived[local]).all()
    held: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for message in messages(trace, runtime.transfers):
        a, b = message.origin, message.to
        least = message.sent + (problem.latency[a, b] + message.bytes / problem.bandwidth[a, b])
        if runtime.communication == "fair":
            assert message.arrived >= least - rounding
        else:
            assert message.arrived == least
        if runtime.communication == "fifo":
            for link in oracle_runtime.route(problem, a, b):
                held[link].append((message.sent, message.arrived))
        if runtime.communication == "endpoint":
            held["send", a].append((message.sent, message.arrived))
            held["receive", b].append((message.sent, message.arrived))
    for intervals in held.values():
        assert_disjoint(intervals)


@examples(120)
@given(run=runs(communication="fair"))
def test_no_link_carries_more_than_its_bandwidth(run: tuple[Problem, Schedule, Runtime, Trace]) -> None:
    """Whatever begins and ends within a span of time fits through the link in that time."""
    problem, _, runtime, trace = run
    crossing: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for m in messages(trace, runtime.transfers):
        for link in oracle_runtime.route(problem, m.origin, m.to):
            crossing[link].append((m.sent + problem.latency[m.origin, m.to], m.arrived, m.bytes))
    for link, flows in crossing.items():
        for (begin, _, _), (_, end, _) in itertools.product(flows, repeat=2):
            inside = sum(size for first, last, size in flows if first >= begin and last <= end)
            room = problem.link_bandwidth[link] * (end - begin + 1e-9 * trace.makespan)
            assert inside <= room or inside == 0


@examples(120)
@given(data=st.data())
def test_rates_of_the_reference_are_max_min_fair(data: st.DataObject) -> None:
    """Every flow crosses a link that is full and on which no other flow is faster (Bertsekas, Gallager)."""
    links = data.draw(st.integers(1, 5))
    some = st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True)
    routes = data.draw(st.lists(some, min_size=1, max_size=8))
    capacity = data.draw(st.lists(st.floats(0.1, 100.0), min_size=links, max_size=links))
    rates = oracle_runtime.fair_rates(routes, capacity)
    load = [sum(rate for rate, path in zip(rates, routes, strict=True) if link in path) for link in range(links)]
    assert all(carried <= room * (1 + 1e-9) for carried, room in zip(load, capacity, strict=True))
    for rate, path in zip(rates, routes, strict=True):
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9)
            and all(other <= rate * (1 + 1e-9) for other, by in zip(rates, routes, strict=True) if link in by)
            for link in path
        )


@examples(150)
@given(run=runs(dispatch=0.5))
def test_time_has_no_unit(run: tuple[Problem, Schedule, Runtime, Trace]) -> None:
    """Twice as slow in everything is twice as long, to the last bit."""
    problem, schedule, runtime, trace = run
    if schedule.start is not None:
        schedule = Schedule(schedule.assignment, order=schedule.device_order(problem))
    routes = Routes(problem.route_pointer, problem.route_link, problem.link_bandwidth / 2)
    slower = {"latency": problem.latency * 2, "bandwidth": problem.bandwidth / 2, "routes": routes}
    slow = problem.replace(cost=problem.cost * 2, **slower)
    doubled = simulate(slow, schedule, replace(runtime, dispatch=1.0))
    for name in ("start", "finish", "sent", "arrived"):
        assert (getattr(doubled, name) == 2 * getattr(trace, name)).all(), name


# Fixed orders: what a harder runtime may not do. Operators that run beside each other without slowing
# each other down start at an order statistic of earlier finishes, which is monotone in all of them.

FIXED = ("order", "start")


@examples(120)
@given(run=runs(FIXED, order="fixed", overlap=0.0))
def test_contention_never_helps_a_fixed_order(run: tuple[Problem, Schedule, Runtime, Trace]) -> None:
    problem, schedule, runtime, _ = run
    problem = problem.replace(occupancy=1 / 4)
    trace = simulate(problem, schedule, runtime)
    free = simulate(problem, schedule, replace(runtime, communication="free"))
    rounding = 1e-9 * trace.makespan if runtime.communication == "fair" else 0.0
    assert (trace.start >= free.start - rounding).all()
    assert (trace.arrived >= free.arrived - rounding).all()


@examples(150)
@given(run=runs(FIXED, communication="fifo", order="fixed", streams=1, overlap=0.0))
def test_sharing_links_or_endpoints_is_worse_than_a_link_for_each_pair(
    run: tuple[Problem, Schedule, Runtime, Trace],
) -> None:
    problem, schedule, runtime, shared = run
    private = simulate(problem.replace(routes=None), schedule, runtime)
    endpoint = simulate(problem, schedule, replace(runtime, communication="endpoint"))
    assert (shared.start >= private.start).all()
    assert (endpoint.start >= private.start).all()


@examples(150)
@given(data=st.data())
def test_operators_that_leave_room_for_each_other_do_not_slow_each_other_down(data: st.DataObject) -> None:
    problem = data.draw(strategies.machines()).replace(occupancy=1 / 4)
    schedule, runtime = data.draw(strategies.schedules(problem)), data.draw(strategies.runtimes())
    trace = simulate(problem, schedule, runtime)
    factor = np.exp(runtime.noise * np.random.default_rng(runtime.seed).standard_normal(problem.num_operators))
    cost = problem.cost[np.arange(problem.num_operators), trace.assignment] * factor
    slowed = [cost * (1.0 + runtime.overlap * beside) for beside in range(runtime.streams)]
    assert np.any([trace.start + duration == trace.finish for duration in slowed], axis=0).all()


@examples(100)
@given(data=st.data())
def test_whole_operators_gain_nothing_from_streams(data: st.DataObject) -> None:
    problem = data.draw(strategies.machines(max_devices=1)).replace(occupancy=1.0)
    schedule = data.draw(strategies.schedules(problem, ("order",)))
    beside = simulate(problem, schedule, Runtime(streams=3))
    assert beside.makespan == pytest.approx(simulate(problem, schedule).makespan)


def orderly(runtime: Runtime) -> Runtime:
    """The runtime without switches that let requests for one link overtake each other."""
    streams = runtime.streams if runtime.communication == "free" or runtime.transfers == "aggregated" else 1
    return replace(runtime, order="fixed", overlap=0.0, streams=streams)


HARDER = {
    "latency": lambda p, r: (p.replace(latency=p.latency + 0.75), r),
    "bytes": lambda p, r: (p.replace(edge_bytes=p.edge_bytes + 3.0), r),
    "cost": lambda p, r: (p.replace(cost=p.cost + np.arange(p.num_operators)[:, None] % 3), r),
    "dispatch": lambda p, r: (p, replace(r, dispatch=r.dispatch + 0.5)),
    "streams": lambda p, r: (p, replace(r, streams=max(1, r.streams - 1))),
}


@pytest.mark.parametrize("harder", HARDER)
@pytest.mark.parametrize("communication", ["free", "fifo"])
@examples(80)
@given(data=st.data())
def test_harder_never_helps_a_fixed_order_on_links_of_its_own(
    communication: str, harder: str, data: st.DataObject
) -> None:
    problem = data.draw(strategies.machines()).replace(routes=None, occupancy=1 / 4)
    schedule = data.draw(strategies.schedules(problem, ("order",)))
    runtime = orderly(data.draw(strategies.runtimes(communication=communication)))
    easy = simulate(problem, schedule, runtime)
    hard = simulate(*(lambda p, r: (p, schedule, r))(*HARDER[harder](problem, runtime)))
    assert (hard.start >= easy.start).all()
    assert (hard.arrived >= easy.arrived).all()


@examples(150)
@given(run=runs(("order",), transfers="per_edge", order="fixed", streams=1, overlap=0.0))
def test_copies_of_equal_size_never_hurt_a_fixed_order(run: tuple[Problem, Schedule, Runtime, Trace]) -> None:
    problem, schedule, runtime, _ = run
    sizes = np.random.default_rng(0).uniform(0.0, 5.0, problem.num_edges + 2 * problem.num_operators + 2)
    problem = problem.replace(routes=None, edge_bytes=sizes[problem.edge_tensor])
    for communication in ("free", "fifo"):
        each = simulate(problem, schedule, replace(runtime, communication=communication))
        once = simulate(problem, schedule, replace(runtime, communication=communication, transfers="cached"))
        assert (once.start <= each.start).all()


# Evaluation.


@examples(60)
@given(data=st.data())
@pytest.mark.parametrize("decode", DECODES)
def test_evaluate_equals_simulating_the_decoded_schedules(decode: str, data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    batch = [strategies.random_assignment(problem, rng) for _ in range(3)]
    for runtime in [*PRESETS.values(), data.draw(strategies.runtimes())]:
        expected = [simulate(problem, decode_placement(problem, a, decode), runtime).makespan for a in batch]
        assert evaluate(problem, np.array(batch), runtime, decode).tolist() == expected


# Anomalies: where a fixed order, or the lack of one, lets less work take longer. They are no defects;
# a search that assumes monotony has to know them.


def makespan(problem: Problem, schedule: Schedule, **switches: Any) -> float:
    return simulate(problem, schedule, Runtime(**switches)).makespan


def bus(first: float, warm_up: bool = False) -> tuple[Problem, Schedule]:
    """Operators 0 and 1 feed 2, with much to send, and 3, with much to do, over one bus."""
    problem = Problem.from_arrays(
        [[first] * 4, [1.5] * 4, [1.0] * 4, [10.0] * 4, [0.0] * 4], [(0, 2, 10.0), (1, 3, 1.0)]
    )
    hops = np.cumsum([0, *(a != b for a, b in itertools.product(range(4), repeat=2))])
    problem = problem.replace(routes=Routes(hops, np.zeros(12, np.int32), np.ones(1)))
    return problem, Schedule([0, 1, 2, 3, 0], order=[[4, 0] if warm_up else [0, 4], [1], [2], [3]])


def test_a_longer_operator_may_lose_the_race_for_a_shared_link_and_shorten_the_run() -> None:
    assert makespan(*bus(first=1.0), communication="fifo") == 22.0
    assert makespan(*bus(first=2.0), communication="fifo") == 13.5


def test_so_may_dispatch() -> None:
    assert makespan(*bus(1.0, warm_up=True), communication="fifo") == 22.0
    assert makespan(*bus(1.0, warm_up=True), communication="fifo", dispatch=1.0) == 15.5


def test_so_may_an_operator_in_another_stream_of_one_device() -> None:
    spans = []
    for first in (1.0, 2.0):
        cost = [[first] * 2, [1.5] * 2, [1.0] * 2, [10.0] * 2]
        problem = Problem.from_arrays(cost, [(0, 2, 10.0), (1, 3, 1.0)], occupancy=0.5)
        schedule = Schedule([0, 0, 1, 1], order=[[0, 1], [3, 2]])
        spans.append(makespan(problem, schedule, communication="fifo", streams=2))
    assert spans == [22.0, 13.5]


def test_latency_may_keep_an_operator_from_running_beside_another() -> None:
    spans = []
    for latency in (0.75, 1.0):
        problem = Problem.from_arrays([[1.0, 9.0], [9.0, 0.0], [10.0, 9.0]], [(1, 2, 0.0)], latency, occupancy=0.5)
        spans.append(makespan(problem, Schedule([0, 1, 0], order=[[0, 2], [1]]), streams=2, overlap=1.0))
    assert spans == [20.75, 11.0]


def late_rival(latency: float) -> tuple[Problem, tuple[int, ...]]:
    """Operator 3, long and not urgent, reaches device 1 a latency after 0.5; 1, urgent, at 1."""
    problem = Problem.from_arrays(
        [[1.0] * 3, [1.0] * 3, [10.0] * 3, [10.0] * 3, [0.5] * 3],
        [(0, 1, 0.0), (1, 2, 0.0), (4, 3, 0.0)],
        latency=[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, latency, 0.0]],
    )
    return problem, (0, 1, 0, 1, 2)


def test_latency_may_help_work_conserving_dispatch() -> None:
    """Graham (1966): a free device must take the rival if it arrives first."""
    spans = []
    for latency in (0.25, 1.0):
        problem, assignment = late_rival(latency)
        spans.append(makespan(problem, Schedule(assignment, priority=[0.0, 2.0, 0.0, 1.0, 0.0])))
    assert spans == [21.75, 12.0]


def test_waiting_may_beat_work_conserving_dispatch() -> None:
    problem, assignment = late_rival(0.25)
    schedule = Schedule(assignment, order=[[0, 2], [1, 3], [4]])
    assert makespan(problem, schedule, order="priority") == 21.75
    assert makespan(problem, schedule, order="fixed") == 12.0


def test_one_large_copy_may_come_later_than_the_small_part_that_a_reader_needs() -> None:
    problem = Problem.from_arrays([[0.0] * 2, [10.0] * 2, [1.0] * 2], [(0, 1, 1.0), (0, 2, 10.0)], tensors=[0, 0])
    schedule = Schedule([0, 1, 1], order=[[0], [1, 2]])
    assert makespan(problem, schedule, communication="fifo") == 12.0
    assert makespan(problem, schedule, communication="fifo", transfers="cached") == 21.0


def test_neither_fair_sharing_nor_turns_are_always_better() -> None:
    assert makespan(*bus(1.0), communication="fair") == 13.5 < makespan(*bus(1.0), communication="fifo")
    problem = Problem.from_arrays([[0.0] * 2, [10.0] * 2, [1.0] * 2], [(0, 1, 4.0), (0, 2, 4.0)])
    schedule = Schedule([0, 1, 1], order=[[0], [1, 2]])
    assert makespan(problem, schedule, communication="fifo") == 15.0
    assert makespan(problem, schedule, communication="fair") == 19.0


def test_neither_pushing_nor_pulling_is_always_better() -> None:
    """One message pays one latency, but leaves only when the last predecessor has finished."""
    schedule = Schedule([0, 0, 1], order=[[0, 1], [2]])
    for edges, pushed, pulled in (([(0, 2, 0.0), (1, 2, 0.0)], 12.0, 8.0), ([(0, 2, 9.0), (1, 2, 1.0)], 22.0, 18.0)):
        problem = Problem.from_arrays([[1.0] * 2] * 3, edges, latency=5.0)
        assert makespan(problem, schedule, communication="fifo") == pushed
        assert makespan(problem, schedule, communication="fifo", transfers="aggregated") == pulled
    problem = Problem.from_arrays([[1.0] * 2, [8.0] * 2, [1.0] * 2], [(0, 2, 9.0), (1, 2, 1.0)])
    assert makespan(problem, schedule, communication="fifo") == 12.0
    assert makespan(problem, schedule, communication="fifo", transfers="aggregated") == 20.0
