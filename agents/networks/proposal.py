"""ProposalNetwork: the network behind :mod:`hetgym.search.proposals` and :mod:`hetgym.agents.splits.moves`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hetgym.agents.inference import proposal_network
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.errors import ConfigError, unknown_name
from hetgym.search.proposals import FEATURES, Network

RARE = -3.0  # Logarithm of the odds of a move of which a rule has no opinion
CONSTANT = 1e-6  # Standard deviation up to which an input is taken to be always the same


class ProposalNetwork(nn.Module):
    r"""Estimates the odds that a move makes a plan shorter, by what is seen of it.

    .. math:: \log\text{odds} = w^\top \max(0,\ W (x - \mu) / \sigma + b)

    For ``mean`` and ``spread``, [F] :math:`\mu` and :math:`\sigma`, see :meth:`standardise`.

    Shapes:
        - **inputs** [B, F], by default :data:`~hetgym.search.proposals.FEATURES`.
        - **output** [B] logarithms of odds.
    """

    def __init__(self, hidden: int = 16, features: int = len(FEATURES)) -> None:
        super().__init__()
        self.enter = nn.Linear(features, hidden)
        self.leave = nn.Linear(hidden, 1, bias=False)
        self.mean: Tensor
        self.spread: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """Judge a batch; see the class for shapes."""
        units = nn.functional.relu(self.enter((inputs - self.mean) / self.spread))
        found: Tensor = self.leave(units)[:, 0]
        return found

    def standardise(self, inputs: Tensor) -> None:
        """Standardise inputs from now on as these [B, F] need it: one step of training changes all alike.

        Inputs that are all equal are left in their own units. The weights stay, and mean something else.
        """
        self.mean.copy_(inputs.mean(0))
        spread = inputs.std(0, correction=0)
        self.spread.copy_(torch.where(spread > CONSTANT, spread, torch.ones_like(spread)))

    def begin_as(self, rule: Mapping[str, float], names: Sequence[str]) -> None:
        """Initialise weights so that the moves of the least weighted sum of inputs, by name, have the greatest odds.

        Two units hold the rule, one a constant; the others begin without effect.

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
                for unit, factor in enumerate((weight, -weight)):
                    self.enter.weight[unit, place] = factor * self.spread[place]
                    self.enter.bias[unit] += factor * self.mean[place]

    def folded(self) -> dict[str, npt.NDArray[np.float32]]:
        """The weights of inputs that are not standardised, by name, as files hold them."""
        enter, bias, mean, spread = (
            part.detach().numpy().astype(np.float64)
            for part in (self.enter.weight, self.enter.bias, self.mean, self.spread)
        )
        enter = enter / spread
        return {
            "enter.weight": enter.astype(np.float32),
            "enter.bias": (bias - (enter * mean).sum(1)).astype(np.float32),
            "leave.weight": self.leave.weight.detach().numpy().copy(),
        }

    def compiled(self) -> Network:
        """The weights for the search, in float64."""
        return proposal_network(self.folded(), len(self.mean), "proposal")
