from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import problems, runtimes

from hetgym import Problem, Runtime, baselines, metrics, simulate
from hetgym.workloads import textbook

TIMES = st.floats(1e-9, 1e3)


def all_paths(problem: Problem, operator: int) -> list[list[int]]:
    after = problem.edge_target[problem.edge_source == operator].tolist()
    return [[operator, *rest] for j in after for rest in all_paths(problem, j)] or [[operator]]


def test_slr_of_the_published_example_by_enumeration_of_its_paths() -> None:
    problem = textbook("topcuoglu")
    fastest = problem.cost.min(axis=1)
    longest = max(fastest[path].sum() for path in all_paths(problem, 0))
    heft = baselines.get("heft")(problem)
    expected = 80.0 / longest
    assert metrics.schedule_length_ratio(heft.makespan, baselines.critical_path_bound(problem)) == expected


def test_speedup_uses_the_smallest_column_sum_where_every_device_runs_everything() -> None:
    problem = textbook("topcuoglu")
    assert metrics.single_device_makespan(problem) == problem.cost.sum(axis=0).min() == 127.0
    assert metrics.speedup(80.0, 127.0) == 127.0 / 80.0


def test_speedup_is_finite_where_no_device_runs_everything() -> None:
    problem = Problem.from_arrays([[1.0, np.inf], [np.inf, 2.0]], [(0, 1, 4.0)], bandwidth=2.0)
    assert metrics.single_device_makespan(problem) == 1.0 + 2.0 + 2.0


def test_single_device_reference_feels_the_runtime() -> None:
    # Two inputs cross the same link: together under classic, one after the other under links.
    problem = Problem.from_arrays(
        [[1.0, np.inf], [1.0, np.inf], [np.inf, 1.0], [1.0, np.inf], [1.0, np.inf]],
        [(0, 2, 6.0), (1, 2, 6.0)],
    )
    classic = metrics.single_device_makespan(problem, "classic")
    assert metrics.single_device_makespan(problem, "links") > classic
    plan = baselines.single_device(problem)
    assert metrics.single_device_makespan(problem, "links") == simulate(problem, plan, "links").makespan


@given(problems(), runtimes())
def test_run_times_in_sum_are_the_simulated_makespan_of_a_single_device(problem: Problem, runtime: Runtime) -> None:
    plan = baselines.single_device(problem)
    assert metrics.single_device_makespan(problem, runtime) == simulate(problem, plan, runtime).makespan


def test_ratios_of_nothing() -> None:
    assert metrics.ratio(0.0, 0.0) == 1.0
    assert metrics.ratio(1.0, 0.0) == math.inf
    assert metrics.gap(0.0, 0.0) == 0.0


def test_efficiency_is_one_when_all_devices_help_alike() -> None:
    assert metrics.efficiency(4.0, 4) == 1.0
    with pytest.raises(ValueError, match="over 0 devices"):
        metrics.efficiency(1.0, 0)


@given(TIMES, TIMES)
def test_a_gap_is_what_must_be_added_to_the_reference(makespan: float, reference: float) -> None:
    assert reference * (1 + metrics.gap(makespan, reference)) == pytest.approx(makespan, rel=1e-9, abs=1e-12)


@given(st.lists(TIMES, min_size=1, max_size=20))
def test_geometric_mean_does_not_depend_on_the_side_of_the_reference(values: list[float]) -> None:
    mean = metrics.geometric_mean(values)
    assert metrics.geometric_mean([1 / v for v in values]) == pytest.approx(1 / mean, rel=1e-9)
    assert min(values) * (1 - 1e-12) <= mean <= max(values) * (1 + 1e-12)
    assert mean <= metrics.arithmetic_mean(values) * (1 + 1e-12)


@pytest.mark.parametrize("mean", [metrics.arithmetic_mean, metrics.geometric_mean])
def test_no_mean_of_nothing(mean: object) -> None:
    with pytest.raises(ValueError, match="mean"):
        mean([])  # type: ignore[operator]


def test_geometric_mean_refuses_negative_values_and_keeps_zero() -> None:
    with pytest.raises(ValueError, match="negative"):
        metrics.geometric_mean([1.0, -1.0])
    assert metrics.geometric_mean([0.0, 5.0]) == 0.0
