"""The rules of episodes of HetPipeline-v0."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Literal

from hetgym.envs.core.arguments import Arguments, whole
from hetgym.pipeline.objective import MOST, Objective


@dataclass(frozen=True)
class PipelineRules(Arguments, Objective):
    """The rules of an episode: the objective, and the figures that are computed besides it."""

    _: KW_ONLY  # the fields of the objective again, as keyword-only arguments
    objective: Literal["throughput", "latency", "training"] = "throughput"
    requests: int = whole(Objective.requests, most=MOST)
    schedule: Literal["gpipe", "1f1b", "interleaved", "zb-h1"] = "1f1b"
    micro_batches: int = whole(Objective.micro_batches, most=MOST)
    chunks: int = whole(Objective.chunks, most=MOST)
    optimal: bool = True  # true to compute the optimum
    completion: bool = True  # true to show agents how well the rest can be cut

    def __post_init__(self) -> None:
        super().__post_init__()
        Objective.__post_init__(self)

    def bare(self) -> Objective:
        """The objective alone: the key of caches whose values depend on nothing else."""
        return Objective(**{field.name: getattr(self, field.name) for field in fields(Objective)})
