"""Observations of splitting, as fixed-shape padded arrays; every column is a member of an enum below."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.scaling import CLIP, scale_of, shares
from hetgym.envs.core.spaces import blank, feature_box, graph_space, number_box
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice


class SplitOperatorColumn(Column):
    """Columns of ``obs["operators"]``; operators are those of the graph before any split."""

    TIME_SHARE = "-", "share of the run time of all operators, each on its fastest device"
    MEAN_COST = "reference", "mean run time over the devices"
    LEAST_COST = "reference", "run time on the fastest device"
    FLOPS = "-", "share of the graph's FLOPs"
    BYTES = "-", "share of the bytes that the graph reads and writes"
    WEIGHTS = "-", "share of the graph's weights"
    OUTPUT_TRANSFER = "reference", "mean time to send its outputs"
    IN_DEGREE = "1/8 edge", "incoming edges"
    OUT_DEGREE = "1/8 edge", "outgoing edges"
    DEPTH = "-", "longest path from a source, as a share of the graph's longest path"
    TURN = "episode", "position among the decisions, 0 first to 1 last; 0 for other operators"
    IS_KEY = "-", "1 if it is a key operator, which is to be decided on"
    IS_DECIDED = "-", "1 if it has been decided on"
    IS_CURRENT = "-", "1 if it is to be decided on now"
    PARTS = "1/8 part", "parts that it is split into, 0 while it is whole"
    BATCH = "-", "1 if it is split along this axis: batch"
    OUTPUT = "-", "1 if it is split along this axis: output"
    REDUCTION = "-", "1 if it is split along this axis: reduction"
    SPATIAL = "-", "1 if it is split along this axis: spatial"
    PROPORTIONAL = "-", "1 if its parts go by the speeds of devices"


class SplitDeviceColumn(Column):
    """Columns of ``obs["devices"]``."""

    TOTAL_COST = "reference / d", "run time of the whole graph on it alone"
    BUSY = "reference", "summed run time of its operators in the current schedule"
    SHARE = "-", "share of the operators that it runs in the current schedule"
    WEIGHTS = "-", "share of its memory that weights take in the current schedule; 0 if it is unlimited"


class SplitCandidateColumn(Column):
    """Columns of ``obs["candidates"]``; columns of scattering and gathering are 0 for the choice not to split."""

    BATCH = "-", "1 if the choice is to split along this axis: batch"
    OUTPUT = "-", "1 if the choice is to split along this axis: output"
    REDUCTION = "-", "1 if the choice is to split along this axis: reduction"
    SPATIAL = "-", "1 if the choice is to split along this axis: spatial"
    PROPORTIONAL = "-", "1 if its parts go by the speeds of devices"
    PARTS = "1/8 part", "number of parts; 1 = leave the operator whole"
    LEGAL = "-", "1 if the choice is legal"
    LEAST_PART = "-", "share of the axis that the smallest part gets"
    LARGEST_PART = "-", "share of the axis that the largest part gets"
    PART_TIME = "reference", "run time of the longest part on its fastest device"
    TOTAL_TIME = "reference", "summed run time of all parts on their fastest devices"
    TOGETHER_TIME = "reference", "longest run time if each part has a device to itself, the fastest first"
    SCATTER = "reference", "mean time to send what all parts read"
    GATHER = "reference", "mean time to send what all parts return"
    WORKING_SET = "-", "weights, operands and result of the largest part, as a share of the largest memory"
    SPARED_SCATTER = "-", "share of scattered operands that already lie in the same parts"
    SPARED_GATHER = "-", "1 if a reader is already split into the same parts as the result"
    COMPLETION = "reference", "makespan with this choice and the rest split by the pattern; the current one if off"
    MAKESPAN = "reference", "makespan with this choice; the current one unless look-ahead is on"


SPLIT_OPERATOR_FEATURES = features_of(SplitOperatorColumn)
"""Columns of ``obs["operators"]``; operators are those of the graph before any split."""

SPLIT_DEVICE_FEATURES = features_of(SplitDeviceColumn)  # Columns of `obs["devices"]`

SPLIT_CANDIDATE_FEATURES = features_of(SplitCandidateColumn)
"""Columns of ``obs["candidates"]``; columns of scattering and gathering are 0 for the choice not to split."""


def split_space(padding: GraphPadding, actions: int) -> spaces.Dict:
    """The space of observations of the whole graph before any split; ``actions``: size of the menu."""
    more = {"operator": feature_box(len(SplitOperatorColumn)), "makespan": feature_box(1)}
    more["current"] = number_box(0, padding.operators - 1, 1)
    return graph_space(padding, actions, (SplitOperatorColumn, SplitDeviceColumn, SplitCandidateColumn), **more)


_known_space = lru_cache(maxsize=16)(split_space)  # read only: samples of a space change its generator


def _share(values: FloatArray) -> FloatArray:
    """Each value's share of the sum."""
    total = float(values.sum())
    return values / total if total > 0 else np.zeros(len(values))


def fixed(instance: SplitInstance, padding: GraphPadding, actions: int) -> dict[str, npt.NDArray[Any]]:
    """The part of the observations that stays the same from step to step, padding included."""
    graph, problem, scale = instance.graph, instance.problem, scale_of(instance.reference)
    n, e, d = problem.num_operators, problem.num_edges, problem.num_devices
    seen = blank(_known_space(padding, actions))
    fastest = problem.cost.min(axis=1)
    columns = {
        SplitOperatorColumn.TIME_SHARE: _share(fastest),
        SplitOperatorColumn.MEAN_COST: shares(problem.mean_cost, scale),
        SplitOperatorColumn.LEAST_COST: shares(fastest, scale),
        SplitOperatorColumn.FLOPS: _share(graph.flops),
        SplitOperatorColumn.BYTES: _share(graph.bytes_read + graph.bytes_written),
        SplitOperatorColumn.WEIGHTS: _share(graph.weight_bytes),
        SplitOperatorColumn.OUTPUT_TRANSFER: shares(mean_rate(instance) * graph.output_bytes, scale),
        SplitOperatorColumn.IN_DEGREE: np.minimum(graph.in_degree / 8, CLIP),
        SplitOperatorColumn.OUT_DEGREE: np.minimum(graph.out_degree / 8, CLIP),
        SplitOperatorColumn.DEPTH: graph.depth / max(1, int(graph.depth.max())),
    }
    for column, values in columns.items():
        seen["operators"][:n, column] = values
    keys = list(instance.keys)
    seen["operators"][keys, SplitOperatorColumn.TURN] = np.arange(len(keys)) / max(1, len(keys) - 1)
    seen["operators"][keys, SplitOperatorColumn.IS_KEY] = 1.0
    seen["costs"][:n, :d] = shares(problem.cost, scale)
    seen["edges"][:, :e] = problem.edge_source, problem.edge_target
    seen["edge_transfer"][:e] = shares(problem.mean_communication, scale)
    finite = np.where(np.isfinite(problem.cost), problem.cost, 0.0).sum(axis=0)
    seen["devices"][:d, SplitDeviceColumn.TOTAL_COST] = shares(finite / d, scale)
    mean_bytes = float(problem.edge_bytes.mean()) if e else 0.0
    seen["links"][:d, :d] = shares(problem.latency + mean_bytes / problem.bandwidth, scale)
    for key, size in (("operator_mask", n), ("edge_mask", e), ("device_mask", d)):
        seen[key][:size] = 1
    return seen


def mean_rate(instance: SplitInstance) -> float:
    """Mean transfer time between two different devices [s/byte]."""
    bandwidth = instance.problem.bandwidth
    apart = ~np.eye(len(bandwidth), dtype=np.bool_)
    return float((1.0 / bandwidth[apart]).mean()) if apart.any() else 0.0


def menu_table(menu: Sequence[Choice]) -> npt.NDArray[np.float32]:
    """[A, C] the candidates' columns that depend on the entry of the menu alone."""
    table = np.zeros((len(menu), len(SplitCandidateColumn)), np.float32)
    for entry, choice in enumerate(menu):
        if choice.axis:
            table[entry, SplitCandidateColumn[choice.axis.upper()]] = 1.0
        table[entry, SplitCandidateColumn.PROPORTIONAL] = choice.parts == "proportional"
        table[entry, SplitCandidateColumn.PARTS] = choice.ways / 8
    return table


def choices_table(instance: SplitInstance, turn: int, entries: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """[A, C] the candidates of a decision, with the columns that do not depend on earlier decisions.

    Args:
        entries: [A, C] see :func:`menu_table`.
    """
    table, scale, operator = entries.copy(), scale_of(instance.reference), instance.keys[turn]
    capacity = instance.problem.memory_capacity
    room = float(capacity[np.isfinite(capacity)].max()) if np.isfinite(capacity).any() else np.inf
    op, rate = instance.graph.operators[operator], mean_rate(instance)
    whole = shares(float(instance.problem.cost[operator].min()), scale)
    held = summed(t.bytes for t in (*op.inputs, *op.outputs))
    for column in (SplitCandidateColumn.LEGAL, SplitCandidateColumn.LEAST_PART, SplitCandidateColumn.LARGEST_PART):
        table[0, column] = 1.0
    for column in (SplitCandidateColumn.PART_TIME, SplitCandidateColumn.TOTAL_TIME, SplitCandidateColumn.TOGETHER_TIME):
        table[0, column] = whole
    table[0, SplitCandidateColumn.WORKING_SET] = min(held / room, CLIP)
    found = [(entry, option) for entry, option in enumerate(instance.options[turn]) if option is not None]
    if found:
        at = [entry for entry, _ in found]
        figures = np.array([option[4:] for _, option in found])
        least, largest, slowest, total, together, scattered, gathered, working = figures.T
        columns = {
            SplitCandidateColumn.LEAST_PART: least,
            SplitCandidateColumn.LARGEST_PART: largest,
            SplitCandidateColumn.PART_TIME: shares(slowest, scale),
            SplitCandidateColumn.TOTAL_TIME: shares(total, scale),
            SplitCandidateColumn.TOGETHER_TIME: shares(together, scale),
            SplitCandidateColumn.SCATTER: shares(rate * scattered, scale),
            SplitCandidateColumn.GATHER: shares(rate * gathered, scale),
            SplitCandidateColumn.WORKING_SET: np.minimum(working / room, CLIP),
        }
        for column, values in columns.items():
            table[at, column] = values
    return table
