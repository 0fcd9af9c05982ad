"""Measurements: a CSV table with one row for each operator that was timed on a device.

Columns of the file (gzipped if its name ends in ``.gz``):

======================== ==========================================================================
``kind``                 of the operator; ``Graph`` for the wall time of a whole graph
``inputs``, ``outputs``  tensors such as ``float32(1,64,56,56)``; ``const`` before a weight; joined by ``;``
``attributes``           JSON object
``direction``            ``forward`` or ``backward``
``context``              ``isolated`` (run alone, caches cooled) or ``graph`` (inside a running graph)
``source``               the design or graph that it belongs to
``count``                operators of this shape in that graph
``seconds p10 p90``      median and tenth and ninetieth percentile of the repetitions [s]
``repetitions``          number of times that it was timed
``status``               ``ok``, ``timeout``, ``memory`` or ``unsupported``; only ``ok`` rows have times
======================== ==========================================================================
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from hetgym._input.files import as_path, read_text, write_bytes, write_text
from hetgym._input.json import parse
from hetgym._text import brief, csv_text, value_of
from hetgym._types import BoolArray, FloatArray
from hetgym.errors import ArtefactError, GraphError
from hetgym.graph.assembly import check_operator, check_tensor
from hetgym.graph.ops import DTYPE_BYTES, Attribute, Operator, Tensor

COLUMNS = (
    "kind", "inputs", "outputs", "attributes", "direction", "context", "source", "count", "seconds", "p10", "p90",
    "repetitions", "status",
)  # fmt: skip
DIRECTIONS = ("forward", "backward")
CONTEXTS = ("isolated", "graph")
STATUSES = ("ok", "timeout", "memory", "unsupported")
LIMIT_BYTES = 256 << 20  # Longest table that is accepted, after decompression [byte]

_TENSOR = re.compile(r"(const )?([a-z]+[0-9]*)\(((?:[0-9]{1,18}(?:,[0-9]{1,18})*)?)\)")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One timed operator; the module's docstring explains the columns of the table."""

    operator: Operator
    seconds: float
    p10: float
    p90: float
    repetitions: int
    direction: str = "forward"
    context: str = "isolated"
    source: str = ""
    count: int = 1
    status: str = "ok"

    def row(self) -> list[str]:
        """The fields as cells of the table."""
        op = self.operator
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in sorted(op.attributes.items())}
        attributes = json.dumps(plain, separators=(",", ":")) if plain else ""
        times = [f"{value:.4e}" if self.status == "ok" else "" for value in (self.seconds, self.p10, self.p90)]
        return [
            op.kind, tensors_text(op.inputs), tensors_text(op.outputs), attributes, self.direction, self.context,
            self.source, str(self.count), *times, str(self.repetitions), self.status,
        ]  # fmt: skip


def tensors_text(tensors: Sequence[Tensor]) -> str:
    """Format tensors for the table; names of weights are left out."""
    return ";".join(f"{'const ' if t.constant else ''}{t.dtype}({','.join(map(str, t.shape))})" for t in tensors)


def parse_tensors(text: str, where: str) -> tuple[Tensor, ...]:
    """Parse tensors that :func:`tensors_text` formatted; ArtefactError about other text, or an unknown dtype."""
    found = []
    for part in text.split(";") if text else ():
        match = _TENSOR.fullmatch(part)
        if match is None or match[2] not in DTYPE_BYTES:
            raise ArtefactError(f"{where}: {part[:60]!r} is not a tensor such as float32(1,64,56,56)")
        shape = tuple(int(size) for size in match[3].split(",")) if match[3] else ()
        try:
            found.append(check_tensor(Tensor(shape, match[2], bool(match[1])), where))
        except GraphError as error:
            raise ArtefactError(str(error)) from error
    return tuple(found)


@dataclass(frozen=True)
class Measurements:
    """A table of measurements."""

    rows: tuple[Measurement, ...]  # the rows, in the order of the file
    name: str = "measurements"  # name for messages

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.rows)

    @cached_property
    def seconds(self) -> FloatArray:
        """[n] median run times [s]; NaN for rows without a time."""
        return np.array([row.seconds for row in self.rows], np.float64)

    @cached_property
    def operators(self) -> list[Operator]:
        """[n] the timed operators."""
        return [row.operator for row in self.rows]

    def where(self, mask: Sequence[bool] | BoolArray) -> Measurements:
        """The rows that a mask of [n] booleans keeps."""
        return Measurements(tuple(row for row, keep in zip(self.rows, mask, strict=True) if keep), self.name)

    def timed(self) -> Measurements:
        """The rows of single operators that have a time."""
        return self.where([row.status == "ok" and row.operator.kind != "Graph" for row in self.rows])

    def graphs(self) -> dict[str, float]:
        """Wall times of whole graphs, by name [s]."""
        return {row.source: row.seconds for row in self.rows if row.operator.kind == "Graph" and row.status == "ok"}

    def save(self, path: str | Path) -> None:
        """Write the table; the same rows always give the same bytes. After an ArtefactError nothing is left behind."""
        write_text(Path(path), csv_text([COLUMNS, *(row.row() for row in self.rows)]), ArtefactError)

    @classmethod
    def load(cls, path: str | Path) -> Measurements:
        """Read a table; ArtefactError names the line of an invalid row."""
        source = as_path(path, "a table of measurements", ArtefactError)
        return cls(
            tuple(read_rows(read_text(source, LIMIT_BYTES, ArtefactError), str(source))), source.name.partition(".")[0]
        )


def read_rows(text: str, where: str, torn: bool = False) -> Iterator[Measurement]:
    """The rows of a table in CSV, header first.

    ``torn`` leaves an incomplete last line out, as a killed write leaves one. An invalid row is an ArtefactError.
    """
    if torn and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
    try:
        lines = csv.reader(io.StringIO(text), strict=True)
        header = next(lines, None)
        if header is None or tuple(header) != COLUMNS:
            raise ArtefactError(f"{where}: not a table of measurements; its first line must be {','.join(COLUMNS)}")
        for number, fields in enumerate(lines, 2):
            yield _measurement([value_of(text) for text in fields], f"{where}: line {number}")
    except csv.Error as cause:
        raise ArtefactError(f"{where}: not a CSV file ({cause})") from cause


@dataclass
class Journal:
    """A table that grows during measurement: each batch of rows is written to disk before the next is timed."""

    path: Path
    rows: list[Measurement] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Start a journal, or continue one that a killed run has left; ArtefactError if the file is not a journal."""
        journal = cls(path)
        if os.path.exists(path):  # unlike Path.exists it takes names of any length
            journal.rows = list(read_rows(read_text(path, LIMIT_BYTES, ArtefactError), str(path), torn=True))
        write_bytes(path, csv_text([COLUMNS, *(row.row() for row in journal.rows)]).encode(), ArtefactError)
        return journal

    def add(self, rows: Iterable[Measurement]) -> None:
        """Append rows in one write, so that a kill leaves either all of them or an incomplete last line."""
        added = list(rows)
        rest = memoryview(csv_text(row.row() for row in added).encode())
        with self.path.open("ab", buffering=0) as file:
            while rest:
                rest = rest[file.write(rest) :]
        self.rows += added


def _measurement(fields: list[str], where: str) -> Measurement:
    if len(fields) != len(COLUMNS):
        raise ArtefactError(f"{where}: {len(fields)} fields, expected {len(COLUMNS)}")
    values = dict(zip(COLUMNS, fields, strict=True))
    for key, known in (("direction", DIRECTIONS), ("context", CONTEXTS), ("status", STATUSES)):
        if values[key] not in known:
            raise ArtefactError(f"{where}: {key} is {values[key][:40]!r}; it must be one of {', '.join(known)}")
    if not values["kind"]:
        raise ArtefactError(f"{where}: the kind is empty")
    inputs, outputs = parse_tensors(values["inputs"], where), parse_tensors(values["outputs"], where)
    operator = Operator(values["source"], values["kind"], inputs, outputs, attributes_of(values["attributes"], where))
    ok = values["status"] == "ok"
    if operator.kind != "Graph":
        try:
            check_operator(operator, where)
        except GraphError as error:
            raise ArtefactError(str(error)) from error.__cause__
    seconds, p10, p90 = (
        _number(values[key], f"{where}: {key}") if ok else math.nan for key in ("seconds", "p10", "p90")
    )
    count, repetitions = (int(_number(values[key], f"{where}: {key}")) for key in ("count", "repetitions"))
    where_run = values["direction"], values["context"], values["source"]
    return Measurement(operator, seconds, p10, p90, repetitions, *where_run, count, values["status"])


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e15:
        raise ArtefactError(f"{where} is {text[:40]!r}, not a non-negative number")
    return value


def attributes_of(text: str, where: str) -> dict[str, Attribute]:
    """Parse the column of attributes, a JSON object or empty; ArtefactError about anything else."""
    if not text:
        return {}
    found = parse(text, f"{where}: the attributes", ArtefactError)
    if not isinstance(found, dict):
        raise ArtefactError(f"{where}: the attributes are not a JSON object")
    kept: dict[str, Attribute] = {}
    for key, value in found.items():
        if isinstance(value, list) and all(isinstance(v, int) and abs(v) < 2**53 for v in value):
            kept[key] = tuple(value)
        elif isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 2**53):
            kept[key] = value
        else:
            raise ArtefactError(f"{where}: attribute {key[:40]!r} is not a number, a string or a list of whole numbers")
    return kept
