"""Cost models: run times of operators on devices, and of collectives between them."""

from __future__ import annotations

from collections.abc import Callable

from hetgym.costs import artefact
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
from hetgym.errors import ConfigError, shown, unknown_name

COST_MODELS: dict[str, Callable[[], CostModel]] = {"auto": AutoCosts, "roofline": Roofline}
"""Name -> constructor; ``auto`` takes the fitted model that a device names, or the roofline if it names none."""


def cost_model(costs: str | CostModel = "auto") -> CostModel:
    """Return a cost model unchanged, or make the one of a given name.

    Args:
        costs: a model; or a name of :data:`COST_MODELS` or of a shipped fitted model (``hetgym list costs``); or the
            path of an ``.npz`` file that ``hetgym fit`` wrote. A fitted model prices every device, whatever model the
            device names.

    Raises:
        UnknownName: no such model.
        ArtefactError: the file is missing or damaged.
        ConfigError: neither a cost model nor a name.

    >>> type(cost_model()).__name__
    'AutoCosts'
    """
    if not isinstance(costs, str):
        if not callable(getattr(costs, "predict", None)):
            raise ConfigError(f"costs is {shown(costs)}; it must be a cost model or the name of one")
        return costs
    if costs in COST_MODELS:
        return COST_MODELS[costs]()
    if costs in artefact.names() or costs.endswith(".npz"):
        return load_costs(costs)
    raise unknown_name("cost model", costs, [*COST_MODELS, *artefact.names()])


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
