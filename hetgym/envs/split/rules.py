"""The rules of episodes of HetSplit-v0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from hetgym.baselines import get
from hetgym.costs import CostModel, cost_model
from hetgym.envs.core.arguments import Arguments, real, whole
from hetgym.envs.split.menu import PARTS, Choice, menu
from hetgym.errors import ConfigError, shown
from hetgym.graph.transforms import AXES
from hetgym.sim import Runtime
from hetgym.sim.runtime import runtime as as_runtime


@dataclass(frozen=True)
class SplitRules(Arguments):
    """The rules of an episode; see :class:`~hetgym.envs.HetSplitEnv` for the values."""

    _: KW_ONLY
    fused: bool = False  # true to fuse graphs first
    costs: str | CostModel = "auto"  # cost model, or the name of one
    scheduler: str = "heft"  # name of the inner scheduler
    runtime: str | Runtime = "classic"  # the simulated runtime that prices its schedules
    key_operators: int = whole(12)  # largest number of decisions in an episode
    axes: Sequence[str] = AXES  # of the menu
    ways: int | Sequence[int] | None = None
    parts: Sequence[str] = PARTS  # rules of parts of the menu
    granularity: float = real(0.002, below=1.0)
    multiple: int = whole(1)  # lengths of parts are multiples of this, except for the last one
    divisible: bool = True  # true if equal parts must have exactly the same length
    memory: Literal["ignore", "mask"] = "ignore"
    lookahead: bool = False  # true to compute the makespan after each choice
    completion: bool = False  # true to compute the makespan after each choice with the rest split by the pattern

    def __post_init__(self) -> None:
        super().__post_init__()
        if as_runtime(self.runtime).memory == "enforce":
            raise ConfigError("a runtime that enforces memory ends episodes: use memory='mask' of the environment")
        if not isinstance(self.scheduler, str):
            raise ConfigError(f"scheduler is {shown(self.scheduler)}; it must be a scheduler's name")
        get(self.scheduler)
        cost_model(self.costs)
        self.menu(2)

    @property
    def simulated(self) -> Runtime:
        """The runtime as an object."""
        return as_runtime(self.runtime)

    def menu(self, devices: int) -> tuple[Choice, ...]:
        """The choices for platforms of up to ``devices`` devices; see :func:`hetgym.envs.split.menu.menu`."""
        return menu(self.axes, _numbers(self.ways, devices), self.parts)


def _numbers(ways: Any, devices: int) -> Sequence[int]:
    """Numbers of parts: the given list, 2 to the given number, or 2 to the number of devices."""
    if ways is None:
        return range(2, devices + 1)
    if isinstance(ways, int) and not isinstance(ways, bool) and 2 <= ways <= 4096:
        return range(2, ways + 1)
    if isinstance(ways, list | tuple) and ways:
        return ways
    raise ConfigError(
        f"ways is {shown(ways)}; expected the largest number of parts, of at least 2, or a list of numbers"
    )
