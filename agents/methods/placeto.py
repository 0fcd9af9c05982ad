r"""Placeto: one sweep over the operators of any placement, in which each is moved once.

Source: Addanki, Bojja Venkatakrishnan, Gupta, Mao, Alizadeh, "Placeto: Learning Generalizable Device Placement
Algorithms for Distributed Machine Learning", NeurIPS 2019 (arXiv 1906.08879); public code:
github.com/aravic/generalizable-device-placement. As there, an operator has five features: its run time, the size of its
output, where it is placed, whether it is the one to be moved, and whether it has been moved. Rounds of messages run
along the edges and, with other weights, against them. The operator to be moved is described by its embedding and those
of its ancestors, of its descendants and of the operators parallel to it, each group summed up by layers of its own. The
reward is the change of the run time, and the baseline of a step is the mean over episodes on the same graph.

Differences:

- Every device is seen by itself: run times there, and 1 where an operator is on it instead of the device's number. So
  weights serve any devices, and a device's score comes with its own load. The original has an output for each device.
- Messages and groups are averaged, not summed, so that embeddings do not grow with the graph.
- Operators are not grouped before, and the order is topological.
- One network is trained for all problems of a distribution, and one sweep makes an episode.
"""

from __future__ import annotations

from hetgym.agents.networks._geometric import MessagePassing
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActionFeatures, relative
from hetgym.agents.networks.views import Seen, one_hot
from hetgym.agents.sizes import Sizes
from hetgym.envs.improve.observation import MoveColumn
from hetgym.envs.place.observation import OperatorColumn

MOVED = (OperatorColumn.IS_CURRENT, OperatorColumn.IS_PLACED)
OWN = (MoveColumn.RUN_THERE, MoveColumn.LOAD_THERE, MoveColumn.IS_REGION)
"""Columns of a device that its score sees besides embeddings."""


class Pass(MessagePassing):
    r"""Rounds of messages along edges: :math:`h_v \leftarrow x_v + g(\operatorname{mean}_u f(h_u))`, pair by pair."""

    def __init__(self, size: int, rounds: int) -> None:
        super().__init__(aggr="mean", node_dim=0)
        self.rounds, self.f, self.g = rounds, _layers(size, size), _layers(size, size)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """[N, D, size] embeddings of operators on devices."""
        hidden = x
        for _ in range(self.rounds):
            hidden = x + torch.relu(self.g(self.propagate(edges, h=torch.relu(self.f(hidden)))))
        return hidden

    def message(self, h_j: Tensor) -> Tensor:
        """[M, D, size] what each edge carries."""
        return h_j


class Features(ActionFeatures):
    """Features of the operator to be moved, on each device; see the module."""

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        super().__init__(view, "candidates", sizes)
        size = sizes.embedding
        self.embed = _layers(5, size)
        self.forth, self.back = Pass(size, sizes.layers), Pass(size, sizes.layers)
        self.groups = nn.ModuleList(_layers(2 * size, 2 * size) for _ in range(3))
        self.norm = nn.LayerNorm(8 * size)
        self.size = 2 * len(OWN) + 8 * size

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the devices; see the class for shapes."""
        mask, operators, n = seen["action_mask"] > 0, seen["operators"], seen["operators"].shape[1]
        lane, edge = (seen["edge_mask"] > 0).nonzero(as_tuple=True)
        edges = seen["edges"].long()[lane, :, edge].T + n * lane
        shape, real = mask.shape[1], seen["operator_mask"][..., None]
        output = operators[..., OperatorColumn.OUTPUT_TRANSFER, None]
        cost = seen["costs"] / _mean(operators[..., OperatorColumn.MEAN_COST, None], real)
        output = output / _mean(output, real)
        shared = torch.cat([output, operators[..., MOVED]], -1)[:, :, None].expand(-1, -1, shape, -1)
        tokens = torch.cat([torch.stack([cost, one_hot(seen["assignment"], shape)], -1), shared], -1)
        x = self.embed(tokens).flatten(0, 1)  # [B n, D, H]
        hidden = torch.cat([self.forth(x, edges), self.back(x, edges.flip(0))], -1).unflatten(0, (-1, n))
        current = operators[..., OperatorColumn.IS_CURRENT] * seen["operator_mask"]
        before, after = reached(current, edges.flip(0)), reached(current, edges)
        apart = seen["operator_mask"] - before - after - current
        parts = [(hidden * current[..., None, None]).sum(1)]
        for layers, group in zip(self.groups, (before, after, apart), strict=True):
            weight = group / group.sum(1, keepdim=True).clamp(min=1.0)
            parts.append(torch.relu(layers((torch.relu(hidden) * weight[..., None, None]).sum(1))))
        own = seen["candidates"][..., OWN]
        return torch.cat([own, relative(own, mask), self.norm(torch.cat(parts, -1))], -1), mask


def reached(start: Tensor, edges: Tensor) -> Tensor:
    """[B, n] 1 for the operators that edges lead to from those of ``start`` [B, n], without these themselves."""
    found, front = torch.zeros_like(start).flatten(), start.flatten()
    while front.any():
        front = torch.zeros_like(found).scatter_reduce(0, edges[1], front[edges[0]], "amax") * (1.0 - found)
        found = found + front
    return found.view_as(start)


def _mean(values: Tensor, real: Tensor) -> Tensor:
    """[B, 1, 1] mean of values [B, n, 1] over the operators that are not padding, which [B, n, 1] marks."""
    mean: Tensor = (values * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
    return mean.clamp(min=1e-6)


def _layers(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
