"""Sizes of networks, in a module of their own so that recipes can be read without PyTorch."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from hetgym._input.config import check_number
from hetgym.errors import ConfigError


@dataclass(frozen=True)
class Sizes:
    """Sizes of an :class:`~hetgym.agents.networks.ActorCritic`.

    Attributes:
        hidden: size of the hidden layers of the heads.
        embedding: size of the encoder's embeddings; not used at the level ``candidates``.
        layers: number of the encoder's layers; not used at the level ``candidates``.

    Raises:
        ConfigError: an invalid size.
    """

    hidden: int = 64
    embedding: int = 32
    layers: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_number(value, name, ConfigError, minimum=1, maximum=4096)
