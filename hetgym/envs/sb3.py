"""Native lanes as a Stable-Baselines3 vector environment.

``MaskablePPO("MlpPolicy", make_vec_env("HetSchedule-v0", 16, seed=0, observation="flat")).learn(100_000)``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray
from hetgym.envs.core.autoreset import AutoresetLanes, Episodes, LaneState, make_lanes
from hetgym.envs.core.lanes import LaneArguments, Lanes, Observation, as_actions, as_seed
from hetgym.envs.core.scalar import LaneEnv
from hetgym.errors import require, unknown_name

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv
else:
    VecEnv = require("stable_baselines3.common.vec_env", "agents", "Stable-Baselines3 environments").VecEnv

Indices = int | Iterable[int] | None


def make_vec_env(
    env_id: str | LaneArguments,
    n_envs: int = 1,
    seed: int | None = None,
    render_mode: str | None = None,
    **arguments: Any,
) -> LaneVecEnv:
    """Make a vector environment for Stable-Baselines3 whose lanes all step in one call.

    It replaces ``stable_baselines3.common.env_util.make_vec_env`` and needs no wrapper: infos hold episode
    statistics as ``Monitor`` gives them, and ``sb3_contrib`` finds the action masks.

    Args:
        env_id: an id of :data:`~hetgym.envs.ENVIRONMENTS`, or all arguments of an environment as one value, such as
            ``hetgym.envs.HetDispatchArguments(jobs=2)``, whose fields editors and type checkers know.
        n_envs: number of lanes.
        seed: seed of lane 0; the following lanes take the numbers after it.
        render_mode: ``"rgb_array"`` for ``render()`` and ``VecVideoRecorder``, or None.
        arguments: arguments of the environment, if it is named by its id.

    Raises:
        UnknownName: no such environment.
        ConfigError: an argument that the environment does not have, or an invalid value.
        MissingExtra: Stable-Baselines3 is not installed.

    >>> envs = make_vec_env("HetSchedule-v0", 4, seed=0, observation="candidates")
    >>> envs.reset()["candidates"].shape
    (4, 4, 9)
    """
    return LaneVecEnv(make_lanes(env_id, n_envs, **arguments), seed, render_mode)


class LaneVecEnv(VecEnv):
    """Lanes behind the interface of Stable-Baselines3: a finished lane begins its next episode in the same step.

    The lanes are in this process, or in a cluster as :class:`~hetgym.envs.core.autoreset.Episodes`; for the other
    arguments see :func:`make_vec_env`.

    Raises:
        UnknownName: another render mode.
        ConfigError: an invalid seed.
    """

    def __init__(self, lanes: Lanes | Episodes, seed: int | None = None, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise unknown_name("render mode", str(render_mode), ["rgb_array"])
        self._render_mode = render_mode
        self.episodes: Episodes = AutoresetLanes(lanes) if isinstance(lanes, Lanes) else lanes
        super().__init__(lanes.count, lanes.observation_space, lanes.action_space)
        self.metadata["render_fps"] = LaneEnv.metadata["render_fps"]
        self.seed(seed)
        self._actions: npt.NDArray[np.int64] = np.zeros(lanes.count, np.int64)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seeds of the next reset: that of lane 0; the following lanes take the numbers after it."""
        return list(super().seed(as_seed(seed)))

    def reset(self) -> Observation:
        """Begin an episode in every lane, with the seeds and options that were set."""
        found = self.episodes.begin(self._seeds, self._options)
        self.reset_infos = self._infos(self.episodes.mask, self.episodes.illegal)
        self._reset_seeds()
        self._reset_options()
        return found

    def step_async(self, actions: Any) -> None:
        """Keep the actions for :meth:`step_wait`."""
        self._actions = as_actions(actions, self.num_envs)

    def step_wait(self) -> tuple[Observation, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Take a decision in every lane; ConfigError if there has been no reset.

        Returns observations, rewards, flags of ended episodes, and infos. Where an episode ended, the observation is
        that of the next one, and the info holds ``terminal_observation`` and ``episode`` besides the results.
        """
        taken = self.episodes.step(self._actions)
        infos = self._infos(taken.mask, taken.illegal)
        for lane, ended in taken.ended.items():
            self.reset_infos[lane] = infos[lane]
            infos[lane] = {**infos[lane], **ended, "TimeLimit.truncated": False}
        return taken.seen, taken.reward, taken.over, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """[L, A] legal actions."""
        return self.episodes.mask

    def state(self) -> list[LaneState]:
        """State of every lane as JSON values; see :meth:`hetgym.envs.core.autoreset.Episodes.state`."""
        return self.episodes.state()

    def restore(self, states: Sequence[LaneState]) -> Observation:
        """Restore states that :meth:`state` returned; see :meth:`hetgym.envs.core.autoreset.Episodes.restore`."""
        found = self.episodes.restore(states)
        self._reset_seeds()
        return found

    def close(self) -> None:
        """Release lanes of other processes."""
        self.episodes.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of some lanes. Raises AttributeError: lanes have no such attribute."""
        lanes = self._numbers(indices)
        if attr_name == "action_masks":
            return [_mask_of(self.episodes, lane) for lane in lanes]
        if attr_name == "problem":
            return [self.episodes.problem(lane) for lane in lanes]
        shared: dict[str, Any] = {"observation_space": self.observation_space, "action_space": self.action_space}
        shared |= {"render_mode": self._render_mode, "spec": None}
        if attr_name not in shared:
            raise AttributeError(f"lanes have no attribute {attr_name!r}")
        return [shared[attr_name] for _ in lanes]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Refuse: lanes have no attributes of their own to set. Raises AttributeError."""
        raise AttributeError(f"lanes share their arguments: {attr_name!r} cannot be set")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of some lanes; there is only ``action_masks``."""
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """True for ``Monitor``, as lanes report episodes themselves; False for any other wrapper."""
        return [wrapper_class.__name__ == "Monitor" for _ in self._numbers(indices)]

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """A Gantt chart of every lane."""
        return [self.episodes.frame(lane) for lane in range(self.num_envs)]

    def _numbers(self, indices: Indices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)

    def _infos(self, mask: BoolArray, illegal: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
        return [{"action_mask": mask[lane], "illegal_actions": int(illegal[lane])} for lane in range(self.num_envs)]


def _mask_of(episodes: Episodes, lane: int) -> Callable[[], npt.NDArray[np.bool_]]:
    return lambda: episodes.mask[lane]
