"""Fitting costs of GPU operators to measurements on several GPUs, and holding one of them out."""

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
"""A class with more rows is thinned to this many."""

ROUNDS, LEAVES = {"products": 300, "rows": 150}, {"products": 63, "rows": 31}
"""Trees of a forest and leaves of a tree, for classes that compute tiles and for those that stream rows."""

RATE, FEATURE_SHARE = 0.06, 0.3
"""Learning rate, and share of the features that a tree sees: with few of them trees cannot all lean on the one
figure of the data sheets that tells the fitted GPUs apart, which held-out GPUs gain from; see docs/costs-gpu.md."""

FORESTS = {"linear": 2}
"""Class -> number of forests that differ by their seed and whose mean counts; 1 where none is given."""

OTHERS: dict[str, tuple[int, float]] = {"batched": (80, 0.12)}
"""Class -> trees and learning rate of each forest of its trees for other GPUs. There is one forest for each GPU of the
fit, which leaves that GPU out, and their mean counts: no single GPU is the model of a stranger. Cross-validation
over held-out GPUs says that batches of products gain from it and that products and convolutions do not."""

PRIOR = {"linear": 0.25, "batched": 0.25, "softmax": 0.25}
"""Class -> share of the roofline's default efficiencies in log ratios on other GPUs; 0 where none is given. Chosen
out of quarters by cross-validation over held-out GPUs."""

COMPANIONS = {"batched": ("linear",)}
"""Class -> others whose rows its trees see too: libraries took one kernel for all batches on one of the GPUs."""

_LEAST_SHARE = 0.3  # of physics, that a kernel takes after the launch is taken off


@dataclass(frozen=True)
class Sample:
    """Operators of one class, measured on one GPU.

    Args:
        kind: one of :data:`~hetgym.costs.gpu_work.CLASSES`.
        device: the GPU.
        table: [r, 11] from :func:`~hetgym.costs.gpu_work.work`.
        seconds: [r] measured, each from an idle stream.

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
        """Take the work out of operators."""
        return cls(kind, device, work(operators), np.asarray(seconds, np.float64))

    @property
    def gpu(self) -> Gpu:
        """What the models know of the device."""
        return Gpu.of(self.device)

    def physics(self, kind: str = "") -> FloatArray:
        """[r] seconds by the data sheet, as of another class if one is named."""
        return physics(kind or self.kind, self.table, self.gpu, self.gpu.peak)

    def launch(self) -> float:
        """Time of starting an operator from an idle stream, with the shortest kernel [s].

        What the smallest operators take at least beyond physics at the best utilisation that was seen.
        """
        stated = self.physics()
        best = float(np.quantile(stated / self.seconds, 0.98))
        small = stated <= np.quantile(stated, 0.1)
        return max(float(np.quantile((self.seconds - stated / best)[small], 0.02)), 0.0)

    def thinned(self, rows: int, rng: np.random.Generator) -> Sample:
        """At most so many rows, chosen at random."""
        if len(self.seconds) <= rows:
            return self
        kept = np.sort(rng.permutation(len(self.seconds))[:rows])
        return Sample(self.kind, self.device, self.table[kept], self.seconds[kept])


def launches(samples: Sequence[Sample]) -> dict[str, float]:
    """Class -> median over its GPUs of the time of starting an operator [s]; for GPUs not measured."""
    return {
        kind: float(np.median([sample.launch() for sample in samples if sample.kind == kind]))
        for kind in CLASSES
        if any(sample.kind == kind for sample in samples)
    }


def fit_class(kind: str, samples: Sequence[Sample], seed: int) -> ClassTrees:
    """Fit the trees of one class.

    Args:
        kind: the class.
        samples: measurements; those of other classes, but for :data:`COMPANIONS`, are not looked at.
        seed: of everything that is random; equal seeds give equal trees.

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
    """Trees by LightGBM (Ke et al., NeurIPS 2017) that fit log ratios by their absolute error."""
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
    """Features, log ratios, weights and GPUs; a row counts by the share of its time that is not the launch."""
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
        samples: measurements; every class must have some.
        seed: of everything that is random.
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
    """What trees say a sample takes from an idle stream.

    Args:
        model: trees of the sample's class.
        sample: operators on a GPU.
        launch: time of starting one [s].
        known: whether the GPU is of the fit.

    Returns:
        [r] seconds.
    """
    gpu = sample.gpu
    return np.asarray(launch + model.kernels(sample.kind, sample.table, gpu, gpu.peak, known), np.float64)
