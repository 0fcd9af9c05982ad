"""Costs of 16-bit language models on any GPU, from its data sheet: a bound corrected by trees.

seconds = bound x exp(trees(features))

The trees are fitted to products, products of float8, and attention of prefill and decode on A100, H100 and H200. All
sizes are in units of the board (cycles, waves of blocks, shares of the cache), so that one set of trees serves every
board. For products on the boards that were measured, trees of their own are more accurate and take their place.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray
from hetgym.costs import artefact
from hetgym.costs.batches import never_faster
from hetgym.costs.explanation import Ledger, Priced
from hetgym.costs.forest import ARRAYS, Forest
from hetgym.costs.fused import anchor_of
from hetgym.costs.gpu.gemm import GEMM_GPUS, LAUNCH, MEMORY_EFFICIENCY, OTHERS, GemmCosts, GemmGpu, half_dtypes
from hetgym.costs.gpu.half_work import (
    ATTENTION_FEATURES,
    PRODUCT_FEATURES,
    HalfGpu,
    attention_dimensions,
    attention_work,
    product_dimensions,
    product_features,
    product_physics,
)
from hetgym.costs.rates import widened
from hetgym.costs.regressor import refuse_others
from hetgym.costs.roofline import NO_GPU, by_roofline
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph.ops import Operator

GROUPED_DOUBLINGS = 13
"""Doublings of the batch of a grouped product whose prices bound its own; beyond, arithmetic outweighs the weights."""

MODEL = "gpu-half"  # Kind of the model in the header of an artefact

COLUMNS: dict[str, tuple[str, ...]] = {
    "product": PRODUCT_FEATURES,
    "product8": PRODUCT_FEATURES,
    "attention": ATTENTION_FEATURES,
}
"""Class of operators -> its features: products in 16 bits, products of float8, attention in 16 bits."""

LARGEST_RATIO = 20.0  # Largest absolute value of a log ratio

NO_UNITS = "the board has no rate in 16 bits: the roofline prices it"
"""Rule of explanations for boards without units for 16 bits."""

ALIKE = 0.03  # Largest relative distance of each figure at which a board is taken for a measured one
REMEMBERED = 1 << 16  # Most shapes in a model's cache; a full cache is emptied


@dataclass(frozen=True)
class HalfTrees:
    """The fitted model of one class; ArtefactError unless limits and scatter are in rising order."""

    trees: Forest  # map from the class's COLUMNS to log(seconds / bound)
    limits: tuple[float, float]  # least and largest log ratio that a prediction may have
    # tenth and ninetieth percentile of log(measured / predicted) on boards that were held out
    scatter: tuple[float, float]

    def __post_init__(self) -> None:
        for what in ("limits", "scatter"):
            pair = getattr(self, what)
            numbers = isinstance(pair, list | tuple) and len(pair) == 2 and all(type(v) in (int, float) for v in pair)
            if not numbers or not -LARGEST_RATIO <= pair[0] <= pair[1] <= LARGEST_RATIO:
                raise ArtefactError(f"{what} are {pair!r}; expected two log ratios in rising order")
            object.__setattr__(self, what, (float(pair[0]), float(pair[1])))


class HalfGpuCosts(artefact.Stored, Priced):
    """Costs of 16-bit operators on any GPU, from its data sheet.

    Products of float8 operands take the float8 rate. A product of a dtype that the board has no units for is computed
    in a wider one, between conversions. Batched products and those of experts were not measured: they have their own
    traffic and arithmetic, at the utilisation of one product with all their rows. Products and attention of float32
    take the roofline, but no less than in 16 bits. Operators that are fused to a
    product add the time of the traffic that the product alone would not have. All other operators take the roofline
    with the constants of aiconfigurator, 80 % of the bandwidth and 3 us, which is an assumption. Devices other than
    GPUs are priced by the roofline. Prices do not fall when a batch is doubled, and do not rise with the bandwidth or
    the peak of a board.

    Args:
        classes: each of :data:`COLUMNS` -> its trees.
        card: source, licence, split, seed and scores of the fit, as plain values.

    Raises:
        ArtefactError: a class is missing or unknown.
    """

    form = MODEL

    def __init__(self, classes: Mapping[str, HalfTrees], card: Mapping[str, Any] | None = None) -> None:
        if set(classes) != set(COLUMNS):
            raise ArtefactError(f"classes are {', '.join(sorted(classes))}; expected {', '.join(sorted(COLUMNS))}")
        self.classes = dict(classes)
        self.card = dict(card or {})
        self._known: dict[tuple[Any, ...], float] = {}

    def seconds(self, kind: str, table: FloatArray, gpu: HalfGpu, ledger: Ledger | None = None) -> FloatArray:
        """[r] run times of one class by the trees of all boards, positive and finite [s].

        ``table`` has [r, 4] independent products, rows, columns and reduction; for attention, [r, 8] columns
        :data:`~hetgym.costs.gpu.half_work.ATTENTION`.
        """
        model = self.classes[kind]

        def price(rows: FloatArray) -> FloatArray:
            bound, features = _work(kind, rows, gpu)
            return bound * np.exp(np.clip(model.trees.predict(features), *model.limits))

        def least(rows: FloatArray) -> FloatArray:
            return _work(kind, rows, gpu)[0] * math.exp(model.limits[0])

        rows = np.maximum(np.asarray(table, np.float64), 1.0)
        if kind == "attention":
            rows[:, 7] = table[:, 7]
        return never_faster(price, least, rows, _grows(kind, rows), ledger=ledger)

    def _priced(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        """[n, 3] seconds and percentiles: from boards that were held out, otherwise the prediction itself."""
        gpu = HalfGpu.of(device) if device.kind == "gpu" else None
        if gpu is None:
            return by_roofline(operators, device, ledger, NO_GPU if device.kind != "gpu" else NO_UNITS)
        like = replace(device, memory_efficiency=MEMORY_EFFICIENCY, launch_overhead=LAUNCH)
        bandwidth = gpu.bandwidth * MEMORY_EFFICIENCY
        able = half_dtypes(device)
        pairs = [(op, 0.0) if op.dtype in able else widened(op, device) for op in operators]
        wide = [op for op, _ in pairs]
        found = [_classified(op, able, gpu) for op in wide]
        exact = [op.dtype in able for op in wide]
        other = [i for i, (kind, _) in enumerate(found) if not kind or not exact[i]]
        seconds = np.zeros(len(operators), np.float64)
        seconds[other] = by_roofline([wide[i] for i in other], like, ledger if other else None, OTHERS)[:, 0]
        for kind in COLUMNS:
            at = [i for i, (name, _) in enumerate(found) if name == kind]
            if at:
                more = np.array([_more(wide[i]) for i in at]) / bandwidth
                rows = [found[i][1] for i in at]
                first = np.cumsum([0, *map(len, rows[:-1])])
                prices = self._remembered(kind, list(chain.from_iterable(rows)), gpu, ledger)
                least = np.minimum.reduceat(prices, first)
                share = np.ones(len(at))
                if kind == "product":
                    share = np.array([_narrowed(wide[i], found[i][1][0], gpu) for i in at])
                least *= share
                if ledger is not None:
                    whole = rows[0], prices * share[0], gpu, float(share[0])
                    _note(ledger, kind, whole, float(least[0]), float(more[0]), float(seconds[0]))
                seconds[at] = np.maximum(seconds[at], least + more)
        moved = np.array([moved for _, moved in pairs]) / bandwidth
        seconds += moved
        if ledger is not None:
            ledger.widened(operators[0], wide[0], float(moved[0]))
        kinds = [kind if exact[i] else "" for i, (kind, _) in enumerate(found)]
        log = np.array([self.classes[kind].scatter if kind else (0.0, 0.0) for kind in kinds]).reshape(-1, 2)
        low, high = seconds * np.exp(np.minimum(log[:, 0], 0.0)), seconds * np.exp(np.maximum(log[:, 1], 0.0))
        return np.stack([seconds, low, high], axis=1)

    def _remembered(
        self, kind: str, rows: Sequence[tuple[float, ...]], gpu: HalfGpu, ledger: Ledger | None = None
    ) -> FloatArray:
        """Run times of rows of a class; only new shapes are computed, or those to be explained."""
        if ledger is not None:
            return self._computed(kind, np.array(rows, np.float64), gpu, ledger)
        keys = [(gpu, kind, row) for row in rows]
        fresh = sorted({key[2] for key in keys if key not in self._known})
        if len(self._known) + len(fresh) > REMEMBERED:
            self._known.clear()
            fresh = sorted(set(rows))
        if fresh:
            prices = self._computed(kind, np.array(fresh, np.float64), gpu)
            self._known.update(zip(((gpu, kind, row) for row in fresh), prices.tolist(), strict=True))
        return np.array([self._known[key] for key in keys], np.float64)

    def _computed(self, kind: str, table: FloatArray, gpu: HalfGpu, ledger: Ledger | None = None) -> FloatArray:
        return self._products(table, gpu, ledger) if kind == "product" else self.seconds(kind, table, gpu, ledger)

    def _products(self, table: FloatArray, gpu: HalfGpu, ledger: Ledger | None = None) -> FloatArray:
        """[r] seconds of [r, 4] products: by the board's own trees, or by those of all boards.

        Those of all boards give no less than the trees of a board that is better in every figure, and no more than
        those of one that is worse.
        """
        sheets = {name: _compared(gpu, sheet) for name, sheet in GEMM_GPUS.items()}
        for name, ratios in sheets.items():
            if all(abs(ratio - 1) <= ALIKE for ratio in ratios):
                if ledger is not None:
                    ledger.say(f"the board is treated as {name}, whose own trees, gpu-gemm-bf16-{name}, price products")
                return _own(name).products(table)
        prices = self.seconds("product", table, gpu, ledger)
        for name, ratios in sheets.items():
            if max(ratios) <= 1 + ALIKE:
                prices = _than(np.maximum, prices, table, name, ledger)
        for name, ratios in sheets.items():
            if min(ratios) >= 1 - ALIKE:
                prices = _than(np.minimum, prices, table, name, ledger)
        return prices

    def save(self, path: str | Path) -> None:
        """Write the model; see :mod:`~hetgym.costs.artefact`."""
        header = {
            "model": MODEL,
            "features": {kind: list(names) for kind, names in COLUMNS.items()},
            "limits": {kind: list(self.classes[kind].limits) for kind in COLUMNS},
            "scatter": {kind: list(self.classes[kind].scatter) for kind in COLUMNS},
            "card": self.card,
        }
        arrays = {f"{k} {name}": a for k in COLUMNS for name, a in self.classes[k].trees.arrays().items()}
        artefact.save(path, header, arrays)

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """See :meth:`~hetgym.costs.artefact.Stored.of_parts`."""
        artefact.check_form(header, MODEL, {kind: list(names) for kind, names in COLUMNS.items()}, where)
        refuse_others(arrays, [f"{kind} {name}" for kind in COLUMNS for name in ARRAYS], where)
        limits, scatter, card = (header.get(what) for what in ("limits", "scatter", "card"))
        pairs = all(isinstance(figures, dict) and set(figures) == set(COLUMNS) for figures in (limits, scatter))
        if not pairs or not isinstance(card, dict):
            raise ArtefactError(f"{where}: the header lacks a card, or limits or scatter of a class")
        assert isinstance(limits, dict) and isinstance(scatter, dict)
        try:
            classes = {}
            for kind, names in COLUMNS.items():
                own = {name: arrays[f"{kind} {name}"] for name in ARRAYS if f"{kind} {name}" in arrays}
                classes[kind] = HalfTrees(Forest.from_arrays(own, len(names), kind), limits[kind], scatter[kind])
            return cls(classes, card)
        except ArtefactError as error:
            raise ArtefactError(f"{where}: {error}") from error


def _than(bound: np.ufunc, prices: FloatArray, table: FloatArray, name: str, ledger: Ledger | None) -> FloatArray:
    """Prices of products, bounded by those of a board that is better (maximum) or worse (minimum) in every figure."""
    bounded = np.asarray(bound(prices, _own(name).products(table)), np.float64)
    if ledger is not None and bounded[0] != prices[0]:
        ledger.say(f"{name} is {'better' if bound is np.maximum else 'worse'} in every figure: its price is the bound")
    return bounded


def _note(
    ledger: Ledger,
    kind: str,
    asked: tuple[list[tuple[float, ...]], FloatArray, HalfGpu, float],
    seconds: float,
    more: float,
    roofline: float,
) -> None:
    """Note the bound of an operator whose rows were priced, and which of the rows, or the roofline, counts."""
    rows, prices, gpu, share = asked
    k = int(prices.argmin())
    if k:
        ledger.say(f"batch: by the fit experts take less for {2**k} times the rows; that price is used")
    if seconds + more < roofline:
        ledger.say(f"float32 takes no less than 16 bits ({seconds + more:.4g} s); the roofline is higher and prices it")
        return
    if roofline > 0:
        ledger.say("float32 takes no less than 16 bits, whose trees price it")
    physics = share * float(_work(kind, np.maximum(np.array([rows[k]], np.float64), 0.0), gpu)[0][0])
    ledger.priced(kind, physics, seconds, more)
    ledger.outside = None


def _work(kind: str, rows: FloatArray, gpu: HalfGpu) -> tuple[FloatArray, FloatArray]:
    """Bound [s] and features of rows of a class."""
    if kind == "attention":
        return attention_work(rows, gpu)
    bits = 16 if kind == "product" else 8
    return product_physics(rows, gpu, bits), product_features(rows, gpu, bits)


def _grows(kind: str, rows: FloatArray) -> BoolArray:
    """[r, c] True for the column that holds the batch: of products their number, or the rows of a single one."""
    at = np.zeros(len(rows)) if kind == "attention" else rows[:, 0] <= 1
    return np.asarray(np.arange(rows.shape[1]) == at[:, None], np.bool_)


def _classified(op: Operator, able: Sequence[str], gpu: HalfGpu) -> tuple[str, list[tuple[float, ...]]]:
    """The class that prices an operator, and its rows; the cheapest is used. An empty class means the roofline.

    A grouped product has a row for each doubling of its batch, which neither its number of products nor the rows of
    each follow. Products of float32 have the row of the same product in 16 bits, whose price is their least.
    """
    if op.dtype not in (*able, "float32"):
        return "", []
    row = attention_dimensions(op)
    if row is not None:
        return "attention", [row]
    doublings = GROUPED_DOUBLINGS if op.kind == "GroupedMatMul" else 1
    sizes = [row for k in range(doublings) if (row := product_dimensions(op, 1 << k)) is not None]
    if not sizes:
        return "", []
    narrow = all(tensor.dtype == "float8" for tensor in op.inputs[:2])
    return "product8" if narrow and gpu.peak8 > 0 else "product", sizes


def _narrowed(op: Operator, row: tuple[float, ...], gpu: HalfGpu) -> float:
    """Share of the time of a product in 16 bits that remains with narrower weights: that of its bound."""
    weights = op.inputs[1] if len(op.inputs) > 1 else None
    if weights is None or not weights.constant or weights.bytes >= 2 * weights.size:
        return 1.0
    sizes = np.array([row])
    narrow, usual = (product_physics(sizes, gpu, 16, weight)[0] for weight in (weights.bytes / weights.size, 2.0))
    return float(narrow / usual)


def _more(op: Operator) -> float:
    """Bytes that operators fused to a product move beyond it."""
    return anchor_of(op)[1] if op.kind == "Fused-matmul" else 0.0


def _compared(gpu: HalfGpu, sheet: GemmGpu) -> tuple[float, ...]:
    """A board's figures over those of a measured one."""
    mine = (gpu.peak, gpu.bandwidth, gpu.processors, gpu.cache)
    theirs = (sheet.peak_flops, sheet.memory_bandwidth, sheet.processors, sheet.cache_bytes)
    return tuple(a / b for a, b in zip(mine, theirs, strict=True))


@lru_cache(maxsize=8)
def _own(name: str) -> GemmCosts:
    """The model of products that was fitted to a measured board."""
    return GemmCosts.load(artefact.locate(f"gpu-gemm-bf16-{name}"))
