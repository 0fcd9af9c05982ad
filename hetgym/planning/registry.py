"""The table of schedulers: name, kind, citation, options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hetgym.errors import ConfigError, suggestion, unknown_name
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Scheduler = Callable[[Problem], Schedule]
"""Whatever turns a problem into a schedule: a heuristic, a search, a trained policy."""

KINDS = ("trivial", "online", "list", "memory", "partition", "search", "policy", "exact")
"""Kinds of schedulers: controls; those that see only what is ready; those that rank the whole graph; those that keep
within memory; those that cut the graph into parts first; searches; those that prove optima."""

F = TypeVar("F", bound=Callable[..., Schedule])


@dataclass(frozen=True)
class Baseline:
    """A row of the table, and a scheduler itself.

    Attributes:
        name: what users type.
        kind: one of :data:`KINDS`.
        function: ``function(problem, **options) -> Schedule``.
        citation: where the method comes from.
        complexity: of n operators, e edges and p devices.
        options: those that differ from the function's defaults.
        needs: modules of an extra that it cannot work without.
    """

    name: str
    kind: str
    function: Callable[..., Schedule]
    citation: str
    complexity: str
    options: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        """Whether everything that it needs is installed."""
        return all(find_spec(module) is not None for module in self.needs)

    @property
    def summary(self) -> str:
        """First line of the method's documentation, and the options of a variant."""
        first = (inspect.getdoc(self.function) or "").partition("\n")[0]
        chosen = ", ".join(f"{option}={value}" for option, value in self.options.items())
        return f"{first} [{chosen}]" if chosen else first

    def __call__(self, problem: Problem) -> Schedule:
        """Schedule a problem; the schedule carries the scheduler's name."""
        return replace(self.function(problem, **self.options), scheduler=self.name)


_TABLE: dict[str, Baseline] = {}


def register(
    name: str, *, kind: str, citation: str, complexity: str, needs: tuple[str, ...] = (), **options: Any
) -> Callable[[F], F]:
    """Enter a function in the table of schedulers, with options of its own if it is a variant.

    Args:
        name: what users type.
        kind: one of :data:`KINDS`.
        citation: where the method comes from.
        complexity: of n operators, e edges and p devices.
        needs: modules of an extra that it cannot work without.
        options: keyword arguments of the function that make the variant.

    Raises:
        UnknownName: no such kind.
        ConfigError: the name is taken.

    >>> from hetgym.baselines import get, register, single_device
    >>> @register("mine", kind="trivial", citation="this line", complexity="O(n)")
    ... def mine(problem):
    ...     "Everything where it is cheapest in sum."
    ...     return single_device(problem)
    >>> get("mine").summary
    'Everything where it is cheapest in sum.'
    >>> from hetgym.planning.registry import unregister
    >>> unregister("mine")
    """

    def enter(function: F) -> F:
        if kind not in KINDS:
            raise unknown_name("kind of scheduler", kind, KINDS)
        if name in _TABLE:
            raise ConfigError(f"scheduler {name!r} is registered twice")
        _TABLE[name] = Baseline(name, kind, function, citation, complexity, options, needs)
        return function

    return enter


def unregister(name: str) -> None:
    """Take a scheduler out of the table again."""
    del _TABLE[name]


def get(name: str, **options: Any) -> Baseline:
    """Look a scheduler up by name.

    Args:
        name: see :func:`names`.
        options: keyword arguments of the method's function.

    Raises:
        UnknownName: no scheduler of that name.
        ConfigError: an option that the method does not have, or a value of the wrong type.
    """
    if name not in _TABLE:
        raise unknown_name("scheduler", name, _TABLE)
    row = _TABLE[name]
    known = list(inspect.signature(row.function).parameters)[1:]
    for option in options:
        if option not in known:
            hint = suggestion(option, known) if known else "it has none"
            raise ConfigError(f"scheduler {name!r} has no option {option!r}; {hint}")
        _check(name, row.function, option, options[option])
    return replace(row, options={**row.options, **options})


_NOUNS = {"int": "a whole number", "float": "a finite number", "bool": "True or False", "str": "a word"}


def _check(name: str, function: Callable[..., Schedule], option: str, value: object) -> None:
    """Refuse a value that its option's annotation excludes; ranges are the functions' own business.

    Raises:
        ConfigError: a value of another type, a number that is not finite or too large, or a negative seed.
    """
    expected = str(inspect.signature(function).parameters[option].annotation)
    kinds = [kind.strip() for kind in expected.split("|")]
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


def names(kind: str | None = None) -> list[str]:
    """Names of all schedulers, or of those of one kind, by kind and then alphabet."""
    rows = sorted(_TABLE.values(), key=lambda row: (KINDS.index(row.kind), row.name))
    return [row.name for row in rows if kind in (None, row.kind)]


_files: set[Path] = set()  # that import_file has run


def import_file(path: str | Path) -> None:
    """Run a Python file that registers schedulers; a file that was run before is not run again.

    Args:
        path: of the file.

    Raises:
        ConfigError: no such file, or it fails; the message says why.
    """
    file = Path(path).resolve()
    if file in _files:
        return
    spec = spec_from_file_location(file.stem, file) if file.suffix == ".py" and file.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file that could be imported")
    try:
        spec.loader.exec_module(module_from_spec(spec))
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(f"{path}: cannot be imported ({why})") from error
    _files.add(file)
