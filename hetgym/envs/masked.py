"""Observations beside their masks in one dictionary, the form in which Tianshou and RLlib look for masks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from hetgym.envs.core.scalar import LaneEnv
from hetgym.errors import ConfigError, shown


class MaskedObservation(gym.Wrapper[Any, np.int64, Any, np.int64], gym.utils.RecordConstructorArgs):
    """Observations ``{"obs": what the environment gives, "mask": [A] int8, 1 where an action is legal}``.

    Tianshou passes ``obs`` to networks; its Q-learning chooses greedy and random actions that ``mask`` allows. With
    ``observation="flat"`` networks get vectors without the mask. Infos have the same entries at all steps,
    without the results that end an episode, because Tianshou's buffers refuse values that only some steps have.
    RLlib's module with action masks looks for the keys ``("observations", "action_mask")``.

    Args:
        env: one of hetgym's environments, or a wrapper of it.
        keys: names for the observation and for the mask.

    Raises:
        ConfigError: an environment without masks.

    >>> import hetgym
    >>> env = MaskedObservation(gym.make("HetSchedule-v0", observation="flat", completion="off"))
    >>> observation, info = env.reset(seed=0)
    >>> observation["obs"].shape, observation["mask"].tolist() == info["action_mask"].astype(int).tolist()
    ((56,), True)
    """

    def __init__(self, env: gym.Env[Any, np.int64], keys: tuple[str, str] = ("obs", "mask")) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, keys=keys)
        super().__init__(env)
        if not isinstance(env, gym.Env) or not isinstance(env.unwrapped, LaneEnv):
            raise ConfigError(f"only hetgym's environments have masks, not {shown(env)}")
        self._entries: tuple[str, ...] = ()
        self._seen, self._mask = keys
        actions = env.unwrapped.lanes.action_space.n
        parts = {self._seen: env.observation_space, self._mask: spaces.MultiBinary(int(actions))}
        self.observation_space = spaces.Dict(parts)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; for arguments and errors see the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._entries = tuple(info)
        return self._masked(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a decision; for errors see the environment."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        kept = {key: info[key] for key in self._entries}
        return self._masked(observation, info), reward, terminated, truncated, kept

    def _masked(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        return {self._seen: observation, self._mask: info["action_mask"].astype(np.int8)}
