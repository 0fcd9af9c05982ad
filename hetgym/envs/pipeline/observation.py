"""What an agent that cuts pipelines sees, as fixed-shape padded arrays.

Times are shares of the reference, and clipped to ``[0, CLIP]``. A *pace* is a time for one request or
micro-batch times their number, over the reference: the share that a device spends on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._types import FloatArray
from hetgym.envs.pipeline.dynamics import CLIP
from hetgym.envs.pipeline.stages import Context, Rules
from hetgym.errors import ProblemError
from hetgym.graph.dataflow import Feature

BLOCK_FEATURES: tuple[Feature, ...] = (
    Feature("mean_cost", "pace", "mean time over the devices that can run it, all passes"),
    Feature("least_cost", "pace", "time on the fastest device, all passes"),
    Feature("rest", "pace", "least time of it and of all blocks behind it"),
    Feature("cut", "pace", "time to move once what a cut in front of it crosses"),
    Feature("next_cut", "pace", "time to move once what a cut behind it crosses"),
    Feature("size", "largest memory", "bytes of weights, and for training of gradients and optimiser state"),
    Feature("stash", "largest memory", "bytes of activations kept of a micro-batch, for training"),
    Feature("turn", "episode", "position in the order of decisions, 0 first to 1 last"),
    Feature("is_decided", "-", "1 if decided"),
    Feature("is_current", "-", "1 if to be decided now"),
    Feature("stage", "1/d", "number of its stage, from 1; 0 while not decided"),
    Feature("piece", "1/most", "number of its piece, from 1; 0 while not decided"),
)
"""Columns of ``obs["blocks"]``."""

STAGE_FEATURES: tuple[Feature, ...] = (
    Feature("load", "pace", "time of its blocks so far, all passes; with transfers once its stage is closed"),
    Feature("memory_left", "capacity", "memory left, were no further stages to follow; 1 if unlimited"),
    Feature("is_used", "-", "1 if it holds a stage"),
    Feature("is_current", "-", "1 if it holds the current stage"),
    Feature("stage", "1/d", "number of its stage, from 1; 0 if it holds none"),
    Feature("total_cost", "pace / d", "time of all blocks on it, all passes"),
)
"""Columns of ``obs["devices"]``."""

CUT_FEATURES: tuple[Feature, ...] = (
    Feature("cost", "pace", "time of the current block there, all passes"),
    Feature("ended", "pace", "load of the stage that the action ends, with transfers; 0 if it ends none"),
    Feature("load", "pace", "load of the block's stage if it ended behind the block, with transfers"),
    Feature("bound", "reference", "proven lower bound on the value after the decision"),
    Feature("regret", "reference", "completion minus the least completion of a legal action"),
    Feature("memory_left", "capacity", "memory left there after the decision; 1 if unlimited"),
    Feature("is_used", "-", "1 if the device holds blocks already"),
    Feature("completion", "reference", "value if the rest were cut well; the bound where that is not known"),
)
"""Columns of ``obs["candidates"]``; zeros where an action is not legal."""

NARROW = ("candidates", "devices", "action_mask")
"""Keys that the levels below ``graph`` show; ``flat`` joins them in this order, row by row."""


class Padding(NamedTuple):
    """Sizes that observations are padded to.

    Attributes:
        blocks, devices: the most of each.
    """

    blocks: int
    devices: int

    def check(self, name: str, blocks: int, devices: int) -> None:
        """Refuse a problem that does not fit.

        Raises:
            ProblemError: the message names what is too large and the argument to raise.
        """
        for what, size, limit in zip(self._fields, (blocks, devices), self, strict=True):
            if size > limit:
                raise ProblemError(
                    f"pipeline {name!r} has {size} {what}, observations are padded to {limit}; pass max_{what}={size} "
                    "or more"
                )


def observation_space(padding: Padding, level: str) -> spaces.Space[Any]:
    """The space of observations of a given padding, for one of :data:`~hetgym.envs.place.observation.LEVELS`."""
    space = graph_space(padding)
    if level == "graph":
        return space
    if level == "candidates":
        return spaces.Dict({key: space[key] for key in NARROW})
    return spaces.Box(0.0, CLIP, (sum(int(np.prod(space[key].shape or ())) for key in NARROW),), np.float32)


def graph_space(padding: Padding) -> spaces.Dict:
    """The space of observations of all blocks."""
    n, d = padding

    def box(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, CLIP, shape, np.float32)

    return spaces.Dict(
        {
            "blocks": box(n, len(BLOCK_FEATURES)),
            "costs": box(n, d),
            "assignment": spaces.Box(-1, d - 1, (n,), np.int64),
            "devices": box(d, len(STAGE_FEATURES)),
            "candidates": box(1 + d, len(CUT_FEATURES)),
            "current": spaces.Box(0, n - 1, (1,), np.int64),
            "block_mask": spaces.MultiBinary(n),
            "device_mask": spaces.MultiBinary(d),
            "action_mask": spaces.MultiBinary(1 + d),
        }
    )


def fixed(context: Context, rules: Rules, space: spaces.Dict) -> dict[str, npt.NDArray[Any]]:
    """The part of a problem's observations that holds from step to step, padding included.

    Args:
        context: of the problem, which must fit.
        rules: what episodes are played by.
        space: of observations of all blocks, large enough for it.
    """
    t, scale = context.tables, rules.turns / context.reference if context.reference > 0 else 0.0
    n, d = t.forward.shape

    def pace(seconds: FloatArray) -> npt.NDArray[np.float32]:
        finite = np.isfinite(seconds)
        return np.where(finite, np.clip(np.where(finite, seconds, 0.0) * scale, 0.0, CLIP), CLIP).astype(np.float32)

    blank: dict[str, npt.NDArray[Any]] = {
        name: np.zeros(part.shape or (), part.dtype) for name, part in space.spaces.items()
    }  # fmt: skip
    cost = np.where(np.isfinite(t.forward), t.forward + t.backward + t.weight, np.inf)
    able = np.isfinite(cost)
    whole = np.where(able, cost, 0.0)
    memory = t.capacity[np.isfinite(t.capacity)].max(initial=0.0)
    unit = 1.0 / memory if memory > 0 else 0.0
    table = blank["blocks"]
    table[:n, 0] = pace(whole.sum(axis=1) / np.maximum(1, able.sum(axis=1)))
    table[:n, 1] = pace(cost.min(axis=1))
    table[:n, 2] = pace(t.rest[:n])
    table[:n, 3] = pace(t.comm[np.arange(n), n])
    table[:n, 4] = pace(t.comm[0, 1:])
    table[:n, 5] = np.clip(np.diff(t.size) * unit, 0.0, CLIP)
    table[:n, 6] = np.clip(np.diff(t.stash) * unit, 0.0, CLIP)
    table[:n, 7] = np.arange(n) / max(1, n - 1)
    blank["costs"][:n, :d] = pace(cost)
    blank["assignment"][:] = -1
    blank["devices"][:d, 5] = pace(np.where(able.all(axis=0), whole.sum(axis=0), np.inf) / d)
    blank["block_mask"][:n] = 1
    blank["device_mask"][:d] = 1
    return blank
