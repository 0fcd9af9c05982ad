"""Walk-throughs of the documentation: the files and commands of a page, in an empty folder as they are printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def walk(page: str, heading: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Write the files that a section of a page shows into a folder, and run its commands with this ``hetgym``."""
    if not (bash := shutil.which("bash")) or sys.platform == "win32":
        pytest.skip("needs bash")
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    (section,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.DOTALL | re.MULTILINE)
    fences = re.findall(r"^( *)```(\w+)(?: title=\"([\w.-]+)\")?\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
    blocks = []
    for indent, language, file, text in fences:
        block = re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        if file:
            (folder / file).write_text(block, "utf-8")
        elif language == "bash":
            blocks.append(block)
    assert blocks, f"docs/{page}.md has no commands below {heading!r}"
    programs = folder.parent / "programs"
    programs.mkdir()
    for name, words in (("hetgym", '-W error -c "from hetgym.cli import main; main()"'), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(stat.S_IRWXU)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "COLUMNS": "150",
        "NO_COLOR": "1",
    }
    script = "set -euo pipefail\n" + "\n".join(blocks)
    return subprocess.run(
        [bash, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_a_papers_figure_set_from_one_command(empty: Path) -> None:
    pytest.importorskip("matplotlib"), pytest.importorskip("scipy")
    done = walk("how-to/compare-schedulers", "A complete comparison", empty)
    assert done.returncode == 0, done.stderr
    text = (ROOT / "docs" / "how-to" / "compare-schedulers.md").read_text("utf-8")
    named = re.findall(r"`([\w-]+-links\.(?:pdf|tex))`", text)
    paper = empty / "results" / "paper" / "paper"
    assert len(named) == 10 and not [name for name in named if not (paper / name).stat().st_size]
    (said,) = re.findall(r"^runtime links: Friedman.*$", done.stdout, re.MULTILINE)
    assert said in text


def rows_of_benchmark(done: subprocess.CompletedProcess[str], folder: Path) -> list[dict[str, Any]]:
    """Rows of the benchmark that a walk ran last; all of them are legal schedules."""
    assert done.returncode == 0, done.stderr
    (results,) = folder.glob("results/2*/results.json")
    rows: list[dict[str, Any]] = json.loads(results.read_text("utf-8"))["rows"]
    assert all(row["status"] == "ok" and row["makespan_s"] > 0 for row in rows)
    return rows


@pytest.mark.slow
def test_maskable_ppo_on_own_graphs_is_compared_by_file_name(empty: Path) -> None:
    pytest.importorskip("sb3_contrib")
    done = walk("how-to/train-and-resume", "From graphs to a benchmark table", empty)
    rows = rows_of_benchmark(done, empty)
    policy = "results/mine-s0/policy.safetensors"
    assert {row["scheduler"] for row in rows} == {policy, "heft", "peft"}
    assert {row["problem"] for row in rows} == {"unseen-5", "unseen-6", "unseen-7"}
    assert policy in done.stdout


@pytest.mark.slow
def test_a_network_of_ones_own_is_a_row_of_the_benchmark(empty: Path) -> None:
    pytest.importorskip("sb3_contrib")
    done = walk("how-to/train-my-own-network", "A network of your own", empty)
    rows = rows_of_benchmark(done, empty)
    assert {row["scheduler"] for row in rows} == {"results/mine-s0/policy.safetensors", "heft", "peft"}
