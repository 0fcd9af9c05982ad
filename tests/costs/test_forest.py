"""Forests: trees fitted by LightGBM give the same predictions without it; anything that is not a tree is refused."""

import numpy as np
import pytest

from hetgym.costs.forest import Forest
from hetgym.costs.learned_models.boosted import Boosted
from hetgym.errors import ArtefactError

lightgbm = pytest.importorskip("lightgbm")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 8, (600, 4)).astype(np.float32).astype(np.float64)
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1]
    data = lightgbm.Dataset(x, y, params={"verbosity": -1})
    booster = lightgbm.train({"num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": 0}, data, 40)
    return x, y, booster


def test_predictions_are_those_of_the_library(fitted):
    x, _, booster = fitted
    found, expected = Forest.from_lightgbm(booster).predict(x), booster.predict(x)
    assert np.quantile(np.abs(found - expected), 0.98) < 1e-5  # thresholds are kept in 32 bits


def test_a_tree_of_one_leaf(fitted):
    x, _, _ = fitted
    data = lightgbm.Dataset(x, np.full(len(x), 0.25), params={"verbosity": -1})
    booster = lightgbm.train({"verbosity": -1, "num_threads": 1}, data, 3)
    assert np.allclose(Forest.from_lightgbm(booster).predict(x), 0.25)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("feature", lambda a: a + 9, "'feature' holds numbers"),
        ("low", lambda a: np.zeros_like(a), "comes before it"),
        ("high", lambda a: np.full_like(a, -(10**6)), "'high' holds numbers"),
        ("start", lambda a: a[::-1].copy(), "does not list"),
        ("leaf", lambda a: a.astype(np.float64), "expected float32"),
        ("threshold", lambda a: np.full_like(a, np.nan), "'threshold' holds numbers"),
        ("leaf", lambda a: a[:2], "holds numbers"),
    ],
)
def test_tampered_trees_are_refused(fitted, name, change, words):
    arrays = Forest.from_lightgbm(fitted[2]).arrays()
    with pytest.raises(ArtefactError, match=words):
        Forest.from_arrays(arrays | {name: change(arrays[name])}, 4)


def test_boosted_fits_and_repeats(fitted):
    x, y, _ = fitted
    groups = np.arange(len(x), dtype=np.int32)
    one, two = (Boosted.fit(x, y, groups, 3) for _ in range(2))
    assert all(np.array_equal(one.arrays()[k], two.arrays()[k]) for k in one.arrays())
    again = Boosted.from_arrays(one.arrays())
    assert np.array_equal(again.predict(x)[0], one.predict(x)[0])
    assert np.abs(one.predict(x)[0] - y).mean() < 0.15
    far, inside = one.predict(x[:1] + 1e6)
    assert y.min() <= far[0] <= y.max()
    assert not inside[0]
