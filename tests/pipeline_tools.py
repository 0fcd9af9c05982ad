"""Pipelines for tests: small problems with every oddity, best assignments by trying all, and a slow makespan."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from hetgym import InvalidSchedule
from hetgym.pipeline import DeviceKind, Orders, PipelineProblem, TrainingPipeline


@st.composite
def pipelines(draw: st.DrawFn, max_operators: int = 6) -> PipelineProblem:
    """Small graphs with colours, a mirrored backward pass, operators without work, and tight memory."""
    n = draw(st.integers(1, max_operators), label="forward operators")
    training = draw(st.booleans(), label="training")
    tight = draw(st.booleans(), label="tight memory")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.35]
    colour = rng.integers(0, 3, n) if rng.random() < 0.3 else np.arange(n)
    if training:
        edges += [(n + j, n + i) for i, j in edges] + [(i, n + i) for i in range(n)]
        colour = np.concatenate([colour, colour])
    total = len(colour)
    cost = np.where(rng.random((total, 1)) < 0.3, 0.0, rng.integers(1, 9, (total, 2)))
    if rng.random() < 0.3:
        cost[rng.integers(total), 0] = math.inf
    size = rng.integers(0, 4, total)
    return PipelineProblem(
        cost,
        edges,
        [
            DeviceKind("accelerator", 2, 4.0 + size.sum() // 2 if tight else math.inf),
            DeviceKind("cpu", 1, transfers=False),
        ],
        transfer=np.where(rng.random(total) < 0.4, 0.0, rng.integers(1, 5, total)),
        size=size,
        colour=colour,
        backward=np.arange(total) >= n,
    )


def best_of_all(problem: PipelineProblem) -> float:
    """Smallest max-load over all legal assignments; operators of one colour move together."""
    colours = sorted(set(problem.colour.tolist()))
    best = math.inf
    for devices in itertools.product(range(problem.num_devices), repeat=len(colours)):
        assignment = np.array(devices)[np.searchsorted(colours, problem.colour)]
        try:
            best = min(best, problem.max_load(assignment))
        except InvalidSchedule:
            continue
    return best


def distinct_colours(problem: PipelineProblem) -> PipelineProblem:
    """The same problem with a colour of its own for each operator."""
    edges = list(zip(problem.edge_source, problem.edge_target, strict=True))
    colour = np.arange(problem.num_operators)
    return PipelineProblem(problem.cost, edges, problem.kinds, problem.transfer, problem.size, colour)


def small_chain(rng: np.random.Generator, n: int = 6) -> TrainingPipeline:
    """A chain on three devices of two kinds: whole bytes, tight memory, now and then a block that a kind cannot run."""
    cost = rng.uniform(0.5, 3.0, (n, 2))
    if rng.random() < 0.5:
        cost[rng.integers(n), rng.integers(2)] = math.inf
    size, stash = rng.integers(0, 5, n), rng.integers(0, 3, n)
    need = float((4 * size + 2 * stash).sum())
    small, large = np.round(need * np.sort(rng.uniform(0.25, 1.1, 2)))
    kinds = [DeviceKind("a", 2, small), DeviceKind("b", 1, large, transfers=bool(rng.random() < 0.5))]
    chain = PipelineProblem.chain(cost, kinds, rng.uniform(0, 1, n), size)
    return TrainingPipeline(chain, rng.uniform(0.1, 2, (n, 2)), rng.uniform(0.1, 2, (n, 2)), stash)


def slow_makespan(
    passes: Orders, seconds: Callable[[str, int, int], float], moves: list[float], in_flight: int | None = None
) -> float:
    """The makespan of a pipeline by its definition: a pass starts when its inputs and the pass before it are done.

    Args:
        passes: the passes of each stage in order.
        seconds: run time of a pass by its kind, micro-batch and chunk of the whole model.
        moves: seconds from each chunk of the whole model to the next one.
        in_flight: most micro-batches between the start of their first and the end of their last forward pass.
    """
    stages = len(passes)
    chunks = stages * (1 + max((item.chunk for order in passes for item in order), default=0))
    before: dict[tuple[str, int, int], tuple[str, int, int] | None] = {}
    for stage, order in enumerate(passes):
        last = None
        for item in order:
            key = (item.kind, item.micro_batch, item.chunk * stages + stage)
            before[key], last = last, key

    @functools.cache
    def finish(kind: str, batch: int, chunk: int) -> float:
        previous = before[kind, batch, chunk]
        ready = 0.0 if previous is None else finish(*previous)
        if kind == "F" and chunk > 0:
            ready = max(ready, finish("F", batch, chunk - 1) + moves[chunk - 1])
        if kind == "F" and chunk == 0 and in_flight and batch >= in_flight:
            ready = max(ready, finish("F", batch - in_flight, chunks - 1))
        if kind == "B":
            ready = max(ready, finish("F", batch, chunk))
            if chunk + 1 < chunks:
                ready = max(ready, finish("B", batch, chunk + 1) + moves[chunk])
        if kind == "W":
            ready = max(ready, finish("B", batch, chunk))
        return ready + seconds(kind, batch, chunk)

    return max((finish(*key) for key in before), default=0.0)
