"""The terminal: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

WIDTH = 110
"""Columns of tables that do not go to a terminal."""


def stdout() -> Console:
    """The console of results."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, soft_wrap=False)


def stderr() -> Console:
    """The console of progress and messages."""
    return Console(stderr=True, highlight=False)


def tell(message: str) -> None:
    """A message on one line of stderr."""
    stderr().print(message, markup=False, soft_wrap=True)


def print_json(document: dict[str, Any]) -> None:
    """A document on one line of stdout."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def print_path(label: str, path: object) -> None:
    """The path of a file or folder that was written."""
    stdout().print(f"{label:>8}  {path}", markup=False, soft_wrap=True)


def progress(console: Console) -> Progress:
    """A bar with counts and the time left, gone at the end; tasks take a field ``what`` for what is under way.

    Args:
        console: console of stderr; nothing is shown if it is not a terminal.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[what]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
