"""Options of schedulers: names and values are checked before anything runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from hetgym.errors import ConfigError, suggestion

_NOUNS = {"int": "a whole number", "float": "a finite number", "bool": "True or False", "str": "a word"}


def check_options(name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a scheduler does not have, and values that their annotations exclude.

    Args:
        name: of the scheduler, for messages.
        function: the scheduler; its first parameter is the problem.
        options: keyword arguments for it. Ranges of numbers are the function's own business.

    Raises:
        ConfigError: an unknown option, a value of another type, a number that is not finite or too large, or a
            negative seed.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    annotations = {parameter.name: str(parameter.annotation) for parameter in parameters}
    for option, value in options.items():
        if option not in annotations:
            hint = suggestion(option, list(annotations)) if annotations else "it has none"
            raise ConfigError(f"scheduler {name!r} has no option {option!r}; {hint}")
        _check(name, option, annotations[option], value)


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
