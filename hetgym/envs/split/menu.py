"""The menu of HetSplit-v0: the ways of splitting an operator, and the lengths of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetgym.errors import ConfigError, GraphError, shown, unknown_name
from hetgym.graph.ops import Operator
from hetgym.graph.transforms import AXES, sizes
from hetgym.graph.transforms.pieces import Cut

PARTS = ("equal", "proportional")
"""Rules of parts by default: all of equal length, or with lengths proportional to the speeds of the devices."""

STEPS = 16
RULES = (*PARTS, "sixteenths")
"""All rules of parts. ``sixteenths`` stands for the ratios 15:1, 14:2, … 9:7 of two parts: as
elsewhere, the fastest device's part comes first."""


class Choice(NamedTuple):
    """An entry of the menu."""

    axis: str  # one of AXES; empty = leave the operator whole
    ways: int  # number of parts
    # one of PARTS, or the share of the first of two parts, such as `"13/16"`; empty = leave the operator whole
    parts: str

    def __str__(self) -> str:
        return f"{self.axis} x{self.ways} {self.parts}" if self.axis else "leave"

    @property
    def sixteenths(self) -> int:
        """Sixteenths that the first of two parts gets; 0 if a rule of :data:`PARTS` says what parts get."""
        return int(self.parts.partition("/")[0]) if "/" in self.parts else 0


LEAVE = Choice("", 1, "")


def menu(axes: Sequence[str], ways: Sequence[int], parts: Sequence[str]) -> tuple[Choice, ...]:
    """All combinations; the first leaves the operator whole.

    Args:
        axes: names out of :data:`hetgym.graph.transforms.AXES`.
        ways: numbers of parts, at least 2 each; an empty list leaves only the entry that does not split.
        parts: names out of :data:`RULES`.

    Raises:
        UnknownName: an unknown axis, or an unknown rule of parts.
        ConfigError: an empty list or a repeated entry, or an invalid number of parts.

    >>> [str(choice) for choice in menu(["batch"], [2, 3], ["equal"])]
    ['leave', 'batch x2 equal', 'batch x3 equal']
    >>> [str(choice) for choice in menu(["output"], [2, 3], ["sixteenths"])][:3]
    ['leave', 'output x2 15/16', 'output x2 14/16']
    """
    for what, given, known in (("axis", axes, AXES), ("parts", parts, RULES)):
        if (
            isinstance(given, str)
            or not isinstance(given, list | tuple)
            or not given
            or not all(isinstance(name, str) for name in given)
            or len(set(given)) < len(given)
        ):
            raise ConfigError(f"the menu's {what} is {shown(given)}; expected a list of different names out of {known}")
        for name in given:
            if name not in known:
                raise unknown_name(what, name, known)
    for count in ways:
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
            raise ConfigError(f"the menu's ways are {shown(list(ways))}; expected whole numbers of at least 2")
    if len(set(ways)) < len(ways):
        raise ConfigError(f"the menu's ways are {shown(list(ways))}; one of them is repeated")
    return LEAVE, *(
        Choice(axis, int(count), how)
        for axis in axes
        for count in ways
        for rule in parts
        for how in _ratios(rule, count)
    )


def _ratios(rule: str, ways: int) -> tuple[str, ...]:
    """The rule itself, or the ratios that it stands for."""
    if rule in PARTS:
        return (rule,)
    return tuple(f"{STEPS - k}/{STEPS}" for k in range(1, STEPS // 2)) if ways == 2 else ()


def lengths(
    op: Operator,
    choice: Choice,
    seconds: Sequence[float],
    multiple: int = 1,
    divisible: bool = True,
    found: Cut | None = None,
) -> tuple[int, ...] | None:
    """Lengths of the parts of an operator along the split axis; None if it cannot be split in this way.

    Proportional parts follow the speeds of the fastest devices, rounded. If they, or parts in a ratio of sixteenths,
    come out equal to the parts of the equal entry, they are not offered.

    Args:
        seconds: [d] its run time on each device; inf where it cannot run.
        multiple: lengths of parts are multiples of this, except for the last one.
        divisible: true if equal parts must have exactly the same length; otherwise they are rounded, too.
        found: the cut along the axis of the choice, if it is known.
    """
    able = sorted(value for value in seconds if np.isfinite(value))
    if choice.ways > len(able):
        return None
    equal = _sizes(op, choice.axis, choice.ways, multiple, found)
    if equal is not None and divisible and len(set(equal)) > 1:
        equal = None
    if choice.parts == "equal":
        return equal
    share = choice.sixteenths / STEPS
    ratios = [share, 1.0 - share] if share else [1.0 / max(value, 1e-30) for value in able[: choice.ways]]
    uneven = _sizes(op, choice.axis, ratios, multiple, found)
    return None if uneven == equal else uneven


def _sizes(
    op: Operator, axis: str, parts: int | Sequence[float], multiple: int, found: Cut | None
) -> tuple[int, ...] | None:
    try:
        return sizes(op, axis, parts, multiple, found)
    except GraphError:
        return None  # no such axis, or a part would be empty
