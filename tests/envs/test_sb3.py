"""Native lanes under Stable-Baselines3: the same episodes, its conventions, and an agent that learns."""

from __future__ import annotations

import json
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("stable_baselines3")
    contrib = pytest.importorskip("sb3_contrib")
    from stable_baselines3.common.evaluation import evaluate_policy

from hetgym.envs.sb3 import make_vec_env  # noqa: E402
from hetgym.errors import ConfigError, UnknownName  # noqa: E402
from hetgym.workloads import textbook  # noqa: E402

IDS = ["HetSchedule-v0", "HetSplit-v0"]


@pytest.mark.parametrize("name", IDS)
def test_lanes_play_as_scalar_environments_do(name: str) -> None:
    envs = make_vec_env(name, 3, seed=5, pool=None)
    scalars = [gym.make(name) for _ in range(3)]
    seen = envs.reset()
    firsts = [env.reset(seed=5 + lane) for lane, env in enumerate(scalars)]
    rng, returns = np.random.default_rng(0), np.zeros(3)
    assert all(np.array_equal(seen[key][lane], obs[key]) for lane, (obs, _) in enumerate(firsts) for key in obs)
    ended = 0
    for _ in range(80 if name == "HetSplit-v0" else 200):
        masks = np.stack(envs.env_method("action_masks"))
        assert np.array_equal(masks, [env.unwrapped.action_masks() for env in scalars])
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        seen, rewards, dones, infos = envs.step(actions)
        for lane, env in enumerate(scalars):
            obs, reward, done, _, info = env.step(actions[lane])
            returns[lane] += reward
            assert rewards[lane] == np.float32(reward) and dones[lane] == done
            if done:
                ended += 1
                assert infos[lane]["makespan"] == info["makespan"]
                assert infos[lane]["episode"]["r"] == pytest.approx(returns[lane], abs=1e-6)
                assert infos[lane]["episode"]["illegal_share"] == info["illegal_share"]
                assert infos[lane]["TimeLimit.truncated"] is False
                last = infos[lane]["terminal_observation"]
                assert all(np.array_equal(last[key], obs[key]) for key in obs)
                obs, _ = env.reset()
                returns[lane] = 0.0
            assert all(np.array_equal(seen[key][lane], obs[key]) for key in obs)
    assert ended > 3


@pytest.mark.slow
def test_an_agent_learns_to_beat_chance() -> None:
    envs = make_vec_env("HetSchedule-v0", 8, seed=0, problem=textbook("topcuoglu"), observation="flat")
    model = contrib.MaskablePPO("MlpPolicy", envs, n_steps=40, batch_size=80, learning_rate=3e-3, seed=0, device="cpu")
    before, _ = evaluate_policy(model, envs, n_eval_episodes=16, deterministic=False)
    model.learn(8 * 40 * 12)
    after, _ = evaluate_policy(model, envs, n_eval_episodes=16, deterministic=True)
    assert after > before and after > -0.35


def test_manners() -> None:
    from stable_baselines3.common.monitor import Monitor

    with pytest.raises(UnknownName, match="environment"):
        make_vec_env("HetSchedule-v9")
    envs = make_vec_env("hetgym:HetSchedule-v0", 2, observation="candidates")
    with pytest.raises(ConfigError, match="reset"):
        envs.step(np.zeros(2, np.int64))
    envs.seed(3)
    first = envs.reset()
    envs.seed(3)
    assert np.array_equal(envs.reset()["candidates"], first["candidates"])
    assert envs.env_is_wrapped(Monitor) == [True, True]
    assert envs.get_attr("render_mode", 1) == [None]
    assert envs.get_attr("problem", [0])[0].num_devices == 4
    assert not envs.has_attr("colour") and envs.has_attr("action_masks")
    with pytest.raises(AttributeError, match="cannot be set"):
        envs.set_attr("reward", "sparse")
    assert envs.get_images()[0].shape == (540, 960, 3)
    pictured = make_vec_env("HetSchedule-v0", 2, render_mode="rgb_array", observation="candidates")
    pictured.reset()
    assert pictured.render().shape == (2 * 540, 960, 3) and pictured.metadata["render_fps"] > 0
    with pytest.raises(UnknownName, match="unknown render mode 'ansi'; known: rgb_array"):
        make_vec_env("HetSchedule-v0", render_mode="ansi")
    with pytest.raises(ConfigError, match="seed is 'x'; it must be a non-negative whole number, or None"):
        make_vec_env("HetSchedule-v0", seed="x")  # type: ignore[arg-type]
    envs.set_options({"problem": textbook("topcuoglu")})
    envs.reset()
    assert envs.get_attr("problem")[1].num_operators == 10


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("HetSchedule-v0", {"observation": "candidates"}),
        ("HetDispatch-v0", {"noise": 0.2, "jobs": 2, "losses": 1, "completion": "off"}),
        ("HetSplit-v0", {}),
        ("HetPipeline-v0", {}),
    ],
)
def test_lanes_go_on_where_their_state_was_kept(name: str, arguments: dict[str, Any]) -> None:
    def play(envs: Any, steps: int) -> list[Any]:
        rng, found = np.random.default_rng(1), []
        for _ in range(steps):
            masks = envs.action_masks()
            seen, rewards, dones, infos = envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
            found.append((seen, rewards, dones, [info.get("episode", {}).get("r") for info in infos]))
        return found

    envs = make_vec_env(name, 3, seed=4, **arguments)
    envs.reset()
    play(envs, 47)
    kept = json.loads(json.dumps(envs.state()))
    seen, whole = envs.episodes.seen(), play(envs, 90)
    again = make_vec_env(name, 3, **arguments)
    np.testing.assert_equal(again.restore(kept), seen)
    assert again.state() == kept
    np.testing.assert_equal(play(again, 90), whole)
    assert any(dones.any() for _, _, dones, _ in whole)


def test_states_that_are_none() -> None:
    envs = make_vec_env("HetSchedule-v0", 2, problem=textbook("topcuoglu"), observation="candidates")
    with pytest.raises(ConfigError, match="no state"):
        envs.state()
    envs.reset()
    kept = envs.state()
    with pytest.raises(ConfigError, match="1 states for 2 lanes"):
        envs.restore(kept[:1])
    with pytest.raises(ConfigError, match="another environment"):
        envs.restore([state | {"actions": [0] * 10} for state in kept])
    envs.set_options({"problem": textbook("topcuoglu")})
    envs.reset()
    with pytest.raises(ConfigError, match="begun with options"):
        envs.state()
