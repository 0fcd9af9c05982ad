"""Text for people: whatever is printed, drawn or written as a table, from names that files of others may hold.

Names are kept as they are in graphs, problems and exported plans. On their way to a terminal, picture, table or page,
they lose what would move the cursor, turn the line around or fail to encode, and no spreadsheet takes a cell for a
formula.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

LONGEST, FEW = 160, 8  # Most characters of the fields of brief, and most items of a collection that it lists

_FORMULA = ("=", "+", "-", "@")


def plain(text: str) -> str:
    r"""Put a text on one printable line: control characters and halves of surrogate pairs are spelled out.

    >>> print(plain("a\nb\x1b[31m\udcff"))
    a b\x1b[31m\udcff
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)


def file_stem(name: str) -> str:
    """The name of a problem, scheduler or model as the name of a file.

    >>> file_stem("heft-against-runs/mine/policy.safetensors")
    'heft-against-runs-mine-policy.safetensors'
    """
    return re.sub(r"[^\w.@+-]+", "-", name)


def plain_lines(text: str) -> str:
    """As :func:`plain`, for each line of a text."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def brief(self: Any) -> str:
    """The representation of a dataclass or named tuple in one line, as its ``__repr__``: fields in short, no defaults.

    >>> from dataclasses import dataclass
    >>> Point = dataclass(type("Point", (), {"__annotations__": {"x": int, "rest": tuple}, "__repr__": brief}))
    >>> Point(1, (2,) * 20)
    Point(x=1, rest=20 items)
    """
    if is_dataclass(self):
        usual = {field.name: field.default for field in fields(self) if field.repr}
    else:
        usual = {name: self._field_defaults.get(name, MISSING) for name in self._fields}
    shown, length = [], 0
    for name, default in usual.items():
        value = getattr(self, name, None)
        if value is default or (type(value) is type(default) is not np.ndarray and value == default):
            continue
        word = f"{name}={in_short(value)}"
        length += len(word)
        if length > LONGEST:
            shown.append("…")
            break
        shown.append(word)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def in_short(value: Any) -> str:
    """A value in a few words: an array by type and shape, a long collection by the number of its items."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Mapping | tuple | list | set | frozenset) and len(value) > FEW:
        return f"{len(value)} items"
    if type(value) in (tuple, list):
        text = ", ".join(map(in_short, value)) + ("," if type(value) is tuple and len(value) == 1 else "")
        return f"({text})" if type(value) is tuple else f"[{text}]"
    if isinstance(value, Mapping):
        value = dict(value)
    text = repr(value)
    return text if len(text) <= LONGEST // 2 and "\n" not in text else f"{type(value).__name__}(…)"


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


def finite(value: Any) -> Any:
    """The value with infinities and NaN, which JSON does not have, as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def percent(value: float | None) -> str:
    """A gap as a percentage.

    >>> percent(0.0314), percent(12.5), percent(None)
    ('3.14 %', '1250 %', '–')
    """
    if value is None:
        return "–"
    value *= 100
    return f"{value:.2f} %" if abs(value) < 99.995 else f"{value:.0f} %"


def number(value: float | None, form: str) -> str:
    """A number in a format, or a dash."""
    return "–" if value is None else form.format(value)


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit in which a time reads best, as a divisor and its name.

    >>> time_unit(3.2e-3)
    (0.001, 'ms')
    """
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return scale, name
    return (1e-9, "ns") if seconds > 0 else (1.0, "s")


def duration(seconds: float | None) -> str:
    """A time in the unit that suits it.

    >>> duration(0.00042), duration(0.0), duration(None)
    ('420 µs', '0 s', '–')
    """
    if seconds is None:
        return "–"
    scale, unit = time_unit(seconds)
    return f"{seconds / scale:.3g} {unit}"


def minutes(seconds: float) -> str:
    """A longer time, as people say it.

    >>> minutes(801.0), minutes(7390.0), minutes(12.3)
    ('13 min 21 s', '2 h 3 min', '12.3 s')
    """
    if seconds < 60:
        return duration(seconds)
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    whole = round(seconds / 60)
    return f"{whole // 60} h" + (f" {whole % 60} min" if whole % 60 else "")


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "operator"), counted(1200, "operator")
    ('1 operator', '1,200 operators')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
