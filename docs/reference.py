"""Hook of the documentation site: ``<!-- api: hetgym.bench -->`` becomes the reference of a module's public names."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

import hetgym

ROLE = re.compile(r":(?:\w+:)?\w+:<code>~?([^<]*)</code>")


DOCTEST = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", re.MULTILINE)


FORMULA = re.compile(r"^( *)\.\. math::(.*)\n\n?((?:\1 +\S.*\n)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")


class Docstrings(griffe.Extension):
    """What docstrings write for other readers becomes Markdown: doctests blocks of code, formulas formulas."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of an object."""
        if obj.docstring is not None:
            text = INLINE.sub(lambda found: f"${found[1]}$", obj.docstring.value + "\n")
            obj.docstring.value = DOCTEST.sub(_fenced, FORMULA.sub(_displayed, text))


def _displayed(found: re.Match[str]) -> str:
    return f"{found[1]}$$\n{found[1]}{' '.join((found[2] + found[3]).split())}\n{found[1]}$$\n"


def _fenced(found: re.Match[str]) -> str:
    return f"{found[1]}```pycon\n{found[0].rstrip()}\n{found[1]}```\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill a page's placeholders in."""
    return re.sub(r"<!-- api: ([\w.]+) -->", lambda found: listed(found[1]), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Drop the roles of Sphinx from docstrings; names stay as code, without the modules that they are in."""
    return ROLE.sub(lambda found: f"<code>{found[1].rsplit('.', 1)[-1]}</code>", content)


def listed(name: str) -> str:
    """The directives of mkdocstrings for all that a module lists, without modules, constants and environments.

    A package loads its names when they are first used, so each is looked up where it is defined. The docstrings of
    environments are manuals, which have pages of their own.
    """
    module = import_module(name)
    found = [getattr(module, key) for key in sorted(module.__all__, key=str.lower)]
    if name != "hetgym":  # what the package itself lists is described there
        above = [getattr(hetgym, key) for key in hetgym.__all__]
        found = [value for value in found if not any(value is other for other in above)]
    return "\n\n".join(f"::: {value.__module__}.{value.__qualname__}" for value in found if _documented(value))


def _documented(value: object) -> bool:
    whole = isinstance(value, type) or inspect.isfunction(value)
    return (
        whole and not value.__name__.endswith("Env") and bool(value.__doc__) and value.__module__.startswith("hetgym.")
    )
