from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from hetgym.costs import CostModel, Roofline, artefact
from hetgym.costs.forest import Forest
from hetgym.costs.gpu.clock import Sustained
from hetgym.costs.gpu.eager import COLUMNS, ClassTrees, EagerGpuCosts
from hetgym.costs.gpu.work import CLASSES, FLOOR, Gpu
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph import Operator, Tensor
from hetgym.graph.ops import KINDS

GPU = Device(
    "gpu",
    "gpu",
    {"float32": 1.95e13, "float16": 7.8e13},
    1.555e12,
    launch_overhead=4e-6,
    processors=108,
    cache_bytes=4e7,
)
CPU = Device("cpu", "cpu", {"float32": 1e11}, 1e10)


def stump(low: float, high: float | None = None, feature: int = 0) -> Forest:
    """One tree: low where the feature, the first by default, is at most 20, else high."""
    leaf = np.array([low, low if high is None else high], np.float32)
    return Forest(
        *(np.array(a, np.int32) for a in ([0, 1], [feature])),
        np.array([20.0], np.float32),
        *(np.array(a, np.int32) for a in ([-1], [-2])),
        leaf,
    )


def model(ratio: float = 0.0, limits: tuple[float, float] = (-5.0, 5.0)) -> EagerGpuCosts:
    classes = {kind: ClassTrees(stump(ratio), limits, 0.5, (-0.1, 0.2)) for kind in CLASSES}
    return EagerGpuCosts(classes, {"seed": 1}, sustained=Sustained(1.0, 1.0, 16e-12))


def linear(m, k, n, dtype="float32"):
    weights = Tensor((n, k), dtype, constant=True)
    return Operator("fc", "Gemm", (Tensor((m, k), dtype), weights), (Tensor((m, n), dtype),), {"transB": 1})


def relu(*shape, dtype="float32"):
    return Operator("relu", "Relu", (Tensor(shape, dtype),), (Tensor(shape, dtype),))


def bound(op: Operator, share: float = 1.0) -> float:
    """Physics of an operator on the GPU, if products reach a share of the peak [s]."""
    return FLOOR + op.flops / (share * 1.95e13) + (op.bytes_read + op.bytes_written) / 1.555e12


@lru_cache
def load_shipped() -> EagerGpuCosts:
    return EagerGpuCosts.load(artefact.locate("gpu-eager-fp32"))


@pytest.fixture
def shipped() -> EagerGpuCosts:
    return load_shipped()


def test_seconds_are_launch_and_physics_times_the_ratio():
    ops = [linear(4096, 4096, 4096), relu(10_000, 10_000)]
    for ratio in (0.0, 0.5):
        expected = [4e-6 + bound(op) * math.exp(ratio) for op in ops]
        np.testing.assert_allclose(model(ratio).predict(ops, GPU), expected, rtol=1e-6)
    assert isinstance(model(), CostModel)


def test_limits_hold_and_spread_is_the_scatter_around_the_kernel():
    far = model(9.0, (-1.0, 1.0))
    ops = [linear(4096, 4096, 4096)]
    kernel = bound(ops[0]) * math.e
    np.testing.assert_allclose(far.predict(ops, GPU), 4e-6 + kernel, rtol=1e-6)
    low, high = far.spread(ops, GPU)
    np.testing.assert_allclose([low[0], high[0]], 4e-6 + kernel * np.exp([-0.1, 0.2]), rtol=1e-6)


def test_views_are_free_and_other_devices_are_the_rooflines():
    view = Operator("v", "Reshape", (Tensor((4, 4)),), (Tensor((16,)),))
    assert model().predict([view], GPU)[0] == 0
    ops = [view, linear(64, 64, 64), relu(8, 8)]
    np.testing.assert_array_equal(model().predict(ops, CPU), Roofline().predict(ops, CPU))
    assert model().predict([], GPU).shape == (0,) and model().spread([], GPU)[0].shape == (0,)


def test_a_dtype_without_a_rate_cannot_run():
    assert model().predict([linear(64, 64, 64, "float64")], GPU)[0] == math.inf
    half, single = model().predict([linear(8192, 8192, 8192, "float16"), linear(8192, 8192, 8192)], GPU)
    assert single / half == pytest.approx(4, rel=0.01)


def test_fused_products_take_their_class_by_its_median():
    x = Tensor((1024, 1024))
    fused = Operator("f", "Fused-matmul", (x, x), (x,), {"flops": 2.0 * 1024**3, "reads": 8.0 * 1024**2})
    assert model().predict([fused], GPU)[0] == pytest.approx(4e-6 + FLOOR + 2 * 1024**3 / 1.95e13 * math.exp(0.5))


def test_results_are_kept_by_shape_and_device():
    costs, calls = model(), []
    trees = costs.classes["linear"].trees

    class Counting:
        def predict(self, x):
            calls.append(len(x))
            return trees.predict(x)

    costs.classes["linear"] = replace(costs.classes["linear"], trees=Counting())
    ops = [linear(64, 64, 64)] * 3 + [linear(64, 64, 128)]
    first = costs.predict(ops, GPU)
    assert calls[0] == 2 and max(calls) == 2  # the others are of twice the rows, and so on
    asked = len(calls)
    np.testing.assert_array_equal(costs.predict(ops[::-1], GPU), first[::-1])
    assert len(calls) == asked
    faster = costs.predict(ops, replace(GPU, peak_flops={"float32": 1e15}, memory_bandwidth=1e14))
    assert calls[asked] == 2 and (faster < first).all()


def test_twice_the_batch_never_takes_less():
    """Of a fit that prices 512 rows, less than a millisecond of FLOPs, above 1024, the latter counts for both."""
    classes = {kind: ClassTrees(stump(2.0, 0.0) if kind == "linear" else stump(0.0), (-3, 3), 0.0) for kind in CLASSES}
    costs = EagerGpuCosts(classes, sustained=Sustained(1.0, 1.0, 16e-12))
    once, twice, more = costs.predict([linear(rows, 4096, 4096) for rows in (512, 1024, 2048)], GPU)
    assert once == twice < more


def test_a_single_product_without_weights_doubles_to_two():
    """Not to one of twice the rows, of which the fit says otherwise."""
    classes = {kind: ClassTrees(stump(0.0), (-3, 3), 0.0) for kind in CLASSES}
    one = COLUMNS["batched"].index("log2 batch")
    trees = replace(stump(2.0, 0.0, one), threshold=np.array([0.5], np.float32))
    costs = EagerGpuCosts(classes | {"batched": ClassTrees(trees, (-3, 3), 0.0)})

    def products(batch):
        x = Tensor((batch, 1, 2048, 2048))
        return Operator("bmm", "MatMul", (x, x), (x,))

    once, twice, more = costs.predict([products(batch) for batch in (1, 2, 4)], GPU)
    assert once == twice < more


def test_a_table_is_not_read_whole_whatever_the_batch():
    """Of rows picked from a table, less than a millisecond of bytes is above twice as many: the latter counts."""
    classes = {kind: ClassTrees(stump(2.0, 0.0, feature=1), (-3, 3), 0.0) for kind in CLASSES}
    table = Tensor((2_000_000, 1024), constant=True)

    def gather(rows):
        return Operator("g", "Gather", (table, Tensor((rows,), "int64")), (Tensor((rows, 1024)),), {"axis": 0})

    once, twice, more = EagerGpuCosts(classes).predict([gather(rows) for rows in (120_000, 240_000, 480_000)], GPU)
    assert once == twice < more


def test_products_run_at_the_sustained_rate():
    """A measured board at its share, another one by the law; what streams memory is the same on both."""
    costs = EagerGpuCosts(
        {kind: ClassTrees(stump(0.0), (-1, 1), 0.0) for kind in CLASSES},
        shares={Gpu.of(GPU): 0.8},
        sustained=Sustained(0.9, 0.7, 16e-12),
    )
    ops = [linear(4096, 4096, 4096), relu(10_000, 10_000)]
    kernel, streamed = costs.predict(ops, GPU) - 4e-6
    assert kernel == pytest.approx(bound(ops[0], 0.8))
    stranger = replace(GPU, processors=107, cache_bytes=5e7)
    other, again = costs.predict(ops, stranger) - 4e-6
    assert other == pytest.approx(bound(ops[0], 0.9)) and again == pytest.approx(streamed)
    capped = replace(stranger, power_limit=1.95e13 * 8e-12, process=12e-9)
    assert costs.predict(ops[:1], capped)[0] - 4e-6 == pytest.approx(bound(ops[0], 0.45))
    for share in (0.0, 1.3, "1", True):
        with pytest.raises(ArtefactError, match="expected a number in"):
            EagerGpuCosts(model().classes, shares={Gpu.of(GPU): share})


def test_rates_by_the_law_respect_those_that_were_measured():
    """No board is slower than a measured one that is worse in every figure, nor faster than one that is better."""
    known = replace(GPU, power_limit=250.0, process=7e-9, lanes=16)
    for share in (0.8, 0.95):  # the law says 0.9
        costs = EagerGpuCosts(model().classes, shares={Gpu.of(known): share}, sustained=Sustained(0.9, 0.7, 1e-12))

        def rate(costs=costs, **figures):
            gpu = Gpu.of(replace(known, **figures))
            return costs.share(gpu) * gpu.peak

        assert rate() == pytest.approx(share * 1.95e13) == rate(power_limit=None, process=None, lanes=None)
        assert rate(memory_bandwidth=3e12) == pytest.approx(max(share, 0.9) * 1.95e13)
        assert rate(memory_bandwidth=1e12) == pytest.approx(min(share, 0.9) * 1.95e13)
        assert rate(power_limit=260.0) == pytest.approx(max(share, 0.9) * 1.95e13)
        assert rate(lanes=32) == pytest.approx(0.7 * 1.95e13) and rate(process=4e-9) == pytest.approx(0.9 * 1.95e13)
        rates = [rate(peak_flops={"float32": peak}) for peak in np.linspace(1.5e13, 2.5e13, 41)]
        assert rates == sorted(rates)


def test_the_interval_of_a_model_is_a_factor():
    costs = EagerGpuCosts(model().classes, scatter=(-0.1, 0.2))
    assert costs.whole(2.0) == pytest.approx((2 * math.exp(-0.1), 2 * math.exp(0.2)))


def test_saved_and_loaded_is_the_same(tmp_path):
    classes = {kind: ClassTrees(stump(0.1, 0.7), (-1, 1), 0.3, (-0.1, 0.2)) for kind in CLASSES}
    costs = EagerGpuCosts(classes, {"a": 1}, {Gpu.of(GPU): 0.8}, Sustained(0.9, 0.7, 15e-12), (-0.1, 0.1))
    costs.save(tmp_path / "m.npz")
    again = EagerGpuCosts.load(tmp_path / "m.npz")
    assert (again.card, again.shares) == ({"a": 1}, {Gpu.of(GPU): 0.8})
    assert (again.sustained, again.scatter) == (costs.sustained, costs.scatter)
    ops = [linear(2**i, 64, 64) for i in range(16)] + [relu(3, 2**i) for i in range(20)]
    np.testing.assert_array_equal(again.predict(ops, GPU), costs.predict(ops, GPU))
    np.testing.assert_array_equal(again.spread(ops, GPU), costs.spread(ops, GPU))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "gpu-gemm"}, "holds no 'gpu-eager' model"),
        ({"features": {}}, "features that this version"),
        ({"card": []}, "lacks a card"),
        ({"limits": {"linear": [0, 1]}}, "lacks a card, or limits"),
        ({"median": dict.fromkeys(CLASSES, float("nan"))}, "not a log ratio"),
        ({"median": dict.fromkeys(CLASSES, True)}, "not a log ratio"),
        ({"scatter": dict.fromkeys(CLASSES, [1, 0])}, "rising order"),
        ({"limits": dict.fromkeys(CLASSES, "ab")}, "rising order"),
        ({"limits": dict.fromkeys(CLASSES, [0, 1e9])}, "not a log ratio"),
        ({"shares": None}, "lacks the GPUs"),
        ({"shares": [[1.0, 2.0, 3.0]]}, "lacks the GPUs"),
        ({"shares": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, "8"]]}, "lacks the GPUs"),
        ({"shares": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 8.0]]}, "expected a number in"),
        ({"sustained": None}, "lacks the law"),
        ({"sustained": {"free": 1.0, "full": 0.7}}, "lacks the law"),
        ({"sustained": {"free": 1.0, "full": 0.7, "need": -1.0}}, "need is -1.0"),
        ({"whole models": [1]}, "rising order"),
    ],
)
def test_tampered_headers_are_refused(tmp_path, change, message):
    model().save(tmp_path / "m.npz")
    header, arrays = artefact.load(tmp_path / "m.npz")
    with pytest.raises(ArtefactError, match=message):
        EagerGpuCosts.of_parts({**header, **change}, arrays, "m.npz")


def test_tampered_arrays_are_refused(tmp_path):
    model().save(tmp_path / "m.npz")
    header, arrays = artefact.load(tmp_path / "m.npz")
    wide = {**arrays, "linear feature": np.array([len(COLUMNS["linear"])], np.int32)}
    missing = {name: array for name, array in arrays.items() if name != "softmax leaf"}
    for broken in (wide, missing, {**arrays, "more": np.zeros(1)}):
        with pytest.raises(ArtefactError, match=r"m\.npz"):
            EagerGpuCosts.of_parts(header, broken, "m.npz")
    with pytest.raises(ArtefactError, match="classes are linear; expected"):
        EagerGpuCosts({"linear": ClassTrees(stump(0.0), (-1, 1), 0.0)})


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 2**40), st.integers(1, 2**40), st.integers(0, 3))
def test_any_operator_has_a_finite_positive_price(kind, m, n, operands):
    op = Operator("any", kind, (Tensor((m, n)),) * operands, (Tensor((m, n)),))
    try:
        assume(op.flops >= 0)
    except (IndexError, ValueError, ZeroDivisionError):  # operands that the kind does not have
        reject()
    costs = load_shipped()
    for device in (GPU, replace(GPU, processors=None, cache_bytes=None, peak_flops={"float32": 1.0})):
        low, middle, high = costs.spread([op], device)[0], costs.predict([op], device), costs.spread([op], device)[1]
        assert np.isfinite([low, middle, high]).all() and (low >= 0) & (low <= high)
        assert middle[0] > 0 or op.spec.family == "view"


@pytest.mark.parametrize(
    "op",
    [
        linear(1, 1, 1),
        linear(2**31, 2**31, 2**31),
        linear(1, 2**40, 1),
        relu(),
        relu(0),
        relu(0, 7),
        relu(2**50),
        Operator("empty", "Gemm", (Tensor((0, 8)), Tensor((8, 8))), (Tensor((0, 8)),)),
        Operator("c", "Conv", (Tensor((1, 3, 9, 9)), Tensor((8, 3, 99, 99))), (Tensor((1, 8, 1, 1)),)),
        Operator("odd", "SomethingElse", (Tensor((5,)),), (Tensor((5,)),)),
        Operator("none", "SomethingElse", (), ()),
    ],
)
def test_absurd_shapes_have_a_finite_positive_price(shipped, op):
    seconds = shipped.predict([op], GPU)[0]
    assert 0 < seconds < math.inf


def test_shipped_predictions_stay_as_they_are(shipped):
    """Goldens of the shipped artefact; kernels reach 40 to 100 % of what the data sheet allows."""
    score = Operator("qk", "MatMul", (Tensor((64, 512, 64)), Tensor((64, 64, 512))), (Tensor((64, 512, 512)),))
    softmax = Operator("s", "Softmax", (Tensor((32768, 512)),), (Tensor((32768, 512)),))
    ops = [linear(8192, 1024, 4096), score, relu(8192, 4096), softmax]
    seconds = shipped.predict(ops, GPU)
    ideal = np.maximum(
        [op.flops / 1.95e13 for op in ops], [(op.bytes_read + op.bytes_written) / 1.555e12 for op in ops]
    )
    assert (seconds > ideal).all() and (seconds < 2.5 * ideal).all()
    np.testing.assert_allclose(seconds, GOLDEN, rtol=1e-6)
    assert Gpu.of(GPU).key in {
        gpu.key for gpu in shipped.shares
    }  # equal to the last digit, else it would be a stranger
    stranger = replace(GPU, peak_flops={"float32": 6.69e13}, memory_bandwidth=3.3e12, processors=132, cache_bytes=5e7)
    faster = shipped.predict(ops, stranger)
    assert (faster < seconds).all() and (faster > seconds / 4).all()


@pytest.mark.parametrize("window", [1, 3, 5, 7])
def test_half_precision_convolutions_stay_within_the_peak(shipped, window):
    device = Device("v100", "gpu", {"float32": 14e12, "float16": 112e12}, 900e9, processors=80)
    images = Tensor((32, 256, 56, 56), "float16")
    weights = Tensor((256, 256, window, window), "float16", constant=True)
    attributes = {"kernel_shape": (window, window), "pads": (window // 2,) * 4, "strides": (1, 1)}
    conv = Operator("conv", "Conv", (images, weights), (images,), attributes)
    seconds = shipped.predict([conv], device)[0]
    assert conv.flops / 112e12 <= seconds <= 2 * conv.flops / 112e12


def test_a_board_without_the_power_for_its_clock_is_slower(shipped):
    """An L4 has 72 W for 30 TFLOP/s and cannot hold its boost clock, whether or not its power is spelt out."""
    rates = {"float32": 30.3e12}
    board = Device("gpu0", "gpu", rates, 300e9, processors=58, cache_bytes=48e6)
    named = replace(board, model="NVIDIA L4")
    spelt = replace(board, power_limit=72.0, process=4e-9, lanes=32)
    op = [linear(8192, 8192, 8192)]
    free, capped, again = (shipped.predict(op, device)[0] for device in (board, named, spelt))
    assert capped == again and 1.4 < capped / free < 2.2
    assert shipped.predict([relu(8192, 4096)], named) == shipped.predict([relu(8192, 4096)], board)


BOARDS = (
    "NVIDIA A100-PCIE-40GB",
    "NVIDIA H100 80GB HBM3",
    "Tesla P100-PCIE-16GB",
    "Tesla P4",
    "Tesla T4",
    "Tesla V100-PCIE-32GB",
)
GOLDEN = [4.112705949e-03, 1.555073624e-04, 2.018226546e-04, 1.112461625e-04]


def test_shipped_card_says_what_it_was_fitted_to(shipped):
    card = shipped.card
    assert "NeuSight" in card["source"] and "MIT" in card["licence"] and "train" in card["split"]
    held = card["held out GPU, mean absolute error"]
    assert set(held) == {*CLASSES, "model"} and set(held["model"]) == set(BOARDS)
    assert all(error < 0.15 for error in held["model"].values())
    assert artefact.locate("gpu-eager-fp32").stat().st_size < 600_000
