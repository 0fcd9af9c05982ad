"""Pipelines from a table of layers: a CSV file whose headings carry the units."""

import csv
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetgym._input.files import as_path, read_text
from hetgym._input.sizes import BYTES
from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.errors import ProblemError, shown, suggestion
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.platform import Device, Platform

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
COLUMNS: dict[str, dict[str, float]] = {
    "layer": {},
    "count": {},
    "time": SECONDS,
    "size": BYTES | {"parameters": 1.0},
    "output": BYTES,
    "transfer": SECONDS,
}
"""Column -> unit -> factor; columns without units hold names and whole numbers."""

MAX_LAYERS = 10_000
MAX_BYTES = 8_000_000
_HEADING = re.compile(r"([a-z]+)(?: ([^\[\]]+?))? ?(?:\[([^\]]+)\])?")


@dataclass(frozen=True)
class LayerTable:
    """A table of layers as a pipeline."""

    problem: PipelineProblem  # a chain with one operator for each layer
    timed: bool  # False if the table has no times; all are then 0
    unit: str  # of the sizes: `"B"` or `"parameters"`


def load_layers(
    path: str | os.PathLike[str], platform: Platform | None = None, devices: int | None = None
) -> LayerTable:
    """Read a table of layers.

    The columns are ``layer``, its name; ``count``, for as many equal layers in a row; ``time [ms]``, its run time, or
    ``time NAME [ms]`` for devices of that name or kind; ``size [MB]``, its weights and all else that it keeps in
    memory; and ``output [MB]``, which the next layer reads, or ``transfer [ms]``, the time to move that to or from
    main memory. Units are those of :data:`COLUMNS`. All columns but one of time or size may be missing.

    Args:
        platform: the devices, their memory, and the links over which outputs move.
        devices: number of equal devices of unlimited memory, without a platform.

    Raises:
        ProblemError: the file is missing or damaged, a heading or number is invalid, or a device has no time.
    """
    file = as_path(path, "a table of layers", ProblemError)
    try:
        lines = [row for row in csv.reader(read_text(file, MAX_BYTES, ProblemError).splitlines(), strict=True) if row]
    except csv.Error as cause:
        raise ProblemError(f"{file}: not a CSV file ({cause})") from cause
    if len(lines) < 2:
        raise ProblemError(f"{file}: expected a line of headings, such as layer,time [ms],size [MB], and layers")
    table = _Table(file, lines)
    unit = "parameters" if "size" in table.units and table.units["size"] == "parameters" else "B"
    if platform is not None and unit == "parameters":
        raise ProblemError(f"{file}: sizes in parameters fit no memory in bytes; give size [MB], or no platform")
    if platform is None and "output" in table.units:
        raise ProblemError(f"{file}: the time of an output depends on links: give a platform, or transfer [ms]")
    if platform is None:
        kinds, first = [DeviceKind("device", devices or 1)], [0]
        cost = table.time(None)[:, None]
    else:
        cost = np.stack([table.time(device) for device in platform.devices], axis=1)
        kinds, first = kinds_of(platform, cost)
        cost = cost[:, first]
    transfer = table.columns.get("transfer", np.zeros(table.number))
    if platform is not None and len(platform) > 1 and "transfer" not in table.columns:
        apart = ~np.eye(len(platform), dtype=np.bool_)
        latency, pace = platform.latency[apart].mean(), (1.0 / platform.bandwidth[apart]).mean()
        transfer = latency + table.columns.get("output", np.zeros(table.number)) * pace
    edges = [(k, k + 1) for k in range(table.number - 1)]
    size = table.columns.get("size", np.zeros(table.number))
    problem = PipelineProblem(
        cost, edges, kinds, transfer, size, operator_names=table.names, name=file.name.removesuffix(".csv")
    )
    return LayerTable(problem, any(name.startswith("time") for name in table.columns), unit)


def kinds_of(platform: Platform, cost: FloatArray) -> tuple[list[DeviceKind], list[int]]:
    """Kinds of devices, consecutive ones with equal costs [n, d] and memory being one; and the first device of each."""
    memory = [device.usable_memory for device in platform.devices]
    first = [
        d for d in range(len(memory)) if d == 0 or memory[d] != memory[d - 1] or (cost[:, d] != cost[:, d - 1]).any()
    ]
    counts = np.diff([*first, len(platform)]).tolist()
    named = [platform[d] for d in first]
    return [DeviceKind(d.name, count, d.usable_memory) for d, count in zip(named, counts, strict=True)], first


class _Table:
    """The columns of a file, a number for each layer: names, units by quantity, values in SI units by heading."""

    def __init__(self, file: Path, lines: list[list[str]]) -> None:
        self.file, self.units = file, dict[str, str]()
        headings = [self._heading(text) for text in lines[0]]
        if len(set(headings)) < len(headings):
            raise ProblemError(f"{file}: a heading occurs twice")
        if not {"time", "size"} & set(self.units):
            raise ProblemError(f"{file}: expected a column of times or sizes, such as time [ms] or size [MB]")
        rows, names, counts = [], [], []
        for number, fields in enumerate(lines[1:], 2):
            where = f"{file}: line {number}"
            if len(fields) != len(headings):
                raise ProblemError(f"{where}: {len(fields)} fields for {len(headings)} columns")
            row = dict(zip(headings, fields, strict=True))
            names.append(row.pop("layer", "") or f"layer{number - 2}")
            counts.append(self._whole(row.pop("count", "1"), where))
            rows.append([self._number(row[heading], heading, where) for heading in row])
        self.number = summed(counts)
        if self.number > MAX_LAYERS:
            raise ProblemError(f"{file}: {self.number} layers are more than {MAX_LAYERS}")
        kept = [heading for heading in headings if heading not in ("layer", "count")]
        values = np.repeat(np.array(rows, np.float64).reshape(len(rows), len(kept)), counts, axis=0)
        self.columns: dict[str, FloatArray] = {heading: values[:, k] for k, heading in enumerate(kept)}
        self.names = [
            name if count == 1 else f"{name}.{k}"
            for name, count in zip(names, counts, strict=True)
            for k in range(count)
        ]

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
            value = float(text or "0") * COLUMNS[quantity][self.units[quantity]]
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf and not (quantity == "time" and value == math.inf):
            raise ProblemError(f"{where}: {heading} is {shown(text)}; expected a non-negative number")
        return value

    def _whole(self, text: str, where: str) -> int:
        if not (text.strip().isascii() and text.strip().isdigit() and 0 < len(text.strip()) <= 6 and int(text)):
            raise ProblemError(f"{where}: count is {shown(text)}; expected a whole number of at least 1")
        return int(text)
