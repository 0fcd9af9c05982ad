"""Baseline: a scheduler and its description for tables. Its function is imported when it is first used."""

from __future__ import annotations

import ast
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym.errors import ConfigError, InvalidSchedule, ProblemError

if TYPE_CHECKING:
    from hetgym.problem import Problem
    from hetgym.schedule import Schedule
    from hetgym.sim import Runtime

KINDS = ("trivial", "online", "list", "memory", "energy", "partition", "search", "rule", "policy", "exact", "plugin")
"""Kinds of schedulers: controls; those that see ready operators only; those that rank the whole graph; those that
keep within memory; those that weigh energy; those that cut the graph into parts first; searches; rules that play an
environment; trained policies; those that prove optima; and those of other installed packages."""

Target = str | Callable[..., Any]  # A function or a class, or the place where it is found: `"package.module:name"`


@dataclass(frozen=True)
class Baseline:
    """A row of the table of schedulers, and a :class:`~hetgym.planning.Scheduler` itself."""

    name: str  # what users type: a word, and options that were given with it, as in `donf:priority=nested`
    kind: str  # one of KINDS
    target: Target  # `target(problem, **options) -> Schedule`, or where to find it
    citation: str  # the source of the method
    complexity: str  # of n operators, e edges and p devices
    options: dict[str, Any] = field(default_factory=dict)  # those that differ from the function's defaults
    needs: tuple[str, ...] = ()  # modules of an extra without which it does not work
    # a subclass of Search that takes the function's options but the budgets, or where to find it; None for schedulers
    # that do not run in parts
    search: Target | None = None
    package: str = ""  # name and version of the installed package that it comes from; empty for others
    model: str = "classic"  # name of the runtime that it plans for, unless it takes one
    # option, as in `communication=classic` -> the runtime that it plans for then
    models: dict[str, str] = field(default_factory=dict)
    # other names, such as published ones -> the options that they stand for, as in `priority=nested`
    aliases: dict[str, str] = field(default_factory=dict)
    # operators up to which it is called, as its time grows with their square; None for any number
    largest: int | None = None

    @property
    def function(self) -> Callable[..., Schedule]:
        """The function itself.

        Raises:
            ConfigError: it belongs to another package, and cannot be imported.
            MissingExtra: its module needs an extra that is not installed.
        """
        try:
            found: Callable[..., Schedule] = resolve(self.target)
        except Exception as error:
            if not self.package:
                raise
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ConfigError(f"scheduler {self.name!r} of {self.package} cannot be imported ({why})") from error
        if not callable(found):
            raise ConfigError(f"scheduler {self.name!r}: {self.target} is not a function")
        return found

    @property
    def available(self) -> bool:
        """True if all that it needs is installed; a plugin must also import, otherwise a warning gives the reason."""
        if not all(find_spec(module) is not None for module in self.needs):
            return False
        if self.package:
            try:
                _ = self.function
            except ConfigError as error:
                warnings.warn(str(error), stacklevel=2)
                return False
        return True

    @property
    def added(self) -> bool:
        """True if it comes from another package, or was registered by this process: it is not hetgym's own."""
        return bool(self.package) or not isinstance(self.target, str)

    @property
    def summary(self) -> str:
        """First line of the function's documentation, and the options of a variant; imports nothing."""
        first = outline(self.target)[0]
        chosen = ", ".join(f"{option}={value}" for option, value in self.options.items())
        return f"{first} [{chosen}]" if chosen else first

    @property
    def plans_for(self) -> str:
        """``"any"`` if it takes the runtime that will run the schedule, else the runtime it always plans for."""
        chosen = (self.models.get(f"{option}={value}") for option, value in self.options.items())
        return "any" if "runtime" in outline(self.target)[1] else next(filter(None, chosen), self.model)

    def __call__(self, problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
        """Schedule a problem; the schedule carries the scheduler's name.

        Args:
            runtime: the runtime that will run the schedule; schedulers that plan for another one do not see it.

        Raises:
            ProblemError: not a problem.
            UnknownName: no such runtime.
            ConfigError: more operators than :attr:`largest`; ``replace(row, largest=None)`` takes any number.
            InvalidSchedule: the function returned something other than a schedule.
        """
        from hetgym.problem import Problem
        from hetgym.schedule import Schedule
        from hetgym.sim import runtime as as_runtime
        from hetgym.sim.runtime import charged

        if not isinstance(problem, Problem):
            raise ProblemError(f"{self.name!r} schedules a hetgym.Problem, not {type(problem).__name__}")
        if self.largest is not None and problem.num_operators > self.largest:
            raise ConfigError(
                f"{self.name!r} takes too long for {problem.num_operators} operators, it is for up to {self.largest}; "
                "use 'portfolio', a search with a budget, or 'heft'"
            )
        options = self.options
        if problem.has_partitions:
            runtime = charged(as_runtime(runtime), problem)
        if runtime != "classic":
            as_runtime(runtime)
            options = {**options, "runtime": runtime} if self.plans_for == "any" else options
        made = self.function(problem, **options)
        if not isinstance(made, Schedule):
            raise InvalidSchedule(f"{self.name!r}: a schedule is a hetgym.Schedule, not {type(made).__name__}")
        return replace(made, scheduler=self.name)


def resolve(target: Target) -> Any:
    """The function or class that a target names."""
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


Outline = tuple[str, tuple[str, ...]]  # First line of a function's documentation, and the names of its parameters


def outline(target: Target) -> Outline:
    """First line of a function's documentation and its parameters; empty without documentation, or if not a function.

    A function whose module is not loaded is looked up in the source, because loading compiled kernels only to
    list their names would take a second.
    """
    if isinstance(target, str):
        module, _, name = target.partition(":")
        if module not in sys.modules:
            return _outlines(module).get(name, ("", ()))
        target = getattr(sys.modules[module], name, target)
    return _outline_of(target) if callable(target) else ("", ())


@cache
def _outline_of(target: Callable[..., Any]) -> Outline:
    try:
        parameters = tuple(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        parameters = ()
    return (inspect.getdoc(target) or "").partition("\n")[0], parameters


@cache
def _outlines(module: str) -> dict[str, Outline]:
    """Outlines of all functions and classes of a module, read from its source."""
    spec = _spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return {}
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            given = node.args if isinstance(node, ast.FunctionDef) else None
            names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)] if given else []
            found[node.name] = (ast.get_docstring(node) or "").partition("\n")[0], tuple(names)
    return found


def _spec(module: str) -> ModuleSpec | None:
    """A module's place; unlike :func:`importlib.util.find_spec` this imports no package on the way."""
    spec, path = None, None
    parts = module.split(".")
    for k in range(len(parts)):
        name = ".".join(parts[: k + 1])
        loaded = sys.modules.get(name)
        finders = (finder.find_spec(name, path) for finder in sys.meta_path)  # editable installations add their own
        spec = getattr(loaded, "__spec__", None) or next((found for found in finders if found is not None), None)
        if spec is None:
            return None
        path = getattr(loaded, "__path__", spec.submodule_search_locations)
    return spec
