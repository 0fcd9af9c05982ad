"""Polynomial: terms, their choice, and robustness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetgym.costs.learned_models.polynomial import Basis, Polynomial, _terms


@pytest.mark.parametrize(("degree", "together"), [(1, 1), (2, 2), (3, 2), (3, 3), (4, 2), (4, 4)])
def test_terms_are_all_products_once(degree: int, together: int) -> None:
    basis = Basis.build(np.array([3, 0, 5], np.int32), degree, together)
    assert (
        len(basis)
        == _terms(3, degree, together)
        == len({(*c, *d) for c, d in zip(basis.column.tolist(), basis.degree.tolist(), strict=True)})
    )
    assert basis.degree.sum(axis=1).max() == degree
    assert (basis.degree > 0).sum(axis=1).max() == min(together, 3)


def test_terms_are_chebyshev_products() -> None:
    basis = Basis.build(np.array([0, 1], np.int32), 4, 2)
    z = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    angle = np.arccos(z)
    for term, value in enumerate(basis.evaluate(z).T):
        factors = zip(basis.column[term], basis.degree[term], strict=True)
        expected = math.prod((np.cos(d * angle[:, c]) for c, d in factors), start=np.ones(20))
        np.testing.assert_allclose(value, expected * basis.weight[term], atol=1e-12)


def law(x: np.ndarray, degree: int) -> np.ndarray:
    u = x / 5 - 1
    return {
        1: u[:, 0] - 0.5 * u[:, 1],
        2: u[:, 0] * u[:, 1] + u[:, 2] ** 2,
        3: u[:, 0] * u[:, 1] * u[:, 2] + u[:, 0] ** 3,
        4: (u[:, 0] * u[:, 1]) ** 2 - u[:, 2] ** 4,
    }[degree]


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_cross_validation_finds_the_degree(degree: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (500, 3))
    y = law(x, degree) + 0.01 * rng.standard_normal(500)
    fit = Polynomial.fit(x, y, np.arange(500, dtype=np.int32), 0)
    assert fit.basis.degree.sum(axis=1).max() == degree
    fresh = rng.uniform(0.5, 9.5, (300, 3))
    assert np.abs(fit.predict(fresh)[0] - law(fresh, degree)).mean() < 0.01


def test_few_rows_have_few_terms() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (60, 12))
    assert len(Polynomial.fit(x, np.sin(x).sum(axis=1), np.arange(60, dtype=np.int32), 0).basis) <= 30


def test_disturbed_measurements_do_not_bend_the_fit() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (400, 3))
    clean = law(x, 2)
    y = clean + 0.01 * rng.standard_normal(400)
    y[::20] += 3.0  # one run in twenty was interrupted
    fit = Polynomial.fit(x, y, np.arange(400, dtype=np.int32), 0)
    assert np.abs(fit.predict(x)[0] - clean).mean() < 0.02
