"""Pretrained policies: trained, measured and shipped with the package, by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hetgym.agents.place.artefact import load_planner
from hetgym.agents.place.planner import PlacePlanner
from hetgym.errors import unknown_name

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Names of the shipped policies."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


@cache
def load(name: str) -> PlacePlanner:
    """A shipped policy, ready to plan; it needs no PyTorch.

    Args:
        name: see :func:`names`.

    Raises:
        UnknownName: no such policy.

    >>> import hetgym
    >>> planner = hetgym.agents.load("place-v1")
    >>> planner(hetgym.workloads.textbook("topcuoglu")).makespan
    73.0
    """
    if name not in names():
        raise unknown_name("policy", name, names())
    return load_planner(FOLDER / name)
