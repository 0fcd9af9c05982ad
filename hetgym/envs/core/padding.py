"""Padding: the sizes to which observations are padded, so that problems of any size have the same shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, TypeVar

import numpy as np

from hetgym.envs.core.arguments import Arguments, whole
from hetgym.errors import ConfigError, ProblemError

Sizes = TypeVar("Sizes", bound="Padding")


@dataclass(frozen=True)
class Padding:
    """Sizes to which observations are padded; the fields of subclasses name them.

    The environment's argument ``max_<field>`` sets a field.
    """

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def chosen(cls: type[Sizes], known: Sizes | None, *given: int | None) -> Sizes:
        """The padding that the caller asked for, completed by the sizes that the source needs.

        Args:
            known: sizes that the source needs; None if they cannot be known.
            given: sizes that the caller asks for, in the order of the fields; None = as large as needed.

        Raises:
            ConfigError: a size that is neither given nor known.
        """
        names = [field.name for field in fields(cls)]
        if known is None and None in given:
            missing = names[given.index(None)]
            raise ConfigError(f"a generator of problems has no known size: pass max_{missing}=…")
        needed: Iterable[Any] = known.sizes.values() if known is not None else given
        return cls(*(int(need if size is None else size) for size, need in zip(given, needed, strict=True)))

    @classmethod
    def largest(cls: type[Sizes], all_sizes: Iterable[Sizes]) -> Sizes:
        """The largest of each size."""
        return cls(*np.max([list(one.sizes.values()) for one in all_sizes], axis=0).tolist())

    def check(self, name: str, sizes: Sequence[int]) -> None:
        """Refuse a problem that exceeds the padding.

        Args:
            sizes: its sizes, in the order of the fields.

        Raises:
            ProblemError: a size is too large; the message names it and the argument to raise.
        """
        for (what, limit), size in zip(vars(self).items(), sizes, strict=True):
            if size > limit:
                raise ProblemError(
                    f"problem {name!r} has {size} {what}, observations are padded to {limit}; "
                    f"pass max_{what}={size} or more"
                )


@dataclass(frozen=True)
class GraphPadding(Padding):
    """Sizes of observations of graphs."""

    operators: int  # largest number of operators
    edges: int  # largest number of edges
    devices: int  # largest number of devices


@dataclass(frozen=True)
class GraphSizes(Arguments):
    """Arguments that set the padding of observations of graphs; manuals describe them."""

    _: KW_ONLY
    max_operators: int | None = whole(None)
    max_edges: int | None = whole(None, least=0)
    max_devices: int | None = whole(None)

    def padding(self, known: GraphPadding | None) -> GraphPadding:
        """The padding; for ``known`` and errors see :meth:`Padding.chosen`."""
        return GraphPadding.chosen(known, self.max_operators, self.max_edges, self.max_devices)


@dataclass(frozen=True)
class BlockPadding(Padding):
    """Sizes of observations of pipelines."""

    blocks: int  # largest number of blocks
    devices: int  # largest number of devices
