"""Cost models: how long each operator takes on each device, and synthetic costs for random problems."""

from __future__ import annotations

from collections.abc import Callable

from hetgym.costs.protocol import CostModel
from hetgym.costs.roofline import Roofline
from hetgym.costs.synthetic import cvb_costs, edge_weights, range_based_costs, scale_communication, unrelated_costs
from hetgym.errors import unknown_name

COST_MODELS: dict[str, Callable[[], CostModel]] = {"auto": Roofline, "roofline": Roofline}
"""Name -> constructor; ``auto`` is the best model that needs nothing but the platform."""


def cost_model(name: str = "auto") -> CostModel:
    """The cost model of that name.

    Raises:
        UnknownName: no such model.

    >>> type(cost_model()).__name__
    'Roofline'
    """
    if name not in COST_MODELS:
        raise unknown_name("cost model", name, COST_MODELS)
    return COST_MODELS[name]()


__all__ = [
    "COST_MODELS",
    "CostModel",
    "Roofline",
    "cost_model",
    "cvb_costs",
    "edge_weights",
    "range_based_costs",
    "scale_communication",
    "unrelated_costs",
]
