"""The table of schedulers: those of hetgym, those of other packages, and those that a program registers itself.

Names are the same in every process, independent of earlier imports: rows of hetgym's own schedulers are data, and so
are the entry points of other packages. A function is imported when it is first used.
"""

import sys
import warnings
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hetgym.errors import ConfigError, check_name, unknown_name
from hetgym.planning.baseline import KINDS, Baseline, Target, resolve
from hetgym.planning.options import check_options, read_options, written

GROUP = "hetgym.schedulers"
"""Group of the entry points by which an installed package offers schedulers: ``name = "package.module:function"``."""

F = TypeVar("F", bound=Callable[..., Any])

_own_tables: dict[str, Target] = {}  # what hetgym/__init__.py offers
_entered: dict[str, Baseline] = {}  # rows that this process entered itself
_files: dict[Path, ModuleType] = {}  # modules that import_file has run


def offer(rows: Target, files: Target) -> None:
    """Say where the rows of hetgym's own schedulers are found, as ``hetgym/__init__.py`` does in every process.

    The tables may be in modules above this one. They are read when a scheduler is first looked up.

    Args:
        rows: place at which a sequence of rows is found.
        files: place of a mapping from the ending of a path to the function that makes a row of such a file.
    """
    _own_tables.update(rows=rows, files=files)


def register(
    name: str,
    *,
    kind: str,
    citation: str,
    complexity: str,
    needs: tuple[str, ...] = (),
    search: Target | None = None,
    **options: Any,
) -> Callable[[F], F]:
    """Add a function to the table of schedulers of this process.

    Args:
        name: the name that users type.
        kind: one of :data:`~hetgym.planning.baseline.KINDS`.
        citation: the source of the method.
        complexity: complexity for n operators, e edges and p devices.
        needs: modules of an extra without which it does not work.
        search: see :class:`~hetgym.planning.Baseline`.
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
    >>> from hetgym.planning import unregister
    >>> unregister("mine")
    """

    def enter(function: F) -> F:
        check_name("kind of scheduler", kind, KINDS)
        if set(name) & {":", ","}:
            raise ConfigError(f"scheduler {name!r}: a name has neither ':' nor ',', which separate options and names")
        if name in _own() or name in _entered or name in aliases():
            raise ConfigError(f"scheduler {name!r} is registered twice")
        _entered[name] = Baseline(name, kind, function, citation, complexity, options, needs, search)
        return function

    return enter


def unregister(name: str) -> None:
    """Remove a scheduler that :func:`register` added to the table.

    Raises:
        UnknownName: none was added under that name.
    """
    check_name("registered scheduler", name, _entered)
    del _entered[name]


def rows(kind: str | None = None) -> list[Baseline]:
    """All schedulers, or those of one kind, by kind and then alphabet; imports none of them."""
    table = {**_plugins(), **_entered, **_own()}
    ordered = sorted(table.values(), key=lambda row: (KINDS.index(row.kind), row.name))
    return [row for row in ordered if kind in (None, row.kind)]


def names(kind: str | None = None) -> list[str]:
    """Names of all schedulers, or of those of one kind, by kind and then alphabet."""
    return [row.name for row in rows(kind)]


def get(name: str, **options: Any) -> Baseline:
    """Look a scheduler up by name.

    Args:
        name: see :func:`names`; or the path of a trained policy, such as ``runs/mine/policy.safetensors``. Options may
            follow, as in ``donf:priority=nested``; they become part of the row's name, in the order of the function's
            parameters and without defaults. An alias gives the row whose options it stands for.
        options: further keyword arguments of the scheduler's function; they do not change the row's name.

    Raises:
        UnknownName: no scheduler of that name.
        ConfigError: an option that the scheduler does not have, a value of the wrong type, or a scheduler of
            another package that cannot be imported.
        ArtefactError: the file at the path is not a readable policy.
    """
    if not isinstance(name, str):
        raise unknown_name("scheduler", name, names())
    row, texts = _row(name)
    if texts:
        given = read_options(row.name, row.function, texts)
        row = replace(row, name=row.name + written(row.function, given), options={**row.options, **given})
    if options or row.package:
        check_options(row.name, row.function, options)
    return replace(row, options={**row.options, **options})


def _row(name: str) -> tuple[Baseline, list[str]]:
    """The row that a name begins with, and the options that follow."""
    for ending, reader in resolve(_own_tables["files"]).items():
        path, found, rest = name.partition(ending)
        if found and rest[:1] in ("", ":"):
            return resolve(reader)(path + found), rest.split(":")[1:]
    word, *texts = name.split(":")
    word, _, meant = aliases().get(word, word).partition(":")
    row = _own().get(word) or _entered.get(word) or _plugins().get(word)
    if row is None:
        raise unknown_name("scheduler", word, [*names(), *aliases()])
    told = [text.partition("=")[0] for text in texts]
    kept = [text for text in meant.split(":") if text and text.partition("=")[0] not in told]
    return row, kept + texts


def import_file(path: str | Path) -> ModuleType:
    """Run a Python file that registers schedulers, as ``hetgym bench --import my.py`` does.

    A file is run once in a process. The schedulers that it registers can then be used by name; if it fails, none is
    added. Its functions can be sent to other processes by value.

    Args:
        path: path of the file. Modules beside it are found only if its folder is in ``sys.path``.

    Raises:
        ConfigError: no such file, or it fails; the message says why.
    """
    file = Path(path).resolve()
    if file in _files:
        return _files[file]
    if not file.exists():
        raise ConfigError(f"{path}: no such file")
    if file.suffix != ".py" or not file.is_file():
        raise ConfigError(f"{path}: not a Python file that could be imported")
    spec = spec_from_file_location(f"{file.stem}_{zlib.crc32(str(file).encode()):08x}", file)
    assert spec is not None and spec.loader is not None
    module, before = module_from_spec(spec), dict(_entered)
    sys.modules[spec.name] = module  # while it runs, as dataclasses demand
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        _entered.clear()
        _entered.update(before)
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(f"{path}: cannot be imported ({why})") from error
    finally:
        del sys.modules[spec.name]  # so that its functions are pickled by value: no other process finds it by name
    _files[file] = module
    return module


def imported_file(stem: str) -> ModuleType | None:
    """The module of a file of that stem that :func:`import_file` has run; None if there is none."""
    return next((module for file, module in reversed(_files.items()) if file.stem == stem), None)


@cache
def _own() -> dict[str, Baseline]:
    """The rows of hetgym's own schedulers."""
    return {row.name: row for row in resolve(_own_tables["rows"])}


@cache
def aliases() -> dict[str, str]:
    """Other names, such as published ones -> the names and options that they stand for.

    >>> aliases()["donf2"], aliases()["dispatch-v1"]
    ('donf:priority=two-level', 'dispatch')
    """
    stood = ((alias, row.name, options) for row in _own().values() for alias, options in row.aliases.items())
    return {alias: f"{name}:{options}" if options else name for alias, name, options in stood}


@cache
def _plugins() -> dict[str, Baseline]:
    """The rows that other installed packages offer; a warning lists names that are taken."""
    found: dict[str, Baseline] = {}
    for point in sorted(entry_points(group=GROUP), key=_package):
        if point.name in _own() or point.name in aliases() or point.name in found:
            warnings.warn(f"scheduler {point.name!r} of {_package(point)} is ignored: the name is taken", stacklevel=2)
            continue
        found[point.name] = Baseline(
            point.name, "plugin", f"{point.module}:{point.attr}", _package(point), "", package=_package(point)
        )
    return found


def _package(point: EntryPoint) -> str:
    """Name and version of the package that an entry point belongs to."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
