"""``hetgym validate`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from cli.commands import run
from execution.small import CORES, diamond

from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.graph.serialization import to_json

DEVICES = f"cpu{CORES[0]}:full,cpu{CORES[-1]}:avx2"
EASY = ("--devices", DEVICES, "--placements", "3", "--rounds", "2", "--calibration-rounds", "2", "--limit", "inf")


def test_it_prints_a_table_and_writes_a_folder(tmp_path: Path) -> None:
    to_json(diamond(48, 4), tmp_path / "small.json")
    done = run("validate", "--models", "small.json", *EASY, "--name", "one", cwd=tmp_path)
    folder = tmp_path / "results" / "one"
    found = json.loads((folder / "validation.json").read_text())
    assert done.returncode == (0 if found["passed"]["calibrated"] else 1), done.stderr
    assert "diamond" in done.stdout and "tau" in done.stdout and "results/one" in done.stdout
    assert {path.name for path in folder.iterdir()} == {
        "validation.json",
        "diamond.predictions.json",
        "diamond.trace.json",
    }
    assert found["overall"]["calibrated"]["n"] == 3
    trace = json.loads((folder / "diamond.trace.json").read_text())
    assert {event["pid"] for event in trace["traceEvents"]} == {0, 1, 2, 3}
    again = run("validate", "--models", "small.json", *EASY, "--name", "one", cwd=tmp_path)
    assert again.returncode == 2 and "earlier run" in again.stderr


def test_bad_words_are_one_line(tmp_path: Path) -> None:
    for words, reason in (
        (("--models", "alexnt"), "alexnet"),
        (("--devices", "cpu0:full"), "two devices"),
        (("--devices", "cpu0:full,tpu1"), "tpu1"),
        (("--costs", "nowhere"), "nowhere"),
    ):
        done = run("validate", "--models", "squeezenet", *words, cwd=tmp_path)
        assert done.returncode == 2 and reason in done.stderr, (words, done.stderr)
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_a_model_that_cannot_run_does_not_stop_the_others(tmp_path: Path) -> None:
    x = Tensor((4,))
    odd = DataflowGraph([Operator("a", "Relu", (x,), (x,)), Operator("b", "Riddle", (x,), (x,))], [(0, 0, 1)], "odd")
    to_json(odd, tmp_path / "odd.json")
    to_json(diamond(48, 4), tmp_path / "small.json")
    done = run("validate", "--models", "odd.json,small.json", *EASY, "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert "Riddle" in done.stderr and "Riddle" in found["models"][0]["status"]
    assert found["models"][1]["status"] == "done"
