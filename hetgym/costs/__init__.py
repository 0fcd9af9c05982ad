"""Cost models: run times of operators on devices, and of collectives between them."""

from __future__ import annotations

from collections.abc import Callable

from hetgym.costs.automatic import AutoCosts, load_costs
from hetgym.costs.collectives import (
    LINKS,
    Links,
    all_gather_seconds,
    all_reduce_seconds,
    all_to_all_seconds,
    collective_seconds,
    reduce_scatter_seconds,
    send_seconds,
)
from hetgym.costs.learned import LearnedCosts
from hetgym.costs.protocol import CostModel
from hetgym.costs.roofline import Roofline, occupancy
from hetgym.errors import unknown_name

COST_MODELS: dict[str, Callable[[], CostModel]] = {"auto": AutoCosts, "roofline": Roofline}
"""Name -> constructor; ``auto`` takes the fitted model that a device names, or the roofline if it names none."""


def cost_model(name: str = "auto") -> CostModel:
    """Make the cost model of a given name.

    Raises:
        UnknownName: no such model.

    >>> type(cost_model()).__name__
    'AutoCosts'
    """
    if name not in COST_MODELS:
        raise unknown_name("cost model", name, COST_MODELS)
    return COST_MODELS[name]()


__all__ = [
    "COST_MODELS",
    "LINKS",
    "AutoCosts",
    "CostModel",
    "LearnedCosts",
    "Links",
    "Roofline",
    "all_gather_seconds",
    "all_reduce_seconds",
    "all_to_all_seconds",
    "collective_seconds",
    "cost_model",
    "load_costs",
    "occupancy",
    "reduce_scatter_seconds",
    "send_seconds",
]
