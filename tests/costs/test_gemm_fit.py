"""The script that fits products on GPUs: its split, what it may read, and what it writes."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hetgym.costs.gpu.gemm import GEMM_FEATURES, GemmCosts, GemmGpu
from hetgym.errors import ArtefactError

SCRIPT = Path(__file__).parents[2] / "scripts" / "fit" / "gemm.py"
GPU = GemmGpu(peak_flops=1e14, memory_bandwidth=1e12, processors=100, cache_bytes=4e7)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("lightgbm")
    spec = importlib.util.spec_from_file_location("benchmark_costs_gemm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = path  # the script finds its neighbours there
    return module


@pytest.fixture(scope="module")
def products(script):
    """Rows whose times are the data sheet's, times a utilisation that falls with k."""
    sizes = np.array([(m, n, k) for n in range(64, 1025, 64) for k in range(64, 1025, 64) for m in (1, 64, 512)], float)
    made = script.Products(*sizes.T, np.ones(len(sizes)))
    return script.Products(*sizes.T, made.physics(GPU) * (1 + 64 / made.k))


def pairs(products):
    return set(zip(products.n.tolist(), products.k.tolist(), strict=True))


def test_the_split_parts_pairs_and_not_rows(script, products):
    test, rest = script.held_out(products), script.fitting(products)
    assert len(test) + len(rest) == len(products) and not pairs(test) & pairs(rest)
    assert 0.12 < len(pairs(test)) / len(pairs(products)) < 0.28
    assert len(test) == 3 * len(pairs(test))  # all rows of a pair go together
    assert pairs(script.held_out(products[np.arange(len(products))[::-1]])) == pairs(test)


def test_folds_of_cross_validation_part_pairs_too(script, products):
    rest = script.fitting(products)
    fold = script.part(rest, 5, "inner")
    assert set(fold.tolist()) == set(range(5))
    assert not any(pairs(rest[fold == f]) & pairs(rest[fold != f]) for f in range(5))


def test_no_held_out_row_is_read_by_the_fit(script, products):
    spoilt = products.seconds.copy()
    spoilt[script.part(products, 5, str(script.SEED)) == 0] = np.nan
    few = {"num_leaves": 8}
    clean = script.train(products, GPU, few, trees=5)
    poisoned = script.train(script.Products(products.m, products.n, products.k, spoilt), GPU, few, trees=5)
    for one, other in zip(clean, poisoned, strict=True):
        assert one.model_to_string() == other.model_to_string()


def test_a_fit_round_trips_and_repeats_to_the_bit(script, products, tmp_path):
    model, again = (script.fit(products, GPU, {"licence": "none"}, trees=40) for _ in range(2))
    test = script.held_out(products)
    assert script.errors(model.seconds(test.m, test.n, test.k), test.seconds)["mean"] < 0.03
    assert model.card["scores"]["cross-validation on the fitting rows"]["n"] == len(script.fitting(products))
    model.save(tmp_path / "a.npz")
    again.save(tmp_path / "b.npz")
    loaded = GemmCosts.load(tmp_path / "a.npz")
    assert (loaded.gpu, loaded.limits, loaded.scatter, loaded.card) == (GPU, model.limits, model.scatter, model.card)
    for other in (again, loaded):
        np.testing.assert_array_equal(
            other.seconds(test.m, test.n, test.k), model.seconds(test.m, test.n, test.k), strict=True
        )


def test_the_mean_of_forests(script, products):
    x = products.features(GPU)[::7]
    boosters = script.train(products, GPU, {"num_leaves": 8}, trees=5)
    forest = script.mean_forest([script.Forest.from_lightgbm(booster) for booster in boosters])
    np.testing.assert_allclose(forest.predict(x), script.raw(boosters, x), atol=1e-6)


@pytest.fixture(scope="module")
def saved(script, products, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "model.npz"
    forest = script.mean_forest([script.Forest.from_lightgbm(b) for b in script.train(products, GPU, None, 3)])
    GemmCosts(forest, GPU, (-1.0, 1.0), (-0.1, 0.1), {"seed": 0}).save(path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "boosted"}, "holds no 'gpu-gemm' model"),
        ({"features": list(GEMM_FEATURES[1:])}, "features that this version"),
        ({"gpu": {}}, "data sheet"),
        ({"gpu": {"peak_flops": -1.0, "memory_bandwidth": 1.0, "processors": 1, "cache_bytes": 1.0}}, "peak_flops"),
        ({"limits": [1.0, -1.0]}, "limits are"),
        ({"limits": [0.0, float("nan")]}, "NaN is not a JSON number"),
        ({"scatter": "wide"}, "scatter are"),
        ({"card": None}, "card"),
    ],
)
def test_a_header_that_lies_is_refused(saved, tmp_path, change, message):
    with np.load(saved) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes()) | change
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ArtefactError, match=message):
        GemmCosts.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(("name", "value"), [("feature", 10**6), ("low", 10**6), ("high", -(10**6)), ("start", 7)])
def test_indices_out_of_range_are_refused(saved, tmp_path, name, value):
    with np.load(saved) as archive:
        arrays = dict(archive)
    arrays[name][-1] = value
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ArtefactError):
        GemmCosts.load(tmp_path / "bad.npz")


def test_files_that_are_none_are_refused(saved, tmp_path):
    content = saved.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.npz").write_bytes(content[:size])
        with pytest.raises(ArtefactError):
            GemmCosts.load(tmp_path / "cut.npz")
    with pytest.raises(ArtefactError, match="no such file"):
        GemmCosts.load(tmp_path / "none.npz")


@pytest.mark.skipif("HETGYM_DATA" not in os.environ, reason="needs HETGYM_DATA")
@pytest.mark.parametrize("name", ["a100", "h100", "h200"])
def test_the_scores_of_the_shipped_cards_are_those_of_the_data(script, name):
    pytest.importorskip("pyarrow")
    test = script.held_out(script.read(Path(os.environ["HETGYM_DATA"]) / "aiconfigurator", name, script.ENGINES[name]))
    model = GemmCosts.load(script.ARTEFACTS / f"gpu-gemm-bf16-{name}.npz")
    found = script.rounded(script.errors(model.seconds(test.m, test.n, test.k), test.seconds))
    assert found == model.card["scores"]["held-out pairs (n, k)"]
