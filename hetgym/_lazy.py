"""Packages whose names load when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy(package: str, home: Mapping[str, Sequence[str]], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

    A name may be that of the submodule that provides it, as ``heft`` of ``baselines.heft``: then it stands for
    what the submodule provides, whether or not that submodule was imported before.

    Args:
        package: its dotted name.
        home: module -> names that it provides.
        modules: submodules that are reached as attributes.

    Returns:
        A function that imports what a name needs, keeps the value in the package, and returns it.
    """
    where = {name: module for module, names in home.items() for name in names}

    def load(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(where[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    _keep_names(sys.modules[package], {name for name, module in where.items() if module == f"{package}.{name}"})
    return load


def _keep_names(package: ModuleType, names: set[str]) -> None:
    """Let names of a package stand for what submodules of the same names provide, not for the submodules.

    Python's import system enters a submodule in its package as an attribute once it is loaded.
    """

    class Package(type(package)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: object) -> None:
            shadows = name in names and isinstance(value, ModuleType)
            super().__setattr__(name, getattr(value, name) if shadows else value)

    if names:
        package.__class__ = Package
