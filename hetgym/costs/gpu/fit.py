"""Fitting of the costs of GPU operators to measurements on several GPUs; cross-validation that holds out a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.costs.forest import TRAINING, Forest
from hetgym.costs.gpu.clock import Sustained, wide
from hetgym.costs.gpu.eager import COLUMNS, ClassTrees, EagerGpuCosts
from hetgym.costs.gpu.work import CLASSES, FALLING, PRODUCTS, RISING, Gpu, features, physics, times, work
from hetgym.device import Device
from hetgym.errors import ArtefactError, require
from hetgym.graph.ops import Operator

ROWS = 40_000  # Most rows of a class; larger ones are thinned at random

ROUNDS = {"linear": 200, "batched": 200, "conv": 500, "rows": 100}
"""Number of trees in a forest, for classes that compute tiles and those that stream rows."""

LEAVES = {"linear": 47, "batched": 47, "conv": 47, "rows": 31}  # Number of leaves in a tree

RATE, FEATURE_SHARE = 0.08, {"linear": 0.6, "batched": 0.3, "conv": 0.6, "rows": 0.3}
"""Learning rate, and share of the features that each tree sees."""

_L2: dict[str, Any] = {"objective": "l2"}
_HUBER: dict[str, Any] = {"objective": "huber", "alpha": 0.1}

LOSSES: dict[str, dict[str, Any]] = {"linear": _L2, "batched": _HUBER, "conv": _L2, "rows": _HUBER}
"""Losses of log ratios; absolute errors cannot be fitted under constraints."""

COMPANIONS = {"batched": ("linear",)}
"""Class -> other classes whose rows its trees are fitted to as well: on one of the GPUs libraries took a single kernel
for all batches."""

_LEAST_SHARE = 0.3  # least kernel time after subtracting the launch, as a share of physics


@dataclass(frozen=True)
class Sample:
    """Operators of one class, measured on one GPU; ArtefactError about times that do not match or are not positive."""

    kind: str  # one of CLASSES
    device: Device  # the GPU
    table: FloatArray  # [r, 11] from work
    seconds: FloatArray  # [r] measured times, each on an idle stream [s]
    session: str = ""  # name of the occasion on which they were measured; clocks differ between occasions

    def __post_init__(self) -> None:
        who = f"{self.kind} on {self.device.name}"
        if self.kind not in CLASSES:
            raise ArtefactError(f"{who}: unknown class; expected one of {', '.join(CLASSES)}")
        if len(self.table) != len(self.seconds) or not len(self.seconds):
            raise ArtefactError(f"{who}: {len(self.table)} operators, {len(self.seconds)} times; expected one each")
        if not (np.isfinite(self.seconds) & (self.seconds > 0)).all():
            raise ArtefactError(f"{who}: a time is not a positive number")

    @classmethod
    def of(
        cls, kind: str, device: Device, operators: Sequence[Operator], seconds: FloatArray, session: str = ""
    ) -> Sample:
        """Make a sample from operators and their times ([r] seconds)."""
        return cls(kind, device, work(operators), np.asarray(seconds, np.float64), session)

    @property
    def gpu(self) -> Gpu:
        """The figures of the device that the models use."""
        return Gpu.of(self.device)

    def bound(self) -> FloatArray:
        """[r] slower of arithmetic and memory at the data sheet's peak [s]."""
        return np.maximum(*times(self.kind, self.table, self.gpu, self.gpu.peak))

    def rate(self) -> float:
        """Rate that long products reach: the ninetieth percentile among the largest three tenths [FLOP/s]."""
        flops = self.table[:, 4]
        long = flops >= np.quantile(flops, 0.7)
        return float(np.quantile(flops[long] / self.seconds[long], 0.9))

    def launch(self) -> float:
        """Time of starting an operator on an idle stream, with the shortest kernel [s].

        That is the least time that the smallest operators take beyond the bound at the best observed utilisation.
        """
        stated = self.bound()
        best = float(np.quantile(stated / self.seconds, 0.98))
        small = stated <= np.quantile(stated, 0.1)
        return max(float(np.quantile((self.seconds - stated / best)[small], 0.02)), 0.0)

    def thinned(self, rows: int, rng: np.random.Generator) -> Sample:
        """A sample of at most ``rows`` rows, chosen at random."""
        if len(self.seconds) <= rows:
            return self
        kept = np.sort(rng.permutation(len(self.seconds))[:rows])
        return replace(self, table=self.table[kept], seconds=self.seconds[kept])


def launches(samples: Sequence[Sample]) -> dict[str, float]:
    """Class -> median over its GPUs of the time of starting an operator [s], for use on other GPUs."""
    return {
        kind: float(np.median([sample.launch() for sample in samples if sample.kind == kind]))
        for kind in CLASSES
        if any(sample.kind == kind for sample in samples)
    }


def fit_class(kind: str, samples: Sequence[Sample], seed: int) -> ClassTrees:
    """Fit the trees of one class; equal seeds give equal trees.

    Raises:
        ArtefactError: no samples of that class or of its :data:`COMPANIONS`.
        MissingExtra: LightGBM is not installed.
    """
    if not any(sample.kind == kind for sample in samples):
        raise ArtefactError(f"no measurements of class {kind!r}")
    rng = np.random.default_rng(seed)
    rates = session_rates(samples)
    kinds = (kind, *COMPANIONS.get(kind, ()))
    parts = [_rows(kind, [s for s in samples if s.kind == other], rates, rng) for other in kinds]
    x, y, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    trees = _grown(kind, x, y, weight, seed)
    low, median, high = (float(q) for q in np.quantile(parts[0][1], (0.001, 0.5, 0.999)))
    return ClassTrees(trees, (low, high), median)


def session_rates(samples: Sequence[Sample]) -> dict[tuple[str, str], float]:
    """GPU and session -> rate of its long products [FLOP/s].

    The trees learn ratios to it, so that they are not fitted to the clock of an occasion. A session without plain
    products takes the median share of the peak of the others.
    """
    rates = {(s.device.name, s.session): s.rate() for s in samples if s.kind == "linear"}
    shares = [rates[s.device.name, s.session] / s.gpu.peak for s in samples if s.kind == "linear"]
    usual = float(np.median(shares)) if shares else 1.0
    return {(s.device.name, s.session): s.gpu.peak * usual for s in samples} | rates


def _grown(kind: str, x: FloatArray, y: FloatArray, weight: FloatArray, seed: int) -> Forest:
    """Trees fitted to log ratios by LightGBM (Ke et al., NeurIPS 2017), monotone in the speed of a board."""
    lightgbm = require("lightgbm", "costs", "fitting costs of GPUs")
    group = kind if kind in PRODUCTS else "rows"
    rising = [name.startswith(RISING) - name.startswith(FALLING) for name in COLUMNS[kind]]
    options = TRAINING | LOSSES[group] | {"min_data_in_leaf": 20, "bagging_freq": 1, "max_bin": 127, "seed": seed}
    options |= {"monotone_constraints": rising, "monotone_constraints_method": "intermediate"}
    options |= {"learning_rate": RATE, "num_leaves": LEAVES[group], "feature_fraction": FEATURE_SHARE[group]}
    return Forest.from_lightgbm(lightgbm.train(options, lightgbm.Dataset(x, y, weight=weight), ROUNDS[group]))


def _rows(
    kind: str, samples: Sequence[Sample], rates: Mapping[tuple[str, str], float], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features, log ratios and weights of rows; the weight is the share of the time that is not the launch."""
    total = sum(len(sample.seconds) for sample in samples)
    x, y, weight = [np.empty((0, len(COLUMNS[kind])))], [np.empty(0)], [np.empty(0)]
    for whole in samples:
        launch = whole.launch()
        sample = whole.thinned(max(1, ROWS * len(whole.seconds) // max(total, ROWS)), rng)
        rate = rates[sample.device.name, sample.session] if kind in PRODUCTS else sample.gpu.peak
        stated = physics(kind, sample.table, sample.gpu, rate)
        kernel = np.maximum(sample.seconds - launch, _LEAST_SHARE * stated)
        x.append(features(sample.kind, sample.table, sample.gpu, rate))
        y.append(np.log(kernel / stated))
        weight.append(np.minimum(kernel / sample.seconds, 1.0))
    return np.concatenate(x), np.concatenate(y), np.concatenate(weight)


def fit(
    samples: Sequence[Sample],
    seed: int,
    card: Mapping[str, Any] | None = None,
    shares: Mapping[Gpu, float] | None = None,
    sustained: Sustained | None = None,
) -> EagerGpuCosts:
    """Fit all classes to samples of each; ``card`` and ``shares`` as for :class:`EagerGpuCosts`."""
    return EagerGpuCosts({kind: fit_class(kind, samples, seed) for kind in CLASSES}, card, shares, sustained)


def law(shares: Mapping[Gpu, float]) -> Sustained:
    """The law of sustained rates with the least squares of logarithms over GPUs that were measured.

    Needs are tried on a grid of 0.5 %; for each the issue shares have a closed form. A figure that no GPU determines
    keeps its default. ``shares`` maps a GPU to the share of the peak that long products reach.
    """
    best, least = Sustained(), np.inf
    for need in (best.need, *np.geomspace(8e-12, 32e-12, 280)):  # the default first, which wins where none is better
        logs: dict[bool, list[float]] = {True: [], False: []}
        trial = replace(best, need=float(need))
        for gpu, share in shares.items():
            logs[wide(gpu)].append(float(np.log(share / trial.clock(gpu))))
        means = {full: float(np.mean(values)) for full, values in logs.items() if values}
        loss = summed((value - means[full]) ** 2 for full, values in logs.items() for value in values)
        if loss < least - 1e-12:
            free = min(float(np.exp(means[False])), 1.0) if False in means else Sustained().free
            taken = min(float(np.exp(means[True])), 1.0) if True in means else Sustained().full
            best, least = Sustained(free, taken, float(need)), loss
    return best


def predicted(model: ClassTrees, sample: Sample, launch: float, share: float) -> FloatArray:
    """[r] times of a sample on an idle stream [s], given the launch [s] and the share that long products reach."""
    gpu = sample.gpu
    rate = gpu.peak * share if sample.kind in PRODUCTS else gpu.peak
    return np.asarray(launch + model.kernels(sample.kind, sample.table, gpu, rate), np.float64)
