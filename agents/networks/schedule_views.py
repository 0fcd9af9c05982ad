"""What networks look at in HetSchedule-v0."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, torch
from hetgym.agents.networks.views import Graphs, Seen, View, one_hot, pack, pick
from hetgym.envs.observation import (
    CANDIDATE_FEATURES,
    DEVICE_FEATURES,
    DISPATCH_CANDIDATE_FEATURES,
    DISPATCH_DEVICE_FEATURES,
    OPERATOR_FEATURES,
)


class PlaceView(View):
    """``mode="place"``: an action is a device for the current operator.

    An action is described by ``CANDIDATE_FEATURES`` and its device's ``DEVICE_FEATURES``; a pair by the
    operator's ``OPERATOR_FEATURES``, its cost there, whether it lies there, and the device's features with
    the mean time of a transfer from and to it.
    """

    columns = tuple(f.name for f in CANDIDATE_FEATURES) + tuple(f"device_{f.name}" for f in DEVICE_FEATURES)
    token_features = len(OPERATOR_FEATURES) + 2 + len(DEVICE_FEATURES) + 2

    def actions(self, seen: Seen) -> Tensor:
        """[B, D, F] see :class:`~hetgym.agents.networks.views.View`."""
        return torch.cat([seen["candidates"], seen["devices"]], -1)

    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""
        return linked_graphs(seen, [seen["costs"], one_hot(seen["assignment"], seen["costs"].shape[-1])])

    def embeddings(self, seen: Seen, pairs: Tensor, row: Tensor) -> Tensor:
        """[B, D, H] the current operator on each device."""
        return pick(pairs, row, seen["current"])[:, 0]


class DispatchView(View):
    """``mode="dispatch"``: an action is a ready operator on a device, or to wait.

    An action is described by ``DISPATCH_CANDIDATE_FEATURES``, its device's ``DISPATCH_DEVICE_FEATURES`` (zeros for
    waiting) and the time; a pair as in :class:`PlaceView`.
    """

    columns = (
        *(f.name for f in DISPATCH_CANDIDATE_FEATURES), *(f"device_{f.name}" for f in DISPATCH_DEVICE_FEATURES), "now",
    )  # fmt: skip
    token_features = len(OPERATOR_FEATURES) + 2 + len(DISPATCH_DEVICE_FEATURES) + 2

    def actions(self, seen: Seen) -> Tensor:
        """[B, K D + 1, F] see :class:`~hetgym.agents.networks.views.View`."""
        candidates, devices = seen["candidates"], seen["devices"]
        offered = (candidates.shape[1] - 1) // devices.shape[1]
        devices = torch.cat([devices.repeat(1, offered, 1), torch.zeros_like(devices[:, :1])], 1)
        return torch.cat([candidates, devices, seen["now"][:, None, :].expand(-1, candidates.shape[1], -1)], -1)

    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""
        return linked_graphs(seen, [seen["costs"], one_hot(seen["assignment"], seen["costs"].shape[-1])])

    def embeddings(self, seen: Seen, pairs: Tensor, row: Tensor) -> Tensor:
        """[B, K D + 1, H] the candidates on each device; zeros for waiting."""
        found = pick(pairs, row, seen["candidate_operators"]).flatten(1, 2)
        return torch.cat([found, torch.zeros_like(found[:, :1])], 1)


def linked_graphs(seen: Seen, pairs: list[Tensor]) -> Graphs:
    """Graphs of observations that list edges and links.

    Args:
        seen: the observation.
        pairs: [B, n, D] features of operators on devices.
    """
    links, devices = seen["links"], seen["device_mask"]
    others = devices.sum(1, keepdim=True).sub(1).clamp(min=1)
    out, back = links.sum(2) / others, links.sum(1) / others
    about = [seen["devices"], out[..., None], back[..., None]]
    tokens, graph, present, row = pack(seen["operators"], seen["operator_mask"], pairs, about, devices)
    lane, edge = (seen["edge_mask"] > 0).nonzero(as_tuple=True)
    ends = row[lane, seen["edges"].long()[lane, :, edge].T]
    return Graphs(tokens, ends, seen["edge_transfer"][lane, edge][:, None], graph, present, row)
