"""The event loop: every switch of the runtime, and all their combinations, against the plain-Python simulator."""

from __future__ import annotations

import numpy as np
import oracle_runtime
import pytest
import strategies
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from hetgym import Problem, Runtime, Schedule, simulate

COLUMNS = ("start", "finish", "sent", "arrived")
EXACT = ("free", "fifo", "endpoint")


def expected(problem: Problem, schedule: Schedule, runtime: Runtime) -> oracle_runtime.Run:
    order = None if schedule.priority is not None else [row.tolist() for row in schedule.device_order(problem)]
    priority = None if schedule.priority is None else schedule.priority.tolist()
    return oracle_runtime.simulate(problem, schedule.assignment.tolist(), order, priority, runtime)


@pytest.mark.parametrize("communication", EXACT)
@pytest.mark.parametrize("kind", ["order", "priority", "start"])
@examples(90)
@given(data=st.data())
def test_equals_oracle(communication: str, kind: str, data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    schedule = data.draw(strategies.schedules(problem, (kind,)))
    runtime = data.draw(strategies.runtimes(communication=communication))
    trace, reference = simulate(problem, schedule, runtime), expected(problem, schedule, runtime)
    for name in COLUMNS:
        assert getattr(trace, name).tolist() == getattr(reference, name), name


@pytest.mark.parametrize("kind", ["order", "priority", "start"])
@examples(150)
@given(data=st.data())
def test_fair_equals_oracle_but_for_rounding(kind: str, data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    schedule = data.draw(strategies.schedules(problem, (kind,)))
    runtime = data.draw(strategies.runtimes(communication="fair"))
    reference = expected(problem, schedule, runtime)
    choices = kind == "priority" or runtime.order != "fixed" or runtime.overlap > 0
    assume(not (choices and reference.fragile))
    trace = simulate(problem, schedule, runtime)
    for name in COLUMNS:
        np.testing.assert_allclose(
            getattr(trace, name), getattr(reference, name), rtol=1e-9, atol=1e-9 * trace.makespan, err_msg=name
        )


def test_simultaneous_pulls_go_by_the_readers_device_first() -> None:
    """Operator 2 is more urgent than 1, but device 0 is asked for before device 1; device 2 sends one at a time."""
    problem = Problem.from_arrays([[1.0] * 3] * 3, [(0, 1, 4.0), (0, 2, 4.0)])
    schedule = Schedule([2, 0, 1], priority=[0.0, 1.0, 2.0])
    trace = simulate(problem, schedule, Runtime(communication="endpoint", transfers="aggregated"))
    assert trace.sent.tolist() == [1.0, 5.0]


# By hand.


def fan(asynchronous: bool = False, occupancy: float = 1.0) -> Problem:
    """Operators 0 and 1 of one second each; 2 reads 4 bytes of each, over 1 s of latency and 2 byte/s."""
    base = Problem.from_arrays([[1.0, 1.0]] * 3, [(0, 2, 4.0), (1, 2, 4.0)], latency=1.0, bandwidth=2.0)
    return base.replace(asynchronous=asynchronous, occupancy=occupancy, name="fan")


FAN = Schedule([0, 0, 1], order=[[0, 1], [2]])


@pytest.mark.parametrize(
    ("switches", "arrived"),
    [
        ({}, [4.0, 5.0]),
        ({"communication": "fifo"}, [4.0, 7.0]),
        ({"communication": "endpoint"}, [4.0, 7.0]),
        ({"communication": "fair"}, [5.0, 6.0]),  # alone from 2 to 3 and from 5 to 6, half each between
        ({"communication": "fifo", "transfers": "aggregated"}, [7.0, 7.0]),  # 8 bytes once both have finished
        ({"streams": 2}, [5.0, 5.0]),  # both at half speed
        ({"streams": 2, "overlap": 0.5}, [5.0, 5.5]),  # the second starts beside the first, and ends alone
        ({"dispatch": 0.25}, [4.25, 5.5]),
    ],
)
def test_arrivals_by_hand(switches: dict[str, object], arrived: list[float]) -> None:
    runtime = Runtime(**switches)  # type: ignore[arg-type]
    trace = simulate(fan(), FAN, runtime)
    assert trace.arrived.tolist() == arrived
    assert trace.start[2] == max(arrived) + runtime.dispatch


@pytest.mark.parametrize(
    ("occupancy", "overlap", "arrived"),
    [
        (0.5, 0.0, [4.0, 4.0]),  # together they fill the device
        (0.75, 0.0, [4.5, 4.5]),  # at two thirds of the speed
        (0.5, 0.5, [4.0, 4.5]),
    ],
)
def test_operators_slow_each_other_down_once_the_device_is_full(
    occupancy: float, overlap: float, arrived: list[float]
) -> None:
    runtime = Runtime(streams=2, overlap=overlap)
    assert simulate(fan(occupancy=occupancy), FAN, runtime).arrived.tolist() == arrived


def test_what_is_left_goes_on_at_full_speed() -> None:
    """Until 1.4 both run at 1 / 1.4 of their speeds; then the second has one second left, beside the third."""
    problem = Problem.from_arrays([[1.0], [2.0], [1.0]], [], occupancy=[[0.75], [0.65], [0.25]])
    trace = simulate(problem, Schedule([0, 0, 0], order=[[0, 1, 2]]), Runtime(streams=2))
    assert trace.finish.tolist() == pytest.approx([1.4, 2.4, 2.4])


def test_an_accelerator_runs_behind_its_host() -> None:
    """Issued at 0.5, 1.0 and 0.5: the device has caught up with its host, and waits for data, not for dispatch."""
    trace = simulate(fan(asynchronous=True), FAN, Runtime(dispatch=0.5))
    assert trace.start.tolist() == [0.5, 1.5, 5.5]
    slow = simulate(fan(asynchronous=True), FAN, Runtime(dispatch=2.0))
    assert slow.start.tolist() == [2.0, 4.0, 8.0]


def test_noise_is_log_normal_in_operator_order() -> None:
    trace = simulate(fan(), FAN, Runtime(noise=0.5, seed=3))
    factor = np.exp(0.5 * np.random.default_rng(3).standard_normal(3))
    assert (trace.finish == trace.start + factor).all()
    assert simulate(fan(), FAN, Runtime(noise=0.5, seed=4)).makespan != trace.makespan
