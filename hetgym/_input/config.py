"""Reader of mappings into frozen dataclasses: a configuration is either read completely or refused with a message.

The dataclass is the schema. A message names the file, the path inside the document, what is wrong there and, for an
unknown key, the nearest key that exists.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from hetgym.errors import ConfigError, HetgymError, shown, suggestion

_LARGEST_WHOLE = 2.0**63  # what arrays of whole numbers hold

LARGEST_BATCH = 1 << 20  # Largest batch of a training step; a plan has no larger layer number or degree either

T = TypeVar("T")


def read(schema: type[T], data: Any, where: str, path: str = "") -> T:
    """Build a dataclass from a mapping, checking every key and type; messages name ``where`` and ``path`` inside it.

    Fields may be ``str``, ``bool``, ``int``, ``float``, ``Literal``, other dataclasses, tuples, ``Mapping[str, …]`` and
    unions with None. A number may be written as text, since YAML reads ``8e9`` as text. Ranges are checked by the
    dataclass itself: an error that its ``__post_init__`` raises gets the place in the document as a prefix.

    Raises:
        ConfigError: an unknown key, a missing key or a value of the wrong type.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     width: float
    ...     unit: str = "m"
    >>> read(Size, {"width": "8e9"}, "size.yaml")
    Size(width=8000000000.0, unit='m')
    >>> read(Size, {"widht": 1}, "size.yaml")
    Traceback (most recent call last):
    hetgym.errors.ConfigError: size.yaml: unknown key 'widht'; did you mean 'width'?
    """
    place = _place(where, path)
    mapping = mapping_of(data, place)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, schema)) if field.init}
    for key in mapping:
        if key not in fields:
            raise ConfigError(f"{place}: unknown key {shown(key)}; {suggestion(key, fields)}")
    hints = typing.get_type_hints(schema)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in mapping:
            values[name] = _convert(mapping[name], hints[name], where, f"{path}.{name}" if path else name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{place}: key {name!r} is missing")
    try:
        return schema(**values)
    except HetgymError as error:
        raise type(error)(f"{place}: {error}") from error


def check_number(
    value: float,
    what: str,
    error: type[HetgymError],
    *,
    minimum: float = 0.0,
    maximum: float = math.inf,
    positive: bool = False,
    finite: bool = True,
) -> None:
    """Refuse (``error``) no number, NaN, and a number out of range, in a sentence that starts with ``what``.

    ``positive`` refuses 0 as well, ``finite`` infinity.
    """
    try:
        legal = minimum <= value <= maximum and not (positive and value <= 0) and not (finite and value == math.inf)
    except TypeError:  # no number
        legal = False
    if not legal:
        rule = "positive" if positive else f"at least {minimum:g}"
        rule += f" and at most {maximum:g}" if maximum < math.inf else " and finite" if finite else ""
        raise error(f"{what} is {shown(value)}; it must be {rule}")


def _convert(value: Any, hint: Any, where: str, path: str) -> Any:
    """Check one value against a type, and return it in that type."""
    origin, args, place = get_origin(hint), get_args(hint), _place(where, path)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (choice,) = (arg for arg in args if arg is not type(None))
        return _convert(value, choice, where, path)
    if origin is Literal:
        if value in args:
            return value
        raise ConfigError(f"{place} is {shown(value)}; {suggestion(value, map(str, args))}")
    if dataclasses.is_dataclass(hint):
        return read(typing.cast(type[Any], hint), value, where, path)
    if origin is tuple:
        return _tuple(value, args, where, path)
    if origin is not None and issubclass(origin, Mapping):
        entries = mapping_of(value, place).items()
        return {key: _convert(item, args[1], where, f"{path}.{key}") for key, item in entries}
    if hint is float:
        return _real(value, place)
    if hint is int:
        number = _real(value, place)
        if not number.is_integer() or abs(number) >= _LARGEST_WHOLE:
            raise ConfigError(f"{place} is {shown(value)}, expected a whole number")
        return value if isinstance(value, int) else int(number)
    if not isinstance(value, hint):
        expected = {str: "text", bool: "true or false"}[hint]
        raise ConfigError(f"{place} is {shown(value)}, expected {expected}")
    return value


def _place(where: str, path: str) -> str:
    return f"{where}: {path}" if path else where


def mapping_of(data: Any, place: str) -> Mapping[str, Any]:
    """The value if it is a mapping with text as keys; otherwise a ConfigError."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{place}: expected keys and values, found {shown(data)}")
    for key in data:
        if not isinstance(key, str):
            raise ConfigError(f"{place}: key {shown(key)} is not text; put it in quotes")
    return data


def _tuple(value: Any, args: tuple[Any, ...], where: str, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{_place(where, path)} is {shown(value)}, expected a list")
    hints = (args[0],) * len(value) if args[-1] is Ellipsis else args
    if len(hints) != len(value):
        raise ConfigError(f"{_place(where, path)} has {len(value)} entries, expected {len(hints)}")
    pairs = enumerate(zip(value, hints, strict=True))
    return tuple(_convert(item, hint, where, f"{path}[{i}]") for i, (item, hint) in pairs)


def _real(value: Any, place: str) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise ConfigError(f"{place} is {shown(value)}, expected a number")
