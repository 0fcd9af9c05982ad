"""``hetgym list`` as a user meets it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from cli.commands import ask, run

from hetgym import load_graph
from hetgym.cli.catalogue import CATALOGUES


@functools.cache
def listed(what: str) -> list[dict[str, Any]]:
    """The entries that the command prints as JSON."""
    entries: list[dict[str, Any]] = json.loads(ask("list", what, "--json", cwd=Path.cwd()).stdout)[what]
    return entries


@pytest.mark.parametrize(
    "what", [pytest.param(name, marks=pytest.mark.slow) if name == "datasets" else name for name in CATALOGUES]
)
def test_lists(what: str, tmp_path: Path) -> None:
    entries = listed(what)
    shown = ask("list", what, cwd=tmp_path)
    assert shown.returncode == 0 and entries
    assert all(entry["name"] in shown.stdout for entry in entries)
    for entry in entries:
        text = (entry.get("summary") or entry.get("description") or "One.").partition(" [")[0]  # options come behind it
        assert text[0] == text[0].upper() and text.endswith("."), f"{entry['name']}: no full sentence"


def test_a_process_lists_the_same(tmp_path: Path) -> None:
    done = run("list", "platforms", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, ask("list", "platforms", cwd=tmp_path).stdout, "")


def test_graphs_are_listed_with_their_sizes() -> None:
    graph = load_graph("resnet50")
    found = next(entry for entry in listed("graphs") if entry["name"] == "resnet50")
    assert (found["operators"], found["edges"]) == (len(graph), len(graph.edges))
    assert 7 < found["gflop"] < 9 and 95 < found["weights_mb"] < 110  # 4.1 GMAC and 25.6 million weights


def test_language_models_are_listed_with_parameters_and_context() -> None:
    found = {entry["name"]: entry for entry in listed("llms")}
    assert found["qwen3-8b"]["billion parameters"] == pytest.approx(8.19, rel=1e-3)
    assert (found["mixtral-8x7b"]["experts"], found["llama-3.1-8b"]["context"]) == (8, 131072)
