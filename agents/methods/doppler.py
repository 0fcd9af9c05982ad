"""DOPPLER: one policy selects an operator, another one its device.

Source: Yao, Bourgeois, Jain, Tang, Yao, Ding, Silva, Jermaine, "DOPPLER: Dual-policy learning for device assignment in
asynchronous dataflow graphs", ICLR 2026 (arXiv 2505.23131); public code: github.com/xinyuyao/Doppler. As there, the
operator is selected by its embedding and those along its longest paths to an exit and from an entry; the device by the
embedding, by what the device has been given, and by features of both; messages are passed once per episode. Training
first imitates a critical-path list scheduler, then continues by REINFORCE in the simulator.

Differences:

- Operators are offered when they are ready in the simulated run, at most eight at a time, with waiting as one more.
  DOPPLER selects among operators whose predecessors are assigned, and never waits.
- The selecting policy also sees the earliest finish of an operator on any device, or the time that waiting takes.
- Both policies share one network of messages, whose pairs (operator, device) serve any number of devices.
- The teacher is HEFT, planned for the runtime: highest rank first, earliest finish. DOPPLER's takes the device that is
  free first.
- One network serves random problems; DOPPLER trains one for each graph. Its third stage, on a machine, is left out.
"""

from __future__ import annotations

from hetgym.agents.methods.graph_features import FEATURES, GraphFeatures, in_graph_units
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import FAR, relative
from hetgym.agents.networks.encoder import OperatorDeviceEncoder
from hetgym.agents.networks.heads import CandidateHead
from hetgym.agents.networks.views import Seen, one_hot, pick
from hetgym.agents.sizes import Sizes
from hetgym.envs.core.scaling import CLIP
from hetgym.envs.dispatch.observation import DispatchCandidateColumn as Candidate
from hetgym.envs.place.observation import OperatorColumn

GIVEN = 6
"""Number of features that sum up the operators already given to a device."""


class LevelPaths(nn.Module):
    """Embeds pairs (operator, device), followed by the means of embeddings along the operator's two longest paths.

    Shapes: as :class:`~hetgym.agents.networks.OperatorDeviceEncoder`, with embeddings three times as long.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.encoder = OperatorDeviceEncoder(FEATURES, 1, sizes.embedding, sizes.layers)

    def forward(self, tokens: Tensor, edges: Tensor, edge_features: Tensor, graph: Tensor, present: Tensor) -> Tensor:
        """Embed the pairs; see the class for shapes."""
        pairs, times = in_graph_units(tokens, edge_features, edges, graph)
        hidden = self.encoder(pairs, edges, times, graph, present)
        operators, transfer = tokens[:, 0], edge_features[:, 0]
        entered = operators[:, OperatorColumn.DOWNWARD_RANK] + operators[:, OperatorColumn.MEAN_COST]
        paths = [
            following(edges, transfer + operators[edges[1], OperatorColumn.UPWARD_RANK], len(tokens)),
            following(edges.flip(0), transfer + entered[edges[0]], len(tokens)),
        ]
        return torch.cat([hidden, *(along(hidden, path) for path in paths)], -1)


class Doppler(GraphFeatures):
    """Features of each ready operator, followed by those of its devices and its number; see the module."""

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        super().__init__(view, level, sizes, LevelPaths(sizes))
        self.norm = nn.LayerNorm(3 * sizes.embedding)
        self.given = nn.Linear(3 * sizes.embedding, GIVEN)
        self.selected = len(OperatorColumn) + 3 * sizes.embedding + 2
        self.size = self.selected + 2 * len(self.view.columns) + 3 * sizes.embedding + GIVEN + 1

    def head(self, hidden: int) -> nn.Module:
        """The two policies."""
        return SelectPlace(self.selected, self.size, hidden)

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the actions."""
        mask, devices = seen["action_mask"] > 0, seen["devices"].shape[1]
        pairs, which = self.encoder(seen)
        operator = seen["candidate_operators"].long()
        real, count = (operator >= 0)[..., None], operator.shape[1]
        picked = self.norm(pick(pairs, which, operator))  # [B, K, D, 3 H]
        present = seen["device_mask"][:, None, :, None]
        mean = (picked * present).sum(2) / present.sum(2).clamp(min=1.0)
        rows = seen["operators"].gather(1, operator.clamp(min=0)[..., None].expand(-1, -1, len(OperatorColumn)))
        chosen = torch.cat([rows, mean], -1) * real
        given = torch.einsum("bnd,bndh->bdh", one_hot(seen["assignment"], devices), self.given(pairs)[which])
        each = [chosen.repeat_interleave(devices, 1), picked.flatten(1, 2), (given / 8).repeat(1, count, 1)]
        number = torch.arange(count * devices + 1).div(devices, rounding_mode="floor").to(mean.dtype)
        selected, embedded, given = (torch.cat([part, torch.zeros_like(part[:, :1])], 1) for part in each)
        known, candidates = self.view.actions(seen), seen["candidates"]
        finish = candidates[:, :-1, Candidate.FINISH].masked_fill(~mask[:, :-1], CLIP).view(len(mask), count, devices)
        soonest = finish.amin(-1).repeat_interleave(devices, 1)
        soonest = torch.cat([soonest, candidates[:, -1:, Candidate.NEXT_EVENT]], 1)[..., None]
        selected = torch.cat([selected, soonest, candidates[..., [Candidate.IS_WAIT]]], -1)
        slot = number.expand(len(mask), -1)[..., None]
        return torch.cat([selected, known, relative(known, mask), embedded, given, slot], -1), mask


class SelectPlace(nn.Module):
    r"""Scores a pair by both policies: :math:`s_{id} = s_i + \log \operatorname{softmax}_d\, t_{id}`.

    Its softmax is the product of the probabilities of the operator and, given that, of the device.

    Args:
        selected: number of features of the operator, the first ones of an action.
        size: number of features F of an action; the last one is the number of the operator among those offered.
        hidden: size of hidden layers.

    Shapes: as :class:`~hetgym.agents.networks.CandidateHead`.
    """

    def __init__(self, selected: int, size: int, hidden: int) -> None:
        super().__init__()
        self.selected = selected
        self.select, self.place = CandidateHead(selected, hidden), CandidateHead(size - selected - 1, hidden)

    def forward(self, actions: Tensor, mask: Tensor) -> Tensor:
        """Score the actions; see the class for shapes."""
        slot = actions[..., -1].long()
        select = self.select(actions[..., : self.selected], mask)
        place = self.place(actions[..., self.selected : -1], mask).masked_fill(~mask, -FAR)
        top = torch.full_like(place, -FAR).scatter_reduce(1, slot, place.detach(), "amax").gather(1, slot)
        total = torch.zeros_like(place).scatter_add(1, slot, (place - top).exp() * mask).gather(1, slot)
        return (select + place - top - total.clamp(min=1e-30).log()).masked_fill(~mask, float("-inf"))


def following(edges: Tensor, length: Tensor, count: int) -> Tensor:
    """[N] next operator on the longest path from each; N where the path ends, and the first one on ties.

    Args:
        edges: [2, M] from and to.
        length: [M] of the longest path over each edge.
        count: number of operators, N.
    """
    longest = length.new_full((count,), -FAR).scatter_reduce(0, edges[0], length, "amax")
    on_path = length == longest[edges[0]]
    found = torch.full((count,), count, dtype=torch.long)
    return found.scatter_reduce(0, edges[0][on_path], edges[1][on_path], "amin")


def along(values: Tensor, after: Tensor) -> Tensor:
    """[N, D, H] mean of ``values`` over the path that starts at each operator; ``after`` as :func:`following` gives it.

    Every round doubles the part of each path that is summed.
    """
    total = torch.cat([values, torch.zeros_like(values[:1])])
    many = torch.cat([torch.ones_like(after), torch.zeros_like(after[:1])])
    after = torch.cat([after, torch.full_like(after[:1], len(values))])
    while bool((after < len(values)).any()):
        total, many, after = total + total[after], many + many[after], after[after]
    return total[:-1] / many[:-1, None, None]
