"""CutPlanner: cuts pipelines by annealing for an objective and schedule, and follows its cuts as an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hetgym._input.config import read
from hetgym._input.times import as_seconds
from hetgym.baselines.pipeline import annealed_cut
from hetgym.envs.core.kinds import require_kind
from hetgym.envs.pipeline.problems import as_pipeline
from hetgym.pipeline import CutProblem, Objective, PipelineProblem, Stage, TrainingPipeline, cut_problem


class CutPlanner:
    """Cuts pipelines into stages; it is a :class:`~hetgym.agents.Policy` without trained parameters.

    The best cuts for the sum of loads are improved by small changes, each priced under the schedule; see
    :func:`~hetgym.baselines.pipeline.annealed_cut`.

    Attributes:
        card: empty: nothing was trained.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetPipeline-v0", objective="training", schedule="interleaved", observation="candidates")
    >>> planned = hetgym.agents.play(env, CutPlanner(), seed=0).info
    >>> sampled = hetgym.agents.load("pipeline-v1").play(objective="training", schedule="interleaved")
    >>> planned["value"] <= sampled["value"]
    True
    """

    kind = "pipeline"

    def __init__(self) -> None:
        self.card: dict[str, Any] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of HetPipeline-v0 that an episode of :meth:`agent` needs: none."""
        return {}

    def agent(self) -> CutAgent:
        """An agent for HetPipeline-v0 that follows the plan for the environment's objective."""
        return CutAgent()

    def plan(
        self,
        pipeline: PipelineProblem | TrainingPipeline,
        budget: str | float | None = None,
        *,
        tries: int | None = None,
        seed: int = 0,
        **objective: Any,
    ) -> tuple[Stage, ...]:
        """Cut a model into pipeline stages.

        Args:
            pipeline: the pipeline to cut.
            budget: wall-clock time, in seconds or as in ``"50ms"``; with it, results depend on the machine. The tables
                behind the first cuts are made before it counts.
            tries: largest number of changes tried, instead of a time: the result is the same on every machine.
            objective: fields of :class:`~hetgym.pipeline.Objective`; the throughput by default.

        Returns:
            The stages of the best cut found, never worse than the reference. Under ``"interleaved"`` there may be
            several rounds of them.

        Raises:
            ConfigError: an invalid budget or objective, or not a pipeline.
            ProblemError: no cut can run; see :func:`~hetgym.pipeline.cut_problem`.
        """
        seconds = as_seconds(budget)
        return annealed_cut(
            cut_problem(as_pipeline(pipeline), read(Objective, objective, "plan")), tries, seconds, seed
        )


class CutAgent:
    """An agent for HetPipeline-v0 whose actions are the stages of a cut, which it makes at the reset.

    In the environment every decision must leave a way to end with the running round. A cut of several rounds may lack
    that where memory is tight; then the agent takes a cut of fewer rounds.
    """

    def __init__(self) -> None:
        self._actions: list[int] = []
        self._turn = 0

    def reset(
        self, env: Any, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset an environment, and cut the pipeline that it draws.

        Returns:
            The environment's first observation and info.

        Raises:
            ConfigError: another environment.
        """
        lanes: Any = getattr(env.unwrapped, "lanes", None)
        require_kind("pipeline", lanes)
        observation, info = env.reset(seed=seed, options=options)
        cuts = lanes.instance(0)
        for rounds in range(cuts.objective.rounds, 0, -1):
            if rounds < cuts.objective.rounds:
                cuts = cut_problem(cuts.training, replace(lanes.rules.bare(), chunks=rounds))
            cut = annealed_cut(cuts)
            self._turn, self._actions = 0, [0] * len(cuts.names)
            for stage in cut:
                self._actions[stage.first] = 1 + stage.device
            if len(cut) == len({stage.device for stage in cut}) or self._is_legal(env, cuts):
                break
        if rounds < lanes.rules.rounds or lanes.state.turn[0] > 0:
            observation, info = env.reset(options={"problem": cuts.training})
        return observation, info

    def _is_legal(self, env: Any, cuts: CutProblem) -> bool:
        """Play the actions, and return True if all were legal."""
        env.reset(options={"problem": cuts.training})
        for action in self._actions:
            _, _, _, _, info = env.step(action)
        return bool(info["illegal_actions"] == 0)

    def __call__(self, observation: Any, info: Mapping[str, Any] | None = None) -> int:
        """The action at the next block; the arguments are ignored."""
        action = self._actions[self._turn]
        self._turn += 1
        return action
