"""PlaceNetwork: the network of the place policy."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.encoder import OperatorDeviceEncoder
from hetgym.agents.networks.heads import CandidateHead

RULE = {"outlook": 20.0, "completion": 10.0, "path": 1.0}
"""Weights of the untrained policy's rule: the completion by a long and by short roll-outs, and PEFT's key on ties."""


class PlaceNetwork(nn.Module):
    r"""Scores devices for an operator by its embeddings and by the candidate features of each device.

    .. math:: \pi(d \mid i) = \operatorname{softmax}_d\ \mathrm{head}\big([x_{id}, h_{id}]\big)

    with :math:`h` from an :class:`~hetgym.agents.networks.OperatorDeviceEncoder` of size ``hidden``, computed once for
    each problem, and :math:`x_{id}` the candidate features, by name, at the operator's turn.

    Shapes:
        - **hidden** [B, D, H] embeddings of the operators whose turn it is, **seen** [B, D, F], **legal** [B, D].
        - **output** [B, D] logits.
    """

    def __init__(
        self,
        tokens: int,
        edge_features: int,
        candidates: tuple[str, ...],
        hidden: int = 16,
        layers: int = 2,
        width: int = 32,
    ) -> None:
        super().__init__()
        self.encoder = OperatorDeviceEncoder(tokens, edge_features, hidden, layers)
        rule = torch.tensor([RULE.get(name, 0.0) for name in candidates] + [0.0] * hidden)
        self.head = CandidateHead(len(candidates) + hidden, width, rule)

    def forward(self, hidden: Tensor, seen: Tensor, legal: Tensor) -> Tensor:
        """Score the devices; see the class for shapes."""
        found: Tensor = self.head(torch.cat([seen, hidden], -1), legal)
        return found
