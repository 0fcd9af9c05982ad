"""The scripts in examples/ run, with short settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    "random_agent.py": (["--episodes", "1"], [], "HetPipeline-v0"),
    "maskable_ppo.py": (["--steps", "4096"], ["torch", "sb3_contrib"], "return after"),
    "rllib_ppo.py": (["--iterations", "1", "--runners", "0"], ["tree", "ray.rllib"], "return after"),
    "torchrl_ppo.py": (["--steps", "2048"], ["torchrl"], "return after"),
    "tianshou_dqn.py": (["--steps", "512"], ["tianshou.algorithm"], "return after"),
    "pufferlib_ppo.py": (["--steps", "4096"], ["pufferlib._C", "pyro"], "return after"),
    "minari_dataset.py": (["own/heft-v0", "--episodes", "2"], ["minari", "h5py"], "2 episodes"),
    "own_scheduler.py": (["--schedulers", "mutation,heft"], [], "mutation"),
}
"""File -> arguments, modules that it needs, a word of its output."""


def test_all_examples_are_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name: str, tmp_path: Path) -> None:
    arguments, needs, word = EXAMPLES[name]
    for module in needs:
        pytest.importorskip(module)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert word in done.stdout
