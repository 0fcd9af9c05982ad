"""The contract of all regressors: known laws are recovered, predictions stay bounded, artefacts are checked."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hetgym._types import FloatArray, IntArray
from hetgym.costs.features import COLUMN, FEATURES
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Regressor, grouped_folds, settled
from hetgym.errors import ArtefactError

CLASSES = {
    "calibrated": "Calibrated",
    "gaussian": "Gaussian",
    "neural": "Neural",
    "polynomial": "Polynomial",
    "wave": "WaveLaw",
}
COLUMNS = len(FEATURES)


def regressor(name: str) -> type[Regressor]:
    if name in ("gaussian", "neural"):
        pytest.importorskip("torch")
    found: type[Regressor] = getattr(importlib.import_module(f"hetgym.costs.learned_models.{name}"), CLASSES[name])
    return found


@pytest.fixture(scope="module", autouse=True)
def short_training() -> Iterator[None]:
    """As many steps as the tests need, and no more."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("torch"):
            patch.setattr("hetgym.costs.learned_models.neural.STEPS", 300)
            patch.setattr("hetgym.costs.learned_models.gaussian.CHOOSING", 150)
            patch.setattr("hetgym.costs.learned_models.gaussian.STEPS", 60)
        yield


def rows(n: int, seed: int = 0, noise: float = 0.0) -> tuple[FloatArray, FloatArray, IntArray]:
    """Rows of a law such as hardware has: waves that quantise less as they grow, a bend, a product of two columns."""
    rng = np.random.default_rng(seed)
    x = np.full((n, COLUMNS), 3.0)  # most columns never vary
    x[:, :5] = rng.uniform(0, 10, (n, 5))
    x[:, 6] = x[:, 0] - 2.0  # a copy, as the compute time is of the FLOPs
    x[:, COLUMN["log2_waves"]] = x[:, 0] / 2
    bend = 0.5 * np.logaddexp(0.0, x[:, 1] - 5.0)
    y = 0.4 + np.log1p(2.0 / np.exp2(x[:, 0] / 2)) + 0.15 * bend + 0.02 * x[:, 2] * x[:, 3]
    return x, y + noise * rng.standard_normal(n), np.arange(n, dtype=np.int32) // 2


def same(a: dict[str, npt.NDArray[Any]], b: dict[str, npt.NDArray[Any]]) -> bool:
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes() for k in a
    )


@pytest.fixture(scope="module", params=sorted(CLASSES))
def fitted(request: pytest.FixtureRequest) -> Regressor:
    return regressor(request.param).fit(*rows(400, noise=0.02), seed=3)


WITHIN = {"calibrated": 0.60, "gaussian": 0.02, "neural": 0.04, "polynomial": 0.02, "wave": 0.60}


@pytest.mark.parametrize("name", sorted(WITHIN))
def test_a_known_law_is_recovered_on_new_shapes(name: str) -> None:
    fit = regressor(name).fit(*rows(600, noise=0.03), seed=0)
    x, y, _ = rows(400, seed=1)
    predicted, within = fit.predict(x)
    assert np.abs(np.expm1(predicted - y)).mean() < WITHIN[name]
    assert within.mean() > 0.97


def test_predictions_are_bounded_and_flagged_far_outside(fitted: Regressor) -> None:
    _, y, _ = rows(400, noise=0.02)
    far = rows(50, seed=2)[0] * 40.0 - 100.0
    odd = np.array([[np.nan] * COLUMNS, [np.inf] * COLUMNS, [-np.inf] * COLUMNS, [1e300] * COLUMNS])
    predicted, within = fitted.predict(np.concatenate([far, odd]))
    assert not within.any()
    assert np.isfinite(predicted).all()
    below = 0.5 if fitted.name == "wave" else 1e-6  # the law is bounded by its own figures there
    assert predicted.min() >= y.min() - below and predicted.max() <= y.max() + 1e-6


def test_another_value_of_a_constant_column_is_out_of_range(fitted: Regressor) -> None:
    x = rows(20)[0]
    x[:, 5] += 0.5
    assert not fitted.predict(x)[1].any()


def test_a_row_does_not_depend_on_its_neighbours(fitted: Regressor) -> None:
    x = rows(101, seed=4)[0]
    together = fitted.predict(x)[0]
    alone = np.concatenate([fitted.predict(row[None])[0] for row in x])
    assert together.tobytes() == alone.tobytes()


def test_no_rows_are_no_error(fitted: Regressor) -> None:
    predicted, within = fitted.predict(np.zeros((0, COLUMNS)))
    assert (predicted.shape, within.shape) == ((0,), (0,))


def test_equal_seeds_give_equal_arrays(fitted: Regressor) -> None:
    assert same(type(fitted).fit(*rows(400, noise=0.02), seed=3).arrays(), fitted.arrays())


def test_arrays_round_trip(fitted: Regressor) -> None:
    again = type(fitted).from_arrays(fitted.arrays())
    assert same(again.arrays(), fitted.arrays())
    x = rows(50, seed=5)[0]
    assert again.predict(x)[0].tobytes() == fitted.predict(x)[0].tobytes()
    assert all(array.dtype in (np.float64, np.float32, np.int32) for array in fitted.arrays().values())


def test_tampered_arrays_are_refused(fitted: Regressor) -> None:
    good = fitted.arrays()
    bad: list[dict[str, Any]] = [good | {"more": np.zeros(1)}]
    for name, array in good.items():
        bad.append({k: v for k, v in good.items() if k != name})
        bad.append(good | {name: array.astype(np.float16)})
        bad.append(good | {name: array.astype(object)})
        bad.append(good | {name: array.tolist()})
        bad.append(good | {name: array[None]})
        if array.ndim and len(array) > 1:
            bad.append(good | {name: array[:-1]})
        if array.size:
            bad.append(good | {name: np.full_like(array, 2**31 - 1 if array.dtype.kind == "i" else np.nan)})
    for arrays in bad:
        with pytest.raises(ArtefactError):
            type(fitted).from_arrays(arrays)


def test_another_number_of_columns_is_refused(fitted: Regressor) -> None:
    for shape in ((3, COLUMNS + 1), (3, COLUMNS - 1), (COLUMNS,)):
        with pytest.raises(ArtefactError, match=f"expected {COLUMNS} columns"):
            fitted.predict(np.zeros(shape))


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_handful_of_rows_can_be_fitted(name: str, n: int) -> None:
    x, y, groups = rows(n)
    fit = regressor(name).fit(x, y, groups, seed=0)
    predicted, within = fit.predict(x)
    assert within.all()
    assert (predicted >= y.min() - (0.5 if name == "wave" else 1e-6)).all() and (predicted <= y.max() + 1e-6).all()
    assert same(type(fit).from_arrays(fit.arrays()).arrays(), fit.arrays())


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_columns_that_never_vary_can_be_fitted(name: str) -> None:
    x, y, groups = rows(40)
    predicted, within = regressor(name).fit(np.ones_like(x), y, groups, seed=0).predict(np.ones_like(x))
    assert within.all() and np.isfinite(predicted).all()


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_rows_that_cannot_be_fitted_are_refused(name: str) -> None:
    x, y, groups = rows(10)
    hole = x.copy()
    hole[4, 2] = np.nan
    for bad in ((x[:0], y[:0], groups[:0]), (x, y[:9], groups), (x, y, groups[:9]), (x[0], y, groups)):
        with pytest.raises(ArtefactError, match="shapes"):
            regressor(name).fit(*bad, seed=0)
    with pytest.raises(ArtefactError, match="row 4"):
        regressor(name).fit(hole, y, groups, seed=0)
    with pytest.raises(ArtefactError, match="row 0"):
        regressor(name).fit(x, y + np.inf, groups, seed=0)


def test_groups_never_part() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, 300).astype(np.int32)
    part = grouped_folds(groups, 5, rng)
    assert all(len(set(part[groups == group])) == 1 for group in set(groups))
    assert set(part) == set(range(5))
    assert np.ptp(np.bincount(part)) <= np.bincount(groups).max()
    assert set(grouped_folds(np.array([7, 7, 9], np.int32), 5, rng)) == {0, 1}


def test_combinations_that_were_never_near_are_outside() -> None:
    """The box of two columns that go together holds corners that no row is near."""
    t = np.linspace(0, 10, 200)
    x = np.stack([t, t + np.sin(7 * t)], axis=1)
    seen = Seen.fit(x, t)
    assert seen.holds(x).all()
    assert not seen.holds(np.array([[1.0, 9.0], [9.0, 1.0]])).any()


def test_rows_outside_move_inward_and_rows_inside_stay() -> None:
    t = np.linspace(0, 10, 200)
    x = np.stack([t, t + np.sin(7 * t), np.full(200, 4.0)], axis=1)
    seen = Seen.fit(x, t)
    np.testing.assert_allclose(seen.inward(x), x, atol=1e-9)
    far = np.array([[100.0, 100.0, 4.0], [-1e300, np.nan, 9.0], [np.inf, -np.inf, 4.0], [1.0, 9.0, 4.0]])
    moved = seen.inward(far)
    assert ((moved >= seen.lower - 1e-9) & (moved <= seen.upper + 1e-9)).all()
    assert moved[0, 0] > 9 and moved[0, 1] > 9 and (moved[:, 2] == 4).all()


def test_settled_values_hide_the_last_bits() -> None:
    assert settled(np.array([0.1 + 0.2, -1e-12, 9.0]), -1.0, 2.0).tolist() == [0.3, 0.0, 2.0]
