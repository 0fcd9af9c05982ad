"""The table of all rules, and the options of an operator on one axis."""

from __future__ import annotations

from hetgym.graph.ops import Operator
from hetgym.sharding.rules.gradients import Adjoint, backward_options, loss_options, update_options
from hetgym.sharding.rules.indices import Indices, Option, Rule, options
from hetgym.sharding.rules.moves import MOVES
from hetgym.sharding.rules.pointwise import POINTWISE
from hetgym.sharding.rules.products import PRODUCTS

RULES: dict[str, Rule] = {**PRODUCTS, **POINTWISE, **MOVES}
"""Kind of operator -> the rule that labels its dimensions. Fused operators follow the rule of their anchor."""

FUSED = ("Conv", "ConvTranspose", "MatMul", "Gemm")
"""Anchors of fused operators whose rules hold for the whole."""

_UPDATE, _LOSS = "/update", "loss"  # end of the names of updates, and name of the loss; see transforms.training


def axis_options(op: Operator, adjoint: Adjoint | None = None) -> list[Option]:
    """Options of an operator on one axis, full replication first.

    Args:
        op: the operator.
        adjoint: of a backward operator, how it belongs to its forward operator; without it a backward operator can
            only be replicated.
    """
    if op.kind.startswith("Gradient-"):
        if adjoint is not None:
            return backward_options(adjoint, options(indices(adjoint.forward), adjoint.forward))
        if is_update(op):
            return update_options(op)
        return loss_options(op) if is_loss(op) else options(None, op)
    return options(indices(op), op)


def indices(op: Operator) -> Indices | None:
    """Letters of an operator by its rule; None without one."""
    anchor = str(op.attributes.get("anchor", op.kind))
    rule = RULES.get(anchor if anchor in FUSED else op.kind)
    return None if rule is None else rule(op)


def has_rule(op: Operator, adjoint: Adjoint | None = None) -> bool:
    """Whether a rule knows an operator's kind and understands its shapes, so that it need not be replicated."""
    if op.kind.startswith("Gradient-"):
        return is_update(op) or is_loss(op) or (adjoint is not None and has_rule(adjoint.forward))
    return indices(op) is not None


def is_update(op: Operator) -> bool:
    """Whether an operator of a training step changes a weight."""
    return op.kind == "Gradient-elementwise" and op.name.endswith(_UPDATE) and bool(op.inputs)


def is_loss(op: Operator) -> bool:
    """Whether an operator of a training step is the loss."""
    return op.kind == "Gradient-elementwise" and op.name == _LOSS and "forward" not in op.attributes
