"""``hetgym fit`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import run

from hetgym.costs import LearnedCosts


@pytest.mark.parametrize("model", ["roofline", "polynomial"])
def test_fit_prints_errors_and_writes_a_model(profiled: Path, model: str) -> None:
    done = run("fit", "measurements/mine.csv.gz", "--model", model, cwd=profiled)
    assert done.returncode == 0, done.stderr
    assert "held-out models" in done.stdout and "squeezenet" in done.stdout
    costs = LearnedCosts.load(profiled / f"mine-{model}.npz")
    assert costs.model == model
    assert costs.card["scores"]["held-out models"]["n"] == 1  # type: ignore[index]


def test_fit_prints_json_alone(profiled: Path) -> None:
    done = run("fit", "measurements/mine.csv.gz", "--model", "roofline", "--json", "--out", "a.npz", cwd=profiled)
    assert json.loads(done.stdout)["artefact"] == "a.npz"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "no dataset 'nowhere'"),
        (("measurements/mine.csv.gz", "--model", "bosted"), "did you mean 'boosted'"),
        (("measurements/mine.csv.gz", "--model", "roofline", "--out", "no/folder/a.npz"), "no/folder/a.npz"),
    ],
)
def test_mistakes_are_one_line(profiled: Path, words: tuple[str, ...], said: str) -> None:
    done = run("fit", *words, cwd=profiled)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hetgym: error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr
