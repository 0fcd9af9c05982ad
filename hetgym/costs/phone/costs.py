"""Costs of operators on a phone's processors, from times of whole networks.

seconds of a network = call + sum over operators and amounts of (coefficient x amount)

A phone runs a network as one compiled graph, and what is published are times of whole networks. So the coefficients,
one for each of :data:`~hetgym.costs.phone.work.AMOUNTS`, board and precision, were fitted to sums; the price of a
single operator is its share of such a sum and was never measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._sums import summed
from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.costs import artefact
from hetgym.costs.explanation import Ledger
from hetgym.costs.phone.work import AMOUNTS, ON_CHIP, amounts
from hetgym.costs.rates import least_seconds
from hetgym.costs.regressor import refuse_others
from hetgym.costs.roofline import PricedPlain, by_roofline
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph.ops import Operator

MODEL = "phone"  # Kind of the model in the header of an artefact

PRECISIONS: dict[str, str] = {
    "float32": "float", "float16": "float", "bfloat16": "float", "int16": "w8a16", "uint16": "w8a16", "int8": "w8a8",
    "uint8": "w8a8",
}  # fmt: skip
"""Dtype of an operator -> precision of the compiled network: ``float`` computes in 16 bits, w8a16 and w8a8 have weights
of 8 bits and activations of 16 or 8. Operators of other dtypes (indices, masks) are priced as ``float`` where the board
can run that, else as w8a8."""

BYTES: dict[str, tuple[float, float]] = {"float": (2.0, 2.0), "w8a8": (1.0, 1.0), "w8a16": (1.0, 2.0)}
"""Precision -> bytes of a weight and of an activation; in the order in which operators of other dtypes take them."""

CHIP = 2.0 * ON_CHIP  # Memory on the chip [byte]; operators that fit read nothing from outside
STRANGE = "the precision was not fitted: the roofline prices it"  # Rule of explanations for such operators

RATES: tuple[str, ...] = (*AMOUNTS, "elements in and out", "calls")
"""Columns of the coefficients: seconds for each amount, for each element of the network's inputs and outputs, and for
each call of the network."""

SHEET: tuple[str, ...] = ("peak", "bandwidth")
"""Figures of a board's data sheet: FLOP/s or operations/s of its fastest dtype, byte/s."""

_COMPUTES = np.array([name.startswith("operations") for name in AMOUNTS])
_MOVES = np.array([name.startswith(("elements", "weights")) for name in AMOUNTS])
_LIMITS = (-60.0, 10.0)  # of the logarithm of a coefficient [s]


@dataclass(frozen=True)
class PhoneCosts(artefact.Stored, PricedPlain):
    """Prices of operators in a compiled network.

    A device is recognised by its ``model``: the name of one of the fitted boards. Coefficients of a stranger are the
    geometric mean of the boards', those of arithmetic scaled by peak, those of movement by bandwidth.

    A call of the network as a whole costs more than its operators: see :meth:`call`. On a platform this belongs to
    the link that carries inputs and outputs.

    Raises:
        ArtefactError: arrays that do not match, or values out of range.
    """

    form = MODEL

    boards: tuple[str, ...]  # names of the b fitted boards
    precisions: tuple[str, ...]  # the p fitted precisions, of the values of PRECISIONS
    rates: FloatArray  # [b, p, len(RATES)] logarithms of seconds
    sheet: FloatArray  # [b, 2] columns SHEET
    able: FloatArray  # [b, p] 1 where the board can run the precision, else 0
    # source, licence, split and scores of the fit, as plain values
    card: Mapping[str, Any] = field(default_factory=dict)
    # tenth and ninetieth percentile of log(measured / predicted) of networks that were held out
    scatter: tuple[float, float] = (0.0, 0.0)

    __repr__ = brief

    def __post_init__(self) -> None:
        shape = (len(self.boards), len(self.precisions))
        if not all(shape) or self.rates.shape != (*shape, len(RATES)) or self.able.shape != shape:
            raise ArtefactError(f"rates have shape {self.rates.shape}, but boards and precisions {shape}")
        if self.sheet.shape != (shape[0], len(SHEET)) or not np.all(self.sheet > 0):
            raise ArtefactError("the data sheets do not match the boards, or a figure is not positive")
        if not np.all((self.rates >= _LIMITS[0]) & (self.rates <= _LIMITS[1])):
            raise ArtefactError(f"a rate is not between {_LIMITS[0]:g} and {_LIMITS[1]:g} [log seconds]")
        if not set(self.precisions) <= set(PRECISIONS.values()):
            raise ArtefactError(f"precisions are {', '.join(self.precisions)}, not {', '.join(PRECISIONS.values())}")
        if not -20.0 <= self.scatter[0] <= self.scatter[1] <= 20.0:
            raise ArtefactError(f"scatter is {self.scatter!r}; expected two log ratios in rising order")

    def coefficients(self, device: Device, precision: str) -> FloatArray | None:
        """[len(RATES)] seconds of a device, in the order of :data:`RATES`; None if it cannot run the precision."""
        if precision not in self.precisions:
            return None
        number = self.precisions.index(precision)
        if device.model in self.boards:
            board = self.boards.index(device.model)
            return np.exp(self.rates[board, number]) if self.able[board, number] else None
        return self.stranger(max(device.peak_flops.values()), device.memory_bandwidth, number)

    def stranger(self, peak: float, bandwidth: float, number: int) -> FloatArray | None:
        """[len(RATES)] seconds of a board that was not fitted; None if no board can run the precision of the number.

        Its data sheet has the peak in its fastest dtype [operations/s] and the bandwidth of its memory [byte/s].
        """
        boards = np.flatnonzero(self.able[:, number])
        if not len(boards):
            return None
        scale = np.zeros((len(boards), len(RATES)))
        scale[:, : len(AMOUNTS)][:, _COMPUTES] = np.log(self.sheet[boards, :1] / peak)
        scale[:, : len(AMOUNTS)][:, _MOVES] = np.log(self.sheet[boards, 1:] / bandwidth)
        return np.asarray(np.exp((self.rates[boards, number] + scale).mean(axis=0)), np.float64)

    def call(self, device: Device, dtype: str, elements: float) -> float:
        """Time of a call of a network beyond its operators [s]; inf if the device cannot run the network's dtype.

        ``elements`` are those of its inputs and outputs.
        """
        found = self.coefficients(device, PRECISIONS.get(dtype, "float"))
        return float("inf") if found is None else float(found[-1] + found[-2] * elements)

    def _priced(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        """[n, 3] seconds, inf for operators whose precision the device cannot run; percentiles of whole networks."""
        table = amounts(operators)
        found = {dtype: self._rates_of(device, dtype) for dtype in {op.dtype for op in operators}}
        seconds = np.array([float(row @ found[op.dtype]) for row, op in zip(table, operators, strict=True)], np.float64)
        view = np.array([op.spec.family == "view" for op in operators], np.bool_)
        seconds[view] = 0.0
        if ledger is not None:
            ledger.priced(self._precision(device, operators[0].dtype), float(seconds[0]), float(seconds[0]))
            ledger.outside = () if device.model in self.boards else ("board",)
            ledger.say("the operator's share of a compiled network's time, as fitted to whole networks")
            if ledger.outside:
                ledger.say("the board was not fitted: the mean of those that were, scaled by peak and bandwidth")
        strange = np.array([PRECISIONS.get(op.dtype, self.precisions[0]) not in self.precisions for op in operators])
        if strange.any():
            at = np.flatnonzero(strange).tolist()
            seconds[strange] = by_roofline([operators[k] for k in at], device, ledger, STRANGE)[:, 0]
        seconds = np.where(np.isnan(seconds), np.inf, seconds)
        return np.asarray(seconds[:, None] * np.array([1.0, *(float(np.exp(q)) for q in self.scatter)]), np.float64)

    def _least(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] time to move operators' bytes in their precision, 0 for those that fit the chip."""
        moved = np.zeros(len(operators))
        for i, op in enumerate(operators):
            weights, others = BYTES[self._precision(device, op.dtype)]
            held = summed((weights if t.constant else others) * t.size for t in op.inputs)
            stated = summed(t.bytes for t in op.inputs)
            read = op.bytes_read * held / stated if stated else 0.0
            written = others * summed(t.size for t in op.outputs) if op.bytes_written else 0.0
            moved[i] = min(read, op.bytes_read) + min(written, op.bytes_written)
        return least_seconds(moved, device, max(CHIP, device.cache_bytes or 0.0))

    def _precision(self, device: Device, dtype: str) -> str:
        """The precision in which a device computes operators of a dtype."""
        if dtype in PRECISIONS:
            return PRECISIONS[dtype]
        able = (name for name in BYTES if self.coefficients(device, name) is not None)
        return next(able, "float")

    def _rates_of(self, device: Device, dtype: str) -> FloatArray:
        """[a] seconds for each amount; NaN if the device cannot run the dtype."""
        found = self.coefficients(device, self._precision(device, dtype))
        return np.full(len(AMOUNTS), np.nan) if found is None else found[: len(AMOUNTS)]

    def save(self, path: str | Path) -> None:
        """Write the model; see :mod:`~hetgym.costs.artefact`."""
        header = {
            "model": MODEL, "rates": list(RATES), "boards": list(self.boards), "precisions": list(self.precisions),
            "scatter": list(self.scatter), "card": dict(self.card),
        }  # fmt: skip
        artefact.save(path, header, {"rates": self.rates, "sheet": self.sheet, "able": self.able})

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """See :meth:`~hetgym.costs.artefact.Stored.of_parts`."""
        artefact.check_form(header, MODEL, list(RATES), where, "rates")
        refuse_others(arrays, ("rates", "sheet", "able"), where)
        names = [header.get(key) for key in ("boards", "precisions")]
        scatter, card = header.get("scatter"), header.get("card")
        words = all(isinstance(row, list) and all(isinstance(name, str) for name in row) for row in names)
        numbers = isinstance(scatter, list) and len(scatter) == 2 and all(type(v) in (int, float) for v in scatter)
        if not words or not numbers or not isinstance(card, dict) or len(arrays) != 3:
            raise ArtefactError(f"{where}: boards, precisions, scatter, the card or an array is missing or invalid")
        assert isinstance(names[0], list) and isinstance(names[1], list) and isinstance(scatter, list)
        table = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        try:
            return cls(tuple(names[0]), tuple(names[1]), **table, card=card, scatter=(scatter[0], scatter[1]))
        except ArtefactError as error:
            raise ArtefactError(f"{where}: {error}") from error
