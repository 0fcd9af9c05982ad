"""Observations of placing operators: padding changes nothing, and the manual tells their shapes."""

from __future__ import annotations

import numpy as np
import pytest
from schedule_tools import earliest_finish, rollout

from hetgym.envs import CANDIDATE_FEATURES, HetDispatchEnv, HetScheduleEnv, feature_table
from hetgym.workloads import textbook

COLUMN = {feature.name: k for k, feature in enumerate(CANDIDATE_FEATURES)}


def test_padding_does_not_change_an_episode() -> None:
    problem = textbook("topcuoglu")
    tight, wide = HetScheduleEnv(problem), HetScheduleEnv(problem, max_operators=64, max_edges=99, max_devices=8)
    a, b = rollout(tight, earliest_finish), rollout(wide, earliest_finish)
    assert a[0] == b[0] and a[1]["makespan"] == b[1]["makespan"]
    small, large = tight.reset(seed=0)[0], wide.reset(seed=0)[0]
    assert large["operators"].shape == (64, 12) and large["action_mask"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert np.array_equal(small["operators"], large["operators"][:10])
    assert np.array_equal(small["candidates"], large["candidates"][:3])
    assert not large["operators"][10:].any() and not large["candidates"][3:].any()


@pytest.mark.parametrize(("made", "actions"), [(HetScheduleEnv, "D"), (HetDispatchEnv, "K D + 1")])
def test_documentation_names_every_feature_count(made: type, actions: str) -> None:
    text = made.__doc__ or ""
    rows = {line.split("``")[1]: line for line in text.splitlines() if line.strip().startswith("| ``")}
    space = made(textbook("topcuoglu")).observation_space
    for key, symbol in (("operators", "N"), ("devices", "D"), ("candidates", actions)):
        assert f"[{symbol}, {space[key].shape[1]}]" in rows[key]
    written = {name for line in rows.values() for name in line.split("|")[1].split("``")}
    assert set(space) == written - {" ", ", "}
    assert len(feature_table(CANDIDATE_FEATURES).splitlines()) == len(CANDIDATE_FEATURES)
