"""Options of schedulers: names and values are checked before anything runs."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np

from hetgym.errors import ConfigError, suggestion

_NOUNS = {"int": "a whole number", "float": "a finite number", "bool": "True or False", "str": "a word"}


def check_options(name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a scheduler does not have, and values that their annotations exclude.

    Args:
        name: name of the scheduler, for messages.
        function: the scheduler; its first parameter is the problem.
        options: keyword arguments for it. Ranges of numbers are the function's own business.

    Raises:
        ConfigError: an unknown option, a value of another type, a number that is not finite or too large, or a
            negative seed.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    annotations = {parameter.name: _annotation(parameter) for parameter in parameters}
    for option, value in options.items():
        if option not in annotations:
            hint = suggestion(option, list(annotations)) if annotations else "it has none"
            raise ConfigError(f"scheduler {name!r} has no option {option!r}; {hint}")
        _check(name, option, annotations[option], value)


def read_options(name: str, function: Callable[..., Any], texts: Sequence[str]) -> dict[str, Any]:
    """Options that are written ``option=value``, in the order of the function's parameters.

    Args:
        name, function: see :func:`check_options`.
        texts: the options.

    Raises:
        ConfigError: a text of another form, an option given twice, or one that :func:`check_options` refuses.
    """
    found: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters
    for text in texts:
        option, equals, word = text.partition("=")
        if not (option and equals and word) or option in found:
            raise ConfigError(f"scheduler {name!r}: options are written name:option=value, each once; got {text!r}")
        annotation = _annotation(parameters[option]) if option in parameters else "str"
        found[option] = _value(word, [kind.strip() for kind in annotation.split("|")])
    check_options(name, function, found)
    return {option: found[option] for option in parameters if option in found}


def _annotation(parameter: inspect.Parameter) -> str:
    """As it is written, whether or not the module evaluates annotations."""
    given = parameter.annotation
    return given if isinstance(given, str) else inspect.formatannotation(given)


def _value(word: str, kinds: Sequence[str]) -> Any:
    """The value of the first kind that a word can be; the word itself if it can be none of them."""
    words: dict[str, dict[str, Any]] = {"None": {"none": None}, "bool": {"true": True, "false": False}}
    for kind in kinds:
        if word in words.get(kind, {}):
            return words[kind][word]
        if kind in ("int", "float"):
            with suppress(ValueError):
                return int(word) if kind == "int" else float(word)
    return word


def written(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Options as they are written after a scheduler's name, defaults left out; read back they are the same.

    >>> from hetgym.baselines import donf
    >>> written(donf, {"alpha": 1.0, "priority": "nested", "communication": "aggregated"})
    ':priority=nested:alpha=1'
    """
    text = ""
    for option, parameter in inspect.signature(function).parameters.items():
        if option in options and options[option] != parameter.default:
            value = options[option]
            whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
            value = int(value) if whole else str(value).lower() if isinstance(value, bool | None) else value
            text += f":{option}={value}"
    return text


def _check(name: str, option: str, annotation: str, value: object) -> None:
    kinds = [kind.strip() for kind in annotation.split("|")]
    if not set(kinds) <= {*_NOUNS, "None"} or (value is None and "None" in kinds):
        return
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    real = isinstance(value, Real) and not isinstance(value, bool)
    fits = {
        "int": whole and -(2**63) <= value < 2**63,  # type: ignore[operator]
        "float": real and -sys.float_info.max <= value <= sys.float_info.max,  # type: ignore[operator]
        "bool": isinstance(value, bool | np.bool_),
        "str": isinstance(value, str),
    }
    if not any(fits.get(kind, False) for kind in kinds):
        nouns = " or ".join(_NOUNS.get(kind, "None") for kind in kinds)
        shown = "too large" if isinstance(value, int) and abs(value) >= 2**63 else repr(value)
        raise ConfigError(f"scheduler {name!r}: {option} is {shown}; it must be {nouns}")
    if option == "seed" and value < 0:  # type: ignore[operator]
        raise ConfigError(f"scheduler {name!r}: seed is {value}; it must not be negative")
