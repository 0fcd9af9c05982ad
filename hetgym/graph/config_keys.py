"""Keys of a ``config.json``, checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetgym.errors import GraphError, shown

LARGEST = 1 << 24  # of a size: published models have up to 262 208 words and layers 53 248 wide
MOST_LAYERS = 1000


class Keys:
    """The numbers of a configuration; a missing one is collected in ``missing``, and 1 stands for it.

    Args:
        config: the mapping of the file.
        where: the file, for messages.
        usual: numbers that published files of the family leave out; those that are used are collected in ``assumed``.
    """

    def __init__(self, config: Mapping[str, Any], where: str, usual: Mapping[str, int] | None = None) -> None:
        self.config, self.where = config, where
        self.usual = usual or {}
        self.missing: list[str] = []
        self.assumed: dict[str, int] = {}

    def whole(self, *names: str, default: int | None = None, low: int = 1, most: int = LARGEST) -> int:
        """The first of some keys that is stated, a whole number; ``default`` if none is.

        Raises:
            GraphError: not a whole number from ``low`` to ``most``.
        """
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= most:
                raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be a whole number, {low} to {most}")
            return value
        if names[0] in self.usual:
            self.assumed[names[0]] = self.usual[names[0]]
            return self.usual[names[0]]
        if default is None:
            self.missing.append(names[0])
            return max(1, low)
        return default

    def flag(self, name: str | bool, default: bool = False) -> bool:
        """A key that is true or false, or that value; ``default`` if the key is not stated."""
        if isinstance(name, bool):
            return name
        value = self.config.get(name)
        if value is not None and not isinstance(value, bool):
            raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be true or false")
        return default if value is None else value

    def wholes(self, name: str) -> tuple[int, ...]:
        """A key that is a list of whole numbers; empty if it is not stated."""
        value = self.config.get(name) or ()
        if not isinstance(value, list | tuple) or not all(type(x) is int for x in value):
            raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be a list of whole numbers")
        return tuple(value)

    def words(self, name: str) -> tuple[str, ...]:
        """A key that is a list of texts; empty if it is not stated."""
        value = self.config.get(name) or ()
        if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
            raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be a list of texts")
        return tuple(value)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole("hidden_size", "n_embd", "n_embed")

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.whole("num_hidden_layers", "n_layer", "num_layers", most=MOST_LAYERS)

    @property
    def heads(self) -> int:
        """Heads of queries."""
        return self.whole("num_attention_heads", "n_head", most=1 << 16)

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values.

        Raises:
            GraphError: they do not divide the heads of queries.
        """
        heads = self.heads
        count = self.whole("num_key_value_heads", default=heads, most=1 << 16)
        if heads % count:
            raise GraphError(f"{self.where}: {count} heads of keys and values do not divide {heads} heads")
        return count

    @property
    def head_size(self) -> int:
        """Numbers of a head: ``head_dim``, else its share of the hidden size."""
        stated = self.config.get("head_dim")
        if stated is None and self.hidden % self.heads and not self.missing:
            raise GraphError(
                f"{self.where}: {self.heads} heads do not divide hidden_size {self.hidden}; state head_dim"
            )
        return self.whole("head_dim", default=max(1, self.hidden // self.heads))
