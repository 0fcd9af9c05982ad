from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, Problem, UnknownName, load_graph, load_platform
from hetgym.costs import COST_MODELS, CostModel, Roofline, cost_model, occupancy
from hetgym.costs.rates import FALLBACK, peak_flops, widened
from hetgym.costs.roofline import EFFICIENCY, MEMORY_EFFICIENCY
from hetgym.device import DEVICE_KINDS, Device
from hetgym.errors import ArtefactError
from hetgym.graph import FAMILIES, KINDS, Operator, Tensor, generate_graph
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.platform import platform_names

SIMPLE = Device(
    "d",
    "gpu",
    {"float32": 1e12, "float16": 4e12},
    1e11,
    launch_overhead=1e-6,
    efficiency={"matmul": 0.5, "elementwise": 0.25, "conv": 0.5},
    memory_efficiency=0.5,
)


def matmul(n, dtype="float32"):
    x = Tensor((n, n), dtype)
    return Operator("mm", "MatMul", (x, x), (x,))


def unary(kind, n, dtype="float32"):
    x = Tensor((n,), dtype)
    return Operator(kind.lower(), kind, (x,), (x,))


def test_arithmetic_bound_and_memory_bound_by_hand():
    big, small = matmul(1000), unary("Relu", 10**6)
    seconds = Roofline().predict([big, small], SIMPLE)
    assert seconds[0] == pytest.approx(1e-6 + 2e9 / 0.5e12)  # 2 n^3 FLOPs; memory would take 0.24 ms of the 4 ms
    assert seconds[1] == pytest.approx(1e-6 + 8e6 / 0.5e11)


def test_a_depthwise_convolution_is_memory_bound_without_an_efficiency_of_its_own():
    x = Tensor((1, 512, 56, 56))
    conv = Operator(
        "c", "Conv", (x, Tensor((512, 1, 3, 3), constant=True)), (x,), {"kernel_shape": (3, 3), "group": 512}
    )
    moved = 2 * x.bytes + 512 * 9 * 4
    assert Roofline().predict([conv], SIMPLE)[0] == pytest.approx(1e-6 + moved / 0.5e11)


def test_views_cost_nothing_and_moves_only_bytes():
    x = Tensor((1000,))
    view, move = Operator("v", "Reshape", (x,), (x,)), Operator("m", "Transpose", (x,), (x,))
    np.testing.assert_allclose(Roofline().predict([view, move], SIMPLE), [0.0, 1e-6 + 8000 / 0.5e11])


def test_dtypes_take_their_own_peak_or_the_documented_one():
    assert peak_flops(SIMPLE, "float16") == 4e12
    assert peak_flops(SIMPLE, "bfloat16") == 1e12  # widened to float32
    assert peak_flops(SIMPLE, "int8") == peak_flops(SIMPLE, "bool") == 1e12
    assert peak_flops(SIMPLE, "float64") == 0
    npu = Device("n", "npu", {"float16": 8e12, "int8": 16e12}, 5e10)
    assert peak_flops(npu, "float32") == 8e12  # computed in 16 bits
    assert peak_flops(npu, "uint8") == peak_flops(npu, "int4") == 16e12
    assert Roofline().predict([matmul(100, "float64"), unary("Transpose", 9, "float64")], npu)[0] == np.inf
    assert np.isfinite(Roofline().predict([unary("Transpose", 9, "float64")], npu)).all()
    assert set(FALLBACK) <= set(DTYPE_BYTES)


def test_a_fused_product_that_is_widened_reads_more_bytes():
    """Rows of 64 numbers of 2 bytes in float16 and of 4 in float32; weights of 512 x 1024 stay as they are."""
    x, w, y = Tensor((64, 512), "float16"), Tensor((512, 1024), "float16", constant=True), Tensor((64, 1024), "float16")
    reads = 2.0 * (64 * 512 + 512 * 1024 + 64 * 1024)
    attributes = {"anchor": "MatMul", "operands": 2, "anchor_output": y.shape, "flops": 1e6, "reads": reads}
    fused = Operator("fc", "Fused-matmul", (x, w, y), (y,), attributes)
    wide, moved = widened(fused, Device("d", "gpu", {"float32": 1e12}, 1e11))
    weights = 2.0 * 512 * 1024
    assert (fused.bytes_read, wide.bytes_read) == (reads, 2 * reads - weights) and wide.flops == fused.flops
    assert moved == (2 + 4) * (64 * 512 + 2 * 64 * 1024)
    wide, moved = widened(fused, Device("d", "gpu", {"float32": 1e12}, 1e11), constants=True)
    assert wide.bytes_read == 2 * reads and moved == (2 + 4) * (64 * 512 + 512 * 1024 + 2 * 64 * 1024)


def test_conversions_of_widened_products_take_their_bytes():
    """Three matrices of 64 x 64 numbers: 2 bytes read and 4 written of the operands, and the reverse of the result."""
    plain = Device("d", "gpu", {"float32": 1e15}, 1e9, memory_efficiency=0.5)
    work = 3 * 64 * 64 * 4 / 0.5e9
    assert Roofline().predict([matmul(64, "float16")], plain)[0] == pytest.approx(work + 3 * 64 * 64 * 6 / 0.5e9)
    assert Roofline().predict([matmul(64)], plain)[0] == pytest.approx(work)


def test_tasks_compute_in_float32_whatever_they_carry():
    device = Device("d", "gpu", {"float32": 1e12, "int8": 100e12}, 1e15, efficiency={"generic": 1.0})
    task = Operator("t", "Task", (), (Tensor((8,), "uint8"),), {"flops": 1e12})
    assert Roofline().predict([task], device)[0] == pytest.approx(1.0)


def test_defaults_cover_every_family_of_every_device_kind():
    for kind in DEVICE_KINDS:
        assert set(EFFICIENCY[kind]) == set(FAMILIES) - {"view"}
        assert all(0 < share <= 1 for share in EFFICIENCY[kind].values())
    assert set(MEMORY_EFFICIENCY) == set(DEVICE_KINDS)


@pytest.mark.parametrize("name", platform_names())
@pytest.mark.parametrize("net", ["transformer", "inception", "lstm_grid", "fft"])
def test_every_preset_prices_every_network(name, net):
    problem = Problem.build(generate_graph(net), load_platform(name))
    assert np.isfinite(problem.cost).all() and (problem.cost >= 0).all()


def test_the_model_sees_crossovers_between_unlike_devices():
    platform = load_platform("cpu-gpu-npu")
    best = {
        platform[int(np.argmin([Roofline().predict([op], d)[0] for d in platform]))].name
        for op in (matmul(2048), unary("Relu", 100), matmul(512, "int8"))
    }
    assert {"cpu", "gpu"} <= best


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 64), st.sampled_from(sorted(DTYPE_BYTES)))
def test_costs_are_never_negative_and_one_by_one_equals_all_at_once(kind, n, dtype):
    x = Tensor((n, n, 3, 3), dtype)
    operators = [Operator("x", kind, (x, x, x), (x,), {"kernel_shape": (3, 3), "flops": 5.0}), unary("Relu", n, dtype)]
    for device in load_platform("cpu-gpu-npu"):
        together = Roofline().predict(operators, device)
        assert (together >= 0).all() and not np.isnan(together).any()
        np.testing.assert_array_equal(together, [Roofline().predict([op], device)[0] for op in operators])
        low, high = Roofline().spread(operators, device)
        assert (low <= together).all() and (together <= high).all()


def test_no_operators():
    assert Roofline().predict([], SIMPLE).shape == (0,)


def test_the_registry():
    for name in COST_MODELS:
        assert isinstance(cost_model(name), CostModel)
    with pytest.raises(UnknownName, match="unknown cost model 'rofline'; did you mean 'roofline'"):
        cost_model("rofline")
    with pytest.raises(UnknownName, match="known: auto, gpu-eager-fp32, .*roofline"):
        cost_model("blnd")


def test_fitted_models_by_name() -> None:
    fitted = cost_model("xeon-core")
    graph, platform = load_graph("alexnet"), load_platform("cpu-gpu")
    cost = Problem.build(graph, platform, "xeon-core").cost
    for number, device in enumerate(platform.devices):  # prices every device, whatever model it names
        assert (cost[:, number] == fitted.predict(graph.operators, device)).all()
    assert (Problem.build(graph, platform, fitted).cost == cost).all()
    with pytest.raises(ArtefactError, match="no cost model 'missing.npz'"):
        cost_model("missing.npz")
    with pytest.raises(ConfigError, match="costs is 3; it must be a cost model"):
        Problem.build(graph, platform, 3)


def test_occupancy_is_the_share_of_the_time_in_which_the_device_works():
    operators = [matmul(1000), matmul(8), unary("Relu", 1000), unary("Flatten", 1000)]
    alone = Roofline().predict(operators, SIMPLE)
    share = occupancy(operators, SIMPLE, alone)
    assert share == pytest.approx([4e-3 / alone[0], 1.536e-8 / alone[1], 1.6e-7 / alone[2], 1.0])
    assert occupancy(operators, SIMPLE, alone / 100)[0] == 1.0  # a model that finds the device faster than the roofline
    assert (occupancy([unary("Add", 1)], SIMPLE, np.array([1e6])) > 0).all()
    assert occupancy([matmul(8, "float64")], SIMPLE, np.array([np.inf])) == 1.0


def test_a_built_problem_knows_its_occupancy():
    graph = generate_graph("inception", np.random.default_rng(0))
    platform = load_platform("cpu-gpu")
    problem = Problem.build(graph, platform)
    for k, device in enumerate(platform.devices):
        assert (problem.occupancy[:, k] == occupancy(graph.operators, device, problem.cost[:, k])).all()
    assert problem.occupancy.min() < 0.5 < problem.occupancy.max()
