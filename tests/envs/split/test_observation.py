"""Observations of splitting: decisions, levels, padding, and the manual."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from split_tools import action, at_random, machine, products, rollout

from hetgym import Platform
from hetgym.envs import (
    SPLIT_CANDIDATE_FEATURES,
    SPLIT_DEVICE_FEATURES,
    SPLIT_OPERATOR_FEATURES,
    HetSplitEnv,
    feature_table,
)

COLUMN = {feature.name: k for k, feature in enumerate(SPLIT_CANDIDATE_FEATURES)}

ROW = {feature.name: k for k, feature in enumerate(SPLIT_OPERATOR_FEATURES)}

MIB = 2**20


WHOLE = 2 * 1024**3 / 1e12  # seconds of a product


def test_observations_say_what_was_decided() -> None:
    env = HetSplitEnv(products(3), machine(devices=3), granularity=0.0)
    obs, _ = env.reset(seed=0)
    assert obs["operators"][:, ROW["time_share"]].tolist() == pytest.approx([1 / 3] * 3)
    assert obs["operators"][:, ROW["is_current"]].tolist() == [1, 0, 0] and obs["current"][0] == 0
    assert np.array_equal(obs["operator"], obs["operators"][0])
    legal = obs["candidates"][action(env, "output", 2, "equal")]
    assert legal[COLUMN["part_time"]] == pytest.approx(1 / 6) and legal[COLUMN["total_time"]] == pytest.approx(1 / 3)
    assert legal[COLUMN["together_time"]] == pytest.approx(1 / 6) and legal[COLUMN["largest_part"]] == 0.5
    assert legal[COLUMN["scatter"]] == pytest.approx(8 * MIB / 1e12 / (3 * WHOLE))  # both parts read all rows
    assert legal[COLUMN["gather"]] == pytest.approx(4 * MIB / 1e12 / (3 * WHOLE))
    thirds = obs["candidates"][action(env, "output", 3, "equal")]
    assert thirds[COLUMN["legal"]] == 0 and thirds[COLUMN["parts"]] == 3 / 8 and thirds[COLUMN["part_time"]] == 0
    obs, *_ = env.step(action(env, "output", 3, "proportional"))  # 341, 342, 341
    row = obs["operators"][0]
    assert row[[ROW["is_decided"], ROW["is_current"], ROW["parts"], ROW["proportional"]]].tolist() == [1, 0, 3 / 8, 1]
    assert row[[ROW[axis] for axis in ("batch", "output", "reduction", "spatial")]].tolist() == [0, 1, 0, 0]
    assert obs["devices"][:, 1].sum() == pytest.approx(1.0, rel=1e-3)
    obs, *_ = env.step(0)
    assert obs["operators"][1, [ROW["is_decided"], ROW["parts"]]].tolist() == [1, 0] and obs["current"][0] == 2
    obs, _, done, _, info = env.step(0)
    assert done and not obs["candidates"].any() and not obs["operator"].any() and info["action_mask"].any()
    assert not obs["operators"][:, ROW["is_current"]].any()


def test_levels_show_the_same() -> None:
    whole, narrow, flat = (gym.make("HetSplit-v0", observation=level) for level in ("graph", "candidates", "flat"))
    full, some, vector = (env.reset(seed=5)[0] for env in (whole, narrow, flat))
    assert set(some) == {"action_mask", "candidates", "devices", "makespan", "operator"}
    assert all(np.array_equal(some[key], full[key]) for key in some)
    joined = [full[key].ravel() for key in ("candidates", "operator", "devices", "makespan", "action_mask")]
    assert np.array_equal(vector, np.concatenate(joined).astype(np.float32))


def test_padding_does_not_change_an_episode() -> None:
    tight, wide = (
        HetSplitEnv(products(3), machine()),
        HetSplitEnv(products(3), machine(), max_operators=9, max_edges=8, max_devices=5, ways=2),
    )
    small, large = tight.reset(seed=0)[0], wide.reset(seed=0)[0]
    assert large["operators"].shape == (9, 20) and not large["operators"][3:].any()
    assert np.array_equal(small["operators"], large["operators"][:3])
    assert np.array_equal(small["candidates"], large["candidates"])
    assert rollout(tight, at_random(0))[0] == rollout(wide, at_random(0))[0]


def test_documentation_names_every_feature_count() -> None:
    text = HetSplitEnv.__doc__ or ""
    space = HetSplitEnv().observation_space
    for key, symbol in (("operators", "N"), ("devices", "D"), ("candidates", "A")):
        assert f"| ``{key}`` | [{symbol}, {space[key].shape[1]}] |" in text
    assert f"| ``operator`` | [{len(SPLIT_OPERATOR_FEATURES)}] |" in text
    assert all(f"``{key}``" in text for key in space.spaces)
    assert len(feature_table(SPLIT_DEVICE_FEATURES).splitlines()) == 4


def test_transfers_take_the_mean_over_links_of_seconds_a_byte() -> None:
    """1 TB/s one way and 0.25 TB/s the other make 2.5 s a TB."""
    plain = machine()
    links = [replace(link, bandwidth=1e12 if link.start == "d0" else 0.25e12) for link in plain.links]
    env = HetSplitEnv(products(3), Platform("unlike", plain.devices, links))
    moved = 4 * MIB * 2.5e-12 / rollout(env, at_random(0))[1]["reference"]
    obs, _ = env.reset(seed=0)
    assert obs["operators"][:, ROW["output_transfer"]].tolist() == pytest.approx([moved] * 3)
