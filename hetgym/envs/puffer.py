"""Native lanes as a PufferLib 3 environment, whose agents are the lanes.

``pufferlib.vector.make(LanePufferEnv, env_args=["HetSchedule-v0", 64], env_kwargs={"completion": "off"})``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym.envs.core.autoreset import AutoresetLanes, make_lanes
from hetgym.envs.core.lanes import LaneArguments, as_actions, as_seed
from hetgym.errors import ConfigError, MissingExtra

if TYPE_CHECKING:

    class PufferEnv:
        """The attributes that PufferLib's own class has."""

        observations: npt.NDArray[np.float32]
        rewards: npt.NDArray[np.float32]
        terminals: npt.NDArray[np.bool_]
        truncations: npt.NDArray[np.bool_]

        def __init__(self, buf: Any = None) -> None: ...

else:
    try:
        from pufferlib import PufferEnv
    except ImportError as error:
        raise MissingExtra("PufferLib environments need pufferlib 3: see docs/how-to/use-another-library.md") from error


class LanePufferEnv(PufferEnv):
    """Lanes that write into PufferLib's buffers and begin their next episode in the step that ends one.

    An observation is the flat observation followed by the mask, as PufferLib's policies take one array: with ``A``
    actions, ``observations[:, :-A]`` are features and ``observations[:, -A:]`` is 1 where an action is legal.

    Infos hold, for each episode that ended, numbers by name: ``episode_return``, ``episode_length``, ``makespan`` and
    ``speedup``, where the environment reports them.

    Args:
        lanes: number of lanes; PufferLib calls them agents.
        buf: arrays that PufferLib shares between processes; None to allocate them.
        seed: seed of lane 0, for resets that give none; the following lanes take the numbers after it.
        arguments: arguments of the environment that ``env_id`` names, apart from ``observation``.

    Raises:
        UnknownName: no such environment.
        ConfigError: an argument that the environment does not have, an invalid value, or another level of observation.
        MissingExtra: PufferLib is not installed; raised when the module is imported.
    """

    def __init__(
        self, env_id: str | LaneArguments, lanes: int = 64, *, buf: Any = None, seed: int = 0, **arguments: Any
    ) -> None:
        if isinstance(env_id, str) and arguments.setdefault("observation", "flat") != "flat":
            raise ConfigError("PufferLib's agents see observation='flat' and the mask; leave the argument out")
        made = make_lanes(env_id, lanes, **arguments)
        if made.level != "flat":
            raise ConfigError("PufferLib's agents see observation='flat' and the mask; give these arguments that level")
        self.episodes = AutoresetLanes(made)
        actions = int(made.action_space.n)
        flat = made.observation_space
        assert isinstance(flat, spaces.Box)
        high = np.concatenate([flat.high, np.ones(actions, np.float32)])
        self.single_observation_space = spaces.Box(np.zeros_like(high), high, dtype=np.float32)
        self.single_action_space = made.action_space
        self.num_agents = lanes
        self._seed = as_seed(seed) or 0
        super().__init__(buf)

    def reset(self, seed: int | None = None) -> tuple[npt.NDArray[np.float32], list[dict[str, float]]]:
        """Begin an episode in every lane, the first with the seed, or with the environment's own.

        Returns [L, F + A] observations, and no infos.

        Raises:
            ConfigError: an invalid seed.
        """
        first = as_seed(seed)
        first = self._seed if first is None else first
        seen = self.episodes.begin([first + lane for lane in range(self.num_agents)], [{}] * self.num_agents)
        self._write(seen)
        self.rewards[:], self.terminals[:], self.truncations[:] = 0, False, False
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[dict[str, float]]]:
        """Take a decision in every lane; ConfigError if there has been no reset.

        Returns [L, F + A] observations, [L] rewards, [L] ended episodes, [L] false, and an info for each ended episode.
        """
        taken = self.episodes.step(as_actions(np.asarray(actions).reshape(-1), self.num_agents))
        self._write(taken.seen)
        self.rewards[:], self.terminals[:] = taken.reward, taken.over
        infos = [_figures(ended) for ended in taken.ended.values()]
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        """Release the lanes."""
        self.episodes.close()

    def _write(self, seen: Any) -> None:
        """Fill the observations: features, then the mask."""
        actions = self.single_action_space.n
        self.observations[:, :-actions] = seen
        self.observations[:, -actions:] = self.episodes.mask


def _figures(ended: dict[str, Any]) -> dict[str, float]:
    found = {"episode_return": ended["episode"]["r"], "episode_length": ended["episode"]["l"]}
    return found | {key: float(ended[key]) for key in ("makespan", "speedup") if key in ended}
