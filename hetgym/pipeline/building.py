"""Pipelines from graphs: a model's blocks and their costs on the devices of a platform."""

from __future__ import annotations

from collections import Counter

import numpy as np

from hetgym._types import FloatArray, IntArray, frozen
from hetgym.errors import ConfigError, unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.training import OPTIMIZERS, training, weights_of
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.training import TrainingPipeline
from hetgym.platform import Platform
from hetgym.problem import Problem

BLOCKS = ("auto", "trunk", "steps", "operators")
"""Kinds of blocks, the units that are never cut. ``trunk``: the operators between two that all paths pass; ``steps``:
a time step of a recurrent network; ``operators``: a single operator. ``auto`` takes ``steps`` if the graph has several
time steps, otherwise ``trunk``."""


def blocks(graph: DataflowGraph, how: str = "auto") -> IntArray:
    """[n] block of each operator; blocks are numbered in reading order.

    A trunk block ends with an operator that every path from a source to a sink passes, so that only one
    operator's results cross each cut. The time step of a recurrent cell is the number of earlier cells with the same
    weights; other operators belong to the latest step that they read from.

    Args:
        graph: the model.
        how: one of :data:`BLOCKS`.

    Raises:
        UnknownName: no such kind of blocks.
        ConfigError: ``steps`` for a graph without recurrent cells that share weights.

    >>> from hetgym.graph.generators import lstm_grid
    >>> blocks(lstm_grid(layers=2, steps=3)).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    if how not in BLOCKS:
        raise unknown_name("kind of blocks", how, BLOCKS)
    order = graph.topological_order.tolist()
    found = np.zeros(len(graph), np.int32)
    if how in ("auto", "steps"):
        steps = _steps(graph)
        if steps is not None:
            return frozen(steps)
        if how == "steps":
            raise ConfigError(f"graph {graph.name!r} has no recurrent cells that share weights, hence no time steps")
    if how == "operators":
        found[order] = np.arange(len(graph))
        return frozen(found)
    number = 0
    for i in order:
        found[i] = number
        number += int(graph.on_trunk[i])
    return frozen(found)


def _steps(graph: DataflowGraph) -> IntArray | None:
    """[n] time step of each operator; None if there is only one step."""
    step = np.zeros(len(graph), np.int32)
    runs: Counter[str] = Counter()
    pointer, node = graph.predecessors.pointer, graph.predecessors.node
    for i in graph.topological_order.tolist():
        step[i] = step[node[pointer[i] : pointer[i + 1]]].max(initial=0)
        op = graph.operators[i]
        named = [t for t in op.inputs if t.constant and t.name]
        if op.spec.family == "recurrent" and named:
            weights = max(named, key=lambda t: t.bytes).name  # the first step may also have a constant initial state
            step[i] = max(int(step[i]), runs[weights])
            runs[weights] = int(step[i]) + 1
    return step if step.any() else None


def pipeline(graph: DataflowGraph, platform: Platform, costs: object = "auto", how: str = "auto") -> PipelineProblem:
    """Price a model's blocks on a platform.

    The transfer time of a tensor is its average over all pairs of devices. Consecutive devices of a platform with
    equal costs, memory and transfers form one kind. If each block is read by the next one only, the problem is a chain
    of blocks; otherwise its operators are those of the graph, and each block is a colour.

    Args:
        graph: the model.
        platform: the devices.
        costs: a cost model or the name of one.
        how: see :func:`blocks`.

    Raises:
        UnknownName, ConfigError: see :func:`blocks`.
    """
    return _Build(graph, platform, costs, how).problem


def training_pipeline(
    graph: DataflowGraph, platform: Platform, costs: object = "auto", how: str = "auto", optimizer: str = "adam"
) -> TrainingPipeline:
    """Price a model's blocks on a platform, forward and backward.

    Backward operators are those of :func:`~hetgym.graph.transforms.training`. If one computes gradients of both inputs
    and weights, half of its time is attributed to each. The inputs of an operator, except those of views, stay in
    memory until its backward pass. Memory also holds weights, their gradients and the optimiser's state. The update of
    the weights, once per step, takes no time. Weights that several operators share are divided evenly among them.

    Args:
        graph: the model for inference.
        platform: the devices.
        costs: a cost model or the name of one.
        how: see :func:`blocks`.
        optimizer: one of :data:`~hetgym.graph.transforms.training.OPTIMIZERS`.

    Raises:
        UnknownName, ConfigError: see :func:`blocks`, or no such optimizer.
    """
    if optimizer not in OPTIMIZERS:
        raise unknown_name("optimizer", optimizer, OPTIMIZERS)
    return _Build(graph, platform, costs, how).training(optimizer)


class _Build:
    """A pipeline under construction."""

    def __init__(self, graph: DataflowGraph, platform: Platform, costs: object, how: str) -> None:
        self.graph, self.platform, self.costs = graph, platform, costs
        self.block = blocks(graph, how)
        priced = Problem.build(graph, platform, costs)  # type: ignore[arg-type]
        self.first = self._kinds(priced.cost)
        cost = priced.cost[:, self.first]
        source, target = graph.edge_source, graph.edge_target
        apart = self.block[target] - self.block[source]
        self.chain = bool((apart <= 1).all())
        sent = self._sent(apart)
        size = graph.resident_bytes
        names = [f"block{k}" for k in range(int(self.block.max()) + 1)]
        edges = list(zip(source.tolist(), target.tolist(), strict=True))
        if self.chain:
            cost, sent, size = self.gather(cost), self.gather(sent), self.gather(size)
            edges = [(k, k + 1) for k in range(len(names) - 1)]
        else:
            names = [op.name for op in graph.operators]
        counts = np.diff([*self.first, len(platform)]).tolist()
        devices = [platform[k] for k in self.first]
        kinds = [DeviceKind(d.name, c, d.memory_capacity) for d, c in zip(devices, counts, strict=True)]
        self.problem = PipelineProblem(
            cost,
            edges,
            kinds,
            transfer=sent,
            size=size,
            colour=None if self.chain else self.block,
            operator_names=names,
            name=f"{graph.name}@{platform.name}",
        )

    def training(self, optimizer: str) -> TrainingPipeline:
        """The pipeline with its backward pass."""
        graph, n = self.graph, len(self.graph)
        step = training(graph, optimizer)
        cost = Problem.build(step, self.platform, self.costs).cost[:, self.first]  # type: ignore[arg-type]
        number = {op.name: i for i, op in enumerate(graph.operators)}
        backward, weight = np.zeros((n, cost.shape[1])), np.zeros((n, cost.shape[1]))
        stash = np.zeros(n)
        held: list[set[int]] = [set() for _ in range(int(self.block.max()) + 1)]
        for j in range(n, len(step)):
            op = step.operators[j]
            i = number.get(op.name.removesuffix("/backward"))
            if op.name == "loss":
                backward[graph.topological_order[-1]] += cost[j]
            elif i is not None and op.name.endswith("/backward"):
                weights = len(weights_of(graph.operators[i]))
                share = 0.0 if weights == 0 else 1.0 if len(op.outputs) == weights else 0.5
                backward[i] += (1 - share) * cost[j]
                weight[i] += share * cost[j]
        for edge, target in enumerate(graph.edge_target.tolist()):
            kept, block = int(graph.edge_tensor[edge]), held[self.block[target]]
            if graph.operators[target].spec.family not in ("view", "move") and kept not in block:
                block.add(kept)
                stash[target] += graph.edge_bytes[edge]
        state = graph.resident_bytes * (1 + OPTIMIZERS[optimizer][0])
        if self.chain:
            backward, weight, stash, state = (self.gather(a) for a in (backward, weight, stash, state))
        return TrainingPipeline(self.problem, backward, weight, stash, state)

    def gather(self, values: FloatArray) -> FloatArray:
        """Sums over the operators of each block."""
        total = np.zeros((int(self.block.max()) + 1, *values.shape[1:]))
        np.add.at(total, self.block, values)
        return total

    def _kinds(self, cost: FloatArray) -> list[int]:
        """Number of the first device of each kind."""
        memory = [device.memory_capacity for device in self.platform.devices]
        return [
            d
            for d in range(len(memory))
            if d == 0 or memory[d] != memory[d - 1] or (cost[:, d] != cost[:, d - 1]).any()
        ]

    def _sent(self, apart: IntArray) -> FloatArray:
        """[n] seconds to move the outputs that other blocks read, averaged over the pairs of devices."""
        graph, d = self.graph, len(self.platform)
        sent = np.zeros(len(graph))
        if d == 1:
            return sent
        different = ~np.eye(d, dtype=np.bool_)
        latency = float(self.platform.latency[different].mean())
        pace = float((1.0 / self.platform.bandwidth[different]).mean())
        seen: set[int] = set()
        for edge in np.flatnonzero(apart > 0).tolist():
            if int(graph.edge_tensor[edge]) not in seen:
                seen.add(int(graph.edge_tensor[edge]))
                sent[graph.edge_source[edge]] += latency + graph.edge_bytes[edge] * pace
        return sent
