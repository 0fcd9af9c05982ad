"""Lazy packages: each name is imported when it is first used.

A package's ``__init__`` names what it offers once, a line each, for readers, type checkers and this module::

    if TYPE_CHECKING:
        from hetgym.planning.bounds import lower_bound as lower_bound

    lazy(__name__)
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from inspect import getsource
from types import ModuleType
from typing import Any


def lazy(package: str) -> None:
    """Give a package what its source imports in the form ``from module import name as name``.

    Those names become its ``__all__``. A name may equal that of the submodule that provides it, such as the function
    ``heft`` of ``baselines.heft``: the attribute is then always the function. Unknown names raise AttributeError.
    """
    module = sys.modules[package]
    where = _offered(module)

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if where[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(where[name]), name)
        setattr(module, name, value)
        return value

    added = {"__getattr__": load, "__all__": sorted(where), "__dir__": lambda: sorted({*vars(module), *where})}
    vars(module).update(added)
    _keep_names(module, {name for name, source in where.items() if source == f"{package}.{name}"})


def _offered(package: ModuleType) -> dict[str, str]:
    """Name -> module that it is imported from; the package itself for its submodules."""
    imports = [node for node in ast.walk(ast.parse(getsource(package))) if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname == alias.name}


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
