"""The views of HetSchedule-v0, HetDispatch-v0 and HetImprove-v0 for networks."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, torch
from hetgym.agents.networks.views import Graphs, Seen, View, one_hot, pack, pick
from hetgym.envs.dispatch.observation import DispatchDeviceColumn
from hetgym.envs.place.observation import DeviceColumn, OperatorColumn

LINKED = (
    "operators", "costs", "assignment", "edges", "edge_transfer", "devices", "links",
    "operator_mask", "edge_mask", "device_mask",
)  # fmt: skip
"""Keys of observations of the level ``graph`` that describe a problem with its links."""

PLACED = (OperatorColumn.IS_PLACED, OperatorColumn.IS_CURRENT, OperatorColumn.START, OperatorColumn.FINISH)
"""Columns of operators that describe the state of an episode of HetSchedule-v0."""

MOVING = (OperatorColumn.TURN, OperatorColumn.IS_PLACED, OperatorColumn.START, OperatorColumn.FINISH)
"""Columns of operators that describe the plan in HetImprove-v0."""


class ScheduleView(View):
    """What these views share: graphs of operators on linked devices."""

    lasting = LINKED

    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""
        return linked_graphs(seen, [seen["costs"], one_hot(seen["assignment"], seen["costs"].shape[-1])])


class PlaceView(ScheduleView):
    """The view of HetSchedule-v0: an action is a device for the current operator.

    A pair of operator and device is described by the operator's ``OPERATOR_FEATURES``, its cost on the device, 1 if it
    is placed there, and the device's features with the mean time of a transfer from and to it. Around an action is
    what else the readers of the operator read, as far as it is placed on the action's device: the sum of its transfer
    times, and an eighth of its number.
    """

    kind = "place"
    surroundings = ("beside_transfer", "beside_inputs")
    state = {"operators": PLACED, "devices": (DeviceColumn.BUSY, DeviceColumn.AVAILABLE, DeviceColumn.SHARE)}
    token_features = len(OperatorColumn) + 2 + len(DeviceColumn) + 2

    def embeddings(self, seen: Seen, pairs: Tensor, which: Tensor) -> Tensor:
        """[B, D, H] the current operator on each device."""
        return pick(pairs, which, seen["current"])[:, 0]

    def around(self, seen: Seen) -> Tensor:
        """[B, D, 2] the surroundings of the current operator on each device."""
        source, target = seen["edges"].long().unbind(1)
        real, leaves, assignment = seen["edge_mask"] > 0, source == seen["current"].long(), seen["assignment"]
        reads = torch.zeros_like(assignment).scatter_add(1, target, (leaves & real).to(assignment.dtype)) > 0
        device = assignment.long().gather(1, source)
        beside = (reads.gather(1, target) & ~leaves & real & (device >= 0)).to(seen["edge_transfer"].dtype)
        found = torch.stack([beside * seen["edge_transfer"], beside / 8], -1)
        where = device.clamp(min=0)[..., None].expand_as(found)
        return found.new_zeros(*seen["candidates"].shape[:2], 2).scatter_add(1, where, found)


class ImproveView(ScheduleView):
    """The view of HetImprove-v0: an action is a move, seen as the operator with which it begins where that goes.

    A pair is described as in :class:`PlaceView`.
    """

    kind = "improve"
    state = {"operators": MOVING, "devices": (DeviceColumn.BUSY, DeviceColumn.AVAILABLE, DeviceColumn.SHARE)}
    token_features = PlaceView.token_features

    def embeddings(self, seen: Seen, pairs: Tensor, which: Tensor) -> Tensor:
        """[B, A, H] the operator of each move on the device where it goes; zeros for no move."""
        operator, device = seen["operator"].long(), seen["device"].long().clamp(min=0)
        known = (operator >= 0)[..., None].to(pairs.dtype)
        return pairs[which[:, None], operator.clamp(min=0), device] * known


class DispatchView(ScheduleView):
    """The view of HetDispatch-v0: an action is a ready operator on a device, or waiting.

    A pair is described as in :class:`PlaceView`.
    """

    kind = "dispatch"
    state = {
        "operators": PLACED,
        "devices": [column for column in DispatchDeviceColumn if column != DispatchDeviceColumn.TOTAL_COST],
    }
    token_features = len(OperatorColumn) + 2 + len(DispatchDeviceColumn) + 2

    def embeddings(self, seen: Seen, pairs: Tensor, which: Tensor) -> Tensor:
        """[B, K D + 1, H] the candidates on each device; zeros for waiting."""
        found = pick(pairs, which, seen["candidate_operators"]).flatten(1, 2)
        return torch.cat([found, torch.zeros_like(found[:, :1])], 1)


def linked_graphs(seen: Seen, pairs: list[Tensor]) -> Graphs:
    """Graphs of observations that list edges and links; ``pairs``: [B, n, D] features of operators on devices."""
    links, devices = seen["links"], seen["device_mask"]
    others = devices.sum(1, keepdim=True).sub(1).clamp(min=1)
    out, back = links.sum(2) / others, links.sum(1) / others
    about = [seen["devices"], out[..., None], back[..., None]]
    tokens, graph, present, row = pack(seen["operators"], seen["operator_mask"], pairs, about, devices)
    lane, edge = (seen["edge_mask"] > 0).nonzero(as_tuple=True)
    ends = row[lane, seen["edges"].long()[lane, :, edge].T]
    return Graphs(tokens, ends, seen["edge_transfer"][lane, edge][:, None], graph, present, row)
