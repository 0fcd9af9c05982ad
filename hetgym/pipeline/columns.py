"""Columns of a table of layers: headings that carry units, and a number or a name for each layer."""

import math
import re
from pathlib import Path

import numpy as np

from hetgym._input.sizes import BYTES
from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.device import Device
from hetgym.errors import ProblemError, shown, suggestion
from hetgym.weights import SharedWeights

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
COLUMNS: dict[str, dict[str, float]] = {
    "layer": {},
    "count": {},
    "time": SECONDS,
    "size": BYTES | {"parameters": 1.0},
    "output": BYTES,
    "transfer": SECONDS,
    "cache": BYTES,
    "shared-with": {},
}
"""Column -> unit -> factor; columns without units hold names and whole numbers."""

MAX_LAYERS = 10_000
_HEADING = re.compile(r"([A-Za-z-]+)(?: ([^\[\]]+?))? ?(?:\[([^\]]+)\])?")


class Columns:
    """The columns of a file, a number for each layer: names, units by quantity, values in SI units by heading."""

    def __init__(self, file: Path, lines: list[list[str]], decimal: str = ".") -> None:
        self.file, self.units, self.decimal = file, dict[str, str](), decimal
        headings = [self._heading(text) for text in lines[0]]
        if len(set(headings)) < len(headings):
            raise ProblemError(f"{file}: a heading occurs twice")
        if not {"time", "size"} & set(self.units):
            raise ProblemError(f"{file}: expected a column of times or sizes, such as time [ms] or size [MB]")
        rows, names, counts, partners = [], [], [], []
        for number, fields in enumerate(lines[1:], 2):
            where = f"{file}: line {number}"
            if len(fields) != len(headings):
                raise ProblemError(f"{where}: {len(fields)} fields for {len(headings)} columns")
            row = dict(zip(headings, fields, strict=True))
            names.append(row.pop("layer", "") or f"layer{number - 2}")
            counts.append(self._whole(row.pop("count", "1"), where))
            partners.append(row.pop("shared-with", "").strip())
            rows.append([self._number(row[heading], heading, where) for heading in row])
        self.number = summed(counts)
        if self.number > MAX_LAYERS:
            raise ProblemError(f"{file}: {self.number} layers are more than {MAX_LAYERS}")
        kept = [heading for heading in headings if heading not in ("layer", "count", "shared-with")]
        values = np.repeat(np.array(rows, np.float64).reshape(len(rows), len(kept)), counts, axis=0)
        self.columns: dict[str, FloatArray] = {heading: values[:, k] for k, heading in enumerate(kept)}
        self.names = [
            name if count == 1 else f"{name}.{k}"
            for name, count in zip(names, counts, strict=True)
            for k in range(count)
        ]
        self.partners = [partner for partner, count in zip(partners, counts, strict=True) for _ in range(count)]

    def shared(self) -> SharedWeights:
        """The weights that layers share: of each group of layers, the smallest size in it.

        Raises:
            ProblemError: a layer shares with one that the table does not have, or with itself.
        """
        number = {name: k for k, name in enumerate(self.names)}
        size = self.columns.get("size", np.zeros(self.number))
        readers: dict[int, list[int]] = {}
        for k, partner in enumerate(self.partners):
            if partner and (partner not in number or number[partner] == k):
                raise ProblemError(
                    f"{self.file}: layer {shown(self.names[k])} is shared-with {shown(partner)}; expected the name of "
                    "another layer"
                )
            if partner:
                readers.setdefault(number[partner], [number[partner]]).append(k)
        twice = [root for root in readers if self.partners[root]]
        if twice:
            raise ProblemError(
                f"{self.file}: layers share with {shown(self.names[twice[0]])}, which itself is shared-with "
                f"{shown(self.partners[twice[0]])}; name that one instead"
            )
        return SharedWeights.of(self.number, [(ids, float(size[ids].min())) for ids in readers.values()])

    def time(self, device: Device | None) -> FloatArray:
        """[n] run times on a device: those of its name, of its kind, or of all devices [s]."""
        if "time" not in self.units:
            return np.zeros(self.number)
        tried = ("time",) if device is None else (f"time {device.name}", f"time {device.kind}", "time")
        for heading in tried:
            if heading in self.columns:
                return self.columns[heading]
        whom = "without a platform" if device is None else f"for device {device.name!r}"
        raise ProblemError(f"{self.file}: no times {whom}; add a column {tried[0]} [ms]")

    def _heading(self, text: str) -> str:
        """A heading without its unit, which is noted."""
        found = _HEADING.fullmatch(text.strip())
        quantity, device, unit = found.groups() if found else (text.strip(), None, None)
        quantity = quantity.lower()
        if quantity not in COLUMNS or (device and quantity != "time"):
            raise ProblemError(f"{self.file}: unknown column {shown(text.strip())}; {suggestion(quantity, COLUMNS)}")
        known = COLUMNS[quantity]
        if (unit not in known) if known else unit is not None:
            wanted = (
                f"one of {', '.join(f'{quantity} [{u}]' for u in known)}" if known else f"{quantity}, without a unit"
            )
            raise ProblemError(f"{self.file}: column {shown(text.strip())} has no known unit; write {wanted}")
        if unit is not None and self.units.setdefault(quantity, unit) != unit:
            raise ProblemError(f"{self.file}: columns of {quantity} have the units {self.units[quantity]} and {unit}")
        return f"{quantity} {device}" if device else quantity

    def _number(self, text: str, heading: str, where: str) -> float:
        quantity = heading.split(" ")[0]
        try:
            value = float(text.replace(self.decimal, ".") or "0") * COLUMNS[quantity][self.units[quantity]]
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf and not (quantity == "time" and value == math.inf):
            raise ProblemError(f"{where}: {heading} is {shown(text)}; expected a non-negative number")
        return value

    def _whole(self, text: str, where: str) -> int:
        if not (text.strip().isascii() and text.strip().isdigit() and 0 < len(text.strip()) <= 6 and int(text)):
            raise ProblemError(f"{where}: count is {shown(text)}; expected a whole number of at least 1")
        return int(text)
