"""Hook of the documentation site: pages of environments are made from their docstrings.

A page that says ``<!-- manual: HetScheduleEnv -->`` gets the manual of that class there, and
``<!-- features: OPERATOR_FEATURES -->`` becomes a table of that tuple of features. So both exist once.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import hetgym.envs

ROLE = re.compile(r":(?:\w+:)?\w+:`~?(?:[^`<]*<)?([^`>]+)>?`")
ENTRY = re.compile(r"    (\S[^:]*): (.*)")
NESTED = re.compile(r"\s+(In \S+ also )?``\w+``(, ``\w+``)*: .*")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill a page's placeholders in."""
    markdown = re.sub(r"<!-- manual: (\w+) -->", lambda found: manual(getattr(hetgym.envs, found[1])), markdown)
    return re.sub(r"<!-- features: (\w+) -->", lambda found: features(getattr(hetgym.envs, found[1])), markdown)


def manual(environment: type) -> str:
    """The docstring of an environment as Markdown."""
    text = ROLE.sub(r"`\1`", inspect.getdoc(environment) or "")
    text = re.sub(r"^(Args|Raises):\n((?:    .*\n|\n)+)", _section, text, flags=re.MULTILINE)
    return re.sub(
        r"^>>> (?:.+\n?)+",
        lambda found: f"## Example\n\n```pycon\n{found[0].rstrip()}\n```\n",
        text,
        flags=re.MULTILINE,
    )


def features(columns: tuple[Any, ...]) -> str:
    """A tuple of features as a table."""
    rows = [f"| {k} | `{column.name}` | {column.unit} | {column.meaning} |" for k, column in enumerate(columns)]
    return "\n".join(["| column | name | unit | what |", "|--:|---|---|---|", *rows])


def _section(found: re.Match[str]) -> str:
    """A list of arguments or errors: a bullet for each name, and within an entry for each line that begins with one."""
    nested = False
    lines = ["", {"Args": "", "Raises": "**Raises**"}[found[1]], ""]
    for line in found[2].rstrip("\n").split("\n"):
        entry = ENTRY.fullmatch(line)
        if entry and not line.startswith("     "):
            names = ", ".join(f"`{name.strip()}`" for name in entry[1].split(","))
            lines.append(f"- {names}: {entry[2]}")
            nested = False
        elif NESTED.fullmatch(line):
            lines.append(f"    - {line.strip()}")
            nested = True
        else:
            lines.append(("        " if nested else "    ") + line.strip())
    return "\n".join([*lines, "", ""])
