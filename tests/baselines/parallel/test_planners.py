"""Planners of training steps against the enumeration of all plans."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

import hetgym
from hetgym.baselines.parallel import PLANNERS, every_plan, exact, exhaustive, search
from hetgym.baselines.parallel.options import options
from hetgym.device import Device
from hetgym.errors import ConfigError, ProblemError, UnknownName
from hetgym.parallel import (
    SIZES,
    Cluster,
    Framework,
    MeasuredNetwork,
    ParallelPlan,
    Pool,
    ProfiledLayers,
    TrainingProblem,
    TransformerLayers,
    Wire,
    load_cluster,
)
from hetgym.search.search import ended_by_interrupt
from hetgym.workloads import textbook


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
        schedules=(str(rng.choice(["gpipe", "1f1b", "zb-h1"])),),
    )


def chosen(seed: int) -> TrainingProblem:
    """The same with four layers more, short ones, and a choice of schedules, most of them interleaved."""
    problem = small(seed)
    assert isinstance(problem.costs, ProfiledLayers)
    rng = np.random.default_rng(seed)
    costs = problem.costs
    times = {key: np.stack(costs.passes(*key) or ()).T for key in costs.measured}
    sizes = {tensor: np.stack((costs.sizes(tensor) or ())[:3]).T for tensor in (1, 2)}
    more = [int(rng.integers(costs.layers)) for _ in range(6 - costs.layers)]
    tables = [{key: np.concatenate([table, table[more]]) for key, table in part.items()} for part in (times, sizes)]
    schedules = ("interleaved",) if seed % 2 else ("gpipe", "1f1b", "interleaved", "zb-h1")
    few = tuple(replace(pool, nodes=1, per_node=2) for pool in problem.cluster.pools)
    cluster = Cluster(problem.cluster.name, few)
    batch = int(rng.choice([4, 8]))
    return replace(
        problem, costs=ProfiledLayers(*tables), cluster=cluster, schedules=schedules, chunks=(2, 3), global_batch=batch
    )


@pytest.mark.parametrize("cases", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_branch_and_bound_finds_the_optimum_and_search_nearly_always(cases: int) -> None:
    gaps = []
    for seed in range(cases):
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
    assert len(gaps) > 0.8 * cases
    assert np.mean(np.array(gaps) == 0.0) > 0.99
    assert np.mean(gaps) < 0.001


@pytest.mark.slow
def test_schedules_and_chunks_are_chosen() -> None:
    gaps, orders = [], set()
    for seed in range(12):
        problem = chosen(seed)
        try:
            plan = exhaustive(problem)
        except ProblemError:
            continue
        best = problem.value(plan)
        orders.add((plan.schedule, plan.chunks))
        assert problem.value(exact(problem)) == best
        assert problem.bound(plan) <= best
        gaps.append(problem.value(search(problem)) / best - 1.0)
    assert len(gaps) > 8 and ("interleaved", 2) in orders and len(orders) > 2
    assert gaps == [0.0] * len(gaps)


def tight(seed: int) -> TrainingProblem:
    """One of those problems whose GPUs have little more, or less, memory than states and two samples need."""
    problem = chosen(seed)
    sizes = problem.costs.sizes(1)
    assert sizes is not None
    need = float(problem.framework.state_bytes * sizes.parameters.sum() + 2.0 * sizes.stash.sum())
    room = np.random.default_rng(5000 + seed).uniform(0.9, 1.8) * need / problem.cluster.gpus
    pools = tuple(replace(pool, device=replace(pool.device, memory_capacity=room)) for pool in problem.cluster.pools)
    return replace(problem, cluster=Cluster(problem.cluster.name, pools))


def value(planner: Callable[[TrainingProblem], ParallelPlan], problem: TrainingProblem) -> float:
    """The step of a planner's plan [s]; inf if it finds none."""
    try:
        return problem.value(planner(problem))
    except ProblemError:
        return np.inf


def test_search_is_exact_where_memory_is_tight() -> None:
    values = np.array([[value(planner, tight(seed)) for planner in (exact, search)] for seed in range(36, 56)])
    assert (values[:, 0] == values[:, 1]).all()
    assert 0.5 < np.isfinite(values[:, 0]).mean() < 1.0


def test_search_fits_interleaved_stages_without_branch_and_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["hetgym.baselines.parallel.search"], "NODES", 0)
    for seed in (5, 39, 108, 251):  # whose first plans do not fit
        problem = tight(seed)
        assert value(exact, problem) <= value(search, problem) < np.inf


def test_planners_choose_zero_where_memory_needs_it() -> None:
    needed, stages = 0, set()
    for seed in (37, 42, 44, 46, 48, 50, 52, 54):
        problem = replace(tight(seed), schedules=("1f1b",), stages=2, tensors=(1,))
        free = replace(problem, zeros=(0, 1, 2, 3))
        best = value(exhaustive, free)
        assert best == value(exact, free) == value(search, free)
        assert best <= value(exact, problem)
        if best == np.inf:
            continue
        plan = exact(free)
        under = replace(problem, framework=replace(problem.framework, zero=plan.zero or 0))
        assert under.value(replace(plan, zero=None)) == best
        stages.add(plan.zero)
        needed += value(exact, problem) == np.inf
    assert needed and len(stages) > 1


def test_only_some_planners_know_several_chunks() -> None:
    problem = chosen(1)
    plan = PLANNERS["uniform-grid"](problem)
    assert plan.chunks in (2, 3) and problem.value(plan) >= problem.value(exact(problem))
    for name in ("pipedream", "alpa", "harp", "sailor"):
        with pytest.raises(ProblemError, match="one chunk a stage"):
            PLANNERS[name](problem)


@cache
def optimum(seed: int) -> float:
    """The least time of a step of a small problem [s]; inf if no plan fits."""
    problem = small(seed)
    return min(problem.value(plan) for plan in every_plan(problem))


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_give_plans_of_the_problem(name: str) -> None:
    for seed in range(12):
        problem, best = small(1000 + seed), optimum(1000 + seed)
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


@pytest.mark.slow
def test_any_data_degree_with_filled_micro_batches() -> None:
    for seed in range(12):
        problem = replace(small(seed), global_batch=5, fill=True)
        assert {problem.samples(*setting[:2]) for setting in problem.settings()} <= {5, 6, 8}
        plans = {plan: problem.value(plan) for plan in every_plan(problem)}
        best = min(plans.values())
        if best < np.inf:
            assert all(5 <= plan.global_batch < 5 + plan.replicas * plan.micro_batch for plan in plans)
            assert problem.value(exact(problem)) == best <= problem.value(search(problem)) < np.inf
            assert best <= problem.value(exact(replace(problem, fill=False)))


class Interrupted(TrainingProblem):
    """A problem during whose n-th simulation Ctrl-C is pressed."""

    def value(self, plan: ParallelPlan, limit: float = np.inf) -> float:
        """The time of a step [s]."""
        seen = self.cluster.__dict__.setdefault("seen", [])
        seen.append(super().value(plan, limit))
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)
        return float(seen[-1])


@pytest.mark.parametrize("name", ["search", "exact", "exhaustive", "uniform-grid", "sailor"])
def test_an_interrupt_gives_the_best_plan_so_far(name: str) -> None:
    base = small(4)
    values = {field.name: getattr(base, field.name) for field in fields(base) if field.init}
    problem = Interrupted(**values)
    with ended_by_interrupt() as interrupts:
        plan = PLANNERS[name](problem)
    assert interrupts.came
    seen = problem.cluster.__dict__["seen"]
    assert len(seen) <= 12 and base.value(plan) == min(seen) < np.inf


def test_bad_problems_are_refused() -> None:
    problem = small(0)
    bad: list[dict[str, object]] = [{"tensors": ()}, {"micro_batches": ()}, {"global_batch": 0}, {"stages": 0}]
    bad += [{"schedules": ("2f2b",)}, {"schedules": ()}, {"chunks": (0,)}, {"global_batch": 3, "micro_batches": (2,)}]
    for changed in bad:
        with pytest.raises((ConfigError, UnknownName)):
            TrainingProblem(problem.costs, problem.cluster, **({"global_batch": 2} | changed))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="tries is 0"):
        search(problem, tries=0)


def pools(nodes: int, count: int = 2, memory: float = 100.0) -> TrainingProblem:
    """Eight layers, whose weights take 80 bytes each, on pools of nodes of four GPUs."""
    names = [f"pool{k}" for k in range(count)]
    times = {(name, t, 1): np.full((8, 3), (1.0 + k) / t**0.9) for k, name in enumerate(names) for t in (1, 2, 4)}
    whole = np.tile([8.0, 0.5, 1.0], (8, 1))
    network = MeasuredNetwork(Wire(0.01, (1.0,), (100.0,)), {})
    cluster = Cluster(
        "pools", tuple(Pool(Device(n, "gpu", {"float32": 1.0}, 1.0, memory), nodes, 4, network) for n in names)
    )
    sizes = {t: whole / [t, t, 1.0] for t in (1, 2, 4)}
    return TrainingProblem(
        ProfiledLayers(times, sizes), cluster, 4, Framework(state_bytes=10.0), (1, 2, 4), micro_batches=(1,), stages=8
    )


@pytest.mark.parametrize("name", ["search", "harp", "alpa"])
@pytest.mark.parametrize("limits", [{"LARGEST": 2000}, {"WORK": 20_000}])
def test_more_gpus_leave_a_problem_solvable(monkeypatch: pytest.MonkeyPatch, name: str, limits: dict[str, int]) -> None:
    """Where the table over all GPUs would be too large, they are counted in larger units."""
    for what, most in limits.items():
        monkeypatch.setattr(sys.modules["hetgym.baselines.parallel.cutting"], what, most)
    values = [value(PLANNERS[name], pools(nodes)) for nodes in (4, 8, 16, 64)]
    assert max(values) < np.inf
    plan = PLANNERS[name](pools(64))
    assert pools(64).step(plan).fits


def test_larger_units_change_no_table_that_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["hetgym.baselines.parallel.cutting"]
    problem = pools(2)
    found = options(problem, next(problem.settings()), mixed=False)
    assert found is not None
    fine = list(module.cuts(problem, found))
    assert fine and not module.coarse(problem, found)
    monkeypatch.setattr(module, "LARGEST", 2000)
    assert module.coarse(problem, found)
    rough = list(module.cuts(problem, found))
    assert min(estimate for estimate, _ in fine) <= min(estimate for estimate, _ in rough)
    assert all(problem.step(plan).fits for _, plan in rough)


def test_a_search_that_left_out_plans_does_not_claim_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pools(4, memory=20.4)  # for a layer on four GPUs, and two micro-batches
    for name in ("search", "harp"):
        with pytest.raises(ProblemError, match="no plan fits in the memory"):
            PLANNERS[name](problem)
    monkeypatch.setattr(sys.modules["hetgym.baselines.parallel.cutting"], "LARGEST", 500)
    for name in ("search", "harp"):
        with pytest.raises(ProblemError, match="no plan was found that fits in the memory"):
            PLANNERS[name](problem)
    with pytest.raises(ProblemError, match="no plan fits in the memory"):
        PLANNERS["alpa"](problem)  # one pool has too little for the weights, however GPUs are counted


@pytest.mark.parametrize("name", [*PLANNERS])
def test_planners_share_out_whole_nodes(name: str) -> None:
    """Two nodes of three GPUs hold two groups of two, not three."""
    problem = pools(2, 1, memory=300.0)
    pool = replace(problem.cluster.pools[0], per_node=3)
    odd = replace(problem, cluster=Cluster("odd", (pool,)), stages=3)
    plan = PLANNERS[name](replace(odd, global_batch=2))
    assert {group.tensor for stage in plan.stages for group in stage.groups} == {1}
    if name != "pipedream":  # which knows no tensor parallelism
        with pytest.raises(ProblemError, match=r"no tensor degree of \[2, 4\] divides a node \(3 GPUs of 'pool0'\)"):
            PLANNERS[name](replace(odd, tensors=(2, 4)))


def test_steps_and_problems_are_planned_by_functions_of_their_own() -> None:
    problem = small(3)
    assert hetgym.plan_training(problem) == search(problem)
    assert hetgym.plan_training(problem, "uniform-grid") == PLANNERS["uniform-grid"](problem)
    with pytest.raises(UnknownName, match="unknown planner of training steps 'serch'; did you mean 'search'"):
        hetgym.plan_training(problem, "serch")
    with pytest.raises(ProblemError, match="takes a TrainingProblem, not Problem; hetgym.plan plans those"):
        hetgym.plan_training(textbook("topcuoglu"))  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="not TrainingProblem; hetgym.plan_training plans training steps"):
        hetgym.plan(problem)  # type: ignore[arg-type]


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_model_that_does_not_fit_is_told_in_all_and_for_each_gpu(gpus: int) -> None:
    """Whatever the number of GPUs, the total is the model's; each holds a share at best."""
    found = load_cluster("dgx-a100-64").pools[0]
    card = replace(found.device, memory_capacity=20e9)
    few = Cluster("few", (replace(found, nodes=1, per_node=gpus, device=card),))
    problem = TrainingProblem(TransformerLayers(SIZES["llama-7b"], few), few, 8, zeros=(0, 3))
    each = {1: "121.3 GB", 2: "60.65 GB", 4: "30.32 GB"}[gpus]
    with pytest.raises(ProblemError, match=rf"take 121.3 GB, on each of {gpus} GPUs {each} at best; a GPU has 19 GB"):
        search(problem)
