"""The command line: in a process of its own, as a user starts it, or within the test, which takes no start."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from hetgym.cli import main

HETGYM = "from hetgym.cli import main; main()"
"""The command within the code of a test."""

ENVIRONMENT = os.environ | {"COLUMNS": "110", "NO_COLOR": "1"}


def command(*words: str, code: str = "") -> list[str]:
    start = ["-c", code] if code else ["-m", "hetgym"]
    return [sys.executable, "-W", "error", *start, *words]


def run(*words: str, cwd: Path, code: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; both streams are captured."""
    options: dict[str, Any] = {"cwd": cwd, "env": ENVIRONMENT | environment, "text": True, "timeout": 300}
    return subprocess.run(command(*words, code=code), capture_output=True, **options)


def ask(*words: str, cwd: Path, warned: Any = "error") -> subprocess.CompletedProcess[str]:
    """As :func:`run`, but in this process: for what a command prints and refuses, not for how its process ends.

    ``warned`` is what becomes of warnings.
    """
    out, error = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        mock.patch.dict(os.environ, ENVIRONMENT),
        mock.patch.object(sys, "argv", ["hetgym", *words]),
        warnings.catch_warnings(action=warned),  # and it puts back what prints warnings
        redirect_stdout(out),
        redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as end:
            if end.code == 130:  # whoever interrupts the command means the tests
                raise KeyboardInterrupt from end
            return subprocess.CompletedProcess(words, int(end.code or 0), out.getvalue(), error.getvalue())
    raise AssertionError("the command line ends with an exit code")


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error without the lines that depend on time: that something compiles, and how far a run is."""
    return re.sub(r"(?m)^hetgym: (compiling kernels once …|.* \(\d+ s\))\n", "", done.stderr)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rows.csv").open(newline="") as file:
        return list(csv.DictReader(file))
