"""Reading of untrusted text in lines of numbers: bounded, and with the line in every message."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetgym._input.files import read_text
from hetgym._types import FloatArray
from hetgym.errors import ProblemError, shown
from hetgym.workloads.documents import LARGEST

LIMIT_BYTES = 32 << 20
"""Longest text that is accepted, after decompression: a graph of 5000 tasks may take 27 MiB [byte]."""

MOST_OPERATORS = 1 << 20
MOST_EDGES = 1 << 22
MOST_DEVICES = 1024
MOST_COSTS = 1 << 24
"""Most entries of the cost table, 128 MiB; with these limits, reading any text takes less than 2 GiB of memory."""

_NUMBER = re.compile(r"([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?")
_WHOLE = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Line:
    """The words of one line, at least one.

    All methods that read a word raise :class:`~hetgym.errors.ProblemError` if it is missing or invalid.
    """

    place: str
    words: list[str]

    def fail(self, what: str) -> ProblemError:
        """The error to raise; its message names the file and the line."""
        return ProblemError(f"{self.place}: {what}")

    def number(self, at: int, what: str) -> float:
        """A number from 0 to :data:`~hetgym.workloads.documents.LARGEST`."""
        word = self._word(at, what)
        value = as_number(word)
        if value is None:
            raise self.fail(f"{what} is {shown(word)}, not a number from 0 to {LARGEST:g}")
        return value

    def whole(self, at: int, what: str, smallest: int, largest: int) -> int:
        """A whole number within limits."""
        word = self._word(at, what)
        if not _WHOLE.fullmatch(word) or not smallest <= int(word) <= largest:
            raise self.fail(f"{what} is {shown(word)}, not a whole number from {smallest} to {largest}")
        return int(word)

    def exactly(self, count: int) -> None:
        """Refuse a line of more or fewer words."""
        if len(self.words) != count:
            raise self.fail(f"{len(self.words)} numbers, not {count}")

    def _word(self, at: int, what: str) -> str:
        if at >= len(self.words):
            raise self.fail(f"ends before {what}")
        return self.words[at]


def as_number(word: str) -> float | None:
    """A number from 0 to :data:`~hetgym.workloads.documents.LARGEST`; None if the word is not one."""
    value = float(word) if _NUMBER.fullmatch(word) else -1.0
    return value if 0 <= value <= LARGEST else None


class Lines:
    """The lines of a plain or gzipped file, in turn, without blank lines and comments after ``#``."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._lines = self._filled(io.StringIO(read_text(path, LIMIT_BYTES, ProblemError)))

    def _filled(self, text: io.StringIO) -> Iterator[Line]:
        for at, line in enumerate(text, 1):
            words = line.partition("#")[0].split()
            if words:
                yield Line(f"{self.where}, line {at}", words)

    def __iter__(self) -> Iterator[Line]:
        return self._lines

    def take(self, what: str) -> Line:
        """The next line; ProblemError if there is none, where ``what`` is expected."""
        line = next(self._lines, None)
        if line is None:
            raise ProblemError(f"{self.where}: ends before {what}")
        return line

    def finish(self) -> None:
        """Refuse a file that continues."""
        for line in self._lines:
            raise line.fail("the file continues where its end is expected")


def checked_devices(devices: object) -> int:
    """A number of devices; ProblemError if it is not a whole number from 1 to :data:`MOST_DEVICES`."""
    if isinstance(devices, bool) or not isinstance(devices, int) or not 1 <= devices <= MOST_DEVICES:
        raise ProblemError(f"devices is {shown(devices)}, not a whole number from 1 to {MOST_DEVICES}")
    return devices


def cost_table(operators: int, devices: int, where: str) -> FloatArray:
    """A table [operators, devices] of infinite costs; ProblemError if it would exceed :data:`MOST_COSTS` entries."""
    if operators * devices > MOST_COSTS:
        raise ProblemError(f"{where}: {operators} operators on {devices} devices are more than {MOST_COSTS} costs")
    return np.full((operators, devices), np.inf)
