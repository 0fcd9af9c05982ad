"""The rules of episodes of HetSchedule-v0, and those that HetDispatch-v0 shares."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

from hetgym.envs.core.arguments import Arguments, one_of
from hetgym.errors import check_name
from hetgym.planning.layer_rules import LAYER_RULES
from hetgym.sim import Objective, Runtime
from hetgym.sim import objective as as_objective
from hetgym.sim.objective import OBJECTIVES
from hetgym.sim.runtime import runtime as as_runtime

JOB_TIME = "job-time"


@dataclass(frozen=True)
class ScheduleRules(Arguments):
    """The rules that episodes have before and during a run; see :class:`~hetgym.envs.HetScheduleEnv` for the values."""

    _: KW_ONLY
    runtime: str | Runtime = "classic"  # the simulated runtime: a preset's name or a Runtime
    completion: Literal["off", "eft", "eft+oct"] = "eft+oct"
    objective: str | Objective = "makespan"

    job_times: ClassVar[bool] = False  # true if the mean time of jobs may be the objective, too

    def __post_init__(self) -> None:
        super().__post_init__()
        as_runtime(self.runtime)
        known = (*OBJECTIVES, JOB_TIME) if self.job_times else OBJECTIVES
        if isinstance(self.objective, str) and not {"=", ","} & set(self.objective):
            check_name("objective", self.objective, known)
        _ = self.weighed  # refuses what is no objective

    @property
    def simulated(self) -> Runtime:
        """The runtime as an object."""
        return as_runtime(self.runtime)

    @property
    def weighed(self) -> Objective | None:
        """The objective where energy or rent count; None for the makespan and the time of jobs."""
        time = isinstance(self.objective, str) and self.objective in ("makespan", JOB_TIME)
        return None if time else as_objective(self.objective)


@dataclass(frozen=True)
class PlaceRules(ScheduleRules):
    """The rules of an episode of HetSchedule-v0; :class:`~hetgym.envs.HetScheduleEnv` describes them."""

    _: KW_ONLY
    decode: Literal["insertion", "append", "bottom-level", "best"] = "insertion"
    memory: Literal["ignore", "mask"] = "ignore"
    target: str = ""  # the program that is to run the placement; empty: any placement is legal

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.target, str) or self.target:
            one_of("target", self.target, tuple(LAYER_RULES))
