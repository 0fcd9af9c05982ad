"""The view of HetPipeline-v0 for networks."""

from __future__ import annotations

from hetgym.agents.actions import with_current
from hetgym.agents.networks._torch import Tensor, torch
from hetgym.agents.networks.views import Graphs, Seen, View, one_hot, pack, pick
from hetgym.envs.pipeline.observation import BlockColumn, StageColumn


class PipelineView(View):
    """The view of HetPipeline-v0: an action stays in the current stage, or begins the next one on a device.

    A pair of block and device is described by the block's ``BLOCK_FEATURES``, its cost on the device, 1 if it lies
    there, and the device's features. Blocks form a chain; the feature of an edge is the time to move the tensors that
    a cut there crosses.
    """

    kind = "pipeline"
    lasting = ("blocks", "costs", "assignment", "devices", "block_mask", "device_mask")
    state = {
        "blocks": [column for column in BlockColumn if column >= BlockColumn.IS_DECIDED],
        "devices": [column for column in StageColumn if column != StageColumn.TOTAL_COST],
    }
    token_features = len(BlockColumn) + 2 + len(StageColumn)

    def graphs(self, seen: Seen) -> Graphs:
        """The graphs, of observations of the level ``graph``."""
        blocks, mask = seen["blocks"], seen["block_mask"]
        pairs = [seen["costs"], one_hot(seen["assignment"], seen["costs"].shape[-1])]
        tokens, graph, present, row = pack(blocks, mask, pairs, [seen["devices"]], seen["device_mask"])
        lane, block = (mask[:, 1:] > 0).nonzero(as_tuple=True)
        ends = torch.stack([row[lane, block], row[lane, block + 1]])
        return Graphs(tokens, ends, blocks[lane, block, BlockColumn.NEXT_CUT][:, None], graph, present, row)

    def embeddings(self, seen: Seen, pairs: Tensor, which: Tensor) -> Tensor:
        """[B, 1 + D, H] the current block on the current stage's device, and on each device."""
        found: Tensor = with_current(seen, pick(pairs, which, seen["current"])[:, 0], torch)
        return found
