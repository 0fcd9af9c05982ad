"""Actions: descriptions of an environment's actions, one row for each action, for problems of any size.

They are computed by slices and sums that have the same names in NumPy and PyTorch, so that networks in training and
policies in use see the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hetgym.envs.cluster.observation import StepColumn
from hetgym.envs.core.features import Column
from hetgym.envs.dispatch.observation import DispatchCandidateColumn, DispatchDeviceColumn
from hetgym.envs.improve.observation import MoveColumn, PlanColumn
from hetgym.envs.pipeline.observation import CutColumn, StageColumn
from hetgym.envs.place.observation import CandidateColumn, DeviceColumn
from hetgym.envs.split.observation import SplitCandidateColumn, SplitDeviceColumn, SplitOperatorColumn

NEGLIGIBLE = 1e-4  # Scale below which differences between actions count little, as a share of the reference

CANDIDATES: dict[str, type[Column]] = {
    "place": CandidateColumn,
    "dispatch": DispatchCandidateColumn,
    "split": SplitCandidateColumn,
    "pipeline": CutColumn,
    "cluster": StepColumn,
    "improve": MoveColumn,
}
"""Kind of decision -> columns of ``obs["candidates"]``."""

COLUMNS: dict[str, tuple[str, ...]] = {
    kind: (*(column.label for column in CANDIDATES[kind]), *more)
    for kind, more in {
        "place": [f"device_{column.label}" for column in DeviceColumn],
        "dispatch": [*(f"device_{column.label}" for column in DispatchDeviceColumn), "now"],
        "split": [
            *(f"operator_{column.label}" for column in SplitOperatorColumn),
            "present_makespan",
            *(f"mean_{column.label}" for column in SplitDeviceColumn),
            *(f"most_{column.label}" for column in SplitDeviceColumn),
        ],
        "pipeline": [*(f"device_{column.label}" for column in StageColumn), "stays"],
        "improve": [f"plan_{column.label}" for column in PlanColumn],
    }.items()
}
"""Kind of decision that networks take -> names of the F columns that describe an action: candidate features first."""


def describe(kind: str, seen: Mapping[str, Any], xp: Any) -> Any:
    """[B, A, F] features of each action that do not depend on the graph; see :data:`COLUMNS`.

    Besides the environment's candidate features these are, by kind of decision:

    - place: the device's row;
    - dispatch: the device's row, zeros for waiting, and the time;
    - split: values that all entries of the menu share, namely the operator's row, the makespan so far, and the mean
      and the largest of each feature of devices;
    - cut: the row of the device, or of the current stage's device for staying, and 1 if the action stays;
    - improve: makespan, best makespan and steps left, which all moves share.

    Args:
        kind: kind of decision, one of :data:`COLUMNS`.
        seen: an observation of B lanes, [B, …] by key, as floats.
        xp: the module of the arrays, ``numpy`` or ``torch``.
    """
    return _DESCRIBE[kind](seen, xp)


def with_current(seen: Mapping[str, Any], devices: Any, xp: Any) -> Any:
    """[B, 1 + D, F] the row of the current stage's device, zeros before the first stage, followed by all devices."""
    current = (devices * seen["devices"][..., StageColumn.IS_CURRENT, None]).sum(1)[:, None]
    return xp.concatenate([current, devices], 1)


def _dispatch(seen: Mapping[str, Any], xp: Any) -> Any:
    candidates, devices, now = seen["candidates"], seen["devices"], seen["now"][:, None, :]
    offered = (candidates.shape[1] - 1) // devices.shape[1]
    waiting = xp.zeros_like(devices[:, :1])
    devices = xp.concatenate([xp.tile(devices, (1, offered, 1)), waiting], 1)
    return xp.concatenate([candidates, devices, _for_all(now, candidates, xp)], -1)


def _split(seen: Mapping[str, Any], xp: Any) -> Any:
    devices = seen["devices"]
    total = devices[..., SplitDeviceColumn.TOTAL_COST, None]
    real = (total > 0) * xp.ones_like(total)  # 1 for devices, which take some time for the graph; 0 for padding
    mean = (devices * real).sum(1) / xp.clip(real.sum(1), 1, None)
    shared = xp.concatenate([seen["operator"], seen["makespan"], mean, xp.amax(devices, 1)], -1)[:, None, :]
    return xp.concatenate([seen["candidates"], _for_all(shared, seen["candidates"], xp)], -1)


def _pipeline(seen: Mapping[str, Any], xp: Any) -> Any:
    stays = xp.zeros_like(seen["candidates"][..., :1])
    stays[:, 0] = 1.0
    return xp.concatenate([seen["candidates"], with_current(seen, seen["devices"], xp), stays], -1)


def _for_all(shared: Any, candidates: Any, xp: Any) -> Any:
    """[B, A, F] the same row [B, 1, F] for each action."""
    return xp.broadcast_to(shared, (*candidates.shape[:2], shared.shape[-1]))


_DESCRIBE: dict[str, Callable[[Mapping[str, Any], Any], Any]] = {
    "place": lambda seen, xp: xp.concatenate([seen["candidates"], seen["devices"]], -1),
    "dispatch": _dispatch,
    "split": _split,
    "pipeline": _pipeline,
    "improve": lambda seen, xp: xp.concatenate(
        [seen["candidates"], _for_all(seen["plan"][:, None, :], seen["candidates"], xp)], -1
    ),
}
