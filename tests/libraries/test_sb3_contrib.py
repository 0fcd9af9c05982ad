"""sb3-contrib: MaskablePPO asks environments for their masks, through the wrappers of Stable-Baselines3, too."""

from __future__ import annotations

import time
import warnings

import pytest
from libraries import recipe

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    contrib = pytest.importorskip("sb3_contrib")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "HetImprove-v0" else name for name in recipe.EVERY]
)
def test_every_environment_is_played_within_its_masks(name: str) -> None:
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(
        name, 2, seed=0, env_kwargs={"observation": "flat", **recipe.EVERY[name]}
    )  # with Monitor and DummyVecEnv
    assert is_masking_supported(envs)
    model = contrib.MaskablePPO("MlpPolicy", envs, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
    model.learn(64)
    seen, ended = envs.reset(), 0
    while ended < 2:
        actions, _ = model.predict(seen, action_masks=get_action_masks(envs))
        seen, _, dones, infos = envs.step(actions)
        ended += int(dones.sum())
        assert not any(info["illegal_actions"] for info in infos)


@pytest.mark.slow
def test_an_agent_learns() -> None:
    from hetgym.envs.sb3 import make_vec_env

    began = time.perf_counter()
    model = contrib.MaskablePPO(
        "MlpPolicy",
        make_vec_env("HetSchedule-v0", recipe.LANES, recipe.SEED, observation="flat", **recipe.ARGUMENTS),
        **recipe.STABLE_BASELINES,
        policy_kwargs={"net_arch": list(recipe.HIDDEN)},
    ).learn(recipe.STEPS)
    found = recipe.played(lambda seen, mask: model.predict(seen, action_masks=mask, deterministic=True)[0])
    recipe.check("sb3-contrib", found, time.perf_counter() - began)
