"""Methods that rewrite the graph before they schedule: TVM's fusion, EOP, greedy splitting."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import ConfigError, DataflowGraph, Platform, UnknownName, load_graph, load_platform, simulate, validate
from hetgym.baselines import GraphPlan, eop, get, greedy_split, single_device, tvm_fusion
from hetgym.device import Device, Link
from hetgym.graph import Operator, Tensor
from hetgym.graph.transforms import fuse

BALANCED = load_platform("cpu-gpu-balanced")


def two_devices(ratio: float, latency: float = 1e-6, bandwidth: float = 1e12) -> Platform:
    """A fast and a slow device without launch overhead, for arithmetic by hand."""
    common = {"memory_bandwidth": 1e18, "efficiency": {"matmul": 1.0, "conv": 1.0}, "memory_efficiency": 1.0}
    devices = [
        Device("slow", "cpu", {"float32": 1e12 / ratio}, **common),
        Device("fast", "gpu", {"float32": 1e12}, **common),
    ]
    links = [Link(a, b, latency, bandwidth) for a, b in (("slow", "fast"), ("fast", "slow"))]
    return Platform("two", devices, links)


def product(size: int = 1024) -> DataflowGraph:
    x, w = Tensor((size, size)), Tensor((size, size), constant=True, name="w")
    return DataflowGraph([Operator("product", "MatMul", (x, w), (x,))], [], "product")


def assert_consistent(plan: GraphPlan) -> None:
    validate(plan.problem, plan.schedule)
    assert simulate(plan.problem, plan.schedule).makespan == plan.makespan
    assert plan.problem.operator_names == tuple(op.name for op in plan.graph.operators)


def test_tvm_fusion_takes_the_better_device_of_the_fused_graph() -> None:
    graph = load_graph("inception_v1")
    plan = tvm_fusion(graph, BALANCED)
    assert_consistent(plan)
    assert plan.schedule.scheduler == "tvm-fusion"
    assert plan.makespan == pytest.approx(plan.problem.cost.sum(axis=0).min(), rel=1e-12)
    assert len(plan.graph) == 85


def test_eop_splits_a_product_by_the_speeds() -> None:
    """Speeds 1 and 3 and nearly free links: three quarters of the time remain."""
    graph = product()
    whole = 2 * 1024**3 / 1e12
    plan = eop(graph, two_devices(3.0, latency=1e-9, bandwidth=1e15))
    assert_consistent(plan)
    assert {op.name for op in plan.graph.operators} == {"product/0", "product/1", "product/gather"}
    assert plan.makespan == pytest.approx(0.75 * whole, rel=1e-3)
    on = dict(zip(plan.problem.operator_names, plan.schedule.assignment.tolist(), strict=True))
    assert on == {"product/0": 0, "product/1": 1, "product/gather": 1}


def test_eop_leaves_alone_what_transfers_would_eat() -> None:
    plan = eop(product(), two_devices(3.0, latency=1.0))
    assert plan.graph == product()
    assert plan.makespan == 2 * 1024**3 / 1e12
    assert plan.schedule.scheduler == "eop"


def test_eop_tunes_ratios_end_to_end() -> None:
    graph = load_graph("vgg19")
    untuned, tuned = (eop(graph, BALANCED, sweeps=sweeps) for sweeps in (0, 3))
    assert tuned.makespan <= untuned.makespan < tvm_fusion(graph, BALANCED).makespan
    assert_consistent(tuned)
    assert tuned.makespan == eop(graph, BALANCED).makespan


@pytest.mark.parametrize("name", ["resnet50", "inception_v1", "lstm"])
def test_eop_is_never_worse_than_fusion_alone(name: str) -> None:
    graph = load_graph(name)
    plan = eop(graph, BALANCED)
    assert_consistent(plan)
    assert plan.makespan <= tvm_fusion(graph, BALANCED).makespan
    assert plan.graph.flops.sum() == pytest.approx(fuse(graph).graph.flops.sum(), rel=1e-12)


def test_greedy_splitting_gives_each_device_its_share() -> None:
    whole = 2 * 1024**3 / 1e12
    for ratio, share in ((1.0, 1 / 2), (3.0, 3 / 4)):
        plan = greedy_split(product(), two_devices(ratio, latency=1e-9, bandwidth=1e15))
        assert_consistent(plan)
        assert plan.makespan == pytest.approx(share * whole, rel=2e-2)
        assert np.unique(plan.schedule.assignment).tolist() == [0, 1]
    assert greedy_split(product(), two_devices(3.0, latency=1.0)).graph == product()


def test_greedy_splitting_of_a_network() -> None:
    graph = fuse(load_graph("vgg19")).graph
    plan = greedy_split(graph, BALANCED)
    whole = greedy_split(graph, BALANCED, evaluations=1)
    assert_consistent(plan)
    assert whole.graph == graph and whole.schedule.scheduler == "greedy-split+heft"
    assert whole.makespan == get("heft")(whole.problem).makespan
    assert plan.makespan < whole.makespan and len(graph) < len(plan.graph) <= 2 * len(graph) + 8
    cpgc = greedy_split(graph, BALANCED, inner="cpgc")
    assert cpgc.makespan <= single_device(whole.problem).makespan
    assert cpgc.schedule.scheduler == "greedy-split+cpgc"


@pytest.mark.parametrize("runtime", ["links", "framework"])
def test_graphs_are_rewritten_for_the_runtime(runtime: str) -> None:
    graph = load_graph("alexnet")
    whole, split = (greedy_split(graph, BALANCED, evaluations=limit, runtime=runtime) for limit in (1, 60))
    plans = [whole, split, tvm_fusion(graph, BALANCED, runtime=runtime), eop(graph, BALANCED, runtime=runtime)]
    for plan in plans:
        assert simulate(plan.problem, plan.schedule, runtime).makespan == plan.makespan
    assert split.makespan <= whole.makespan == get("heft")(whole.problem, runtime).makespan
    blind = greedy_split(graph, BALANCED, inner="donf", evaluations=1, runtime=runtime)
    assert simulate(blind.problem, blind.schedule, runtime).makespan == blind.makespan


def test_one_device_has_nothing_to_share() -> None:
    alone = Platform("alone", [two_devices(1.0)["fast"]])
    assert greedy_split(product(), alone).graph == product() == eop(product(), alone).graph


def test_options() -> None:
    with pytest.raises(ConfigError, match="share is 2"):
        eop(product(), BALANCED, share=2)
    with pytest.raises(ConfigError, match="evaluations is 0"):
        greedy_split(product(), BALANCED, evaluations=0)
    with pytest.raises(UnknownName, match="unknown scheduler 'hetf'"):
        greedy_split(product(), BALANCED, inner="hetf")
