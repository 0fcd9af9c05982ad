"""Sizes of networks, apart from them, so that recipes are read without PyTorch."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from hetgym._config import check_number
from hetgym.errors import ConfigError


@dataclass(frozen=True)
class Sizes:
    """Sizes of an :class:`~hetgym.agents.networks.ActorCritic`.

    Attributes:
        hidden: of the hidden layers of the heads.
        embedding: of the encoder; without use at the level ``candidates``.
        layers: of the encoder, likewise.

    Raises:
        ConfigError: a size that is none.
    """

    hidden: int = 64
    embedding: int = 32
    layers: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_number(value, name, ConfigError, minimum=1, maximum=4096)
