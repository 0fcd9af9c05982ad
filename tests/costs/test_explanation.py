"""Explanations of prices: equal to the prices bit for bit, with hand values and the rules that applied."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hetgym import load_graph, load_platform
from hetgym.costs import AutoCosts, CostModel, Explanation, Roofline, artefact, cost_model, explain, load_costs
from hetgym.costs.features import FEATURES
from hetgym.device import Device
from hetgym.graph import Operator, Tensor
from hetgym.graph.generators import language_model
from hetgym.graph.transforms import fuse, training

CPU, V100 = load_platform("cpu-gpu").devices
A100 = load_platform("8gpu-node")[0]
NPU = next(device for device in load_platform("snapdragon-8-elite") if device.kind == "npu")
H100 = Device("h100", "gpu", {"float32": 67e12, "bfloat16": 989e12, "float16": 989e12, "float8": 1979e12}, 3.35e12,
              launch_overhead=4e-6, processors=132, cache_bytes=50e6, costs="h200", half_costs="gpu-half")  # fmt: skip
PLAIN = Device("plain", "cpu", {"float32": 1e12}, 100e9, launch_overhead=1e-6, memory_efficiency=0.5)
DEVICES = (CPU, V100, A100, H100, NPU, PLAIN, *load_platform("core-pair").devices)


def product(m: int, k: int, n: int, dtype: str = "float32") -> Operator:
    x, w, y = (Tensor(shape, dtype, constant) for shape, constant in (((m, k), False), ((k, n), True), ((m, n), False)))
    return Operator("fc", "MatMul", (x, w), (y,))


def relu(n: int, dtype: str = "float32") -> Operator:
    x = Tensor((n,), dtype)
    return Operator("relu", "Relu", (x,), (x,))


@pytest.fixture(scope="module")
def operators() -> list[Operator]:
    """One operator of each kind, dtype and size of several graphs, and some odd ones."""
    graphs = [load_graph(name) for name in ("squeezenet", "lstm", "shufflenet")]
    graphs += [fuse(graphs[0]).graph, training(graphs[0])]
    for dtype in ("bfloat16", "float16", "float32"):
        graphs.append(language_model("llama", layers=1, kv_heads=2, phase="decode", sequence=64, dtype=dtype))
    graphs.append(language_model("llama", layers=1, experts=8, phase="prefill", dtype="bfloat16"))
    seen: dict[object, Operator] = {}
    for graph in graphs:
        for op in graph.operators:
            seen.setdefault((op.kind, op.dtype, round(math.log2(op.bytes_read + 2) / 3)), op)
    x = Tensor((8, 8), "float64")
    odd = [relu(1), product(1, 4096, 4096, "bfloat16"), product(64, 512, 512, "float8"), product(3, 5, 7, "int8")]
    return [*seen.values(), *odd, Operator("odd", "Mystery", (x,), (x,)), Operator("wide", "MatMul", (x, x), (x,))]


MODELS = ("auto", "roofline", *artefact.names())


@pytest.mark.parametrize("name", MODELS)
def test_explanations_have_the_prices_and_percentiles_of_the_model(name: str, operators: list[Operator]) -> None:
    model = cost_model(name)
    for device in DEVICES if name in ("auto", "roofline") else (CPU, A100, H100, NPU):
        seconds, (low, high) = model.predict(operators, device), model.spread(operators, device)
        for op, *prices in zip(operators, seconds.tolist(), low.tolist(), high.tolist(), strict=True):
            found = explain(op, device, name)
            assert (found.seconds, found.low, found.high) == tuple(prices), (device.name, op, found)
            assert (found.operator, found.kind, found.device) == (op.name, op.kind, device.name)
            assert found.model and found.bound in ("compute", "memory", "none")
            told = found.added + found.physics * found.ratio
            if math.isfinite(found.seconds) and not any("at the memory bandwidth" in rule for rule in found.rules):
                assert found.seconds == pytest.approx(told, rel=1e-6, abs=2e-12)


@pytest.mark.parametrize("name", MODELS)
def test_no_price_is_below_the_time_of_the_memory(name: str, operators: list[Operator]) -> None:
    """Operators whose data do not fit the stated cache, or that of a phone's chip in its precision."""
    for device in DEVICES:
        model = load_costs(device.costs) if name == "auto" and device.costs else cost_model(name)
        seconds = cost_model(name).predict(operators, device)
        moved, held = np.array([op.bytes_read + op.bytes_written for op in operators]), device.cache_bytes or 0.0
        if getattr(model, "form", "") == "phone":
            moved, held = moved / 4, 8e6
        assert (seconds >= np.where(moved > held, moved, 0) / device.memory_bandwidth).all()


def test_the_roofline_by_hand() -> None:
    """64 x 512 x 512: 33.6 MFLOP at 0.7 TFLOP/s, 48 us; 1.3 MB at 50 GB/s, 26 us."""
    found = explain(product(64, 512, 512), PLAIN)
    assert (found.model, found.category, found.bound, found.extrapolates) == ("roofline", "matmul", "compute", False)
    assert found.physics == pytest.approx(2 * 64 * 512 * 512 / 0.7e12) and found.ratio == 1.0
    assert found.added == 1e-6 and found.seconds == pytest.approx(1e-6 + found.physics)
    assert found.low == found.high == found.seconds and found.rules == ()
    small = explain(relu(1000), PLAIN)
    assert small.bound == "memory" and small.seconds == pytest.approx(1e-6 + 8000 / 50e9)


def test_products_without_units_read_constants_as_they_are() -> None:
    """1 x 4096 x 4096 in bfloat16: 33.6 MB of weights at 50 GB/s; activations of 8 KB are converted to 16 KB."""
    found = explain(product(1, 4096, 4096, "bfloat16"), PLAIN)
    wide = (4096 * 4096 * 2 + 2 * 4096 * 4) / 50e9
    assert found.physics == pytest.approx(wide) and found.added == pytest.approx(1e-6 + 2 * 4096 * 6 / 50e9)
    assert "no units for bfloat16: the product is computed in float32" in found.rules[0]
    assert found.seconds < explain(product(1, 4096, 4096), PLAIN).seconds  # half the bytes
    (other,) = explain(product(1, 4096, 4096, "int8"), PLAIN).rules
    assert other == "no rate for int8 in the device's description: the rate of float32 is used"


def test_the_bandwidth_of_the_memory_is_a_bound() -> None:
    """67 MB of weights at 128 GB/s take 0.52 ms, and the fit, of a core with a large cache, says 0.39 ms."""
    op = product(1, 4096, 4096)
    found = explain(op, CPU)
    assert found.seconds == (4096 * 4096 + 2 * 4096) * 4 / 128e9
    assert "moving its bytes takes 0.0005245 s at the memory bandwidth" in found.rules[-1]
    assert found.physics * found.ratio == pytest.approx(0.39e-3, rel=0.05)
    roomy = explain(op, replace(CPU, cache_bytes=80e6))
    assert roomy.seconds < found.seconds and roomy.rules == ()


def test_experts_are_read_where_rows_choose_them() -> None:
    """Two rows read two of eight experts: 2 x 512 x 1024 numbers of 2 bytes."""
    rows, experts, out = (Tensor(s, "bfloat16", c) for s, c in (((2, 512), 0), ((8, 512, 1024), 1), ((2, 1024), 0)))
    chosen = Operator("experts", "GroupedMatMul", (rows, replace(experts, constant=True)), (out,))
    found = explain(chosen, PLAIN)
    assert found.physics == pytest.approx((2 * 512 * 1024 * 2 + 2 * (512 + 1024) * 4) / 50e9)


def test_fits_say_their_class_and_what_lies_outside() -> None:
    wide = load_platform("core-pair")[0]
    usual = explain(product(64, 512, 512), wide)
    assert (usual.model, usual.category, usual.outside, usual.extrapolates) == ("xeon-core", "Gemm", (), False)
    assert usual.low < usual.seconds < usual.high and 0.1 < usual.ratio < 10
    far = explain(product(2**17, 2**14, 2**14), wide)
    assert far.extrapolates and {"log2_flops", "log2_m"} <= set(far.outside or ()) <= {*FEATURES}
    mystery = explain(Operator("odd", "Mystery", (Tensor((8,)),), (Tensor((8,)),)), wide)
    assert "kind 'Mystery' is not in the vocabulary: it is priced as reading and writing its tensors" in mystery.rules


def test_rules_of_batches() -> None:
    """Where the fit prices more rows lower, the larger price, or that of more rows, is used, and a rule says so."""
    said = [explain(product(m, 96, 80), CPU).rules for m in (2, 4, 8, 16, 32, 64, 128, 256)]
    assert any("of the batch, which the fit prices higher" in rule for rules in said for rule in rules)
    said = [explain(product(m, 1024, 1000), V100).rules for m in range(1, 64)]
    assert any("by the fit a larger batch takes less" in rule for rules in said for rule in rules)


def test_rules_of_precisions_and_boards() -> None:
    half = explain(product(512, 4096, 4096, "bfloat16"), A100)
    assert (half.model, half.category) == ("gpu-half", "product") and half.extrapolates is None
    assert half.rules[0] == "half_costs of the device prices bfloat16"
    assert any(rule.startswith("the board is treated as a100, whose own trees") for rule in half.rules)
    single = explain(product(512, 4096, 4096), A100)
    assert (single.model, single.category) == ("gpu-eager-fp32", "linear") and "of the board's peak" in single.rules[0]
    x = Tensor((1, 64, 56, 56))
    conv = Operator("conv", "Conv", (x, Tensor((64, 64, 1, 1), constant=True)), (x,), {"kernel_shape": (1, 1)})
    assert any(rule.startswith("priced as the equivalent product") for rule in explain(conv, A100).rules)
    attention = Tensor((1, 4, 512, 16), "bfloat16")
    narrow = explain(Operator("a", "Attention", (attention,) * 3, (attention,)), A100)
    assert narrow.model in ("gpu-half", "gpu-eager-fp32")
    stranger = explain(product(64, 512, 512), replace(NPU, model="a new board"))
    assert stranger.outside == ("board",) and any("was not fitted" in rule for rule in stranger.rules)
    lost = explain(Operator("wide", "MatMul", (Tensor((8, 8), "float64"),) * 2, (Tensor((8, 8), "float64"),)), PLAIN)
    assert lost.seconds == math.inf and lost.rules == ("the device cannot compute in float64",)


class Foreign:
    """A model of another package: prices, and nothing else."""

    def predict(self, operators, device):
        return np.full(len(operators), 3.0)


class Extended(CostModel):
    """A model that inherits the protocol's explanation."""

    def predict(self, operators, device):
        return np.full(len(operators), 3.0)

    def spread(self, operators, device):
        return np.full(len(operators), 2.0), np.full(len(operators), 5.0)


def test_foreign_models_are_explained_by_their_answers() -> None:
    found = explain(relu(1000), PLAIN, Foreign())  # type: ignore[arg-type]
    assert (found.model, found.seconds, found.low, found.high) == ("Foreign", 3.0, 3.0, 3.0)
    assert found.physics == pytest.approx(8000 / 100e9) and found.ratio == pytest.approx(3.0 / found.physics)
    assert found.extrapolates is None and "does not explain its prices" in found.rules[0]
    found = explain(relu(1000), PLAIN, Extended())
    assert (found.model, found.low, found.high) == ("Extended", 2.0, 5.0)


def test_explanations_are_values() -> None:
    found = explain(relu(1000), PLAIN, "xeon-core")
    assert found.model == "xeon-core" and isinstance(found, Explanation)
    assert found.to_dict()["extrapolates"] == found.extrapolates
    assert isinstance(load_costs("xeon-core"), CostModel) and isinstance(AutoCosts(), CostModel)
    assert isinstance(Roofline(), CostModel)


@pytest.mark.parametrize("platform", ["cpu-2gpu-nvlink", "cpu-gpu", "cpu-gpu-balanced"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_step_of_one_token_reads_weights_at_half_to_all_of_the_bandwidth(platform: str, dtype: str) -> None:
    """As programs do on CPUs: 60 to 90 % in float32 as in 16 bits; of the eight experts two are read."""
    graph, cpu = load_graph("mixtral-8x7b", sequence=512, phase="decode", dtype=dtype), load_platform(platform)[0]
    seconds = AutoCosts().predict(graph.operators, cpu)
    large = [i for i, op in enumerate(graph.operators) if op.spec.family == "matmul" and op.weight_bytes > 4e6]
    assert len(large) >= 193  # six of each of 32 layers, and the head
    for i in large:
        op = graph.operators[i]
        read = op.weight_bytes / (4 if op.kind == "GroupedMatMul" else 1)
        assert 0.5 < read / seconds[i] / cpu.memory_bandwidth <= 1.0, op.name
