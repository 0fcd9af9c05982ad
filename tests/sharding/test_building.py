"""Sharding problems of graphs: prices and memory by hand, and whole plans that simulated ranks carry out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hetgym.costs import LINKS, send_seconds
from hetgym.device import Device
from hetgym.errors import ConfigError, HetgymError, UnknownName
from hetgym.graph import DataflowGraph, Operator, Tensor, zoo
from hetgym.sharding import INFINITE, Mesh, P, R, S, ShardedGraph, build, evaluate, solve, strategies
from tests.mesh_tools import run_plan

DEVICE = Device("gpu", "gpu", {"float32": 1e12}, 1e11)


class Flops:
    """A cost model under which a FLOP takes a nanosecond."""

    def predict(self, operators: Sequence[Operator], device: Device) -> npt.NDArray[np.float64]:
        """FLOPs in nanoseconds [s]."""
        return 1e-9 * np.array([op.flops for op in operators])


def mlp() -> DataflowGraph:
    """x [8, 4] -> 16 -> relu -> 4."""
    x, hidden, y = Tensor((8, 4)), Tensor((8, 16)), Tensor((8, 4))
    w = Tensor((4, 16), constant=True, name="w1"), Tensor((16, 4), constant=True, name="w2")
    operators = [
        Operator("up", "MatMul", (x, w[0]), (hidden,)),
        Operator("relu", "Relu", (hidden,), (hidden,)),
        Operator("down", "MatMul", (hidden, w[1]), (y,)),
    ]
    return DataflowGraph(operators, [(0, 0, 1), (1, 0, 2)], "mlp")


def block() -> DataflowGraph:
    """An embedding, a layer of attention with heads, and a gated feed-forward layer, with residual connections."""
    x, heads, wide = Tensor((2, 4, 8)), Tensor((2, 4, 4, 2)), Tensor((2, 4, 16))

    def weight(name: str, *shape: int) -> Tensor:
        return Tensor(shape, constant=True, name=name)

    steps: list[tuple[str, str, list[str | Tensor], Tensor, dict[str, Any]]] = [
        ("embed", "Gather", [weight("table", 8, 8), Tensor((2, 4), "int64")], x, {}),
        ("norm", "RMSNormalization", ["embed", weight("scale", 8)], x, {}),
        *((n, "Gemm", ["norm", weight(f"w{n}", 8, 8), weight(f"b{n}", 8)], x, {"transB": 1}) for n in "qkv"),
        *((f"{n}h", "View", [n], heads, {"does": "heads"}) for n in "qkv"),
        ("sdpa", "Attention", ["qh", "kh", "vh"], heads, {"is_causal": 1}),
        ("merge", "View", ["sdpa"], x, {"does": "merge"}),
        ("out", "Gemm", ["merge", weight("wo", 8, 8), weight("bo", 8)], x, {"transB": 1}),
        ("add", "Add", ["embed", "out"], x, {}),
        ("gate", "MatMul", ["add", weight("wg", 8, 16)], wide, {}),
        ("act", "Gelu", ["gate"], wide, {}),
        ("up", "MatMul", ["add", weight("wu", 8, 16)], wide, {}),
        ("mul", "Mul", ["act", "up"], wide, {}),
        ("down", "MatMul", ["mul", weight("wd", 16, 8)], x, {}),
        ("sum", "Add", ["add", "down"], x, {}),
    ]
    number = {step[0]: i for i, step in enumerate(steps)}
    results = {name: result for name, _, _, result, _ in steps}
    operators = [
        Operator(name, kind, tuple(o if isinstance(o, Tensor) else results[o] for o in operands), (out,), attributes)
        for name, kind, operands, out, attributes in steps
    ]
    edges = [(number[o], 0, number[s[0]]) for s in steps for o in s[2] if isinstance(o, str)]
    return DataflowGraph(operators, edges, "block")


def choose(sharded: ShardedGraph, **labels: str) -> list[int]:
    """A choice by labels; copies follow, all others are replicated."""
    choice = []
    for node in sharded.nodes:
        if node.kind == "copies":
            choice.append(choice[node.follows])
        else:
            found = [strategy.label for strategy in node.strategies]
            choice.append(found.index(labels.get(node.name.replace("/", "_").replace(":", "_"), found[0])))
    return choice


def test_two_layers_by_hand() -> None:
    """1024 FLOPs in either product and 128 in between; Megatron halves them and all-reduces 128 bytes."""
    mesh = Mesh((1, 2), device=DEVICE)
    sharded = build(mlp(), mesh, Flops(), copies=False, follow=False)
    assert [(n.kind, n.name) for n in sharded.nodes] == [
        ("input", "up/0"), ("parameter", "w1"), ("operator", "up"), ("operator", "relu"), ("parameter", "w2"),
        ("operator", "down"), ("result", "down:0"),
    ]  # fmt: skip
    report = evaluate(sharded.problem, choose(sharded))
    assert (report.node_cost, report.edge_cost) == (1024 + 128 + 1024, 0)
    cut = choose(
        sharded, w1="replicated, d1", up="replicated, n", relu="replicated, d1", w2="replicated, d0",
        down="replicated, k",
    )  # fmt: skip
    report = evaluate(sharded.problem, cut)
    assert report.node_cost == 512 + 64 + 512
    assert report.edge_cost == round(1e9 * mesh.seconds("all-reduce", 8 * 4 * 4, "tp")) > 0
    # Half of the weights at all times; the input first, then half of the hidden layer twice, then once and the result.
    assert dict(zip(*(a.tolist() for a in report.profile), strict=True)) == {
        0: 256 + 128 + 256, 1: 256 + 256 + 256, 2: 256 + 256 + 128, 3: 0
    }  # fmt: skip


def test_two_axes_by_hand() -> None:
    """Rows on the outer axis, columns on the inner one: a quarter of the work, half of the all-reduced bytes."""
    mesh = Mesh((2, 2), links=("network", "nvlink3"), device=DEVICE)
    sharded = build(mlp(), mesh, Flops(), copies=False, follow=False)
    plan = choose(
        sharded, up_0="d0, replicated", w1="replicated, d1", up="m, n", relu="d0, d1", w2="replicated, d0",
        down="m, k", down_0="d0, replicated",
    )  # fmt: skip
    report = evaluate(sharded.problem, plan)
    assert report.node_cost == (1024 + 128 + 1024) // 4
    assert report.edge_cost == round(1e9 * mesh.seconds("all-reduce", 4 * 4 * 4, "tp"))
    # The optimum among all plans, by enumeration of the products' options: nothing beats dividing all work.
    assert solve(sharded.problem, steps=20).cost <= report.cost
    assert solve(sharded.problem, steps=20).report.node_cost >= report.node_cost


def test_a_training_step_by_hand() -> None:
    """Data parallelism all-reduces both gradients; ZeRO scatters them, updates a half and gathers the weights."""
    mesh = Mesh((2,), device=DEVICE)
    sharded = build(mlp(), mesh, Flops(), optimizer="adam", copies=False, follow=False)
    assert not sharded.unknown
    samples = {
        "up_0": "d0", "up": "m", "relu": "d0", "down": "m", "loss": "d0", "down_backward": "m",
        "relu_backward": "d0", "up_backward": "m",
    }  # fmt: skip
    plain = evaluate(sharded.problem, choose(sharded, **samples))
    one = round(1e9 * mesh.seconds("all-reduce", 4 * 16 * 4, "tp"))
    assert plain.edge_cost == 2 * one
    zero = evaluate(sharded.problem, choose(sharded, **samples, w1_update="d0", w2_update="d0"))
    scatter, gather = (round(1e9 * mesh.seconds(kind, 4 * 16 * 4, "tp")) for kind in ("reduce-scatter", "all-gather"))
    assert zero.edge_cost == 2 * (scatter + gather + 1)  # a nanosecond for the slice of each weight
    # Two states of 256 bytes for each weight, or half of them.
    assert plain.profile[1].min() == 0
    assert plain.profile[1][0] - zero.profile[1][0] == 2 * 2 * 256 // 2
    update = sharded.graph.operators[sharded.nodes[sharded.of_operator[-1]].operator]
    assert plain.node_cost - zero.node_cost == update.flops  # two updates, each by a half


def test_a_loss_over_sharded_classes_reduces_two_numbers_a_row() -> None:
    """Eight rows of four classes; with the rows on another axis each group reduces half of them."""
    mesh = Mesh((2, 2), device=DEVICE)
    sharded = build(mlp(), mesh, Flops(), optimizer="sgd")
    (loss,) = [v for v, node in enumerate(sharded.nodes) if (node.kind, node.name) == ("operator", "loss")]
    labels = [s.label for s in sharded.nodes[loss].strategies]
    costs = dict(zip(labels, sharded.problem.costs[sharded.problem.offsets[loss] :].tolist(), strict=False))
    reduce = [1e9 * mesh.seconds("all-reduce", rows * 4, "tp") for rows in (8, 4)]
    assert costs["replicated, replicated"] == 32 and costs["d0, d0"] == 8
    assert costs["replicated, d1"] == pytest.approx(16 + 2 * reduce[0], abs=1)
    assert costs["d0, d1"] == pytest.approx(8 + 2 * reduce[1], abs=1)


def test_halos_are_sent_to_neighbours() -> None:
    """A row above and one below, of 4 channels and 4 columns, or of half of the channels."""
    mesh, x = Mesh((2, 2), device=DEVICE), Tensor((1, 4, 8, 4))
    w = Tensor((4, 4, 3, 3), constant=True, name="w")
    conv = Operator("conv", "Conv", (x, w), (x,), {"pads": (1, 1, 1, 1)})
    sharded = build(DataflowGraph([conv], []), mesh, Flops(), copies=False)
    found = sharded.nodes[sharded.of_operator[0]].strategies
    at = int(sharded.problem.offsets[sharded.of_operator[0]])
    costs = {s.label: int(cost) for s, cost in zip(found, sharded.problem.costs[at:], strict=False)}
    sent = [1e9 * send_seconds(4 * 4 * channels, LINKS["nvlink3"]) for channels in (4, 2)]
    assert costs["replicated, height"] == round(conv.flops / 2 + sent[0])
    assert costs["in, height"] == round(conv.flops / 4 + sent[1])
    assert "height, height" in costs  # two rows are left, of which one is sent
    low = Tensor((1, 4, 2, 4))
    few = strategies(Operator("conv", "Conv", (low, w), (low,), {"pads": (1, 1, 1, 1)}), Mesh((2,)))
    wide = Operator("conv", "Conv", (low, Tensor((4, 4, 5, 5))), (low,), {"pads": (2, 2, 2, 2)})
    assert "height" in {s.label for s in few}
    assert "height" not in {s.label for s in strategies(wide, Mesh((2,)))}  # a neighbour has one row, not two


def test_partial_results_are_summed() -> None:
    sharded = build(mlp(), Mesh((2,), device=DEVICE), Flops(), copies=False)
    (result,) = [node for node in sharded.nodes if node.kind == "result"]
    assert all(P not in strategy.outputs[0] for strategy in result.strategies)


def test_forbidden_pairs_are_infinite() -> None:
    sharded = build(mlp(), Mesh((2,), device=DEVICE), Flops(), follow=False, copies=False)
    nodes, problem = sharded.nodes, sharded.problem
    for e, (source, target, at, slot) in enumerate(sharded.edges):
        table = problem.tables[problem.table_offsets[e] : problem.table_offsets[e + 1]]
        pairs = list(product(nodes[source].strategies, nodes[target].strategies))
        for cost, (a, b) in zip(table.tolist(), pairs, strict=True):
            after = b.operands[at] if b.operands else b.outputs[0]
            assert (cost == INFINITE) == (after == (P,) != a.outputs[slot])
            assert (cost == 0) == (after == a.outputs[slot])


@pytest.mark.parametrize("mesh", [Mesh((2,)), Mesh((2, 2)), Mesh((4, 2))], ids=str)
@pytest.mark.parametrize("follow", [False, True])
def test_ranks_carry_out_plans(mesh: Mesh, follow: bool) -> None:
    """Random plans without infinite entries give the graph's result, with all their reshardings."""
    rng = np.random.default_rng(5)
    sharded = build(block(), mesh, Flops(), follow=follow)
    assert not sharded.unknown
    done = 0
    for seed in range(12):
        priced = _shuffled(sharded, np.random.default_rng(seed))
        choice = solve(priced, steps=1, seed=seed).choice
        if evaluate(sharded.problem, choice).infinite:
            continue
        done += 1
        for mine, expected in run_plan(sharded, choice.tolist(), rng).values():
            assert np.allclose(mine, expected, rtol=1e-6, atol=1e-6)
    assert done == 12


def _shuffled(sharded: ShardedGraph, rng: np.random.Generator) -> Any:
    """The problem with random costs of nodes, so that plans of all kinds are best."""
    from hetgym.sharding import ShardingProblem

    p = sharded.problem
    return ShardingProblem(p.offsets, rng.integers(0, 10**7, len(p.costs)), p.usages, p.intervals, p.ends, p.tables)


def test_followers_share_the_list_of_their_operand() -> None:
    mesh = Mesh((2, 2), device=DEVICE)
    free, bound = (build(block(), mesh, Flops(), follow=follow, copies=False) for follow in (False, True))
    followers = {node.name for node in bound.nodes if node.follows >= 0}
    assert followers == {"qh", "kh", "vh", "merge"}  # not the activation, which cannot pass partial sums on
    for e, (source, target, at, slot) in enumerate(bound.edges):
        a, b = bound.nodes[source], bound.nodes[target]
        if b.follows == source:
            table = bound.problem.tables[bound.problem.table_offsets[e] : bound.problem.table_offsets[e + 1]]
            table = table.reshape(len(a.strategies), len(b.strategies))
            assert len(a.strategies) == len(b.strategies) and (np.diag(table) < INFINITE).all()
            assert (table[~np.eye(len(table), dtype=bool)] == INFINITE).all()
            for before, after in zip(a.strategies, b.strategies, strict=True):
                assert after.operands[at] == before.outputs[slot]
    best = [solve(sharded.problem, steps=60).cost for sharded in (free, bound)]
    assert best[0] <= best[1]


def test_a_value_is_gathered_once_for_all_its_readers() -> None:
    """Three products read a value that is replicated for them, once; without layouts each gathers it."""
    mesh, x = Mesh((2,), device=DEVICE), Tensor((8, 4))
    weights = [Tensor((4, 4), constant=True, name=f"w{n}") for n in "qkv"]
    operators = [Operator("norm", "RMSNormalization", (x, Tensor((4,), constant=True, name="s")), (x,))]
    operators += [Operator(n, "MatMul", (x, w), (x,)) for n, w in zip("qkv", weights, strict=True)]
    graph = DataflowGraph(operators, [(0, 0, k) for k in (1, 2, 3)])
    labels = {"norm_0": "d0", "norm": "d0"} | dict.fromkeys("qkv", "n") | {f"w{n}": "d1" for n in "qkv"}
    labels |= {f"{n}_0": "d1" for n in "qkv"}
    gather = round(1e9 * mesh.seconds("all-gather", 8 * 4 * 4, 0))
    for layouts, times in ((True, 1), (False, 3)):
        sharded = build(graph, mesh, Flops(), layouts=layouts, copies=False)
        assert evaluate(sharded.problem, choose(sharded, **labels)).edge_cost == times * gather
    assert [node.name for node in build(graph, mesh, Flops(), copies=False).nodes if node.kind == "layout"] == [
        "norm:0/layout"
    ]


def test_the_backward_pass_has_layouts_of_its_own() -> None:
    sharded = build(block(), Mesh((2,), device=DEVICE), Flops(), optimizer="sgd", copies=False)
    names = {node.name for node in sharded.nodes if node.kind == "layout"}
    assert {"norm:0/layout", "norm:0/layout/backward"} <= names
    assert not any(name.startswith("w") for name in names)  # read once in either pass


def test_memory_limits_plans() -> None:
    mesh = Mesh((4,), device=DEVICE)
    free = build(mlp(), mesh, Flops(), copies=False)
    peak = evaluate(free.problem, choose(free)).peak
    tight = build(mlp(), mesh, Flops(), copies=False, memory=peak / 3)
    assert tight.problem.limit == int(peak / 3)
    assert solve(tight.problem, steps=20).report.peak <= peak / 3


def test_copies_are_charged_where_operands_are_gathered() -> None:
    """A weight that its reader needs whole, while its owner may keep a part, takes its size for that moment."""
    sharded = build(mlp(), Mesh((2,), device=DEVICE), Flops())
    (up,) = [node for node in sharded.nodes if node.kind == "copies" and node.name == "up"]
    at = sharded.nodes.index(up)
    usages = sharded.problem.usages[sharded.problem.offsets[at] : sharded.problem.offsets[at + 1]]
    by_label = dict(zip([s.label for s in up.strategies], usages.tolist(), strict=True))
    assert by_label == {"replicated": 128 + 256, "m": 256, "n": 128, "k": 0}
    assert sharded.problem.intervals[at].tolist() == [0, 1]


def test_views_take_no_memory_but_keep_their_operand() -> None:
    x, flat = Tensor((4, 4)), Tensor((16,))
    operators = [
        Operator("a", "Relu", (x,), (x,)), Operator("view", "Reshape", (x,), (flat,)),
        Operator("b", "Relu", (x,), (x,)), Operator("c", "Relu", (flat,), (flat,)),
    ]  # fmt: skip
    graph = DataflowGraph(operators, [(0, 0, 1), (0, 0, 2), (1, 0, 3)])
    sharded = build(graph, Mesh((1,), device=DEVICE), Flops(), copies=False)
    rows = {n.name: (i, u) for n, i, u in zip(sharded.nodes, sharded.problem.intervals.tolist(),
                                              sharded.problem.usages.tolist(), strict=True)}  # fmt: skip
    order = graph.topological_order.tolist()
    assert rows["view"][1] == 0 and rows["a"] == ([order.index(0), order.index(3) + 1], 64)


def test_tied_weights_are_one_parameter() -> None:
    x, w = Tensor((4, 4)), Tensor((4, 4), constant=True, name="w")
    operators = [Operator(name, "MatMul", (x, w), (x,)) for name in "ab"]
    sharded = build(DataflowGraph(operators, [(0, 0, 1)]), Mesh((2,), device=DEVICE), Flops())
    assert [node.name for node in sharded.nodes if node.kind == "parameter"] == ["w"]


def test_caches_are_written_where_they_lie() -> None:
    """A cache that is written in another placement goes there and back."""
    cache, new, done = Tensor((2, 4, 8, 2), constant=True, name="cache"), Tensor((2, 4, 1, 2)), Tensor((0,))
    graph = DataflowGraph([Operator("write", "TensorScatter", (cache, new), (done,))], [])
    mesh = Mesh((2,), device=DEVICE)
    sharded = build(graph, mesh, Flops(), copies=False)
    there = evaluate(sharded.problem, choose(sharded, cache="d1", write="heads"))
    assert there.edge_cost == 1  # the slice of the new values
    across = evaluate(sharded.problem, choose(sharded, cache="d0", write="heads"))
    assert across.edge_cost == 1 + 2 * round(1e9 * mesh.seconds("all-to-all", 2 * 4 * 8 * 2 * 4 / 2, 0))


@pytest.mark.parametrize("name", ["bert_base", "resnet50", "shufflenet", "lstm", "squeezenet"])
def test_networks_of_the_zoo_have_rules(name: str) -> None:
    sharded = build(zoo.load(name, batch=4), Mesh((2, 2)), "roofline")
    assert not sharded.unknown and sharded.problem.unit == "ns"
    assert not evaluate(sharded.problem, np.zeros(sharded.problem.nodes, int)).infinite
    assert all(s.label == "replicated, replicated" for s in (node.strategies[0] for node in sharded.nodes))


def test_unknown_kinds_are_named_and_replicated() -> None:
    x = Tensor((4, 4))
    graph = DataflowGraph([Operator("odd", "Strange", (x,), (x,)), Operator("b", "Relu", (x,), (x,))], [(0, 0, 1)])
    sharded = build(graph, Mesh((2,), device=DEVICE), Flops(), copies=False)
    assert sharded.unknown == ("Strange",) and len(sharded.nodes[sharded.of_operator[0]].strategies) == 1
    assert sharded.strategy([0] * sharded.problem.nodes, 0).outputs == ((R,),)


def test_labels_name_the_strategies() -> None:
    sharded = build(mlp(), Mesh((2,), device=DEVICE), Flops(), copies=False, follow=False)
    labels = sharded.labels(choose(sharded, up="n"))
    assert labels["up"] == "n" and labels["w1"] == "replicated" and list(labels)[0] == "up/0"
    assert sharded.strategy(choose(sharded, up="n"), 0).outputs == ((S(1),),)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"mesh": (2, 2)}, ConfigError, "mesh is (2, 2); it must be a Mesh"),
        ({"memory": -1}, ConfigError, "memory is -1; it must be positive"),
        ({"costs": "rooflin"}, UnknownName, "unknown cost model 'rooflin'"),
        ({"optimizer": "adamw"}, UnknownName, "unknown optimizer 'adamw'"),
    ],
)
def test_mistakes(arguments: dict[str, Any], error: type[HetgymError], words: str) -> None:
    with pytest.raises(error) as found:
        build(**{"graph": mlp(), "mesh": Mesh((2,)), **arguments})
    assert str(found.value).startswith(words)
