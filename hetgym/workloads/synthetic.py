"""Synthetic costs with a chosen heterogeneity and a chosen weight of communication.

Pure functions on arrays; all randomness comes from the Generator that is passed in.
"""

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit
from hetgym._tables import all_within
from hetgym._types import FloatArray, Int64Array
from hetgym.errors import ProblemError

SPEEDS = (1.0, 1.5, 2.5, 4.0)  # Nominal speeds of four devices; other numbers of devices interpolate between them

Consistency = Literal["inconsistent", "partial", "consistent"]


def unrelated_costs(
    n: int,
    devices: int,
    rng: np.random.Generator,
    *,
    heterogeneity: float = 0.5,
    work: npt.ArrayLike | None = None,
    spread: float = 0.8,
    classes: int = 4,
    operator_class: npt.ArrayLike | None = None,
) -> FloatArray:
    """Costs of operators whose classes suit the devices differently, as CPUs, GPUs and NPUs do.

    cost[i, d] = work[i] / (speed[d] · affinity[class[i], d]); the speeds are :data:`SPEEDS` in random
    order, each times uniform(0.5, 1.5), the affinities log-normal.

    Args:
        n: number of operators.
        devices: number of devices, p.
        rng: source of all randomness.
        heterogeneity: standard deviation of an affinity's logarithm; 0 gives uniform machines, on
            which one device is faster than another by the same factor for every operator.
        work: [n] seconds on a device of speed 1; drawn log-normal around e seconds by default.
        spread: standard deviation of the drawn work's logarithm.
        classes: number of operator classes.
        operator_class: [n] class of each operator, 0 .. classes - 1; drawn evenly by default.

    Returns:
        [n, p] seconds, positive and finite.

    Raises:
        ProblemError: a parameter out of range, or an array of the wrong length.

    >>> unrelated_costs(50, 4, np.random.default_rng(0)).shape
    (50, 4)
    """
    _counts(n=n, devices=devices, classes=classes)
    _positive(False, heterogeneity=heterogeneity, spread=spread)
    seconds = np.empty(n) if work is None else _vector("work", work, n)
    group = np.empty(n, np.int64) if operator_class is None else np.asarray(operator_class)
    if operator_class is not None and (
        group.shape != (n,) or group.dtype.kind not in "iu" or ((group < 0) | (group >= classes)).any()
    ):
        raise ProblemError(f"operator_class must hold {n} numbers from 0 to {classes - 1}")
    cost, affinity = np.empty((n, devices)), np.empty((classes, devices))
    drawn = work is None, operator_class is None
    kinds = np.array(group, np.int64)
    write_unrelated_costs(rng, heterogeneity, spread, *drawn, np.array(seconds), kinds, speeds(devices), affinity, cost)
    return cost


def speeds(devices: int) -> FloatArray:
    """[p] nominal speeds: :data:`SPEEDS`, or as many numbers between them."""
    return _nominal(devices).copy()


@lru_cache(maxsize=8)
def _nominal(devices: int) -> FloatArray:
    return np.interp(np.linspace(0, len(SPEEDS) - 1, devices), np.arange(len(SPEEDS)), SPEEDS)


# Whoever is to come to place k is drawn from the first k + 1: as many bits as k has, again until they are at most k.
@jit
def _shuffle(rng: np.random.Generator, values: FloatArray) -> None:
    """As ``rng.shuffle``, which permutes in the same way."""
    for k in range(len(values) - 1, 0, -1):
        mask = 1
        while mask < k:
            mask = 2 * mask + 1
        other = rng.integers(0, 1 << 32) & mask
        while other > k:
            other = rng.integers(0, 1 << 32) & mask
        values[k], values[other] = values[other], values[k]


@jit
def write_unrelated_costs(
    rng: np.random.Generator,
    heterogeneity: float,
    spread: float,
    draw_work: bool,
    draw_class: bool,
    work: FloatArray,
    operator_class: Int64Array,
    speed: FloatArray,
    affinity: FloatArray,
    cost: FloatArray,
) -> None:
    """As :func:`unrelated_costs`, for kernels, with ``speed`` overwritten; ``affinity`` and ``cost`` are filled in.

    ``draw_work`` and ``draw_class`` tell whether ``work`` and ``operator_class`` are filled in, too.
    """
    n, d = cost.shape
    for i in range(n if draw_work else 0):
        work[i] = rng.lognormal(1.0, spread)
    for i in range(n if draw_class else 0):
        operator_class[i] = rng.integers(0, len(affinity))
    _shuffle(rng, speed)
    for a in range(d):
        speed[a] *= rng.uniform(0.5, 1.5)
    for c in range(len(affinity)):
        for a in range(d):
            affinity[c, a] = rng.lognormal(0.0, heterogeneity)
    for i in range(n):
        for a in range(d):
            cost[i, a] = work[i] / (speed[a] * affinity[operator_class[i], a])


def range_based_costs(
    n: int,
    devices: int,
    rng: np.random.Generator,
    *,
    beta: float = 0.5,
    mean: float = 1.0,
    work: npt.ArrayLike | None = None,
) -> FloatArray:
    """Costs drawn from a range around each operator's mean (Topcuoglu et al., TPDS 2002, section 5.2).

    The mean w of an operator is uniform in [0, 2 · mean], its cost on a device uniform in
    [w (1 - beta / 2), w (1 + beta / 2)].

    Args:
        n: number of operators.
        devices: number of devices, p.
        rng: source of all randomness.
        beta: range of the costs over the devices, in [0, 2]: 0 makes all devices equal.
        mean: average cost [s].
        work: [n] mean cost of each operator [s]; drawn by default.

    Returns:
        [n, p] seconds.

    Raises:
        ProblemError: a parameter out of range, or an array of the wrong length.
    """
    _counts(n=n, devices=devices)
    _positive(True, mean=mean)
    if not 0 <= beta <= 2:
        raise ProblemError(f"beta is {beta}; it must be between 0 and 2")
    # 1 - random() is in (0, 1], which excludes operators of cost 0.
    middle = 2 * mean * (1 - rng.random(n)) if work is None else _vector("work", work, n)
    return np.asarray(middle[:, None] * rng.uniform(1 - beta / 2, 1 + beta / 2, (n, devices)), np.float64)


def cvb_costs(
    n: int,
    devices: int,
    rng: np.random.Generator,
    *,
    mean: float = 1.0,
    operator_cv: float = 0.6,
    device_cv: float = 0.5,
    consistency: Consistency = "inconsistent",
) -> FloatArray:
    """Costs with given coefficients of variation (Ali et al., Tamkang J. Sci. Eng. 3(3), 2000: CVB).

    A gamma law draws the mean cost of each operator, and a second one its cost on each device.

    Args:
        n: number of operators.
        devices: number of devices, p.
        rng: source of all randomness.
        mean: average cost [s].
        operator_cv: coefficient of variation between operators (standard deviation over mean).
        device_cv: coefficient of variation of one operator between devices.
        consistency: ``consistent``: a device that is faster for one operator is faster for all;
            ``partial``: this holds among the devices of even number; ``inconsistent``: it does not hold.

    Returns:
        [n, p] seconds.

    Raises:
        ProblemError: a parameter out of range.
    """
    _counts(n=n, devices=devices)
    _positive(True, mean=mean)
    _positive(False, operator_cv=operator_cv, device_cv=device_cv)
    if consistency not in ("inconsistent", "partial", "consistent"):
        raise ProblemError(f"consistency is {consistency!r}; it must be inconsistent, partial or consistent")
    cost = mean * _gamma(rng, operator_cv, (n, 1)) * _gamma(rng, device_cv, (n, devices))
    if consistency == "consistent":
        cost.sort(axis=1)
    elif consistency == "partial":
        cost[:, ::2] = np.sort(cost[:, ::2], axis=1)
    return cost


def edge_weights(edges: int, rng: np.random.Generator, spread: float = 0.7) -> FloatArray:
    """[edges] log-normal weights of median 1, for :func:`scale_communication`."""
    _counts(edges=edges)
    _positive(False, spread=spread)
    return rng.lognormal(0.0, spread, edges)


def scale_communication(edge_weight: npt.ArrayLike, cost: npt.ArrayLike, ccr: float) -> FloatArray:
    """Scale edge weights to seconds, so that communication weighs ``ccr`` times as much as computation.

    Args:
        edge_weight: [e] relative sizes.
        cost: [n, p] seconds; inf where an operator cannot be placed.
        ccr: communication-to-computation ratio: mean seconds of an edge over the mean, over operators,
            of an operator's mean cost.

    Returns:
        [e] seconds; as bytes, they belong to a bandwidth of 1 byte/s.

    Raises:
        ProblemError: a negative or NaN number, an operator that no device can run, or weights that are
            all 0.

    >>> scale_communication([1.0, 3.0], [[2.0, 4.0], [5.0, np.inf]], ccr=0.5)
    array([1., 3.])
    """
    weight = np.asarray(edge_weight, np.float64)
    table = np.asarray(cost, np.float64)
    _positive(False, ccr=ccr)
    if weight.ndim != 1 or not all_within(np.ascontiguousarray(weight), True):
        raise ProblemError("edge weights must be a row of finite non-negative numbers")
    finite = all_within(table.ravel(), True)
    placeable: npt.NDArray[np.bool_] | None = None if finite else np.isfinite(table)
    if table.ndim != 2 or (
        placeable is not None and (np.isnan(table).any() or (table < 0).any() or not placeable.any(axis=1).all())
    ):
        raise ProblemError("cost must be [operators, devices], not negative, with a finite number in every row")
    if len(weight) == 0:
        return weight.copy()
    share = float(weight.mean())
    if share == 0:
        raise ProblemError("edge weights are all 0: no scale gives them a communication-to-computation ratio")
    if placeable is None:
        mean = float(np.mean(table.sum(axis=1) / table.shape[1]))
    else:
        mean = float(np.mean(np.where(placeable, table, 0.0).sum(axis=1) / placeable.sum(axis=1)))
    return np.asarray(weight * (ccr * mean / share), np.float64)


def _gamma(rng: np.random.Generator, cv: float, shape: tuple[int, int]) -> FloatArray:
    """Gamma numbers of mean 1 and the given coefficient of variation; all 1 if that is 0."""
    if cv == 0:
        return np.ones(shape)
    return np.maximum(rng.gamma(1 / cv**2, cv**2, shape), np.finfo(np.float64).tiny)


def _counts(**values: int) -> None:
    for name, value in values.items():
        least = 0 if name in ("n", "edges") else 1
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ProblemError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def _positive(strictly: bool, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value) or value < 0 or (strictly and value == 0):
            raise ProblemError(f"{name} is {value}; it must be finite and {'positive' if strictly else 'not negative'}")


def _vector(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    array = np.asarray(values, np.float64)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any():
        raise ProblemError(f"{name} must hold {n} finite non-negative numbers")
    return array
