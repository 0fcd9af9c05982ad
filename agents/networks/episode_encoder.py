"""EpisodeEncoder: embeddings of the graphs in a batch of observations, computed once for each graph."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.encoder import OperatorDeviceEncoder
from hetgym.agents.networks.views import Seen, View
from hetgym.agents.sizes import Sizes


class EpisodeEncoder(nn.Module):
    """Embeds every (operator, device) pair as an episode begins, by an :class:`OperatorDeviceEncoder`.

    The state of the episode is left out, which the features of its actions contain. So an episode has one graph from
    its first step to its last: in a minibatch each graph is encoded once, however many steps of its episode there are;
    and while actions are chosen the embeddings of the previous step are used again, unless weights have changed.

    Args:
        view: view of the environment's observations.
        sizes: of the encoder.

    Shapes:
        - **seen** the environment's observation, [B, …] each.
        - **output** [G, n, D, H] embeddings, zero for padding, and [B] which of the G graphs each lane has.
    """

    def __init__(self, view: View, sizes: Sizes) -> None:
        super().__init__()
        self.view = view
        self.encoder = OperatorDeviceEncoder(view.token_features, view.edge_features, sizes.embedding, sizes.layers)
        self._last: tuple[object, Tensor, Tensor] | None = None

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Embed the graphs; see the class for shapes."""
        graphs = self.view.at_rest(seen)
        table = torch.cat([part.flatten(1) for part in graphs.values()], 1)
        if torch.is_grad_enabled():
            first, which = distinct(table)
            return self._embed(graphs, first), which
        return self._remembered(graphs, table), torch.arange(len(table))

    def _remembered(self, graphs: Seen, table: Tensor) -> Tensor:
        """[B, n, D, H] the embeddings, those of the previous call where neither graph nor weights have changed."""
        stamp = tuple((weight.data_ptr(), weight._version) for weight in self.encoder.parameters())
        if self._last is None or self._last[0] != stamp or self._last[1].shape != table.shape:
            pairs, changed = None, torch.arange(len(table))
        else:
            pairs, changed = self._last[2], (self._last[1] != table).any(1).nonzero()[:, 0]
        if len(changed):
            first, which = distinct(table[changed])
            fresh = self._embed(graphs, changed[first])[which]
            pairs = fresh if pairs is None else pairs.index_copy(0, changed, fresh)
        assert pairs is not None
        self._last = stamp, table, pairs
        return pairs

    def _embed(self, graphs: Seen, lanes: Tensor) -> Tensor:
        """[G, n, D, H] the embeddings of the graphs of some lanes."""
        *inputs, row = self.view.graphs({key: part[lanes] for key, part in graphs.items()})
        pairs: Tensor = self.encoder(*inputs)
        return pairs[row.clamp(min=0)] * (row >= 0)[..., None, None].to(pairs.dtype)


def distinct(table: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a table that differ from each other.

    Args:
        table: [B, S].

    Returns:
        [G] the number of one row of each kind, and [B] the kind of each row.
    """
    columns = torch.arange(1, 1 + table.shape[1], dtype=table.dtype)
    marks = table @ torch.stack([torch.sin(columns), torch.cos(columns * columns)], 1)
    kinds, which = torch.unique(marks, dim=0, return_inverse=True)
    first = torch.empty(len(kinds), dtype=torch.long).scatter_(0, which, torch.arange(len(table)))
    if torch.equal(table[first][which], table):
        return first, which
    return torch.arange(len(table)), torch.arange(len(table))  # marks of different rows were equal by chance
