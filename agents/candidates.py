"""Policies that use candidate features alone, in compiled code without PyTorch: a class for each decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.agents.actions import CANDIDATES, COLUMNS, describe
from hetgym.agents.artefact import PolicyFiles, Weights, check_recipe
from hetgym.agents.inference import HeadWeights, decide, head_weights
from hetgym.agents.play import check_features
from hetgym.agents.recipe import manner
from hetgym.agents.sampling import Sampler
from hetgym.envs.core.kinds import IDS
from hetgym.envs.core.lanes import Lanes
from hetgym.envs.core.sources import as_platform
from hetgym.envs.pipeline.problems import as_pipeline
from hetgym.errors import ArtefactError, ConfigError, shown
from hetgym.graph import DataflowGraph
from hetgym.pipeline import PipelineProblem, TrainingPipeline
from hetgym.planning.graph_plan import GraphPlan
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.workloads import as_problem

HEAD = "actor."
"""Prefix of the weights that score actions; the other weights of a trained network embed graphs or value states."""


class CandidatePolicy(Sampler):
    """Takes the most probable action given the candidates' features, the smaller number on ties.

    It is an :data:`~hetgym.agents.play.Agent` for ``observation="candidates"`` or ``"graph"`` of any size.
    Scores are computed in float64 by compiled loops, so decisions are the same on every machine. Subclasses, one for
    each kind of decision, add a method ``plan`` that plays episodes.

    Args:
        weights: weights of an :class:`~hetgym.agents.networks.ActorCritic` of the level ``candidates``, by name.
        card: their origin, as JSON values; ``network`` describes the network, ``recipe`` its training, ``arguments``
            the environment of a rule.

    Attributes:
        kind: kind of decision, one of :data:`~hetgym.agents.actions.COLUMNS`.

    Raises:
        ArtefactError: the weights are not those of such a network.

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
            raise ArtefactError(f"the weights belong to a {self.kind} policy with other features")
        if not all(np.isfinite(weight).all() for weight in self._head):
            raise ArtefactError("the weights of the policy are not finite")

    def decide(
        self, observations: Mapping[str, npt.NDArray[Any]], noise: FloatArray | None = None
    ) -> npt.NDArray[np.int64]:
        """As :meth:`Sampler.decide`. Raises ConfigError: observations of another environment."""
        width = np.shape(observations["candidates"])[-1]
        if width != len(CANDIDATES[self.kind]):
            raise ConfigError(
                f"this policy plays {IDS[self.kind]}, whose candidates have {len(CANDIDATES[self.kind])} features; "
                f"these observations have {width}"
            )
        known = np.ascontiguousarray(describe(self.kind, observations, np), np.float64)
        legal = observations["action_mask"] > 0
        return decide(known, legal, np.zeros(legal.shape) if noise is None else noise, self._head)

    def check(self, lanes: Lanes) -> None:
        """Refuse another environment, or one whose candidate features mean something other than in training.

        Raises:
            ConfigError: see :func:`~hetgym.agents.play.check_features`.
        """
        check_features(self.kind, self.arguments, lanes)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that the policy expects, apart from problems, sizes and conditions."""
        return manner(self.card.get("recipe", self.card).get("arguments", {})) | {"observation": "candidates"}


class SchedulePolicy(CandidatePolicy):
    """Decides in HetSchedule-v0, HetDispatch-v0 or HetImprove-v0."""

    def plan(self, problem: Problem, /, **playing: Any) -> Schedule:
        """Schedule a problem by :meth:`play`, without noise and changes."""
        schedule: Schedule = self.play(problem=as_problem(problem), **playing)["schedule"]
        return schedule


class SplitPolicy(CandidatePolicy):
    """Decides in HetSplit-v0."""

    def plan(self, graph: DataflowGraph, /, platform: Platform, **playing: Any) -> GraphPlan:
        """Split a graph's operators between devices by :meth:`play`, and schedule the result."""
        info = self.play(graph=graph, platform=as_platform(platform), **playing)
        return GraphPlan(info["split_graph"], info["split_problem"], info["schedule"])


class PipelinePolicy(CandidatePolicy):
    """Decides in HetPipeline-v0."""

    def plan(self, pipeline: PipelineProblem | TrainingPipeline, /, **playing: Any) -> list[tuple[int, int, int]]:
        """Cut a model into pipeline stages by :meth:`play`.

        Returns (first block, block after the last, device) of each stage. If no episode is better than the reference (a
        single device or an equal cut), the stages of the reference.
        """
        info = self.play(problem=as_pipeline(pipeline), **playing)
        better = "stages" if info["value"] <= info["reference"] else "reference_stages"
        stages: list[tuple[int, int, int]] = info[better]
        return stages


CLASSES: dict[str, type[CandidatePolicy]] = {
    "place": SchedulePolicy,
    "dispatch": SchedulePolicy,
    "split": SplitPolicy,
    "pipeline": PipelinePolicy,
    "improve": SchedulePolicy,
}
"""Kind of decision -> class of its policies."""


def candidate_policy(weights: Weights, card: Mapping[str, Any]) -> Any:
    """A policy of the class given by its card; for arguments and errors see :class:`CandidatePolicy`."""
    network = card.get("network")
    kind = network.get("view") if isinstance(network, dict) else None
    return CLASSES.get(str(kind), CandidatePolicy)(weights, card)


FILES: PolicyFiles[Any] = PolicyFiles("hetgym-candidate-policy", candidate_policy, HEAD)
"""The files of these policies; of a network's weights they hold those that score actions."""
