from __future__ import annotations

import gymnasium as gym
import pytest

import hetgym
from hetgym.agents import ClusterPlanner, CutPlanner, Policy
from hetgym.errors import ConfigError


@pytest.mark.parametrize(("planner", "env_id"), [(ClusterPlanner(), "HetCluster-v0"), (CutPlanner(), "HetPipeline-v0")])
def test_planners_without_parameters_are_policies_of_one_environment(planner: Policy, env_id: str) -> None:
    assert isinstance(planner, Policy) and planner.card == {} and planner.arguments == {}
    other = gym.make("HetSchedule-v0", problem=hetgym.workloads.textbook("topcuoglu"), completion="off")
    agent = planner.agent()
    with pytest.raises(ConfigError, match=env_id):
        agent.reset(other, 0, None)  # type: ignore[attr-defined]
    assert planner.agent() is not agent
