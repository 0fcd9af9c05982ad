"""Fitting of the costs of GPU operators to measurements on several GPUs; cross-validation that holds out a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.costs.forest import Forest
from hetgym.costs.gpu_eager import COLUMNS, ClassTrees, EagerGpuCosts
from hetgym.costs.gpu_gemm import mean_forest
from hetgym.costs.gpu_work import CLASSES, PRODUCTS, Gpu, features, physics, work
from hetgym.device import Device
from hetgym.errors import ArtefactError, require
from hetgym.graph.ops import Operator

ROWS = 40_000
"""Most rows of a class; larger ones are thinned at random."""

ROUNDS, LEAVES = {"products": 300, "rows": 150}, {"products": 63, "rows": 31}
"""Number of trees in a forest and of leaves in a tree, for classes that compute tiles and those that stream rows."""

RATE, FEATURE_SHARE = 0.06, 0.3
"""Learning rate, and share of the features that each tree sees. With few features not all trees can rely on the one
data-sheet figure that tells the fitted GPUs apart. This improves predictions for other GPUs; see docs/costs-gpu.md."""

FORESTS = {"linear": 2}
"""Class -> number of forests with different seeds, whose mean is the prediction; 1 for classes not listed."""

OTHERS: dict[str, tuple[int, float]] = {"batched": (80, 0.12)}
"""Class -> number of trees and learning rate of its forests for GPUs outside the fit. There is one forest for each GPU
of the fit, fitted without that GPU; the prediction is their mean, so that no single GPU dominates it. In
cross-validation over held-out GPUs this improves batches of products, but not products and convolutions."""

PRIOR = {"linear": 0.25, "batched": 0.25, "softmax": 0.25}
"""Class -> weight of the roofline's default efficiencies in log ratios on GPUs outside the fit; 0 for classes not
listed. Chosen among multiples of 1/4 by cross-validation over held-out GPUs."""

COMPANIONS = {"batched": ("linear",)}
"""Class -> other classes whose rows its trees are fitted to as well: on one of the GPUs libraries took a single kernel
for all batches."""

_LEAST_SHARE = 0.3  # least kernel time after subtracting the launch, as a share of physics


@dataclass(frozen=True)
class Sample:
    """Operators of one class, measured on one GPU.

    Args:
        kind: one of :data:`~hetgym.costs.gpu_work.CLASSES`.
        device: the GPU.
        table: [r, 11] from :func:`~hetgym.costs.gpu_work.work`.
        seconds: [r] measured times, each on an idle stream [s].

    Raises:
        ArtefactError: an unknown class, lengths that do not match, or a time that is not positive.
    """

    kind: str
    device: Device
    table: FloatArray
    seconds: FloatArray

    def __post_init__(self) -> None:
        who = f"{self.kind} on {self.device.name}"
        if self.kind not in CLASSES:
            raise ArtefactError(f"{who}: unknown class; expected one of {', '.join(CLASSES)}")
        if len(self.table) != len(self.seconds) or not len(self.seconds):
            raise ArtefactError(f"{who}: {len(self.table)} operators with {len(self.seconds)} times")
        if not (np.isfinite(self.seconds) & (self.seconds > 0)).all():
            raise ArtefactError(f"{who}: a time is not a positive number")

    @classmethod
    def of(cls, kind: str, device: Device, operators: Sequence[Operator], seconds: FloatArray) -> Sample:
        """Make a sample from operators and their times ([r] seconds)."""
        return cls(kind, device, work(operators), np.asarray(seconds, np.float64))

    @property
    def gpu(self) -> Gpu:
        """The figures of the device that the models use."""
        return Gpu.of(self.device)

    def physics(self, kind: str = "") -> FloatArray:
        """[r] data-sheet bounds, as for another class if one is named [s]."""
        return physics(kind or self.kind, self.table, self.gpu, self.gpu.peak)

    def launch(self) -> float:
        """Time of starting an operator on an idle stream, with the shortest kernel [s].

        It is the least time that the smallest operators take beyond the physical bound at the best observed
        utilisation.
        """
        stated = self.physics()
        best = float(np.quantile(stated / self.seconds, 0.98))
        small = stated <= np.quantile(stated, 0.1)
        return max(float(np.quantile((self.seconds - stated / best)[small], 0.02)), 0.0)

    def thinned(self, rows: int, rng: np.random.Generator) -> Sample:
        """A sample of at most ``rows`` rows, chosen at random."""
        if len(self.seconds) <= rows:
            return self
        kept = np.sort(rng.permutation(len(self.seconds))[:rows])
        return Sample(self.kind, self.device, self.table[kept], self.seconds[kept])


def launches(samples: Sequence[Sample]) -> dict[str, float]:
    """Class -> median over its GPUs of the time of starting an operator [s], for use on other GPUs."""
    return {
        kind: float(np.median([sample.launch() for sample in samples if sample.kind == kind]))
        for kind in CLASSES
        if any(sample.kind == kind for sample in samples)
    }


def fit_class(kind: str, samples: Sequence[Sample], seed: int) -> ClassTrees:
    """Fit the trees of one class.

    Args:
        kind: the class.
        samples: measurements; those of other classes are ignored, except :data:`COMPANIONS`.
        seed: seed of all randomness; equal seeds give equal trees.

    Raises:
        ArtefactError: no samples of that class.
        MissingExtra: LightGBM is not installed.
    """
    if not any(sample.kind == kind for sample in samples):
        raise ArtefactError(f"no measurements of class {kind!r}")
    rng = np.random.default_rng(seed)
    parts = [_rows(kind, [s for s in samples if s.kind == other], rng) for other in (kind, *COMPANIONS.get(kind, ()))]
    x, y, weight, owner = (np.concatenate(part) for part in zip(*parts, strict=True))
    group = "products" if kind in PRODUCTS else "rows"
    seeds = range(seed, seed + FORESTS.get(kind, 1))
    trees = mean_forest([_grown(x, y, weight, number, group, ROUNDS[group], RATE) for number in seeds])
    names, others = sorted(set(owner.tolist())), None
    if kind in OTHERS and len(names) > 2:
        keep = [owner != name for name in names]
        bag = [_grown(x[k], y[k], weight[k], seed + i, group, *OTHERS[kind]) for i, k in enumerate(keep)]
        others = mean_forest(bag)
    low, median, high = (float(q) for q in np.quantile(parts[0][1], (0.001, 0.5, 0.999)))
    return ClassTrees(trees, (low, high), median, others=others, prior=PRIOR.get(kind, 0.0))


def _grown(x: FloatArray, y: FloatArray, weight: FloatArray, seed: int, group: str, rounds: int, rate: float) -> Forest:
    """Trees fitted to log ratios by LightGBM (Ke et al., NeurIPS 2017) with the absolute error as loss."""
    lightgbm = require("lightgbm", "costs", "fitting costs of GPUs")
    options = {
        "objective": "regression_l1",
        "learning_rate": rate,
        "num_leaves": LEAVES[group],
        "min_data_in_leaf": 20,
        "feature_fraction": FEATURE_SHARE,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "num_threads": 1,
        "verbosity": -1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "max_bin": 127,
    }
    return Forest.from_lightgbm(lightgbm.train(options, lightgbm.Dataset(x, y, weight=weight), rounds))


def _rows(
    kind: str, samples: Sequence[Sample], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, npt.NDArray[np.str_]]:
    """Features, log ratios, weights and GPUs of rows; the weight is the share of the time that is not the launch."""
    total = sum(len(sample.seconds) for sample in samples)
    width = len(COLUMNS[kind])
    x, y, weight, owner = [np.empty((0, width))], [np.empty(0)], [np.empty(0)], [np.empty(0, np.str_)]
    for whole in samples:
        launch = whole.launch()
        sample = whole.thinned(max(1, ROWS * len(whole.seconds) // max(total, ROWS)), rng)
        stated = sample.physics(kind)
        kernel = np.maximum(sample.seconds - launch, _LEAST_SHARE * stated)
        x.append(features(sample.kind, sample.table, sample.gpu, sample.gpu.peak))
        y.append(np.log(kernel / stated))
        weight.append(np.minimum(kernel / sample.seconds, 1.0))
        owner.append(np.full(len(kernel), sample.device.name))
    return np.concatenate(x), np.concatenate(y), np.concatenate(weight), np.concatenate(owner)


def fit(samples: Sequence[Sample], seed: int, card: Mapping[str, Any] | None = None) -> EagerGpuCosts:
    """Fit all classes.

    Args:
        samples: measurements, which must include every class.
        seed: seed of all randomness.
        card: source, licence, split and scores, as plain values.

    Raises:
        ArtefactError: a class has no samples.
    """
    gpus = {sample.gpu for sample in samples}
    return EagerGpuCosts({kind: fit_class(kind, samples, seed) for kind in CLASSES}, card, gpus)


def held_out(kind: str, samples: Sequence[Sample], seed: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Predict one class on each GPU by trees that were fitted to the other GPUs.

    Args:
        kind: the class.
        samples: on two GPUs or more.
        seed: as for :func:`fit_class`.

    Returns:
        GPU -> [r] predicted and [r] measured seconds; the launch is the median of the fitted GPUs'.
    """
    result = {}
    for held in samples:
        if held.kind == kind:
            rest = [sample for sample in samples if sample.device.name != held.device.name]
            model = fit_class(kind, rest, seed)
            result[held.device.name] = (predicted(model, held, launches(rest)[kind], known=False), held.seconds)
    return result


def predicted(model: ClassTrees, sample: Sample, launch: float, known: bool) -> FloatArray:
    """Predicted times of a sample on an idle stream.

    Args:
        model: trees of the sample's class.
        sample: operators on a GPU.
        launch: time of starting an operator [s].
        known: True if the GPU is one of those fitted.

    Returns:
        [r] seconds.
    """
    gpu = sample.gpu
    return np.asarray(launch + model.kernels(sample.kind, sample.table, gpu, gpu.peak, known), np.float64)
