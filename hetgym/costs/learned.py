"""LearnedCosts: a physical bound corrected by a small learned model for each class of operators."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hetgym._groups import gathered
from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.costs import artefact
from hetgym.costs.batches import not_below_halves
from hetgym.costs.explanation import Ledger
from hetgym.costs.features import FEATURES, class_of, described, family_of
from hetgym.costs.fused import anchor_of
from hetgym.costs.learned_models.blend import Blend
from hetgym.costs.learned_models.boosted import Boosted
from hetgym.costs.learned_models.calibrated import Calibrated
from hetgym.costs.learned_models.gaussian import Gaussian
from hetgym.costs.learned_models.neural import Neural
from hetgym.costs.learned_models.polynomial import Polynomial
from hetgym.costs.learned_models.wave import WaveLaw
from hetgym.costs.rates import widened
from hetgym.costs.regressor import Regressor
from hetgym.costs.roofline import PricedPlain, Roofline
from hetgym.device import Device
from hetgym.errors import ArtefactError, unknown_name
from hetgym.graph.ops import Operator

REGRESSORS: dict[str, type[Regressor]] = {
    "roofline": Calibrated, "polynomial": Polynomial, "neural": Neural, "boosted": Boosted, "gaussian": Gaussian,
    "blend": Blend, "wave": WaveLaw,
}  # fmt: skip
"""Name of a model -> the regressor that it fits to each class."""

_RESOLUTION = 12  # decimals of a second: times are rounded to picoseconds, so last bits of logarithms do not matter
_LARGEST_RATIO = 1e6
_KEPT = 200_000  # shapes whose prices are cached


@dataclass(frozen=True)
class ClassModel:
    """The model of one class."""

    regressor: Regressor  # map from features to a log ratio
    median: float  # median log ratio of the rows, which corresponds to a constant efficiency
    p10: float  # tenth percentile of log(measured / predicted) in cross-validation
    p90: float  # ninetieth percentile of the same
    rows: int  # number of measurements that it was fitted to


class _Alone(NamedTuple):
    """Prices of n operators by their regressors."""

    rows: FloatArray  # [n, 3] seconds and their percentiles
    least: FloatArray  # [n] physical bounds [s]
    x: FloatArray  # [n, f] features
    names: dict[int, str]  # number of an operator -> the class that priced it


@dataclass(frozen=True)
class LearnedCosts(artefact.Stored, PricedPlain):
    """Run times from models that were fitted to measurements.

    seconds = (max(FLOPs / peak, bytes / bandwidth) + floor) · ratio(features)

    A class without measurements takes the model of its family; a family without measurements takes the roofline. A
    fused operator costs as much as its anchor plus the additional memory traffic. Outside the measured shapes the ratio
    is that at the edge, and never beyond the fitted ratios, so that prices grow with the physical bound. No price is
    below that of half the batch. Percentiles are those of the errors that the fit made on held-out shapes. Results are
    cached by shape.
    """

    model: str  # a key of REGRESSORS
    classes: Mapping[str, ClassModel]  # class of operators, or `*family` -> its model
    # origin of the model as JSON values: source, licence, split, seed, scores
    card: Mapping[str, Any] = field(default_factory=dict)
    in_graph: bool = True  # True to price operators as they run within a graph, False as they run alone
    _known: dict[Any, tuple[float, float, float]] = field(default_factory=dict, repr=False, compare=False)

    __repr__ = brief

    @property
    def form(self) -> str:
        """Name of the regressors."""
        return self.model

    def _answers(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        place = _place(device)
        keys = [(place, *_shape(op)) for op in operators]
        known = self._known
        if len(known) > _KEPT:
            known.clear()
        new = {key: op for key, op in zip(keys, operators, strict=True) if key not in known}
        if new:
            rows = self._rows(list(new.values()), device)
            known.update(zip(new, map(tuple, rows.tolist()), strict=True))
        return np.array([known[key] for key in keys], np.float64).reshape(len(operators), 3)

    def _priced(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        anchors = [anchor_of(op) for op in operators]
        wide = [widened(anchor, device) for anchor, _ in anchors]
        moved = np.array([fused + other for (_, fused), (_, other) in zip(anchors, wide, strict=True)], np.float64)
        more: FloatArray = moved / device.memory_bandwidth
        found: list[_Alone] = []

        def price(some: list[Operator]) -> FloatArray:
            found.append(self._alone(some, device))
            return found[-1].rows

        result = not_below_halves([op for op, _ in wide], price)
        if ledger is not None:
            self._note(ledger, wide[0][0], found[0])
            ledger.fused(operators[0], *anchors[0], anchors[0][1] / device.memory_bandwidth)
            ledger.widened(anchors[0][0], wide[0][0], wide[0][1] / device.memory_bandwidth)
        return np.round(result + more[:, None], _RESOLUTION)

    def _alone(self, operators: list[Operator], device: Device) -> _Alone:
        """Prices by the regressors, without the law of batches."""
        result = np.empty((len(operators), 3))
        least, x = described(operators, device, self.in_graph)
        named = ((name if (name := class_of(op)) in self.classes else family_of(op)) for op in operators)
        groups = gathered((name, i) for i, name in enumerate(named))
        for name, at in groups.items():
            if name not in self.classes:
                result[at] = Roofline().predict([operators[i] for i in at], device)[:, None]
                continue
            model = self.classes[name]
            ratio, _ = model.regressor.predict(x[at])
            seconds = least[at] * np.exp(ratio)
            result[at] = seconds[:, None] * np.exp([0.0, model.p10, model.p90])
        return _Alone(result, least, x, {i: name for name, at in groups.items() for i in at})

    def _note(self, ledger: Ledger, operator: Operator, found: _Alone) -> None:
        """Note what priced an operator: the dearest of its halves; the first is the operator itself."""
        k = int(found.rows[:, 0].argmax())
        name, seconds, own = found.names[k], float(found.rows[k, 0]), class_of(operator)
        if k:
            ledger.say(f"batch: this is the price of 1/{2**k} of the batch, which the fit prices higher")
        if name not in self.classes:
            ledger.by_roofline(operator, seconds, 0.0)
            ledger.say(f"no measurements of {own} or its family: the roofline prices it")
            return
        if name != own:
            ledger.say(f"no measurements of {own}: those of its family {name[1:]!r} price it")
        ledger.priced(name, float(found.least[k]), seconds)
        seen = getattr(self.classes[name].regressor, "seen", None)
        if seen is not None:
            outside = [FEATURES[j] for j in np.flatnonzero(seen.beyond(found.x[k : k + 1])[0])]
            if not outside and not seen.holds(found.x[k : k + 1])[0]:
                outside = ["combination of features"]
            ledger.outside = tuple(outside)

    def save(self, path: str | Path) -> None:
        """Write the model; see :mod:`~hetgym.costs.artefact`."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        rows: dict[str, Any] = {}
        for name, model in self.classes.items():
            arrays |= {f"{name}/{key}": array for key, array in model.regressor.arrays().items()}
            rows[name] = {"median": model.median, "p10": model.p10, "p90": model.p90, "rows": model.rows}
        header = {
            "model": self.model,
            "features": list(FEATURES),
            "classes": rows,
            "card": dict(self.card),
            "in_graph": self.in_graph,
        }
        artefact.save(path, header, arrays)

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """See :meth:`~hetgym.costs.artefact.Stored.of_parts`."""
        name = header.get("model")
        if not isinstance(name, str) or name not in REGRESSORS:
            raise ArtefactError(f"{where}: {unknown_name('kind of cost model', name, REGRESSORS)}")
        if header.get("features") != list(FEATURES):
            raise ArtefactError(f"{where}: fitted to features that this version does not compute; fit it again")
        rows, card = header.get("classes"), header.get("card")
        if not isinstance(rows, dict) or not isinstance(card, dict):
            raise ArtefactError(f"{where}: the header has no classes or no card")
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for key, array in arrays.items():
            group, _, inner = key.rpartition("/")
            parts.setdefault(group, {})[inner] = array
        if parts.keys() != rows.keys():
            raise ArtefactError(f"{where}: the classes of the header are not those of the arrays")
        classes = {key: _class_model(name, parts[key], row, f"{where}: class {key!r}") for key, row in rows.items()}
        return cls(name, classes, card, bool(header.get("in_graph", True)))


def _class_model(name: str, arrays: Mapping[str, npt.NDArray[Any]], row: object, where: str) -> ClassModel:
    if not isinstance(row, dict) or row.keys() != {"median", "p10", "p90", "rows"}:
        raise ArtefactError(f"{where}: the header lacks its median, p10, p90 or rows")
    figures = {key: row[key] for key in ("median", "p10", "p90")}
    for key, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= math.log(_LARGEST_RATIO):
            raise ArtefactError(f"{where}: {key} is {value!r}, not a log ratio within {math.log(_LARGEST_RATIO):.3g}")
    if not isinstance(row["rows"], int):
        raise ArtefactError(f"{where}: rows is {row['rows']!r}, not a whole number")
    try:
        regressor = REGRESSORS[name].from_arrays(arrays)
    except ArtefactError as error:
        raise ArtefactError(f"{where}: {error}") from error
    return ClassModel(regressor, **{k: float(v) for k, v in figures.items()}, rows=row["rows"])


def _shape(op: Operator) -> tuple[Any, ...]:
    """The cache key of an operator: everything that a prediction depends on, that is all but names."""
    return (
        op.kind,
        *[(t.shape, t.dtype, t.constant) for t in op.inputs],
        *[(t.shape, t.dtype) for t in op.outputs],
        *op.attributes.items(),
    )


def _place(device: Device) -> tuple[Any, ...]:
    rates = tuple(sorted(device.peak_flops.items()))
    return (
        device.kind, rates, device.memory_bandwidth, device.launch_overhead, device.processors, device.cache_bytes,
        tuple(sorted(device.efficiency.items())), device.memory_efficiency,
    )  # fmt: skip
