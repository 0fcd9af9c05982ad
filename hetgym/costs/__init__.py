"""Cost models: run times of operators on devices, and of collectives between them."""

from collections.abc import Callable

from hetgym.costs import artefact
from hetgym.costs.automatic import AutoCosts, load_costs, named
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
from hetgym.costs.explanation import Explanation
from hetgym.costs.learned import LearnedCosts
from hetgym.costs.protocol import CostModel
from hetgym.costs.roofline import Roofline, occupancy
from hetgym.device import Device
from hetgym.errors import ConfigError, shown, unknown_name
from hetgym.graph.ops import Operator

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


def explain(operator: Operator, device: Device, costs: str | CostModel = "auto") -> Explanation:
    """Why an operator has its price on a device: the model, its class, the bound, the learned ratio and the rules.

    Args:
        operator: the operator.
        device: the device.
        costs: see :func:`cost_model`, with errors; a model without a method ``explain`` is explained by its answers.

    >>> from hetgym import load_platform
    >>> from hetgym.graph import Tensor
    >>> x, w = Tensor((1, 4096), "bfloat16"), Tensor((4096, 4096), "bfloat16", constant=True)
    >>> product = Operator("q_proj", "MatMul", (x, w), (x,))
    >>> found = explain(product, load_platform("cpu-gpu")["cpu"])
    >>> found.model, found.category, found.bound
    ('xeon-core', 'Gemm', 'memory')
    """
    model = cost_model(costs)
    own = getattr(model, "explain", None)
    found = own(operator, device) if callable(own) else CostModel.explain(model, operator, device)
    return named(found, costs if isinstance(costs, str) and costs not in COST_MODELS else "")


__all__ = [
    "COST_MODELS", "LINKS", "AutoCosts", "CostModel", "Explanation", "LearnedCosts", "Links", "Roofline",
    "all_gather_seconds", "all_reduce_seconds", "all_to_all_seconds", "collective_seconds", "cost_model", "explain",
    "load_costs", "occupancy", "reduce_scatter_seconds", "send_seconds",
]  # fmt: skip
