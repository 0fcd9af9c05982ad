"""Training by PPO: it learns, it is the same again, and a kill in the midst of it changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("tensorboard")

from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.recipe import load_recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402

SMALL = """
algorithm: {algorithm}
env: {env}
arguments: {{observation: {level}{more}}}
lanes: 4
steps: {steps}
checkpoint_every: 128
network: {{hidden: 8, embedding: 8, layers: 1}}
settings: {{n_steps: 16, batch_size: 32, n_epochs: 2, learning_rate: 3.0e-3, anneal_lr: true}}
evaluation: {{every: 128, episodes: 4, baselines: [reference, uniform]}}
"""


def recipe(
    folder: Path, algorithm: str = "maskable-ppo", env: str = "HetSchedule-v0", level: str = "candidates",
    more: str = ", generator: {operators: [5, 8], devices: 3}", steps: int = 512,
) -> Path:  # fmt: skip
    path = folder / "recipe.yaml"
    path.write_text(SMALL.format(algorithm=algorithm, env=env, level=level, more=more, steps=steps))
    return path


def weights(folder: Path) -> dict[str, Any]:
    return Checkpoint.load(folder / "checkpoint.safetensors").tensors  # type: ignore[return-value]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# A real process that is killed at a step of its lanes, in the midst of a roll-out.
DOOMED = """
import os, signal, sys
from hetgym.envs.sb3 import LaneVecEnv
steps, last, step = 0, int(sys.argv.pop()), LaneVecEnv.step_wait
def step_wait(self):
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self)
LaneVecEnv.step_wait = step_wait
from hetgym.cli import main
main()
"""


def test_a_killed_run_ends_with_the_weights_of_an_undisturbed_one(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    TrainingRun(load_recipe(path), tmp_path / "whole").train()
    words = ["train", str(path), "--out", str(tmp_path), "--name", "killed", "75"]
    killed = subprocess.run([sys.executable, "-c", DOOMED, *words], env=os.environ, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    kept = Checkpoint.load(tmp_path / "killed" / "checkpoint.safetensors")
    assert kept.step == 256 and not (tmp_path / "killed" / "results.json").exists()
    assert any(lane["actions"] for lane in kept.state["lanes"])  # episodes were under way
    again = TrainingRun(load_recipe(path), tmp_path / "killed")
    again.train()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    whole = Checkpoint.load(tmp_path / "whole" / "checkpoint.safetensors")
    assert again.history == whole.state["history"] and len(again.history) == 5


@pytest.mark.parametrize(
    ("algorithm", "env", "level", "more"),
    [
        ("ppo", "HetSchedule-v0", "graph", ", generator: {operators: [5, 8], devices: 3}"),
        ("maskable-ppo", "HetSchedule-v0", "graph", ", mode: dispatch, noise: 0.1, jobs: 2, candidates: 3"),
        ("maskable-ppo", "HetPipeline-v0", "graph", ""),
        ("maskable-ppo", "HetSplit-v0", "candidates", ", key_operators: 4"),
    ],
)
def test_same_seed_same_weights_in_one_go_or_two(
    algorithm: str, env: str, level: str, more: str, tmp_path: Path
) -> None:  # fmt: skip
    path = recipe(tmp_path, algorithm, env, level, more, steps=192)
    for name in ("one", "two"):
        TrainingRun(load_recipe(path), tmp_path / name).train()
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert same(one, two) and all(value.isfinite().all() for value in one.values())
    TrainingRun(load_recipe(path, seed=1), tmp_path / "three").train()
    assert not same(one, weights(tmp_path / "three"))
