"""Code of one's own by its import path: recipes name networks and algorithms as ``package.module:Name``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hetgym.errors import ConfigError, shown
from hetgym.planning.registry import imported_file


def found_at(path: str, what: str, load: bool) -> Any:
    """The object at an import path.

    Args:
        path: ``module:name``; the module may also be the stem of a file that ``--import`` has run.
        what: description of the object, for messages.
        load: true to import the module, false for paths from files whose code must not run by being named; hetgym's
            own modules are imported in any case.

    Raises:
        ConfigError: no such module, it fails, it is not loaded though it must be, or it has no such name.
    """
    module, _, name = path.partition(":")
    found = _module(module, path, what, load)
    if not hasattr(found, name):
        raise ConfigError(f"{what} {shown(path)}: module {shown(module)} has no {shown(name)}")
    return getattr(found, name)


def _module(module: str, path: str, what: str, load: bool) -> ModuleType:
    script = sys.modules["__main__"]
    if Path(getattr(script, "__file__", None) or "").stem == module:  # the file that runs, under another name
        return script
    known = imported_file(module) or sys.modules.get(module)
    if known is not None:
        return known
    if not (load or module.startswith("hetgym.")):
        raise ConfigError(f"{what} {shown(path)}: import {module} first, as files of weights run no code")
    try:
        return import_module(module)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(
            f"{what} {shown(path)}: cannot be imported ({why}); is it on Python's path, or named by --import?"
        ) from error
