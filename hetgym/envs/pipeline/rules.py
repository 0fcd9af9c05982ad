"""Rules of episodes that cut pipelines."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym.pipeline.objective import Objective


@dataclass(frozen=True)
class Rules(Objective):
    """What an episode is played by: the objective, and how much is worked out beside it.

    Attributes:
        optimal: whether the optimum is worked out.
        completion: whether agents see how well the rest can be cut.
    """

    optimal: bool = True
    completion: bool = True
