"""Draws that all mutations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Rng = np.random.Generator

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 64, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**53, 2**62, 2**63, 2**64, -(2**63), 10**30, 10**400,
    0.5, -0.5, 1e-300, 1e300, 1e15, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
"""Numbers that are likely to break readers."""


def pick(some: Sequence[Any], rng: Rng) -> Any:
    """An item drawn with equal probabilities."""
    return some[int(rng.integers(len(some)))]
