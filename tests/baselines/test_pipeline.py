"""Cutting pipelines: optimal methods against all assignments, and the rules that all methods keep."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetgym import ConfigError, InvalidSchedule, ProblemError
from hetgym.baselines.pipeline import PARTITIONERS, contiguous_dp, cp_sat_cut, downset_dp, equal_cut, pipedream
from hetgym.baselines.pipeline.downset_kernel import fill_values
from hetgym.pipeline import DeviceKind, PipelineProblem, load


@st.composite
def pipelines(draw: st.DrawFn, max_operators: int = 6) -> PipelineProblem:
    """Small graphs with colours, a mirrored backward pass, operators without work, and tight memory."""
    n = draw(st.integers(1, max_operators), label="forward operators")
    training = draw(st.booleans(), label="training")
    tight = draw(st.booleans(), label="tight memory")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.35]
    colour = rng.integers(0, 3, n) if rng.random() < 0.3 else np.arange(n)
    if training:
        edges += [(n + j, n + i) for i, j in edges] + [(i, n + i) for i in range(n)]
        colour = np.concatenate([colour, colour])
    total = len(colour)
    cost = np.where(rng.random((total, 1)) < 0.3, 0.0, rng.integers(1, 9, (total, 2)))
    if rng.random() < 0.3:
        cost[rng.integers(total), 0] = math.inf
    size = rng.integers(0, 4, total)
    return PipelineProblem(
        cost,
        edges,
        [
            DeviceKind("accelerator", 2, 4.0 + size.sum() // 2 if tight else math.inf),
            DeviceKind("cpu", 1, transfers=False),
        ],
        transfer=np.where(rng.random(total) < 0.4, 0.0, rng.integers(1, 5, total)),
        size=size,
        colour=colour,
        backward=np.arange(total) >= n,
    )


def best_of_all(problem: PipelineProblem) -> float:
    """Smallest max-load over all legal assignments; operators of one colour move together."""
    colours = sorted(set(problem.colour.tolist()))
    best = math.inf
    for devices in itertools.product(range(problem.num_devices), repeat=len(colours)):
        assignment = np.array(devices)[np.searchsorted(colours, problem.colour)]
        try:
            best = min(best, problem.max_load(assignment))
        except InvalidSchedule:
            continue
    return best


@settings(max_examples=150)
@given(problem=pipelines())
def test_downset_dp_is_optimal(problem: PipelineProblem) -> None:
    best = best_of_all(problem)
    if best == math.inf:
        with pytest.raises(ProblemError):
            downset_dp(problem)
        return
    assert problem.max_load(downset_dp(problem)) == pytest.approx(best, rel=1e-9)


@settings(max_examples=40)
@given(problem=pipelines(max_operators=5))
def test_cp_sat_proves_the_optimum(problem: PipelineProblem) -> None:
    best = best_of_all(problem)
    if best == math.inf:
        with pytest.raises(ProblemError, match="no device can run|no contiguous cut fits"):
            cp_sat_cut(problem)
        return
    cut = cp_sat_cut(problem, workers=1)
    assert cut.status == "optimal"
    assert problem.max_load(cut.assignment) == cut.max_load == pytest.approx(best, rel=1e-6)
    assert cut.lower_bound <= best * (1 + 1e-12)
    assert cut.gap < 1e-6


def test_cp_sat_where_downsets_are_too_many() -> None:
    """Twenty operators that do not read each other have a million downsets; they divide evenly."""
    free = PipelineProblem(np.ones((20, 1)), [], [DeviceKind("gpu", 4)])
    with pytest.raises(ConfigError):
        downset_dp(free)
    cut = cp_sat_cut(free)
    assert (cut.max_load, cut.status) == (5.0, "optimal")
    assert cut.lower_bound == pytest.approx(5.0, rel=1e-6)


@pytest.mark.parametrize("options", [{"seconds": 0}, {"workers": 0}, {"seed": -1}, {"seconds": "long"}])
def test_cp_sat_cut_refuses_odd_limits(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cp_sat_cut: "):
        cp_sat_cut(PipelineProblem.chain([[1.0]], [DeviceKind("gpu")]), **options)


def test_too_many_downsets() -> None:
    free = PipelineProblem(np.ones((20, 1)), [], [DeviceKind("gpu", 2)])
    with pytest.raises(ConfigError, match="more than 1000 downsets"):
        downset_dp(free, limit=1000)


@settings(max_examples=60)
@given(problem=pipelines(max_operators=10))
def test_methods_are_legal_and_ordered(problem: PipelineProblem) -> None:
    value = {}
    for name, partition in PARTITIONERS.items():
        try:
            value[name] = problem.max_load(partition(problem))  # which checks all rules
        except (InvalidSchedule, ProblemError):
            value[name] = math.inf
        assert value[name] == math.inf or partition(problem).tolist() == partition(problem).tolist()
    assert value["downset-dp"] <= value["contiguous-dp"] * (1 + 1e-12)
    assert value["contiguous-dp"] <= value["equal-cut"] * (1 + 1e-12)
    assert len(fill_values.signatures) == 1


@settings(max_examples=40)
@given(n=st.integers(1, 7), seed=st.integers(0, 2**32 - 1))
def test_chains_on_different_devices(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [DeviceKind("a"), DeviceKind("b", memory=float(rng.integers(3, 20))), DeviceKind("c", transfers=False)]
    chain = PipelineProblem.chain(
        rng.integers(1, 9, (n, 3)), kinds, transfer=rng.integers(0, 4, n), size=rng.integers(0, 4, n)
    )
    assert chain.max_load(contiguous_dp(chain)) == best_of_all(distinct_colours(chain))


def distinct_colours(problem: PipelineProblem) -> PipelineProblem:
    edges = list(zip(problem.edge_source, problem.edge_target, strict=True))
    colour = np.arange(problem.num_operators)
    return PipelineProblem(problem.cost, edges, problem.kinds, problem.transfer, problem.size, colour)


def test_equal_cut_by_hand() -> None:
    chain = PipelineProblem.chain(np.ones((6, 2)) * [[3.0, 1.0]], [DeviceKind("slow", 1), DeviceKind("fast", 3)])
    assert equal_cut(chain).tolist() == [1, 1, 2, 2, 3, 3]
    assert chain.max_load(equal_cut(chain)) == 2.0
    short = PipelineProblem.chain([[1.0]], [DeviceKind("gpu", 4)])
    assert equal_cut(short).tolist() == [0]


def pipedream_by_enumeration(problem: PipelineProblem, bandwidth: float, add: bool) -> float:
    """All cuts of a chain into parts with replicas."""
    n, devices, best = problem.num_operators, problem.num_devices, math.inf
    for cuts in itertools.product([False, True], repeat=n - 1):
        bounds = [0, *(i + 1 for i, here in enumerate(cuts) if here), n]
        parts = list(itertools.pairwise(bounds))
        for replicas in itertools.product(range(1, devices + 1), repeat=len(parts)):
            if sum(replicas) > devices:
                continue
            worst = max((2 * float(problem.transfer[i - 1]) for i in bounds[1:-1]), default=0.0)
            for (i, j), r in zip(parts, replicas, strict=True):
                work, size = float(problem.cost[i:j, 0].sum()), float(problem.size[i:j].sum())
                exchange = 4 * (r - 1) * size / (r * bandwidth)
                stage = (work + exchange if add else max(work, exchange)) / r
                worst = max(worst, stage if size <= problem.kinds[0].memory else math.inf)
            best = min(best, worst)
    return best


@settings(max_examples=40)
@given(n=st.integers(1, 5), devices=st.integers(1, 4), add=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_pipedream(n: int, devices: int, add: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = PipelineProblem.chain(
        rng.integers(1, 9, (n, 1)),
        [DeviceKind("gpu", devices, memory=float(rng.integers(4, 30)))],
        transfer=rng.integers(0, 4, n),
        size=rng.integers(0, 4, n),
    )
    bandwidth = float(rng.choice([0.5, 2.0, math.inf]))
    best = pipedream_by_enumeration(chain, bandwidth, add)
    if best == math.inf:
        with pytest.raises(ProblemError, match="no cut fits"):
            pipedream(chain, bandwidth=bandwidth, add=add)
        return
    plan = pipedream(chain, bandwidth=bandwidth, add=add)
    assert plan.seconds == pytest.approx(best)
    assert [i for stage in plan.stages for i in stage.operators] == list(range(n))
    used = [device for stage in plan.stages for device in stage.devices]
    assert used == list(range(len(used))) and len(used) <= devices
    assert plan.in_flight == math.ceil(len(used) / len(plan.stages[0].devices))


def test_pipedream_replicates_what_does_not_split() -> None:
    chain = PipelineProblem.chain([[1.0], [9.0]], [DeviceKind("gpu", 4)], size=[0.0, 1.0])
    plan = pipedream(chain)
    assert plan.seconds == 2.5 and len(plan.stages) == 1 and plan.in_flight == 1
    assert pipedream(chain, bandwidth=0.25).seconds == 3.0  # three replicas of the second: max(9, 4 * 2 / 3 / 0.25) / 3
    assert pipedream(chain, bandwidth=0.25, add=True).seconds > 3.0
    for options, message in (({"kind": 3}, "kind is 3"), ({"bandwidth": 0.0}, "bandwidth is 0.0")):
        with pytest.raises(ConfigError, match=message):
            pipedream(chain, **options)


# Files of github.com/msr-fiddle/dnn-partitioning; optimal contiguous max-loads [ms], with the files' own limits.
DATA = Path(os.environ.get("HETGYM_DATA", "/nonexistent")) / "dnn-partitioning" / "throughput"
OPTIMA = {
    "bert24_inference": 17.789906, "bert24_training": 41.745813, "gnmt_inference": 32.910658,
    "gnmt_training": 107.004414, "resnet50_inference": 33.774666, "resnet50_training": 78.631813,
    "op_bert_l-3_inference": 27.918568, "op_bert_l-3_training": 65.303149,
}  # fmt: skip


@pytest.mark.skipif(not DATA.is_dir(), reason="set HETGYM_DATA to a folder that holds dnn-partitioning")
@pytest.mark.parametrize("name", OPTIMA)
def test_published_optima(name: str) -> None:
    problem = load(DATA / f"{name}.json.gz")
    assert problem.max_load(downset_dp(problem)) * 1e3 == pytest.approx(OPTIMA[name], abs=6e-7)
    cut = cp_sat_cut(problem, seconds=60.0)
    assert cut.status == "optimal"
    assert cut.max_load * 1e3 == pytest.approx(OPTIMA[name], abs=6e-7)
