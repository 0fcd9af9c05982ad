"""Explanations of prices: what a model did to price an operator on a device, noted while it does it."""

import abc
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from hetgym._text import duration
from hetgym._types import FloatArray
from hetgym.costs.features import times
from hetgym.costs.rates import arithmetic, least_seconds, rate, traffic
from hetgym.device import Device
from hetgym.graph.ops import GENERIC, Operator


@dataclass(frozen=True)
class Explanation:
    """Why an operator has its price on a device.

    ``seconds`` is ``added + physics * ratio`` up to rounding, unless a rule says that another bound applies.
    """

    operator: str  # name of the operator
    kind: str  # its kind
    device: str  # name of the device
    model: str  # name of the model that priced it, or its form for one that was not loaded by name
    category: str  # class of operators in that model whose fit, or rates, priced it; empty if it has no classes
    # which of arithmetic and memory takes longer at the data sheet's rates; `none` if neither takes time
    bound: Literal["compute", "memory", "none"]
    physics: float  # the model's physical bound, which the ratio multiplies [s]
    ratio: float  # learned ratio of the run time to that bound; 1 where nothing was learned
    added: float  # launch, conversions and traffic of fused operators beside that [s]
    seconds: float  # the price, as `predict` returns it [s]
    # low, high: tenth and ninetieth percentile, as `spread` returns them [s]
    low: float
    high: float
    # features in which the operator lies outside the fitted rows; empty if in none; None if the model does not keep the
    # range of its rows
    outside: tuple[str, ...] | None = None
    rules: tuple[str, ...] = ()  # what else was done, a sentence each

    @property
    def extrapolates(self) -> bool | None:
        """True if the operator lies outside the fitted rows; None if that is unknown."""
        return None if self.outside is None else bool(self.outside)

    def to_dict(self) -> dict[str, Any]:
        """The attributes as plain values."""
        return {**asdict(self), "extrapolates": self.extrapolates}


@dataclass
class Ledger:
    """What a model notes while it prices one operator; see :class:`Explanation` for the attributes."""

    category: str = ""
    physics: float = 0.0
    ratio: float = 1.0
    added: float = 0.0
    outside: tuple[str, ...] | None = None
    rules: list[str] = field(default_factory=list)

    def say(self, rule: str) -> None:
        """Add a rule, once."""
        if rule not in self.rules:
            self.rules.append(rule)

    def priced(self, category: str, physics: float, seconds: float, added: float = 0.0) -> None:
        """Note the bound of a class and the price without the added time [s]; the ratio follows."""
        self.category, self.physics, self.added = category, physics, added
        self.ratio = seconds / physics if physics > 0 and np.isfinite(physics) else 1.0

    def by_roofline(self, operator: Operator, slower: float, launch: float) -> None:
        """Note that the roofline priced an operator by the slower of arithmetic and memory [s]."""
        self.priced(operator.spec.family, slower, slower, 0.0 if operator.spec.family == "view" else launch)
        self.outside = ()

    def widened(self, before: Operator, after: Operator, seconds: float) -> None:
        """Note that a product was computed in a wider dtype, with conversions that take some time [s]."""
        if after is not before:
            self.added += seconds
            self.say(
                f"no units for {before.dtype}: the product is computed in {after.dtype}; activations are converted "
                f"through memory, which takes {duration(seconds)}, constants in registers"
            )

    def fused(self, operator: Operator, anchor: Operator, moved: float, seconds: float) -> None:
        """Note that a fused operator was priced as its anchor and the bytes that it moves beyond it."""
        if anchor is not operator:
            self.added += seconds
            self.say(f"fused: priced as its anchor {anchor.kind} plus {moved:.4g} bytes of further traffic")

    def explanation(
        self, model: str, operator: Operator, device: Device, row: Sequence[float] | FloatArray
    ) -> Explanation:
        """The explanation, given the price and its percentiles [s]; ``model`` is the model's name or form."""
        compute, memory = times(operator, device)
        seconds, low, high = (float(value) for value in row)
        dtype = arithmetic(operator)
        found, pace = rate(device, dtype)
        if operator.spec.family == "view" and seconds == 0:
            self.say("a view moves no data")
        elif operator.spec is GENERIC:
            self.say(
                f"kind {operator.kind!r} is not in the vocabulary: it is priced as reading and writing its tensors"
            )
        if operator.flops > 0 and pace == 0:
            self.say(f"the device cannot compute in {dtype}")
        elif operator.flops > 0 and found != dtype and not any(rule.startswith("no units") for rule in self.rules):
            self.say(f"no rate for {dtype} in the device's description: the rate of {found} is used")
        return Explanation(
            operator=operator.name,
            kind=operator.kind,
            device=device.name,
            model=model,
            category=self.category,
            bound="none" if compute == memory == 0 else "compute" if compute >= memory else "memory",
            physics=float(self.physics),
            ratio=float(self.ratio),
            added=float(self.added),
            seconds=seconds,
            low=low,
            high=high,
            outside=self.outside,
            rules=tuple(self.rules),
        )


class Priced(abc.ABC):
    """Base of cost models that answer all questions by one function, :meth:`_priced`.

    No price is below the time that the memory takes for what the operator moves, see
    :func:`~hetgym.costs.rates.least_seconds`.
    """

    @property
    @abc.abstractmethod
    def form(self) -> str:
        """Name of the kind of model."""

    @abc.abstractmethod
    def _priced(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        """[n, 3] run times and their tenth and ninetieth percentiles [s]; a ledger comes with one operator only."""

    def _least(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] time that the memory takes [s]."""
        return least_seconds(traffic(operators), device)

    def _rows(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        """[n, 3] what :meth:`_priced` returns, but no less than :meth:`_least`."""
        rows, least = self._priced(operators, device, ledger), self._least(operators, device)
        if ledger is not None and rows[0, 0] < least[0]:
            ledger.say(
                f"moving its bytes takes {least[0]:.4g} s at the memory bandwidth, which is more than the "
                f"{rows[0, 0]:.4g} s of the model"
            )
        return np.maximum(rows, least[:, None])

    def _answers(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n, 3] :meth:`_rows`, which a subclass may remember."""
        return self._rows(operators, device)

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] run times [s]; inf for arithmetic in a dtype that the device cannot compute in."""
        return self._answers(operators, device)[:, 0].copy()

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """[n] tenth and [n] ninetieth percentile of run times [s], as the class of the model says."""
        answers = self._answers(operators, device)
        return answers[:, 1].copy(), answers[:, 2].copy()

    def explain(self, operator: Operator, device: Device) -> Explanation:
        """Why an operator has its price; see :class:`~hetgym.costs.protocol.CostModel`."""
        ledger = Ledger()
        return ledger.explanation(self.form, operator, device, self._rows([operator], device, ledger)[0])
