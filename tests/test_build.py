"""Builds contain the whole tree, with symbolic links in the checkout and without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("agents", "baselines", "configs")

pytest.importorskip("setuptools", minversion="77")


def checkout(folder: Path, links: bool) -> Path:
    """A checkout as git makes it where it can make links and where it cannot."""
    for name in ("hetgym", *PARTS):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for part in PARTS:
        inside = folder / "hetgym" / part
        inside.unlink(missing_ok=True)
        if not links:
            inside.write_text(f"../{part}")
            continue
        try:
            inside.symlink_to(f"../{part}", target_is_directory=True)
        except OSError:
            pytest.skip("symbolic links cannot be made here")
    return folder


def build(folder: Path) -> tuple[set[str], str]:
    """Files that a build gives, relative to the package, and what it says if it fails."""
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_py"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode == 0) == (not done.stderr.startswith("error")), done.stderr
    return files(folder / "build" / "lib" / "hetgym"), done.stderr


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_links_make_no_difference(tmp_path: Path) -> None:
    linked, plain = checkout(tmp_path / "linked", links=True), checkout(tmp_path / "plain", links=False)
    expected = {name for name in files(plain / "hetgym") if name not in PARTS}
    for part in PARTS:
        expected |= {f"{part}/{name}" for name in files(plain / part)}
    assert {"__init__.py", "py.typed", "agents/networks/__init__.py", "configs/suites/quick.yaml"} <= expected
    assert build(linked)[0] == build(plain)[0] == expected


def test_nothing_is_left_out_silently(tmp_path: Path) -> None:
    folder = checkout(tmp_path, links=False)
    stray = folder / "baselines" / "nowhere" / "module.py"
    for path in (stray, folder / "agents" / "weights.bin"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    built, said = build(folder)
    assert not built and "the build would leave out agents/weights.bin, baselines/nowhere/module.py;" in said


def test_a_folder_must_be_there(tmp_path: Path) -> None:
    folder = checkout(tmp_path, links=True)
    shutil.rmtree(folder / "configs")
    assert "package directory 'configs' does not exist" in build(folder)[1]


def test_a_module_that_is_no_more_is_not_built_again(tmp_path: Path) -> None:
    folder = checkout(tmp_path, links=False)
    module = folder / "baselines" / "yesterday.py"
    module.touch()
    assert "baselines/yesterday.py" in build(folder)[0]
    module.unlink()
    assert "baselines/yesterday.py" not in build(folder)[0]
