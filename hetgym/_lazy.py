"""Packages whose names load when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(package: str, home: Mapping[str, Sequence[str]], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

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

    return load
