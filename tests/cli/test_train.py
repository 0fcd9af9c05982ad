"""``hetgym train`` as a user meets it; runs that train are tested with their trainers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli.commands import ask, run

import hetgym
from hetgym import _progress


def test_train_refuses_in_one_line(tmp_path: Path) -> None:
    done = run("train", "maskable-ppo-shedule", cwd=tmp_path)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr.startswith("hetgym: error: unknown recipe 'maskable-ppo-shedule'; did you mean 'maskable-ppo-")
    assert done.stderr.count("\n") == 1


def test_workers_are_refused_before_a_cluster_starts(tmp_path: Path) -> None:
    done = ask("train", "split-v2", "--ray", "nowhere:1", cwd=tmp_path)
    assert done.returncode == 2 and "split-outcomes trains in one process, without --ray" in done.stderr


QUIET = """
algorithm: maskable-ppo
env: HetSchedule-v0
arguments: {observation: candidates, completion: "off", generator: {operators: [5, 8], devices: 3}}
lanes: 4
threads: 3
steps: 64
network: {hidden: 8, embedding: 8, layers: 1}
settings: {n_steps: 16, batch_size: 32, n_epochs: 1}
evaluation: {episodes: 4, baselines: [reference]}
"""


def test_training_says_how_far_it_has_come_and_keeps_to_the_threads_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("sb3_contrib")
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)  # before the run is ready, however fast that is
    monkeypatch.setattr(_progress, "EVERY", 0.01)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (tmp_path / "quiet.yaml").write_text(QUIET)
        done = ask("train", "quiet.yaml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    lines = [line for line in done.stderr.splitlines() if line.startswith("hetgym: quiet-s0: ")]
    assert "beginning" in lines[0] and any(": step 0 of 64" in line for line in lines)
    (curves,) = (tmp_path / "results" / "quiet-s0" / "curves").iterdir()
    assert b"rollout/illegal_share" in curves.read_bytes()


def test_seeds_are_runs_of_their_own_and_end_in_means_with_intervals(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    (tmp_path / "quiet.yaml").write_text(QUIET)
    done = ask("train", "quiet.yaml", "--seeds", "2-3,7", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    folders = [tmp_path / "results" / f"quiet-s{seed}" for seed in (2, 3, 7)]
    alone = [json.loads((folder / "results.json").read_text()) for folder in folders]
    assert found == json.loads((tmp_path / "results" / "quiet-seeds.json").read_text())
    assert found["seeds"] == [run["recipe"]["seed"] for run in alone] == [2, 3, 7]
    assert [entry["step"] for entry in found["history"]] == [entry["step"] for entry in alone[0]["history"]]
    ends = [run["final"]["ratio_reference"] for run in alone]
    last = found["history"][-1]["ratio_reference"]
    assert last["mean"] == pytest.approx(sum(ends) / 3) and min(ends) <= last["low"] <= last["high"] <= max(ends)
    policies = [(folder / "policy.safetensors").read_bytes() for folder in folders]
    again = ask("train", "quiet.yaml", "--seeds", "2-3", cwd=tmp_path)
    assert again.returncode == 0 and "means over 2 seeds" in again.stdout and "[" in again.stdout
    assert again.stderr.count("resuming at step 64 of 64") == 2  # nothing is left to train
    assert [(folder / "policy.safetensors").read_bytes() for folder in folders] == policies


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["x"], "write numbers and ranges"),
        (["4-2"], "a range goes upwards"),
        (["0-5000"], "at most 1000 seeds"),
        (["1,1"], "occurs twice"),
        (["0-1", "--seed", "1"], "either --seed or --seeds"),
    ],
)
def test_seeds_that_cannot_be(options: list[str], why: str, tmp_path: Path) -> None:
    done = ask("train", "maskable-ppo-schedule", "--seeds", *options, cwd=tmp_path)
    assert done.returncode == 2 and why in done.stderr and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_no_code_asks_for_more_threads_than_the_environment_allows() -> None:
    """Calls set one thread, restore a number, or respect the limit; the profiler runs on cores that the user names."""
    package = Path(hetgym.__file__).parent
    found = {
        f"{path.name}: {call}"
        for room in (package, package / "agents", package / "baselines")
        for path in room.rglob("*.py")
        for call in re.findall(r"set_num_threads\((.+)\)$", path.read_text("utf-8"), re.MULTILINE)
    }
    allowed = {"1", "threads", "min(recipe.threads, cores())"}
    assert {one for one in found if one.partition(": ")[2] not in allowed} == {"host.py: len(self.cores)"}
