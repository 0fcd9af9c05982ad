"""Arguments of environments: frozen dataclasses that check their values and give constructors their signature."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar, Union

import numpy as np
from gymnasium.vector import AutoresetMode

from hetgym.errors import ConfigError, UnknownArgument, UnknownName, shown, suggestion, unknown_name

P = ParamSpec("P")
Made = TypeVar("Made")
MOST = 2**31 - 1  # Largest whole number that an argument may take


def whole(default: Any, least: int = 1, most: int = MOST) -> Any:
    """A field that holds a whole number from ``least`` to ``most``."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most})


def real(default: Any, least: float = 0.0, below: float = math.inf) -> Any:
    """A field that holds a finite number, at least ``least`` and less than ``below``."""
    return dataclasses.field(default=default, metadata={"least": least, "below": below})


@dataclass(frozen=True)
class Arguments:
    """Arguments of an environment, checked by their types when they are made.

    A field of type ``Literal`` takes one of its words, ``bool`` true or false, ``int`` and ``float`` a number of the
    range given by :func:`whole` and :func:`real`; any of them may allow None. Fields of other types are checked where
    they are used.

    Raises:
        ConfigError: a value of the wrong type, or out of its range.
        UnknownName: a word that an argument does not know.
    """

    # argument that this environment does not have -> what the error says of it
    elsewhere: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for name, (hint, metadata) in _fields_of(typing.cast(Any, type(self))).items():
            value = getattr(self, name)
            kept = _checked(name, value, hint, metadata)
            if kept is not value:
                object.__setattr__(self, name, kept)


@dataclass(frozen=True)
class ScalarArguments(Arguments):
    """Arguments that every environment of one episode at a time takes."""

    _: KW_ONLY
    pool: int | None = whole(None)  # see `hetgym.envs.core.sources.PoolArguments`
    render_mode: Literal["ansi", "rgb_array", "human"] | None = None


@dataclass(frozen=True)
class VectorArguments(Arguments):
    """Arguments that every vector environment takes."""

    num_envs: int = whole(1)  # number of lanes
    _: KW_ONLY
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool = True
    render_mode: Literal["ansi", "rgb_array"] | None = None  # `"ansi"` or `"rgb_array"`; None to draw nothing


def takes(owner: type, *parts: type[Arguments]) -> None:
    """Give an environment a constructor with the fields of several dataclasses; it calls ``_set_up`` with their values.

    ``help`` and ``inspect.signature`` show every field with its type and default. The values are one object, whose type
    is an attribute of the owner, where pickles look for it.
    """
    inner = {"__doc__": "All arguments of an environment."}
    kind: Any = dataclasses.make_dataclass("_Arguments", (), bases=parts, namespace=inner, frozen=True)
    kind.__module__, kind.__qualname__ = owner.__module__, f"{owner.__qualname__}._Arguments"

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        self._set_up(made(kind, type(self).__name__, *args, **kwargs))

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature, init = signature_of(kind), typing.cast(Any, __init__)
    init.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    init.__module__, init.__qualname__ = owner.__module__, f"{owner.__qualname__}.__init__"
    owner._Arguments, owner.__init__ = kind, init  # type: ignore[attr-defined, misc]


def signature_of(arguments: type[Arguments]) -> inspect.Signature:
    """The signature of a dataclass, its types as types and not as text."""
    hints = typing.get_type_hints(arguments)
    signature = inspect.signature(arguments)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=None)


def made(arguments: Callable[P, Made], owner: str, /, *args: P.args, **kwargs: P.kwargs) -> Made:
    """Make a dataclass of arguments from the values that a caller gave; messages name the owner.

    Raises:
        UnknownArgument: an argument that it does not have.
        ConfigError: one that is given twice, or too many.
        HetgymError: any error that the dataclass raises.
    """
    known = [field.name for field in dataclasses.fields(typing.cast(Any, arguments))]
    for name in kwargs:
        if name not in known:
            hint = getattr(arguments, "elsewhere", {}).get(name) or suggestion(name, known)
            raise UnknownArgument(f"{owner} got an unexpected keyword argument {shown(name)}; {hint}")
    try:
        inspect.signature(arguments).bind(*args, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{owner}: {error}") from error
    return arguments(*args, **kwargs)


def whole_number(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """Check a whole number from ``least`` to ``most``, and return it as an int; ConfigError otherwise."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or not least <= value <= most:
        rule = "a positive whole number" if least == 1 else f"a whole number from {least} on"
        rule = rule if most == MOST else f"a whole number from {least} to {most}"
        raise ConfigError(f"{name} is {shown(value)}; it must be {rule}")
    return int(value)


def real_number(name: str, value: Any, least: float = 0.0, below: float = math.inf) -> float:
    """Check a finite number, at least ``least``, below ``below``, and return it as a float; ConfigError otherwise."""
    number = math.nan
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not least <= number < below:
        rule = f"a number from {least:g} to below {below:g}" if below < math.inf else "a finite number, not negative"
        raise ConfigError(f"{name} is {shown(value)}; it must be {rule}")
    return number


def one_of(name: str, value: Any, words: tuple[Any, ...]) -> Any:
    """Check that a value is one of the known words, and return it; UnknownName otherwise."""
    if value is False and "off" in words:
        raise UnknownName(f"{name} is False, as YAML reads off without quotes; write 'off'")
    if not isinstance(value, str) or value not in words:
        raise unknown_name(name.replace("_", " "), value, words)
    return value


@functools.cache
def _fields_of(arguments: Any) -> dict[str, tuple[Any, Any]]:
    """Type and range of each field."""
    hints = typing.get_type_hints(arguments)
    return {field.name: (hints[field.name], field.metadata) for field in dataclasses.fields(arguments)}


def _checked(name: str, value: Any, hint: Any, metadata: Any) -> Any:
    """A value checked against, and converted to, the type of its field."""
    if typing.get_origin(hint) in (Union, types.UnionType) and type(None) in typing.get_args(hint):
        choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
        if value is None or len(choices) > 1:
            return value
        hint = choices[0]
    if typing.get_origin(hint) is Literal:
        return one_of(name, value, typing.get_args(hint))
    if hint is bool:
        if not isinstance(value, bool | np.bool_):
            raise ConfigError(f"{name} is {shown(value)}; it must be True or False")
        return bool(value)
    if hint is int:
        return whole_number(name, value, **metadata)
    if hint is float:
        return real_number(name, value, **metadata)
    return value
