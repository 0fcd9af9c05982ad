"""The rules of episodes of HetSchedule-v0, and those that HetDispatch-v0 shares."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from hetgym.envs.core.arguments import Arguments
from hetgym.sim import Runtime
from hetgym.sim.runtime import runtime as as_runtime


@dataclass(frozen=True)
class ScheduleRules(Arguments):
    """The rules that episodes have before and during a run; see :class:`~hetgym.envs.HetScheduleEnv` for the values."""

    _: KW_ONLY
    runtime: str | Runtime = "classic"  # the simulated runtime: a preset's name or a Runtime
    completion: Literal["off", "eft", "eft+oct"] = "eft+oct"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_runtime(self.runtime)

    @property
    def simulated(self) -> Runtime:
        """The runtime as an object."""
        return as_runtime(self.runtime)


@dataclass(frozen=True)
class PlaceRules(ScheduleRules):
    """The rules of an episode of HetSchedule-v0; :class:`~hetgym.envs.HetScheduleEnv` describes them."""

    _: KW_ONLY
    decode: Literal["insertion", "append", "bottom-level", "best"] = "insertion"
    memory: Literal["ignore", "mask"] = "ignore"
