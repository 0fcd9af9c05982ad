"""Observations: what an agent sees of a placement episode, as fixed-shape padded arrays.

Every column is a row of a table below; the tables also make the environment's documentation. Times
are divided by the reference makespan and clipped to ``[0, CLIP]``, so the numbers mean the same for a
microsecond model and for an hour's workflow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._types import FloatArray
from hetgym.envs.placement import Context, Episode
from hetgym.errors import ProblemError
from hetgym.graph.dataflow import Feature
from hetgym.problem import Problem

CLIP = 10.0
"""Upper bound of every feature; costs of devices that cannot run an operator stand here."""

OPERATOR_FEATURES: tuple[Feature, ...] = (
    Feature("mean_cost", "reference", "mean run time over the devices"),
    Feature("least_cost", "reference", "run time on the fastest device"),
    Feature("upward_rank", "reference", "mean longest path to an exit, HEFT's rank_u"),
    Feature("downward_rank", "reference", "mean longest path from an entry"),
    Feature("output_transfer", "reference", "mean time to send its largest output"),
    Feature("in_degree", "1/8 edge", "incoming edges"),
    Feature("out_degree", "1/8 edge", "outgoing edges"),
    Feature("turn", "episode", "position in the order of decisions, 0 first to 1 last"),
    Feature("is_placed", "-", "1 if decided"),
    Feature("is_current", "-", "1 if to be decided now"),
    Feature("start", "reference", "start, 0 while not placed"),
    Feature("finish", "reference", "finish, 0 while not placed"),
)
"""Columns of ``obs["operators"]``."""

DEVICE_FEATURES: tuple[Feature, ...] = (
    Feature("busy", "reference", "summed run time of its operators"),
    Feature("available", "reference", "finish of its last operator"),
    Feature("share", "-", "share of the placed operators that it runs"),
    Feature("total_cost", "reference / d", "run time of the whole graph on it alone"),
)
"""Columns of ``obs["devices"]``."""

CANDIDATE_FEATURES: tuple[Feature, ...] = (
    Feature("cost", "reference", "run time of the current operator"),
    Feature("ready", "reference", "arrival of its last input"),
    Feature("start", "reference", "start, idle gaps filled"),
    Feature("finish", "reference", "earliest finish time, EFT"),
    Feature("wait", "reference", "start minus ready: the device makes it wait"),
    Feature("cost_to_go", "reference", "optimistic cost from there to an exit, PEFT's table"),
    Feature("bound", "reference", "proven lower bound on the makespan after the decision"),
    Feature("completion", "reference", "makespan if a heuristic finished the job; the bound when switched off"),
    Feature("regret", "reference", "completion minus the best device's completion"),
)
"""Columns of ``obs["candidates"]``."""

Observation = dict[str, npt.NDArray[Any]]


class Padding(NamedTuple):
    """Sizes that observations are padded to.

    Attributes:
        operators, edges, devices: the most of each.
    """

    operators: int
    edges: int
    devices: int

    def check(self, problem: Problem) -> None:
        """Refuse a problem that does not fit.

        Raises:
            ProblemError: the message names what is too large and the argument to raise.
        """
        sizes = (problem.num_operators, problem.num_edges, problem.num_devices)
        for what, size, limit in zip(self._fields, sizes, self, strict=True):
            if size > limit:
                raise ProblemError(
                    f"problem {problem.name!r} has {size} {what}, observations are padded to {limit}; "
                    f"pass max_{what}={size} or more"
                )


def observation_space(padding: Padding) -> spaces.Dict:
    """The space of observations of a given padding."""
    n, e, d = padding.operators, max(1, padding.edges), padding.devices

    def box(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, CLIP, shape, np.float32)

    return spaces.Dict(
        {
            "operators": box(n, len(OPERATOR_FEATURES)),
            "costs": box(n, d),
            "assignment": spaces.Box(-1, d - 1, (n,), np.int64),
            "edges": spaces.Box(0, n - 1, (2, e), np.int64),
            "edge_transfer": box(e),
            "devices": box(d, len(DEVICE_FEATURES)),
            "links": box(d, d),
            "candidates": box(d, len(CANDIDATE_FEATURES)),
            "current": spaces.Box(0, n - 1, (1,), np.int64),
            "operator_mask": spaces.MultiBinary(n),
            "edge_mask": spaces.MultiBinary(e),
            "device_mask": spaces.MultiBinary(d),
            "action_mask": spaces.MultiBinary(d),
        }
    )


class Encoder:
    """Turns episodes over one problem into observations; what does not change is computed once.

    Args:
        context: of the problem.
        padding: sizes of the observations; the problem must fit.
    """

    def __init__(self, context: Context, padding: Padding) -> None:
        self.context = context
        self.padding = padding
        self._scale = 1.0 / context.reference if context.reference > 0 else 0.0
        self._blank = self._fixed()

    def _time(self, seconds: FloatArray) -> npt.NDArray[np.float32]:
        """Seconds in units of the reference makespan, clipped; infinite ones stand at the clip."""
        scaled = np.where(np.isfinite(seconds), seconds, 0.0) * self._scale
        return np.where(np.isfinite(seconds), np.clip(scaled, 0.0, CLIP), CLIP).astype(np.float32)

    def _fixed(self) -> Observation:
        """The part of the observation that holds from reset to reset, padding included."""
        c, problem = self.context, self.context.problem
        n, e, d = problem.num_operators, problem.num_edges, problem.num_devices
        blank = {
            name: np.zeros(space.shape or (), space.dtype)
            for name, space in observation_space(self.padding).spaces.items()
        }
        transfer = self._time(problem.mean_communication)
        largest = np.zeros(n, np.float32)
        np.maximum.at(largest, problem.edge_source, transfer)
        turn = np.empty(n)
        turn[c.order] = np.arange(n) / max(1, n - 1)
        table = blank["operators"]
        table[:n, 0] = self._time(problem.mean_cost)
        table[:n, 1] = self._time(problem.cost.min(axis=1))
        table[:n, 2] = self._time(c.upward)
        table[:n, 3] = self._time(c.downward)
        table[:n, 4] = largest
        table[:n, 5] = np.minimum(np.diff(problem.predecessors.pointer) / 8, CLIP)
        table[:n, 6] = np.minimum(np.diff(problem.successors.pointer) / 8, CLIP)
        table[:n, 7] = turn
        blank["costs"][:n, :d] = self._time(problem.cost)
        blank["assignment"][:] = -1
        blank["edges"][0, :e] = problem.edge_source
        blank["edges"][1, :e] = problem.edge_target
        blank["edge_transfer"][:e] = transfer
        finite = np.where(np.isfinite(problem.cost), problem.cost, 0.0).sum(axis=0)
        blank["devices"][:d, 3] = self._time(finite / d)
        mean_bytes = float(problem.edge_bytes.mean()) if e else 0.0
        blank["links"][:d, :d] = self._time(problem.latency + mean_bytes / problem.bandwidth)
        blank["operator_mask"][:n] = 1
        blank["edge_mask"][:e] = 1
        blank["device_mask"][:d] = 1
        return blank

    def encode(self, episode: Episode) -> Observation:
        """Observation of an episode's state; fresh arrays, the caller's to keep."""
        problem, placed = self.context.problem, episode.placed
        n, d = problem.num_operators, problem.num_devices
        obs = {name: array.copy() for name, array in self._blank.items()}
        decided = placed.assignment >= 0
        table = obs["operators"]
        table[:n, 8] = decided
        table[:n, 10] = self._time(np.where(decided, placed.start, 0.0))
        table[:n, 11] = self._time(np.where(decided, placed.finish, 0.0))
        obs["assignment"][:n] = placed.assignment
        self._encode_devices(obs["devices"], episode)
        obs["current"][0] = episode.current
        if not episode.over:
            table[episode.current, 9] = 1.0
            self._encode_candidates(obs["candidates"][:d], episode)
        obs["action_mask"][:d] = episode.legal
        return obs

    def _encode_devices(self, table: npt.NDArray[Any], episode: Episode) -> None:
        placed, d = episode.placed, self.context.problem.num_devices
        members = np.flatnonzero(placed.assignment >= 0)
        device = placed.assignment[members]
        busy = np.bincount(device, placed.finish[members] - placed.start[members], minlength=d)
        available = np.zeros(d)
        np.maximum.at(available, device, placed.finish[members])
        table[:d, 0] = self._time(busy.astype(np.float64))
        table[:d, 1] = self._time(available)
        table[:d, 2] = np.bincount(device, minlength=d) / max(1, len(members))

    def _encode_candidates(self, table: npt.NDArray[Any], episode: Episode) -> None:
        c, operator = episode.candidates, episode.current
        with np.errstate(invalid="ignore"):  # inf - inf on devices that are not legal
            wait, regret = c.start - c.ready, c.completion - c.completion.min()
        columns = (
            self.context.problem.cost[operator], c.ready, c.start, c.finish, wait, self.context.optimistic[operator],
            c.bound, c.completion, regret,
        )  # fmt: skip
        for k, column in enumerate(columns):
            table[:, k] = self._time(column)
        table[~episode.legal] = CLIP


def feature_table(features: tuple[Feature, ...]) -> str:
    """A feature table as reStructuredText-free plain text, for docstrings and ``--help`` pages."""
    width = max(len(f.name) for f in features)
    unit = max(len(f.unit) for f in features)
    return "\n".join(f"{k:>2}  {f.name:<{width}}  {f.unit:<{unit}}  {f.meaning}" for k, f in enumerate(features))
