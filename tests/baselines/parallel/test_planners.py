"""Planners of training steps against the enumeration of all plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetgym.baselines.parallel import PLANNERS, every_plan, exact, exhaustive, search
from hetgym.device import Device
from hetgym.errors import ConfigError, ProblemError
from hetgym.parallel import Cluster, Framework, MeasuredNetwork, Pool, ProfiledLayers, TrainingProblem, Wire

CASES = 200


def small(seed: int) -> TrainingProblem:
    """A random problem of two to five layers on one or two pools of up to four GPUs, some of them short of memory."""
    rng = np.random.default_rng(seed)
    layers, names = int(rng.integers(2, 6)), ["a", "b"][: int(rng.integers(1, 3))]
    times = {}
    for name in names:
        base = rng.uniform(0.5, 2.0, (layers, 3)) * [1.0, 2.0, 0.1] * rng.uniform(0.5, 2.0)
        for tensor in (1, 2):
            for batch in (1, 2):
                times[name, tensor, batch] = base * batch ** rng.uniform(0.7, 1.0) / tensor ** rng.uniform(0.5, 0.95)
    whole = rng.uniform(1.0, 5.0, (layers, 3))
    pools = []
    for name in names:
        between, inside = (Wire(rng.uniform(0.0, 0.1), (1.0,), (rng.uniform(5.0, 500.0),)) for _ in range(2))
        device = Device(name, "gpu", {"float32": 1.0}, 1.0, rng.uniform(60.0, 300.0))
        nodes, each = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        pools.append(Pool(device, nodes, each, MeasuredNetwork(between, {2: inside})))
    return TrainingProblem(
        costs=ProfiledLayers(times, {1: whole, 2: whole / [2.0, 2.0, 1.0]}),
        cluster=Cluster(f"small-{seed}", tuple(pools)),
        global_batch=int(rng.choice([2, 4])),
        framework=Framework(state_bytes=10.0, blocking=bool(rng.integers(2)), overlap=bool(rng.integers(2))),
        tensors=(1, 2),
        micro_batches=(1, 2),
        schedule=str(rng.choice(["gpipe", "1f1b", "zb-h1"])),
    )


def test_branch_and_bound_finds_the_optimum_and_search_nearly_always() -> None:
    gaps = []
    for seed in range(CASES):
        problem = small(seed)
        try:
            best = problem.value(exhaustive(problem))
        except ProblemError:
            for planner in (exact, search):
                with pytest.raises(ProblemError, match="no plan fits"):
                    planner(problem)
            continue
        assert problem.value(exact(problem)) == best
        gaps.append(problem.value(search(problem)) / best - 1.0)
    assert len(gaps) > 0.8 * CASES
    assert np.mean(np.array(gaps) == 0.0) > 0.95
    assert np.mean(gaps) < 0.005


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_give_plans_of_the_problem(name: str) -> None:
    for seed in range(12):
        problem = small(1000 + seed)
        plans = {plan: problem.value(plan) for plan in every_plan(problem)}
        best = min(plans.values())
        if best == np.inf:
            continue
        try:
            plan = PLANNERS[name](problem)
        except ProblemError:
            assert name not in ("exact", "exhaustive", "search")
            continue
        assert plan == PLANNERS[name](small(1000 + seed))  # deterministic
        assert best <= problem.value(plan) < np.inf
        assert plan.global_batch == problem.global_batch


def test_any_data_degree_with_filled_micro_batches() -> None:
    for seed in range(20):
        problem = replace(small(seed), global_batch=5, fill=True)
        assert {problem.samples(data, batch) for data, batch in problem.degrees()} <= {5, 6, 8}
        plans = {plan: problem.value(plan) for plan in every_plan(problem)}
        best = min(plans.values())
        if best < np.inf:
            assert all(5 <= plan.global_batch < 5 + plan.replicas * plan.micro_batch for plan in plans)
            assert problem.value(exact(problem)) == best <= problem.value(search(problem)) < np.inf
            assert best <= problem.value(exact(replace(problem, fill=False)))


def test_bad_problems_are_refused() -> None:
    problem = small(0)
    for changed in ({"tensors": ()}, {"micro_batches": ()}, {"global_batch": 0}, {"stages": 0}):
        with pytest.raises(ConfigError):
            TrainingProblem(problem.costs, problem.cluster, **({"global_batch": 2} | changed))  # type: ignore[arg-type]
