"""Recurrent networks on several devices: the law that the plans follow, and the simulator's agreement."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, simulate, validate
from hetgym.baselines.pipeline import time_slices, wavefront
from hetgym.pipeline import FlowShop
from hetgym.sim import Trace

# 64 steps of 20 us on a GPU and of so many times as much on a CPU; 40 and 20 us to start a slice, 30 us to hand
# the state on. Percent by which a row of tasks is faster than on the better device alone, computed independently.
GAINS = {
    2.0: {2: 0, 4: 17.6, 8: 30.5, 16: 38.1, 64: 44.4},
    2.6: {2: 0, 4: 9.4, 8: 21.9, 16: 29.2, 64: 35.3},
    4.0: {2: 0, 4: 0, 8: 10.3, 16: 17.0, 64: 22.6},
    5.5: {2: 0, 4: 0, 8: 4.5, 16: 10.7, 64: 16.0},
    7.0: {2: 0, 4: 0, 8: 1.1, 16: 7.0, 64: 12.0},
}


@pytest.mark.parametrize("ratio", GAINS)
def test_gain_over_one_device(ratio: float) -> None:
    for tasks, gain in GAINS[ratio].items():
        plan = time_slices(64, [20e-6 * ratio, 20e-6], tasks, overhead=[20e-6, 40e-6], transfer=30e-6)
        alone = tasks * min(64 * 20e-6 + 40e-6, 64 * 20e-6 * ratio + 20e-6)
        assert round((alone / plan.makespan - 1) * 100, 1) == gain


@pytest.mark.parametrize("ratio", GAINS)
def test_limit_of_the_gain(ratio: float) -> None:
    plan = time_slices(10_000, [ratio, 1.0], 100_000)
    assert 100_000 * 10_000 / plan.makespan - 1 == pytest.approx(1 / ratio, rel=1e-3)


@pytest.mark.parametrize("ratio", GAINS)
def test_gain_with_few_tasks_in_flight(ratio: float) -> None:
    """A third task hides the transfers and gives the table again; without it some is lost, never more than 2 points."""
    for tasks, gain in GAINS[ratio].items():
        alone = tasks * min(64 * 20e-6 + 40e-6, 64 * 20e-6 * ratio + 20e-6)
        three, two = (
            time_slices(64, [20e-6 * ratio, 20e-6], tasks, [20e-6, 40e-6], 30e-6, in_flight)
            for in_flight in (3, "slices")
        )
        assert round((alone / three.makespan - 1) * 100, 1) == gain
        assert gain - 2 <= (alone / two.makespan - 1) * 100 <= gain + 0.05


@pytest.mark.parametrize("ratio", [1, 2, 4, 9])
@pytest.mark.parametrize("tasks", [1, 2, 3, 10, 64])
def test_law_of_equal_slices(ratio: int, tasks: int) -> None:
    """Slices of equal time without overheads gain (N / ratio - 1) / (N + 1), or nothing while that is negative."""
    plan = time_slices(10 * (ratio + 1), [float(ratio), 1.0], tasks)
    gain = tasks * 10 * (ratio + 1) / plan.makespan - 1
    assert gain == pytest.approx(max(0.0, (tasks / ratio - 1) / (tasks + 1)))
    assert plan.parts == ((10, 10 * ratio) if tasks > ratio else (10 * (ratio + 1),))


@examples(80)
@given(
    steps=st.integers(1, 7),
    devices=st.integers(1, 3),
    tasks=st.integers(1, 6),
    in_flight=st.sampled_from([None, "slices", 1, 2, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_time_slices_against_all_cuts(
    steps: int, devices: int, tasks: int, in_flight: int | Literal["slices"] | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    step, start = rng.integers(0, 6, devices).astype(float), rng.integers(0, 4, devices).astype(float)
    move = rng.integers(0, 5, (devices, devices)).astype(float)
    plan = time_slices(steps, step, tasks, start, move, in_flight)
    best = math.inf
    for count in range(1, min(devices, steps) + 1):
        window = count if in_flight == "slices" else in_flight
        for order in itertools.permutations(range(devices), count):
            for cuts in itertools.combinations(range(1, steps), count - 1):
                parts = np.diff([0, *cuts, steps])
                times = [k * step[d] + start[d] for k, d in zip(parts, order, strict=True)]
                moves = tuple(float(move[a, b]) for a, b in itertools.pairwise(order))
                best = min(best, FlowShop(order, tuple(parts), np.tile(times, (tasks, 1)), moves, window).makespan)
    assert plan.makespan == best
    assert best <= tasks * min(steps * step + start)
    assert sum(plan.parts) == steps and min(plan.parts) >= 1
    problem, schedule = plan.unroll()
    validate(problem, schedule)
    trace = simulate(problem, schedule)
    assert trace.makespan == plan.makespan
    assert plan.in_flight is None or _most_in_flight(trace, len(plan.devices)) <= plan.in_flight


def _most_in_flight(trace: Trace, stages: int) -> int:
    """Largest number of tasks between the start of their first and the end of their last slice, without tasks of zero
    duration."""
    begin, end = trace.start[::stages], trace.finish[stages - 1 :: stages]
    return max((int(((begin <= t) & (end > t)).sum()) for t in begin), default=0)


def test_few_tasks_in_flight_cost_what_transfers_leave_idle() -> None:
    """Two devices, slices of 4 and 4, 3 to hand on: a task takes 11, so of two in flight one leaves every 5.5."""
    free = time_slices(8, [1.0, 1.0], 7, transfer=3.0)
    assert (free.parts, free.in_flight, free.makespan) == ((4, 4), None, 11.0 + 6 * 4.0)
    two = time_slices(8, [1.0, 1.0], 7, transfer=3.0, in_flight="slices")
    assert (two.parts, two.in_flight, two.makespan) == ((4, 4), 2, 4 * 11.0)
    three = time_slices(8, [1.0, 1.0], 7, transfer=3.0, in_flight=3)
    assert three.makespan == free.makespan  # transfers are shorter than a slice: a third task hides them
    assert time_slices(8, [1.0, 1.0], 7, transfer=3.0, in_flight=1).devices in ((0,), (1,))


def test_wavefront_of_several_tasks() -> None:
    """Chunks of the second task follow those of the first without a gap: 10 steps more of the slower device."""
    one, _ = wavefront(10, [[2.0, 9.0], [9.0, 3.0]])
    two, chunk = wavefront(10, [[2.0, 9.0], [9.0, 3.0]], tasks=2)
    assert (one.makespan, two.makespan, chunk) == (32.0, 62.0, 1)
    problem, schedule = two.unroll()
    assert simulate(problem, schedule).makespan == 62.0


def test_wavefront_example() -> None:
    """Four layers, two on each device: 40 and 44 us for a step."""
    plan, chunk = wavefront(64, [[20.0, 22.0]] * 4, overhead=10.0, transfer=15.0, equal_chunks=True)
    assert (plan.makespan, chunk) == (3161.0, 4)
    assert plan.parts == (2, 2) and sorted(plan.devices) == [0, 1]
    serial = FlowShop((0, 1), (2, 2), np.array([[64 * 40.0, 64 * 44.0]]), (0.0,))
    assert serial.makespan == 5376.0
    problem, schedule = plan.unroll()
    assert simulate(problem, schedule).makespan == 3161.0
    uneven, chunk = wavefront(64, [[20.0, 22.0]] * 4, overhead=10.0, transfer=15.0)
    assert (uneven.makespan, chunk) == (3155.0, 5)  # twelve chunks of five steps and one of four


def test_wavefront_stays_on_one_device_where_that_is_best() -> None:
    plan, chunk = wavefront(8, [[1.0, 100.0]] * 3, overhead=1.0, transfer=1.0)
    assert plan.devices == (0,) and chunk == 8 and plan.makespan == 25.0


def test_layers_are_cut_evenly() -> None:
    plan, _ = wavefront(100, [[5.0, 5.0], [1.0, 1.0], [1.0, 1.0], [3.0, 3.0]])
    assert plan.parts in ((1, 3), (3, 1)) and plan.seconds[0].tolist() == [5.0, 5.0]


def test_bad_numbers() -> None:
    for call, message in (
        (lambda: time_slices(0, [1.0], 1), "steps is 0"),
        (lambda: time_slices(4, [1.0], 0), "tasks is 0"),
        (lambda: time_slices(4, [1.0] * 7, 1), "expected 1 to 6"),
        (lambda: time_slices(4, [1.0, 2.0], 1, overhead=[1.0] * 3), "overhead must be"),
        (lambda: time_slices(4, [1.0, 2.0], 1, transfer=-1.0), "transfer must be"),
        (lambda: time_slices(4, [math.nan], 1), "step must be"),
        (lambda: time_slices(4, [1.0], 1, in_flight=0), "in_flight is 0"),
        (lambda: time_slices(4, [1.0], 1, in_flight="stages"), "in_flight is 'stages'"),  # type: ignore[arg-type]
        (lambda: wavefront(4, [[1.0, 2.0]], tasks=0), "tasks is 0"),
        (lambda: wavefront(4, [1.0, 2.0]), r"layer_seconds has shape \(2,\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
