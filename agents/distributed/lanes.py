"""Lanes on a Ray cluster: each worker plays some of them, with the same results as one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._types import BoolArray
from hetgym.agents.distributed.crew import Call, Crew, RayCluster
from hetgym.agents.recipe import Recipe
from hetgym.envs.core.autoreset import AutoresetLanes, LaneState, Taken, make_lanes
from hetgym.envs.core.lanes import Observation
from hetgym.errors import ConfigError

Begun = tuple[Observation, BoolArray, npt.NDArray[np.int64], list[LaneState]]
"""Observations, legal actions, numbers of illegal actions so far, and states of the lanes."""


class LaneWorker:
    """Plays a worker's lanes: those of the numbers ``part``, of ``lanes`` of all workers."""

    def __init__(self, env: str, part: slice, lanes: int, arguments: dict[str, Any]) -> None:
        made = make_lanes(env, part.stop - part.start, **arguments)
        made.source.share(part.start, lanes)
        self.episodes = AutoresetLanes(made)

    def spaces(self) -> tuple[spaces.Space[Any], spaces.Discrete]:
        """Spaces of the observations and of the actions."""
        return self.episodes.observation_space, self.episodes.action_space

    def begin(self, seeds: Sequence[int | None]) -> Begun:
        """Begin an episode in every lane."""
        return self._begun(self.episodes.begin(seeds, [{}] * self.episodes.count))

    def restore(self, states: Sequence[LaneState]) -> Begun:
        """Restore states of the lanes."""
        return self._begun(self.episodes.restore(states))

    def step(self, actions: npt.NDArray[np.int64]) -> tuple[Taken, dict[int, LaneState]]:
        """Take a decision in every lane.

        Returns its results, without info entries that are not plain values, and the states of lanes that have begun
        another episode.
        """
        taken = self.episodes.step(np.array(actions))
        for lane, ended in taken.ended.items():
            taken.ended[lane] = {key: value for key, value in ended.items() if isinstance(value, _PLAIN)}
        states = self.episodes.state() if taken.ended else []
        return taken, {lane: states[lane] for lane in taken.ended}

    def _begun(self, seen: Observation) -> Begun:
        return seen, self.episodes.mask, self.episodes.illegal, self.episodes.state()


_PLAIN = (bool, int, float, str, np.generic, np.ndarray, dict)
"""Types of info entries that are sent; schedules, traces and replays of ended episodes are not."""


class RayLanes:
    """Lanes that workers play, as :class:`~hetgym.envs.core.autoreset.Episodes`, which describes the methods.

    This process knows the state of each lane at all times, so the loss of a worker costs no more than to play the
    running episodes of its lanes again. A worker that is lost repeatedly is a ClusterError.

    Raises:
        ClusterError: the workers do not start.
        ConfigError: arguments that the environment does not have.
    """

    def __init__(self, cluster: RayCluster, recipe: Recipe) -> None:
        self.count = recipe.lanes
        parts = np.array_split(np.arange(recipe.lanes), min(cluster.workers, recipe.lanes))
        self._ranges = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
        self._states: list[LaneState] = []
        self.mask: BoolArray = np.zeros((0, 0), np.bool_)
        self.illegal = np.zeros(0, np.int64)
        arguments = [(recipe.env, part, recipe.lanes, recipe.environment()) for part in self._ranges]
        self.crew = Crew(cluster.ray, LaneWorker, arguments, self._recall)
        try:
            found = self.crew.all("spaces", [()] * len(parts))
        except BaseException:
            self.crew.close()
            raise
        self.observation_space: spaces.Space[Any] = found[0][0]
        self.action_space: spaces.Discrete = found[0][1]

    def begin(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> Observation:
        """Begin an episode in every lane; options are refused."""
        if any(options):
            raise ConfigError("lanes on a Ray cluster take no options of a reset")
        return self._begin("begin", seeds)

    def step(self, actions: npt.NDArray[np.int64]) -> Taken:
        """Take a decision in every lane."""
        if not self._states:
            raise ConfigError("call reset() before step(): a lane has no running episode")
        found = self.crew.all("step", [(actions[part],) for part in self._ranges])
        parts = [taken for taken, _ in found]
        self.mask, self.illegal, executed, reward, over = (
            np.concatenate([getattr(taken, name) for taken in parts])
            for name in ("mask", "illegal", "executed", "reward", "over")
        )
        for state, action, illegal in zip(self._states, executed.tolist(), self.illegal.tolist(), strict=True):
            state["actions"].append(action)
            state["illegal"] = illegal
        ended: dict[int, dict[str, Any]] = {}
        for part, (taken, begun) in zip(self._ranges, found, strict=True):
            for lane, state in begun.items():
                self._states[part.start + lane] = state
            ended |= {part.start + lane: results for lane, results in taken.ended.items()}
        seen = _joined([taken.seen for taken in parts])
        return Taken(seen, self.mask, self.illegal, executed, reward, over, ended)

    def state(self) -> list[LaneState]:
        """State of every lane."""
        if not self._states:
            raise ConfigError("there is no state to keep: a lane has not begun")
        return [{**state, "actions": list(state["actions"])} for state in self._states]

    def restore(self, states: Sequence[LaneState]) -> Observation:
        """Restore states that :meth:`state` returned, here or in a local run."""
        if len(states) != self.count:
            raise ConfigError(f"{len(states)} states for {self.count} lanes")
        return self._begin("restore", states)

    def problem(self, lane: int) -> Any:
        """Refuse: problems are not sent between processes."""
        raise AttributeError("problems of lanes on a Ray cluster are not available in this process")

    def frame(self, lane: int) -> Any:
        """Refuse: pictures are not sent between processes."""
        raise AttributeError("lanes on a Ray cluster cannot be rendered")

    def close(self) -> None:
        """End the workers."""
        self.crew.close()

    def _begin(self, method: str, of: Sequence[Any]) -> Observation:
        found = self.crew.all(method, [(list(of[part]),) for part in self._ranges])
        self._states = [state for *_, states in found for state in states]
        self.mask = np.concatenate([mask for _, mask, _, _ in found])
        self.illegal = np.concatenate([illegal for _, _, illegal, _ in found])
        seen: Observation = _joined([seen for seen, *_ in found])
        return seen

    def _recall(self, post: int) -> Call | None:
        return ("restore", (self._states[self._ranges[post]],)) if self._states else None


def _joined(parts: Sequence[Any]) -> Any:
    """[L, …] observations of all lanes."""
    if isinstance(parts[0], dict):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return np.concatenate(parts)
