"""ProposalNetwork: the network behind :mod:`hetgym.planning.proposals` and :mod:`hetgym.agents.splits.moves`."""

from __future__ import annotations

import numpy as np

from hetgym.agents.networks._torch import Tensor, nn
from hetgym.planning.proposals import FEATURES, Network


class ProposalNetwork(nn.Module):
    r"""Estimates the odds that a move makes a plan shorter, by what is seen of it.

    .. math:: \log\text{odds} = w^\top \max(0,\ W x + b)

    Args:
        hidden: number of hidden units.
        features: number of inputs, F.

    Shapes:
        - **inputs** [B, F], by default :data:`~hetgym.planning.proposals.FEATURES`.
        - **output** [B] logarithms of odds.
    """

    def __init__(self, hidden: int = 16, features: int = len(FEATURES)) -> None:
        super().__init__()
        self.enter = nn.Linear(features, hidden)
        self.leave = nn.Linear(hidden, 1, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Judge a batch; see the class for shapes."""
        found: Tensor = self.leave(nn.functional.relu(self.enter(inputs)))[:, 0]
        return found

    def compiled(self) -> Network:
        """The weights for the search, in float64."""
        enter, bias, leave = (
            weight.detach().numpy().astype(np.float64)
            for weight in (self.enter.weight, self.enter.bias, self.leave.weight)
        )
        return Network(np.ascontiguousarray(enter.T), bias, leave[0])
