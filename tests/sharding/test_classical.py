"""Classical plans: their strategies by name, their costs by hand, and their results on simulated ranks."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.errors import ConfigError
from hetgym.graph import DataflowGraph, zoo
from hetgym.graph.generators import language_model
from hetgym.sharding import Mesh, axis_by_axis, build, data_parallel, evaluate, megatron, solve
from tests.mesh_tools import run_plan
from tests.sharding.test_building import DEVICE, Flops, block, mlp

MESH = Mesh((2, 2), device=DEVICE)
PLANS = {"data-parallel": data_parallel, "megatron": megatron, "axis-by-axis": axis_by_axis}


def decoder(batch: int = 2) -> DataflowGraph:
    return language_model(family="llama", layers=2, hidden=64, heads=4, intermediate=128, sequence=16,
                          vocabulary=128, batch=batch)  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans_compute_the_result(name: str) -> None:
    sharded = build(block(), MESH, Flops())
    choice = PLANS[name](sharded)
    assert not evaluate(sharded.problem, choice).infinite
    for mine, expected in run_plan(sharded, choice.tolist(), np.random.default_rng(1)).values():
        assert np.allclose(mine, expected)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("optimizer", [None, "adam"])
def test_plans_are_legal_and_no_better_than_the_optimum(name: str, optimizer: str | None) -> None:
    sharded = build(decoder(), MESH, Flops(), optimizer=optimizer)
    report = evaluate(sharded.problem, PLANS[name](sharded))
    plan = solve(sharded.problem, steps=100)
    assert not report.infinite and plan.bound is not None
    assert report.cost >= plan.bound


def test_data_parallelism_communicates_gradients_only() -> None:
    mesh = Mesh((4,), device=DEVICE)
    sharded = build(mlp(), mesh, Flops(), optimizer="sgd")
    report = evaluate(sharded.problem, data_parallel(sharded))
    assert report.edge_cost == 2 * round(1e9 * mesh.seconds("all-reduce", 4 * 16 * 4, 0))
    labels = sharded.labels(data_parallel(sharded))
    assert labels["up"] == labels["down"] == labels["down/backward"] == "m" and labels["w1"] == "replicated"
    inference = build(mlp(), mesh, Flops())
    assert evaluate(inference.problem, data_parallel(inference)).edge_cost == 0


def test_data_parallelism_on_one_axis() -> None:
    sharded = build(mlp(), MESH, Flops())
    assert sharded.labels(data_parallel(sharded, ["dp"]))["up"] == "m, replicated"
    assert sharded.labels(data_parallel(sharded))["up"] == "m, m"
    with pytest.raises(ConfigError, match="unknown axis 'pp'"):
        data_parallel(sharded, ["pp"])


def test_megatron_cuts_columns_then_rows() -> None:
    mesh = Mesh((2,), device=DEVICE)
    sharded = build(mlp(), mesh, Flops())
    labels = sharded.labels(megatron(sharded))
    assert (labels["up"], labels["relu"], labels["down"], labels["down:0"]) == ("n", "d1", "k", "replicated")
    assert (labels["w1"], labels["w2"]) == ("d1", "d0")
    report = evaluate(sharded.problem, megatron(sharded))
    assert report.edge_cost == round(1e9 * mesh.seconds("all-reduce", 8 * 4 * 4, 0))


def test_megatron_on_a_decoder() -> None:
    """Two all-reduces a layer and one behind the embedding; all large weights are halved."""
    mesh = Mesh((1, 2), device=DEVICE)
    sharded = build(decoder(), mesh, Flops(), copies=False)
    choice = megatron(sharded)
    stream = 2 * 16 * 64 * 2  # bfloat16
    assert evaluate(sharded.problem, choice).edge_cost == pytest.approx(
        (2 * 2 + 1) * 1e9 * mesh.seconds("all-reduce", stream, 1), abs=5
    )
    labels = {name: label.split(", ")[1] for name, label in sharded.labels(choice).items()}
    first = "layers.0.self_attn."
    assert [labels[first + f"{n}_proj"] for n in "qkvo"] == ["n", "n", "n", "k"]
    assert labels[first + "sdpa"] == "heads" and labels["lm_head"] == "n"
    assert [labels[f"layers.1.mlp.{n}_proj"] for n in ("gate", "up", "down")] == ["n", "n", "k"]
    assert labels["layers.1.input_layernorm"] == "replicated"


def test_megatron_trains_with_weights_that_stay_cut() -> None:
    """The backward pass mirrors the forward pass, and updates work on the part of a weight that a rank holds."""
    mesh = Mesh((1, 2), device=DEVICE)
    sharded = build(decoder(), mesh, Flops(), optimizer="adam")
    labels = {name: label.split(", ")[1] for name, label in sharded.labels(megatron(sharded)).items()}
    for name, label in labels.items():
        if name.endswith("_proj/backward"):
            assert label == labels[name.removesuffix("/backward")]
        if name.endswith("_proj.weight/update"):
            assert label == labels[name.removesuffix("/update")] != "replicated"


@pytest.mark.parametrize("name", ["gpt2", "bert_base"])
def test_training_plans_of_the_zoo_are_legal(name: str) -> None:
    """Operators that were replicated because of their shapes, fused projections and partial sums behind views."""
    sharded = build(zoo.load(name, batch=4), Mesh((2, 4), device=DEVICE), Flops(), optimizer="adam")
    assert not sharded.unknown
    for plan in (data_parallel, megatron):
        report = evaluate(sharded.problem, plan(sharded))
        assert (
            not report.infinite and report.node_cost < evaluate(sharded.problem, [0] * sharded.problem.nodes).node_cost
        )


def test_convolutions_alternate() -> None:
    sharded = build(zoo.load("resnet50", batch=4), Mesh((1, 2), device=DEVICE), Flops())
    labels = [label.split(", ")[1] for name, label in sharded.labels(megatron(sharded)).items() if name[:5] == "Conv_"]
    assert {"out", "in"} <= set(labels) and labels.count("replicated") <= 1
    assert not evaluate(sharded.problem, megatron(sharded)).infinite


def test_axes_in_turn() -> None:
    """The same plan from the same seed; on one axis it is what the solver finds."""
    sharded = build(block(), Mesh((2,), device=DEVICE), Flops())
    assert (axis_by_axis(sharded) == axis_by_axis(sharded)).all()
    both = build(block(), MESH, Flops())
    cost = evaluate(both.problem, axis_by_axis(both)).cost
    assert solve(both.problem, steps=200).cost <= cost < evaluate(both.problem, np.zeros(both.problem.nodes, int)).cost
