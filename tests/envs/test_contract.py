"""The contract of every registered environment."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.utils.env_checker import check_env as gym_check

import hetgym
from hetgym.envs import ENVIRONMENTS
from hetgym.envs.core import kinds
from hetgym.envs.core.arguments import VectorArguments

IDS = sorted(ENVIRONMENTS)

# Stable-Baselines3 warns that a 2-D Box is not an image and has no default network; hetgym's policies bring one.
HARMLESS = (
    r".*unconventional shape \(neither an image, nor a 1D vector\).*",
    r".*Your observation .* has an unconventional shape.*",
)


def play(env: gym.Env, rng: np.random.Generator) -> list[tuple[dict, float, bool, dict]]:
    """Random legal actions to the end of the running episode."""
    steps, done = [], False
    mask = env.unwrapped.action_masks()
    while not done:
        obs, reward, done, _, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        mask = info["action_mask"]
        steps.append((obs, reward, done, info))
    return steps


def same(a: object, b: object) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, hetgym.Schedule):
        return isinstance(b, hetgym.Schedule) and a.to_dict() == b.to_dict()
    if isinstance(a, hetgym.Problem):
        return isinstance(b, hetgym.Problem) and a.id == b.id
    if isinstance(a, hetgym.Trace):
        names = "assignment", "start", "finish", "sent", "arrived"
        return isinstance(b, hetgym.Trace) and all(same(getattr(a, name), getattr(b, name)) for name in names)
    return a == b


def test_each_id_has_a_kind() -> None:
    assert list(kinds.IDS.values()) == list(ENVIRONMENTS)
    for kind, name in kinds.IDS.items():
        lanes = gym.make(name, observation="candidates").unwrapped.lanes
        assert (type(lanes).kind, lanes.env_id, lanes.observation_space.kind) == (kind, name, kind)
        assert lanes.observation_space.level == "candidates"
        assert ENVIRONMENTS[name].env == f"hetgym.envs.{kind}.env:{name.removesuffix('-v0')}Env"


@pytest.mark.parametrize("name", IDS)
def test_vector_environments_have_a_manual(name: str) -> None:
    vector = load_env_creator(gym.spec(name).vector_entry_point)
    text, scalar = inspect.getdoc(vector), ENVIRONMENTS[name].env.partition(":")[2]
    assert text.startswith(f"Many episodes of :class:`{scalar}`") and f"are those of :class:`{scalar}`." in text
    assert all(f"\n    {field.name}: " in text for field in dataclasses.fields(VectorArguments))


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_checker_is_silent(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym_check(gym.make(name, disable_env_checker=True).unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_stable_baselines3_checker_is_silent(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised by its dependencies at import
        checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in HARMLESS:
            warnings.filterwarnings("ignore", message)
        checker.check_env(gym.make(name).unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_spec_survives_json(name: str) -> None:
    env = gym.make(name, reward="sparse")
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.spec.kwargs == {"reward": "sparse"}
    assert same(env.reset(seed=1)[0], again.reset(seed=1)[0])


@pytest.mark.parametrize("name", IDS)
def test_same_seed_same_episode_interleaved(name: str) -> None:
    one, two = gym.make(name), gym.make(name)
    assert same(one.reset(seed=7)[0], two.reset(seed=7)[0])
    a, b = np.random.default_rng(1), np.random.default_rng(1)
    assert all(same(x, y) for x, y in zip(play(one, a), play(two, b), strict=True))
    assert same(one.reset()[0], two.reset()[0])  # the generators went the same way


EPISODES = """
import gymnasium as gym, hashlib, numpy as np

def episodes(names):
    for name in names:
        env, digest = gym.make("hetgym:" + name), hashlib.sha256()
        for seed in (11, None):
            obs, info = env.reset(seed=seed)
            digest.update(info["problem"].encode())
            rng, done = np.random.default_rng(5), False
            while not done:
                action = int(rng.choice(np.flatnonzero(obs["action_mask"])))
                obs, reward, done, _, info = env.step(action)
                digest.update(np.float64(reward).tobytes())
                for key in sorted(obs):
                    digest.update(obs[key].tobytes())
        yield f"{name} {digest.hexdigest()}"
"""


def test_same_seed_same_episodes_in_another_process_that_imports_no_hetgym() -> None:
    script = f"{EPISODES}\nimport sys\nprint(*episodes(sys.argv[1:]), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script, *IDS],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "4242", "PATH": ""},
    )
    here: dict[str, Any] = {}
    exec(EPISODES, here)
    first, second = done.stdout.splitlines(), list(here["episodes"](IDS))
    assert first == second
    assert [line.split()[0] for line in first] == list(IDS) and len({line.split()[1] for line in first}) == len(IDS)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize(
    "clone",
    [
        pytest.param(copy.deepcopy, id="copy", marks=pytest.mark.slow),
        pytest.param(lambda env: pickle.loads(pickle.dumps(env)), id="pickle"),
    ],
)
def test_a_copy_in_mid_episode_goes_on_alike(name: str, clone) -> None:
    env = gym.make(name)
    obs, info = env.reset(seed=2)
    for _ in range(5):
        obs, _, _, _, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
    twin = clone(env)
    assert name == "HetCluster-v0" or not twin.unwrapped.problem.cost.flags.writeable
    a, b = np.random.default_rng(3), np.random.default_rng(3)
    assert all(same(x, y) for x, y in zip(play(env, a), play(twin, b), strict=True))


@pytest.mark.parametrize("name", IDS)
def test_observations_stay_inside_and_are_not_shared(name: str) -> None:
    env = gym.make(name)
    obs, info = env.reset(seed=4)
    rng, done = np.random.default_rng(4), False
    while not done:
        assert env.observation_space.contains(obs)
        assert info["action_mask"].any()
        assert np.array_equal(info["action_mask"], obs["action_mask"].astype(bool))
        assert np.array_equal(info["action_mask"], env.unwrapped.action_masks())
        kept = {key: value.copy() for key, value in obs.items()}
        following, _, done, _, info = env.step(int(rng.choice(np.flatnonzero(obs["action_mask"]))))
        assert same(kept, obs)  # the step left the earlier observation alone
        for value in obs.values():
            value[...] = 0  # and spoiling it must not reach the environment
        obs = following
    assert env.observation_space.contains(obs)


PRICED_BY = {"HetPipeline-v0": [{"objective": "latency"}, {"objective": "training"}], "HetCluster-v0": [{}, {}]}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("runtime", ["classic", "links"])
@pytest.mark.parametrize("reward", ["dense", "sparse"])
def test_return_is_one_minus_makespan_over_reference(name: str, runtime: str, reward: str) -> None:
    arguments = PRICED_BY[name][runtime == "links"] if name in PRICED_BY else {"runtime": runtime}
    env = gym.make(name, reward=reward, **arguments)
    for seed in range(5):
        env.reset(seed=seed)
        steps = play(env, np.random.default_rng(seed))
        info = steps[-1][3]
        total = sum(step[1] for step in steps)
        least = -1.0 if name == "HetCluster-v0" else -np.inf
        assert total == pytest.approx(max(least, 1 - info["makespan"] / info["reference"]), abs=1e-9)
        assert total == pytest.approx(sum(info["reward_terms"].values()), abs=1e-9)
        if reward == "sparse":
            assert all(step[1] == 0 for step in steps[:-1])


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("mode", ["ansi", "rgb_array", "human"])
def test_renders_without_a_display(name: str, mode: str, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    env = gym.make(name, render_mode=mode)
    env.reset(seed=0)
    shapes = set()
    for _ in range(3):
        env.step(0)
        frame = env.render()
        if mode == "rgb_array":
            assert frame.dtype == np.uint8 and len(np.unique(frame)) > 10
            shapes.add(frame.shape)
        elif mode == "ansi":
            assert any(word in frame for word in ("placed", "started", "steps left"))
        else:
            assert frame is None
    if mode == "rgb_array":
        assert shapes == {(540, 960, 3)}
    if mode == "human":
        printed = capsys.readouterr().out
        assert sum(map(printed.count, ("placed", "started", "steps left"))) >= 4


@pytest.mark.parametrize("name", IDS)
def test_steps_without_an_episode_are_refused(name: str) -> None:
    env = gym.make(name).unwrapped
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded):
        env.action_masks()
    env.reset(seed=0)
    play(env, np.random.default_rng(0))
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("name", IDS)
def test_spec_json_is_plain(name: str) -> None:
    assert json.loads(gym.make(name).spec.to_json())["id"] == name


def test_registering_again_changes_nothing() -> None:
    from hetgym.envs import register

    before = {name: gym.registry[name] for name in IDS}
    register()
    assert all(gym.registry[name] is before[name] for name in IDS)


@pytest.mark.parametrize("name", IDS)
def test_wrappers_that_people_use(name: str) -> None:
    flat = gym.wrappers.FlattenObservation(gym.make(name))
    obs, info = flat.reset(seed=0)
    assert flat.observation_space.contains(obs) and obs.ndim == 1
    obs, *_ = flat.step(int(info["action_mask"].argmax()))
    assert flat.observation_space.contains(obs)
    frames = gym.wrappers.RenderCollection(gym.make(name, render_mode="rgb_array"))
    _, info = frames.reset(seed=0)
    frames.step(int(info["action_mask"].argmax()))
    pictures = frames.render()
    assert len(pictures) == 2 and all(picture.dtype == np.uint8 and picture.ndim == 3 for picture in pictures)
    counted = gym.wrappers.RecordEpisodeStatistics(gym.make(name))
    _, info = counted.reset(seed=0)
    steps = play(counted, np.random.default_rng(0))
    returns = sum(reward for _, reward, *_ in steps)
    assert steps[-1][3]["episode"]["r"] == pytest.approx(returns, abs=1e-6)


@pytest.mark.parametrize("name", IDS)
def test_videos_are_recorded(name: str, tmp_path) -> None:
    pytest.importorskip("moviepy")
    env = gym.wrappers.RecordVideo(
        gym.make(name, render_mode="rgb_array"), str(tmp_path / "videos"), disable_logger=True
    )
    env.reset(seed=0)
    play(env, np.random.default_rng(0))
    env.close()
    assert list(tmp_path.glob("videos/*.mp4"))
