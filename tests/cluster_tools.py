"""Runs that are small enough to be trained several times in a test."""

from __future__ import annotations

from typing import Any

SMALL = {"operators": [8, 16]}


def place_labelling(steps: int) -> dict[str, Any]:
    """Fields of a recipe that has each of its five problems played once at least in two updates.

    Args:
        steps: updates.
    """
    return {
        "algorithm": "place-labelling",
        "env": "HetSchedule-v0",
        "steps": steps,
        "checkpoint_every": 2,
        "network": {"hidden": 8, "embedding": 4, "layers": 1},
        "settings": {
            "problems": 3,
            "samples": 4,
            "search": 500,
            "learning_rate": 1e-2,
            "curriculum": [{"kind": "random", "count": 5, "arguments": SMALL}],
        },
        "evaluation": {"every": 2, "episodes": 4, "baselines": ["reference"], "arguments": {"generator": SMALL}},
    }
