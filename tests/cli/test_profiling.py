"""``hetgym profile`` and ``hetgym fit`` as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetgym.costs import LearnedCosts
from hetgym.measurements import Dataset

CORE = str(min(os.sched_getaffinity(0)))


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", "from hetgym.cli import main; main()", *words]
    environment = os.environ | {"COLUMNS": "110", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("profile")
    words = "--designs relu,gemm --share 0.05 --networks 1 --models squeezenet --passes 1 --cores"
    done = run("profile", "mine", *words.split(), CORE, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "measurements/mine.csv.gz" in done.stdout
    return folder


def test_a_profile_is_a_dataset(folder: Path) -> None:
    dataset = Dataset.load(folder / "measurements" / "mine.csv.gz")
    sources = {row.source for row in dataset.table}
    assert {"relu", "gemm", "random-0-plain", "squeezenet"} == sources
    assert all(row.status == "ok" for row in dataset.table)
    assert dataset.device.peak_flops["float32"] > 1e9
    assert dataset.machine.isa_cap == "full"
    assert set(dataset.table.graphs()) == {"random-0-plain", "squeezenet"}


def test_a_table_that_is_there_is_not_overwritten(folder: Path) -> None:
    done = run("profile", "mine", "--designs", "relu", "--networks", "0", "--cores", CORE, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "give another --name" not in done.stderr
    assert "is there already" in done.stderr


@pytest.mark.parametrize("model", ["roofline", "polynomial"])
def test_fit_prints_errors_and_writes_a_model(folder: Path, model: str) -> None:
    done = run("fit", "measurements/mine.csv.gz", "--model", model, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "held-out models" in done.stdout and "squeezenet" in done.stdout
    costs = LearnedCosts.load(folder / f"mine-{model}.npz")
    assert costs.model == model
    assert costs.card["scores"]["held-out models"]["n"] == 1  # type: ignore[index]


def test_fit_prints_json_alone(folder: Path) -> None:
    done = run("fit", "measurements/mine.csv.gz", "--model", "roofline", "--json", "--out", "a.npz", cwd=folder)
    assert json.loads(done.stdout)["artefact"] == "a.npz"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "nowhere"), "no dataset 'nowhere'"),
        (("fit", "measurements/mine.csv.gz", "--model", "bosted"), "did you mean 'boosted'"),
        (("profile", "a/b"), "by one word"),
        (("profile", "x", "--designs", "convv"), "did you mean 'conv'"),
        (("profile", "x", "--cores", "zero"), "--cores zero"),
        (("profile", "x", "--isa", "avx3"), "unknown instruction set 'avx3'"),
        (("profile", "x", "--isa", "mkl=avx2,aten=x"), "unknown instruction set 'x' for aten"),
        (("profile", "x", "--designs", "none", "--networks", "0", "--shapes", "none.csv"), "none.csv"),
        (("profile", "x", "--designs", "none", "--networks", "0"), "nothing to measure"),
    ],
)
def test_mistakes_are_one_line(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = run(*words, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hetgym: error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not (folder / "measurements" / "x.csv.gz").exists()
