"""Notebooks of the documentation run from an empty folder; those without measured times print what they show."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetgym.planning import names, unregister

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
EXACT = ("own-scheduler", "plan-my-model")
"""Notebooks without training in PyTorch and without times that were measured."""


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """Remove the schedulers that a notebook registers."""
    known = names()
    yield
    for name in set(names()) - set(known):
        unregister(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=pytest.mark.slow) if path.stem.startswith(("validate", "own")) else path.stem
        for path in sorted(TUTORIALS.glob("*.ipynb"))
    ],
)
def test_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch_geometric"), pytest.importorskip("sb3_contrib")
    if name == "validate-on-my-machine" and (sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2):
        pytest.skip("needs Linux and two cores")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from run_notebooks import run

    monkeypatch.chdir(tmp_path)
    notebook = json.loads((TUTORIALS / f"{name}.ipynb").read_text("utf-8"))
    printed = run(notebook, name)
    kept = ["".join(x for o in cell["outputs"] for x in o["text"]) for cell in notebook["cells"] if "outputs" in cell]
    assert len(printed) == len(kept)
    if name in EXACT:
        assert printed == kept


def test_each_notebook_has_a_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in TUTORIALS.glob("*.ipynb"):
        assert path.with_suffix(".md").read_text("utf-8").strip() == f"<!-- notebook: {path.stem} -->"
        assert f"tutorials/{path.stem}.md" in navigation
