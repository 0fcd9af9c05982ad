"""Hook of the documentation site: reference pages that are made from the package's own tables.

``<!-- commands -->`` becomes every command with its arguments and options, ``<!-- schedulers -->`` every scheduler with
its source, ``<!-- runtimes -->`` every switch of the simulated runtime, ``<!-- presets -->`` its presets, and
``<!-- rooms -->`` every package and module at the top of hetgym.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import typer

import hetgym
from hetgym import baselines


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill a page's placeholders in."""
    return re.sub(r"<!-- (commands|schedulers|runtimes|presets|rooms) -->", lambda found: MAKERS[found[1]](), markdown)


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown; bars within cells are escaped."""
    lines = [heads, tuple(":--" for _ in heads), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def commands() -> str:
    """Every command: what it does, an example, its arguments and its options."""
    from hetgym.cli.app import app

    parts = []
    for command in app.registered_commands:
        work: Any = command.callback
        heading = f"## hetgym {command.name or work.__name__}\n\n{_paragraphs(inspect.getdoc(work) or '')}"
        heading += f"\n\n```bash\n{(command.epilog or '').removeprefix('Example: ')}\n```"
        hints = get_type_hints(work, include_extras=True)
        parameters = inspect.signature(work).parameters.values()
        rows = [_parameter(one, hints.get(one.name, one.annotation)) for one in parameters]
        parts.append(f"{heading}\n\n{table(('argument or option', 'value', 'meaning'), rows)}")
    return "\n\n".join(parts)


def _paragraphs(text: str) -> str:
    """Help without the line breaks of docstrings."""
    return "\n\n".join(" ".join(block.split()) for block in re.split(r"\n\s*\n", text))


def _parameter(one: inspect.Parameter, hint: Any) -> tuple[str, str, str]:
    """Names, type, and help with the default, of an annotated parameter of a command."""
    kind, info = hint.__origin__, hint.__metadata__[0]
    if isinstance(info, typer.models.OptionInfo):
        given = [word for word in (info.default, *(info.param_decls or ())) if str(word).startswith("-")]
        names = ", ".join(f"`{word}`" for word in given or [f"--{one.name.replace('_', '-')}"])
    else:
        names = f"`{one.name.upper()}`"
    required = " Required." if one.default in (inspect.Parameter.empty, ...) else ""
    default = "" if required or one.default in (None, "", False) else f" Default: `{one.default}`."
    return names, info.metavar or _kind(kind), f"{info.help or ''}{required}{default}".strip()


def _kind(hint: Any) -> str:
    """The type of a value in a word or two."""
    kinds = [part for part in get_args(hint) or (hint,) if part is not type(None)]
    if get_origin(hint) is list:
        return f"{_kind(kinds[0])}, repeated"
    if kinds != [hint]:
        return _kind(kinds[0])
    return {str: "text", int: "whole number", float: "number", bool: "", Path: "path"}.get(kinds[0], str(kinds[0]))


def schedulers() -> str:
    """Every scheduler: kind, what it does, source and complexity."""
    rows = []
    for name in baselines.names():
        one = baselines.get(name)
        rows.append((f"`{name}`", one.kind, one.summary, one.citation, one.complexity))
    return table(("name", "kind", "idea", "source", "complexity"), rows)


def runtimes() -> str:
    """The switches of a runtime: name, default and meaning, as its class documents them."""
    text = inspect.getdoc(hetgym.Runtime) or ""
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE))
    rows = [
        (f"`{one.name}`", f"`{one.default!r}`", " ".join(meanings.get(one.name, "").replace("``", "`").split()))
        for one in fields(hetgym.Runtime)
    ]
    return table(("switch", "default", "meaning"), rows)


def presets() -> str:
    """The presets, and the switches that each sets."""
    plain = hetgym.Runtime()
    rows = []
    for name, preset in hetgym.sim.PRESETS.items():
        names = [one.name for one in fields(preset) if getattr(preset, one.name) != getattr(plain, one.name)]
        rows.append((f"`{name}`", ", ".join(f"`{key}={getattr(preset, key)!r}`" for key in names) or "the defaults"))
    return table(("preset", "switches"), rows)


def rooms() -> str:
    """The rooms of the package, the highest first, each with the first paragraph of its docstring."""
    sys.path.append(str(Path(__file__).parents[1] / "scripts"))
    from import_graph import ROOMS

    rows = []
    for room in reversed(ROOMS):
        text = inspect.getdoc(import_module(f"hetgym.{room}")) or ""
        summary = " ".join(text.partition("\n\n")[0].split()).replace("``", "`")
        rows.append((f"`{room}`", summary))
    return table(("room", "content"), rows)


MAKERS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "schedulers": schedulers,
    "runtimes": runtimes,
    "presets": presets,
    "rooms": rooms,
}
