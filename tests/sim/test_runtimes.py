"""Every switch of the runtime, and all their combinations, against the plain-Python simulator."""

from __future__ import annotations

import numpy as np
import oracle_runtime
import pytest
import strategies
from hypothesis import assume, given, settings
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
@settings(max_examples=300)
@given(data=st.data())
def test_equals_oracle(communication: str, kind: str, data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    schedule = data.draw(strategies.schedules(problem, (kind,)))
    runtime = data.draw(strategies.runtimes(communication=communication))
    trace, reference = simulate(problem, schedule, runtime), expected(problem, schedule, runtime)
    for name in COLUMNS:
        assert getattr(trace, name).tolist() == getattr(reference, name), name


@pytest.mark.parametrize("kind", ["order", "priority", "start"])
@settings(max_examples=300)
@given(data=st.data())
def test_fair_equals_oracle_but_for_rounding(kind: str, data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    schedule = data.draw(strategies.schedules(problem, (kind,)))
    runtime = data.draw(strategies.runtimes(communication="fair"))
    reference = expected(problem, schedule, runtime)
    choices = kind == "priority" or runtime.order == "priority" or runtime.overlap > 0
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
