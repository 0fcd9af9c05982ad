"""Reading of untrusted JSON: bounded, strict about fields that are used, and ignoring all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym._input.files import read_text
from hetgym._input.json import noun, parse, spelled
from hetgym.errors import ProblemError

LARGEST = 1e15  # Largest number that is accepted: seconds, bytes or Hz
LIMIT_BYTES = 64 << 20  # Longest document that is accepted, after decompression [byte]

_REQUIRED = object()


def read_json(path: Path) -> object:
    """Parse a ``.json`` or ``.json.gz`` file; several documents one after the other are a list.

    Raises:
        ProblemError: the file is missing, damaged, too long after decompression, or no JSON.
    """
    return parse(read_text(path, LIMIT_BYTES, ProblemError), str(path), ProblemError, several=True)


def as_document(parsed: object, path: Path) -> dict[str, Any]:
    """What a file holds, which must be one object (else ProblemError)."""
    if not isinstance(parsed, dict):
        raise ProblemError(f"{path}: the document is {noun(parsed)}, not an object")
    return parsed


def read_document(path: Path) -> dict[str, Any]:
    """Parse a ``.json`` or ``.json.gz`` file that holds one object; errors as for :func:`read_json`."""
    return as_document(read_json(path), path)


class Row:
    """An object of a document, with its place for messages.

    All methods that read a field raise :class:`~hetgym.errors.ProblemError` if it is missing or invalid.
    """

    def __init__(self, fields: object, place: str) -> None:
        self.place = place
        if not isinstance(fields, Mapping):
            raise ProblemError(f"{place} is {noun(fields)}, not an object")
        self.fields: Mapping[str, Any] = fields

    def fail(self, key: str, what: str) -> ProblemError:
        """The error to raise about a field."""
        return ProblemError(f"{self.place}: {key!r} {what}")

    def raw(self, key: str, default: object = _REQUIRED) -> Any:
        """A field, unchecked; ProblemError if it is missing and has no default."""
        if key not in self.fields and default is _REQUIRED:
            raise ProblemError(f"{self.place} has no {key!r}")
        return self.fields.get(key, default)

    def number(self, key: str, default: object = _REQUIRED) -> float:
        """A number from 0 to :data:`LARGEST`."""
        value = self.raw(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            raise self.fail(key, f"is {spelled(value)}, not a number from 0 to {LARGEST:g}")
        return float(value)

    def whole(self, key: str, largest: int, default: object = _REQUIRED) -> int:
        """A whole number from 0 to a limit."""
        value = self.raw(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
            raise self.fail(key, f"is {spelled(value)}, not a whole number from 0 to {largest}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True, false, 1 or 0."""
        value = self.raw(key, default)
        if not isinstance(value, int) or value not in (0, 1):
            raise self.fail(key, f"is {spelled(value)}, not true or false")
        return bool(value)

    def text(self, key: str, default: object = _REQUIRED) -> str:
        """A string."""
        value = self.raw(key, default)
        if not isinstance(value, str):
            raise self.fail(key, f"is {spelled(value)}, not a string")
        return value

    def texts(self, key: str, default: object = _REQUIRED) -> list[str]:
        """A list of strings."""
        value = self.raw(key, default)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(key, "is not a list of strings")
        return value

    def row(self, key: str, default: object = _REQUIRED) -> Row:
        """An object inside."""
        return Row(self.raw(key, default), f"{self.place}: {key!r}")

    def rows(self, key: str, default: object = _REQUIRED) -> list[Row]:
        """A list of objects inside."""
        value = self.raw(key, default)
        if not isinstance(value, list):
            raise self.fail(key, f"is {spelled(value)}, not a list")
        return [Row(item, f"{self.place}: {key}[{i}]") for i, item in enumerate(value)]
