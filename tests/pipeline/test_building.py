"""Blocks of models, and what they cost on platforms."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

import hetgym
from hetgym.baselines.pipeline import contiguous_dp
from hetgym.errors import HetgymWarning
from hetgym.graph import DataflowGraph, Operator, Tensor, load_graph
from hetgym.graph.generators import language_model, lstm_grid
from hetgym.graph.transforms.training import weights_of
from hetgym.pipeline import (
    DeviceKind,
    Objective,
    PipelineProblem,
    Stage,
    blocks,
    cut_problem,
    layer_chain,
    pipeline,
    training_pipeline,
)
from hetgym.pipeline.contraction import bind
from hetgym.platform import load_platform
from hetgym.problem import Problem


def diamond() -> DataflowGraph:
    """a -> (b, c) -> d -> e: cuts behind a, d and e."""
    x = Tensor((4, 4))
    return DataflowGraph(
        [Operator(name, "Relu", (x,), (x,)) for name in "abcde"],
        [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 3), (3, 0, 4)],
    )


def test_trunk_blocks_end_where_all_paths_meet() -> None:
    assert blocks(diamond()).tolist() == [0, 1, 1, 1, 2]
    assert blocks(diamond(), "operators").tolist() == [0, 1, 2, 3, 4]
    for name in ("resnet50", "gpt2", "squeezenet"):
        graph = load_graph(name)
        block = blocks(graph)
        apart = block[graph.edge_target] - block[graph.edge_source]
        assert apart.min() >= 0 and apart.max() == 1
        for k in range(int(block.max())):  # one operator's results cross each cut
            crossing = (block[graph.edge_source] <= k) & (block[graph.edge_target] > k)
            assert len(set(graph.edge_source[crossing].tolist())) == 1


def chain_with(edges: list[tuple[int, int]], n: int, name: str = "made") -> DataflowGraph:
    """Operators of 8 numbers each, where each reads the results of those that the edges name."""
    x = Tensor((8,))
    return DataflowGraph(
        [Operator(f"op{i}", "Relu", (x,), (x,)) for i in range(n)], [(a, 0, b) for a, b in edges], name
    )


def test_what_nobody_reads_belongs_to_what_it_reads() -> None:
    """0 -> 1 -> 2 -> 3, and 4, 5, 6 write what 0, 1 and 2 found, as to a cache."""
    path = [(0, 1), (1, 2), (2, 3)]
    assert blocks(chain_with([*path, (0, 4), (1, 5), (2, 6)], 7)).tolist() == [0, 1, 2, 3, 0, 1, 2]
    # An auxiliary output of two operators, behind 1, is a block of its own.
    assert blocks(chain_with([*path, (1, 4), (4, 5)], 6)).tolist() == [0, 1, 3, 4, 2, 2]


def test_what_starts_later_belongs_to_its_first_reader() -> None:
    """0 -> 1 -> 2 -> 3 -> 4 -> 5, and 6 -> 7, the words of a decoder, is read by 3."""
    graph = chain_with([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 3)], 8)
    assert blocks(graph).tolist() == [0, 1, 2, 3, 4, 5, 3, 3]


def test_skips_pay_at_every_boundary() -> None:
    """0 is read by 1 and, past the others, by 11 (the output of an encoder, or the outer skip of a U)."""
    graph = chain_with([*((i, i + 1) for i in range(12)), (0, 11)], 13)
    assert blocks(graph).tolist() == list(range(13))
    platform = load_platform("8gpu-node")
    chain = pipeline(graph, platform)
    once = [
        platform.latency[a, b] + 32.0 / platform.bandwidth[a, b] for a in range(8) for b in range(8) if a != b
    ]  # of a tensor of 8 numbers
    counts = [1] + 10 * [2] + [1, 0]  # of tensors behind each operator; that of 0 is one tensor for both readers
    np.testing.assert_allclose(chain.transfer, np.array(counts) * np.mean(once))
    assert chain.edge_target.tolist() == list(range(1, 13))


def unet(depth: int = 8) -> DataflowGraph:
    """Down ``depth`` levels of two operators and up again; each level's result skips to the way up."""
    down = [(i, i + 1) for i in range(4 * depth + 1)]
    return chain_with([*down, *((2 * k + 1, 4 * depth - 2 * k) for k in range(depth))], 4 * depth + 2)


COLLAPSED = {
    "prefill": lambda: load_graph("llama-3-8b", sequence=256, phase="prefill"),
    "nasnet": lambda: load_graph("nasnet"),
    "unet": unet,
    **{
        f"t5-{phase}": lambda phase=phase: language_model("t5", 6, 512, vocabulary=32128, phase=phase)
        for phase in ("forward", "prefill", "decode")
    },
}


@pytest.mark.parametrize("name", COLLAPSED)
def test_no_block_holds_nearly_everything(name: str) -> None:
    graph = COLLAPSED[name]()
    block, platform = blocks(graph), load_platform("8gpu-node")
    assert np.bincount(block).max() <= 0.25 * len(graph) and block.max() >= 8
    assert (block[graph.edge_target] >= block[graph.edge_source]).all()
    chain = pipeline(graph, platform)
    assert chain.size.sum() - chain.shared.repeated == pytest.approx(graph.model_bytes)
    apart = ~np.eye(8, dtype=bool)
    for k in range(int(block.max())):
        crossing = (block[graph.edge_source] <= k) & (block[graph.edge_target] > k)
        tensors = dict(zip(graph.edge_tensor[crossing].tolist(), graph.edge_bytes[crossing].tolist(), strict=True))
        times = [(platform.latency + size / platform.bandwidth)[apart].mean() for size in tensors.values()]
        assert chain.transfer[k] == pytest.approx(sum(times), rel=1e-9)
    assert set(contiguous_dp(chain).tolist()) == set(range(8))  # no stage is empty


def test_a_large_model_leaves_room_on_the_first_and_the_last_of_eight_cards() -> None:
    """Llama 3 70 B in 8 bits: a layer has 0.86 GB, words and head 1.05 GB each; https://github.com/vllm-project/vllm/pull/6920."""
    graph = load_graph("llama-3-70b", sequence=1, phase="prefill")
    block = blocks(graph)
    size = np.bincount(block, weights=graph.resident_bytes) / 2
    problem = PipelineProblem.chain(size[:, None], [DeviceKind("l4", 8, 24 * 2**30)])
    stage = contiguous_dp(problem)[block]
    layers = [sum(stage[i] == k and "down_proj" in op.name for i, op in enumerate(graph.operators)) for k in range(8)]
    assert sum(layers) == 80 and 8 <= layers[0] <= 9 and 8 <= layers[-1] <= 9 and max(layers) <= 11


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode"])
def test_blocks_of_layers_are_the_layers(phase: str) -> None:
    graph = load_graph("llama-3-8b", sequence=64, phase=phase)
    chain = layer_chain(graph, load_platform("8gpu-node"))
    layers = [f"layers.{k}" for k in range(32)]
    assert [name for name in chain.layers if name in layers] == layers and len(chain.layers) <= 36
    assert chain.roles == tuple("words" if k < 1 else "layer" if k < 33 else "head" for k in range(len(chain.layers)))
    cached = 0.0 if phase == "forward" else 2 * 8 * 128 * 2.0  # keys and values of eight heads in 16 bits
    assert chain.per_token == (phase != "forward") and set(chain.cache[1:33]) == {cached or 1.0}
    assert chain.cached.sum() == 64 * 32 * cached and not chain.cache[[0, -1]].any()
    assert chain.size.sum() - chain.shared.repeated == pytest.approx(graph.model_bytes)
    whole = pipeline(graph, load_platform("8gpu-node"), how="layers")
    assert chain.sent[:-1].all() and whole.num_operators == len(chain.layers)


def test_blocks_of_layers_are_those_of_the_trunk_without_layers() -> None:
    graph = load_graph("vgg19")
    assert blocks(graph, "layers").tolist() == blocks(graph).tolist()
    t5 = language_model("t5", 6, 512, vocabulary=32128)
    assert 12 <= blocks(t5, "layers").max() <= blocks(t5).max()
    with pytest.raises(hetgym.ConfigError, match="single operators are no chain"):
        layer_chain(graph, load_platform("8gpu-node"), how="operators")


def test_too_few_blocks_are_said() -> None:
    graph, platform = chain_with([(0, 1), (0, 2), (1, 2), (2, 3)], 4, "small"), load_platform("8gpu-node")
    with pytest.warns(HetgymWarning, match=r"'small' has 3 blocks \(auto\) for 8 devices: 5 stay empty; blocks of "):
        pipeline(graph, platform)
    with pytest.warns(HetgymWarning, match=r"'small' has 4 blocks .* 4 stay empty$"):
        training_pipeline(graph, platform, how="operators")


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_any_graph(seed: int) -> None:
    """All edges lead forward, and places that a single operator's results cross, in the order of blocks, end one."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    edges = {(int(rng.integers(max(0, j - 4), j)), j) for j in range(1, n) for _ in range(rng.integers(0, 3))}
    graph = chain_with(sorted(edges), n)
    block = blocks(graph)
    assert (block[graph.edge_target] >= block[graph.edge_source]).all()
    assert sorted(set(block.tolist())) == list(range(block.max() + 1))
    trunk = graph.on_trunk.nonzero()[0]
    assert len(set(block[trunk].tolist())) == len(trunk)


def test_time_steps() -> None:
    assert blocks(lstm_grid(layers=3, steps=4)).tolist() == [0, 1, 2, 3] * 3
    assert blocks(load_graph("lstm")).max() == 23
    with pytest.raises(hetgym.ConfigError, match="no time steps"):
        blocks(diamond(), "steps")
    with pytest.raises(hetgym.UnknownName, match="did you mean 'trunk'"):
        blocks(diamond(), "trunc")


def test_blocks_are_priced_as_their_operators() -> None:
    platform = load_platform("cpu-2gpu-nvlink")
    graph = load_graph("resnet50")
    problem, chain = Problem.build(graph, platform), pipeline(graph, platform)
    assert [kind.count for kind in chain.kinds] == [1, 2]
    np.testing.assert_allclose(chain.cost.sum(axis=0), problem.cost[:, :2].sum(axis=0))
    assert chain.size.sum() == pytest.approx(graph.model_bytes)
    edge = int(np.flatnonzero(blocks(graph)[graph.edge_target] > blocks(graph)[graph.edge_source])[0])
    assert chain.transfer[0] == pytest.approx(
        np.mean(
            [
                platform.latency[a, b] + graph.edge_bytes[edge] / platform.bandwidth[a, b]
                for a in range(3)
                for b in range(3)
                if a != b
            ]
        )
    )
    apart = pipeline(graph, platform, how="operators")
    assert apart.num_operators == len(graph) and len(bind(apart).members) == len(graph)
    np.testing.assert_allclose(apart.cost.sum(axis=0), chain.cost.sum(axis=0))


def test_backward_passes() -> None:
    """A product costs its forward FLOPs once for each gradient; what it reads stays."""
    x, w = Tensor((64, 64)), Tensor((64, 64), constant=True, name="w")
    graph = DataflowGraph([Operator(f"fc{k}", "MatMul", (x, w), (x,)) for k in range(3)], [(0, 0, 1), (1, 0, 2)])
    step = training_pipeline(graph, load_platform("cpu-gpu"), optimizer="momentum")
    assert step.backward[0].tolist() == [0.0, 0.0] and (step.weight[0] > 0).all()  # nothing learns before it
    np.testing.assert_allclose(step.backward[1], step.weight[1])
    assert step.stash.tolist() == [0.0, x.bytes, x.bytes]
    np.testing.assert_allclose(step.state, 2 * step.problem.size)
    with pytest.raises(hetgym.UnknownName, match="optimizer"):
        training_pipeline(graph, load_platform("cpu-gpu"), optimizer="lion")


@pytest.mark.parametrize("name, ends", [("gpt2", 2), ("lstm", 3)])
def test_each_stage_holds_the_weights_that_it_reads(name: str, ends: int) -> None:
    """Both ends of GPT-2 read the words: cut into two, they are there twice. All steps of an RNN read one cell."""
    graph, platform = load_graph(name), load_platform("cpu-2gpu-nvlink")
    chain = pipeline(graph, platform)
    cuts = cut_problem(chain)
    n = len(cuts.names)
    names: list[set[tuple[str, float]]] = [set() for _ in range(n)]
    for k, op in zip(blocks(graph).tolist(), graph.operators, strict=True):
        names[k] |= {(t.name, t.bytes) for t in weights_of(op) if t.name}
    ties = [round(k * n / ends) for k in range(ends + 1)]
    for i, j in pairwise(ties):
        assert cuts.tables.size[i, j] == pytest.approx(sum(b for _, b in set().union(*names[i:j])), rel=0.02)
    parts = [float(cuts.tables.size[i, j]) for i, j in pairwise(ties)]
    assert cuts.tables.size[0, n] == pytest.approx(graph.model_bytes, rel=0.01) and sum(parts) > 1.2 * graph.model_bytes
    stages = [Stage(i, j, device) for device, (i, j) in enumerate(pairwise(ties))]
    edges = list(zip(chain.edge_source.tolist(), chain.edge_target.tolist(), strict=True))
    for memory in (max(parts), 0.99 * max(parts)):
        kinds = [DeviceKind("gpu", ends, memory=memory)]
        cards = PipelineProblem(
            chain.cost[:, 1:], edges, kinds, size=chain.size, colour=chain.colour, shared=chain.shared
        )
        cut = cut_problem(cards)
        assert (cut.within_memory and cut.fits(stages)) == (memory == max(parts))
        if memory == max(parts):
            cards.check(cut.assignment(stages))
        else:
            with pytest.raises(hetgym.InvalidSchedule, match="memory"):
                cards.check(cut.assignment(stages))
        again = pickle.loads(pickle.dumps(cards))
        assert again.digest == cards.digest and again.shared.pairs() == cards.shared.pairs()
    trained = cut_problem(training_pipeline(graph, platform), Objective("training", micro_batches=4)).tables
    np.testing.assert_allclose(trained.size[ties[0], ties[1]], 4 * parts[0])
