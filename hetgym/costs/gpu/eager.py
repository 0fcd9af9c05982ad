"""Costs of float32 operators on GPUs without measurements: a data-sheet bound corrected by trees.

seconds = launch + physics x exp(trees(features)),    physics = floor + FLOPs / rate + bytes / bandwidth

For batches of products physics is the floor and the slower of both.

The rate of products is the one that the board sustains (:mod:`~hetgym.costs.gpu.clock`): by the data sheet's peak,
power limit, process and lanes, or as measured on boards of the fit. The trees are fitted to several GPUs at once, with
features that relate the work to the size of a GPU, and their ratios do not fall when the bandwidth or the peak of a
board does. Times of operators that a framework starts one by one on an idle
stream include the time of the launch. The fit subtracts it, and the prediction adds the launch overhead of the device.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._groups import gathered
from hetgym._types import BoolArray, FloatArray
from hetgym.costs import artefact
from hetgym.costs.batches import never_faster
from hetgym.costs.explanation import Ledger
from hetgym.costs.forest import ARRAYS, Forest
from hetgym.costs.fused import anchor_of
from hetgym.costs.gpu.clock import Sustained
from hetgym.costs.gpu.work import (
    CLASSES,
    CONV_FEATURES,
    FLOOR,
    PRODUCT_FEATURES,
    PRODUCTS,
    ROW_FEATURES,
    WORK,
    Gpu,
    class_of,
    features,
    physics,
    times,
    work,
)
from hetgym.costs.rates import arithmetic, peak_flops, widened
from hetgym.costs.regressor import refuse_others
from hetgym.costs.roofline import NO_GPU, PricedPlain, by_roofline
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph.ops import KINDS, Operator

MODEL = "gpu-eager"  # Kind of the model in the header of an artefact

COLUMNS: dict[str, tuple[str, ...]] = {
    "linear": PRODUCT_FEATURES, "batched": PRODUCT_FEATURES, "conv": CONV_FEATURES, "elementwise": ROW_FEATURES,
    "softmax": ROW_FEATURES, "layernorm": ROW_FEATURES,
}  # fmt: skip
"""Class -> names of its features."""

LARGEST_RATIO = 20.0  # Largest absolute value of a log ratio
REMEMBERED = 1 << 16  # Most shapes in a model's cache; a full cache is emptied

Pair = tuple[float, float]


@dataclass(frozen=True)
class ClassTrees:
    """The fitted model of one class of operators."""

    trees: Forest  # map from the class's COLUMNS to log(kernel seconds / physics)
    limits: Pair  # least and largest log ratio that a prediction may have
    median: float  # median log ratio of the fit, for operators whose loops are not known
    scatter: Pair = (0.0, 0.0)  # tenth and ninetieth percentile of log(measured / predicted) in cross-validation

    def kernels(self, kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float) -> FloatArray:
        """[r] kernel times, positive, without the launch [s]; ``peak`` is the sustained one for products [FLOP/s]."""
        stated = physics(kind, table, gpu, peak)
        ratio = np.clip(self.trees.predict(features(kind, table, gpu, peak)), *self.limits)
        return np.asarray(stated * np.exp(ratio), np.float64)


class EagerGpuCosts(artefact.Stored, PricedPlain):
    """Costs of float32 operators on any GPU, from its data sheet.

    Views cost 0. Devices other than GPUs are priced by the roofline, and so is arithmetic in a dtype for which the
    GPU has no rate. Operators without a class of their own take the nearest: operators that move or reduce data count
    as elementwise, normalisations as layer norm, recurrent cells as products, fused operators as their anchors. A
    convolution costs the smaller of two prices, since libraries choose the faster algorithm: that of its own class,
    which was measured with windows of three and mostly far more work than one image gives, and that of the equivalent
    product. Twice the batch never costs less: the smallest price of a batch, its double, and so on is used. Prices do
    not rise with the bandwidth or the peak of a board that is otherwise the same. Results are cached by shape.

    Args:
        classes: each of :data:`~hetgym.costs.gpu.work.CLASSES` -> its trees.
        card: source, licence, split, seed and scores of the fit, as plain values.
        shares: GPUs that were measured -> share of the peak that long products reach, in (0, 1.2].
        sustained: the law of that share for all other GPUs.
        scatter: tenth and ninetieth percentile of log(measured / predicted) of whole models on GPUs that were held out.

    Raises:
        ArtefactError: a class is missing or unknown, or its figures are out of range.
    """

    form = MODEL

    def __init__(
        self,
        classes: Mapping[str, ClassTrees],
        card: Mapping[str, Any] | None = None,
        shares: Mapping[Gpu, float] | None = None,
        sustained: Sustained | None = None,
        scatter: Pair = (0.0, 0.0),
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
        self.shares = dict(shares or {})
        for gpu, share in self.shares.items():
            if type(share) not in (int, float) or not 0.0 < share <= 1.2:
                raise ArtefactError(f"share of {gpu} is {share!r}; expected a number in (0, 1.2]")
        self.sustained = sustained or Sustained()
        self.scatter = _rising(scatter, "whole models")
        self.card = dict(card or {})
        self._known: dict[Any, tuple[float, float, float]] = {}

    def whole(self, seconds: float) -> tuple[float, float]:
        """Tenth and ninetieth percentile of the run time of a whole model that is predicted to take some seconds [s].

        Errors of operators on one GPU go the same way: a clock that is not held delays all of them. The interval is
        therefore that of whole models on GPUs that were held out, not a sum of independent errors.
        """
        low, high = np.exp(self.scatter)
        return seconds * float(low), seconds * float(high)

    def share(self, gpu: Gpu) -> float:
        """Share of the peak that long products reach: as measured, or by the law.

        The rate by the law is at most that of a measured board that is better in every figure, and at least that of
        one that is worse.
        """
        rate = self.sustained.share(gpu) * gpu.peak
        most = [share * known.peak for known, share in self.shares.items() if _as_good(known, gpu)]
        least = [share * known.peak for known, share in self.shares.items() if _as_good(gpu, known)]
        return max(min([rate, *most]), *least, 0.0) / gpu.peak

    def kernels(self, kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float) -> FloatArray:
        """[r] kernel times of a class, positive, without the launch [s]; ``peak`` is the data sheet's [FLOP/s]."""
        rate = peak * self.share(gpu) if kind in PRODUCTS else peak
        return self.classes[kind].kernels(kind, table, gpu, rate)

    def _answers(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        if device.kind != "gpu":
            return self._rows(operators, device)
        place = (*sorted(device.peak_flops.items()), device.launch_overhead, device.cache_bytes, Gpu.of(device))
        keys = [(place, op.kind, op.inputs, op.outputs, tuple(op.attributes.items())) for op in operators]
        known = self._known
        fresh = {key: op for key, op in zip(keys, operators, strict=True) if key not in known}
        if len(known) + len(fresh) > REMEMBERED:
            known.clear()
            fresh = dict(zip(keys, operators, strict=True))
        if fresh:
            known.update(zip(fresh, map(tuple, self._rows(list(fresh.values()), device).tolist()), strict=True))
        return np.array([known[key] for key in keys], np.float64).reshape(len(operators), 3)

    def _priced(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        if device.kind != "gpu":
            return by_roofline(operators, device, ledger, NO_GPU)
        gpu = Gpu.of(device)
        anchors = [anchor_of(op) for op in operators]
        wide = [widened(anchor, device) for anchor, _ in anchors]
        given, operators = operators[0] if operators else None, [anchor for anchor, _ in wide]
        more = np.array([moved + other for (_, moved), (_, other) in zip(anchors, wide, strict=True)]) / gpu.bandwidth
        result = np.zeros((len(operators), 3))
        members = gathered((class_of(op), i) for i, op in enumerate(operators))
        for name, at in members.items():
            if name is None:
                continue
            table = work([operators[i] for i in at])
            peak = np.array([peak_flops(device, arithmetic(operators[i])) for i in at])
            able = (peak > 0) | (table[:, 4] == 0)
            rate = np.where(peak > 0, peak, gpu.peak)
            weights = np.array([_fixed(operators[i]) for i in at])
            seconds = self._bounded(name, table, gpu, rate, weights, ledger)
            odd = _odd(name, [operators[i] for i in at])
            if odd.any():
                compute, memory = times("elementwise", table[odd], gpu, rate[odd] * self.share(gpu))
                medians = [math.exp(self.classes[kind].median) for kind in (name, "elementwise")]
                seconds[odd] = FLOOR + np.maximum(medians[0] * compute, medians[1] * memory)
            if ledger is not None:
                self._note(ledger, name, operators[0], (table, gpu, rate), float(seconds[0]), device.launch_overhead)
            scatter = np.exp([0.0, *self.classes[name].scatter])
            spread = device.launch_overhead + seconds[:, None] * scatter
            result[at] = np.where(able[:, None], spread, np.inf)
        if ledger is not None and given is not None:
            ledger.fused(given, *anchors[0], anchors[0][1] / gpu.bandwidth)
            ledger.widened(anchors[0][0], wide[0][0], wide[0][1] / gpu.bandwidth)
        return result + more[:, None]

    def _note(
        self,
        ledger: Ledger,
        kind: str,
        operator: Operator,
        asked: tuple[FloatArray, Gpu, FloatArray],
        seconds: float,
        launch: float,
    ) -> None:
        """Note the bound of an operator, and what of its board was measured."""
        table, gpu, rate = asked
        share = self.share(gpu) if kind in PRODUCTS else 1.0
        ledger.priced(kind, float(physics(kind, table, gpu, rate * share)[0]), seconds, launch)
        if _odd(kind, [operator]).any():
            ledger.say(f"kind {operator.kind!r} was not measured: median ratios of {kind} and of elementwise operators")
        if kind in PRODUCTS:
            known = gpu in self.shares
            ledger.say(
                f"long products reach {share:.0%} of the board's peak, "
                + ("as measured" if known else "by the law of clocks and issue slots: the board was not measured")
            )

    def _bounded(
        self,
        kind: str,
        table: FloatArray,
        gpu: Gpu,
        peak: FloatArray,
        weights: FloatArray,
        ledger: Ledger | None = None,
    ) -> FloatArray:
        """[r] kernel times of a class as graphs are priced: twice the batch never takes less [s].

        Arguments as for :meth:`kernels`; ``weights`` are [r] bytes that an operator reads whatever its batch.
        """
        last = table.shape[1]
        ways = (kind, *(("linear", "batched") if kind == "conv" else ()))
        low = math.exp(min(self.classes[way].limits[0] for way in ways))

        def price(rows: FloatArray) -> FloatArray:
            work, rate = rows[:, :last], rows[:, last]
            seconds = self.kernels(kind, work, gpu, rate)
            for way in ways[1:]:
                alike = (work[:, 0] > 1) == (way == "batched")
                if alike.any():
                    other = self.kernels(way, work[alike], gpu, rate[alike])
                    if ledger is not None and other[0] < seconds[0]:
                        ledger.say(f"priced as the equivalent product ({way}), which takes less")
                    seconds[alike] = np.minimum(seconds[alike], other)
            if kind == "conv":  # fast algorithms, which beat the peak, were measured in float32 only
                least_flops = np.where(rate > gpu.peak, work[:, WORK.index("flops")] / rate, 0.0)
                seconds = np.maximum(seconds, least_flops)
            return seconds

        def least(rows: FloatArray) -> FloatArray:
            rate = rows[:, last] * (self.share(gpu) if kind in PRODUCTS else 1.0)
            return low * (FLOOR + np.maximum(*times(kind, rows[:, :last], gpu, rate)))

        grows = np.zeros((len(table), last + 1), np.bool_)
        grows[:, [WORK.index(what) for what in ("flops", "read", "written", "images")]] = True
        several = ((table[:, 0] > 1) | (weights == 0)) & (kind == "batched")  # one with weights has its batch in m
        grows[several, WORK.index("batch")] = True
        grows[~several, WORK.index("m")] = True
        fixed = np.zeros(grows.shape)
        fixed[:, WORK.index("read")] = np.minimum(weights, table[:, WORK.index("read")])
        return never_faster(price, least, np.column_stack([table, peak]), grows, fixed, ledger)

    def save(self, path: str | Path) -> None:
        """Write the model; see :mod:`~hetgym.costs.artefact`."""
        arrays = {
            f"{name} {key}": array for name in CLASSES for key, array in self.classes[name].trees.arrays().items()
        }
        header = {
            "model": MODEL,
            "features": {name: list(COLUMNS[name]) for name in CLASSES},
            "limits": {name: list(self.classes[name].limits) for name in CLASSES},
            "median": {name: self.classes[name].median for name in CLASSES},
            "scatter": {name: list(self.classes[name].scatter) for name in CLASSES},
            "card": self.card,
            "shares": sorted([*astuple(gpu), share] for gpu, share in self.shares.items()),
            "sustained": asdict(self.sustained),
            "whole models": list(self.scatter),
        }
        artefact.save(path, header, arrays)

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """See :meth:`~hetgym.costs.artefact.Stored.of_parts`."""
        artefact.check_form(header, MODEL, {name: list(COLUMNS[name]) for name in CLASSES}, where)
        refuse_others(arrays, [f"{name} {key}" for name in CLASSES for key in ARRAYS], where)
        card = header.get("card")
        figures = [header.get(what) for what in ("limits", "median", "scatter")]
        if not isinstance(card, dict) or not all(isinstance(f, dict) and set(f) == set(CLASSES) for f in figures):
            raise ArtefactError(f"{where}: the header lacks a card, or limits, median or scatter of a class")
        limits, median, scatter = (dict(figure or {}) for figure in figures)
        law = header.get("sustained")
        if not isinstance(law, dict) or set(law) != {field.name for field in fields(Sustained)}:
            raise ArtefactError(f"{where}: the header lacks the law of sustained rates")
        try:
            classes = {}
            for name in CLASSES:
                own = {key: arrays[f"{name} {key}"] for key in ARRAYS if f"{name} {key}" in arrays}
                trees = Forest.from_arrays(own, len(COLUMNS[name]), name)
                classes[name] = ClassTrees(trees, limits[name], median[name], scatter[name])
            return cls(classes, card, _shares(header.get("shares")), Sustained(**law), header.get("whole models", ()))
        except ArtefactError as error:
            raise ArtefactError(f"{where}: {error}") from error


def _as_good(one: Gpu, other: Gpu) -> bool:
    """True if a board is no worse than another one in any figure that both state, and of the same generation."""
    stated = [(getattr(one, what), getattr(other, what)) for what in ("process", "lanes")]
    alike = all(a == b or not a or not b for a, b in stated)
    better = all(a >= b for a, b in zip(one.key, other.key, strict=True))
    return alike and better and (one.power >= other.power or not one.power)


def _shares(values: object) -> dict[Gpu, float]:
    """GPUs from a header, with their shares."""
    shares = {}
    for row in values if isinstance(values, list) else [None]:
        length = len(fields(Gpu)) + 1
        if not isinstance(row, list) or len(row) != length or any(type(v) not in (int, float) for v in row):
            raise ArtefactError("the header lacks the GPUs of the fit")
        shares[Gpu(*(float(value) for value in row[:-1]))] = float(row[-1])
    return shares


def _fixed(op: Operator) -> float:
    """Bytes that an operator reads whatever its batch: its constants, unless it picks rows of a table."""
    return 0.0 if op.spec.reads is KINDS["Gather"].reads else op.weight_bytes


def _odd(name: str, operators: Sequence[Operator]) -> BoolArray:
    """[n] True for operators that do not have the loops that their class was fitted with."""
    known = ("MatMul", "Gemm", "Attention") if name in ("linear", "batched") else ("Conv",)
    return np.array([name in ("linear", "batched", "conv") and op.kind not in known for op in operators], np.bool_)


def _within(value: object, what: str) -> float:
    """Check a number of a header against the legal range."""
    if type(value) in (int, float) and -LARGEST_RATIO <= value <= LARGEST_RATIO:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ArtefactError(f"{what} is {value!r}, not a log ratio within {LARGEST_RATIO:g}")


def _rising(values: object, what: str) -> Pair:
    """Check two numbers of a header: within the legal range, in rising order."""
    if isinstance(values, list | tuple) and len(values) == 2:
        low, high = (_within(value, what) for value in values)
        if low <= high:
            return low, high
    raise ArtefactError(f"{what} is {values!r}; expected two log ratios in rising order")
