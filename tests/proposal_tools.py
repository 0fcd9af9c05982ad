"""Weights of proposal networks for the tests of the policies that search with them."""

from __future__ import annotations

from typing import Any

import numpy as np


def weights(features: int, seed: int = 0, hidden: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"enter.weight": (hidden, features), "enter.bias": (hidden,), "leave.weight": (1, hidden)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def same(a: Any, b: Any) -> bool:
    """True if two trainings have equal networks."""
    return all(np.array_equal(*pair) for pair in zip(a.network.compiled(), b.network.compiled(), strict=True))
