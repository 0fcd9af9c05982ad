"""Timelines: insertion against a search of all gaps, and what is read off them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem, Runtime, Schedule, simulate, validate
from hetgym.baselines import heft
from hetgym.planning import timeline
from hetgym.planning.timeline import timed_for, with_times
from hetgym.workloads import textbook

INF = np.inf
earliest_start, clear = callable_step(timeline.earliest_start), callable_step(timeline.clear)
take_back, copy_into = callable_step(timeline.take_back), callable_step(timeline.copy_into)
book, start_on = callable_step(timeline.book), callable_step(timeline.start_on)


def single_device(durations: list[float]) -> Problem:
    return Problem.from_arrays([[c] for c in durations], [])


@examples(150)
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]), st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.0, 9.0])),
        min_size=1,
        max_size=12,
    ),
    copies=st.sampled_from([1, 1, 1, 10]),  # beyond 64 intervals there are several blocks
    insertion=st.booleans(),
)
@example(jobs=[(0.0, 5.0), (3.0, 4.0)], copies=1, insertion=True)  # nothing may run across an operator of no duration
@example(jobs=[(3.0, 0.0), (0.0, 1.0)], copies=1, insertion=True)  # which itself waits for its turn
def test_earliest_start_is_the_first_gap(jobs: list[tuple[float, float]], copies: int, insertion: bool) -> None:
    """Jobs are (duration, ready)."""
    jobs = [(duration, ready * (copies - k)) for k in range(copies) for duration, ready in jobs]
    problem = single_device([duration for duration, _ in jobs])
    line = timeline.new_timeline(problem)
    busy: list[tuple[float, float]] = []
    for operator, (duration, ready) in enumerate(jobs):
        start = earliest_start(line, 0, ready, duration, insertion)
        if insertion:
            assert start == oracle.earliest_gap(busy, ready, duration)
        else:
            assert start == max([ready, *(to for _, to in busy)])
        book(problem.arrays, line, operator, 0, start)
        busy.append((start, start + duration))
        order = timeline.device_order(line)[0][: len(busy)]
        assert line.busy.size[0] == len(busy)
        assert line.start[order].tolist() == sorted(a for a, _ in busy)
        assert line.finish[order].tolist() == sorted(b for _, b in busy)


@pytest.mark.parametrize("insertion", [True, False])
@examples(150)
@given(problem=strategies.problems())
def test_planned_times_come_true(insertion: bool, problem: Problem) -> None:
    """The orders read off a timeline never deadlock, and running them gives the planned times exactly."""
    schedule = heft(problem, insertion=insertion)
    validate(problem, schedule)
    trace = simulate(problem, schedule)
    assert trace.start.tolist() == schedule.start.tolist()
    assert trace.finish.tolist() == schedule.finish.tolist()


def test_insertion_fills_the_first_gap_that_fits() -> None:
    problem = single_device([2.0, 2.0, 1.0, 3.0])
    line = timeline.new_timeline(problem)
    book(problem.arrays, line, 0, 0, 1.0)  # 1-3
    book(problem.arrays, line, 1, 0, 5.0)  # 5-7
    assert earliest_start(line, 0, 0.0, 1.0, True) == 0.0
    assert earliest_start(line, 0, 0.0, 2.0, True) == 3.0
    assert earliest_start(line, 0, 3.5, 1.5, True) == 3.5
    assert earliest_start(line, 0, 3.5, 2.0, True) == 7.0
    assert earliest_start(line, 0, 0.0, 1.0, False) == 7.0


def test_an_operator_of_no_duration_is_not_run_over() -> None:
    """Operator 1 takes no time, but its place on device 1 is at 5: the long operator 3 must come after it."""
    cost = [[5.0, INF], [INF, 0.0], [20.0, INF], [INF, 7.0]]
    problem = Problem.from_arrays(cost, [(0, 1, 0.0), (1, 2, 0.0)])
    schedule = heft(problem)
    validate(problem, schedule)
    assert schedule.start.tolist() == [0.0, 5.0, 5.0, 5.0]
    assert simulate(problem, schedule).makespan == schedule.makespan == 25.0


def test_clear_empties_a_timeline() -> None:
    problem = single_device([4.0])
    line = timeline.new_timeline(problem)
    book(problem.arrays, line, 0, 0, 0.0)
    clear(line)
    assert earliest_start(line, 0, 0.0, 9.0, True) == 0.0
    assert line.assignment.tolist() == [-1]


@pytest.mark.parametrize("seed", range(4))
def test_long_timelines_skip_no_gap(seed: int) -> None:
    """Hundreds of intervals, booked, taken back and copied: searches find what a look at all gaps does."""
    rng = np.random.default_rng(seed)
    n = 600
    durations = np.round(rng.exponential(2.0, n), seed)
    problem = single_device(durations.tolist())
    line, spare = timeline.new_timeline(problem), timeline.new_timeline(problem)
    busy: dict[int, tuple[float, float]] = {}
    for operator, duration in enumerate(durations.tolist()):
        ready = float(np.round(rng.uniform(0.0, 2.0 * n), seed))
        start = earliest_start(line, 0, ready, duration, True)
        assert start == oracle.earliest_gap(list(busy.values()), ready, duration)
        book(problem.arrays, line, operator, 0, start)
        busy[operator] = (start, start + duration)
        if rng.random() < 0.2:
            victim = int(rng.choice(list(busy)))
            take_back(problem.arrays, line, victim)
            del busy[victim]
        if operator < n // 3 and rng.random() < 0.02:
            copy_into(line, spare)
            line, spare = spare, line
    v = line.busy
    assert v.blocks[0] > 5
    order, pointer = timeline.device_order(line)
    held = order[: v.size[0]]
    assert sorted(held.tolist()) == sorted(busy) and pointer.tolist() == [0, len(busy)]
    gaps = line.start[held] - np.concatenate([[0.0], line.finish[held[:-1]]])
    used = v.chain[0, : v.blocks[0]]
    assert (np.repeat(v.widest[0, used], v.held[0, used]) >= gaps).all()
    assert np.isfinite(v.widest[0, used]).any()


@given(problem=strategies.problems())
def test_a_schedule_and_its_timeline_are_the_same(problem: Problem) -> None:
    schedule = heft(problem)
    line = timeline.of_schedule(problem, schedule)
    assert timeline.planned(problem, line, scheduler="heft").to_dict() == replace(schedule, scheduler="heft").to_dict()


def test_times_for_a_runtime_are_made_where_a_schedule_has_none() -> None:
    problem = textbook("topcuoglu")
    plan = heft(problem)
    assert timed_for(problem, plan) is plan
    bare = Schedule(plan.assignment, order=plan.order)
    assert timed_for(problem, bare).makespan == simulate(problem, bare).makespan == 80.0
    assert timed_for(problem, plan, "links").model == "links"


def test_times_of_lower_clocks_keep_them() -> None:
    problem = textbook("topcuoglu")
    slow = Schedule(heft(problem).assignment, order=heft(problem).order, speed=np.full(10, 0.5))
    again = with_times(problem, slow)
    assert again.makespan == simulate(problem, slow).makespan > 80.0 and again.speed is not None
    assert simulate(problem, again).makespan == again.makespan


def test_the_host_of_an_accelerator_issues_one_operator_after_the_other() -> None:
    """The k-th operator is issued after k times 3 s; a CPU dispatches each itself, before it runs."""
    for asynchronous, starts in ((True, [3.0, 6.0, 9.0]), (False, [3.0, 7.0, 11.0])):
        problem = single_device([1.0] * 3).replace(asynchronous=[asynchronous])
        line = timeline.new_timeline(problem, Runtime(dispatch=3.0))
        for operator, start in enumerate(starts):
            assert start_on(problem.arrays, line, operator, 0, True) == start
            book(problem.arrays, line, operator, 0, start)
