"""Options that several commands share: their types for Typer, and the values that belong together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hetgym.errors import ConfigError

SchedulersOption = Annotated[
    str,
    typer.Option(
        help="Comma-separated names or kinds (see 'hetgym list schedulers'), policy.safetensors files, or 'all'. "
        "Options follow a name: pilot:completion=append."
    ),
]
ImportOption = Annotated[
    list[Path] | None,
    typer.Option("--import", metavar="FILE", help="Python file that registers schedulers; may be given repeatedly."),
]
OutOption = Annotated[Path, typer.Option(help="Folder of all runs; this run gets a folder of its own in it.")]
NameOption = Annotated[str, typer.Option(help="Name of this run's folder. Default: date and time.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an earlier run of the same name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else, on stdout.")]


@dataclass(frozen=True)
class Output:
    """The destination of a run's results.

    Attributes:
        root: folder of all runs.
        name: name of this run's folder; empty = date and time.
        force: True to replace an earlier run of that name.
        as_json: True to write only the results, as JSON, to stdout.
    """

    root: Path
    name: str = ""
    force: bool = False
    as_json: bool = False


def words(text: str) -> list[str]:
    """The words of a comma-separated list.

    >>> words("heft, peft,")
    ['heft', 'peft']
    """
    return [word.strip() for word in text.split(",") if word.strip()]


def check_run_name(name: str) -> str:
    """The name of a run, which is the name of its folder.

    Raises:
        ConfigError: it is empty, or a path.
    """
    if Path(name).name != name or name in (".", "..", ""):
        raise ConfigError(f"a run is named by one word, not by a path such as {name!r}; --out takes the folder")
    return name


def import_files(files: Sequence[Path] | None) -> None:
    """Run the Python files that ``--import`` names, which register schedulers.

    Raises:
        ConfigError: a file is missing or cannot be imported.
    """
    if files:
        from hetgym.planning.registry import import_file

        for file in files:
            import_file(file)


def command_line() -> tuple[str, ...]:
    """The words that started this process, for the record."""
    return ("hetgym", *sys.argv[1:])
