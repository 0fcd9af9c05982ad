"""ListNetwork: the network of list policies."""

from __future__ import annotations

import math

from hetgym.agents.lists.decoder import COUNT
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.encoder import OperatorDeviceEncoder

TEMPERATURE = 0.08  # of the untrained policy


class ListNetwork(nn.Module):
    r"""Says for each operator what the decoder of :mod:`hetgym.agents.lists.decoder` needs.

    .. math:: q_i = q^0_i + u_1(\bar h_i), \quad b_{id} = b^0_{id} + v(h_{id}), \quad
        (w_i, \log \tau_i) = u_2(\bar h_i)

    with :math:`h` from an :class:`~hetgym.agents.networks.OperatorDeviceEncoder`, its mean :math:`\bar h` over devices,
    and two perceptrons that are zero at first: the untrained policy is a rule, the shortest of a few plans of PEFT.

    Args:
        tokens, edge_features: number of features of a pair and of an edge.
        hidden: size of the embeddings; 0 for a linear map of the features.
        layers: number of layers; 0 for none, so that no operator sees another one.
        whole: number of outputs for an operator, bonuses aside; the last one is the logarithm of the temperature.

    Shapes:
        - **tokens** [N, D, F], **edges** [2, M], **edge_features** [M, E], **graph** [N], **base** [N, 1 + D]:
          priorities and bonuses of the untrained policy.
        - **output** [N, D + whole].
    """

    def __init__(
        self, tokens: int, edge_features: int, hidden: int = 32, layers: int = 3, whole: int = COUNT + 2
    ) -> None:
        super().__init__()
        self.encoder = OperatorDeviceEncoder(tokens, edge_features, hidden, layers) if hidden else None
        self.pair, self.operator = _head(hidden or tokens, hidden, 1), _head(hidden or tokens, hidden, whole)
        with torch.no_grad():
            _last(self.operator).bias[-1] = math.log(TEMPERATURE)

    def forward(self, tokens: Tensor, edges: Tensor, edge_features: Tensor, graph: Tensor, base: Tensor) -> Tensor:
        """Look at graphs with equally many devices; see the class for shapes."""
        hidden = tokens if self.encoder is None else self.encoder(tokens, edges, edge_features, graph)
        bonus, whole = self.pair(hidden)[..., 0], self.operator(hidden.mean(1))
        return torch.cat([base[:, :1] + whole[:, :1], base[:, 1:] + bonus, whole[:, 1:]], 1)


def _head(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """A perceptron, or a linear map if ``hidden`` is 0, whose last layer is zero."""
    first = [nn.Linear(inputs, hidden), nn.ReLU()] if hidden else []
    head = nn.Sequential(*first, nn.Linear(hidden or inputs, outputs))
    nn.init.zeros_(_last(head).weight)
    nn.init.zeros_(_last(head).bias)
    return head


def _last(head: nn.Sequential) -> nn.Linear:
    last = head[-1]
    assert isinstance(last, nn.Linear)
    return last
