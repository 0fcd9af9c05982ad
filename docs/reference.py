"""Hook of the documentation site: ``<!-- api: hetgym.bench -->`` becomes the reference of a module's public names."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

import hetgym

ROLE = re.compile(r":(?:\w+:)?\w+:<code>~?([^<]*)</code>")


DOCTEST = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", re.MULTILINE)


FORMULA = re.compile(r"^( *)\.\. math::(.*)\n\n?((?:\1 +\S.*\n)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")

TABLE = re.compile(r"^( *)(=+(?: +=+)+)\n((?:.*\n)+?)\1\2\n((?:.*\n)+?)\1\2\n", re.MULTILINE)
"""A simple table of reStructuredText: indentation, rule, head and rows."""


class Docstrings(griffe.Extension):
    """What docstrings write for other readers becomes Markdown: doctests, formulas and tables."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of an object."""
        if obj.docstring is not None:
            text = INLINE.sub(lambda found: f"${found[1]}$", obj.docstring.value + "\n")
            obj.docstring.value = DOCTEST.sub(_fenced, TABLE.sub(_tabulated, FORMULA.sub(_displayed, text)))


def _displayed(found: re.Match[str]) -> str:
    return f"{found[1]}$$\n{found[1]}{' '.join((found[2] + found[3]).split())}\n{found[1]}$$\n"


def _tabulated(found: re.Match[str]) -> str:
    indent, rule = found[1], found[2]
    starts = [column.start() for column in re.finditer("=+", rule)]
    rows: list[list[str]] = []
    for line in f"{found[3]}{found[4]}".splitlines():
        text = line.removeprefix(indent)
        cells = [text[a:b].strip().replace("|", "\\|") for a, b in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:  # the row above continues
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
    rows.insert(1, [":--"] * len(starts))
    return "\n" + "".join(f"{indent}| {' | '.join(row)} |\n" for row in rows) + "\n"


def _fenced(found: re.Match[str]) -> str:
    return f"{found[1]}```pycon\n{found[0].rstrip()}\n{found[1]}```\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill a page's placeholders in."""
    return re.sub(r"<!-- api: ([\w.]+) -->", lambda found: listed(found[1]), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Drop the roles of Sphinx from docstrings; names stay as code, without the modules that they are in."""
    return ROLE.sub(lambda found: f"<code>{found[1].rsplit('.', 1)[-1]}</code>", content)


def promised() -> dict[str, list[str]]:
    """Module -> names that users can rely on, from the table of the reference's first page."""
    page = (Path(__file__).parent / "reference" / "index.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", page, re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def listed(name: str) -> str:
    """The directives of mkdocstrings for all that a module lists, without modules, constants and environments.

    Promised names come first. A package loads its names when they are first used, so each is looked up where it is
    defined. The docstrings of environments are manuals, which have pages of their own.
    """
    module, relied_on = import_module(name), promised().get(name, [])
    found = {key: getattr(module, key) for key in sorted(module.__all__, key=str.lower)}
    if name != "hetgym":  # what the package itself lists is described there
        above = [getattr(hetgym, key) for key in hetgym.__all__]
        found = {key: value for key, value in found.items() if not any(value is other for other in above)}
    lines = {key: f"::: {value.__module__}.{value.__qualname__}" for key, value in found.items() if _documented(value)}
    first = [line for key, line in lines.items() if key in relied_on]
    rest = [line for key, line in lines.items() if key not in relied_on]
    note = [f"**For developers: names of `{name}` that may change**"] if first and rest else []
    return "\n\n".join([*first, *note, *rest])


def _documented(value: object) -> bool:
    whole = isinstance(value, type) or inspect.isfunction(value)
    return (
        whole and not value.__name__.endswith("Env") and bool(value.__doc__) and value.__module__.startswith("hetgym.")
    )
