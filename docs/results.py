"""Results: measured figures as data, and the pages and marked places that are made from them.

    python docs/results.py [--write]            # compare the marked places with the data, or fill them in
    python docs/results.py record NAME [--title TEXT] [--about TEXT] [--sources PATH,...] -- COMMAND...

A result is a file ``docs/results/data/NAME.json``: tables, the date, the machine, the command, the seconds that it
took, and the sources that it depends on with their digest. The site has a page for each. A result whose sources have
another digest now is *older than the code*, and is marked so wherever it is listed.

A marked place in a page or in the README shows one cell or a table:

    <!--= bench/classic/heft/SLR -->1.461<!--/-->
    <!--= bench/classic rows=heft,peft columns=scheduler,SLR -->
    ...
    <!--/-->

``record`` runs a command that takes ``--json FILE`` and writes tables there, as benchmarks and studies do, or the
document of ``hetgym bench``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "results" / "data"
MARK = re.compile(r"(<!--= ([^>]+?) -->)(.*?)(<!--/-->)", re.DOTALL)
SUFFIXES = {".py", ".yaml", ".yml", ".json", ".csv", ".toml"}
"""Of the files that count in the digest of a source folder."""


HAND = ("title", "keys", "note", "fixed")
"""Fields of a table that stay when it is measured again."""

RUN = ("date", "command", "digest")
"""Fields of a result that its tables have, too, where they come from other runs."""

WORDS = re.compile(rb'^[ \t]*(?:#.*|r?"""(?:.|\n)*?"""[ \t]*)?\n', re.MULTILINE)
"""Docstrings, comments on lines of their own and empty lines, which change no figure."""


class ResultError(Exception):
    """A result is malformed, or a marked place names what no result has."""


@dataclass(frozen=True)
class Table:
    """A table of cells as they are printed."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]]
    keys: int = 1  # number of leading columns that together name a row
    note: str = ""  # what a reader has to know to read it: conditions, intervals, limits
    fixed: list[str] = field(default_factory=list)  # keys of rows from publications and peers, which no command prints
    date: str = ""  # ISO, of a run before that of the result; empty for its own
    command: str = ""  # of that run
    digest: str | None = None  # of the sources at that time

    def cell(self, row: str, column: str) -> str:
        """The cell of a row, named by its leading cells, and a column."""
        found = [cells for cells in self.rows if self.key(cells) == row]
        if len(found) != 1 or column not in self.columns:
            raise ResultError(f"table {self.name!r} has {len(found)} rows {row!r}, and the columns {self.columns}")
        return found[0][self.columns.index(column)]

    def key(self, cells: list[str]) -> str:
        """The name of a row."""
        return ", ".join(cells[: self.keys])

    def markdown(self, rows: list[str] | None = None, columns: list[str] | None = None) -> str:
        """The table, or some of its rows and columns, as Markdown."""
        shown = self.columns if columns is None else columns
        keys = [self.key(cells) for cells in self.rows]
        lines = [self.rows[keys.index(row)] if row in keys else self._lacks(row) for row in rows or keys]
        if rows is None:
            lines = self.rows
        places = [self.columns.index(column) if column in self.columns else self._lacks(column) for column in shown]
        words = [all(not re.search(r"\d", line[place]) for line in self.rows) for place in places]
        bars = [":--" if place < self.keys or word else "--:" for place, word in zip(places, words, strict=True)]
        cells = [[line[place].replace("|", "\\|") for place in places] for line in lines]
        return "\n".join("| " + " | ".join(line) + " |" for line in [list(shown), bars, *cells])

    def _lacks(self, name: str) -> Any:
        raise ResultError(f"table {self.name!r} has no row or column {name!r}")


@dataclass(frozen=True)
class Result:
    """What one command measured, and where it comes from."""

    title: str
    date: str  # ISO, of the run
    machine: str
    command: str
    tables: list[Table]
    about: str = ""
    seconds: float | None = None  # that the command took; None if it was not written down
    sources: list[str] = field(default_factory=list)  # files and folders on whose code the figures depend
    digest: str | None = None  # of the sources at the time of the run; None if it was not written down

    @property
    def is_current(self) -> bool:
        """True if the sources are what they were when all tables were measured."""
        return self.state() == "current"

    def state(self, *tables: str) -> str:
        """Whether the sources are what they were when tables were measured, by default all, in a few words."""
        now, chosen = digest_of(self.sources), [self.table(name) for name in tables] or self.tables
        current = [(table.digest if table.date else self.digest) == now for table in chosen]
        return "current" if all(current) else "in part older than the code" if any(current) else "older than the code"

    def table(self, name: str) -> Table:
        """A table by its name."""
        for table in self.tables:
            if table.name == name:
                return table
        raise ResultError(f"no table {name!r}; there are {', '.join(table.name for table in self.tables)}")

    def provenance(self) -> str:
        """One line: date, machine, command, time, and whether the code has changed since."""
        took = "" if self.seconds is None else f", {self.seconds:.0f} s"
        return f"{self.date}, {self.machine}: `{self.command}`{took}; {self.state()}."


@cache
def load(name: str) -> Result:
    """A result by its name."""
    path = DATA / f"{name}.json"
    if not path.is_file():
        raise ResultError(f"no result {name!r} in {DATA}")
    fields = json.loads(path.read_text("utf-8"))
    return Result(**{**fields, "tables": [Table(**table) for table in fields["tables"]]})


def names() -> list[str]:
    """Names of all results."""
    return sorted(path.stem for path in DATA.glob("*.json"))


@cache
def _digest(sources: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for source in sources:
        path = ROOT / source
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES)
        for file in files:
            if "__pycache__" not in file.parts:
                data = file.read_bytes()
                total.update(f"{file.relative_to(ROOT).as_posix()}\n".encode())
                total.update(WORDS.sub(b"", data) if file.suffix == ".py" else data)
    return total.hexdigest()[:16]


def digest_of(sources: list[str]) -> str:
    """Digest of files and of all code and configuration in folders, comments and docstrings aside."""
    return _digest(tuple(sources))


def page(name: str) -> str:
    """The page of a result."""
    result = load(name)
    parts = [f"# {result.title}", result.about, f"*{result.provenance()}*"]
    for table in result.tables:
        by = f", `{table.command}`" if table.command else ""
        own = f"*Of {table.date}{by}; {result.state(table.name)}.*" if table.date else ""
        parts += [f"## {table.title}", " ".join(part for part in (table.note, own) if part), table.markdown()]
    return "\n\n".join(part for part in parts if part) + "\n"


def overview() -> str:
    """All results as a table, those first whose code has not changed."""
    found = sorted((not load(name).is_current, name) for name in names())
    rows = [
        f"| [{load(name).title}]({name}.md) | {load(name).date} | {load(name).machine} | {load(name).state()} |"
        for _, name in found
    ]
    return "\n".join(["| result | date | machine | state |", "|:--|:--|:--|:--|", *rows])


def filled(text: str) -> str:
    """A page with its marked places filled in."""
    return MARK.sub(lambda found: found[1] + _shown(found[2]) + found[4], text)


def _shown(place: str) -> str:
    path, *options = shlex.split(place)
    parts = path.split("/")
    if len(parts) == 4:
        return load(parts[0]).table(parts[1]).cell(parts[2], parts[3])
    if len(parts) != 2:
        raise ResultError(f"{place!r} is neither RESULT/TABLE nor RESULT/TABLE/ROW/COLUMN")
    chosen = dict(option.split("=", 1) for option in options)
    lists = {key: value.split(",") for key, value in chosen.items()}
    return "\n" + load(parts[0]).table(parts[1]).markdown(**lists) + "\n"


def pages() -> list[Path]:
    """The README and the pages that are written by hand."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def on_files(files: Any, config: Any) -> Any:
    """Hook of the site: a page for each result."""
    from mkdocs.structure.files import File

    for name in names():
        files.append(File.generated(config, f"results/{name}.md", content=page(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Hook of the site: ``<!-- results -->`` becomes the list of results, and marks are left out.

    A comment at the start of a line would end its paragraph or list. The page ends in a list of what it quotes.
    """
    quoted = quotes(markdown)
    text = MARK.sub(lambda found: found[3], filled(markdown.replace("<!-- results -->", overview())))
    top = "../" * page.file.src_uri.count("/")
    lines = [
        f"[{load(name).title}]({top}results/{name}.md), {load(name).date}, {load(name).state(*tables)}"
        for name, tables in quoted.items()
    ]
    return text + (f"\n\n---\n\n<small>Figures: {'; '.join(lines)}.</small>\n" if lines else "")


def quotes(text: str) -> dict[str, set[str]]:
    """The results that a page quotes, and their tables."""
    found: dict[str, set[str]] = {}
    for mark in MARK.finditer(text):
        name, table = shlex.split(mark[2])[0].split("/")[:2]
        found.setdefault(name, set()).add(table)
    return dict(sorted(found.items()))


def record(name: str, command: list[str], **fields: Any) -> None:
    """Run a command, and keep its tables as a result.

    Title, text and sources stay unless they are given. Tables that the command does not print stay as of their run, and
    so do fixed rows.
    """
    path, known = DATA / f"{name}.json", {}
    if path.is_file():
        known = json.loads(path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "tables.json")
        began = time.perf_counter()
        bench = command[0] == "hetgym"  # its document goes to the standard output
        if bench:
            out.write_bytes(subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE, cwd=folder).stdout)
        else:
            subprocess.run([sys.executable, *command[1:], "--json", str(out)], check=True, cwd=ROOT)
        took = time.perf_counter() - began
        document = json.loads(out.read_text("utf-8"))
    tables = _summaries(document) if bench else document["tables"]
    before = {table["name"]: table for table in known.get("tables", [])}
    tables = [_again(table, before.pop(table["name"], {})) for table in tables]
    run = {key: known[key] for key in RUN if key in known}
    tables += [table if table.get("date") else table | run for table in before.values()]
    made = {**known, **{key: value for key, value in fields.items() if value is not None}}
    made |= {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "command": shlex.join(map(_portable, command)),
    }
    made |= {"seconds": round(took, 1), "tables": tables}
    made["digest"] = digest_of(made.setdefault("sources", []))
    DATA.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _portable(word: str) -> str:
    """A word of a command without the folders of this machine."""
    return f"DIR/{Path(word).name}" if Path(word).is_absolute() else word


def _again(table: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A table that was measured again: what was written by hand stays, and so do fixed rows, in their places."""
    table = {**table, "note": "", **{key: before[key] for key in HAND if key in before}}
    fixed, keys = table.get("fixed", ()), table.get("keys", 1)
    if not fixed:
        return table
    if table["columns"] != before["columns"]:
        raise ResultError(f"table {table['name']!r} has fixed rows, and now the columns {table['columns']}")
    names = [", ".join(row[:keys]) for row in table["rows"]]
    measured = dict(zip(names, table["rows"], strict=True))
    rows = {key: row for row in before["rows"] if (key := ", ".join(row[:keys])) in measured or key in fixed}
    return table | {"rows": list((rows | measured).values())}


def _summaries(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables that ``hetgym bench`` prints, from its document."""
    from hetgym._text import duration, number, percent

    cells = {
        "scheduler": lambda line: line["scheduler"],
        "kind": lambda line: line["kind"],
        "gap to best": lambda line: percent(line["gap_to_best"]),
        "gap to bound": lambda line: percent(line["gap_to_bound"]),
        "SLR": lambda line: number(line["slr"], "{:.3f}"),
        "speed-up": lambda line: number(line["speedup"], "{:.2f}×"),
        "wins": lambda line: f"{line['wins']}/{line['problems']}",
        "time to schedule": lambda line: duration(line["schedule_seconds"]),
    }
    tables = []
    for runtime, words in document["runtimes"].items():
        lines = [line for line in document["summary"] if line["runtime"] == runtime]
        rows = [[cell(line) for cell in cells.values()] for line in lines]
        title = f"Under `{runtime}`: {words}"
        tables.append({"name": runtime, "title": title, "columns": list(cells), "rows": rows})
    return tables


def machine() -> str:
    """This machine in a few words."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        model = re.search(r"model name\s*: (.*)", text)
    except OSError:
        model = None
    words = re.sub(r"\(R\)|\(TM\)|CPU|Processor|@.*", "", model[1]).split() if model else [platform.machine()]
    return f"{os.cpu_count()} cores, {' '.join(words)}"


def main(words: list[str]) -> int:
    """Run; see the top of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if words[:1] == ["record"]:
        ours, command = words[1 : words.index("--")], words[words.index("--") + 1 :]
        parser.add_argument("name")
        parser.add_argument("--title")
        parser.add_argument("--about")
        parser.add_argument("--sources", type=lambda text: text.split(","))
        given = parser.parse_args(ours)
        record(given.name, command, title=given.title, about=given.about, sources=given.sources)
        return 0
    parser.add_argument("--write", action="store_true", help="fill the marked places in")
    write, stale = parser.parse_args(words).write, []
    for path in pages():
        before = path.read_text("utf-8")
        after = filled(before)
        if before != after and write:
            path.write_text(after, "utf-8")
        elif before != after:
            stale.append(path.relative_to(ROOT).as_posix())
    old = [name for name in names() if not load(name).is_current]
    if old:
        print(f"warning: {len(old)} of {len(names())} results are older than the code: {', '.join(old)}")
    if stale:
        print(f"error: run 'python docs/results.py --write'; other figures than in the results: {', '.join(stale)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
