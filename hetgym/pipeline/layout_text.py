"""Layouts of stages as people write them: numbers of layers, or the text that Megatron Core takes.

In ``--pipeline-model-parallel-layout`` of Megatron Core, ``E`` stands for the words, ``t`` for a layer, ``m`` for a
layer that predicts further tokens, ``L`` for the head with its loss, and ``|`` for the end of a stage. ``*n`` repeats
the letter or the group in parentheses before it; commas mean nothing.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from hetgym._sums import summed
from hetgym.errors import ConfigError

MOST = 10_000  # Most letters of a layout, repeated ones included
_GROUP = re.compile(r"\(([^()]*)\)(?:\*(\d{1,5}))?|([EtmL|])\*(\d{1,5})")


class StageText(NamedTuple):
    """A stage of a layout."""

    layers: int  # number of layers
    words: bool | None = None  # whether it has what is before the layers; None if the layout does not say
    head: bool | None = None  # whether it has what is behind the layers; None likewise


def read_layout(text: str) -> list[StageText]:
    """The stages of a layout; none of an empty text.

    Raises:
        ConfigError: neither numbers nor a layout of Megatron Core.

    >>> read_layout("2,1")
    [StageText(layers=2, words=None, head=None), StageText(layers=1, words=None, head=None)]
    >>> [stage.layers for stage in read_layout("Et*3|(tt|)*3,m|L")]
    [3, 2, 2, 2, 1, 0]
    """
    numbers = text.replace(",", " ").split()
    if all(word.isascii() and word.isdigit() and 0 < len(word) < 6 and int(word) for word in numbers):
        return [StageText(int(word)) for word in numbers]
    stages = _written_out(text).split("|")
    plain = "".join(stages)
    if plain.count("E") > 1 or plain.count("L") > 1 or not all(stages):
        raise ConfigError(f"--layout {text}: a stage is empty, or has E or L a second time")
    return [StageText(stage.count("t") + stage.count("m"), "E" in stage, "L" in stage) for stage in stages]


def _written_out(text: str) -> str:
    """A layout of Megatron Core without repetitions, groups and commas."""
    left = "".join(text.split()).replace(",", "")
    while (found := _GROUP.search(left)) and len(left) <= MOST:
        group, times, letter, count = found.groups()
        repeated = (letter or group) * min(MOST + 1, int(count or times or 1))
        left = left[: found.start()] + repeated + left[found.end() :]
    if len(left) > MOST or not re.fullmatch("[EtmL|]+", left):
        raise ConfigError(
            f"--layout {text[:80]}: expected whole numbers of at least 1 separated by commas, as in 9,8,8,7, or a "
            "layout of Megatron Core, as in Et*9|t*8|t*8|t*7L"
        )
    return left


def counts_of(stages: Sequence[StageText], roles: Sequence[str]) -> list[int]:
    """Number of parts in each stage: layers, and what is before and behind them.

    A layout of numbers may count the layers alone, then the first stage also has what is before them, and the last what
    is behind them; or all parts.

    Args:
        stages: see :func:`read_layout`.
        roles: [n] see :func:`~hetgym.pipeline.programs.roles_of`.

    Raises:
        ConfigError: another number of layers, or words or a head elsewhere than in the first and the last stage.

    >>> counts_of(read_layout("2,1"), ["words", "layer", "layer", "layer", "head"])
    [3, 2]
    """
    before, layers, behind = (list(roles).count(role) for role in ("words", "layer", "head"))
    placed = summed(stage.layers for stage in stages)
    if stages[0].words is None and placed == len(roles):
        return [stage.layers for stage in stages]
    if placed != layers:
        parts = f", or {len(roles)} with what is before and behind them" if len(roles) > layers else ""
        raise ConfigError(f"--layout places {placed} layers; there are {layers}{parts}")
    others = (any(stage.words for stage in stages[1:]), any(stage.head for stage in stages[:-1]))
    missing = (before and stages[0].words is False, behind and stages[-1].head is False)
    if any(others) or any(missing):
        raise ConfigError("--layout: the first stage must have E, and the last one L")
    counts = [stage.layers for stage in stages]
    counts[0] += before
    counts[-1] += behind
    return counts
