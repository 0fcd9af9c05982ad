"""Costs of float32 operators on GPUs without measurements: a data-sheet bound corrected by trees.

seconds = launch + physics x exp(trees(features)),    physics = max(FLOPs / peak, bytes / bandwidth)

The trees are fitted to several GPUs at once. Their features describe a device by its data sheet alone: peak, bandwidth,
processors and last-level cache. Times of operators that a framework starts one by one on an idle stream include the
time of the launch. The fit subtracts it, and the prediction adds the launch overhead of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray
from hetgym.costs import artefact
from hetgym.costs.forest import ARRAYS, Forest
from hetgym.costs.fused import anchor_of
from hetgym.costs.gpu_work import (
    CLASSES,
    CONV_FEATURES,
    PRODUCT_FEATURES,
    ROW_FEATURES,
    Gpu,
    class_of,
    constant,
    features,
    physics,
    work,
)
from hetgym.costs.regressor import refuse_others
from hetgym.costs.roofline import Roofline, peak_flops, widened
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph.ops import Operator

MODEL = "gpu-eager"
"""Kind of the model in the header of an artefact."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "linear": PRODUCT_FEATURES,
    "batched": PRODUCT_FEATURES,
    "conv": CONV_FEATURES,
    "elementwise": ROW_FEATURES,
    "softmax": ROW_FEATURES,
    "layernorm": ROW_FEATURES,
}
"""Class -> names of its features."""

LARGEST_RATIO = 20.0
"""Largest absolute value of a log ratio."""

REMEMBERED = 1 << 16
"""Most shapes in a model's cache; a full cache is emptied."""

Pair = tuple[float, float]


@dataclass(frozen=True)
class ClassTrees:
    """The fitted model of one class of operators.

    Args:
        trees: map from the class's :data:`COLUMNS` to log(kernel seconds / physics).
        limits: least and largest log ratio that a prediction may have.
        median: median log ratio of the fit, for operators whose loops are not known.
        scatter: tenth and ninetieth percentile of log(measured / predicted) in cross-validation.
        others: trees for GPUs outside the fit, if there are separate ones.
        prior: weight of the roofline's default efficiencies in the log ratio on a GPU outside the fit, in [0, 1].

    Raises:
        ArtefactError: the weight is not within 0 and 1.
    """

    trees: Forest
    limits: Pair
    median: float
    scatter: Pair = (0.0, 0.0)
    others: Forest | None = None
    prior: float = 0.0

    def __post_init__(self) -> None:
        if type(self.prior) not in (int, float) or not 0.0 <= self.prior <= 1.0:
            raise ArtefactError(f"prior is {self.prior!r}; expected a share within 0 and 1")

    def kernels(self, kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float, known: bool) -> FloatArray:
        """Kernel times.

        Args:
            kind: the class.
            table: [r, 11] from :func:`~hetgym.costs.gpu_work.work`.
            gpu: the device.
            peak: rate in each operator's dtype [FLOP/s].
            known: True if the device is one of those fitted.

        Returns:
            [r] seconds, positive, without the launch.
        """
        trees = self.trees if known or self.others is None else self.others
        stated = physics(kind, table, gpu, peak)
        ratio = np.clip(trees.predict(features(kind, table, gpu, peak)), *self.limits)
        if not known and self.prior > 0:
            ratio = (1 - self.prior) * ratio + self.prior * np.log(constant(kind, table, gpu, peak) / stated)
        return np.asarray(stated * np.exp(ratio), np.float64)


class EagerGpuCosts:
    """Costs of float32 operators on any GPU, from its data sheet.

    Views cost 0. Devices other than GPUs are priced by the roofline, and so is arithmetic in a dtype for which the
    GPU has no rate. Operators without a class of their own take the nearest: operators that move or reduce data count
    as elementwise, normalisations as layer norm, recurrent cells as products, fused operators as their anchors. A
    convolution costs the smaller of two prices, since libraries choose the faster algorithm: that of its own class,
    which was measured with windows of three and mostly far more work than one image gives, and that of the equivalent
    product. Results are cached by shape.

    Args:
        classes: each of :data:`~hetgym.costs.gpu_work.CLASSES` -> its trees.
        card: source, licence, split, seed and scores of the fit, as plain values.
        gpus: GPUs of the fit; for all others a class uses its separate trees, if it has them.

    Raises:
        ArtefactError: a class is missing or unknown, or its figures are out of range.
    """

    def __init__(
        self, classes: Mapping[str, ClassTrees], card: Mapping[str, Any] | None = None, gpus: Iterable[Gpu] = ()
    ) -> None:
        if set(classes) != set(CLASSES):
            raise ArtefactError(f"classes are {', '.join(sorted(classes))}; expected {', '.join(sorted(CLASSES))}")
        self.classes = {
            name: replace(
                classes[name],
                limits=_rising(classes[name].limits, name),
                median=_within(classes[name].median, name),
                scatter=_rising(classes[name].scatter, name),
            )
            for name in CLASSES
        }
        self.gpus = frozenset(gpus)
        self.card = dict(card or {})
        self._known: dict[Any, tuple[float, float, float]] = {}

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """Run times on a device.

        Returns:
            [n] seconds; 0 for views, inf for arithmetic in a dtype that the device cannot compute in.
        """
        return self._answers(operators, device)[:, 0].copy()

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile of run times, from the errors on GPUs that were held out.

        Returns:
            [n] seconds each.
        """
        answers = self._answers(operators, device)
        return answers[:, 1].copy(), answers[:, 2].copy()

    def kernels(self, kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float) -> FloatArray:
        """Kernel times of one class.

        Args:
            kind: one of :data:`~hetgym.costs.gpu_work.CLASSES`.
            table: [r, 11] from :func:`~hetgym.costs.gpu_work.work`.
            gpu: the device.
            peak: rate in each operator's dtype [FLOP/s].

        Returns:
            [r] seconds, positive, without the launch.
        """
        return self.classes[kind].kernels(kind, table, gpu, peak, gpu in self.gpus)

    def _answers(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        if device.kind != "gpu":
            seconds = Roofline().predict(operators, device)
            return np.stack([seconds, seconds, seconds], axis=1)
        place = (
            *sorted(device.peak_flops.items()),
            device.memory_bandwidth,
            device.launch_overhead,
            device.processors,
            device.cache_bytes,
        )
        keys = [(place, op.kind, op.inputs, op.outputs, tuple(op.attributes.items())) for op in operators]
        known = self._known
        fresh = {key: op for key, op in zip(keys, operators, strict=True) if key not in known}
        if len(known) + len(fresh) > REMEMBERED:
            known.clear()
            fresh = dict(zip(keys, operators, strict=True))
        if fresh:
            known.update(zip(fresh, map(tuple, self._computed(list(fresh.values()), device).tolist()), strict=True))
        return np.array([known[key] for key in keys], np.float64).reshape(len(operators), 3)

    def _computed(self, operators: list[Operator], device: Device) -> FloatArray:
        gpu = Gpu.of(device)
        anchors = [anchor_of(op) for op in operators]
        wide = [widened(anchor, device) for anchor, _ in anchors]
        operators = [anchor for anchor, _ in wide]
        more = np.array([moved + other for (_, moved), (_, other) in zip(anchors, wide, strict=True)]) / gpu.bandwidth
        result = np.zeros((len(operators), 3))
        members: dict[str, list[int]] = {}
        for i, op in enumerate(operators):
            name = class_of(op)
            if name is not None:
                members.setdefault(name, []).append(i)
        for name, at in members.items():
            table = work([operators[i] for i in at])
            peak = np.array([peak_flops(device, _dtype(operators[i])) for i in at])
            able = (peak > 0) | (table[:, 4] == 0)
            rate = np.where(peak > 0, peak, gpu.peak)
            seconds = self.kernels(name, table, gpu, rate)
            if name == "conv":
                for product in ("linear", "batched"):
                    alike = (table[:, 0] > 1) == (product == "batched")
                    if alike.any():
                        as_product = self.kernels(product, table[alike], gpu, rate[alike])
                        seconds[alike] = np.minimum(seconds[alike], as_product)
            odd = _odd(name, [operators[i] for i in at])
            if odd.any():
                stated = physics("elementwise", table[odd], gpu, rate[odd])
                busy = table[odd, 4] / rate[odd] > table[odd, 5:7].sum(axis=1) / gpu.bandwidth
                median = np.where(busy, self.classes[name].median, self.classes["elementwise"].median)
                seconds[odd] = stated * np.exp(median)
            scatter = np.exp([0.0, *self.classes[name].scatter])
            spread = device.launch_overhead + seconds[:, None] * scatter
            result[at] = np.where(able[:, None], spread, np.inf)
        return result + more[:, None]

    def save(self, path: str | Path) -> None:
        """Write the model; see :mod:`~hetgym.costs.artefact`.

        Raises:
            ArtefactError: the file cannot be written.
        """
        forests: dict[str, Forest | None] = {name: self.classes[name].trees for name in CLASSES}
        forests |= {f"{name} others": self.classes[name].others for name in CLASSES}
        arrays = {
            f"{name} {key}": array
            for name, trees in forests.items()
            if trees is not None
            for key, array in trees.arrays().items()
        }
        header = {
            "model": MODEL,
            "features": {name: list(COLUMNS[name]) for name in CLASSES},
            "limits": {name: list(self.classes[name].limits) for name in CLASSES},
            "median": {name: self.classes[name].median for name in CLASSES},
            "scatter": {name: list(self.classes[name].scatter) for name in CLASSES},
            "card": self.card,
            "prior": {name: self.classes[name].prior for name in CLASSES},
            "gpus": sorted(astuple(gpu) for gpu in self.gpus),
        }
        artefact.save(path, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model.

        Raises:
            ArtefactError: the file is damaged, tampered with, or fitted to features that this version lacks.
        """
        return cls.of_parts(*artefact.load(path), str(path))

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """Build the model from the header and arrays of an artefact.

        Raises:
            ArtefactError: a part is invalid; the message names ``where``.
        """
        if header.get("model") != MODEL:
            raise ArtefactError(f"{where}: holds no {MODEL!r} model")
        if header.get("features") != {name: list(COLUMNS[name]) for name in CLASSES}:
            raise ArtefactError(f"{where}: fitted to features that this version of hetgym does not compute")
        forests = [*CLASSES, *(f"{name} others" for name in CLASSES)]
        refuse_others(arrays, [f"{name} {key}" for name in forests for key in ARRAYS], where)
        card = header.get("card")
        figures = [header.get(what) for what in ("limits", "median", "scatter", "prior")]
        if not isinstance(card, dict) or not all(isinstance(f, dict) and set(f) == set(CLASSES) for f in figures):
            raise ArtefactError(f"{where}: the header lacks a card, or limits, median, scatter or prior of a class")
        limits, median, scatter, prior = (dict(figure or {}) for figure in figures)

        def forest(name: str, kind: str) -> Forest:
            own = {key: arrays[f"{name} {key}"] for key in ARRAYS if f"{name} {key}" in arrays}
            return Forest.from_arrays(own, len(COLUMNS[kind]), name)

        try:
            classes = {}
            for name in CLASSES:
                more = f"{name} others"
                others = forest(more, name) if any(key.startswith(f"{more} ") for key in arrays) else None
                own = forest(name, name)
                classes[name] = ClassTrees(own, limits[name], median[name], scatter[name], others, prior[name])
            return cls(classes, card, _gpus(header.get("gpus")))
        except ArtefactError as error:
            raise ArtefactError(f"{where}: {error}") from error


def _gpus(values: object) -> list[Gpu]:
    """GPUs from a header."""
    gpus = []
    for row in values if isinstance(values, list) else [None]:
        if not isinstance(row, list) or len(row) != len(fields(Gpu)) or any(type(v) not in (int, float) for v in row):
            raise ArtefactError("the header lacks the GPUs of the fit")
        gpus.append(Gpu(*(float(value) for value in row)))
    return gpus


def _dtype(op: Operator) -> str:
    return "float32" if op.spec.family == "generic" else op.dtype


def _odd(name: str, operators: Sequence[Operator]) -> BoolArray:
    """[n] True for operators that do not have the loops that their class was fitted with."""
    known = ("MatMul", "Gemm", "Attention") if name in ("linear", "batched") else ("Conv",)
    return np.array([name in ("linear", "batched", "conv") and op.kind not in known for op in operators], np.bool_)


def _within(value: object, what: str) -> float:
    """Check a number of a header against the legal range."""
    if type(value) in (int, float) and -LARGEST_RATIO <= value <= LARGEST_RATIO:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ArtefactError(f"{what}: {value!r} is no log ratio within {LARGEST_RATIO:g}")


def _rising(values: object, what: str) -> Pair:
    """Check two numbers of a header: within the legal range, in rising order."""
    if isinstance(values, list | tuple) and len(values) == 2:
        low, high = (_within(value, what) for value in values)
        if low <= high:
            return low, high
    raise ArtefactError(f"{what}: {values!r} are not two log ratios in rising order")
