"""Calibration against an executor that knows its costs, and what predictions make of them."""

from __future__ import annotations

import numpy as np
import pytest
from execution.pretend import Pretender, random_graph

from hetgym import Problem
from hetgym.execution.calibration import (
    calibrate,
    calibration_schedules,
    fit_line,
    in_topological_order,
    remote_bytes,
)
from hetgym.execution.placements import held_out_placements
from hetgym.execution.predicting import planning_problem, predict
from hetgym.schedule import validate


@pytest.fixture
def machine() -> Pretender:
    rng = np.random.default_rng(5)
    graph = random_graph(40, rng)
    return Pretender(
        graph,
        rng.uniform(1e-4, 1e-3, (40, 2)),
        np.array([[0.0, 2e-10], [2e-5, 3e-10]]),
        np.array([[4e-6, 2e-10], [8e-6, 1e-10]]),
        np.array([3e-6, 5e-6]),
        1e-6,
    )


def calibrated(machine: Pretender):  # type: ignore[no-untyped-def]
    schedules = calibration_schedules(machine.graph, 2)
    return calibrate(machine.graph, [machine.run(schedule) for schedule in schedules])


def test_it_recovers_what_the_machine_costs(machine: Pretender) -> None:
    found = calibrated(machine)
    assert found.local == pytest.approx(machine.local, rel=1e-9)
    assert found.dispatch == pytest.approx(machine.dispatch, rel=1e-6)
    for k in range(2):
        assert found.publishing[k].seconds == pytest.approx(machine.publish[k, 0], rel=1e-3)
        assert found.publishing[k].per_byte == pytest.approx(machine.publish[k, 1], rel=1e-3)
        assert found.reading[k].seconds == pytest.approx(machine.slower[k, 0], rel=1e-6, abs=1e-10)
        assert found.reading[k].per_byte == pytest.approx(machine.slower[k, 1], rel=1e-6)
    assert found.lag == pytest.approx(machine.lag, abs=2e-6)


def test_predictions_of_other_placements_are_right(machine: Pretender) -> None:
    found = calibrated(machine)
    rng = np.random.default_rng(1)
    placements = held_out_placements(machine.graph, planning_problem(found), 17, rng)
    for schedule in placements:
        trace, executed = predict(found, schedule), machine.run(schedule)
        assert trace.makespan == pytest.approx(executed.makespan, rel=5e-3)
        assert trace.start == pytest.approx(executed.start[0], abs=5e-3 * executed.makespan)
        remote = trace.remote
        assert (remote == executed.trace().remote).all()
        assert (trace.arrived - trace.sent)[remote] == pytest.approx(
            (executed.arrived - executed.sent)[0][remote], abs=3e-6
        )


def test_with_costs_of_a_model_communication_comes_from_the_lines(machine: Pretender) -> None:
    found = calibrated(machine).with_costs(machine.local)
    schedule = in_topological_order(machine.graph, np.arange(40) // 3 % 2, 2, "threes")
    assert predict(found, schedule).makespan == pytest.approx(machine.run(schedule).makespan, rel=5e-3)
    twice = found.with_costs(2 * machine.local)
    assert predict(twice, schedule).makespan > 1.5 * predict(found, schedule).makespan


def test_a_machine_without_traffic_calibrates_as_well(machine: Pretender) -> None:
    rng = np.random.default_rng(0)
    lonely = random_graph(1, rng)
    pretender = Pretender(lonely, np.ones((1, 2)), machine.slower, machine.publish, machine.dispatch, 0.0)
    found = calibrate(lonely, [pretender.run(schedule) for schedule in calibration_schedules(lonely, 2)])
    schedule = in_topological_order(lonely, [1], 2, "one")
    assert predict(found, schedule).makespan == pytest.approx(1.0 + machine.dispatch[1])


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_calibration_puts_everything_everywhere(devices: int) -> None:
    graph = random_graph(20, np.random.default_rng(2))
    schedules = calibration_schedules(graph, devices)
    where = np.stack([schedule.assignment for schedule in schedules])
    assert all(set(column) == set(range(devices)) for column in where.T)
    dealt = where[devices:]
    assert len(dealt) == (devices if devices > 1 else 0)
    assert devices == 1 or all(sorted(column) == list(range(devices)) for column in dealt.T)


def test_placements_are_legal_different_and_held_out(machine: Pretender) -> None:
    problem = planning_problem(calibrated(machine))
    placements = held_out_placements(machine.graph, problem, 17, np.random.default_rng(0))
    keys = [tuple(schedule.assignment.tolist()) for schedule in placements]
    assert len(set(keys)) == len(keys) == 17
    assert not set(keys) & {tuple(s.assignment.tolist()) for s in calibration_schedules(machine.graph, 2)}
    assert sum(schedule.scheduler.startswith("random") for schedule in placements) >= 4
    for schedule in placements:
        validate(problem, schedule)
    again = held_out_placements(machine.graph, problem, 17, np.random.default_rng(0))
    assert [tuple(schedule.assignment.tolist()) for schedule in again] == keys


def test_a_small_graph_has_few_placements() -> None:
    graph = random_graph(2, np.random.default_rng(0))
    machine = Pretender(graph, np.ones((2, 2)), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2), 0.0)
    problem = planning_problem(calibrated(machine))
    assert held_out_placements(graph, problem, 17, np.random.default_rng(0)) == []  # all four are calibration's


def test_lines_do_not_follow_outliers_nor_go_below_zero() -> None:
    x = np.linspace(0, 1e6, 50)
    y = 5e-6 + 2e-10 * x
    y[::10] *= 20
    line = fit_line(x, y)
    assert line.seconds == pytest.approx(5e-6, rel=0.05)
    assert line.per_byte == pytest.approx(2e-10, rel=0.05)
    falling = fit_line(x, 1e-3 - 1e-10 * x)
    assert falling.per_byte == 0
    below = fit_line(x, 2e-10 * x - 1e-5)
    assert below.seconds == 0
    assert below.per_byte > 0
    assert fit_line(x, np.full(50, np.nan))(x).tolist() == [0.0] * 50


def test_slopes_through_the_origin_are_weighted_by_size() -> None:
    """Three small messages seem to take next to nothing; the large one takes 2 s a byte."""
    found = fit_line(np.array([1.0, 2.0, 3.0, 100.0]), np.array([0.01, 0.01, 0.01, 200.0]))
    assert (found.seconds, found.per_byte) == (0.0, 2.0)


def test_the_first_reader_in_the_order_of_its_device_brings_a_tensor() -> None:
    """Operators 1 and 2 read tensor 0 on device 1; operator 3 reads it on device 0, and operator 4 another one."""
    edges = [(0, 1, 5.0), (0, 2, 6.0), (0, 3, 5.0), (0, 4, 7.0)]
    problem = Problem.from_arrays(np.ones((5, 2)), edges, tensors=[0, 0, 0, 1])
    where = np.array([0, 1, 1, 0, 1])
    for row, first in (([1, 2, 4], [5.0, 0.0]), ([2, 1, 4], [0.0, 6.0])):
        found = remote_bytes(problem, where, [np.array([0, 3]), np.array(row)])
        assert found.tolist() == [0.0, *first, 0.0, 7.0]
