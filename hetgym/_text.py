"""Text for people: whatever is printed, drawn or written as a table, from names that files of others may hold.

Names are kept as they are in graphs, problems and exported plans. On their way to a terminal, picture, table or page,
they lose what would move the cursor, turn the line around or fail to encode, and no spreadsheet takes a cell for a
formula.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

_FORMULA = ("=", "+", "-", "@")


def plain(text: str) -> str:
    r"""Put a text on one printable line: control characters and halves of surrogate pairs are spelled out.

    >>> print(plain("a\nb\x1b[31m\udcff"))
    a b\x1b[31m\udcff
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)


def plain_lines(text: str) -> str:
    """As :func:`plain`, for each line of a text."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def plain_values(value: Any) -> Any:
    """A JSON-ready value with plain texts."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key) if isinstance(key, str) else key: plain_values(item) for key, item in value.items()}
    return [plain_values(item) for item in value] if isinstance(value, list | tuple) else value


def cell(value: Any) -> Any:
    """A value of a table as CSV holds it: None is empty, and a text that begins like a formula gets an apostrophe.

    >>> cell("=1+1"), cell("-"), cell(-1.5), cell(None)
    ("'=1+1", '-', -1.5, '')
    """
    if not isinstance(value, str):
        return "" if value is None else value
    text = plain(value)
    return f"'{text}" if len(text) > 1 and text.startswith((*_FORMULA, "'")) else text


def value_of(text: str) -> str:
    """The text that :func:`cell` made a cell of, if it was plain.

    >>> value_of("'=1+1"), value_of("'a'")
    ('=1+1', "'a'")
    """
    return text[1:] if text[:1] == "'" and text[1:].startswith((*_FORMULA, "'")) else text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows of values as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return buffer.getvalue()
