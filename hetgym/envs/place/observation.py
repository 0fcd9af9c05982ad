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
from hetgym.envs.place.dynamics import CLIP, Context
from hetgym.errors import ConfigError, ProblemError
from hetgym.graph.dataflow import Feature
from hetgym.problem import Problem

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

LEVELS = ("graph", "candidates", "flat")
"""How much is seen: everything; what each device would lead to; the same as one vector."""


DISPATCH_DEVICE_FEATURES: tuple[Feature, ...] = (
    Feature("busy", "reference", "summed run time of what is committed to it"),
    Feature("backlog", "reference", "time from now until it would be done with that"),
    Feature("share", "-", "share of the committed operators that it runs"),
    DEVICE_FEATURES[3],
    Feature("queued", "1/8 operator", "operators committed to it that have not started"),
    Feature("running", "1/8 operator", "operators that run on it"),
    Feature("is_alive", "-", "1 unless it is lost"),
    Feature("slowdown", "factor", "by which it takes longer than the costs say"),
)
"""Columns of ``obs["devices"]`` in ``mode="dispatch"``."""

DISPATCH_CANDIDATE_FEATURES: tuple[Feature, ...] = (
    Feature("cost", "reference", "run time of the operator there, slow-down included"),
    Feature("ready", "reference", "arrival of its last input, from now"),
    Feature("start", "reference", "start behind what is queued there, from now"),
    Feature("finish", "reference", "finish, from now"),
    *CANDIDATE_FEATURES[4:7],
    Feature("completion", "reference", "makespan if list scheduling took over; the bound when switched off"),
    Feature("regret", "reference", "completion minus the least completion of a legal action"),
    Feature("upward_rank", "reference", "mean longest path to an exit, HEFT's rank_u"),
    Feature("is_wait", "-", "1 for the last row, which is to wait"),
    Feature("next_event", "reference", "time until something happens, in that row"),
    Feature("flow", "reference", "mean of finish and optimistic cost to the exit of all that is left, likewise"),
)
"""Columns of ``obs["candidates"]`` in ``mode="dispatch"``: a row for each action."""

NARROW = ("candidates", "devices", "action_mask")
"""Keys that the levels below ``graph`` show; ``flat`` joins them in this order, row by row."""


DISPATCH_NARROW = (*NARROW, "now")
"""The same in ``mode="dispatch"``."""


class Padding(NamedTuple):
    """Sizes that observations are padded to.

    Attributes:
        operators, edges, devices: the most of each.
    """

    operators: int
    edges: int
    devices: int

    @classmethod
    def chosen(cls, known: Padding | None, *given: int | None) -> Padding:
        """The padding that the caller asked for, filled up with what the source knows of itself.

        Args:
            known: what the source needs, None if that cannot be known.
            given: the arguments ``max_operators``, ``max_edges`` and ``max_devices``.

        Raises:
            ConfigError: a size that is none, or one that nobody knows.
        """
        sizes = []
        for k, (name, size) in enumerate(zip(cls._fields, given, strict=True)):
            if size is None and known is None:
                raise ConfigError(f"a generator of problems has no known size: pass max_{name}=…")
            taken = size if size is not None else (known[k] if known is not None else 0)
            if isinstance(taken, bool) or not isinstance(taken, int | np.integer) or taken < (k != 1):
                raise ConfigError(f"max_{name} is {taken!r}; it must be a positive whole number")
            sizes.append(int(taken))
        return cls(*sizes)

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


def observation_space(padding: Padding, level: str) -> spaces.Space[Any]:
    """The space of observations of a given padding, for one of :data:`LEVELS`."""
    space = graph_space(padding)
    if level == "graph":
        return space
    if level == "candidates":
        return spaces.Dict({key: space[key] for key in NARROW})
    return spaces.Box(0.0, CLIP, (sum(int(np.prod(space[key].shape or ())) for key in NARROW),), np.float32)


def graph_space(padding: Padding) -> spaces.Dict:
    """The space of observations of the whole graph."""
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


def dispatch_space(padding: Padding, candidates: int) -> spaces.Dict:
    """The space of observations of the whole graph in ``mode="dispatch"``.

    Args:
        padding: sizes.
        candidates: operators that are offered at a time.
    """
    d, actions = padding.devices, candidates * padding.devices + 1
    space = dict(graph_space(padding).spaces)
    del space["current"]
    space["devices"] = spaces.Box(0.0, CLIP, (d, len(DISPATCH_DEVICE_FEATURES)), np.float32)
    space["candidates"] = spaces.Box(0.0, CLIP, (actions, len(DISPATCH_CANDIDATE_FEATURES)), np.float32)
    space["candidate_operators"] = spaces.Box(-1, padding.operators - 1, (candidates,), np.int64)
    space["now"] = spaces.Box(0.0, CLIP, (1,), np.float32)
    space["action_mask"] = spaces.MultiBinary(actions)
    return spaces.Dict(space)


def fixed(context: Context, padding: Padding) -> dict[str, npt.NDArray[Any]]:
    """The part of a problem's observations that holds from step to step, padding included.

    Args:
        context: of the problem, which must fit.
        padding: sizes of the observations.
    """
    problem, scale = context.problem, 1.0 / context.reference if context.reference > 0 else 0.0
    n, e, d = problem.num_operators, problem.num_edges, problem.num_devices

    def time(seconds: FloatArray) -> npt.NDArray[np.float32]:
        finite = np.isfinite(seconds)
        return np.where(finite, np.clip(np.where(finite, seconds, 0.0) * scale, 0.0, CLIP), CLIP).astype(np.float32)

    blank = {
        name: np.zeros(space.shape or (), space.dtype) for name, space in graph_space(padding).spaces.items()
    }  # fmt: skip
    transfer = time(problem.mean_communication)
    largest = np.zeros(n, np.float32)
    np.maximum.at(largest, problem.edge_source, transfer)
    turn = np.empty(n)
    turn[context.plan.order] = np.arange(n) / max(1, n - 1)
    table = blank["operators"]
    table[:n, 0] = time(problem.mean_cost)
    table[:n, 1] = time(problem.cost.min(axis=1))
    table[:n, 2] = time(context.upward)
    table[:n, 3] = time(context.downward)
    table[:n, 4] = largest
    table[:n, 5] = np.minimum(np.diff(problem.predecessors.pointer) / 8, CLIP)
    table[:n, 6] = np.minimum(np.diff(problem.successors.pointer) / 8, CLIP)
    table[:n, 7] = turn
    blank["costs"][:n, :d] = time(problem.cost)
    blank["assignment"][:] = -1
    blank["edges"][0, :e] = problem.edge_source
    blank["edges"][1, :e] = problem.edge_target
    blank["edge_transfer"][:e] = transfer
    finite = np.where(np.isfinite(problem.cost), problem.cost, 0.0).sum(axis=0)
    blank["devices"][:d, 3] = time(finite / d)
    mean_bytes = float(problem.edge_bytes.mean()) if e else 0.0
    blank["links"][:d, :d] = time(problem.latency + mean_bytes / problem.bandwidth)
    blank["operator_mask"][:n] = 1
    blank["edge_mask"][:e] = 1
    blank["device_mask"][:d] = 1
    return blank


def feature_table(features: tuple[Feature, ...]) -> str:
    """A feature table as reStructuredText-free plain text, for docstrings and ``--help`` pages."""
    width = max(len(f.name) for f in features)
    unit = max(len(f.unit) for f in features)
    return "\n".join(f"{k:>2}  {f.name:<{width}}  {f.unit:<{unit}}  {f.meaning}" for k, f in enumerate(features))
