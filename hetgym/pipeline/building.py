"""Pipelines from graphs: a model's blocks and their costs on the devices of a platform."""

import warnings

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError, HetgymWarning, check_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.language_model import LanguageModel, padded
from hetgym.graph.layers import layer_of
from hetgym.graph.ops import Operator
from hetgym.graph.transforms.training import OPTIMIZERS, training, weights_of
from hetgym.pipeline.blocking import blocks
from hetgym.pipeline.chain import LayerChain
from hetgym.pipeline.layers import kinds_of
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.training import TrainingPipeline
from hetgym.platform import Platform
from hetgym.problem import Problem


def pipeline(
    graph: DataflowGraph, platform: Platform, costs: object = "auto", how: str = "auto", stages: int | None = None
) -> PipelineProblem:
    """Price a model's blocks on a platform.

    The transfer time of a tensor is its average over all pairs of devices. Consecutive devices of a platform with
    equal costs, memory and transfers form one kind. Blocks form a chain: a tensor that a later block than the next one
    reads passes every boundary up to there, and costs its transfer at each. If blocks are operators, the problem has
    the graph's edges instead, unless they are a chain themselves.

    Args:
        costs: a cost model or the name of one.
        how: see :func:`blocks`.
        stages: number of stages that are wanted; one for each device by default.

    Raises:
        UnknownName, ConfigError: see :func:`blocks`.

    Warns:
        HetgymWarning: there are fewer blocks than stages.
    """
    return _Build(graph, platform, costs, how, stages).problem


def training_pipeline(
    graph: DataflowGraph, platform: Platform, costs: object = "auto", how: str = "auto", optimizer: str = "adam"
) -> TrainingPipeline:
    """Price a model's blocks on a platform, forward and backward.

    Backward operators are those of :func:`~hetgym.graph.transforms.training`. If one computes gradients of both inputs
    and weights, half of its time is attributed to each. The inputs of an operator, except those of views, stay in
    memory until its backward pass. Memory also holds weights, their gradients and the optimiser's state. The update of
    the weights, once per step, takes no time. Each stage that reads a shared weight holds all of it, with its state.

    Args:
        graph: the model for inference.
        costs: a cost model or the name of one.
        how: see :func:`blocks`.
        optimizer: one of :data:`~hetgym.graph.transforms.training.OPTIMIZERS`.

    Raises:
        UnknownName, ConfigError: see :func:`blocks`, or no such optimizer.

    Warns:
        HetgymWarning: see :func:`pipeline`.
    """
    check_name("optimizer", optimizer, OPTIMIZERS)
    return _Build(graph, platform, costs, how).training(optimizer)


def layer_chain(
    graph: DataflowGraph,
    platform: Platform,
    costs: object = "auto",
    how: str = "layers",
    model: LanguageModel | None = None,
) -> LayerChain:
    """Price a model's blocks on a platform, with the link between every two devices.

    What a later block than the next one reads passes every boundary up to there. A layer's cache is what its tensors
    named ``…_cache`` hold for a token. In graphs without such tensors, each operator of attention has one cache, and
    all are equal.

    Args:
        costs: a cost model or the name of one.
        how: see :func:`blocks`; not ``operators``.
        model: the language model whose pass the graph is, for the windows of its caches and its longest context.

    Raises:
        UnknownName, ConfigError: see :func:`blocks`, or blocks of operators, which are no chain.
    """
    if how == "operators":
        raise ConfigError("layers that are single operators are no chain; let how be another kind of blocks")
    return _Build(graph, platform, costs, how, 1).layers(model)


class _Build:
    """A pipeline under construction."""

    def __init__(
        self, graph: DataflowGraph, platform: Platform, costs: object, how: str, stages: int | None = None
    ) -> None:
        self.graph, self.platform, self.costs = graph, platform, costs
        self.block = blocks(graph, how)
        count = int(self.block.max()) + 1
        wanted, what = (len(platform), "devices") if stages is None else (stages, "stages")
        if count < wanted:
            warnings.warn(
                f"graph {graph.name!r} has {count} blocks ({how}) for {wanted} {what}: "
                f"{wanted - count} stay{'s' if wanted - count == 1 else ''} empty"
                + ("" if count == len(graph) else "; blocks of 'operators' are finer"),
                HetgymWarning,
                stacklevel=4,
            )
        priced = Problem.build(graph, platform, costs)  # type: ignore[arg-type]
        kinds, self.first = kinds_of(platform, priced.cost)
        self.priced = priced.cost
        cost = priced.cost[:, self.first]
        source, target = graph.edge_source, graph.edge_target
        apart = self.block[target] - self.block[source]
        self.chain = how != "operators" or bool((apart <= 1).all())
        sent = self._sent(*priced.mean_transfer)
        size, shared = graph.resident_bytes, graph.shared_weights
        names = [f"block{k}" for k in range(count)]
        edges = list(zip(source.tolist(), target.tolist(), strict=True))
        if self.chain:
            cost, size = self.gather(cost), self.gather(size) - self.spared()
            shared = shared.grouped(self.block, count)
            edges = [(k, k + 1) for k in range(count - 1)]
        else:
            names = [op.name for op in graph.operators]
        self.problem = PipelineProblem(
            cost,
            edges,
            kinds,
            transfer=sent,
            size=size,
            colour=None if self.chain else self.block,
            operator_names=names,
            name=f"{graph.name}@{platform.name}",
            shared=shared,
        )

    def layers(self, model: LanguageModel | None) -> LayerChain:
        """The chain of blocks with the links between all devices."""
        platform, problem = self.platform, self.problem
        cache, held, windows = _caches(self.graph, self.block, model)
        names = block_names(self.graph, self.block)
        return LayerChain(
            problem.name,
            tuple(names),
            tuple(device.name for device in platform),
            cost=self.gather(self.priced),
            size=problem.size,
            memory=np.array([device.usable_memory for device in platform]),
            latency=platform.latency,
            pace=1.0 / platform.bandwidth,
            messages=self._sent(1.0, 0.0),
            sent=self._sent(0.0, 1.0),
            delay=np.zeros(len(problem.size)),
            cache=cache,
            cached=held,
            shared=problem.shared,
            roles=_roles(names),
            memory_pool=tuple(platform.memory_pool),
            entry=tuple(device.partition_overhead for device in platform),
            turns=tuple(platform.takes_turns),
            windows=windows,
            longest=float(model.positions or np.inf) if model is not None and held.any() else np.inf,
            per_token=bool(held.any()),
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
        multiple = float(1 + OPTIMIZERS[optimizer][0])
        if self.chain:
            backward, weight, stash = (self.gather(a) for a in (backward, weight, stash))
            state = (self.gather(graph.resident_bytes) - self.spared()) * multiple
        else:
            state = graph.resident_bytes * multiple
        return TrainingPipeline(self.problem, backward, weight, stash, state, multiple)

    def spared(self) -> FloatArray:
        """Bytes of weights that several operators of a block read, less one copy."""
        return self.graph.shared_weights.spared(self.block, int(self.block.max()) + 1)

    def gather(self, values: FloatArray) -> FloatArray:
        """Sums over the operators of each block."""
        total = np.zeros((int(self.block.max()) + 1, *values.shape[1:]))
        np.add.at(total, self.block, values)
        return total

    def _sent(self, latency: float, pace: float) -> FloatArray:
        """Seconds to move what other blocks read, by the mean latency and the mean time of a byte.

        Returns:
            In a chain, [b] of all tensors that cross the end of each block; otherwise [n] of the outputs of each
            operator.
        """
        graph, d, block = self.graph, len(self.platform), self.block
        sent = np.zeros(int(block.max()) + 1 if self.chain else len(graph))
        if d == 1:
            return sent
        until: dict[int, int] = {}  # tensor -> last block that it has reached
        for edge in np.flatnonzero(block[graph.edge_target] > block[graph.edge_source]).tolist():
            source, tensor = int(graph.edge_source[edge]), int(graph.edge_tensor[edge])
            seconds = latency + graph.edge_bytes[edge] * pace
            if self.chain:
                reached, last = until.get(tensor, int(block[source])), int(block[graph.edge_target[edge]])
                sent[reached:last] += seconds
                until[tensor] = max(reached, last)
            elif tensor not in until:
                until[tensor] = 0
                sent[source] += seconds
        return sent


def block_names(graph: DataflowGraph, block: IntArray) -> list[str]:
    """Name of each block ([n] block of each operator): its first layer, or its first operator if it has no layer."""
    found: dict[int, str] = {}
    for k, op in zip(block.tolist(), graph.operators, strict=True):
        if k not in found or (layer_of(op.name) and not layer_of(found[k])):
            found[k] = layer_of(op.name) or op.name
    return [found[k] for k in range(len(found))]


def _caches(
    graph: DataflowGraph, block: IntArray, model: LanguageModel | None
) -> tuple[FloatArray, FloatArray, tuple[tuple[float, FloatArray], ...]]:
    """[b] bytes that each block caches for a token, or its operators of attention; [b] bytes of the caches it holds.

    The last part is ``windows`` of :class:`LayerChain`.
    """
    count = int(block.max()) + 1
    windows: dict[float, FloatArray] = {}
    cache, held, attention = np.zeros(count), np.zeros(count), np.zeros(count)
    seen: set[tuple[int, str]] = set()
    for k, op in zip(block.tolist(), graph.operators, strict=True):
        attention[k] += op.kind == "Attention"
        for tensor in op.inputs:
            if tensor.constant and tensor.name.endswith("_cache") and (k, tensor.name) not in seen:
                seen.add((k, tensor.name))
                held[k] += tensor.bytes
                cache[k] += tensor.bytes / tensor.shape[-2]
                most = _window(tensor.name, op, model)
                if most < np.inf:
                    windows.setdefault(most, np.zeros(count))[k] += tensor.bytes / tensor.shape[-2]
    return cache if held.any() else attention, held, tuple(sorted(windows.items(), key=lambda item: item[0]))


def _window(cache: str, op: Operator, model: LanguageModel | None) -> float:
    """Tokens that a cache, by its name, holds at most; infinite without a window. The operator writes or reads it."""
    number = layer_of(cache).rpartition(".")[2]
    layer = model.layers[int(number)] if model and number.isdigit() and int(number) < len(model.layers) else None
    if layer is None or not layer.window:
        return np.inf
    passed = op.inputs[-1].shape[-2] if op.kind == "TensorScatter" else 1
    return float(padded(layer.window + passed))


def _roles(names: list[str]) -> tuple[str, ...]:
    """[b] role of each block: those from the first layer to the last are layers."""
    layers = [k for k, name in enumerate(names) if layer_of(name)] or [0, len(names) - 1]
    before, after = layers[0], len(names) - 1 - layers[-1]
    return ("words",) * before + ("layer",) * (len(names) - before - after) + ("head",) * after
