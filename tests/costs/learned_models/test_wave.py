"""WaveLaw: figures recovered, its shape, and devices that were not measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym._types import FloatArray
from hetgym.costs.features import COLUMN, FEATURES
from hetgym.costs.learned_models.calibrated import Calibrated
from hetgym.costs.learned_models.wave import WaveLaw
from hetgym.errors import ArtefactError

GAMMA, BETA = {"compute": 0.8, "memory": 0.6}, {"compute": 1.5, "memory": 0.25}
TILE = 0.4


def device(n: int, seed: int, waves: tuple[float, float], balance: float = 8.0) -> tuple[FloatArray, FloatArray]:
    """Operators of one device: all waves within a range, far to one side of the balance or the other."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, len(FEATURES)))
    x[:, COLUMN["log2_waves"]] = rng.uniform(*waves, n)
    side = rng.random(n) < 0.5
    x[:, COLUMN["log2_balance"]] = np.where(side, balance, -balance)
    tile = x[:, COLUMN["tile_efficiency"]] = rng.uniform(0.3, 1.0, n)
    x[:, COLUMN["wave_efficiency"]] = 1.0
    w = np.exp2(x[:, COLUMN["log2_waves"]])
    gamma = np.where(side, GAMMA["compute"], GAMMA["memory"])
    beta = np.where(side, BETA["compute"], BETA["memory"])
    return x, -np.log(gamma * tile**TILE / (1 + beta / w))


def test_the_figures_are_recovered_in_spite_of_disturbed_rows() -> None:
    x, y = device(400, 0, (-3, 8))
    y = y + 0.02 * np.random.default_rng(1).standard_normal(400)
    y[::25] += 2.0
    fit = WaveLaw.fit(x, y, np.arange(400, dtype=np.int32), 0)
    np.testing.assert_allclose(np.exp(fit.law), [*GAMMA.values(), *BETA.values(), np.exp(TILE), 1.0], rtol=0.05)


def test_the_law_carries_to_a_smaller_device() -> None:
    """Fitted where operators fill few waves, asked where they fill many; a constant ratio does not carry."""
    x, y = device(300, 0, (-3, 2))
    larger, expected = device(300, 1, (2, 7))
    groups = np.arange(300, dtype=np.int32)
    error = {
        kind.name: float(np.abs(np.expm1(kind.fit(x, y, groups, 0).predict(larger)[0] - expected)).mean())
        for kind in (WaveLaw, Calibrated)
    }
    assert error["wave"] < 0.05 < 0.3 < error["calibrated"]


def test_large_operators_follow_gamma_minus_alpha_over_waves() -> None:
    x, y = device(300, 0, (-3, 8))
    fit = WaveLaw.fit(x, y, np.arange(300, dtype=np.int32), 0)
    many, _ = device(50, 2, (5, 8))
    compute = many[:, COLUMN["log2_balance"]] > 0
    w = np.exp2(many[compute, COLUMN["log2_waves"]])
    many[:, COLUMN["tile_efficiency"]] = 1.0
    linear = GAMMA["compute"] - GAMMA["compute"] * BETA["compute"] / w
    np.testing.assert_allclose(np.exp(-fit.predict(many)[0][compute]), linear, rtol=0.01)


@given(st.floats(-30, 30), st.floats(-30, 30), st.floats(-30, 30))
def test_a_ratio_never_rises_with_the_waves(first: float, second: float, balance: float) -> None:
    x = np.zeros((2, len(FEATURES)))
    x[:, COLUMN["log2_waves"]] = sorted((first, second))
    x[:, COLUMN["log2_balance"]] = balance
    few, many = FITTED.predict(x)[0]
    assert many <= few


FITTED = WaveLaw.fit(*device(200, 0, (-3, 8)), np.arange(200, dtype=np.int32), 0)


def test_one_side_alone_gives_the_other_the_same_figures() -> None:
    x, y = device(300, 0, (-3, 8))
    compute = x[:, COLUMN["log2_balance"]] > 0
    fit = WaveLaw.fit(x[compute], y[compute], np.arange(compute.sum(), dtype=np.int32), 0)
    gamma, other, beta, same = np.exp(fit.law[:4])
    assert gamma == pytest.approx(other, rel=0.02) and beta == pytest.approx(same, rel=0.02)


def test_columns_of_another_kind_are_refused() -> None:
    with pytest.raises(ArtefactError, match="columns"):
        WaveLaw.fit(np.zeros((5, 3)), np.zeros(5), np.arange(5, dtype=np.int32), 0)
