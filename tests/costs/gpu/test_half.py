"""Costs of 16-bit operators by data sheets: what they do by hand, their laws, and the shipped artefact."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym.costs import AutoCosts, CostModel, Roofline, artefact, load_costs
from hetgym.costs.gpu.gemm import GEMM_GPUS, LAUNCH, MEMORY_EFFICIENCY, GemmCosts
from hetgym.costs.gpu.half import COLUMNS, HalfGpuCosts, HalfTrees
from hetgym.costs.gpu.half_work import (
    ATTENTION_FEATURES,
    ATTENTION_FLOOR,
    PRODUCT_FEATURES,
    HalfGpu,
    attention_dimensions,
    attention_work,
    product_features,
    product_physics,
)
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph import Operator, Tensor
from hetgym.parallel import load_cluster

MODEL = load_costs("gpu-half")
A100 = Device("a", "gpu", {"float32": 19.5e12, "bfloat16": 312e12}, 2.039e12, processors=108, cache_bytes=40e6)
H100 = Device(
    "h",
    "gpu",
    {"float32": 66.9e12, "bfloat16": 989e12, "float8": 1979e12},
    3.35e12,
    processors=132,
    cache_bytes=50e6,
)
V100 = Device("v", "gpu", {"float32": 15.7e12, "float16": 125e12}, 900e9, processors=80, cache_bytes=6e6)
L40S = Device(
    "l", "gpu", {"float32": 91.6e12, "bfloat16": 362e12, "float8": 733e12}, 864e9, processors=142, cache_bytes=96e6
)
SIZE = st.one_of(st.integers(1, 4096), st.integers(0, 2**40))


def product(m, k, n, batch=(), dtype="bfloat16", of=None):
    left, right = (Tensor((*batch, *shape), of or dtype) for shape in ((m, k), (k, n)))
    return Operator("product", "MatMul", (left, right), (Tensor((*batch, m, n), dtype),))


def attention(batch, heads, shared, queries, keys, width=128, cache="bfloat16", dtype="bfloat16", **attributes):
    query, key = Tensor((batch, heads, queries, width), dtype), Tensor((batch, shared, keys, width), cache)
    return Operator("attention", "Attention", (query, key, key), (query,), attributes)


def seconds(operator, device):
    return float(MODEL.predict([operator], device)[0])


def test_the_clock_follows_from_the_float32_rate():
    for device, clock in ((A100, 1.41e9), (H100, 1.98e9), (V100, 1.53e9), (L40S, 2.52e9)):
        assert HalfGpu.of(device).clock == pytest.approx(clock, rel=0.01)
    bare = Device("bare", "gpu", {"bfloat16": 312e12}, 2.039e12)
    assert HalfGpu.of(bare).clock == pytest.approx(1.41e9, rel=0.01)
    assert seconds(product(64, 4096, 4096), bare) == seconds(product(64, 4096, 4096), A100)
    assert HalfGpu.of(replace(bare, peak_flops={"bfloat16": 989e12})).processors == 132
    assert HalfGpu.of(replace(A100, peak_flops={"float32": 1e12})) is None
    assert [HalfGpu.of(device).asynchronous for device in (A100, H100, V100, L40S)] == [False, True, False, False]


def test_physics_by_hand():
    gpu = HalfGpu.of(H100)
    sizes = np.array([[1.0, 64, 512, 1024], [3.0, 8192, 8192, 8192]])
    floor = 4300 / gpu.clock
    slow, fast = product_physics(sizes, gpu, 16), product_physics(sizes, gpu, 8)
    assert slow[0] == pytest.approx(floor + 2 * (64 * 1024 + 512 * 1024 + 64 * 512) / 3.35e12)
    assert slow[1] == pytest.approx(floor + 3 * 2 * 8192**3 / 989e12)
    assert fast[1] - floor == pytest.approx((slow[1] - floor) * 989 / 1979)
    x = dict(zip(PRODUCT_FEATURES, product_features(sizes, gpu, 16)[0], strict=True))
    assert x["log2 m"] == 6 and x["log2 waves, tiles of 64 x 64"] == pytest.approx(math.log2(8 / 132))
    assert x["log2 cycles of the FLOPs at peak"] == pytest.approx(math.log2(2 * 64 * 512 * 1024 / 989e12 * gpu.clock))


def test_results_of_8_bit_products_have_16_bits():
    gpu = HalfGpu.of(H100)
    bound = product_physics(np.array([[1.0, 8192, 8192, 64]]), gpu, 8)
    assert bound[0] == pytest.approx(4300 / gpu.clock + (2 * 8192 * 64 + 2 * 8192**2) / 3.35e12)


def test_a_full_cache_of_shapes_is_emptied(monkeypatch):
    monkeypatch.setattr(sys.modules[HalfGpuCosts.__module__], "REMEMBERED", 2)
    model = HalfGpuCosts(MODEL.classes)
    shapes = [product(64 * k, 512, 512) for k in range(1, 6)]
    apart = [seconds(shape, A100) for shape in shapes]
    for some in ((0, 1), (1, 2), (0, 1, 2), (2,), (4, 3)):
        assert model.predict([shapes[k] for k in some], A100).tolist() == [apart[k] for k in some]


def test_a_fused_product_moves_what_its_other_operators_read():
    """4 MiB of a second summand, at the bandwidth that kernels reach."""
    x, w, y = (Tensor(shape, "bfloat16") for shape in ((2048, 512), (512, 1024), (2048, 1024)))
    reads = float(x.bytes + w.bytes + y.bytes)
    attributes = {"anchor": "MatMul", "operands": 2, "anchor_output": y.shape, "flops": 3e9, "reads": reads}
    fused = Operator("fc", "Fused-matmul", (x, w, y), (y,), attributes)
    alone = Operator("fc", "MatMul", (x, w), (y,))
    for device in (A100, L40S):
        more = seconds(fused, device) - seconds(alone, device)
        assert more == pytest.approx(4 * 2**20 / (device.memory_bandwidth * MEMORY_EFFICIENCY), rel=1e-6)


def test_attention_by_hand():
    long = attention_dimensions(attention(1, 32, 8, 8192, 8192, is_causal=1))
    step = attention_dimensions(attention(64, 32, 8, 1, 8192))
    assert long == (1, 32, 8, 8192, 8192, 128, 2, 1) and step == (64, 32, 8, 1, 8192, 128, 2, 0)
    gpu = HalfGpu.of(A100)
    bound, x = attention_work(np.array([long, step], np.float64), gpu)
    assert x.shape == (2, len(ATTENTION_FEATURES)) and np.isfinite(x).all()
    tiles = 64 * 65 / 2
    written = 2 * 8 * 8192 * 128 * 4 / 2.039e12
    assert bound[0] == pytest.approx(ATTENTION_FLOOR + written + 4 * 128 * 32 * tiles * 128**2 / 312e12)
    moved, written = 64 * (4 * 32 * 128 + 2 * 8 * 8192 * 128 * 2), 2 * 64 * 8 * 128 * 4
    copies = 2 * (3e-6 + 4 * 64 * 32 * 128 / 2.039e12)  # the older library moves queries and results of shared keys
    assert bound[1] == pytest.approx(ATTENTION_FLOOR + copies + (moved + written) / 2.039e12)
    newer, _ = attention_work(np.array([step], np.float64), HalfGpu.of(H100))
    assert newer[0] == pytest.approx(ATTENTION_FLOOR + (moved + written) / 3.35e12)


def test_keys_of_few_blocks_are_split_and_joined():
    few = np.array([attention_dimensions(attention(2, 32, 8, 1, 8192))], np.float64)
    older, x = attention_work(few, HalfGpu.of(A100))
    moved, results = 2 * (4 * 32 * 128 + 2 * 8 * 8192 * 128 * 2), 4 * 2 * 32 * 128
    beside = (
        3 * 3e-6 + (2 * results + 2 * results * 1.6 * 108 / 16 + 2 * 2 * 8 * 128 * 4) / 2.039e12
    )  # two copies, a join
    assert older[0] == pytest.approx(ATTENTION_FLOOR + beside + moved / 2.039e12)
    newer, y = attention_work(few, HalfGpu.of(H100))
    assert newer[0] == pytest.approx(ATTENTION_FLOOR + (moved + 2 * 2 * 8 * 128 * 4) / 3.35e12)
    split = ATTENTION_FEATURES.index("split")
    assert x[0, split] == y[0, split] == 1
    short = np.array([attention_dimensions(attention(2, 32, 8, 1, keys)) for keys in (100, 500, 600)], np.float64)
    assert attention_work(short, HalfGpu.of(A100))[1][:, split].tolist() == [0, 1, 1]
    assert attention_work(short, HalfGpu.of(H100))[1][:, split].tolist() == [0, 0, 1]


def test_exponentials_weigh_more_in_narrow_heads():
    for device, cycle in ((A100, 32), (H100, 64)):  # an exponential takes as long as so many numbers of a head
        gpu = HalfGpu.of(device)
        table = np.array([[8, 16, 16, 6144, 6144, width, 2, 1] for width in (64, 128, 256)], np.float64)
        floor = ATTENTION_FLOOR + 2 * 8 * 16 * 6144 * table[:, 5] * 4 / gpu.bandwidth
        narrow, usual, wide = attention_work(table, gpu)[0] - floor
        rows = 192 if device is H100 else 128  # of a block of narrow heads
        diagonal = 6144**2 / 2 + 6144 * 64, 6144**2 / 2 + 6144 * rows / 2
        assert narrow / usual == pytest.approx((64 + cycle) / (128 + cycle) * diagonal[1] / diagonal[0], rel=0.02)
        assert wide / usual == pytest.approx((256 + cycle) / (128 + cycle), rel=0.02)


@pytest.mark.parametrize("wrong", [attention(1, 2, 2, 4, 4, dtype="float64"), product(2, 2, 2)])
def test_what_is_no_attention_of_floats(wrong):
    assert attention_dimensions(wrong) is None


def test_shapes_of_attention_without_heads():
    q, k = Tensor((6, 16, 64), "float16"), Tensor((6, 32, 64), "float16")
    assert attention_dimensions(Operator("a", "Attention", (q, k, k), (q,)))[:5] == (1, 6, 6, 16, 32)
    q, k = Tensor((16, 64), "float16"), Tensor((32, 64), "float16")
    assert attention_dimensions(Operator("a", "Attention", (q, k, k), (q,)))[:5] == (1, 1, 1, 16, 32)


def test_profiled_boards_take_their_own_trees():
    op = product(4096, 8192, 8192)
    own = load_costs("gpu-gemm-bf16-h100")
    assert isinstance(own, GemmCosts)
    assert seconds(op, H100) == pytest.approx(float(own.products(np.array([[1.0, 4096, 8192, 8192]]))[0]))
    assert seconds(op, replace(H100, memory_bandwidth=3.3e12)) == seconds(op, H100)  # within 3 % of its data sheet
    other = replace(H100, memory_bandwidth=2.0e12)
    expected = MODEL.seconds("product", np.array([[1.0, 4096, 8192, 8192]]), HalfGpu.of(other))[0]
    assert seconds(op, other) == pytest.approx(float(expected))


def test_other_operators_take_the_stated_constants():
    x = Tensor((1000, 1000), "bfloat16")
    relu = Operator("relu", "Relu", (x,), (x,))
    assert seconds(relu, A100) == pytest.approx(LAUNCH + 4e6 / (2.039e12 * MEMORY_EFFICIENCY))
    view = Operator("view", "Reshape", (x,), (x,))
    cpu = Device("cpu", "cpu", {"float32": 1e11}, 1e10)
    operators = [relu, view, product(64, 64, 64), attention(1, 2, 2, 8, 8)]
    np.testing.assert_array_equal(MODEL.predict(operators, cpu), Roofline().predict(operators, cpu))
    assert seconds(view, A100) == 0 and isinstance(MODEL, CostModel) and MODEL.predict([], A100).shape == (0,)
    assert math.isinf(seconds(product(8, 8, 8, dtype="float64"), A100))


def test_experts_are_products_of_their_own():
    tokens, weight = Tensor((4096, 2048), "bfloat16"), Tensor((8, 2048, 1024), "bfloat16", constant=True)
    grouped = Operator("experts", "GroupedMatMul", (tokens, weight), (Tensor((4096, 1024), "bfloat16"),))
    assert seconds(grouped, L40S) == seconds(product(512, 2048, 1024, (8,)), L40S)
    few = replace(grouped, inputs=(Tensor((3, 2048), "bfloat16"), weight), outputs=(Tensor((3, 1024), "bfloat16"),))
    assert seconds(few, L40S) == seconds(product(1, 2048, 1024, (3,)), L40S)
    tokens, gradient = Tensor((2048, 4096), "bfloat16"), Tensor((4096, 1024), "bfloat16")
    weights = Operator("weights", "GroupedMatMul", (tokens, gradient), (Tensor((8, 2048, 1024), "bfloat16"),))
    assert seconds(weights, L40S) == seconds(product(2048, 512, 1024, (8,)), L40S)


@pytest.mark.parametrize("device", [A100, H100], ids=lambda d: d.name)
def test_experts_with_twice_the_rows_are_never_faster(device):
    rng = np.random.default_rng(4)
    pairs = []
    for _ in range(100):
        experts, k, n, rows = int(rng.choice([4, 8, 64])), *(int(2 ** rng.uniform(5, top)) for top in (13, 13, 11))
        weight = Tensor((experts, k, n), "bfloat16", constant=True)
        pairs.append(
            [
                Operator(
                    "experts",
                    "GroupedMatMul",
                    (Tensor((many * rows, k), "bfloat16"), weight),
                    (Tensor((many * rows, n), "bfloat16"),),
                )
                for many in (1, 2)
            ]
        )
    once, twice = (MODEL.predict(operators, device) for operators in zip(*pairs, strict=True))
    assert (twice >= once * (1 - 1e-12)).all()


def test_narrow_weights_take_the_time_of_their_bytes():
    def takes(rows, weights):
        x = Tensor((rows, 8192), "bfloat16")
        return seconds(Operator("fc", "MatMul", (x, Tensor((8192, 8192), weights, constant=True)), (x,)), H100)

    few, many = ([takes(rows, w) for w in ("bfloat16", "int8", "int4")] for rows in (16, 8192))
    assert few[0] / few[1] == pytest.approx(1.9, abs=0.1) and few[0] / few[2] == pytest.approx(3.5, abs=0.2)
    assert many[0] == many[1] == many[2]  # bound by arithmetic


def test_dtypes_without_units_are_widened():
    for shape in ((1, 4096, 4096), (512, 4096, 4096), (8192, 8192, 8192)):
        narrow, single, half = (product(*shape, dtype=d) for d in ("bfloat16", "float32", "float16"))
        for model in (MODEL, Roofline(), load_costs("gpu-gemm-bf16-a100"), load_costs("gpu-eager-fp32")):
            slow, wide = model.predict([narrow, single], V100)
            assert slow > wide
        assert seconds(half, V100) < seconds(narrow, V100)
    quarter = product(4096, 4096, 4096, of="float8")
    assert seconds(quarter, H100) < seconds(product(4096, 4096, 4096), H100)
    assert seconds(quarter, A100) >= seconds(product(4096, 4096, 4096), A100) * 0.999


@given(st.sampled_from([A100, H100, V100, L40S]), *(st.integers(0, 11),) * 3, st.booleans())
@examples(60)
def test_half_precision_is_never_slower_than_float32_with_units(device, m, k, n, odd):
    sizes = [2**e + odd for e in (m, k, n)]
    single, half = (
        [product(*sizes, dtype=dtype), attention(4, 2, 2, sizes[0], sizes[1], dtype=dtype)]
        for dtype in ("float32", "float16")
    )
    assert (MODEL.predict(half, device) <= MODEL.predict(single, device)).all()


@pytest.mark.parametrize("device", [A100, H100, V100, L40S], ids=lambda d: d.name)
def test_twice_the_batch_is_never_faster(device):
    rng = np.random.default_rng(3)
    dtype, pairs = "float16", []
    for _ in range(150):
        m, k, n = (int(2 ** rng.uniform(0, 12)) for _ in range(3))
        batch, heads, keys = (int(2 ** rng.uniform(0, top)) for top in (6, 6, 13))
        queries = keys if rng.random() < 0.5 else 1
        pairs += [
            [product(many * m, k, n, dtype=dtype) for many in (1, 2)],
            [product(m, k, n, (many * batch,), dtype) for many in (1, 2)],
            [attention(many * batch, heads, heads, queries, keys, cache=dtype, dtype=dtype) for many in (1, 2)],
        ]
    once, twice = (MODEL.predict(operators, device) for operators in zip(*pairs, strict=True))
    assert len(once) == 450 and (twice >= once * (1 - 1e-12)).all()


@pytest.mark.parametrize("device", [A100, H100, V100, L40S], ids=lambda d: d.name)
def test_more_bandwidth_or_arithmetic_is_never_slower(device):
    rng = np.random.default_rng(5)
    gpu = HalfGpu.of(device)
    sizes = np.floor(2 ** rng.uniform(0, 13, (300, 4)) ** np.array([0.5, 1, 1, 1]))
    steps = np.stack([*np.floor(2 ** rng.uniform(0, 6, (3, 300))), np.ones(300), sizes[:, 1]], axis=1)
    table = np.concatenate([steps, np.full((300, 1), 128.0), np.full((300, 1), 2.0), np.zeros((300, 1))], axis=1)
    tables = {"product": sizes, "attention": table}
    for kind, rows in tables.items():
        now = MODEL.seconds(kind, rows, gpu)
        wider = replace(gpu, bandwidth=1.3 * gpu.bandwidth)
        assert (MODEL.seconds(kind, rows, wider) <= now * (1 + 1e-12)).all()
        faster = replace(gpu, peak=1.05 * gpu.peak)
        if faster.asynchronous == gpu.asynchronous:
            assert (MODEL.seconds(kind, rows, faster) <= now * (1 + 1e-12)).all()
    better, worse = (replace(device, memory_bandwidth=factor * device.memory_bandwidth) for factor in (1.5, 0.6))
    operators = [product(int(m), int(k), int(n), dtype="float16") for m, k, n in sizes[:60, 1:].astype(int)]
    low, now, high = (MODEL.predict(operators, where) for where in (better, device, worse))
    assert (low <= now * (1 + 1e-12)).all() and (now * (1 + 1e-12) <= high * (1 + 1e-11)).all()


@given(SIZE, SIZE, SIZE, st.integers(1, 2**20), st.integers(1, 128), st.booleans())
@examples(60)
def test_any_shape_has_a_positive_finite_time(m, k, n, batch, width, causal):
    operators = [
        product(m, k, n),
        product(m, k, n, (batch,)),
        product(m, k, n, of="float8"),
        attention(batch, n % 100 + 1, 1, m, k, width, is_causal=int(causal)),
    ]
    for device in (A100, H100, V100, L40S):
        found = MODEL.predict(operators, device)
        assert np.isfinite(found).all() and (found > 0).all()
        low, high = MODEL.spread(operators, device)
        assert (low <= found).all() and (found <= high).all()


def test_attention_takes_longer_for_more_keys_and_wider_heads():
    for device in (A100, H100, L40S):
        steps = [seconds(attention(64, 32, 8, 1, 2**e), device) for e in (6, 10, 14, 17)]
        prompts = [seconds(attention(4, 32, 8, 2**e, 2**e, is_causal=1), device) for e in (4, 8, 12, 15)]
        assert steps == sorted(steps) and prompts == sorted(prompts)
        whole = attention(4, 32, 8, 8192, 8192)
        assert seconds(whole, device) > 1.5 * seconds(attention(4, 32, 8, 8192, 8192, is_causal=1), device)
    small = attention(64, 32, 8, 1, 2**15, cache="float8")
    assert seconds(small, H100) < 0.8 * seconds(attention(64, 32, 8, 1, 2**15), H100)


def test_the_card_says_how_far_off():
    assert isinstance(MODEL, HalfGpuCosts) and "Apache-2.0" in MODEL.card["licence"]
    held = {(row["board"], row["what"]): row["mean"] for row in MODEL.card["scores"]["shapes held out"]}
    assert all(mean < 0.08 for mean in held.values())
    unseen = {(row["board"], row["what"]): row["mean"] for row in MODEL.card["scores"]["boards held out"]}
    for key in (
        ("a100", "prefill"),
        ("a100", "decode"),
        ("h100", "prefill, same kinds"),
        ("h100", "decode, same kinds"),
    ):
        assert unseen[key] < 0.15
    assert artefact.locate("gpu-half").stat().st_size < 500_000


def test_a_model_survives_its_file(tmp_path):
    MODEL.save(tmp_path / "again.npz")
    again = load_costs(tmp_path / "again.npz")
    operators = [product(77, 512, 640), product(77, 512, 640, of="float8"), attention(3, 8, 2, 1, 777)]
    np.testing.assert_array_equal(again.predict(operators, L40S), MODEL.predict(operators, L40S))
    assert (tmp_path / "again.npz").read_bytes() == artefact.locate("gpu-half").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "gpu-eager"}, "holds no 'gpu-half' model"),
        ({"features": {}}, "features that this version"),
        ({"card": None}, "lacks a card"),
        ({"limits": {"product": [0, 1]}}, "lacks a card, or limits"),
        ({"limits": dict.fromkeys(COLUMNS, [1.0, -1.0])}, "limits are"),
        ({"scatter": dict.fromkeys(COLUMNS, "wide")}, "scatter are"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, change, message):
    with np.load(artefact.locate("gpu-half")) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes()) | change
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ArtefactError, match=message):
        HalfGpuCosts.load(tmp_path / "bad.npz")
    with pytest.raises(ArtefactError, match="expected attention, product, product8"):
        HalfGpuCosts({})


def test_measured_boards_are_known_by_their_sheets():
    assert set(GEMM_GPUS) == {"a100", "h100", "h200"}
    with pytest.raises(ArtefactError, match="limits are"):
        HalfTrees(MODEL.classes["product"].trees, (0.0, math.nan), (0.0, 0.0))


@pytest.mark.skipif("HETGYM_DATA" not in os.environ, reason="needs HETGYM_DATA")
def test_the_scores_of_the_card_are_those_of_the_data():
    pytest.importorskip("pyarrow")
    import importlib.util
    import sys
    from pathlib import Path

    path, old = Path(__file__).parents[2] / "benchmarks" / "costs" / "half.py", list(sys.path)
    spec = importlib.util.spec_from_file_location("benchmark_costs_half", path)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    sys.path[:] = old
    found = script.shapes(script.read(Path(os.environ["HETGYM_DATA"]) / "aiconfigurator"), MODEL)
    assert [script._rounded(row) for row in found] == MODEL.card["scores"]["shapes held out"]


@pytest.mark.parametrize("name", ["8gpu-node", "cpu-2gpu-nvlink"])
def test_presets_price_16_bits_by_it_and_all_else_as_before(name: str) -> None:
    device = next(device for device in hetgym.load_platform(name) if device.kind == "gpu")
    graphs = {dtype: hetgym.load_graph("gpt2-xl", phase="decode", dtype=dtype) for dtype in ("bfloat16", "float32")}
    for dtype, model in (("bfloat16", MODEL), ("float32", load_costs("gpu-eager-fp32"))):
        operators = graphs[dtype].operators
        named = [op.dtype == dtype for op in operators]
        assert np.mean(named) > 0.9
        got, expected = AutoCosts().predict(operators, device), model.predict(operators, device)
        high, own = AutoCosts().spread(operators, device)[1], model.spread(operators, device)[1]
        attention = np.array([op.kind == "Attention" for op in operators]) & (dtype == "bfloat16")
        wide = load_costs("gpu-eager-fp32")  # of attention, two products to it, the lesser price counts
        expected[attention] = np.minimum(expected, wide.predict(graphs["float32"].operators, device))[attention]
        own[attention] = np.minimum(own, wide.spread(graphs["float32"].operators, device)[1])[attention]
        assert got[named].tolist() == expected[named].tolist()
        assert high[named].tolist() == own[named].tolist()
    plain = replace(device, peak_flops={"float32": device.peak_flops["float32"]})  # no units: as all else
    single = load_costs("gpu-eager-fp32").predict(graphs["bfloat16"].operators, plain)
    assert AutoCosts().predict(graphs["bfloat16"].operators, plain).tolist() == single.tolist()
    assert AutoCosts().predict([], device).shape == (0,)


def test_clusters_price_16_bits_by_it() -> None:
    device = load_cluster("dgx-a100-64").pools[0].device
    operators = [product(4096, 4096, 4096), product(16, 8192, 1024, dtype="float16")]
    by_board = load_costs("gpu-gemm-bf16-a100").predict(operators, device)
    assert AutoCosts().predict(operators, device).tolist() == by_board.tolist()  # its own trees, as named before


@pytest.mark.parametrize("costs", ["h200", "xeon-core"])
def test_no_product_is_dearer_than_in_float32(costs: str) -> None:
    """Nor does its interval reach higher: on this GPU another model of float32 finds some products cheaper."""
    board = next(device for device in hetgym.load_platform("8gpu-node") if device.kind == "gpu")
    device = replace(board, costs=costs)
    narrow = [product(1, *sizes) for sizes in ((8, 8), (1024, 8192), (8192, 8192))]
    wide = [product(1, *sizes, dtype="float32") for sizes in ((8, 8), (1024, 8192), (8192, 8192))]
    pairs = (load_costs(board.half_costs), narrow), (load_costs(costs), wide)
    half, single = [(model.predict(some, device), *model.spread(some, device)) for model, some in pairs]
    together = AutoCosts().predict(narrow, device), *AutoCosts().spread(narrow, device)
    for found, ours, theirs in zip(together, half, single, strict=True):
        assert found.tolist() == np.minimum(ours, theirs).tolist()
    assert (single[1] < half[1]).any() and (half[1] < single[1]).any()
