"""GDP: embed the whole graph, then place all operators at once.

Source: Zhou et al., "GDP: Generalized device placement for dataflow graphs", arXiv 1910.01578, 2019. As there, a
GraphSAGE network with max-pooling embeds the operators, a transformer attends over all of them, an embedding of the
whole graph modulates the result (*superposition*, so that one network serves many graphs), and a device is drawn for
every operator given the graph alone, never given other decisions.

Differences:

- Each operator is embedded on each device by its run time there, so weights depend on no device; GDP has an output for
  each device, by number.
- Attention is over the whole graph instead of segments with memory (Transformer-XL); graphs here are small.
- The environment asks for one operator at a time, but nothing seen depends on earlier decisions: the plan is one shot.
  Orders are those of the environment. GDP's authors let TensorFlow order operators.
- Messages go along edges in both directions, each with weights of its own.
- Training first imitates CPGC, planned for the runtime, then continues by REINFORCE against the mean over several plans
  of the same graph. GDP uses PPO from the start.
"""

from __future__ import annotations

from hetgym.agents.methods.graph_features import FEATURES, GraphFeatures, in_graph_units
from hetgym.agents.networks._geometric import MessagePassing
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.encoder import graph_mean
from hetgym.agents.networks.views import Seen
from hetgym.agents.sizes import Sizes


class MaxPool(MessagePassing):
    r"""Largest over an operator's neighbours of :math:`\sigma(W x + U e)`, device by device; 0 without neighbours.

    Shapes: as :class:`~hetgym.agents.networks.encoder.NeighbourMean`.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(aggr="max", node_dim=0)
        self.node = nn.Linear(hidden, hidden)
        self.edge = nn.Linear(1, hidden, bias=False)

    def forward(self, x: Tensor, edges: Tensor, edge_features: Tensor) -> Tensor:
        """Send messages along the edges and pool them; see the class for shapes."""
        found: Tensor = self.propagate(edges, x=self.node(x), e=self.edge(edge_features)[:, None, :])
        return found

    def message(self, x_j: Tensor, e: Tensor) -> Tensor:
        """[M, D, outputs] the message along each edge."""
        return torch.sigmoid(x_j + e)


class WholeGraph(nn.Module):
    r"""GraphSAGE layers :math:`h \leftarrow \rho(V [h, \mathrm{pool}])`, attention over operators, superposition.

    Shapes: as :class:`~hetgym.agents.networks.OperatorDeviceEncoder`.
    """

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(FEATURES, hidden)
        self.before = nn.ModuleList(MaxPool(hidden) for _ in range(layers))
        self.after = nn.ModuleList(MaxPool(hidden) for _ in range(layers))
        self.join = nn.ModuleList(nn.Linear(4 * hidden, hidden) for _ in range(layers))
        self.attend = nn.TransformerEncoderLayer(hidden, 2, 2 * hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.whole = nn.Linear(hidden, hidden)

    def forward(self, tokens: Tensor, edges: Tensor, edge_features: Tensor, graph: Tensor, present: Tensor) -> Tensor:
        """Embed the pairs of operators and devices; see the class for shapes."""
        weight = present.to(tokens.dtype)[..., None]
        tokens, edge_features = in_graph_units(tokens, edge_features, edges, graph)
        hidden = torch.relu(self.embed(tokens))
        for before, after, join in zip(self.before, self.after, self.join, strict=True):
            others = (hidden * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1.0)
            pools = before(hidden, edges, edge_features), after(hidden, edges.flip(0), edge_features)
            hidden = torch.relu(join(torch.cat([hidden, others.expand_as(hidden), *pools], -1)))
        count = torch.bincount(graph)
        place = torch.arange(len(graph)) - (count.cumsum(0) - count)[graph]  # of an operator within its graph
        dense = hidden.new_zeros((len(count), int(count.max()), *hidden.shape[1:]))
        dense[graph, place] = hidden
        blank = torch.arange(dense.shape[1]) >= count[:, None]
        rows = dense.transpose(1, 2).flatten(0, 1)  # a sequence of operators for each graph and device
        rows = self.attend(rows, src_key_padding_mask=blank.repeat_interleave(hidden.shape[1], 0))
        hidden = rows.view(len(count), hidden.shape[1], -1, hidden.shape[2]).transpose(1, 2)[graph, place]
        return hidden * torch.sigmoid(self.whole(graph_mean(hidden, graph, weight))) * weight


class Gdp(GraphFeatures):
    """The embedding of the current operator on each device, and nothing else; see the module."""

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        super().__init__(view, level, sizes, WholeGraph(sizes.embedding, sizes.layers))
        self.size = sizes.embedding

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the actions by the graph alone."""
        return self.norm(self.view.embeddings(seen, *self.encoder(seen))), seen["action_mask"] > 0
