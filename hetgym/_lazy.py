"""Lazy packages: each name is imported when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy(package: str, home: Mapping[str, Sequence[str]], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

    A name may equal that of the submodule that provides it, such as the function ``heft`` of ``baselines.heft``. The
    attribute is then always the function, never the submodule, even after the submodule has been imported.

    Args:
        package: the dotted name of the package.
        home: module -> names that it provides.
        modules: submodules that can be reached as attributes.

    Returns:
        A function that imports the module that provides a name, stores the value in the package, and returns it. It
        raises AttributeError for unknown names.
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
    """Protect attributes of a package from being replaced by submodules of the same names.

    Python's import system sets a submodule as an attribute of its package once it is loaded.
    """

    class Package(type(package)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: object) -> None:
            shadows = name in names and isinstance(value, ModuleType)
            super().__setattr__(name, getattr(value, name) if shadows else value)

    if names:
        package.__class__ = Package
