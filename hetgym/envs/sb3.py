"""Native lanes as a Stable-Baselines3 vector environment.

``MaskablePPO("MlpPolicy", make_vec_env("HetSchedule-v0", 16, seed=0, observation="flat")).learn(100_000)``
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from hetgym.envs.lanes import Lanes, Observation, as_actions
from hetgym.envs.registration import ENVIRONMENTS
from hetgym.errors import ConfigError, require, unknown_name

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv
else:
    VecEnv = require("stable_baselines3.common.vec_env", "agents", "Stable-Baselines3 environments").VecEnv

Indices = int | Iterable[int] | None


def make_vec_env(env_id: str, n_envs: int = 1, seed: int | None = None, **arguments: Any) -> LaneVecEnv:
    """Make a vector environment for Stable-Baselines3, all lanes of which step in one call.

    The namesake of ``stable_baselines3.common.env_util.make_vec_env``, but no wrapper is needed: infos hold
    episode statistics as ``Monitor`` gives them, and ``sb3_contrib`` finds the action masks.

    Args:
        env_id: an id of :data:`~hetgym.envs.ENVIRONMENTS`.
        n_envs: number of lanes.
        seed: of lane 0, the following lanes taking the numbers after it.
        arguments: of the environment.

    Raises:
        UnknownName: no such environment.
        MissingExtra: Stable-Baselines3 is not installed.

    >>> envs = make_vec_env("HetSchedule-v0", 4, seed=0, observation="candidates")
    >>> envs.reset()["candidates"].shape
    (4, 4, 9)
    """
    name = env_id.removeprefix("hetgym:")
    if name not in ENVIRONMENTS:
        raise unknown_name("environment", env_id, ENVIRONMENTS)
    return LaneVecEnv(gym.make_vec(name, num_envs=n_envs, **arguments).unwrapped.lanes, seed)  # type: ignore[attr-defined]


class LaneVecEnv(VecEnv):
    """Lanes, asked as Stable-Baselines3 asks: a finished lane begins its next episode in the same step.

    Args:
        lanes: all of them.
        seed: of lane 0, the following lanes taking the numbers after it.
    """

    def __init__(self, lanes: Lanes, seed: int | None = None) -> None:
        self.lanes = lanes
        super().__init__(lanes.count, lanes.observation_space, lanes.action_space)
        self.seed(seed)
        self._generators: list[np.random.Generator | None] = [None] * lanes.count
        self._actions: npt.NDArray[np.int64] = np.zeros(lanes.count, np.int64)
        self._active = np.ones(lanes.count, np.bool_)
        self._returns = np.zeros(lanes.count)
        self._lengths = np.zeros(lanes.count, np.int64)
        self._origins: list[dict[str, Any] | None] = [None] * lanes.count
        self._taken: list[list[int]] = [[] for _ in range(lanes.count)]
        self._start = time.monotonic()

    def reset(self) -> Observation:
        """Begin an episode in every lane, with the seeds and options that were set."""
        for lane in range(self.num_envs):
            self._begin(lane, self._seeds[lane], self._options[lane])
            self.reset_infos[lane] = self._info(lane)
        self._reset_seeds()
        self._reset_options()
        found: Observation = self._seen()
        return found

    def step_async(self, actions: Any) -> None:
        """Keep the actions for :meth:`step_wait`."""
        self._actions = as_actions(actions, self.num_envs)

    def step_wait(self) -> tuple[Observation, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Take a decision in every lane.

        Returns:
            Observations, rewards, whether episodes ended, and infos. Where one ended the observation is that
            of the next, and the info holds ``terminal_observation`` and ``episode`` beside the results.

        Raises:
            ConfigError: there has been no reset.
        """
        lanes = self.lanes
        if lanes.over.any():
            raise ConfigError("call reset() before step(): a lane has no running episode")
        for taken, action in zip(self._taken, self._actions.tolist(), strict=True):
            taken.append(action)
        lanes.step(self._actions, self._active)
        rewards, dones = lanes.reward.astype(np.float32), lanes.over.copy()
        self._returns += lanes.reward
        self._lengths += 1
        infos = [self._info(lane) for lane in range(self.num_envs)]
        for lane in np.flatnonzero(dones).tolist():
            infos[lane] |= {
                **lanes.result(lane), "terminal_observation": self._lane(lane), "TimeLimit.truncated": False,
                "episode": {
                    "r": round(float(self._returns[lane]), 6), "l": int(self._lengths[lane]),
                    "t": round(time.monotonic() - self._start, 6),
                },
            }  # fmt: skip
            self._begin(lane, None, {})
            self.reset_infos[lane] = self._info(lane)
        return self._seen(), rewards, dones, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """[L, A] legal actions."""
        return self.lanes.mask.astype(np.bool_)

    def state(self) -> list[dict[str, Any]]:
        """Where every lane stands, as JSON values: its generator before the running episode, and the actions since.

        Raises:
            ConfigError: there has been no reset, or a lane's episode was begun with options.
        """
        states = []
        for origin, taken in zip(self._origins, self._taken, strict=True):
            if origin is None:
                raise ConfigError("there is no state to keep: a lane has not begun, or was begun with options")
            states.append({**origin, "actions": list(taken)})
        return states

    def restore(self, states: Sequence[dict[str, Any]]) -> Observation:
        """Go back to where :meth:`state` was asked, by playing the running episodes again.

        Args:
            states: one for each lane.

        Returns:
            What the agents see.

        Raises:
            ConfigError: states of another number of lanes, or an episode that does not play as it did.
        """
        if len(states) != self.num_envs:
            raise ConfigError(f"{len(states)} states for {self.num_envs} lanes")
        for lane, state in enumerate(states):
            generator, _ = seeding.np_random(0)
            generator.bit_generator.state = state["generator"]
            self._generators[lane] = generator
            self._begin(lane, None, {}, state["seed"])
            self._taken[lane] = list(state["actions"])
        self._lengths = np.array([len(taken) for taken in self._taken], np.int64)
        for turn in range(int(self._lengths.max(initial=0))):
            active = self._lengths > turn
            actions = np.array([taken[turn] if turn < len(taken) else 0 for taken in self._taken], np.int64)
            self.lanes.step(actions, active)
            self._returns[active] += self.lanes.reward[active]
            if self.lanes.over[active].any():
                raise ConfigError("an episode ends before the state that was kept of it: it is of another environment")
        self._reset_seeds()
        found: Observation = self._seen()
        return found

    def close(self) -> None:
        """There is nothing to release."""

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of some lanes.

        Raises:
            AttributeError: lanes have no such attribute.
        """
        lanes = self._numbers(indices)
        if attr_name == "action_masks":
            return [_mask_of(self.lanes, lane) for lane in lanes]
        if attr_name == "problem":
            return [self.lanes.problem(lane) for lane in lanes]
        shared = {"render_mode": None, "spec": None, "observation_space": self.lanes.observation_space,
                  "action_space": self.lanes.action_space}  # fmt: skip
        if attr_name not in shared:
            raise AttributeError(f"lanes have no attribute {attr_name!r}")
        return [shared[attr_name] for _ in lanes]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Lanes have no attributes of their own to set.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"lanes share their arguments: {attr_name!r} cannot be set")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:  # fmt: skip
        """Call a method of some lanes; there is ``action_masks``.

        Raises:
            AttributeError: lanes have no such method.
        """
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:  # fmt: skip
        """Whether lanes do what a wrapper does: they report episodes as ``Monitor`` does."""
        return [wrapper_class.__name__ == "Monitor" for _ in self._numbers(indices)]

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """A Gantt chart of every lane."""
        return [self.lanes.frame(lane, "rgb_array") for lane in range(self.num_envs)]

    def _begin(self, lane: int, seed: int | None, options: dict[str, Any], known_as: int | None = None) -> None:
        """Begin an episode; ``known_as`` is the seed that a generator was made from which stands at its beginning."""
        generator = self._generators[lane]
        if seed is not None or generator is None:
            generator, _ = seeding.np_random(seed)
            self._generators[lane] = generator
        seed = known_as if seed is None else seed
        before = generator.bit_generator.state
        self.lanes.begin(lane, generator, dict(options), seed)
        self._origins[lane] = None if options else {"generator": before, "seed": seed}
        self._taken[lane] = []
        self._returns[lane], self._lengths[lane] = 0.0, 0

    def _numbers(self, indices: Indices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)

    def _info(self, lane: int) -> dict[str, Any]:
        return {"action_mask": self.lanes.mask[lane].astype(np.bool_), "illegal_actions": int(self.lanes.illegal[lane])}

    def _seen(self) -> Any:
        seen = self.lanes.seen
        return {key: values.copy() for key, values in seen.items()} if isinstance(seen, dict) else seen.copy()

    def _lane(self, lane: int) -> Any:
        seen = self.lanes.seen
        if isinstance(seen, dict):
            return {key: values[lane].copy() for key, values in seen.items()}
        return seen[lane].copy()


def _mask_of(lanes: Lanes, lane: int) -> Callable[[], npt.NDArray[np.bool_]]:
    return lambda: lanes.mask[lane].astype(np.bool_)
