"""Environments under the libraries of others; each test runs where its library is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hetgym.envs.masked import MaskedObservation
from hetgym.errors import ConfigError, UnknownName

pytestmark = pytest.mark.filterwarnings("ignore")  # of these libraries

SMALL: dict[str, Any] = {"observation": "flat", "completion": "off"}


def test_masks_beside_observations() -> None:
    env = MaskedObservation(gym.make("HetSchedule-v0", **SMALL))
    plain = gym.make("HetSchedule-v0", **SMALL)
    (seen, info), (known, _), over = env.reset(seed=1), plain.reset(seed=1), False
    while not over:
        assert env.observation_space.contains(seen)
        assert (seen["obs"] == known).all() and seen["mask"].tolist() == info["action_mask"].tolist()
        action = int(np.flatnonzero(seen["mask"])[-1])
        seen, reward, over, _, info = env.step(action)
        known, expected, *_ = plain.step(action)
        assert reward == expected
    assert gym.make(env.spec).observation_space == env.observation_space
    other = MaskedObservation(gym.make("HetSchedule-v0", **SMALL), keys=("observations", "action_mask"))
    seen, info = gym.make(other.spec).reset(seed=1)
    assert other.observation_space.contains(seen)
    assert (seen["observations"] == plain.reset(seed=1)[0]).all() and (seen["action_mask"] == info["action_mask"]).all()
    with pytest.raises(ConfigError, match="only hetgym's environments have masks"):
        MaskedObservation(gym.make("CartPole-v1"))


def test_pufferlib_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # PufferLib makes a link where it is imported
    pytest.importorskip("pufferlib")
    pytest.importorskip("stable_baselines3")
    import pufferlib.emulation
    import pufferlib.vector

    from hetgym.envs.puffer import LanePufferEnv
    from hetgym.envs.sb3 import make_vec_env

    env = pufferlib.vector.make(LanePufferEnv, env_args=["HetSchedule-v0", 3], env_kwargs={"completion": "off"})
    known = make_vec_env("HetSchedule-v0", 3, seed=5, **SMALL)
    observations, infos = env.reset(5)
    expected, actions = known.reset(), int(env.single_action_space.n)
    assert infos == [] and observations.shape == (3, *env.single_observation_space.shape)
    ended = 0
    for _ in range(120):
        assert (observations[:, :-actions] == expected).all()
        assert (observations[:, -actions:] == known.action_masks()).all()
        assert env.observation_space.contains(observations)
        chosen = observations[:, -actions:].argmax(axis=1)
        observations, rewards, terminals, truncations, infos = env.step(chosen)
        expected, known_rewards, dones, known_infos = known.step(chosen)
        assert (rewards == known_rewards).all() and (terminals == dones).all() and not truncations.any()
        for lane, info in zip(np.flatnonzero(dones), infos, strict=True):
            assert info["episode_return"] == known_infos[lane]["episode"]["r"]
            assert info["makespan"] == known_infos[lane]["makespan"]
        ended += len(infos)
    assert ended > 0
    env.close()

    with pytest.raises(UnknownName, match="HetSchedule-v0"):
        LanePufferEnv("HetSchedul-v0")
    for level in ("graph", "candidates"):
        with pytest.raises(ConfigError, match="flat"):
            LanePufferEnv("HetSchedule-v0", 2, observation=level)
    with pytest.raises(ConfigError, match="call reset"):
        LanePufferEnv("HetSchedule-v0", 2, completion="off").step([0, 0])

    emulated = pufferlib.emulation.GymnasiumPufferEnv(gym.make("HetSchedule-v0", completion="off"))
    scalar = gym.make("HetSchedule-v0", completion="off")
    seen, _ = emulated.reset(seed=2)
    read = pufferlib.emulation.nativize(seen[0], emulated.env.observation_space, emulated.obs_dtype)
    assert all((read[key] == part).all() for key, part in scalar.reset(seed=2)[0].items())


def test_without_pufferlib_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetgym.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "pufferlib", None)
    monkeypatch.delitem(sys.modules, "hetgym.envs.puffer", raising=False)
    with pytest.raises(MissingExtra, match="need pufferlib 3"):
        __import__("hetgym.envs.puffer")


def test_minari_datasets_of_experts(tmp_path: Path) -> None:
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    script = Path(__file__).parents[2] / "examples" / "minari_dataset.py"

    def run(*arguments: str) -> Any:
        return subprocess.run([sys.executable, str(script), *arguments], cwd=tmp_path, capture_output=True, text=True)

    for name in ("a", "b"):
        done = run(f"own/{name}-v0", "--expert", "heft", "--episodes", "2", "--out", name)
        assert done.returncode == 0, done.stderr
        assert "2 episodes" in done.stdout and "mean return +0.0000" in done.stdout  # HEFT is the reference
    assert run("own/p-v0", "--expert", "place-v1", "--episodes", "1", "--observation", "candidates").returncode == 0
    reading = (
        "import minari, numpy as np, hetgym; from minari import MinariDataset as D\n"
        "a, b, p = (D(f'{f}/data') for f in ('a/own/a-v0', 'b/own/b-v0', 'datasets/own/p-v0'))\n"
        "for one, two in zip(a.iterate_episodes(), b.iterate_episodes(), strict=True):\n"
        "    assert (one.actions == two.actions).all() and (one.rewards == two.rewards).all()\n"
        "    legal = one.observations['action_mask'][:-1]\n"
        "    assert legal[np.arange(len(one.actions)), one.actions].all()\n"
        "    assert all((part == two.observations[key]).all() for key, part in one.observations.items())\n"
        "env = a.recover_environment()\n"
        "assert env.reset(seed=0)[0]['action_mask'].shape == one.observations['action_mask'].shape[1:]\n"
        "print(a.total_episodes, p.total_episodes)\n"
    )
    done = subprocess.run([sys.executable, "-c", reading], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "1"]
    for arguments, words in (
        (["--expert", "hetf"], "unknown policy 'hetf'"),
        (["--episodes", "0"], "at least one episode"),
        (["--out", "a"], "exists already"),
    ):
        name = "own/a-v0" if "--out" in arguments else "own/c-v0"
        refused = run(name, *arguments)
        assert refused.returncode != 0 and words in refused.stderr and "Traceback" not in refused.stderr
