"""CutPlanner: cuts pipelines by annealing for an objective and schedule, and follows its cuts as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hetgym._input.config import read
from hetgym._input.times import as_seconds
from hetgym.agents.planner import Start, UntrainedPlanner
from hetgym.baselines.pipeline import annealed_cut
from hetgym.envs.pipeline.problems import as_pipeline
from hetgym.pipeline import CutProblem, Objective, PipelineProblem, Stage, TrainingPipeline, cut_problem


class CutPlanner(UntrainedPlanner):
    """Cuts pipelines into stages; it is a :class:`~hetgym.agents.Policy` without trained parameters.

    The best cuts for the sum of loads are improved by small changes, each priced under the schedule; see
    :func:`~hetgym.baselines.pipeline.annealed_cut`.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetPipeline-v0", objective="training", schedule="interleaved", observation="candidates")
    >>> planned = hetgym.agents.play(env, CutPlanner(), seed=0).info
    >>> sampled = hetgym.agents.load("pipeline-v1").play(objective="training", schedule="interleaved")
    >>> planned["value"] <= sampled["value"]
    True
    """

    kind = "pipeline"

    def begin(self, env: Any, lanes: Any, start: Start) -> tuple[Sequence[int], Start]:
        """The actions of a cut for an episode of HetPipeline-v0 and its objective.

        There every decision must leave a way to end with the running round. A cut of several rounds may lack that where
        memory is tight; then a cut of fewer rounds is taken.
        """
        cuts = lanes.instance(0)
        for rounds in range(cuts.objective.rounds, 0, -1):
            if rounds < cuts.objective.rounds:
                cuts = cut_problem(cuts.training, replace(lanes.rules.bare(), chunks=rounds))
            cut, actions = annealed_cut(cuts), [0] * len(cuts.names)
            for stage in cut:
                actions[stage.first] = 1 + stage.device
            if len(cut) == len({stage.device for stage in cut}) or _is_legal(env, cuts, actions):
                break
        if rounds < lanes.rules.rounds or lanes.state.turn[0] > 0:
            return actions, env.reset(options={"problem": cuts.training})
        return actions, start

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


def _is_legal(env: Any, cuts: CutProblem, actions: list[int]) -> bool:
    """Play the actions, and return True if all were legal."""
    env.reset(options={"problem": cuts.training})
    for action in actions:
        _, _, _, _, info = env.step(action)
    return bool(info["illegal_actions"] == 0)
