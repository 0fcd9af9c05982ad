"""ListDispatcher: decisions during a run by one look of a network at each job, without roll-outs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetgym._kernels.draws import new_draws
from hetgym._kernels.records import Rows
from hetgym._types import FloatArray, Int64Array
from hetgym.agents.artefact import PolicyFiles, Weights
from hetgym.agents.lists import inference, online
from hetgym.agents.lists.tokens import EDGE_FEATURES, TOKEN_FEATURES, View, view
from hetgym.agents.play import Agent, play
from hetgym.envs.core.kinds import require_kind
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.dispatch.env import HetDispatchEnv
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.workloads import as_problem


class Looks(NamedTuple):
    """What is known of jobs after a look at each; see :class:`~hetgym.agents.lists.online.Desk` for the arrays."""

    outputs: FloatArray
    scale: FloatArray
    tail: FloatArray


def joined(outputs: FloatArray, views: Sequence[View]) -> Looks:
    """The outputs [n, width] for jobs, one after the other, with priorities in the unit of the first job."""
    scale = np.repeat([seen.scale for seen in views], [len(seen.priority) for seen in views])
    outputs = outputs.copy()
    outputs[:, 0] *= scale / scale[0]
    return Looks(outputs, scale, np.concatenate([seen.bonus * seen.scale for seen in views]))


class ListDispatcher:
    """Decides in HetDispatch-v0 by a trained list policy, as :mod:`hetgym.agents.lists.online` says.

    A network looks once at each job by itself. A decision then takes microseconds: there are no roll-outs.

    Args:
        weights: weights of a :class:`~hetgym.agents.networks.lists.ListNetwork`, by name.
        card: their origin, as JSON values.

    Raises:
        ArtefactError: the weights are not those of such a network.
    """

    kind = "dispatch"

    def __init__(self, weights: Weights, card: Mapping[str, Any] | None = None) -> None:
        self.card = dict(card or {})
        self.weights = inference.checked(weights, len(TOKEN_FEATURES), len(EDGE_FEATURES), online.WHOLE)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of HetDispatch-v0 that save what the policy does not read."""
        return {"observation": "candidates", "completion": "off"}

    def agent(self) -> Agent:
        """An agent for HetDispatch-v0."""
        return Dispatching(self)

    def play(self, seed: int = 0, **arguments: Any) -> dict[str, Any]:
        """Play an episode, and return its last info; with arguments of HetDispatch-v0."""
        return play(HetDispatchEnv(**(self.arguments | arguments)), self, seed).info

    def plan(self, problem: Problem, /, **playing: Any) -> Schedule:
        """Schedule a problem by :meth:`play`, without noise and changes."""
        schedule: Schedule = self.play(problem=as_problem(problem), **playing)["schedule"]
        return schedule

    def look(self, jobs: Sequence[Problem], runtime: str | Runtime = "classic") -> Looks:
        """The network's outputs for jobs that run on the same machine, and the units of time of their operators."""
        views = [view(job, runtime) for job in jobs]
        found = [inference.outputs(job, seen, self.weights) for job, seen in zip(jobs, views, strict=True)]
        return joined(np.concatenate(found), views)


class Dispatching:
    """An agent that has looked at the jobs of the episodes in all lanes of an environment when they begin."""

    def __init__(self, policy: ListDispatcher) -> None:
        self._policy = policy
        self._lanes: Any = None
        self._desks = Rows(0, online.DESK)
        self._draws, self._nothing = new_draws(0), np.zeros((0, 0))

    def check(self, lanes: Lanes) -> None:
        """Refuse lanes of other environments; see :func:`~hetgym.envs.core.kinds.require_kind`."""
        require_kind(self._policy.kind, lanes)

    def reset(self, env: Any, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """Reset an environment, and look at the jobs that it draws; its first observation and info."""
        lanes: Any = getattr(env.unwrapped, "lanes", None)
        self.check(lanes)
        start = env.reset(seed=seed, options=options)
        self.begin(lanes)
        return start

    def begin(self, lanes: Any) -> None:
        """Look at the jobs of the episodes that have begun, at each by itself, as it would be when it arrives."""
        self._lanes, self._desks = lanes, Rows(lanes.count, online.DESK)
        for lane in range(lanes.count):
            problem, runtime = lanes.problem(lane), lanes.rules.simulated
            found = self._policy.look(lanes.jobs(lane), runtime)
            offered = (lanes.mask.shape[1] - 1) // lanes.padding.devices
            self._desks[lane] = online.new_desk(problem, *found, lanes.drawn(lane).release, offered)

    def decide(self) -> Int64Array:
        """[L] actions for the lanes, 0 where an episode is over."""
        lanes, actions = self._lanes, np.zeros(self._lanes.count, np.int64)
        online.decide(lanes.record, self._desks.table, lanes.switches, ~lanes.over, self._draws, self._nothing, actions)
        return actions

    def __call__(self, observation: Observation, info: Mapping[str, Any] | None = None) -> int:
        """The action; the arguments are not read."""
        return int(self.decide()[0])


FILES = PolicyFiles("hetgym-dispatch-policy", ListDispatcher)  # The files of these policies
