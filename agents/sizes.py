"""Sizes of networks, in a module of their own so that recipes can be read without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym._input.config import check_number
from hetgym.errors import ConfigError, shown


@dataclass(frozen=True)
class Sizes:
    """Sizes of an :class:`~hetgym.agents.networks.ActorCritic`.

    Attributes:
        hidden: size of the hidden layers of the heads.
        embedding: size of the encoder's embeddings; not used at the level ``candidates``.
        layers: number of the encoder's layers, 0 for no messages; not used at the level ``candidates``.
        features: import path of the class that describes actions, derived from
            :class:`~hetgym.agents.networks.ActionFeatures`, such as ``my_package.module:Attention``; empty for that
            class itself.

    Raises:
        ConfigError: an invalid size.
    """

    hidden: int = 64
    embedding: int = 32
    layers: int = 2
    features: str = ""

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding", "layers"):
            check_number(getattr(self, name), name, ConfigError, minimum=name != "layers", maximum=4096)
        if self.features and ":" not in self.features:
            raise ConfigError(f"features is {shown(self.features)}; it must be an import path, such as 'module:Name'")
