"""The laws that benchmarks/costs/laws.py holds models to, on a sample, and that it would see them broken."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hetgym import load_platform
from hetgym.costs import AutoCosts, Roofline, artefact, load_costs
from hetgym.graph import KINDS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "costs" / "laws.py"


@pytest.fixture(scope="module")
def laws() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_costs_laws", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture(scope="module")
def pairs(laws):
    rng = np.random.default_rng(1)
    return [laws.drawn(rng, absurd) for absurd in (False, True) for _ in range(800)]


class Broken(Roofline):
    """A model that is faster for more work, and fails on products."""

    def predict(self, operators, device):
        seconds = 1.0 / (1e-9 + Roofline.predict(self, operators, device))
        return np.where([op.kind == "Gemm" for op in operators], np.nan, seconds)


def test_the_sample_is_wide_and_legal(laws, pairs):
    assert len({pair[0].kind for pair in pairs}) > 60
    assert {pair[0].kind for pair in pairs} - set(KINDS) == {"NotInTheVocabulary"}
    sizes = np.array([pair[1].outputs[0].size for pair in pairs])
    assert sizes.min() <= 2 and 2**38 < sizes.max() <= laws.LIMIT
    for once, twice in pairs:
        assert twice.flops >= once.flops and twice.bytes_read >= once.bytes_read
        assert once.kind == twice.kind and once.dtype == twice.dtype


@pytest.mark.parametrize("platform", ["cpu-gpu", "cpu-gpu-npu"])
def test_twice_the_batch_is_never_faster_by_the_roofline(laws, pairs, platform):
    for device in load_platform(platform):
        found = laws.doubled(Roofline(), device, pairs)
        assert found["faster"] == 0 and found["pairs"] > 1000
        prices = laws.priced(Roofline(), device, [pair[0] for pair in pairs])
        assert prices["not_finite"] == prices["not_positive"] == 0 < prices["cheapest"] < prices["dearest"]


def test_broken_laws_are_seen(laws, pairs):
    gpu = load_platform("cpu-gpu")[1]
    found = laws.doubled(Broken(), gpu, pairs)
    assert found["share"] > 0.3 and found["worst"] < 0.6
    products = sum(pair[0].kind == "Gemm" for pair in pairs)
    assert laws.priced(Broken(), gpu, [pair[0] for pair in pairs])["not_finite"] == products > 0


@pytest.mark.parametrize("name", artefact.names())
def test_shipped_models_price_whatever_is_legal(laws, pairs, name):
    model = load_costs(name)
    device = laws.device_for(name, model, laws.devices())
    prices = laws.priced(model, device, [op for pair in pairs for op in pair])
    assert prices["not_finite"] == prices["not_positive"] == 0


def test_a_model_is_tried_on_a_device_of_its_kind(laws):
    known = laws.devices()
    assert {f"any {kind}" for kind in ("cpu", "gpu", "npu")} <= set(known)
    assert laws.device_for("gpu-something", None, known).kind == "gpu"
    assert laws.device_for("cpu-something", None, known).kind == "cpu"


@pytest.mark.parametrize("name", ["xeon-core", "xeon-core-avx2", "gpu-eager-fp32"])
def test_twice_the_batch_is_never_faster_by_fits(laws, pairs, name):
    model = load_costs(name)
    found = laws.doubled(model, laws.device_for(name, model, laws.devices()), pairs)
    assert found["faster"] == 0 and found["pairs"] > 1000


@pytest.mark.slow
def test_a_better_board_is_never_dearer_by_the_fit_to_gpus(laws, pairs):
    """On all GPUs of the platforms, and between them and the boards of the fit, whose rates were measured."""
    model = load_costs("gpu-eager-fp32")
    for platform in ("cpu-gpu", "cpu-gpu-npu", "cpu-gpu-balanced", "cpu-2gpu-nvlink", "8gpu-node"):
        device = next(d for d in load_platform(platform) if d.costs == "gpu-eager-fp32")
        assert laws.better(model, device, [pair[0] for pair in pairs])["share"] == 0
        prices = np.array([model.predict([p[0] for p in pairs[:400]], _scaled(device, s)) for s in SCALES])
        assert (prices[1:] <= prices[:-1] * (1 + laws.TOLERANCE)).all()


SCALES = (0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 1.6, 3.0)


def _scaled(device, scale):
    rates = {name: scale * rate for name, rate in device.peak_flops.items()}
    return replace(device, peak_flops=rates, memory_bandwidth=scale * device.memory_bandwidth)


def test_half_precision_is_never_slower_where_there_are_units(laws):
    device = laws.devices()["gpu-eager-fp32 + gpu-half"]
    found = laws.precision(AutoCosts(), device, 0, 3000)
    assert found == {"slower_with_units": 0, "faster_without_units": 0}
