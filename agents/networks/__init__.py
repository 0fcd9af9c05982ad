"""Networks in PyTorch and PyTorch Geometric, for graphs and platforms of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.agents.networks.actor_critic import ActionFeatures as ActionFeatures
    from hetgym.agents.networks.actor_critic import ActorCritic as ActorCritic
    from hetgym.agents.networks.encoder import OperatorDeviceEncoder as OperatorDeviceEncoder
    from hetgym.agents.networks.heads import CandidateHead as CandidateHead
    from hetgym.agents.networks.heads import ValueHead as ValueHead
    from hetgym.agents.networks.pyg import to_batch as to_batch
    from hetgym.agents.networks.pyg import to_data as to_data
    from hetgym.agents.networks.pyg import to_hetero_data as to_hetero_data
    from hetgym.agents.sizes import Sizes as Sizes

lazy(__name__)
