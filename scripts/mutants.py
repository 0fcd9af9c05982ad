"""Try small wrong changes of the package one at a time, and print which ones the named tests notice.

    python scripts/mutants.py tests/mutants.yaml [--only TEXT]

The list is a YAML sequence of mappings with the keys

- ``file``: the file to change, relative to the checkout;
- ``text`` and ``instead``: a part of the file that occurs exactly once, and what replaces it;
- ``tests``: files or node ids of pytest, of which one must fail under the change;
- ``limit``: seconds after which a change that makes the tests hang counts as noticed; without it, tests that take
  longer than ten minutes are an error.

Every change is made in a copy of the checkout, which the tests import. All tests named must pass in an unchanged copy
first. The exit code is 1 if a change is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 600.0
"""Seconds after which tests are stopped if the entry states no limit."""

FAILED = (1, 2)
"""Exit codes of pytest for tests that failed, and for files that could not be imported."""


class MutantsError(Exception):
    """The list is wrong, or the tests cannot be run."""


@dataclass(frozen=True)
class Mutant:
    """A wrong change, and the tests that should notice it; see the module's docstring."""

    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
    limit: float | None = None

    @property
    def title(self) -> str:
        """The file and the first line that is replaced."""
        return f"{self.file}: {self.text.strip().splitlines()[0]}"

    def apply(self, folder: Path) -> None:
        """Change the file in a copy of the checkout.

        Raises:
            MutantsError: the file is missing, or does not hold the text exactly once.
        """
        path = folder / self.file
        try:
            before = path.read_text("utf-8")
        except OSError as error:
            raise MutantsError(f"{self.title}: the file cannot be read ({error.strerror})") from error
        if before.count(self.text) != 1:
            raise MutantsError(f"{self.title}: the text occurs {before.count(self.text)} times in the file, not once")
        path.unlink()  # a hard link to the file of the unchanged copy
        path.write_text(before.replace(self.text, self.instead), "utf-8")


def read_list(path: Path) -> list[Mutant]:
    """The changes of a list.

    Raises:
        MutantsError: an entry lacks a key or has another one, or changes nothing.
    """
    found = []
    for number, entry in enumerate(yaml.safe_load(path.read_text("utf-8"))):
        try:
            mutant = Mutant(**{**entry, "tests": tuple(entry["tests"])})
        except (KeyError, TypeError) as error:
            raise MutantsError(f"{path}: entry {number} is not a change ({error})") from error
        if mutant.text == mutant.instead or not mutant.text or not mutant.tests:
            raise MutantsError(f"{path}: entry {number} changes nothing or names no tests")
        found.append(mutant)
    return found


def copy_checkout(to: Path) -> None:
    """Copy the files that git does not ignore, and the compiled kernels beside them."""
    listed = subprocess.run(
        ["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    files = {ROOT / name for name in os.fsdecode(listed.stdout).split("\0") if name}
    for folder in {file.parent for file in files}:
        files |= set(folder.glob("__pycache__/*.nb[ci]"))
    for file in sorted(files):
        if file.is_symlink() or file.exists():
            there = to / file.relative_to(ROOT)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, there, follow_symlinks=False)


def run_tests(folder: Path, tests: tuple[str, ...], limit: float) -> tuple[int | None, str]:
    """Exit code and output of pytest in a copy of the checkout; no code if it was stopped at the time limit."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    options: dict[str, Any] = {"cwd": folder, "env": environment, "text": True, "start_new_session": True}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        return process.returncode, output


def judge(mutant: Mutant, unchanged: Path, work: Path) -> tuple[bool, str]:
    """Whether the tests notice a change, and the reason in a few words."""
    folder = work / "changed"
    shutil.copytree(unchanged, folder, symlinks=True, copy_function=os.link)
    try:
        mutant.apply(folder)
        code, output = run_tests(folder, mutant.tests, mutant.limit or SLOWEST)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code is None:
        if mutant.limit is None:
            raise MutantsError(f"{mutant.title}: the tests took more than {SLOWEST:.0f} s; state a limit if they hang")
        return True, "stopped at the limit"
    if code in FAILED or code < 0:
        reasons = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return True, (reasons or ["the interpreter ended"])[0]
    if code == 0:
        return False, "all tests passed"
    raise MutantsError(f"{mutant.title}: pytest ended with code {code}:\n{output}")


def main() -> int:
    """Try the changes of a list; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("--only", default="", help="try only changes whose file or text contains this")
    chosen = parser.parse_args()
    mutants = [m for m in read_list(chosen.list) if chosen.only in m.file or chosen.only in m.text]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        work, unchanged = Path(name), Path(name) / "unchanged"
        copy_checkout(unchanged)
        code, output = run_tests(unchanged, tuple(sorted({test for m in mutants for test in m.tests})), 4 * SLOWEST)
        if code != 0:
            raise MutantsError(f"the tests fail without any change:\n{output}")
        place = "import hetgym; print(hetgym.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", place],
            cwd=unchanged,
            env={**os.environ, "PYTHONPATH": str(unchanged)},
            capture_output=True,
            text=True,
            check=True,
        )
        if not Path(found.stdout.strip()).is_relative_to(unchanged):
            raise MutantsError(f"the tests import {found.stdout.strip()}, not the copy")
        for mutant in mutants:
            began = time.monotonic()
            noticed, reason = judge(mutant, unchanged, work)
            missed += not noticed
            print(
                f"{'noticed' if noticed else 'MISSED '} {time.monotonic() - began:6.1f} s  {mutant.title}  [{reason}]",
                flush=True,
            )
    print(f"{len(mutants) - missed} of {len(mutants)} changes noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MutantsError as error:
        sys.exit(f"mutants: {error}")
