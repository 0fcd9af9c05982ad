"""Agents and policies: their protocols, playing an episode, and using an agent as a scheduler."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from hetgym._text import brief
from hetgym.envs.core.kinds import IDS, require_kind
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.core.registry import arguments_of, environment_of
from hetgym.errors import ConfigError, HetgymWarning, shown
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.runtime import runtime_name
from hetgym.workloads import as_problem

Agent = Callable[[Observation, dict[str, Any]], Any]
"""``agent(observation, info) -> action``. An agent that needs the problem before the episode begins also has a method
``reset(env, seed, options)``, which resets the environment and returns its first observation and info."""


@runtime_checkable
class Policy(Protocol):
    """A trained decision maker, which can act in an environment and plan.

    Attributes:
        card: its origin, training and known results, as JSON values.
    """

    card: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of decision that it takes, one of :data:`~hetgym.envs.core.kinds.IDS`."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that the policy expects, apart from problems, sizes and conditions."""

    @property
    def plan(self) -> Callable[..., Any]:
        """The function that plans a whole problem.

        ``plan(problem)`` returns a :class:`~hetgym.Schedule`. A policy for splits takes a graph and a platform and
        returns a :class:`~hetgym.baselines.GraphPlan`; one for pipelines takes a pipeline and returns its stages.
        """

    def agent(self) -> Agent:
        """The policy as an agent in its environment."""


class Decider(abc.ABC):
    """An :data:`Agent` that decides for many lanes at a time, by their observations alone."""

    @abc.abstractmethod
    def decide(self, observations: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
        """[L] actions for L lanes."""

    def __call__(self, observation: Observation, info: dict[str, Any]) -> int:
        """Decide in one environment."""
        return int(self.predict(observation)[0])

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[np.int64], Any]:
        """The most probable actions, with the interface of Stable-Baselines3's models.

        For an observation of one environment the action has the shape [], for [L, …] by key of many [L]; the state is
        returned unchanged, and the other arguments are ignored.
        """
        if not isinstance(observation, Mapping):
            raise ConfigError("this policy takes observation='graph' or 'candidates', not flat observations")
        if np.ndim(observation["action_mask"]) > 1:
            return self.decide(observation), state
        return self.decide({key: np.asarray(values)[None] for key, values in observation.items()})[0], state

    def agent(self) -> Agent:
        """The policy itself, which is an agent."""
        return self


SCHEDULING = ("place", "dispatch", "improve")
"""Kinds of decision whose episodes schedule a problem."""

SHAPING = {
    "place": ("completion",),
    "dispatch": ("completion", "tries"),
    "split": ("completion", "lookahead"),
    "pipeline": ("completion",),
    "improve": ("gains",),
}
"""Kind of decision -> arguments of the environment that change the meaning of candidate features."""


def check_features(kind: str, trained: Mapping[str, Any], lanes: Lanes) -> None:
    """Refuse an environment other than a policy's, and one whose candidate features mean something else.

    ``trained``: arguments of its training that were not the defaults.

    Raises:
        ConfigError: lanes of another environment, or an argument of :data:`SHAPING` has another value.
    """
    require_kind(kind, lanes)
    rules, defaults = getattr(lanes, "rules", None), arguments_of(IDS[kind])
    for name in SHAPING[kind]:
        expected = trained.get(name, getattr(defaults, name))
        found = getattr(rules, name, expected)
        if found != expected:
            raise ConfigError(
                f"this policy was trained with {name}={expected!r}, the environment has {name}={found!r}, with which "
                f"candidate features mean something else; make it with {name}={expected!r}"
            )


@dataclass(frozen=True)
class Result:
    """The result of one episode.

    Attributes:
        total_reward: the return, ``1 - makespan / reference`` in hetgym's environments.
        info: info of the last step.
    """

    total_reward: float
    info: dict[str, Any]

    __repr__ = brief


def trained_for(policy: Policy) -> tuple[str, ...]:
    """The runtimes of a policy's training, by name; none for pipelines, which have schedules of their own.

    >>> import hetgym
    >>> trained_for(hetgym.agents.load("place-v1")), trained_for(hetgym.agents.load("place-v2"))
    (('classic',), ('links', 'framework', 'ready'))
    """
    return runtimes_of(policy.card)


def runtimes_of(card: Mapping[str, Any]) -> tuple[str, ...]:
    """As :func:`trained_for`, by the card of a policy."""
    recipe = card.get("recipe")
    if recipe is None or recipe.get("env") == IDS["pipeline"]:
        return ()
    runtimes = recipe.get("settings", {}).get("runtimes") or [recipe.get("arguments", {}).get("runtime", "classic")]
    return tuple(dict.fromkeys(runtime_name(as_runtime(runtime)) for runtime in runtimes))


def _say_beyond(policy: Policy, lanes: Any) -> None:
    """Warn if a policy was not trained for the runtime of an environment's lanes."""
    rules: Any = getattr(lanes, "rules", None)
    names = trained_for(policy)
    if names and hasattr(rules, "simulated"):
        runtime = replace(rules.simulated, noise=0.0, seed=0)
        if runtime not in [as_runtime(name) for name in names]:
            called = policy.card.get("name", f"this {policy.kind} policy")
            warnings.warn(
                f"{called} was trained for {', '.join(names)}; this environment has {runtime_name(runtime)}, "
                "so compare it with heuristics there",
                HetgymWarning,
                stacklevel=3,
            )


def play(
    env: gym.Env[Any, Any], agent: Agent | Policy, seed: int | None = None, options: dict[str, Any] | None = None
) -> Result:
    """Play one episode.

    Args:
        env: an environment; it is reset.
        agent: an agent, or a policy, whose agent is used. If the agent has a method ``check``, that is called with
            the environment's lanes and may refuse them.
        seed: seed of the reset.
        options: options of the reset.

    Raises:
        ConfigError: a vector environment, not an agent, an environment other than the policy's, or one whose
            candidate features mean something other than in its training.

    Warns:
        HetgymWarning: the policy was not trained for the environment's runtime; see :func:`trained_for`.

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.workloads import textbook
    >>> env = gym.make("HetSchedule-v0", problem=textbook("arabnejad-barbosa"))
    >>> play(env, hetgym.agents.greedy("completion"), seed=0).info["makespan"] <= 133
    True
    >>> play(env, hetgym.agents.load("place-v1"), seed=0).info["makespan"] <= 133
    True
    """
    if isinstance(env, gym.vector.VectorEnv):
        raise ConfigError("play takes one environment, as gym.make makes it, not a vector environment")
    acting: Any = agent
    lanes: Any = getattr(env.unwrapped, "lanes", None)
    if isinstance(agent, Policy):
        if lanes is not None:
            require_kind(agent.kind, lanes)
        _say_beyond(agent, lanes)
        acting = agent.agent()
    if not callable(acting):
        raise ConfigError(
            f"agent is {shown(agent)}; it must be a function of the observation and the info, or a policy"
        )
    if hasattr(acting, "check") and lanes is not None:
        acting.check(lanes)
    reset = getattr(acting, "reset", None)
    start = env.reset(seed=seed, options=options) if reset is None else reset(env, seed, options)
    observation, info = start
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(acting(observation, info))
        total += float(reward)
        over = terminated or truncated
    return Result(total, info)


def as_scheduler(
    agent: Agent | Policy, env_id: str = "HetSchedule-v0", **arguments: Any
) -> Callable[[Problem], Schedule]:
    """Turn an agent for ``HetSchedule-v0``, ``HetDispatch-v0`` or ``HetImprove-v0`` into a scheduler.

    Args:
        agent: an agent, or a policy, whose agent is used.
        env_id: the environment in which an agent acts; a policy acts in its own.
        arguments: arguments of the environment, such as ``runtime`` or ``decode``; added to those of a policy.

    Returns:
        A function from a problem to the schedule of one episode on it, like the baselines; its seed is 0.

    Raises:
        ConfigError: a policy, or an environment, that does not schedule problems.
    """
    if isinstance(agent, Policy):
        env_id, arguments = IDS[agent.kind], agent.arguments | arguments
    able = [IDS[kind] for kind in SCHEDULING]
    if env_id.removeprefix("hetgym:") not in able:
        raise ConfigError(f"schedulers come from {', '.join(able)}, not from {env_id}")
    make = environment_of(env_id)

    def schedule(problem: Problem) -> Schedule:
        result: Schedule = play(make(as_problem(problem), **arguments), agent, seed=0).info["schedule"]
        return result

    return schedule
