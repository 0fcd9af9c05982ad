"""Observations of training problems, as fixed-shape padded arrays; every column is a member of an enum below.

Times are shares of the reference, clipped to ``[0, CLIP]``. A *pace* is the time of one micro-batch, times the number
of micro-batches, divided by the reference.
"""

from __future__ import annotations

from dataclasses import dataclass

from gymnasium import spaces

from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import BlockPadding
from hetgym.envs.core.spaces import number_box, table_space


@dataclass(frozen=True)
class StepPadding(BlockPadding):
    """Sizes of observations of training problems: of layers, pools and actions."""

    actions: int  # largest number of actions: settings, stages, or options of a stage and one more


class LayerColumn(Column):
    """Columns of ``obs["blocks"]``."""

    LEAST_COST = "pace", "time on the fastest option of the setting; 0 before it is chosen"
    STATE = "largest memory", "bytes of weights, gradients and optimiser state on a GPU, least over the options"
    STASH = "largest memory", "bytes that a micro-batch leaves on a GPU, least over the options"
    TURN = "episode", "position in the order of decisions, 0 first to 1 last"
    IS_DECIDED = "-", "1 if decided"
    IS_CURRENT = "-", "1 if to be decided now"
    STAGE = "1/p", "number of its stage, from 1; 0 while not decided"


class PoolColumn(Column):
    """Columns of ``obs["devices"]``."""

    GPUS = "GPUs of the cluster", "GPUs of the pool"
    LEFT = "GPUs of the pool", "GPUs that no stage holds"
    MEMORY = "largest memory", "memory of a GPU"


class StepColumn(Column):
    """Columns of ``obs["candidates"]``; zeros where an action is not legal."""

    IS_SETTING = "-", "1 if it chooses data degree, micro-batch and schedule"
    IS_DEPTH = "-", "1 if it chooses the number of stages"
    IS_STAY = "-", "1 if the layer stays in the stage; the last layer alone ends it otherwise"
    DATA = "GPUs of the cluster", "data degree"
    TURNS = "global batch", "micro-batches of a replica"
    STAGES = "layers", "number of stages, or after the decision the stages that are left"
    CHUNKS = "1/8", "pieces of the model on each GPU"
    GPUS = "GPUs of the cluster", "GPUs that it takes"
    LOAD = "pace", "time of a micro-batch in the stage with the layer in it"
    EVEN = "pace", "time in each stage that is left, if the GPUs that are left shared the layers that are left"
    BOUND = "reference", "proven lower bound on the step after the decision"
    ESTIMATE = "reference", "sum of all stages and M - 1 times the longest, if the rest were shared evenly"
    MEMORY_LEFT = "capacity", "memory left on the stage's GPUs after the decision; 1 before stages are chosen"
    ZERO = "1/3", "stage of ZeRO; 0 where the framework sets it"
    SEQUENCE = "-", "1 if tensor-parallel groups share out tokens; 0 where the framework sets it"


LAYER_FEATURES = features_of(LayerColumn)  # Columns of `obs["blocks"]` of training problems
POOL_FEATURES = features_of(PoolColumn)  # Columns of `obs["devices"]` of training problems

STEP_FEATURES = features_of(StepColumn)
"""Columns of ``obs["candidates"]`` of training problems; zeros where an action is not legal."""


def step_space(padding: StepPadding) -> spaces.Dict:
    """The space of observations."""
    columns, current = (LayerColumn, PoolColumn, StepColumn), number_box(0, padding.blocks - 1, 1)
    return table_space("block", padding.blocks, padding.devices, padding.actions, columns, current=current)
