"""The rules of episodes of HetImprove-v0."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from hetgym.envs.core.arguments import Arguments, real, whole, whole_number
from hetgym.errors import ConfigError, shown
from hetgym.planning.registry import get
from hetgym.sim import Runtime
from hetgym.sim.runtime import runtime as as_runtime

ACCEPT = ("always", "better", "metropolis")


@dataclass(frozen=True)
class ImproveRules(Arguments):
    """The rules of an episode; :class:`~hetgym.envs.HetImproveEnv` describes them."""

    _: KW_ONLY
    runtime: str | Runtime = "classic"
    start: str = "random"
    steps: int | None = whole(None)
    moves: int | Literal["turn"] | None = 16
    tabu: int = whole(0, least=0)
    gains: bool = True
    accept: Literal["always", "better", "metropolis"] = "always"
    heat: float = real(0.003)
    cooling: float = real(0.01, below=1.0 + 1e-9)
    memory: Literal["ignore", "mask"] = "ignore"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_runtime(self.runtime)
        if self.moves is not None and not (isinstance(self.moves, str) and self.moves == "turn"):
            whole_number("moves", self.moves, 1)
        if not isinstance(self.start, str):
            raise ConfigError(f"start is {shown(self.start)}; it must be 'random' or the name of a scheduler")
        if self.start != "random":
            get(self.start)

    @property
    def simulated(self) -> Runtime:
        """The runtime as an object."""
        return as_runtime(self.runtime)

    def budget(self, operators: int) -> int:
        """Steps of an episode on a problem of a number of operators."""
        passes = 1 if self.moves == "turn" else 2
        return passes * operators if self.steps is None else self.steps

    def actions(self, operators: int, devices: int) -> int:
        """Number of actions for padded sizes."""
        if isinstance(self.moves, int):
            return self.moves
        return devices if self.moves == "turn" else operators * devices
