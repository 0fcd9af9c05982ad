"""The shipped models of matrix products on GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym.costs import Roofline
from hetgym.costs.artefact import FOLDER
from hetgym.costs.gpu.gemm import GEMM_GPUS, GemmCosts
from hetgym.device import Device
from hetgym.graph import Operator, Tensor

MODELS = {name: GemmCosts.load(FOLDER / f"gpu-gemm-bf16-{name}.npz") for name in GEMM_GPUS}
SIZE = st.one_of(st.integers(1, 4096), st.integers(0, 2**40))


def device(name):
    gpu = GEMM_GPUS[name]
    return Device(name, "gpu", {"float32": 6e13, "bfloat16": gpu.peak_flops}, gpu.memory_bandwidth)


def product(m, k, n, batch=(), dtype="bfloat16"):
    left, right, out = (Tensor((*batch, *shape), dtype) for shape in ((m, k), (k, n), (m, n)))
    return Operator("product", "MatMul", (left, right), (out,))


@pytest.mark.parametrize("name", list(GEMM_GPUS))
def test_cards_say_where_the_figures_come_from(name):
    model = MODELS[name]
    assert model.gpu == GEMM_GPUS[name]
    assert "Apache-2.0" in model.card["licence"] and f"{name}_sxm" in model.card["source"]
    assert model.card["scores"]["held-out pairs (n, k)"]["mean"] < 0.042
    assert sum(path.stat().st_size for path in FOLDER.glob("gpu-gemm-*.npz")) < 1_500_000


@pytest.mark.parametrize("name", list(GEMM_GPUS))
@given(SIZE, SIZE, SIZE, st.integers(1, 2**20))
def test_any_shape_has_a_positive_finite_time_within_reason(name, m, k, n, batch):
    operators = [product(m, k, n), product(m, k, n, (batch,)), product(m, k, n, dtype="float16")]
    seconds = MODELS[name].predict(operators, device(name))
    assert np.isfinite(seconds).all() and (seconds > 0).all()
    if max(m, n, k) < 2**30:
        slow = Roofline().predict(operators, device(name)) + 1e-5
        assert (seconds < 10 * slow).all()
    assert seconds[0] == seconds[2]


@pytest.mark.parametrize("name", list(GEMM_GPUS))
def test_more_work_takes_longer_across_orders_of_magnitude(name):
    seconds = MODELS[name].seconds(*(np.array([size, 64 * size, 512 * size], float) for size in (1, 8, 8)))
    assert (np.diff(seconds) > 0).all()
    large = MODELS[name].seconds(2**15, 2**13, 2**13)[0]
    assert 0.4 < 2.0 * 2**41 / large / GEMM_GPUS[name].peak_flops < 1.0  # a share of the peak that GEMMs reach


def test_the_faster_memory_shows_where_memory_is_what_counts():
    weights_only = {name: model.seconds(4, 16384, 16384)[0] for name, model in MODELS.items()}
    assert weights_only["a100"] > weights_only["h100"] > weights_only["h200"]
