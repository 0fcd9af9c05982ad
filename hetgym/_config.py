"""The one reader of mappings into frozen dataclasses: a configuration is read whole or refused in a sentence.

The dataclass is the schema. A message names the file, the path inside the document, what was wrong
there and the nearest key.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml

from hetgym._files import as_path, read_bytes
from hetgym.errors import ConfigError, HetgymError, shown, suggestion

SIZE_LIMIT = 1 << 20
"""Largest configuration file that is read [byte]."""

_LARGEST_WHOLE = 2.0**63  # what arrays of whole numbers hold

T = TypeVar("T")


NODE_LIMIT = 1 << 19
"""Most values of a document, those that an alias repeats counted again: as many as fit in :data:`SIZE_LIMIT`."""

DIGIT_LIMIT = 40
"""Longest number that is read [characters]; one of a million, to the base 60, would take minutes."""

_PLAIN = ("null", "bool", "int", "float", "timestamp", "seq", "map", "str", "merge")


class _Loader(yaml.SafeLoader):
    """SafeLoader for configurations: plain types only, each key once, and nothing that unfolds without end.

    Anchors and aliases are legal. How much they unfold to is counted on the parsed nodes, of which there are no
    more than bytes in the file, before values are made of them.
    """

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            self._count(node, {})
        return node

    def _count(self, node: yaml.Node, known: dict[int, int]) -> int:
        """Number of values that a node unfolds to; 0 in ``known`` marks a node whose count is under way."""
        if id(node) in known:
            if not known[id(node)]:
                raise yaml.MarkedYAMLError(problem="a value contains itself", problem_mark=node.start_mark)
            return known[id(node)]
        known[id(node)] = 0
        total = 1
        if isinstance(node, yaml.CollectionNode):
            for entry in node.value:
                for child in entry if isinstance(entry, tuple) else (entry,):
                    total += self._count(child, known)
        if total > NODE_LIMIT:
            problem = f"aliases unfold to more than {NODE_LIMIT} values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        known[id(node)] = total
        return total

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {shown(key.value)} is written twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number of at most :data:`DIGIT_LIMIT` characters."""
        if not isinstance(node, yaml.ScalarNode) or len(node.value) > DIGIT_LIMIT:
            problem = f"a number of more than {DIGIT_LIMIT} characters"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        whole = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in _PLAIN
}
for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping; no tag in it can run code.

    Raises:
        ConfigError: the file is missing, unreadable, over :data:`SIZE_LIMIT`, no YAML (with the
            line), or not a mapping with text as keys.
    """
    content = read_bytes(as_path(path, "a configuration", ConfigError), SIZE_LIMIT, ConfigError)
    try:
        data = yaml.load(content, _Loader)  # a SafeLoader
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:  # values that are none
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{path}{line}: not valid YAML ({problem})") from error
    return dict(_mapping(data, str(path)))


def read(schema: type[T], data: Any, where: str, path: str = "") -> T:
    """Build a dataclass from a mapping, checking every key and type.

    Fields may be ``str``, ``bool``, ``int``, ``float``, ``Literal``, other dataclasses, tuples,
    ``Mapping[str, …]`` and unions with None. A number may be written as text, since YAML reads
    ``8e9`` so. Ranges are the dataclass's own business: what its ``__post_init__`` raises gets the
    place put in front.

    Args:
        schema: the dataclass.
        data: the mapping.
        where: the file or argument that it came from, for messages.
        path: the place inside the document, for messages.

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
    mapping = _mapping(data, place)
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
    """Refuse a number outside its range, in one sentence.

    Args:
        value: the number.
        what: its name, as the start of the sentence.
        error: the exception to raise.
        minimum: smallest legal value.
        maximum: largest legal value.
        positive: whether 0 is refused as well.
        finite: whether infinity is refused.

    Raises:
        HetgymError: ``error``, for NaN and whatever is out of range.
    """
    legal = minimum <= value <= maximum and not (positive and value <= 0) and not (finite and value == math.inf)
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
        entries = _mapping(value, place).items()
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


def _mapping(data: Any, place: str) -> Mapping[str, Any]:
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
