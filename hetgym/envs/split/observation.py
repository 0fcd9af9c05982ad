"""What an agent of HetSplit-v0 sees, as fixed-shape padded arrays; every column is a row of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._types import FloatArray
from hetgym.envs.place.dynamics import CLIP
from hetgym.envs.place.observation import Padding
from hetgym.envs.split.dynamics import Context, Node
from hetgym.envs.split.options import Option
from hetgym.graph.dataflow import Feature
from hetgym.graph.transforms import AXES

SPLIT_OPERATOR_FEATURES: tuple[Feature, ...] = (
    Feature("time_share", "-", "share of the run time of all operators, each on its fastest device"),
    Feature("mean_cost", "reference", "mean run time over the devices"),
    Feature("least_cost", "reference", "run time on the fastest device"),
    Feature("flops", "-", "share of the graph's FLOPs"),
    Feature("bytes", "-", "share of the bytes that the graph reads and writes"),
    Feature("weights", "-", "share of the graph's weights"),
    Feature("output_transfer", "reference", "mean time to send its outputs"),
    Feature("in_degree", "1/8 edge", "incoming edges"),
    Feature("out_degree", "1/8 edge", "outgoing edges"),
    Feature("depth", "-", "longest path from a source, of the graph's longest"),
    Feature("turn", "episode", "position among the decisions, 0 first to 1 last; 0 where there is none"),
    Feature("is_key", "-", "1 if it is to be decided on"),
    Feature("is_decided", "-", "1 if it has been"),
    Feature("is_current", "-", "1 if it is to be decided on now"),
    Feature("parts", "1/8 part", "parts that it is split into, 0 while it is whole"),
    *(Feature(axis, "-", f"1 if it is split along this axis: {axis}") for axis in AXES),
    Feature("proportional", "-", "1 if its parts go by the speeds of devices"),
)
"""Columns of ``obs["operators"]``; operators are those of the graph before any split."""

SPLIT_DEVICE_FEATURES: tuple[Feature, ...] = (
    Feature("total_cost", "reference / d", "run time of the whole graph on it alone"),
    Feature("busy", "reference", "summed run time of its operators in the present schedule"),
    Feature("share", "-", "share of the operators that it runs, likewise"),
    Feature("weights", "-", "weights on it, likewise, of its memory; 0 if that is unlimited"),
)
"""Columns of ``obs["devices"]``."""

SPLIT_CANDIDATE_FEATURES: tuple[Feature, ...] = (
    *(Feature(axis, "-", f"1 if the choice is to split along this axis: {axis}") for axis in AXES),
    Feature("proportional", "-", "1 if its parts go by the speeds of devices"),
    Feature("parts", "1/8 part", "number of parts; 1 = leave the operator whole"),
    Feature("legal", "-", "1 if the choice is legal"),
    Feature("least_part", "-", "share of the axis that the smallest part gets"),
    Feature("largest_part", "-", "share of the axis that the largest part gets"),
    Feature("part_time", "reference", "run time of the longest part on its fastest device"),
    Feature("total_time", "reference", "summed run time of all parts on their fastest devices"),
    Feature("together_time", "reference", "longest run time if each part has a device to itself, the fastest first"),
    Feature("scatter", "reference", "mean time to send what all parts read"),
    Feature("gather", "reference", "mean time to send what all parts return"),
    Feature("working_set", "-", "weights, operands and result of the largest part, of the largest memory"),
    Feature("spared_scatter", "-", "share of dealt operands that already lie in the very parts that are needed"),
    Feature("spared_gather", "-", "1 if a reader already takes the result in the very parts that come out"),
    Feature("completion", "reference", "with this choice and what follows split by the pattern; unless on, as it is"),
    Feature("makespan", "reference", "of the graph with this choice; the present one unless look-ahead is on"),
)
"""Columns of ``obs["candidates"]``; what is scattered, gathered and spared is 0 for leaving."""

LEVELS = ("graph", "candidates", "flat")
"""How much is seen: everything; the current operator and its choices; the same as one vector."""

NARROW = ("candidates", "operator", "devices", "makespan", "action_mask")
"""Keys that the levels below ``graph`` show; ``flat`` joins them in this order, row by row."""

DECIDED, CURRENT = 12, 13
"""Columns of operators: from the first of them on they change."""

LEGAL, SPARED, COMPLETION, MAKESPAN = 6, 15, 17, 18
"""Columns of candidates; two tell what is spared."""


def split_space(padding: Padding, actions: int) -> spaces.Dict:
    """The space of observations of a given padding and size of the menu."""
    n, e, d = padding.operators, max(1, padding.edges), padding.devices

    def box(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, CLIP, shape, np.float32)

    return spaces.Dict(
        {
            "operators": box(n, len(SPLIT_OPERATOR_FEATURES)),
            "costs": box(n, d),
            "edges": spaces.Box(0, n - 1, (2, e), np.int64),
            "edge_transfer": box(e),
            "devices": box(d, len(SPLIT_DEVICE_FEATURES)),
            "links": box(d, d),
            "candidates": box(actions, len(SPLIT_CANDIDATE_FEATURES)),
            "operator": box(len(SPLIT_OPERATOR_FEATURES)),
            "makespan": box(1),
            "current": spaces.Box(0, n - 1, (1,), np.int64),
            "operator_mask": spaces.MultiBinary(n),
            "edge_mask": spaces.MultiBinary(e),
            "device_mask": spaces.MultiBinary(d),
            "action_mask": spaces.MultiBinary(actions),
        }
    )


def level_space(padding: Padding, actions: int, level: str) -> spaces.Space[Any]:
    """The space of one of :data:`LEVELS`."""
    space = split_space(padding, actions)
    if level == "graph":
        return space
    if level == "candidates":
        return spaces.Dict({key: space[key] for key in NARROW})
    return spaces.Box(0.0, CLIP, (sum(int(np.prod(space[key].shape or ())) for key in NARROW),), np.float32)


def scaled(seconds: FloatArray | float, reference: float) -> npt.NDArray[np.float32]:
    """Times as shares of the reference, clipped; what is infinite stands at the clip."""
    scale = 1.0 / reference if reference > 0 else 0.0
    values = np.asarray(seconds, np.float64)
    finite = np.isfinite(values)
    return np.where(finite, np.clip(np.where(finite, values, 0.0) * scale, 0.0, CLIP), CLIP).astype(np.float32)


def _share(values: FloatArray) -> FloatArray:
    total = float(values.sum())
    return values / total if total > 0 else np.zeros(len(values))


def fixed(context: Context, padding: Padding, actions: int) -> dict[str, npt.NDArray[Any]]:
    """The part of the observations that holds from step to step, padding included."""
    graph, problem, reference = context.graph, context.problem, context.reference
    n, e, d = problem.num_operators, problem.num_edges, problem.num_devices
    space = split_space(padding, actions)
    blank = {name: np.zeros(each.shape or (), each.dtype) for name, each in space.spaces.items()}
    fastest, transfer = problem.cost.min(axis=1), problem.mean_communication
    table = blank["operators"]
    columns = (
        _share(fastest), scaled(problem.mean_cost, reference), scaled(fastest, reference), _share(graph.flops),
        _share(graph.bytes_read + graph.bytes_written), _share(graph.weight_bytes),
        scaled(mean_rate(context) * graph.output_bytes, reference), np.minimum(graph.in_degree / 8, CLIP),
        np.minimum(graph.out_degree / 8, CLIP), graph.depth / max(1, int(graph.depth.max())),
    )  # fmt: skip
    for k, column in enumerate(columns):
        table[:n, k] = column
    keys = list(context.keys)
    table[keys, 10] = np.arange(len(keys)) / max(1, len(keys) - 1)
    table[keys, 11] = 1.0
    blank["costs"][:n, :d] = scaled(problem.cost, reference)
    blank["edges"][0, :e] = problem.edge_source
    blank["edges"][1, :e] = problem.edge_target
    blank["edge_transfer"][:e] = scaled(transfer, reference)
    finite = np.where(np.isfinite(problem.cost), problem.cost, 0.0).sum(axis=0)
    blank["devices"][:d, 0] = scaled(finite / d, reference)
    mean_bytes = float(problem.edge_bytes.mean()) if e else 0.0
    blank["links"][:d, :d] = scaled(problem.latency + mean_bytes / problem.bandwidth, reference)
    blank["operator_mask"][:n] = 1
    blank["edge_mask"][:e] = 1
    blank["device_mask"][:d] = 1
    return blank


def mean_rate(context: Context) -> float:
    """Mean seconds a byte takes between two different devices."""
    bandwidth = context.problem.bandwidth
    apart = ~np.eye(len(bandwidth), dtype=np.bool_)
    return float((1.0 / bandwidth[apart]).mean()) if apart.any() else 0.0


def choices_table(context: Context, turn: int, actions: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """[A, C] the candidates of a decision, as far as they do not depend on earlier ones.

    Args:
        context: of the graph.
        turn: which decision.
        actions: [A, 6] the columns that hold for each entry of the menu whatever the operator.
    """
    table = np.zeros((len(actions), len(SPLIT_CANDIDATE_FEATURES)), np.float32)
    table[:, :LEGAL] = actions
    capacity = context.problem.memory_capacity
    room = float(capacity[np.isfinite(capacity)].max()) if np.isfinite(capacity).any() else np.inf
    op = context.graph.operators[context.keys[turn]]
    whole = float(context.problem.cost[context.keys[turn]].min())
    held = sum(t.bytes for t in (*op.inputs, *op.outputs))
    table[0, LEGAL:SPARED] = (1, 1, 1, *scaled(np.full(3, whole), context.reference), 0, 0, min(held / room, CLIP))
    for entry, option in enumerate(context.options[turn]):
        if option is not None:
            rate = mean_rate(context)
            times = (option.slowest, option.total, option.together, rate * option.scattered, rate * option.gathered)
            working = min(option.working / room, CLIP)
            table[entry, LEGAL + 1 : LEGAL + 3] = option.least, option.largest
            table[entry, LEGAL + 3 : SPARED - 1] = scaled(np.array(times), context.reference)
            table[entry, SPARED - 1] = working
    return table


def device_columns(context: Context, node: Node) -> npt.NDArray[np.float32]:
    """[d, 3] what the present schedule makes of each device: busy, share, weights."""
    problem, assignment = node.problem, node.schedule.assignment
    n, d = problem.cost.shape
    seconds = problem.cost[np.arange(n), assignment]
    weights = np.bincount(assignment, problem.weight_bytes, minlength=d) / problem.memory_capacity
    busy = scaled(np.bincount(assignment, seconds, minlength=d).astype(np.float64), context.reference)
    share = np.bincount(assignment, minlength=d) / n
    return np.stack([busy, share, np.minimum(weights, CLIP)], axis=1).astype(np.float32)


def decided_columns(option: Option | None, axis: str, proportional: bool) -> npt.NDArray[np.float32]:
    """[8] columns of an operator from ``is_decided`` on, after its decision."""
    row = np.zeros(len(SPLIT_OPERATOR_FEATURES) - DECIDED, np.float32)
    row[0] = 1.0
    if option is not None:
        row[2] = min(len(option.lengths) / 8, CLIP)
        row[3 + AXES.index(axis)] = 1.0
        row[-1] = proportional
    return row
