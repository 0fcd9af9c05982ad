"""Replays: by hand, and as they are simulated."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from hetgym import InvalidSchedule, Problem, Schedule, simulate, validate
from hetgym.planning.ranks import assigned_bottom_level
from hetgym.planning.replaying import Replayer
from hetgym.planning.starts import replay
from hetgym.sim import PRESETS


def waits() -> Problem:
    """0 on device 1 feeds 1; 2 needs nothing."""
    return Problem.from_arrays([[9.0, 2.0], [3.0, 9.0], [4.0, 9.0]], [(0, 1, 1.0)])


def test_a_device_does_not_wait_while_it_can_work() -> None:
    """In the given order device 0 waits until 3 for the input of 1; it has run 2 by the time 4 in a replay."""
    plan = Schedule([1, 0, 0], order=[[1, 2], [0]])
    assert simulate(waits(), plan).makespan == 10.0
    found = replay(waits(), plan)
    assert [row.tolist() for row in found.order or ()] == [[2, 1], [0]]
    assert found.makespan == 7.0 and found.start is not None and found.start.tolist() == [0.0, 4.0, 0.0]


def test_the_two_replays() -> None:
    """When 0 has run, the longest operator goes first by bottom level, and the first one ready by arrival."""
    problem = Problem.from_arrays([[2.0], [1.0], [5.0]], [(0, 2, 0.0)])
    here = np.zeros(3, np.int32)
    replayer = Replayer(problem, "classic")
    assert replayer.by_priority(here).order.tolist() == [0, 2, 1]
    assert replayer.by_arrival(here).order.tolist() == [0, 1, 2]
    assert replayer.by_priority(here, np.array([1.0, 2.0, 3.0])).order.tolist() == [1, 0, 2]
    assert replayer.in_order(here, np.array([0, 1, 2], np.int32)).makespan == 8.0


def test_devices_that_cannot_run_an_operator() -> None:
    with pytest.raises(InvalidSchedule, match="does not exist or cannot run it"):
        replay(waits(), np.array([0, 0, 2], np.int32))


@given(
    strategies.problems(),
    st.sampled_from([*PRESETS, "order=priority", "donf,dispatch=0.5", "communication=endpoint"]),
    st.data(),
)
def test_replays_are_legal_and_their_times_come_true(problem: Problem, runtime: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    devices = strategies.random_assignment(problem, rng)
    found = replay(problem, devices, runtime)
    validate(problem, found)
    assert found.assignment.tolist() == devices.tolist()
    assert found.makespan == simulate(problem, found, runtime).makespan
    replayer = Replayer(problem, runtime)
    each = replayer.by_priority(devices), replayer.by_arrival(devices)
    assert found.makespan == min(launched.makespan for launched in each)


@given(strategies.problems(), st.sampled_from(["classic", "links"]))
def test_the_launches_are_those_of_a_simulation_by_priorities(problem: Problem, runtime: str) -> None:
    devices = problem.cost.argmin(axis=1).astype(np.int32)
    level = assigned_bottom_level(problem.arrays, devices)
    trace = simulate(problem, Schedule(devices, priority=level), runtime)
    launched = Replayer(problem, runtime).by_priority(devices)
    assert launched.order.tolist() == np.concatenate(trace.order).tolist()
    assert launched.makespan == trace.makespan
