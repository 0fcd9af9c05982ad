"""Help: an example under each command that its options allow, and paragraphs without line breaks of their own."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli.commands import ask

from hetgym.cli.app import EXAMPLES, app

NAMES = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]


@pytest.mark.parametrize(("name", "example"), list(zip(NAMES, EXAMPLES.values(), strict=True)), ids=NAMES)
def test_an_example_is_shown_and_its_options_exist(name: str, example: str, tmp_path: Path) -> None:
    done = ask(name, "--help", cwd=tmp_path)
    shown = " ".join(done.stdout.split())
    assert done.returncode == 0 and f"Example: {example}" in shown
    words = shlex.split(example)
    assert words[:2] == ["hetgym", name]
    assert all(f"{word} " in shown for word in words if word.startswith("--"))


def test_paragraphs_fill_their_lines(tmp_path: Path) -> None:
    lines = [line.strip() for line in ask("score", "--help", cwd=tmp_path).stdout.splitlines()]
    first = lines.index(next(line for line in lines if line.startswith("Every schedule is validated")))
    assert all(len(line) > 60 for line in lines[first : first + 2])
