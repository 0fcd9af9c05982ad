"""``hetgym validate`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import ask, run
from execution.small import CORES, diamond
from execution.test_protocol import result_of

from hetgym.errors import ExecutionError
from hetgym.execution import protocol
from hetgym.graph import DataflowGraph
from hetgym.graph.serialization import to_json

DEVICES = f"cpu{CORES[0]}:full,cpu{CORES[-1]}:avx2"
EASY = ("--processors", DEVICES, "--placements", "3", "--rounds", "2", "--calibration-rounds", "2", "--limit", "inf")


@pytest.mark.slow
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
    again = ask("validate", "--models", "small.json", *EASY, "--name", "one", cwd=tmp_path)
    assert again.returncode == 2 and "earlier run" in again.stderr


def test_force_takes_the_name_of_a_run_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "validate_model", lambda *_: result_of(0.01, 0.95))
    to_json(diamond(), tmp_path / "small.json")
    words = ("validate", "--models", "small.json", *EASY, "--name", "one")
    folder = tmp_path / "results" / "one"
    folder.mkdir(parents=True)
    (folder / "other.predictions.json").write_text("{")
    refused = ask(*words, cwd=tmp_path)
    assert refused.returncode == 2 and "--force" in refused.stderr
    assert ask(*words, "--force", cwd=tmp_path).returncode == 0
    assert [path.name for path in folder.iterdir()] == ["validation.json"]


@pytest.mark.parametrize(("error", "code"), [(0.01, 0), (0.5, 1)])
def test_a_target_that_is_missed_gives_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float, code: int
) -> None:
    monkeypatch.setattr(protocol, "validate_model", lambda *_: result_of(error, 0.95))
    to_json(diamond(), tmp_path / "small.json")
    done = ask("validate", "--models", "small.json", *EASY, "--json", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["passed"] == {"calibrated": code == 0}


def test_a_model_that_cannot_run_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(graph: DataflowGraph, *_: object) -> protocol.ModelResult:
        if len(graph) == 4:
            raise ExecutionError("kind 'Riddle' has no kernel")
        return result_of(0.01, 0.95)

    monkeypatch.setattr(protocol, "validate_model", attempt)
    for name, depth in (("odd", 1), ("fine", 2)):
        to_json(diamond(depth=depth), tmp_path / f"{name}.json")
    done = ask("validate", "--models", "odd.json,fine.json", *EASY, "--json", cwd=tmp_path)
    assert done.returncode == 1 and "Riddle" in done.stderr
    failed, fine = json.loads(done.stdout)["models"]
    assert "Riddle" in failed["status"] and fine["status"] == "done"


def test_nothing_validated_gives_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(graph: DataflowGraph, *_: object) -> protocol.ModelResult:
        return protocol.ModelResult(graph.name, protocol.BUSY, len(graph), foreign=0.9)

    monkeypatch.setattr(protocol, "validate_model", busy)
    monkeypatch.chdir(tmp_path)
    to_json(diamond(48, 4), tmp_path / "small.json")
    done = ask("validate", "--models", "small.json", *EASY, "--name", "busy", cwd=tmp_path)
    assert done.returncode == 1 and "nothing was validated" in done.stderr, done.stderr


def test_bad_words_are_one_line(tmp_path: Path) -> None:
    for words, reason in (
        (("--models", "alexnt"), "alexnet"),
        (("--processors", "cpu0:full"), "two devices"),
        (("--processors", "cpu0:full,tpu1"), "tpu1"),
        (("--costs", "nowhere"), "nowhere"),
    ):
        done = ask("validate", "--models", "squeezenet", *words, cwd=tmp_path)
        assert done.returncode == 2 and reason in done.stderr, (words, done.stderr)
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
