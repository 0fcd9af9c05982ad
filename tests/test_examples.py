"""The scripts in examples/ run, with short settings."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    "random_agent.py": (["--episodes", "1"], [], "HetCluster-v0"),
    "maskable_ppo.py": (["--steps", "4096"], ["torch", "sb3_contrib"], "return after"),
    "rllib_ppo.py": (["--iterations", "1", "--runners", "0"], ["tree", "ray.rllib"], "return after"),
    "torchrl_ppo.py": (["--steps", "2048"], ["torchrl"], "return after"),
    "tianshou_dqn.py": (["--steps", "512"], ["tianshou.algorithm"], "return after"),
    "pufferlib_ppo.py": (["--steps", "4096"], ["pufferlib._C", "pyro"], "return after"),
    "minari_dataset.py": (["own/heft-v0", "--episodes", "2"], ["minari", "h5py"], "2 episodes"),
    "own_policy.py": (["--steps", "2048"], ["torch", "stable_baselines3"], "own-policy"),
    "own_scheduler.py": (["--schedulers", "mutation,heft"], [], "mutation"),
}
"""File -> arguments, modules that it needs, a word of its output."""

TRAINS = ("maskable_ppo.py", "own_policy.py")


def test_all_examples_are_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


PUFFER = {
    "__init__.py": """
import numpy as np
class PufferEnv:
    def __init__(self, buf=None):
        n, (features,) = self.num_agents, self.single_observation_space.shape
        self.observations, self.rewards = np.zeros((n, features), np.float32), np.zeros(n, np.float32)
        self.terminals, self.truncations = np.zeros(n, bool), np.zeros(n, bool)
""",
    "vector.py": "def make(kind, env_args, env_kwargs):\n    return kind(*env_args, **env_kwargs)\n",
    "pufferl.py": """
import threading, time
class Utilization(threading.Thread):
    stopped = False
    def run(self):
        while not self.stopped:
            time.sleep(0.01)
    def stop(self):
        self.stopped = True
class PuffeRL:
    global_step = 0
    def __init__(self, *_):
        self.utilization = Utilization()
        self.utilization.start()
    def evaluate(self):
        raise SystemExit("no training")
""",
}
"""What the script takes from PufferLib, whose trainer starts a thread that Python waits for."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in TRAINS else name for name in EXAMPLES]
)
def test_example_runs(name: str, tmp_path: Path) -> None:
    arguments, needs, word = EXAMPLES[name]
    for module in needs:
        pytest.importorskip(module)
    done = run(name, arguments, tmp_path)
    assert done.returncode == 0, done.stderr
    assert word in done.stdout


@pytest.mark.slow
def test_the_thread_of_pufferlib_ends_though_training_fails(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "pufferlib").mkdir()
    for name, text in PUFFER.items():
        (tmp_path / "pufferlib" / name).write_text(text)
    done = run("pufferlib_ppo.py", ["--steps", "1"], tmp_path, str(tmp_path), timeout=100)
    assert done.returncode == 1 and done.stderr.endswith("no training\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["own/heft"], "is not a name of a dataset: it ends in a version"),
        (["own/../../x-v0"], "is not a name of a dataset"),
        (["/x-v0"], "is not a name of a dataset"),
        (["a/x-v0"], "is not a name of a dataset"),
        (["own/x-v0", "--out", "file"], "file: cannot be written"),
        (["own/x-v0", "--out", "file/datasets"], "cannot be written (Not a directory)"),
        (["file/x-v0", "--out", "."], "file: cannot be written (Not a directory)"),
        (["own/there-v0", "--out", "."], "own/there-v0 exists already"),
        (["own/x-v0", "--episodes", "0"], "at least one episode"),
        (["own/x-v0", "--seed", "-1"], "seeds from 0 on"),
    ],
)
def test_a_dataset_that_cannot_be_written_is_refused_before_episodes(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "own" / "there-v0").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["minari_dataset.py", *words])
    with pytest.raises(SystemExit, match="^2$"):
        runpy.run_path(str(ROOT / "examples" / "minari_dataset.py"), run_name="__main__")
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def run(
    name: str, arguments: list[str], folder: Path, *paths: str, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
