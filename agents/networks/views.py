"""Views: the observations of each environment in the form that networks take, as actions and as graphs."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hetgym.agents.actions import COLUMNS, describe
from hetgym.agents.networks._torch import Tensor, torch

Seen = Mapping[str, Tensor]  # An observation of B lanes: the environment's keys, [B, …] each, all of them as floats


class Graphs(NamedTuple):
    """Input of the encoder: the graphs of B lanes joined to one, without padding."""

    tokens: Tensor  # [N, D, F] operators on devices
    edges: Tensor  # [2, M] producer and consumer, as rows of `tokens`
    edge_features: Tensor  # [M, E]
    graph: Tensor  # [N] lane of each operator
    present: Tensor  # [N, D] False where a device is padding
    row: Tensor  # [B, n] row of each lane's operators in `tokens`; -1 for padding


class View(abc.ABC):
    """The view of an environment for networks, for observations of any size.

    Attributes:
        kind: kind of decision; :mod:`hetgym.agents.actions` describes its actions.
        token_features, edge_features: numbers of features of a pair (operator, device) and of an edge.
        lasting: keys of the observation that describe the graph.
        state: by key, the columns of these that describe the state of the episode.
        surroundings: names of the features that :meth:`around` gives.
    """

    kind: str
    token_features: int
    edge_features = 1
    lasting: tuple[str, ...]
    state: Mapping[str, Sequence[int]]
    surroundings: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the F features of an action."""
        return COLUMNS[self.kind]

    def actions(self, seen: Seen) -> Tensor:
        """[B, A, F] features of each action that do not depend on the graph."""
        found: Tensor = describe(self.kind, seen, torch)
        return found

    def around(self, seen: Seen) -> Tensor:
        """[B, A, S] features of each action that describe the graph around it; none by default."""
        return seen["candidates"][..., :0]

    @abc.abstractmethod
    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""

    def at_rest(self, seen: Seen) -> dict[str, Tensor]:
        """The part of an observation from which :meth:`graphs` are made, as it is when the episode begins."""
        found = {key: seen[key] for key in self.lasting}
        for key, columns in self.state.items():
            found[key] = found[key].index_fill(-1, torch.tensor(columns), 0.0)
        if "assignment" in found:
            found["assignment"] = torch.full_like(found["assignment"], -1.0)
        return found

    @abc.abstractmethod
    def embeddings(self, seen: Seen, pairs: Tensor, which: Tensor) -> Tensor:
        """[B, A, H] the embedding of each action.

        Args:
            pairs: [G, n, D, H] embedded operators on devices, of different graphs.
            which: [B] the graph of each lane.
        """


def pack(
    operators: Tensor, mask: Tensor, pairs: list[Tensor], devices: list[Tensor], device_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Join the features of operators, of pairs and of devices, without the padding of operators.

    Args:
        operators: [B, n, F] features of operators.
        mask: [B, n], 1 where not padding.
        pairs: [B, n, D] features of operators on devices.
        devices: [B, D, G] features of devices.
        device_mask: [B, D], 1 where not padding.

    Returns:
        ``tokens``, ``graph``, ``present`` and ``row`` of :class:`Graphs`.
    """
    there = mask > 0
    lane, place = there.nonzero(as_tuple=True)
    row = torch.where(there, there.flatten().cumsum(0).view_as(there) - 1, -1)
    count = device_mask.shape[1]
    tokens = [operators[lane, place][:, None, :].expand(-1, count, -1)]
    tokens += [torch.stack(pairs, -1)[lane, place], torch.cat(devices, -1)[lane]]
    return torch.cat(tokens, -1), lane, device_mask[lane] > 0, row


def pick(pairs: Tensor, which: Tensor, operator: Tensor) -> Tensor:
    """[B, K, D, H] the embeddings of K operators of each lane; zero where there is none.

    Args:
        pairs: [G, n, D, H] embedded operators on devices, of different graphs.
        which: [B] the graph of each lane.
        operator: [B, K] numbers of operators, -1 for none.
    """
    known = (operator >= 0)[..., None, None].to(pairs.dtype)
    return pairs[which[:, None], operator.long().clamp(min=0)] * known


def one_hot(assignment: Tensor, devices: int) -> Tensor:
    """[B, n, D] 1 on the device of each operator; zeros where it has none."""
    return (assignment[..., None] == torch.arange(devices, device=assignment.device)).to(assignment.dtype)
