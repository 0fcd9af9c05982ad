"""OperatorDeviceEncoder: a dataflow graph on a platform, seen operator by operator and device by device."""

from __future__ import annotations

from hetgym.agents.networks._geometric import MessagePassing
from hetgym.agents.networks._torch import Tensor, nn, torch


class OperatorDeviceEncoder(nn.Module):
    r"""Embeds every (operator, device) pair of dataflow graphs, with messages along both edge directions.

    A layer lets the pair :math:`(i, d)` see the operator on the other devices, its neighbours in the graph, and
    what else could run on the device:

    .. math::
        h_{id} \leftarrow h_{id} + \mathrm{MLP}\big[\hat h_{id},\ \bar h_{i},\
        \operatorname*{mean}_{j \to i} \rho(A\,[\hat h_{jd}, \bar h_{j}] + B\, e_{ji}),\
        \operatorname*{mean}_{i \to j} \rho(A'[\hat h_{jd}, \bar h_{j}] + B' e_{ij}),\
        \operatorname*{mean}_{j \in G} \hat h_{jd}\big]

    with :math:`\hat h` the layer-normalised embedding, :math:`\bar h_i` its mean over devices and
    :math:`\rho` the rectifier. No parameter depends on a device or a size: permuting the devices
    permutes the embeddings, and the same weights serve graphs of any size on any number of devices.

    Args:
        features: number of features F of a pair.
        edge_features: number of features E of an edge.
        hidden: size H of the embeddings.
        layers: number of layers; each extends the receptive field by one edge.

    Shapes:
        - **tokens** [N, D, F], **edges** [2, M] producer and consumer, **edge_features** [M, E],
          **graph** [N] number of the graph that an operator belongs to, 0 first,
          **present** [N, D], False for padding (all pairs by default).
        - **output** [N, D, H].
    """

    def __init__(self, features: int, edge_features: int, hidden: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.layers = nn.ModuleList(Layer(hidden, edge_features) for _ in range(layers))

    def forward(
        self, tokens: Tensor, edges: Tensor, edge_features: Tensor, graph: Tensor, present: Tensor | None = None
    ) -> Tensor:
        """Embed the pairs; see the class for shapes."""
        weight = torch.ones(tokens.shape[:2]) if present is None else present.to(tokens.dtype)
        weight = weight.to(tokens.device)[..., None]
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = layer(hidden, edges, edge_features, graph, weight)
        return hidden


class Layer(nn.Module):
    """One layer of the encoder; see :class:`OperatorDeviceEncoder`."""

    def __init__(self, hidden: int, edge_features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.inputs = NeighbourMean(2 * hidden, edge_features, hidden)
        self.outputs = NeighbourMean(2 * hidden, edge_features, hidden)
        self.update = nn.Sequential(nn.Linear(5 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))

    def forward(self, hidden: Tensor, edges: Tensor, edge_features: Tensor, graph: Tensor, weight: Tensor) -> Tensor:
        """[N, D, H] the pairs after the layer; ``weight`` [N, D, 1] is 0 for padding."""
        seen = self.norm(hidden) * weight
        others = (seen.sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1.0)).expand_as(seen)
        pair = torch.cat([seen, others], -1)
        before = self.inputs(pair, edges, edge_features)
        after = self.outputs(pair, edges.flip(0), edge_features)
        update = self.update(torch.cat([seen, others, before, after, graph_mean(seen, graph, weight)], -1))
        return (hidden + update) * weight


class NeighbourMean(MessagePassing):
    """Mean over an operator's neighbours of ``relu(A x + B e)``, device by device; zero without neighbours.

    Shapes:
        - **pair** [N, D, inputs], **edges** [2, M] sender and receiver, **edge_features** [M, E].
        - **output** [N, D, outputs].
    """

    def __init__(self, inputs: int, edge_features: int, outputs: int) -> None:
        super().__init__(aggr="mean", node_dim=0)
        self.node = nn.Linear(inputs, outputs)
        self.edge = nn.Linear(edge_features, outputs, bias=False)

    def forward(self, pair: Tensor, edges: Tensor, edge_features: Tensor) -> Tensor:
        """Send messages along the edges and average them; see the class for shapes."""
        found: Tensor = self.propagate(edges, x=self.node(pair), e=self.edge(edge_features)[:, None, :])
        return found

    def message(self, x_j: Tensor, e: Tensor) -> Tensor:
        """[M, D, outputs] the message along each edge."""
        return torch.relu(x_j + e)


def graph_mean(values: Tensor, graph: Tensor, weight: Tensor) -> Tensor:
    """[N, D, H] mean over the operators of the same graph on the same device, without padding."""
    graphs = int(graph.max()) + 1 if len(graph) else 0
    total = values.new_zeros((graphs, *values.shape[1:])).index_add_(0, graph, values)
    count = weight.new_zeros((graphs, *weight.shape[1:])).index_add_(0, graph, weight)
    return (total / count.clamp(min=1.0))[graph]
