"""Losing a worker at any call does not change the result. One process stands in for Ray."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cluster_tools import place_labelling

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("torch_geometric")
pytest.importorskip("tensorboard")

from hetgym._input.config import read  # noqa: E402
from hetgym.agents.distributed.crew import RETRIES, Crew, RayCluster  # noqa: E402
from hetgym.agents.distributed.lanes import RayLanes  # noqa: E402
from hetgym.agents.recipe import Recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.envs.sb3 import LaneVecEnv, make_vec_env  # noqa: E402
from hetgym.errors import ClusterError, ConfigError  # noqa: E402

PPO: dict[str, Any] = {
    "algorithm": "maskable-ppo",
    "env": "HetSchedule-v0",
    "arguments": {"observation": "candidates", "generator": {"operators": [5, 8], "devices": 3}},
    "lanes": 5,
    "steps": 240,
    "checkpoint_every": 80,
    "network": {"hidden": 8, "embedding": 8, "layers": 1},
    "settings": {"n_steps": 16, "batch_size": 40, "n_epochs": 2, "learning_rate": 3e-3, "anneal_lr": True},
    "evaluation": {"every": 160, "episodes": 4, "baselines": ["reference", "uniform"]},
}
RECIPES = {"maskable-ppo": PPO, "place-labelling": place_labelling(4)}


class Lost(Exception):
    pass


class Raised(Lost):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Answer:
    """A value on its way between processes, or an error."""

    def __init__(self, value: Any, error: Exception | None = None) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self.data = pickle.dumps(value, 5, buffer_callback=buffers.append)
        self.buffers = [bytes(buffer) for buffer in buffers]  # arrays in them cannot be written to, as with Ray
        self.error = error

    def received(self) -> Any:
        if self.error:
            raise self.error
        return pickle.loads(self.data, buffers=self.buffers)


class Actor:
    def __init__(self, ray: OneProcess, made: Any) -> None:
        self.ray, self.made, self.dead = ray, made, False
        self.process = SimpleNamespace(remote=lambda: Answer(made.process()))
        self.call = SimpleNamespace(remote=self._call)

    def _call(self, *arguments: Any) -> Answer:
        """Calls are lost before the work is done, or after it, in turn."""
        self.ray.calls += 1
        lost = self.ray.calls in self.ray.lost_at
        self.dead |= lost and self.ray.calls % 2 == 0
        try:
            given = [x if isinstance(x, Answer) else Answer(x) for x in arguments]
            value = None if self.dead else self.made.call(*[x.received() for x in given])
        except Exception as error:
            return Answer(None, Raised(error))
        self.dead |= lost
        return Answer(value, Lost("it is\n gone") if self.dead else None)


class OneProcess:
    """Stands for the module ``ray``: workers that live here, and are lost at calls of given numbers."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=Raised)

    def __init__(self, lost_at: Collection[int] = ()) -> None:
        self.lost_at, self.calls, self.started, self.busy = lost_at, 0, 0, False

    def remote(self, **options: Any) -> Callable[[type[Any]], Any]:
        assert options == {"max_restarts": 0}

        def start(kind: type[Any], *arguments: Any) -> Actor:
            self.started += 1
            return Actor(self, kind(*Answer(arguments).received()))

        return lambda kind: SimpleNamespace(
            options=lambda **options: SimpleNamespace(remote=lambda *arguments: start(kind, *arguments))
        )

    def put(self, value: Any) -> Answer:
        return Answer(value)

    def get(self, answers: Answer | list[Answer]) -> Any:
        return [answer.received() for answer in answers] if isinstance(answers, list) else answers.received()

    def wait(self, answers: list[Answer], num_returns: int, timeout: float = 0.0) -> Any:
        """Answers in reverse order, as callers must not depend on the order."""
        return ([], answers) if self.busy else (answers[-num_returns:], answers[:-num_returns])

    def kill(self, actor: Actor) -> None:
        actor.dead = True


def run(name: str, path: Path, cluster: RayCluster | None = None, **changes: Any) -> TrainingRun:
    return TrainingRun(read(Recipe, {**RECIPES[name], **changes}, "here"), path, cluster=cluster)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maskable-ppo", pytest.param("place-labelling", marks=pytest.mark.slow)])
def test_the_same_weights_whoever_is_lost(name: str, tmp_path: Path) -> None:
    run(name, tmp_path / "local").train()
    for number, lost_at in enumerate([(), (1, 2, 6, 7, 23, 24, 30, 31, 33, 40, 47)]):
        ray = OneProcess(lost_at)
        run(name, tmp_path / str(number), RayCluster(ray, 2 + number)).train()
        assert ray.started == 2 + number + sum(call <= ray.calls for call in lost_at)
        for file in ("policy", "best"):
            made = [(tmp_path / folder / f"{file}.safetensors").read_bytes() for folder in ("local", str(number))]
            assert made[0] == made[1]


@pytest.mark.parametrize(
    ("env", "arguments"),
    [
        pytest.param("HetSchedule-v0", {"observation": "graph"}, marks=pytest.mark.slow),
        pytest.param(
            "HetDispatch-v0", {"noise": 0.2, "jobs": 2, "losses": 1, "completion": "off"}, marks=pytest.mark.slow
        ),
        pytest.param("HetSplit-v0", {"observation": "flat", "key_operators": 4}, marks=pytest.mark.slow),
        ("HetPipeline-v0", {"observation": "candidates"}),
    ],
)
def test_lanes_are_those_of_one_process(env: str, arguments: dict[str, Any]) -> None:
    """Everything that Stable-Baselines3 gets, except results that are not plain values, and times."""
    recipe = read(Recipe, {**PPO, "env": env, "lanes": 4, "arguments": arguments}, "here")
    ray = OneProcess([4, 9, 10, 11, 40, 171])
    there = LaneVecEnv(RayLanes(RayCluster(ray, 3), recipe), 7)
    here = make_vec_env(recipe.env, 4, 7, **recipe.environment())
    np.testing.assert_equal(there.reset(), here.reset())
    rng, ended = np.random.default_rng(0), 0
    for _ in range(120 if env in ("HetSchedule-v0", "HetDispatch-v0") else 70):
        masks = here.action_masks()
        assert np.array_equal(np.stack(there.env_method("action_masks")), masks)
        actions = (rng.random(masks.shape) * masks).argmax(axis=1)
        (seen, reward, over, infos), expected = there.step(actions), here.step(actions)
        np.testing.assert_equal((seen, reward, over), expected[:3])
        for info, other in zip(infos, expected[3], strict=True):
            if "episode" in info:
                ended += 1
                info["episode"]["t"] = other["episode"]["t"] = 0.0
                assert {"makespan", "reference", "terminal_observation"} <= info.keys() < other.keys()
            np.testing.assert_equal(info, {key: other[key] for key in info})
    assert ended > 0 and there.state() == here.state()
    np.testing.assert_equal(there.reset(), here.reset())  # without new seeds
    with pytest.raises(AttributeError, match="not available in this process"):
        there.get_attr("problem")
    there.close()


def test_a_run_changes_places() -> None:
    """Each resumes from the other's checkpoint: the states are equal, and JSON."""
    recipe = read(Recipe, PPO, "here")
    there = LaneVecEnv(RayLanes(RayCluster(OneProcess(), 2), recipe), 0)
    with pytest.raises(ConfigError, match="no state to keep"):
        there.state()
    with pytest.raises(ConfigError, match="call reset"):
        there.step([0] * 5)
    here = make_vec_env(recipe.env, 5, 0, **recipe.environment())
    here.reset()
    for _ in range(3):
        here.step(here.action_masks().argmax(axis=1))
    np.testing.assert_equal(there.restore(here.state()), here.episodes.seen())  # type: ignore[attr-defined]
    assert there.state() == here.state()
    with pytest.raises(ConfigError, match="4 states for 5 lanes"):
        there.restore(here.state()[:4])
    with pytest.raises(ConfigError, match="another environment"):
        there.restore([{**state, "actions": [0] * 30} for state in here.state()])
    there.set_options({"problem": 3})
    with pytest.raises(ConfigError, match="no options"):
        there.reset()


class Failing:
    def work(self, what: int) -> float:
        return 1 / what


def test_what_workers_raise_reaches_the_caller_and_is_not_tried_again() -> None:
    ray = OneProcess()
    crew = Crew(ray, Failing, [()] * 2)
    assert crew.each("work", [(1,), (2,), (4,)]) == [1.0, 0.5, 0.25]
    for call in (crew.each, crew.all):
        with pytest.raises(ZeroDivisionError):
            call("work", [(1,), (0,)])
    assert ray.started == 2
    recipe = read(Recipe, {**PPO, "arguments": {"observatoin": "graph"}}, "here")
    with pytest.raises(ConfigError, match="did you mean 'observation'"):
        RayLanes(RayCluster(ray, 2), recipe)


def test_a_worker_that_is_lost_every_time() -> None:
    ray = OneProcess(range(3, 100))
    crew = Crew(ray, Failing, [()] * 2)
    assert crew.all("work", [(1,), (2,)]) == [1.0, 0.5]
    with pytest.raises(ClusterError, match=r"lost 4 times at the same work \(gone\); the same command resumes"):
        crew.each("work", [(1,)])
    assert ray.started == 2 + RETRIES


def test_workers_that_find_no_core_or_cannot_be_sent() -> None:
    ray = OneProcess()
    ray.busy = True
    with pytest.raises(ClusterError, match="only 0 of 2 workers found a free core .* --workers"):
        Crew(ray, Failing, [()] * 2)
    with pytest.raises(ConfigError, match="cannot be sent to another process"):
        Crew(ray, Failing, [(threading.Lock(),)])


def test_workers_load_no_extra() -> None:
    """Nodes need the packages for playing, and no others."""
    script = (
        "import json, sys; from hetgym.agents.distributed import lanes, players; players.PlayWorker();"
        "lanes.LaneWorker('HetSchedule-v0', slice(0, 2), 2, {'observation': 'candidates'}).begin([0, 1]);"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    extras = {"torch", "stable_baselines3", "sb3_contrib", "safetensors", "tensorboard", "ray"}
    assert extras.isdisjoint(json.loads(done.stdout))
