"""What :func:`hetgym.plan_llm` answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceShare:
    """What a device holds."""

    name: str
    layers: int  # layers whose attention and cache are there
    experts: int  # layers whose experts are there
    weights_bytes: float
    cache_bytes: float
    buffers_bytes: float
    reserve_bytes: float
    free_bytes: float


@dataclass(frozen=True)
class Rate:
    """Tokens a second: most measured rates lie between ``low`` and ``high``."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Option:
    """Another way to run the model."""

    name: str  # what differs
    decode_tokens_per_second: float | None  # None if it does not fit
    prefill_tokens_per_second: float | None
    flags: str = ""


@dataclass(frozen=True)
class Given:
    """How a split that a user gave compares with the best one."""

    fits: bool
    devices: tuple[DeviceShare, ...]
    decode_tokens_per_second: float  # whether it fits or not
    of_best: float  # that rate over the best split's
    change: Option | None  # the one change that gains most; None if none gains


@dataclass(frozen=True)
class LlmPlan:
    """The answer of :func:`plan_llm`."""

    model: str
    platform: str
    target: str
    context: int
    devices: tuple[DeviceShare, ...]
    stages: tuple[tuple[str, int, int], ...]  # device, its first layer and the one behind its last, in model order
    decode_tokens_per_second: Rate  # of one sequence, with a full cache
    empty_tokens_per_second: Rate  # the same with an empty one
    prefill_tokens_per_second: Rate
    first_token_seconds: float  # of that prompt
    largest_context: int  # without a byte more on the CPU
    largest_context_flags: str
    options: tuple[Option, ...]  # layer or tensor split
    free_of_rules: Option  # without the limits of the program
    flags: str
    given: Given | None = None  # the split that was asked about

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values; keys are the names of the fields."""
        return asdict(self)
