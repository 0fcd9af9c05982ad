"""Training by PPO: it learns, it is reproducible, and a kill in the middle of it changes nothing."""

from __future__ import annotations

import json
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

from hetgym._input.config import read  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.network_policy import NetworkPolicy, load_policy  # noqa: E402
from hetgym.agents.networks import ActorCritic  # noqa: E402
from hetgym.agents.recipe import Recipe, load_recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.agents.sb3 import load_model  # noqa: E402
from hetgym.cli.options import Output  # noqa: E402
from hetgym.cli.train import run  # noqa: E402
from hetgym.envs.sb3 import make_vec_env  # noqa: E402
from hetgym.errors import ArtefactError, ConfigError, UnknownName  # noqa: E402

SMALL = """
algorithm: {algorithm}
env: {env}
arguments: {{observation: {level}{more}}}
lanes: 4
steps: {steps}
checkpoint_every: 128
network: {{hidden: 8, embedding: 8, layers: 1}}
settings: {{n_steps: 16, batch_size: 32, n_epochs: 2, learning_rate: 3.0e-3, anneal_lr: true}}
evaluation: {{every: 128, episodes: 4, baselines: [uniform, reference]}}
"""


def recipe(
    folder: Path,
    algorithm: str = "maskable-ppo",
    env: str = "HetSchedule-v0",
    level: str = "candidates",
    more: str = ", generator: {operators: [5, 8], devices: 3}",
    steps: int = 512,
) -> Path:
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


@pytest.mark.slow
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
    order = ["step", "return", "return_error", "ratio_uniform", "ratio_reference"]
    assert all(list(entry) == order for entry in again.history)


@pytest.mark.parametrize(
    ("algorithm", "env", "level", "more"),
    [
        ("ppo", "HetSchedule-v0", "graph", ", generator: {operators: [5, 8], devices: 3}"),
        pytest.param(
            "maskable-ppo",
            "HetDispatch-v0",
            "candidates",
            ", noise: 0.1, jobs: 2, completion: eft",
            marks=pytest.mark.slow,
        ),
        ("maskable-ppo", "HetPipeline-v0", "graph", ""),
        pytest.param("maskable-ppo", "HetSplit-v0", "candidates", ", key_operators: 4", marks=pytest.mark.slow),
    ],
)
def test_same_seed_same_weights_in_one_go_or_two(
    algorithm: str, env: str, level: str, more: str, tmp_path: Path
) -> None:
    path = recipe(tmp_path, algorithm, env, level, more, steps=192)
    for name in ("one", "two"):
        TrainingRun(load_recipe(path), tmp_path / name).train()
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert same(one, two) and all(value.isfinite().all() for value in one.values())
    TrainingRun(load_recipe(path, seed=1), tmp_path / "three").train()
    assert not same(one, weights(tmp_path / "three"))


LEARNING: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "HetSchedule-v0",
    "arguments": {"observation": "candidates", "completion": "off"},
    "lanes": 32,
    "steps": 12_288,
    "network": {"hidden": 32},
    "settings": {"learning_rate": 2e-3, "n_steps": 32, "batch_size": 256, "n_epochs": 4},
    "evaluation": {"every": 100_000, "baselines": ["uniform"]},
}


@pytest.mark.slow
def test_plain_ppo_learns_what_no_untrained_policy_does(tmp_path: Path) -> None:
    """From a uniform policy, with 4 times HEFT's makespan, to HEFT's makespan, from rewards alone."""
    run = TrainingRun(read(Recipe, LEARNING, "here"), tmp_path)
    run.train()
    before, after = run.history
    assert before["ratio_uniform"] > 0.9 and after["ratio_uniform"] < 0.4
    assert before["return"] < -2 and after["return"] > -0.06
    for seed in range(20):
        torch.manual_seed(seed)
        untrained = ActorCritic("place", "candidates", run.recipe.network)
        with torch.no_grad():
            untrained.actor.rule.normal_()
            untrained.actor.score.weight.normal_()
        assert run.evaluator.judge(NetworkPolicy(untrained).decide)["return"] < after["return"] - 0.1


def test_a_run_begins_as_the_rule_that_its_recipe_gives(tmp_path: Path) -> None:
    path = recipe(tmp_path, steps=64)
    evaluation = {"episodes": 8, "baselines": ["reference", "greedy:finish"]}
    ruled = load_recipe(path, rule={"finish": 100.0}, evaluation=evaluation)
    run = TrainingRun(ruled, tmp_path / "ruled")
    run.train()
    assert run.history[0]["ratio_greedy:finish"] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(UnknownName, match="did you mean 'finish'"):
        TrainingRun(load_recipe(path, rule={"finsh": 1.0}), tmp_path / "other").train()


def test_trained_small_run_large(tmp_path: Path) -> None:
    """A policy can continue in Stable-Baselines3 at another padding, and a recipe can start from it."""
    run = TrainingRun(load_recipe(recipe(tmp_path, steps=64)), tmp_path / "small")
    network = run.train()
    policy = load_policy(tmp_path / "small" / "policy.safetensors")
    envs = make_vec_env("HetSchedule-v0", 2, seed=9, observation="candidates", max_devices=6)
    model = load_model(tmp_path / "small" / "policy.safetensors", envs, n_steps=8, batch_size=16)
    seen = envs.reset()
    for _ in range(5):
        chosen, _ = model.predict(seen, deterministic=True, action_masks=envs.action_masks())
        assert chosen.tolist() == policy.decide(seen).tolist()
        seen, *_ = envs.step(chosen)
    assert model.predict(seen)[0].shape == (2,)
    model.learn(16)
    plain = load_model(tmp_path / "small" / "policy.safetensors", envs, "ppo")
    masks = [envs.action_masks()[:, action] for action in plain.predict(seen, deterministic=False)[0]]
    assert all(mask.any() for mask in masks)
    for name, weight in policy.network.state_dict().items():
        assert torch.equal(weight, network.state_dict()[name])
    start = str(tmp_path / "small" / "policy.safetensors")
    TrainingRun(load_recipe(tmp_path / "recipe.yaml", start=start, steps=1), tmp_path / "next").train()
    with pytest.raises(ConfigError, match="start: .* the recipe asks for"):
        other = load_recipe(tmp_path / "recipe.yaml", start=start, network={"hidden": 4})
        TrainingRun(other, tmp_path / "other").train()


def test_in_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = load_recipe(recipe(tmp_path, steps=128))
    assert run([made], Output(tmp_path, "run")) == 0
    printed = capsys.readouterr()
    assert "policy.safetensors" in printed.out and "steps/s" in printed.err
    first = weights(tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [entry["step"] for entry in results["history"]] == [0, 128] and results["beaten"] == {}
    assert list((tmp_path / "run" / "curves").glob("events.out.tfevents.*"))
    assert run([made], Output(tmp_path, "run", as_json=True)) == 0  # nothing is left to do
    printed = capsys.readouterr()
    again = json.loads(printed.out)
    for name in ("seconds", "core_seconds"):
        assert again.pop(name) > 0 and results.pop(name) > 0  # this process's are added
    assert again == results and "resuming at step 128 of 128" in printed.err
    assert same(first, weights(tmp_path / "run"))
    longer = load_recipe(tmp_path / "recipe.yaml", steps=256)
    with pytest.raises(ConfigError, match="steps=128; this run asks for 256; choose another --name"):
        run([longer], Output(tmp_path, "run"))
    impossible = {"episodes": 4, "baselines": ["greedy:finish"], "must_beat": ["greedy:finish"]}
    strict = load_recipe(tmp_path / "recipe.yaml", steps=64, evaluation=impossible)
    assert run([strict], Output(tmp_path, "run", force=True)) == 1
    assert "failed: greedy:finish is not beaten" in capsys.readouterr().err
    for name in ("", "..", "a/b"):
        with pytest.raises(ConfigError, match="a run's name must be a single word"):
            run([made], Output(tmp_path, name))


def test_bad_recipes_and_checkpoints(tmp_path: Path) -> None:
    path = recipe(tmp_path, steps=128)
    odd = load_recipe(path, settings={"n_steps": 16, "batch_size": 48})
    with pytest.raises(ConfigError, match="= 64 steps, which is not a multiple of batch_size 48"):
        TrainingRun(odd, tmp_path / "odd").train()
    flat = load_recipe(path, arguments={"observation": "flat"})
    with pytest.raises(ConfigError, match="observation='graph' or 'candidates'"):
        TrainingRun(flat, tmp_path / "flat").train()
    TrainingRun(load_recipe(path), tmp_path / "run").train()
    kept = tmp_path / "run" / "checkpoint.safetensors"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:100])
    with pytest.raises(ArtefactError, match="checkpoint.safetensors: not a readable"):
        TrainingRun(load_recipe(path), tmp_path / "run")
    kept.write_bytes(whole)
    found = Checkpoint.load(kept)
    Checkpoint(found.step, found.tensors, {**found.state, "lanes": found.state["lanes"][:2]}).save(kept)
    with pytest.raises(ArtefactError, match="belongs to another recipe .2 states for 4 lanes"):
        TrainingRun(load_recipe(path), tmp_path / "run").train()
