"""The rules that episodes of HetPipeline-v0 are played by."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Literal

from hetgym.envs.core.arguments import Arguments, whole
from hetgym.pipeline.objective import MOST, Objective


@dataclass(frozen=True)
class PipelineRules(Arguments, Objective):
    """The rules of an episode: the objective, and the figures that are worked out beside it.

    Attributes:
        optimal: whether the optimum is worked out.
        completion: whether agents see how well the rest can be cut.
    """

    _: KW_ONLY  # the fields of the objective once more, as arguments that are given by name
    objective: Literal["throughput", "latency", "training"] = "throughput"
    requests: int = whole(Objective.requests, most=MOST)
    schedule: Literal["gpipe", "1f1b", "interleaved", "zb-h1"] = "1f1b"
    micro_batches: int = whole(Objective.micro_batches, most=MOST)
    chunks: int = whole(Objective.chunks, most=MOST)
    optimal: bool = True
    completion: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        Objective.__post_init__(self)

    def bare(self) -> Objective:
        """The objective alone: a key for what depends on nothing else, whatever problems the rules hold."""
        return Objective(**{field.name: getattr(self, field.name) for field in fields(Objective)})
