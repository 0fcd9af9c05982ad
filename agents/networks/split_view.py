"""What networks look at in HetSplit-v0."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, torch
from hetgym.agents.networks.schedule_views import linked_graphs
from hetgym.agents.networks.views import Graphs, Seen, View, pick
from hetgym.envs.split_observation import SPLIT_CANDIDATE_FEATURES, SPLIT_DEVICE_FEATURES, SPLIT_OPERATOR_FEATURES


class SplitView(View):
    """An action is an entry of the menu of splits for the current operator.

    An action is described by ``SPLIT_CANDIDATE_FEATURES``, by what all of them share (the row of the current
    operator, the makespan so far), and by the mean and the largest of each of the ``SPLIT_DEVICE_FEATURES``; a
    pair by the operator's ``SPLIT_OPERATOR_FEATURES``, its cost there, and the device's features with the mean
    time of a transfer from and to it.
    """

    columns = (
        *(f.name for f in SPLIT_CANDIDATE_FEATURES), *(f"operator_{f.name}" for f in SPLIT_OPERATOR_FEATURES),
        "present_makespan", *(f"mean_{f.name}" for f in SPLIT_DEVICE_FEATURES),
        *(f"most_{f.name}" for f in SPLIT_DEVICE_FEATURES),
    )  # fmt: skip
    token_features = len(SPLIT_OPERATOR_FEATURES) + 1 + len(SPLIT_DEVICE_FEATURES) + 2

    def actions(self, seen: Seen) -> Tensor:
        """[B, A, F] see :class:`~hetgym.agents.networks.views.View`."""
        candidates, devices = seen["candidates"], seen["devices"]
        real = (devices[..., :1] > 0).to(devices.dtype)  # every device would take some time for the whole graph
        mean = (devices * real).sum(1) / real.sum(1).clamp(min=1)
        shared = torch.cat([seen["operator"], seen["makespan"], mean, devices.amax(1)], -1)
        return torch.cat([candidates, shared[:, None, :].expand(-1, candidates.shape[1], -1)], -1)

    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""
        return linked_graphs(seen, [seen["costs"]])

    def embeddings(self, seen: Seen, pairs: Tensor, row: Tensor) -> Tensor:
        """[B, A, H] the current operator, the same for all entries: its mean over the devices."""
        weight = seen["device_mask"][..., None]
        here = (pick(pairs, row, seen["current"])[:, 0] * weight).sum(1) / weight.sum(1).clamp(min=1)
        return here[:, None, :].expand(-1, seen["candidates"].shape[1], -1)
