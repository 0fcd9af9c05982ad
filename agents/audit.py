"""An audit of an agent in an environment: whether its returns mean anything."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from hetgym._text import brief
from hetgym.agents.play import Policy
from hetgym.agents.reference import greedy, uniform
from hetgym.envs.core.kinds import IDS, require_kind
from hetgym.envs.core.scalar import LaneEnv
from hetgym.errors import ConfigError, shown

GREEDY = {
    "place": "finish",
    "dispatch": "finish",
    "split": "completion",
    "pipeline": "completion",
    "cluster": "estimate",
    "improve": "makespan",
}
"""Kind of decision -> the candidate feature by which the rule that an agent is compared with decides."""

FIRST = 1_000_000  # Seed of the first episode
MOST_ILLEGAL, LEAST_CHOICE, LEAST_WEIGHT = 0.01, 0.05, 0.5
"""Shares beyond which a finding is made: of illegal actions, of steps with a choice, and the weight of the last reward
of an episode under a discount."""

Act = Callable[[Any, dict[str, Any]], Any]


@dataclass(frozen=True)
class Score:
    """The return of some agent over the episodes of an audit."""

    mean: float  # of the returns
    error: float  # its standard error
    illegal: float  # share of illegal actions

    __repr__ = brief


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        env_id: id of the environment.
        episodes: number of episodes that everybody played, on the same problems.
        scores: by name: ``agent``, which is given the masks; ``agent without masks``, if it can do without;
            ``random``, legal actions drawn uniformly; and ``greedy:<feature>``, a rule.
        choice: share of steps with more than one legal action.
        steps: mean number of steps of an episode.
        problems: number of different problems among the episodes.
        overlap: share of these that training also draws; None if no training environment was given.
        discount: the agent's discount, 1 if it has none.
        last_weight: weight of the last reward of an episode of mean length under it.
        findings: reasons to doubt the returns, a sentence each; empty if there is none.
    """

    env_id: str
    episodes: int
    scores: dict[str, Score]
    choice: float
    steps: float
    problems: int
    overlap: float | None
    discount: float
    last_weight: float
    findings: tuple[str, ...]

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """The audit as JSON values."""
        return asdict(self)


def audit(
    env: gym.Env[Any, Any],
    agent: Any,
    training: gym.Env[Any, Any] | None = None,
    episodes: int = 32,
    seed: int = FIRST,
    discount: float | None = None,
    training_seeds: range = range(16),
) -> Audit:
    """Play some episodes, and say whether their returns mean anything.

    Args:
        env: the environment in which the agent is evaluated; it is reset.
        agent: a policy; a model with ``predict``, as of Stable-Baselines3; or a function of observation and info.
        training: the environment of its training; with it, the overlap of the problems is looked for.
        episodes: number of episodes of each player.
        seed: seed of the first episode; the others have the numbers after it.
        discount: discount of the agent; by default its ``gamma``, else 1.
        training_seeds: seeds with which training resets its environment or lanes; each is followed by 15 more episodes.

    Raises:
        ConfigError: not an environment of hetgym's, not an agent, or an agent of another environment.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetSchedule-v0", observation="candidates")
    >>> audit(env, hetgym.agents.greedy("completion"), episodes=4).findings
    ()
    """
    if not isinstance(env, gym.Env) or not isinstance(env.unwrapped, LaneEnv):
        raise ConfigError(f"audit takes one environment of hetgym's, as gym.make makes it, not {shown(env)}")
    lanes = env.unwrapped.lanes
    masked, blind = _acts(agent, lanes)
    feature = GREEDY[lanes.kind]
    players: dict[str, Act] = {"agent": masked}
    if blind is not None:
        players["agent without masks"] = blind
    players["random"] = uniform(seed)
    if lanes.level != "flat":
        players[f"greedy:{feature}"] = greedy(feature, lanes.kind)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*illegal and were replaced")  # it is counted
        runs = {name: [_play(env, act, seed + k) for k in range(episodes)] for name, act in players.items()}
    scores = {name: _score(found) for name, found in runs.items()}
    drawn = runs["random"]
    steps = float(np.mean([run.steps for run in drawn]))
    choice = sum(int(run.choices) for run in drawn) / max(1, sum(int(run.steps) for run in drawn))
    tested = {run.problem for run in drawn}
    overlap = None
    if training is not None:
        overlap = len(tested & _drawn(training, training_seeds)) / len(tested)
    gamma = float(getattr(agent, "gamma", 1.0)) if discount is None else discount
    weight = gamma ** max(0.0, steps - 1)
    found = Audit(IDS[lanes.kind], episodes, scores, choice, steps, len(tested), overlap, gamma, weight, ())
    return Audit(**{**vars(found), "findings": tuple(_findings(found))})


@dataclass(frozen=True)
class _Run:
    """One episode."""

    total: float
    steps: int
    choices: int
    illegal: float
    problem: str


def _acts(agent: Any, lanes: Any) -> tuple[Act, Act | None]:
    """How an agent acts with masks, and without; None if it cannot do without."""
    if isinstance(agent, Policy):
        require_kind(agent.kind, lanes)
        agent = agent.agent()
    if hasattr(agent, "check"):
        agent.check(lanes)
    if hasattr(agent, "policy") and hasattr(agent, "predict"):
        model: Any = agent

        def blind(observation: Any, info: dict[str, Any]) -> Any:
            return model.predict(observation, deterministic=True)[0]

        if "action_masks" not in inspect.signature(model.predict).parameters:
            return blind, None

        def masked(observation: Any, info: dict[str, Any]) -> Any:
            return model.predict(observation, deterministic=True, action_masks=info["action_mask"])[0]

        return masked, blind
    if not callable(agent):
        raise ConfigError(f"agent is {shown(agent)}; it must be a policy, a model with predict, or a function")
    return agent, None


def _play(env: gym.Env[Any, Any], act: Act, seed: int) -> _Run:
    """One episode on the problem of a seed."""
    reset = getattr(act, "reset", None)
    observation, info = env.reset(seed=seed) if reset is None else reset(env, seed, None)
    lanes: Any = env.unwrapped.lanes  # type: ignore[attr-defined]
    problem = lanes.identity(0)
    total, steps, choices, over = 0.0, 0, 0, bool(lanes.over[0])
    while not over:
        choices += int(np.count_nonzero(info["action_mask"]) > 1)
        observation, reward, terminated, truncated, info = env.step(act(observation, info))
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    return _Run(total, steps, choices, float(info.get("illegal_share", 0.0)), problem)


def _score(runs: list[_Run]) -> Score:
    totals = np.array([run.total for run in runs])
    error = float(totals.std(ddof=1) / np.sqrt(len(totals))) if len(totals) > 1 else 0.0
    return Score(float(totals.mean()), error, float(np.mean([run.illegal for run in runs])))


def _drawn(training: gym.Env[Any, Any], seeds: range) -> set[str]:
    """Problems that training draws: all of a list, and those of some seeds of a generator."""
    lanes: Any = training.unwrapped.lanes  # type: ignore[attr-defined]
    found = set()
    for seed in seeds:
        for again in range(16 if lanes.source.generate is not None else 1):
            training.reset(seed=None if again else seed)
            found.add(lanes.identity(0))
    for item in lanes.source.items:
        training.reset(options={"problem": item} if "problem" in lanes.options else None)
        found.add(lanes.identity(0))
    return found


def _findings(audit: Audit) -> list[str]:
    """Reasons to doubt the returns."""
    agent, random = audit.scores["agent"], audit.scores["random"]
    blind = audit.scores.get("agent without masks", agent)
    worst = max(agent.illegal, blind.illegal)
    when = " without masks" if agent.illegal <= MOST_ILLEGAL else ""
    apart = agent.mean - random.mean > 2 * np.hypot(agent.error, random.error)
    found = {
        f"{worst:.0%} of the agent's actions are illegal{when}, and legal ones drawn at random replace them; give its "
        "predictions the masks": worst > MOST_ILLEGAL,
        f"{audit.overlap or 0:.0%} of the {audit.problems} problems are also drawn in training; evaluate with another "
        "split, or on other files": bool(audit.overlap),
        f"{audit.choice:.0%} of the steps have more than one legal action, so there is next to nothing to learn": (
            audit.choice < LEAST_CHOICE
        ),
        f"random legal actions reach a return of {random.mean:+.3f}, above the reference, so a positive return says "
        "nothing here": random.mean > 2 * random.error,
        f"the agent's return of {agent.mean:+.3f} is not above that of random legal actions, {random.mean:+.3f}": (
            not apart and audit.choice >= LEAST_CHOICE
        ),
        f"a discount of {audit.discount:g} weighs the last of {audit.steps:.0f} rewards with {audit.last_weight:.2f}; "
        "episodes end by themselves, so 1 is safe": audit.last_weight < LEAST_WEIGHT,
    }
    return [sentence for sentence, holds in found.items() if holds]
