"""ProposalNetwork: the network behind :mod:`hetgym.planning.proposals` and :mod:`hetgym.agents.splits.moves`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.errors import ConfigError, unknown_name
from hetgym.planning.proposals import FEATURES, Network

RARE = -3.0
"""Logarithm of the odds of a move of which a rule has no opinion."""


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

    def begin_as(self, rule: Mapping[str, float], names: Sequence[str]) -> None:
        """Initialise new weights so that the moves of the least weighted sum of inputs have the greatest odds.

        Two units hold the rule, one a constant; the others begin without effect.

        Args:
            rule: weights by name of the input.
            names: of all inputs.

        Raises:
            UnknownName: no such input.
            ConfigError: fewer than three hidden units.
        """
        if len(self.enter.bias) < 3:
            raise ConfigError(f"a network that begins as a rule has 3 hidden units or more, not {len(self.enter.bias)}")
        with torch.no_grad():
            self.leave.weight.zero_()
            self.enter.weight[:3], self.enter.bias[:3] = 0.0, torch.tensor([0.0, 0.0, 1.0])
            self.leave.weight[0, :3] = torch.tensor([-1.0, 1.0, RARE])
            for name, weight in rule.items():
                if name not in names:
                    raise unknown_name("input of the network", name, names)
                place = list(names).index(name)
                self.enter.weight[0, place], self.enter.weight[1, place] = weight, -weight

    def compiled(self) -> Network:
        """The weights for the search, in float64."""
        enter, bias, leave = (
            weight.detach().numpy().astype(np.float64)
            for weight in (self.enter.weight, self.enter.bias, self.leave.weight)
        )
        return Network(np.ascontiguousarray(enter.T), bias, leave[0])
