"""EpisodeEncoder: embeddings of the graphs in a batch of observations, computed once for each graph."""

from __future__ import annotations

from functools import lru_cache

from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.encoder import OperatorDeviceEncoder
from hetgym.agents.networks.views import Seen, View
from hetgym.agents.sizes import Sizes


class EpisodeEncoder(nn.Module):
    """Embeds every (operator, device) pair as an episode begins, by an :class:`OperatorDeviceEncoder`.

    The state of the episode is left out, which the features of its actions contain. So an episode has one graph from
    its first step to its last: in a minibatch each graph is encoded once, however many steps of its episode there are;
    and while actions are chosen the embeddings of the previous step are used again, unless weights have changed.

    Shapes:
        - **seen** the environment's observation, [B, …] each.
        - **output** [G, n, D, H] embeddings, zero for padding, and [B] which of the G graphs each lane has.
    """

    def __init__(self, view: View, sizes: Sizes) -> None:
        super().__init__()
        self.view = view
        self.encoder = OperatorDeviceEncoder(view.token_features, view.edge_features, sizes.embedding, sizes.layers)
        self._last: tuple[list[tuple[int, ...]], Seen, Tensor] | None = None

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Embed the graphs; see the class for shapes."""
        graphs = self.view.at_rest(seen)
        if torch.is_grad_enabled():
            first, which = distinct(graphs)
            return self._embed(graphs, first), which
        pairs = self._remembered(graphs)
        return pairs, torch.arange(len(pairs))

    def _remembered(self, graphs: Seen) -> Tensor:
        """[B, n, D, H] the embeddings, those of the previous call where neither graph nor weights have changed."""
        stamp: list[tuple[int, ...]] = [(part.data_ptr(), part._version) for part in self.encoder.parameters()]
        stamp += [tuple(part.shape) for part in graphs.values()]
        lanes, pairs = len(next(iter(graphs.values()))), None
        if self._last is None or self._last[0] != stamp:
            changed = torch.arange(lanes)
        else:
            _, before, pairs = self._last
            differs = [(before[key] != part).flatten(1).any(1) for key, part in graphs.items()]
            changed = torch.stack(differs).any(0).nonzero()[:, 0]
        if pairs is None or len(changed):
            first, which = distinct({key: part[changed] for key, part in graphs.items()})
            fresh = self._embed(graphs, changed[first])[which]
            pairs = fresh if pairs is None else pairs.index_copy(0, changed, fresh)
            copies = {key: part.clone() for key, part in graphs.items()}  # environments overwrite their observations
            self._last = stamp, copies, pairs
        return pairs

    def _embed(self, graphs: Seen, lanes: Tensor) -> Tensor:
        """[G, n, D, H] the embeddings of the graphs of some lanes."""
        *inputs, row = self.view.graphs({key: part[lanes] for key, part in graphs.items()})
        pairs: Tensor = self.encoder(*inputs)
        return pairs[row.clamp(min=0)] * (row >= 0)[..., None, None].to(pairs.dtype)


def distinct(graphs: Seen) -> tuple[Tensor, Tensor]:
    """The graphs of a batch that differ: [G] the lane of one of each kind, and [B] the kind of each lane's."""
    parts = [part.flatten(1) for part in graphs.values()]
    marks = torch.stack([part @ _weights(part.shape[1], k) for k, part in enumerate(parts)]).sum(0)
    kinds, which = torch.unique(marks, dim=0, return_inverse=True)
    first = torch.empty(len(kinds), dtype=torch.long).scatter_(0, which, torch.arange(len(marks)))
    if all(torch.equal(part[first[which]], part) for part in parts):
        return first, which
    return torch.arange(len(marks)), torch.arange(len(marks))  # marks of different graphs were equal by chance


@lru_cache(maxsize=64)
def _weights(size: int, part: int) -> Tensor:
    """[size, 2] numbers without a pattern, by which the entries of a part of the graphs count in their marks."""
    angle = torch.arange(1, 1 + size) + 0.5 * part
    return torch.stack([torch.sin(angle), torch.cos(angle * angle)], 1)
