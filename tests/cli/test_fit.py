"""``hetgym fit`` as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli.commands import ask, run

from hetgym.costs import LearnedCosts
from hetgym.measurements import Dataset


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small part of a shipped dataset: of two designs and one model."""
    whole = Dataset.load("xeon-core")
    rows = enumerate(whole.table)
    kept = [row.source == "squeezenet" or (row.source in ("relu", "gemm") and k % 10 == 0) for k, row in rows]
    folder = tmp_path_factory.mktemp("fit")
    (folder / "measurements").mkdir()
    replace(whole, table=whole.table.where(kept)).save(folder / "measurements" / "mine.csv.gz")
    return folder


@pytest.mark.parametrize("model", ["roofline", "polynomial"])
def test_fit_prints_errors_and_writes_a_model(measured: Path, model: str) -> None:
    done = ask("fit", "measurements/mine.csv.gz", "--kind", model, cwd=measured)
    assert done.returncode == 0, done.stderr
    assert "held-out models" in done.stdout and "squeezenet" in done.stdout
    costs = LearnedCosts.load(measured / f"mine-{model}.npz")
    assert costs.model == model
    assert costs.card["scores"]["held-out models"]["n"] == 1  # type: ignore[index]


def test_fit_prints_json_alone(measured: Path) -> None:
    done = run("fit", "measurements/mine.csv.gz", "--kind", "roofline", "--json", "--out", "a.npz", cwd=measured)
    assert json.loads(done.stdout)["artefact"] == "a.npz"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "no dataset 'nowhere'"),
        (("measurements/mine.csv.gz", "--kind", "bosted"), "did you mean 'boosted'"),
        (("measurements/mine.csv.gz", "--kind", "roofline", "--out", "no/folder/a.npz"), "no/folder/a.npz"),
    ],
)
def test_mistakes_are_one_line(measured: Path, words: tuple[str, ...], said: str) -> None:
    done = ask("fit", *words, cwd=measured)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hetgym: error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_table_of_named_models_alone_is_refused(measured: Path) -> None:
    found = Dataset.load(measured / "measurements" / "mine.csv.gz")
    named = [row.source == "squeezenet" for row in found.table]
    replace(found, table=found.table.where(named)).save(measured / "measurements" / "named.csv.gz")
    done = ask("fit", "measurements/named.csv.gz", "--kind", "roofline", cwd=measured)
    assert done.returncode == 2 and "all rows are of named models, which serve as the test set" in done.stderr
