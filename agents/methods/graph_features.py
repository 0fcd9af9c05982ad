"""The common parts of methods that embed graphs: an encoder of their own, and times in a unit of the graph."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActionFeatures
from hetgym.agents.networks.encoder import graph_mean
from hetgym.agents.sizes import Sizes
from hetgym.envs.place.observation import OperatorColumn
from hetgym.errors import ConfigError

TIMES = (
    OperatorColumn.MEAN_COST, OperatorColumn.LEAST_COST, OperatorColumn.UPWARD_RANK, OperatorColumn.DOWNWARD_RANK,
    OperatorColumn.OUTPUT_TRANSFER, len(OperatorColumn),
)  # fmt: skip
"""Columns of tokens that are times; the last one is the cost on the device."""

FEATURES = len(TIMES) + 4
"""Number of features of a pair (operator, device) that :func:`in_graph_units` returns."""


class GraphFeatures(ActionFeatures):
    """Features of actions over embeddings by an encoder of one's own, which runs once per episode.

    Args:
        view, level, sizes: as for :class:`~hetgym.agents.networks.ActionFeatures`.
        encoder: a module with the shapes of :class:`~hetgym.agents.networks.OperatorDeviceEncoder`.

    Raises:
        ConfigError: a level of observation without the graph.
    """

    encoder: nn.Module

    def __init__(self, view: str, level: str, sizes: Sizes, encoder: nn.Module) -> None:
        super().__init__(view, level, sizes)
        if level != "graph":
            raise ConfigError(f"{type(self).__name__} embeds graphs: it needs observation='graph', not {level!r}")
        self.encoder.encoder = encoder


def in_units(times: Tensor, unit: Tensor) -> Tensor:
    """Logarithms of one plus times in a unit."""
    return torch.log1p(times.clamp(min=0.0) / unit.clamp(min=1e-9))


def in_graph_units(tokens: Tensor, edge_features: Tensor, edges: Tensor, graph: Tensor) -> tuple[Tensor, Tensor]:
    """[N, D, FEATURES] pairs and [M, 1] edges, from those of a view that lists operators, costs and edges.

    The unit is the mean over the graph's operators of the cost on the fastest device. Besides times these are the cost
    over the least one, degrees, and the turn.
    """
    least = tokens[:, :1, [OperatorColumn.LEAST_COST]]
    unit = graph_mean(least, graph, torch.ones_like(least))
    times = in_units(tokens[..., TIMES], unit)
    slower = (tokens[..., [len(OperatorColumn)]] / least.clamp(min=1e-9)).clamp(1.0, 100.0).log()
    rest = tokens[..., [OperatorColumn.IN_DEGREE, OperatorColumn.OUT_DEGREE, OperatorColumn.TURN]]
    return torch.cat([times, slower, rest], -1), in_units(edge_features, unit[edges[0], 0])
