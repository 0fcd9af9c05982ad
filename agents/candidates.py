"""CandidatePolicy: a trained policy that looks at candidates alone, without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from hetgym._config import check_number
from hetgym._types import FloatArray
from hetgym.agents.actions import COLUMNS, describe
from hetgym.agents.artefact import Weights, check_recipe, load_pair, save_pair
from hetgym.agents.inference import HeadWeights, decide, head_weights
from hetgym.agents.kinds import KINDS
from hetgym.agents.recipe import manner
from hetgym.baselines import GraphPlan
from hetgym.envs import schedule
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.pipeline import env as pipeline
from hetgym.envs.split import env as split
from hetgym.errors import ArtefactError, ConfigError, shown

FORMAT = "hetgym-candidate-policy"
LANES: dict[str, Callable[..., Lanes]] = {
    "place": schedule.lanes_of, "dispatch": schedule.lanes_of, "split": split.lanes_of, "pipeline": pipeline.lanes_of,
}  # fmt: skip
"""Kind of decision -> what makes episodes of the environment that asks for it."""

HEAD = "actor."
"""What names of a trained network's weights begin with that decide; the others describe graphs, or value states."""


class CandidatePolicy:
    """Decides by what each action would lead to: the likeliest action, the smaller number on ties.

    It is an :data:`~hetgym.agents.play.Agent` for ``observation="candidates"`` or ``"graph"``, of any sizes;
    :meth:`plan` lets it play on a problem. Decisions are worked out in float64 by compiled loops,
    the same on every machine.

    Args:
        weights: of an :class:`~hetgym.agents.networks.ActorCritic` of the level ``candidates``, by name.
        card: where they come from, as JSON values; ``network`` describes the network, ``recipe`` its training.

    Attributes:
        kind: of decision, one of :data:`~hetgym.agents.kinds.KINDS`.

    Raises:
        ArtefactError: they are not the weights of such a network.

    >>> import gymnasium as gym, hetgym
    >>> policy = hetgym.agents.load("pipeline-v1")
    >>> info = hetgym.agents.play(gym.make("HetPipeline-v0", observation="candidates"), policy, seed=0).info
    >>> info["value"] <= 1.02 * info["optimal"]
    True
    """

    def __init__(self, weights: Weights, card: Mapping[str, Any]) -> None:
        self.card = dict(card)
        network = self.card.get("network", {})
        view = network.get("view") if isinstance(network, dict) else None
        if not isinstance(view, str) or view not in COLUMNS or network.get("level") != "candidates":
            raise ArtefactError(f"not a policy that looks at candidates alone, but {shown(network)}")
        self.kind: str = view
        check_recipe(self.card)
        try:
            self._head: HeadWeights = head_weights(weights, HEAD)
        except (IndexError, KeyError, ValueError) as error:
            raise ArtefactError(f"not the weights of a candidate head ({error})") from error
        features, width = 2 * len(COLUMNS[self.kind]), len(self._head.score)
        shapes = ((features, width), (width,), (features, width), (width, width), (width,), (width,), (features,))
        if tuple(weight.shape for weight in self._head) != shapes:
            raise ArtefactError(f"the weights are of a {self.kind} policy with other features")
        if not all(np.isfinite(weight).all() for weight in self._head):
            raise ArtefactError("the weights of the policy are not finite")

    def __call__(self, observation: Observation, info: dict[str, Any]) -> int:
        """Decide in one environment."""
        if not isinstance(observation, dict):
            raise ConfigError("this policy takes observation='graph' or 'candidates', not flat observations")
        return int(self.decide({key: values[None] for key, values in observation.items()})[0])

    def decide(
        self, observations: Mapping[str, npt.NDArray[Any]], noise: FloatArray | None = None
    ) -> npt.NDArray[np.int64]:
        """[L] actions for L lanes.

        Args:
            observations: [L, …] by key.
            noise: [L, A] added to scores; none by default, Gumbel's to draw actions by their probability.

        Raises:
            ConfigError: observations of another kind of decision.
        """
        if np.shape(observations["candidates"])[-1] != len(KINDS[self.kind]):
            raise ConfigError(f"this policy takes observations of the kind {self.kind!r}")
        known = np.ascontiguousarray(describe(self.kind, observations, np), np.float64)
        legal = observations["action_mask"] > 0
        return decide(known, legal, np.zeros(legal.shape) if noise is None else noise, self._head)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that the policy expects, apart from problems, sizes and conditions."""
        return manner(self.card.get("recipe", {}).get("arguments", {})) | {"observation": "candidates"}

    def plan(
        self, problem: Any, platform: Any = None, *, samples: int | None = None,
        temperature: float | None = None, seed: int = 0, **arguments: Any,
    ) -> Any:  # fmt: skip
        """Plan by playing: the best of one greedy and of some sampled episodes, without noise and changes.

        Args:
            problem: for ``dispatch`` a :class:`~hetgym.Problem`, for ``pipeline`` a
                :class:`~hetgym.pipeline.PipelineProblem` or :class:`~hetgym.pipeline.TrainingPipeline`, for
                ``split`` a graph.
            platform: for ``split``: the devices.
            samples: number of episodes; what the card says by default.
            temperature: by which scores are divided in sampled episodes; likewise.
            seed: of the draws.
            arguments: of the environment.

        Returns:
            A :class:`~hetgym.Schedule` for ``dispatch``, a :class:`~hetgym.baselines.GraphPlan` for ``split``, and for
            ``pipeline`` the stages, (first block, block behind the last, device) each: those of the reference, one
            device or equal cuts, where no episode is better.

        Raises:
            ConfigError: see :meth:`play`.
        """
        where = {"graph": problem, "platform": platform} if self.kind == "split" else {"problem": problem}
        info = self.play(samples, temperature, seed, **where, **arguments)
        if self.kind == "split":
            return GraphPlan(info["split_graph"], info["split_problem"], info["schedule"])
        if self.kind == "pipeline":
            return info["stages" if info["value"] <= info["reference"] else "reference_stages"]
        return info["schedule"]

    def play(
        self, samples: int | None = None, temperature: float | None = None, seed: int = 0, **arguments: Any
    ) -> dict[str, Any]:
        """Play side by side, as :meth:`plan` does, and return the last info of the best episode.

        Args:
            samples: see :meth:`plan`.
            temperature: likewise.
            seed: likewise; also of the episodes, of which all are the same.
            arguments: of the environment; those of the training by default.

        Raises:
            ConfigError: not one episode, a temperature that is none, or an argument that there is not.
        """
        count = self.card.get("samples", 1) if samples is None else samples
        heat = self.card.get("temperature", 1.0) if temperature is None else temperature
        check_number(count, "samples", ConfigError, minimum=1, maximum=100_000)
        check_number(heat, "temperature", ConfigError, positive=True)
        if count != int(count):
            raise ConfigError(f"samples is {count}; it must be a whole number")
        try:
            lanes: Lanes = LANES[self.kind](int(count), **(self.arguments | arguments))
        except TypeError as error:
            raise ConfigError(f"the environment of the kind {self.kind!r}: {error}") from error
        for lane in range(lanes.count):
            lanes.begin(lane, seeding.np_random(seed)[0], {}, seed)
        rng = np.random.default_rng(seed)
        while not lanes.over.all():
            noise = np.zeros(lanes.mask.shape)
            if lanes.count > 1:
                noise[1:] = heat * rng.gumbel(size=noise[1:].shape)
            lanes.step(self.decide(dict(lanes.seen), noise), ~lanes.over)
        results = [lanes.result(lane) for lane in range(lanes.count)]
        return min(results, key=lambda result: float(result["makespan"]))


def save_policy(path: str | Path, weights: Weights, card: Mapping[str, Any]) -> None:
    """Write ``<path>.safetensors`` and ``<path>.json``.

    Args:
        path: without suffix.
        weights: of an :class:`~hetgym.agents.networks.ActorCritic`, by name; what does not decide is left out.
        card: see :class:`CandidatePolicy`.

    Raises:
        ArtefactError: they are not such weights, or a file cannot be written.
    """
    CandidatePolicy(weights, card)
    save_pair(path, FORMAT, {name: weight for name, weight in weights.items() if name.startswith(HEAD)}, card)


def load_policy(path: str | Path) -> CandidatePolicy:
    """Read what :func:`save_policy` wrote.

    Args:
        path: without suffix.

    Raises:
        ArtefactError: missing, damaged, or not such a policy; the message says which.
    """
    card, weights = load_pair(path, FORMAT)
    try:
        return CandidatePolicy(weights, card)
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error
