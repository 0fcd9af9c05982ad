"""Networks in PyTorch and PyTorch Geometric, for graphs and platforms of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.agents.networks.actor_critic import ActionFeatures, ActorCritic
    from hetgym.agents.networks.encoder import OperatorDeviceEncoder
    from hetgym.agents.networks.heads import CandidateHead, ValueHead
    from hetgym.agents.networks.pyg import to_batch, to_data, to_hetero_data
    from hetgym.agents.sizes import Sizes

_HOME = {
    "hetgym.agents.networks.actor_critic": ("ActionFeatures", "ActorCritic"),
    "hetgym.agents.networks.encoder": ("OperatorDeviceEncoder",),
    "hetgym.agents.networks.heads": ("CandidateHead", "ValueHead"),
    "hetgym.agents.networks.pyg": ("to_batch", "to_data", "to_hetero_data"),
    "hetgym.agents.sizes": ("Sizes",),
}

__all__ = [
    "ActionFeatures",
    "ActorCritic",
    "CandidateHead",
    "OperatorDeviceEncoder",
    "Sizes",
    "ValueHead",
    "to_batch",
    "to_data",
    "to_hetero_data",
]

__getattr__ = lazy(__name__, _HOME)
