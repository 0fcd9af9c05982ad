"""Training graphs: FLOPs by the rules of backpropagation, memory that holds what backward reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetgym import DataflowGraph, Problem, Runtime, UnknownName, load_graph, load_platform, simulate, validate
from hetgym.baselines import heft, single_device
from hetgym.graph import Operator, Tensor, from_json, to_json, zoo
from hetgym.graph.transforms import training
from hetgym.graph.transforms.training import gradient_operator, weights_of

X = Tensor((4, 16))


def layer(name: str) -> Operator:
    return Operator(name, "MatMul", (X, Tensor((16, 16), constant=True, name=f"{name}.w")), (X,))


def perceptron() -> DataflowGraph:
    return DataflowGraph(
        [layer("a"), Operator("r", "Relu", (X,), (X,)), layer("b")], [(0, 0, 1), (1, 0, 2)], name="mlp"
    )


def test_a_perceptron_by_hand() -> None:
    graph = training(perceptron())
    names = [op.name for op in graph.operators]
    assert names == ["a", "r", "b", "loss", "b/backward", "r/backward", "a/backward", "b.w/update", "a.w/update"]
    flops = dict(zip(names, graph.flops.tolist(), strict=True))
    product = 2 * 4 * 16 * 16
    assert flops["b/backward"] == 2 * product  # of its input and of its weight
    assert flops["a/backward"] == product  # nothing before it learns
    assert flops["r/backward"] == 64 and flops["a.w/update"] == 2 * 256
    edges = {(names[e.source], names[e.target]) for e in graph.edges}
    assert ("r", "b/backward") in edges and ("a", "r/backward") in edges  # stashed inputs
    assert ("b", "loss") in edges and ("loss", "b/backward") in edges and ("a/backward", "a.w/update") in edges
    assert len(edges) == len(graph.edges) == 2 + 1 + 2 + 1 + 2 + 1 + 1


def test_gradients_of_several_readers_are_summed() -> None:
    graph = DataflowGraph([layer("a"), layer("b"), layer("c")], [(0, 0, 1), (0, 0, 2)])
    step = training(graph)
    backward = next(op for op in step.operators if op.name == "a/backward")
    assert backward.flops == 2 * 4 * 16 * 16 + 64
    assert [t.shape for t in backward.inputs].count((4, 16)) == 2


@pytest.mark.parametrize(("optimizer", "each"), [("sgd", 2), ("momentum", 4), ("adam", 12)])
def test_gradients_of_a_weight_that_is_read_twice_are_summed(optimizer: str, each: int) -> None:
    """One addition for each of 256 numbers, and the arithmetic of the optimizer."""
    first, second = layer("a"), replace(layer("b"), inputs=layer("a").inputs)
    update = training(DataflowGraph([first, second], [(0, 0, 1)]), optimizer).operators[-1]
    assert update.name == "a.w/update" and update.flops == 256 * (each + 1)


def test_running_statistics_are_not_learnt() -> None:
    x = Tensor((1, 8, 4, 4))
    statistics = tuple(Tensor((8,), constant=True, name=name) for name in ("scale", "bias", "mean", "var"))
    norm = Operator("n", "BatchNormalization", (x, *statistics), (x,))
    assert [weight.name for weight in weights_of(norm)] == ["scale", "bias"]
    mask = Tensor((4, 4), "int64", constant=True, name="m")
    assert weights_of(Operator("g", "Gemm", (X, mask, Tensor((), constant=True)), (X,))) == []


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_optimizer_state_is_resident(optimizer: str, states: int) -> None:
    plain, step = perceptron(), training(perceptron(), optimizer)
    assert step.model_bytes == pytest.approx((1 + states) * plain.model_bytes)


def test_a_shared_weight_is_updated_once() -> None:
    step = training(load_graph("lstm"))
    updates = [op.name for op in step.operators if op.name.endswith("/update")]
    weights = {t.name for op in load_graph("lstm").operators for t in op.inputs if t.constant and "float" in t.dtype}
    assert len(updates) == len(set(updates)) <= len(weights) < len(step) / 4


@pytest.mark.parametrize("name", zoo.names())
def test_zoo_models_train(name: str) -> None:
    graph = load_graph(name)
    step = training(graph, "adam")
    assert [op.name for op in step.operators[: len(graph)]] == [op.name for op in graph.operators]
    heavy = sum(op.flops for op in graph.operators if op.spec.family in ("conv", "matmul", "recurrent"))
    backward = sum(
        op.flops
        for op in step.operators
        if op.name.endswith("/backward") and op.spec.family in ("conv", "matmul", "recurrent")
    )
    assert 1.6 * heavy < backward < 2.03 * heavy  # twice forward, less the first layer's input gradient
    assert from_json(to_json(step)) == step


def test_training_keeps_activations_until_they_are_read_again() -> None:
    platform = load_platform("cpu-gpu")
    peaks = {}
    for kind, make in (("inference", lambda g: g), ("training", training)):
        for batch in (1, 8):
            problem = Problem.build(make(load_graph("resnet50", batch=batch)), platform)
            validate(problem, heft(problem))
            trace = simulate(problem, single_device(problem), Runtime(memory="track"))
            peaks[kind, batch] = float(trace.memory.peak.max()) - problem.model_bytes
    assert peaks["training", 8] > 5 * peaks["inference", 8]
    assert 5 < peaks["training", 8] / peaks["training", 1] < 9
    assert np.isfinite(list(peaks.values())).all()


def test_unknown_optimizer() -> None:
    with pytest.raises(UnknownName, match="unknown optimizer 'adma'; did you mean 'adam'"):
        training(perceptron(), "adma")


@pytest.mark.parametrize("kind", ["Gemm", "Relu", "LayerNormalization"])
def test_a_gradient_by_itself_is_that_of_a_training_step(kind: str) -> None:
    """Behind a product with a weight and before one reader, as the docstring says."""
    x, w = Tensor((4, 8)), Tensor((8, 8), constant=True, name="w")
    scale = Tensor((8,), constant=True, name="s")
    operands = {"Gemm": (x, w), "Relu": (x,), "LayerNormalization": (x, scale, scale)}[kind]
    op = Operator("op", kind, operands, (x,))
    first = Operator("first", "Gemm", (x, replace(w, name="v")), (x,))
    step = training(DataflowGraph([first, op], [(0, 0, 1)], "two"))
    found = next(o for o in step.operators if o.name == "op/backward")
    alone = gradient_operator(op)
    assert (alone.kind, alone.flops, alone.bytes_read) == (found.kind, found.flops, found.bytes_read)
    assert [t.shape for t in alone.inputs] == [t.shape for t in found.inputs]
    assert [t.shape for t in alone.outputs] == [t.shape for t in found.outputs]
