"""Stable-Baselines3 itself, whose PPO knows no masks: hetgym's policy reads them from the observation."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from libraries import recipe

from hetgym.envs.core.kinds import IDS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    sb3 = pytest.importorskip("stable_baselines3")
    pytest.importorskip("sb3_contrib")  # hetgym's policies are for both
    from stable_baselines3.common.env_util import make_vec_env

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library


MASKED = ("dispatch", "pipeline", "place", "split")
"""Kinds of environments whose masks a policy of hetgym reads."""


@pytest.mark.parametrize("name", recipe.EVERY)
def test_every_environment_runs_with_networks_of_the_library(name: str) -> None:
    for policy, level in (("MlpPolicy", "flat"), ("MultiInputPolicy", "candidates")):
        envs = make_vec_env(name, 2, seed=0, env_kwargs={"observation": level})  # of the library
        model = sb3.PPO(policy, envs, n_steps=128, batch_size=128, n_epochs=1, seed=0, device="cpu").learn(256)
        assert model.ep_info_buffer and all(np.isfinite(episode["r"]) for episode in model.ep_info_buffer)


@pytest.mark.parametrize("level", ["candidates", "graph"])
@pytest.mark.parametrize("kind", MASKED)
def test_environments_are_played_within_their_masks(kind: str, level: str) -> None:
    from hetgym.agents.sb3 import ActionPolicy
    from hetgym.envs.sb3 import make_vec_env as make_lanes

    envs = make_lanes(IDS[kind], 2, seed=0, observation=level, **recipe.EVERY[IDS[kind]])
    model = sb3.PPO(ActionPolicy, envs, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
    model.learn(64)
    seen, ended = envs.reset(), 0
    while ended < 2:
        actions, _ = model.predict(seen)
        seen, _, dones, infos = envs.step(actions)
        ended += int(dones.sum())
        assert not any(info["illegal_actions"] for info in infos)


@pytest.mark.slow
def test_an_agent_learns() -> None:
    from hetgym.agents.sb3 import ActionPolicy
    from hetgym.envs.sb3 import make_vec_env as make_lanes

    began = time.perf_counter()
    model = sb3.PPO(
        ActionPolicy,
        make_lanes("HetSchedule-v0", recipe.LANES, recipe.SEED, observation="candidates", **recipe.ARGUMENTS),
        **recipe.STABLE_BASELINES,
    ).learn(recipe.STEPS)
    found = recipe.played(lambda seen, mask: np.asarray(model.predict(seen, deterministic=True)[0]), "candidates")
    recipe.check("Stable-Baselines3", found, time.perf_counter() - began)
