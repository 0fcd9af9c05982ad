"""Curriculum: the problems that a policy is trained on, a fixed number that depends on the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetgym._input.config import check_number, read
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.workloads import RandomMix, RealMix
from hetgym.workloads.device_networks import DeviceNetworks
from hetgym.workloads.generated_mix import GeneratedMix
from hetgym.workloads.job_shops import JobShops
from hetgym.workloads.tiled_mix import TiledMix

Distribution = RandomMix | GeneratedMix | RealMix | JobShops | TiledMix | DeviceNetworks
KINDS: dict[str, type[Distribution]] = {
    "random": RandomMix,
    "generated": GeneratedMix,
    "real": RealMix,
    "job-shops": JobShops,
    "tiled": TiledMix,
    "device-networks": DeviceNetworks,
}
"""Distributions from which a part of a curriculum can be drawn."""


@dataclass(frozen=True)
class Part:
    """Problems of one distribution. Raises ConfigError: no such kind, or arguments that it does not have."""

    kind: str  # one of KINDS
    count: int  # number of problems
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the distribution

    def __post_init__(self) -> None:
        check_number(self.count, "count", ConfigError, minimum=1, maximum=1_000_000)
        if self.kind not in KINDS:
            raise ConfigError(f"a part of a curriculum is one of {', '.join(KINDS)}, not {self.kind!r}")
        self.distribution()

    def distribution(self) -> Distribution:
        """The distribution from which the part is drawn."""
        found: Distribution = read(KINDS[self.kind], self.arguments, "curriculum", "arguments")
        return found


def draw(parts: Sequence[Part], seed: int) -> Iterator[Problem]:
    """Draw the problems of a curriculum, part after part.

    Each problem has a generator of its own, seeded with ``seed``, the number of the part and its number in the part.
    """
    for number, part in enumerate(parts):
        distribution = part.distribution()
        for k in range(part.count):
            yield distribution(np.random.default_rng([seed, number, k]))
