"""The terminal: results on stdout, progress and messages on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from hetgym._sums import summed
from hetgym._text import plain_lines

WIDTH = 110  # Columns of tables that do not go to a terminal
GAP, EDGE = 3, 1  # Space beside a column of a table, and at its left edge


class _Plain(Console):
    """A console that prints names literally: it interprets no markup, emoji or control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as cells show it."""
        return super().render_str(plain_lines(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a table or text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain_lines(segment.text), segment.style)


def stdout() -> Console:
    """The console of results."""
    return _Plain(width=None if sys.stdout.isatty() else WIDTH, soft_wrap=False)


def stderr() -> Console:
    """The console of progress and messages."""
    return _Plain(stderr=True)


def say(text: str, style: str | None = None) -> None:
    """A text on one line of stdout, however long."""
    stdout().print(text, style=style, soft_wrap=True)


def tell(message: str) -> None:
    """A message on one line of stderr."""
    stderr().print(message, soft_wrap=True)


class Spared(Table):
    """A table whose columns ``spare`` are left out first where there is no room, in this order."""

    spare: Sequence[str] = ()


def print_table(table: Table) -> None:
    """A table on stdout; where it is wider than the terminal without some columns, which are named below it."""
    console = stdout()
    shown, absent = fitting(table, console)
    console.print(shown)
    if absent:
        words = f"not shown for lack of room: {', '.join(absent)}"
        say(words, "dim")


def fitting(table: Table, console: Console) -> tuple[Table, list[str]]:
    """A table without the columns for which the console has no room, and their headings; the first column stays."""
    headings = [str(column.header) for column in table.columns]
    widths = [column_width(column, console) for column in table.columns]
    widths[0] = min(widths[0], console.width // 2)
    kept = list(range(len(headings)))
    spare = [headings.index(name) for name in getattr(table, "spare", ()) if name in headings]
    rest = [place for place in reversed(kept[1:]) if place not in spare]
    absent: list[int] = []
    for place in [*spare, *rest][: len(headings) - 2]:
        if summed(widths[place] for place in kept) + EDGE <= console.width:
            break
        kept.remove(place)
        absent.append(place)
    if not absent:
        return table, []
    found = Table(box=table.box, title=table.title, title_justify=table.title_justify)
    for column in (table.columns[place] for place in kept):
        found.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap, overflow=column.overflow)
    cells = [list(table.columns[place].cells) for place in kept]
    for row, texts in zip(table.rows, zip(*cells, strict=True), strict=True):
        found.add_row(*texts, style=row.style, end_section=row.end_section)
    return found, [headings[place] for place in sorted(absent)]


def column_width(column: Column, console: Console) -> int:
    """Width of a column with the space beside it."""
    texts = [column.header, *column.cells]
    return GAP + max(console.measure(text).maximum for text in texts)


def print_json(document: dict[str, Any]) -> None:
    """A document on one line of stdout."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def print_path(label: str, path: object) -> None:
    """The path of a file or folder that was written."""
    say(f"{label:>8}  {path}")


def progress(console: Console) -> Progress:
    """A bar with counts and the time left on a terminal, gone at the end; tasks have a field ``what``."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[what]}", style="dim", markup=False),
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # otherwise tables that go to a file while it runs would be shown here
        disable=not console.is_terminal,
    )
