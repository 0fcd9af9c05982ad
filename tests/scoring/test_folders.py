"""Folders that programs fill are removed, whatever they hold and whoever was killed."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scoring.others import as_other_user

from hetgym.scoring import folders
from hetgym.scoring.folders import make_folder, remove_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="programs run in forks")


def deep(folder: Path) -> None:
    """Deeper than the stack of the interpreter, and than the longest path."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        for _ in range(1050):
            os.mkdir("deep")
            os.chdir("deep")
    finally:
        os.chdir(before)


def closed(folder: Path) -> None:
    """Folders that cannot be listed or entered, with content that their owner could read."""
    for mode in (0o300, 0o200, 0o100, 0):
        inner = folder / f"{mode:o}"
        (inner / "inner" / "inmost").mkdir(parents=True)
        (inner / "note").write_text("x")
        for path in (inner / "inner" / "inmost", inner / "inner", inner):
            path.chmod(mode)


def odd(folder: Path) -> None:
    """Kinds of entries and names that are not text, and links that lead outside."""
    (folder.parent / "kept").mkdir()
    (folder.parent / "kept" / "file").write_text("x")
    os.mkfifo(folder / "pipe")
    os.makedirs(os.fsencode(folder) + b"/\xff\n/\xff\n")
    (folder / "link").symlink_to(folder.parent / "kept")
    (folder / "lost").symlink_to("nowhere")
    (folder / "-rf").mkdir()
    (folder / "-rf" / "link").symlink_to(folder.parent / "kept")


@pytest.mark.parametrize("fill", [deep, closed, odd])
def test_everything_is_removed(fill: Callable[[Path], None], tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:  # pytest's own, which it makes for one user
        if parent.is_relative_to(tempfile.gettempdir()) and parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)

    def fill_and_remove() -> bool:
        root = Path(tempfile.mkdtemp(dir=tmp_path))
        folder = root / "folder"
        folder.mkdir()
        fill(folder)
        remove_folder(folder)
        left = {str(path.relative_to(root)) for path in root.rglob("*")}
        return left == ({"kept", "kept/file"} if fill is odd else set())

    assert as_other_user(fill_and_remove)


def test_folders_of_killed_processes_are_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, mine = make_folder()
    (killed / "note").write_text("x")
    used, locked = make_folder()
    young, lock = make_folder()
    os.close(mine)  # as the end of a process does
    os.close(lock)
    other = tmp_path / "other"
    other.mkdir()
    for folder in (killed, used, other):
        os.utime(folder, (time.time() - 2 * folders._YOUNG,) * 2)
    made, own = make_folder()
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (used, young, other, made)}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    os.close(locked)
    os.close(own)
