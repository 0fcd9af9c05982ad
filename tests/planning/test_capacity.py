from __future__ import annotations

import numpy as np
import pytest
import strategies
from brief import brief
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import OutOfMemory, Problem, Runtime, simulate
from hetgym.baselines import get
from hetgym.planning import rows
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix

ENFORCED = Runtime(communication="fifo", memory="enforce")
PLANNERS = [row.name for row in rows() if row.plans_for == "any"]


def limited(capacity: float, n: int = 12, d: int = 3, seed: int = 0) -> Problem:
    """Operators of weight 1 that run fastest on device 0, and pass tensors of one byte."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(1.0, 2.0, (n, d)) * np.arange(1, d + 1)
    edges = [(i, j, 1.0) for j in range(1, n) for i in sorted({int(rng.integers(j)), j - 1})]
    return Problem.from_arrays(cost, edges, weight_bytes=10.0, memory_capacity=capacity, output_bytes=1.0)


@pytest.mark.parametrize("name", PLANNERS)
def test_plans_fit_where_capacities_are_enforced(name: str) -> None:
    for seed in range(4):
        problem = limited(60.0, seed=seed)
        schedule = brief(name)(problem, ENFORCED)
        trace = simulate(problem, schedule, ENFORCED)  # raises if it does not fit
        assert (trace.memory.peak <= 60.0).all() and trace.makespan == schedule.makespan
        assert len(set(schedule.assignment.tolist())) > 1


@pytest.mark.parametrize("name", PLANNERS)
def test_what_cannot_fit_is_refused_with_what_is_missing(name: str) -> None:
    with pytest.raises(OutOfMemory, match="the weights take 120 B, and all devices together have 90 B; 30 B"):
        brief(name)(limited(30.0), ENFORCED)


def test_a_plan_that_barely_fits_is_found() -> None:
    """Three operators on each device, and next to nothing left for what they pass on."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        edges = [(i, j, float(rng.uniform(0.0, 0.5))) for i in range(9) for j in range(i + 1, 9) if rng.random() < 0.3]
        cost = rng.uniform(1.0, 5.0, (9, 3))
        problem = Problem.from_arrays(cost, edges, weight_bytes=10.0, memory_capacity=32.0)
        plan = hetgym.plan(problem, budget="100ms")
        assert (simulate(problem, plan, "classic,memory=enforce").memory.peak <= 32.0).all()


def test_without_enforcement_capacities_do_not_count() -> None:
    problem = limited(30.0)
    assert get("heft")(problem, "links").assignment.tolist() == (
        get("heft")(
            Problem.from_arrays(
                problem.cost, list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
            ),
            "links",
        ).assignment.tolist()
    )
    with pytest.raises(OutOfMemory):
        hetgym.plan(problem, "links", "10ms")


def assert_plans_for(name: str, problem: Problem, runtime: str | Runtime) -> None:
    schedule = brief(name, budget=2_000)(problem, runtime)
    hetgym.validate(problem, schedule)
    assert schedule.makespan == simulate(problem, schedule, runtime).makespan


@given(strategies.problems(), strategies.runtimes(noise=0.0), st.sampled_from(PLANNERS))
def test_planned_times_are_the_simulated_ones(problem: Problem, runtime: Runtime, name: str) -> None:
    assert_plans_for(name, problem, runtime)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("annealing", "cpgc-partition", "place-v2") else name
        for name in PLANNERS
    ],
)
def test_planned_times_are_the_simulated_ones_under_every_preset(name: str) -> None:
    for seed in range(2):
        problem = RandomMix(operators=(12, 24))(np.random.default_rng(seed))
        for runtime in PRESETS:
            assert_plans_for(name, problem, runtime)


def test_an_operator_is_free_where_its_prescribed_device_lacks_room() -> None:
    """Device 0 has room for two of three operators; a plan without limits keeps to it."""
    problem = Problem.from_arrays(np.ones((3, 2)), [], weight_bytes=1.0, output_bytes=0.0, memory_capacity=2.0)
    assert sorted(get("single-device")(problem, ENFORCED).assignment.tolist()) == [0, 0, 1]
    assert get("single-device")(problem, "links").assignment.tolist() == [0, 0, 0]
