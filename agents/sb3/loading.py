"""Trained policies in Stable-Baselines3, at any padding: to continue training, or for its own tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hetgym.agents.network_policy import check_fits, load_policy
from hetgym.agents.sb3.policies import POLICIES
from hetgym.envs.sb3 import LaneVecEnv
from hetgym.errors import require, unknown_name

CLASSES = {"ppo": ("stable_baselines3", "PPO"), "maskable-ppo": ("sb3_contrib", "MaskablePPO")}
"""Algorithm -> module and class."""


def algorithm_class(name: str) -> Any:
    """The class of Stable-Baselines3 for an algorithm; UnknownName or MissingExtra without one."""
    if name not in CLASSES:
        raise unknown_name("algorithm of Stable-Baselines3", name, CLASSES)
    module, found = CLASSES[name]
    return getattr(require(module, "agents", f"the algorithm {name}"), found)


def load_model(path: str | Path, envs: LaneVecEnv, algorithm: str = "maskable-ppo", **arguments: Any) -> Any:
    """A model of Stable-Baselines3 with the weights of a policy, for any padding.

    The model's own ``save`` uses pickle and depends on the padding; a policy file does neither.

    Args:
        path: a file that ``hetgym train`` or :meth:`hetgym.agents.network_policy.NetworkPolicy.save` wrote.
        envs: lanes, of any padding, of the kind of environment that the policy was trained in.
        algorithm: ``ppo`` or ``maskable-ppo``.
        arguments: arguments of the model.

    Raises:
        ArtefactError: the file is not a policy.
        ConfigError: observations that the policy was not made for.

    ``load_model("policy.safetensors", make_vec_env("HetSchedule-v0", 8, suite="zoo", observation="candidates"))``
    """
    policy = load_policy(path)
    check_fits(policy.network, envs.observation_space)
    sizes = {"features_extractor_kwargs": policy.network.card()["sizes"]}
    model = algorithm_class(algorithm)(
        POLICIES[algorithm], envs, **{"device": "cpu", "gamma": 1.0, "policy_kwargs": sizes, **arguments}
    )
    model.policy.network.load_state_dict(policy.network.state_dict())
    return model
