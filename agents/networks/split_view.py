"""The view of HetSplit-v0 for networks."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor
from hetgym.agents.networks.schedule_views import LINKED, linked_graphs
from hetgym.agents.networks.views import Graphs, Seen, View, pick
from hetgym.envs.split.observation import SplitDeviceColumn, SplitOperatorColumn


class SplitView(View):
    """The view of HetSplit-v0: an action is an entry of the menu of splits for the current operator.

    A pair of operator and device is described by the operator's ``SPLIT_OPERATOR_FEATURES``, its cost on the device,
    and the device's features with the mean time of a transfer from and to it.
    """

    kind = "split"
    lasting = tuple(key for key in LINKED if key != "assignment")
    state = {
        "operators": [column for column in SplitOperatorColumn if column >= SplitOperatorColumn.IS_DECIDED],
        "devices": [column for column in SplitDeviceColumn if column != SplitDeviceColumn.TOTAL_COST],
    }
    token_features = len(SplitOperatorColumn) + 1 + len(SplitDeviceColumn) + 2

    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""
        return linked_graphs(seen, [seen["costs"]])

    def embeddings(self, seen: Seen, pairs: Tensor, which: Tensor) -> Tensor:
        """[B, A, H] the current operator, the same for all entries: its mean over the devices."""
        weight = seen["device_mask"][..., None]
        here = (pick(pairs, which, seen["current"])[:, 0] * weight).sum(1) / weight.sum(1).clamp(min=1)
        return here[:, None, :].expand(-1, seen["candidates"].shape[1], -1)
