r"""GiPH: from any placement, move one task at a time; a graph network scores every (task, device) pair.

Source: Hu, Zhang, Andert, Singh, Shrivastava, Laudon, Zhou, Iannucci, Joe-Wong, "GiPH: Generalizable Placement Learning
for Adaptive Heterogeneous Computing", MLSys 2023 (arXiv 2305.14562); public code: github.com/uidmice/placement-rl. As
there, the nodes of *gpNet* are all feasible pairs of a task and a device. The pivots are those of the present
placement. Each pivot sends along its edges to all pairs of the tasks that read from it, and every other pair to the
pivots of its readers; a second pass goes against the edges. A pair has five features: work, rate, run time, how much
later its inputs would arrive than its task starts now, and whether its task is critical; they are stretched to [-1, 1]
in each state. Rewards are changes of the makespan, discounted by 0.97, over 2n steps from random placements.

Differences:

- Each pass makes a few rounds of messages at once, instead of one along the whole topological order.
- Links are described by the time of an edge of mean size, instead of by delay and rate.
- Moves that change nothing are never taken, nor the task moved last (``tabu: 1``), as in its first n steps.
- The head also sees the mean over all moves. The baseline is the mean over plays of a problem, not over rewards so far.
"""

from __future__ import annotations

from typing import NamedTuple

from hetgym.agents.networks._geometric import MessagePassing
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActionFeatures
from hetgym.agents.networks.views import Seen
from hetgym.agents.sizes import Sizes
from hetgym.envs.improve.observation import MoveColumn
from hetgym.envs.place.observation import OperatorColumn

NODE, EDGE = 6, 4  # numbers of features of a pair, the mark of pivots among them, and of an edge


class GpNet(NamedTuple):
    """The graphs of all lanes as one: first the pivots, one for each operator, then the other pairs."""

    nodes: Tensor  # [N, NODE]
    edges: Tensor  # [2, M] sender and receiver, in the direction of the data
    edge_features: Tensor  # [M, EDGE]
    node: Tensor  # [B, A] the node of each legal action, 0 elsewhere


class Pass(MessagePassing):
    r"""Rounds of messages: :math:`h_v \leftarrow x_v + \rho(U \operatorname{mean}_u \rho(M[h_u, e_{uv}]))`."""

    def __init__(self, size: int, rounds: int) -> None:
        super().__init__(aggr="mean")
        self.rounds, self.size = rounds, size
        self.pre, self.update_layer = nn.Linear(size + EDGE, size), nn.Linear(size, size)

    def forward(self, x: Tensor, edges: Tensor, edge_features: Tensor) -> Tensor:
        """[N, size] embeddings of the nodes."""
        hidden = x
        for _ in range(self.rounds):
            hidden = x + torch.relu(self.update_layer(self.propagate(edges, h=hidden, e=edge_features)))
        return hidden

    def message(self, h_j: Tensor, e: Tensor) -> Tensor:
        """[M, size] the message along each edge."""
        return torch.relu(self.pre(torch.cat([h_j, e], -1)))


class Features(ActionFeatures):
    """Features and embedding of the pair to which each move leads; see the module."""

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        super().__init__(view, "candidates", sizes)
        half = sizes.embedding // 2
        self.embed = nn.Sequential(nn.Linear(NODE, sizes.hidden), nn.ReLU(), nn.Linear(sizes.hidden, half))
        self.forth, self.back = Pass(half, sizes.layers), Pass(half, sizes.layers)
        self.size = NODE + 2 * half

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the actions; see the class for shapes."""
        mask = seen["action_mask"] > 0
        moves = mask & (seen["candidates"][..., MoveColumn.IS_REGION] > 0)
        mask = torch.where(moves.any(1, keepdim=True), moves, mask)
        net = gpnet(seen, mask)
        x = self.embed(net.nodes)
        around = [self.forth(x, net.edges, net.edge_features), self.back(x, net.edges.flip(0), net.edge_features)]
        return torch.cat([net.nodes, *around], -1)[net.node], mask


def gpnet(seen: Seen, mask: Tensor) -> GpNet:
    """The graphs of B lanes whose legal moves ``mask`` [B, A] marks."""
    real, operators, present = seen["operator_mask"] > 0, seen["operators"], seen["assignment"].long()
    row = (real.flatten().cumsum(0) - 1).view_as(real)  # of each operator's pivot
    (lane, i), here = real.nonzero(as_tuple=True), present[real]
    which, action = mask.nonzero(as_tuple=True)
    j, there = (seen[key].long()[which, action] for key in ("operator", "device"))
    column = seen["candidates"][which, action]
    arrival = column[:, MoveColumn.FINISH] - column[:, MoveColumn.RUN_THERE]
    lane, i, device = torch.cat([lane, which]), torch.cat([i, j]), torch.cat([here, there])
    later = torch.cat([arrival.new_zeros(len(here)), arrival - operators[which, j, OperatorColumn.START]])
    edge_lane, edge = (seen["edge_mask"] > 0).nonzero(as_tuple=True)
    source, target = seen["edges"].long()[edge_lane, :, edge].T
    size, links = seen["edge_transfer"][edge_lane, edge], seen["links"]
    critical, on_path = _critical(seen, edge_lane, source, target)
    cost, mean = seen["costs"][lane, i, device], operators[lane, i, OperatorColumn.MEAN_COST]
    pivot = (torch.arange(len(lane)) < len(here)).to(cost.dtype)
    nodes = torch.stack([mean, cost / mean.clamp(min=1e-6), cost, later, critical[lane, i], pivot], -1)
    parts = []
    for own, other, forward in ((target, source, True), (source, target, False)):
        # pairs of `own` meet pivots of `other`; two pivots meet once
        rows = row[edge_lane, own]
        order, count = rows.argsort(stable=True), torch.bincount(rows, minlength=len(here))
        pairs = torch.arange(0 if forward else len(here), len(lane))
        many = count[row[lane, i][pairs]]
        pair = pairs.repeat_interleave(many)
        turn = torch.arange(len(pair)) - (many.cumsum(0) - many).repeat_interleave(many)
        edge = order[(count.cumsum(0) - count)[row[lane, i][pair]] + turn]
        end = row[edge_lane, other][edge]
        ends = (end, pair) if forward else (pair, end)
        time = links[edge_lane[edge], device[ends[0]], device[ends[1]]]
        features = torch.stack([size[edge], time, time * size[edge] / _mean(size, edge_lane)[edge], on_path[edge]], -1)
        parts.append((torch.stack(ends), _stretched(features, edge_lane[edge])))
    number = torch.zeros_like(mask, dtype=torch.long).masked_scatter(mask, torch.arange(len(here), len(lane)))
    (in_ends, of_in), (out_ends, of_out) = parts
    return GpNet(_stretched(nodes, lane), torch.cat([in_ends, out_ends], 1), torch.cat([of_in, of_out]), number)


def _stretched(values: Tensor, group: Tensor) -> Tensor:
    """[N, F] values stretched to [-1, 1] in each group; 0 where all of a group are equal."""
    lanes, index = int(group.max()) + 1 if len(group) else 0, group[:, None].expand_as(values)
    least, most = (values.new_zeros(lanes, values.shape[1]) for _ in range(2))
    least = least.scatter_reduce(0, index, values, "amin", include_self=False)[group]
    width = most.scatter_reduce(0, index, values, "amax", include_self=False)[group] - least
    return torch.where(width > 1e-6, 2.0 * (values - least) / width.clamp(min=1e-6) - 1.0, 0.0)


def _mean(values: Tensor, group: Tensor) -> Tensor:
    """[M] the mean of each value's group, never 0."""
    total = values.new_zeros(int(group.max()) + 1 if len(group) else 0).index_add(0, group, values)
    return (total[group] / torch.bincount(group)[group]).clamp(min=1e-6)


def _critical(seen: Seen, lane: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """[B, n] 1 for operators, and [M] for edges, on the path of latest inputs that leads to the last finish."""
    finish, present = seen["operators"][..., OperatorColumn.FINISH] * seen["operator_mask"], seen["assignment"].long()
    moved = seen["links"][lane, present[lane, source], present[lane, target]]
    count, arrival = finish.shape[1], finish[lane, source] + moved
    own = lane * count + target
    latest = arrival.new_full((finish.numel(),), -1.0).scatter_reduce(0, own, arrival, "amax")
    last = arrival >= latest[own]
    parent = torch.full((finish.numel(),), -1).scatter(0, own[last], (lane * count + source)[last])
    found, at = torch.zeros(finish.numel()), torch.arange(len(finish)) * count + finish.argmax(1)
    while len(at):
        found[at] = 1.0
        at = parent[at][parent[at] >= 0]
    return found.view_as(finish), found[own] * (parent[own] == lane * count + source).float()
