"""Networks: what learns, in PyTorch and PyTorch Geometric; sizes of graphs and platforms are free everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.agents.networks.actor_critic import ActionFeatures, ActorCritic
    from hetgym.agents.networks.encoder import OperatorDeviceEncoder
    from hetgym.agents.networks.heads import CandidateHead, ValueHead
    from hetgym.agents.sizes import Sizes

_HOME = {
    "hetgym.agents.networks.actor_critic": ("ActionFeatures", "ActorCritic"),
    "hetgym.agents.networks.encoder": ("OperatorDeviceEncoder",),
    "hetgym.agents.networks.heads": ("CandidateHead", "ValueHead"),
    "hetgym.agents.sizes": ("Sizes",),
}

__all__ = ["ActionFeatures", "ActorCritic", "CandidateHead", "OperatorDeviceEncoder", "Sizes", "ValueHead"]

__getattr__ = lazy(__name__, _HOME)
