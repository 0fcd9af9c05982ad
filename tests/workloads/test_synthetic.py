from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ProblemError
from hetgym.workloads import cvb_costs, edge_weights, range_based_costs, scale_communication, unrelated_costs
from hetgym.workloads.synthetic import SPEEDS

FAMILIES = {"unrelated": unrelated_costs, "range": range_based_costs, "cvb": cvb_costs}


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("family", FAMILIES)
@given(n=st.integers(0, 40), p=st.integers(1, 9), seed=st.integers(0, 99))
def test_costs_are_positive_finite_and_repeatable(family, n, p, seed):
    cost = FAMILIES[family](n, p, rng(seed))
    assert cost.shape == (n, p) and cost.dtype == np.float64
    assert (cost > 0).all() and np.isfinite(cost).all()
    np.testing.assert_array_equal(cost, FAMILIES[family](n, p, rng(seed)))


@pytest.mark.parametrize("devices", [1, 4, 7])
def test_unrelated_costs_are_those_of_numpys_draws(devices):
    one, other = rng(3), rng(3)
    cost = unrelated_costs(20, devices, one, heterogeneity=0.6)
    work, group = other.lognormal(1.0, 0.8, 20), other.integers(0, 4, 20)
    nominal = np.interp(np.linspace(0, 3, devices), np.arange(4), SPEEDS)
    speed = other.permutation(nominal) * other.uniform(0.5, 1.5, devices)
    affinity = other.lognormal(0.0, 0.6, (4, devices))
    np.testing.assert_allclose(cost, work[:, None] / (speed * affinity[group]), rtol=1e-14)
    assert one.bit_generator.state == other.bit_generator.state


def test_without_heterogeneity_devices_differ_by_one_factor():
    cost = unrelated_costs(30, 4, rng(), heterogeneity=0.0)
    ratio = cost / cost[:, :1]
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape))
    assert len(np.unique(np.argmin(cost, axis=1))) == 1


def test_heterogeneity_makes_devices_unrelated():
    winners = [len(np.unique(np.argmin(unrelated_costs(60, 4, rng(s), heterogeneity=1.0), axis=1))) for s in range(20)]
    assert np.mean(winners) > 1.5
    # Within a class, devices stay proportional.
    group = np.arange(60) % 3
    cost = unrelated_costs(60, 4, rng(), heterogeneity=1.0, classes=3, operator_class=group)
    for g in range(3):
        rows = cost[group == g] / cost[group == g][:, :1]
        np.testing.assert_allclose(rows, np.broadcast_to(rows[0], rows.shape))


def test_given_work_scales_the_rows():
    work = np.linspace(1, 5, 20)
    one, two = (unrelated_costs(20, 3, rng(), work=w, operator_class=np.zeros(20, int)) for w in (work, 2 * work))
    np.testing.assert_allclose(two, 2 * one)
    np.testing.assert_allclose(one[:, 0] / work, one[0, 0] / work[0])


def test_drawn_work_has_the_stated_law():
    cost = unrelated_costs(40_000, 1, rng(), heterogeneity=0.0)
    log = np.log(cost[:, 0])
    assert np.std(log) == pytest.approx(0.8, rel=0.02)  # 40 000 draws: the deviation's error is 0.4 %
    assert np.exp(1) / 1.5 * 0.98 <= np.exp(np.mean(log)) <= np.exp(1) / 0.5 * 1.02


def test_the_range_follows_beta():
    cost = range_based_costs(20_000, 6, rng(), beta=0.5, mean=3.0)
    assert cost.mean() == pytest.approx(3.0, rel=0.02)  # its standard error is 0.4 %
    assert (cost.max(axis=1) / cost.min(axis=1)).max() <= 1.25 / 0.75
    work = np.arange(1.0, 6.0)
    np.testing.assert_allclose(range_based_costs(5, 4, rng(), beta=0.0, work=work), np.tile(work[:, None], 4))


def test_cvb_has_the_stated_coefficients_of_variation():
    cost = cvb_costs(20_000, 32, rng(), mean=2.0, operator_cv=0.6, device_cv=0.3)
    assert cost.mean() == pytest.approx(2.0, rel=0.03)
    assert np.mean(cost.std(axis=1, ddof=1) / cost.mean(axis=1)) == pytest.approx(0.3, rel=0.03)
    assert cost.mean(axis=1).std() / cost.mean() == pytest.approx(0.6, rel=0.05)
    equal = cvb_costs(10, 5, rng(), device_cv=0.0)
    np.testing.assert_array_equal(equal, np.tile(equal[:, :1], 5))


def test_consistency():
    full = cvb_costs(50, 6, rng(), consistency="consistent")
    assert (np.diff(full, axis=1) >= 0).all()
    part = cvb_costs(50, 6, rng(), consistency="partial")
    assert (np.diff(part[:, ::2], axis=1) >= 0).all() and (np.diff(part, axis=1) < 0).any()
    assert len(np.unique(np.argmin(cvb_costs(50, 6, rng()), axis=1))) > 1


@given(e=st.integers(1, 50), n=st.integers(1, 20), p=st.integers(1, 5), ccr=st.floats(0, 10), seed=st.integers(0, 99))
def test_communication_has_the_asked_ratio(e, n, p, ccr, seed):
    draw = rng(seed)
    cost = unrelated_costs(n, p, draw)
    cost[:, 0] = np.where(draw.random(n) < 0.3, np.inf, cost[:, 0]) if p > 1 else cost[:, 0]
    weight = edge_weights(e, draw)
    seconds = scale_communication(weight, cost, ccr)
    mean = np.mean([row[np.isfinite(row)].mean() for row in cost])
    assert seconds.mean() == pytest.approx(ccr * mean, rel=1e-12)
    np.testing.assert_allclose(seconds * weight[0], weight * seconds[0])


def test_no_edges_have_no_communication():
    assert scale_communication([], [[1.0]], 5.0).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unrelated_costs(-1, 2, rng()), "n is -1"),
        (lambda: unrelated_costs(3, 0, rng()), "devices is 0"),
        (lambda: unrelated_costs(3, 2, rng(), heterogeneity=np.nan), "heterogeneity is nan"),
        (lambda: unrelated_costs(3, 2, rng(), work=[1.0, -1.0, 1.0]), "work must hold 3"),
        (
            lambda: unrelated_costs(3, 2, rng(), operator_class=[0, 1, 4]),
            "must hold 3 numbers from 0 to 3",
        ),
        (lambda: unrelated_costs(3, 2, rng(), operator_class=[0.0, 1.0, 2.0]), "operator_class"),
        (lambda: range_based_costs(3, 2, rng(), beta=2.5), "beta is 2.5"),
        (lambda: range_based_costs(3, 2, rng(), mean=0.0), "mean is 0.0"),
        (lambda: cvb_costs(3, 2, rng(), device_cv=-0.1), "device_cv is -0.1"),
        (lambda: cvb_costs(3, 2, rng(), consistency="partly"), "consistency is 'partly'"),  # type: ignore[arg-type]
        (lambda: scale_communication([1.0, np.nan], [[1.0]], 1.0), "edge weights"),
        (lambda: scale_communication([0.0], [[1.0]], 1.0), "edge weights are all 0"),
        (lambda: scale_communication([1.0], [[np.inf]], 1.0), "cost must be"),
        (lambda: scale_communication([1.0], [[1.0]], -1.0), "ccr is -1.0"),
        (lambda: edge_weights(2, rng(), spread=-1), "spread is -1"),
    ],
)
def test_bad_parameters(call, message):
    with pytest.raises(ProblemError, match=message):
        call()
