from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, GraphError, UnknownName
from hetgym.graph import GENERATORS, generate_graph
from hetgym.graph.generators import (
    cholesky,
    daggen,
    decoding,
    fft,
    fork_join,
    gaussian_elimination,
    inception,
    inception_like,
    layered,
    lstm_grid,
    lu,
    mixture_of_experts,
    qr,
    sharded_product,
    transformer,
    wavefront,
)
from hetgym.graph.generators.tasks import task_graph
from hetgym.graph.generators.topologies import inception_like_edges, layered_edges

RANDOM = {"layered": layered, "daggen": daggen, "inception_like": inception_like, "fork_join": fork_join}


def rng(seed=0):
    return np.random.default_rng(seed)


def edge_set(graph):
    names = [operator.name for operator in graph.operators]
    return {(names[e.source], names[e.target]) for e in graph.edges}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_graph(name):
    one, two = generate_graph(name, rng(3)), generate_graph(name, rng(3))
    assert one == two and one.name == name
    if name in RANDOM:
        assert one != generate_graph(name, rng(4))


@pytest.mark.parametrize("name", GENERATORS)
def test_operators_read_what_their_edges_carry(name):
    graph = generate_graph(name, rng())
    incoming = {i: [] for i in range(len(graph))}
    for edge in graph.edges:
        incoming[edge.target].append(graph.operators[edge.source].outputs[edge.slot])
    for i, operator in enumerate(graph.operators):
        data = [tensor for tensor in operator.inputs if not tensor.constant]
        for tensor in incoming[i]:
            assert tensor in data
        if operator.kind == "Task":
            assert sorted(t.bytes for t in data) == sorted(t.bytes for t in incoming[i])


@given(tasks=st.integers(1, 120), width=st.none() | st.integers(1, 12), most=st.integers(1, 5), seed=st.integers(0, 99))
def test_layered(tasks, width, most, seed):
    graph = layered(rng(seed), tasks=tasks, width=width, predecessors=most)
    assert len(graph) == tasks
    levels = np.bincount(graph.depth)
    assert levels.max() <= (width or 9)
    for edge in graph.edges:
        assert graph.depth[edge.target] == graph.depth[edge.source] + 1
    inner = graph.depth > 0
    assert (graph.in_degree[inner] >= 1).all() and (graph.in_degree <= most).all()
    sources = {(e.source, e.target) for e in graph.edges}
    assert len(sources) == len(graph.edges)  # predecessors are distinct


@pytest.mark.slow
def test_layered_draws_its_counts_and_predecessors_evenly():
    graph = layered(rng(), tasks=60_000, width=8, predecessors=3)
    width = np.bincount(graph.depth)
    free = (graph.depth > 0) & (width[np.maximum(graph.depth - 1, 0)] >= 3)
    share = np.bincount(graph.in_degree[free], minlength=4)[1:] / free.sum()
    np.testing.assert_allclose(share, 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.bincount(width[:-1])[1:] / (len(width) - 1), 1 / 8, atol=0.02)
    first = np.concatenate([[0], np.cumsum(width)])
    place = graph.edge_source - first[graph.depth[graph.edge_source]]
    full = width[graph.depth[graph.edge_source]] == 8
    np.testing.assert_allclose(np.bincount(place[full]) / full.sum(), 1 / 8, atol=0.01)


@given(
    tasks=st.integers(1, 120),
    fat=st.floats(0.05, 3),
    density=st.floats(0, 1),
    regularity=st.floats(0, 1),
    jump=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_daggen(tasks, fat, density, regularity, jump, seed):
    graph = daggen(rng(seed), tasks, fat, density, regularity, jump)
    assert len(graph) == tasks
    levels = np.bincount(graph.depth)
    mean = fat * math.sqrt(tasks)
    assert levels.max() <= max(1, round(mean * (2 - regularity)))
    assert (levels[:-1] >= max(1, round(mean * regularity))).all()
    span = graph.depth[graph.edge_target] - graph.depth[graph.edge_source]
    assert ((span >= 1) & (span <= jump)).all()
    assert (graph.in_degree[graph.depth > 0] >= 1).all()
    before = levels[np.maximum(graph.depth - 1, 0)]
    assert (graph.in_degree <= np.maximum(1, density * before)).all()


def test_daggen_parameters_do_what_they_say():
    def shape(**parameters):
        return daggen(rng(), tasks=900, **parameters)

    assert shape(fat=0.2).depth.max() > shape(fat=0.8).depth.max()
    assert len(shape(density=0.8).edges) > len(shape(density=0.2).edges)
    even, uneven = (np.bincount(shape(regularity=r).depth)[:-1] for r in (1.0, 0.1))
    assert even.std() == 0 < uneven.std()
    far = shape(jump=4)
    assert (far.depth[far.edge_target] - far.depth[far.edge_source]).max() == 4


@given(tasks=st.integers(1, 120), seed=st.integers(0, 99))
def test_inception_like(tasks, seed):
    graph = inception_like(rng(seed), tasks=tasks)
    assert len(graph) == tasks
    assert graph.topological_order[0] == 0 and graph.on_trunk[0] and graph.on_trunk[-1]
    assert (graph.out_degree <= 5).all() and (graph.in_degree <= 5).all()
    assert (graph.out_degree == 0).sum() == 1
    off = ~graph.on_trunk
    assert (graph.in_degree[off] == 1).all() and (graph.out_degree[off] == 1).all()
    trunk = graph.depth[graph.on_trunk]
    assert np.diff(np.sort(trunk)).max(initial=0) <= 5  # four tasks and the join


@pytest.mark.parametrize(
    ("edges", "sources", "targets", "following"),
    [
        (layered_edges, "2 0 1 1 3 0 1 2 1 3 4 6 5 7 6", "4 4 4 5 6 6 7 7 8 8 9 10 11 11 11", 753),
        (inception_like_edges, "0 1 2 0 4 5 6 0 8 9 3 7 10", "1 2 3 4 5 6 7 8 9 10 11 11 11", 34),
    ],
)
def test_compiled_generators_draw_what_numpy_drew(edges, sources, targets, following):
    """Edges, and the next draw, as they were when NumPy drew them in arrays."""
    draw = rng(1)
    source, target = edges(draw, 12)
    assert " ".join(map(str, source)) == sources and " ".join(map(str, target)) == targets
    assert draw.integers(1000) == following


def test_inception_like_with_one_chain_length_is_regular():
    graph = inception_like(rng(), tasks=1 + 3 * 7, branches=(3, 3), length=(2, 2))
    assert graph.on_trunk.sum() == 4
    assert len(graph.edges) == 3 * 9


def test_fork_join():
    graph = fork_join(rng(), stages=3, branches=4)
    assert len(graph) == 3 * 5 + 1 and len(graph.edges) == 3 * 8
    assert graph.on_trunk.sum() == 4 and graph.depth.max() == 6
    assert graph.is_fork.sum() == graph.is_join.sum() == 3


@pytest.mark.parametrize("name", RANDOM)
def test_work_and_payload_have_the_asked_means(name):
    size = {"stages": 400, "branches": 9} if name == "fork_join" else {"tasks": 4000}
    graph = RANDOM[name](rng(), **size, flops=5e9, payload=2e6)
    assert {operator.kind for operator in graph.operators} == {"Task"}
    assert graph.flops.mean() == pytest.approx(5e9, rel=0.06)  # standard error 1.5 %
    assert graph.edge_bytes.mean() == pytest.approx(2e6, rel=0.06)


@pytest.mark.parametrize("tiles", [1, 2, 3, 5, 8])
def test_cholesky_counts(tiles):
    graph = cholesky(tiles, tile=4)
    kinds = [operator.name.partition("(")[0] for operator in graph.operators]
    assert {k: kinds.count(k) for k in ("potrf", "trsm", "syrk", "gemm")} == {
        "potrf": tiles,
        "trsm": tiles * (tiles - 1) // 2,
        "syrk": tiles * (tiles - 1) // 2,
        "gemm": tiles * (tiles - 1) * (tiles - 2) // 6,
    }
    assert graph.depth.max() == 3 * (tiles - 1)  # potrf, trsm, syrk a step
    assert (graph.edge_bytes == 4 * 4 * 8).all()
    n = 4.0 * tiles
    assert graph.flops.sum() == pytest.approx(n**3 / 3, rel=2 / tiles)  # the classic count, to leading order


def test_cholesky_dependencies_by_hand():
    assert edge_set(cholesky(3)) == {
        ("potrf(0)", "trsm(1,0)"),
        ("potrf(0)", "trsm(2,0)"),
        ("trsm(1,0)", "syrk(1,0)"),
        ("trsm(2,0)", "syrk(2,0)"),
        ("trsm(2,0)", "gemm(2,1,0)"),
        ("trsm(1,0)", "gemm(2,1,0)"),
        ("syrk(1,0)", "potrf(1)"),
        ("potrf(1)", "trsm(2,1)"),
        ("gemm(2,1,0)", "trsm(2,1)"),
        ("trsm(2,1)", "syrk(2,1)"),
        ("syrk(2,0)", "syrk(2,1)"),
        ("syrk(2,1)", "potrf(2)"),
    }


@pytest.mark.parametrize("tiles", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(
    ("make", "panel", "flops"),
    [(lu, {"getrf": 0, "trsm": 2, "gemm": 3}, 2 / 3), (qr, {"geqrt": 0, "unmqr": 1, "tsqrt": 1, "tsmqr": 3}, 4 / 3)],
)
def test_lu_and_qr_counts(make, panel, flops, tiles):
    """``panel``: 0 for a task of each step, 1 for one of each row below it, 2 for two of these, 3 for each tile."""
    graph, pairs = make(tiles, tile=4), tiles * (tiles - 1) // 2
    updates = pairs * (2 * tiles - 1) // 3
    kinds = [operator.name.partition("(")[0] for operator in graph.operators]
    counts = tiles, pairs, 2 * pairs, updates
    assert {k: kinds.count(k) for k in panel} == {k: counts[panel[k]] for k in panel}
    old = updates - (tiles - 1) ** 2  # updates of tiles that an earlier step updated
    assert len(graph.edges) == (tiles - 1) ** 2 + 2 * pairs + 2 * updates + old
    assert graph.depth.max() == 3 * (tiles - 1)
    assert (graph.edge_bytes == 4 * 4 * 8).all()
    assert graph.flops.sum() == pytest.approx(flops * (4.0 * tiles) ** 3)  # the classic counts, exactly


def test_lu_and_qr_dependencies_by_hand():
    assert edge_set(lu(2)) == {
        ("getrf(0)", "trsm(0,1)"),
        ("getrf(0)", "trsm(1,0)"),
        ("trsm(0,1)", "gemm(1,1,0)"),
        ("trsm(1,0)", "gemm(1,1,0)"),
        ("gemm(1,1,0)", "getrf(1)"),
    }
    assert {(a, b) for a, b in edge_set(qr(3)) if b.startswith("ts")} == {
        ("geqrt(0)", "tsqrt(1,0)"),
        ("tsqrt(1,0)", "tsqrt(2,0)"),  # the triangle of the diagonal tile
        ("unmqr(0,1)", "tsmqr(1,1,0)"),
        ("tsqrt(1,0)", "tsmqr(1,1,0)"),
        ("unmqr(0,2)", "tsmqr(1,2,0)"),
        ("tsqrt(1,0)", "tsmqr(1,2,0)"),
        ("tsmqr(1,1,0)", "tsmqr(2,1,0)"),  # the tile of the first row
        ("tsqrt(2,0)", "tsmqr(2,1,0)"),
        ("tsmqr(1,2,0)", "tsmqr(2,2,0)"),
        ("tsqrt(2,0)", "tsmqr(2,2,0)"),
        ("geqrt(1)", "tsqrt(2,1)"),
        ("tsmqr(2,1,0)", "tsqrt(2,1)"),
        ("tsqrt(2,1)", "tsmqr(2,2,1)"),
        ("unmqr(1,2)", "tsmqr(2,2,1)"),
        ("tsmqr(2,2,0)", "tsmqr(2,2,1)"),
    }


@pytest.mark.parametrize("size", [2, 3, 5, 10])
def test_gaussian_elimination(size):
    graph = gaussian_elimination(size, block=2)
    assert len(graph) == (size * size + size - 2) // 2
    assert graph.depth.max() == 2 * (size - 1) - 1
    assert (graph.in_degree == 0).sum() == (graph.out_degree == 0).sum() == 1 and graph.in_degree.max() <= 2


def test_gaussian_elimination_dependencies_by_hand():
    assert edge_set(gaussian_elimination(3)) == {
        ("pivot(1)", "update(1,2)"),
        ("pivot(1)", "update(1,3)"),
        ("update(1,2)", "pivot(2)"),
        ("pivot(2)", "update(2,3)"),
        ("update(1,3)", "update(2,3)"),
    }


@pytest.mark.parametrize("points", [2, 4, 8, 32])
def test_fft(points):
    graph = fft(points, block=16)
    ranks = int(math.log2(points))
    assert len(graph) == 2 * points - 1 + points * ranks
    assert len(graph.edges) == 2 * points - 2 + 2 * points * ranks
    assert graph.depth.max() == 2 * ranks and (graph.out_degree == 0).sum() == points
    # Every output depends on every leaf, so every path from the call tree has the same length.
    leaf = [i for i, o in enumerate(graph.operators) if o.name.startswith(f"call({ranks},")]
    last = [i for i, o in enumerate(graph.operators) if o.name.startswith(f"butterfly({ranks},")]
    assert len(leaf) == len(last) == points
    assert all(graph.reaches(i, j) for i in leaf for j in last)


def test_transformer():
    graph = transformer(blocks=2, heads=4, hidden=64, sequence=10, batch=3)
    assert len(graph) == 1 + 2 * (8 * 4 + 9)
    fan = graph.out_degree[[o.name == "block0.norm1" for o in graph.operators]]
    assert fan.tolist() == [12]
    by_name = {operator.name: operator for operator in graph.operators}
    assert by_name["block1.head2.scores"].outputs[0].shape == (3, 10, 10)
    assert by_name["block1.head2.scores"].flops == 2 * 3 * 10 * 10 * 16
    # Matrix products by hand: projections 4 h², feed-forward 8 h², scores and context 2 s h, for each token.
    products = sum(o.flops for o in graph.operators if o.kind == "MatMul")
    assert products == 2 * 3 * 10 * 2 * (12 * 64 * 64 + 2 * 10 * 64)
    assert by_name["block0.up"].weight_bytes == 64 * 256 * 4


def test_lstm_grid():
    graph = lstm_grid(layers=3, steps=5, hidden=8, batch=2, features=6)
    assert len(graph) == 15
    # Upwards h only; onwards h and c: two edges between the same cells.
    assert len(graph.edges) == 2 * 5 + 2 * 3 * 4
    assert graph.depth.max() == 3 + 5 - 2
    assert graph.operators[0].flops == 2 * (2 * (32 * 6 + 32 * 8) + 10 * 32)
    weights = {tensor.name for operator in graph.operators for tensor in operator.inputs if tensor.constant}
    assert len(weights) == 9  # shared in time


def test_mixture_of_experts():
    graph = mixture_of_experts(blocks=2, experts=4, hidden=32, tokens=60, expansion=2, top=2, skew=1.0)
    assert len(graph) == 2 * (4 * 4 + 9)
    by_name = {operator.name: operator for operator in graph.operators}
    rows = [by_name[f"block1.expert{e}.gather"].outputs[0].shape[0] for e in range(4)]
    assert rows == [58, 29, 19, 14]  # 120 x 12/25, 6/25, 4/25, 3/25
    assert by_name["block0.expert1.up"].flops == 2 * 29 * 32 * 64
    assert by_name["block0.concat"].outputs[0].shape == (120, 32)
    assert graph.in_degree[[name == "block0.concat" for name in by_name]].tolist() == [4]
    even = mixture_of_experts(experts=4, tokens=64, skew=0)
    assert len({o.flops for o in even.operators if o.name.endswith(".up")}) == 1
    with pytest.raises(GraphError, match="top is 5, but there are 4 experts"):
        mixture_of_experts(experts=4, top=5)


def test_sharded_product():
    graph = sharded_product(blocks=3, size=10, factors=3)
    assert len(graph) == 2 * (27 + 18) and graph.flops.sum() == 2 * (27 * 2000 + 18 * 100)
    assert graph.depth.max() == 2 * 3 - 1  # product, two sums, product, two sums
    assert edge_set(sharded_product(blocks=2, size=4)) == {
        *((f"product1.({i},{j}).{k}", f"sum1.({i},{j}).1") for i in (0, 1) for j in (0, 1) for k in (0, 1))
    }
    with pytest.raises(GraphError, match="factors is 1"):
        sharded_product(factors=1)


def test_inception():
    graph = inception(blocks=3, batch=2)
    by_name = {operator.name: operator for operator in graph.operators}
    assert len(graph) == 1 + 3 * 14 + 1
    assert by_name["module0.concat"].outputs[0].shape == (2, 256, 28, 28)
    assert by_name["module1.concat"].outputs[0].shape == (2, 480, 28, 28)
    assert by_name["module2.concat"].outputs[0].shape == (2, 512, 14, 14)
    assert by_name["module0.3x3"].flops == 2 * 2 * 128 * 28 * 28 * 96 * 9 + 2 * 128 * 28 * 28
    assert by_name["module0.5x5"].inputs[1].shape == (32, 16, 5, 5)
    branches = graph.in_degree[[name.endswith(".concat") for name in by_name]]
    assert (branches == 4).all()
    assert inception(blocks=11).operators[-1].outputs[0].shape == (1, 1024, 7, 7)


def test_task_graph_has_one_output_for_each_payload():
    source, target, payload = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 3]), np.array([5, 9, 5, 5])
    graph = task_graph("g", np.array([1.0, 2.0, 3.0, 4.0]), source, target, payload)
    assert [len(operator.outputs) for operator in graph.operators] == [2, 1, 0, 0]
    assert graph.edge_bytes.tolist() == [5, 9, 5, 5]
    assert graph.edge_tensor.tolist() == [0, 1, 0, 2]
    assert graph.flops.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("tasks", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_large_graph_takes_seconds(tasks):
    graph = layered(rng(), tasks=tasks, width=tasks // 333)
    assert len(graph) == tasks and graph.depth.max() > 100


def test_names_and_parameters_are_checked():
    with pytest.raises(UnknownName, match="unknown generator 'layred'; did you mean 'layered'"):
        generate_graph("layred", rng())
    with pytest.raises(ConfigError, match="generator 'layered' has no parameter 'widht'; did you mean 'width'"):
        generate_graph("layered", rng(), widht=3)
    with pytest.raises(ConfigError, match="generator 'daggen' draws at random"):
        generate_graph("daggen")


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("layered", {"tasks": 0}, "layered: tasks is 0; it must be a whole number of at least 1"),
        ("layered", {"tasks": 5.5}, "layered: tasks is 5.5"),
        ("layered", {"width": 0}, "width is 0"),
        ("layered", {"predecessors": True}, "predecessors is True"),
        ("layered", {"flops": math.nan}, "layered: flops is nan"),
        ("layered", {"payload": -1}, "layered: payload is -1"),
        ("layered", {"flops": "much"}, "layered: flops is 'much'"),
        ("daggen", {"density": 1.5}, "daggen: density is 1.5; it must be a number between 0 and 1"),
        ("daggen", {"jump": 0}, "daggen: jump is 0"),
        ("daggen", {"fat": -1.0}, "daggen: fat is -1.0"),
        ("fork_join", {"branches": 0}, "fork_join: branches is 0"),
        ("inception_like", {"branches": (3, 2)}, "most of branches is 2; it must be a whole number of at least 3"),
        ("inception_like", {"length": 3}, "length is 3; it must be a pair, the fewest and the most"),
        ("cholesky", {"tiles": -1}, "cholesky: tiles is -1"),
        ("lu", {"tiles": 0}, "lu: tiles is 0"),
        ("qr", {"tile": 0}, "qr: tile is 0"),
        ("fft", {"points": 12}, "fft: points is 12; it must be a power of two"),
        ("gaussian_elimination", {"size": 1}, "size is 1; it must be a whole number of at least 2"),
        ("transformer", {"heads": 7}, "hidden is 256, which 7 heads do not divide"),
        ("lstm_grid", {"steps": 0}, "lstm_grid: steps is 0"),
        ("inception", {"batch": 0}, "inception: batch is 0"),
    ],
)
def test_bad_parameters(name, parameters, message):
    with pytest.raises(GraphError, match=message):
        generate_graph(name, rng(), **parameters)


def test_wavefront_by_hand():
    """Two sweeps over two by two tiles of 3 x 3 numbers: a border has 24 bytes, a tile 72."""
    graph = wavefront(rows=2, columns=2, sweeps=2, tile=3)
    assert edge_set(graph) == {
        *((f"tile({s},0,0)", f"tile({s},{i},{j})") for s in (0, 1) for i, j in ((0, 1), (1, 0))),
        *((f"tile({s},{i},{j})", f"tile({s},1,1)") for s in (0, 1) for i, j in ((0, 1), (1, 0))),
        *((f"tile(0,{i},{j})", f"tile(1,{i},{j})") for i in (0, 1) for j in (0, 1)),
        *((f"tile(0,{i},{j})", "tile(1,0,0)") for i, j in ((0, 1), (1, 0))),
        *(("tile(0,1,1)", f"tile(1,{i},{j})") for i, j in ((0, 1), (1, 0))),
    }
    own = (graph.edge_target - graph.edge_source) == 4
    assert set(graph.edge_bytes[own]) == {72.0} and set(graph.edge_bytes[~own]) == {24.0}
    assert set(graph.flops) == {45.0}


def test_a_wavefront_has_the_depth_of_its_grid():
    assert wavefront(rows=5, columns=7).depth.max() == 5 + 7 - 2
    assert np.bincount(wavefront(rows=5, columns=7).depth).max() == 5
    assert wavefront(rows=4, columns=4, sweeps=3).depth.max() == 2 * 2 + 6  # a sweep follows the one before by two


@pytest.mark.parametrize("family", ["llama", "gpt"])
def test_decoding_unrolls_the_step_of_each_token(family):
    tokens, prompt = 3, 10
    graph = decoding(tokens=tokens, requests=2, prompt=prompt, family=family, layers=2, hidden=32, heads=4)
    names = {operator.name: i for i, operator in enumerate(graph.operators)}
    for token in range(tokens):
        sizes = {"layers": 2, "hidden": 32, "heads": 4, "positions": prompt + tokens, "phase": "decode"}
        step = generate_graph("language_model", family=family, sequence=prompt + token + 1, **sizes)
        inside = {(e.source, e.target) for e in graph.edges if graph.operators[e.source].name.startswith(f"1.{token}.")}
        for edge in step.edges:
            ends = [names[f"1.{token}.{step.operators[i].name}"] for i in (edge.source, edge.target)]
            assert tuple(ends) in inside
        for operator in step.operators:
            mine = graph.operators[names[f"1.{token}.{operator.name}"]]
            if operator.kind != "TensorScatter":
                assert mine.flops == operator.flops
    assert graph.depth.max() + 1 == tokens * (
        decoding(tokens=1, family=family, layers=2, hidden=32, heads=4).depth.max() + 1
    )


def test_decoding_carries_caches_and_words():
    graph = decoding(tokens=3, requests=2, prompt=10, layers=1, hidden=32, heads=4, kv_heads=2)
    names = [operator.name for operator in graph.operators]
    across = {
        (names[e.source], e.slot, names[e.target], graph.operators[e.source].outputs[e.slot].shape)
        for e in graph.edges
        if names[e.source].split(".")[:2] != names[e.target].split(".")[:2]
    }
    cache = "layers.0.self_attn.cache"
    assert across == {
        link
        for request in (0, 1)
        for token in (0, 1)
        for link in (
            (f"{request}.{token}.{cache}", 0, f"{request}.{token + 1}.{cache}", (1, 2, 11 + token, 8)),
            (f"{request}.{token}.{cache}", 1, f"{request}.{token + 1}.{cache}", (1, 2, 11 + token, 8)),
            (f"{request}.{token}.sample", 0, f"{request}.{token + 1}.embed_tokens", (1, 1)),
        )
    }
    weights = {t.name for operator in graph.operators for t in operator.inputs if t.constant and "proj" in t.name}
    assert len(weights) == 7  # shared by all tokens of all requests
    with pytest.raises(GraphError, match="family is 't5'; it must be one of llama, gpt"):
        decoding(family="t5")
