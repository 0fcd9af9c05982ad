"""The command line in a process of its own, as a user starts it."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HETGYM = "from hetgym.cli import main; main()"
ENVIRONMENT = os.environ | {"COLUMNS": "110", "NO_COLOR": "1"}


def command(*words: str, code: str = HETGYM) -> list[str]:
    return [sys.executable, "-W", "error", "-c", code, *words]


def run(*words: str, cwd: Path, code: str = HETGYM, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; both streams are captured."""
    options: dict[str, Any] = {"cwd": cwd, "env": ENVIRONMENT | environment, "text": True, "timeout": 300}
    return subprocess.run(command(*words, code=code), capture_output=True, **options)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error without the line that tells of compiling, which only first runs print."""
    return done.stderr.replace("hetgym: compiling kernels once …\n", "")


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rows.csv").open(newline="") as file:
        return list(csv.DictReader(file))
