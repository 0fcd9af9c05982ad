"""Task graphs from plain arrays; shared by the generators of random and structured graphs."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.errors import GraphError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator, Tensor

Index = npt.NDArray[np.int64]


MAX_TASKS = 1 << 20
"""Most tasks of a generated graph: operators are Python objects, and a million of them take a gigabyte."""

MAX_EDGES = 1 << 23  # Most edges of a generated graph

_LARGEST = 1 << 40  # of a parameter; products of larger ones might not fit 64 bits
_MOST_BYTES = 1e15  # of an average edge


def task_graph(
    name: str, work: FloatArray, source: Index, target: Index, payload: Index, names: Sequence[str] | None = None
) -> DataflowGraph:
    """Build a graph of ``Task`` operators, named ``t0``, ``t1``, … by default.

    A task has one uint8 output for each distinct payload among its outgoing edges: edges of equal size carry the same
    tensor. Tasks have [n] work [FLOP], edges [e] task ids at source and target, and a payload [byte].
    """
    n = len(work)
    # Sort edges by source and payload: runs of equal pairs are the tensors, numbered within a source.
    order = np.lexsort((payload, source))
    by_source, by_payload = source[order], payload[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(by_source) != 0) | (np.diff(by_payload) != 0)
    tensor = np.empty(len(order), np.int64)
    tensor[order] = np.cumsum(fresh) - 1
    owner = by_source[fresh]
    first = np.searchsorted(owner, np.arange(n + 1))
    tensors = [Tensor((size,), "uint8") for size in by_payload[fresh].tolist()]
    inputs: list[list[Tensor]] = [[] for _ in range(n)]
    for j, t in zip(target.tolist(), tensor.tolist(), strict=True):
        inputs[j].append(tensors[t])
    bounds = first.tolist()
    labels = names if names is not None else [f"t{i}" for i in range(n)]
    operators = [
        Operator(labels[i], "Task", tuple(inputs[i]), tuple(tensors[bounds[i] : bounds[i + 1]]), {"flops": flops})
        for i, flops in enumerate(work.tolist())
    ]
    slot = tensor - first[source]
    return DataflowGraph(operators, zip(source.tolist(), slot.tolist(), target.tolist(), strict=True), name)


def random_tasks(
    name: str, rng: np.random.Generator, n: int, source: Index, target: Index, flops: float, payload: float
) -> DataflowGraph:
    """Build a graph with random work on its tasks and random sizes of its edges.

    Both are log-normal with the means ``flops`` [FLOP] and ``payload`` [byte]. The standard deviation of the logarithm
    is 0.8 for the work and 0.7 for the sizes.
    """
    per_task, per_edge = real(f"{name}: flops", flops), real(f"{name}: payload", payload, maximum=_MOST_BYTES)
    work, size = work_and_sizes(rng, n, len(source))
    return task_graph(name, per_task * work, source, target, np.ceil(per_edge * size).astype(np.int64))


def work_and_sizes(rng: np.random.Generator, n: int, edges: int) -> tuple[FloatArray, FloatArray]:
    """[n] work of tasks and [edges] sizes of edges, both of mean 1, as :func:`random_tasks` draws them."""
    return mean_one(rng, n, 0.8), mean_one(rng, edges, 0.7)


def mean_one(rng: np.random.Generator, n: int, spread: float) -> FloatArray:
    """[n] log-normal numbers of mean 1; ``spread`` is the standard deviation of the logarithm."""
    return rng.lognormal(-spread * spread / 2, spread, n)


def bounded(name: str, tasks: float, edges: float = 0.0) -> None:
    """Refuse (GraphError) a graph of more than :data:`MAX_TASKS` or :data:`MAX_EDGES`, before any of it is made."""
    if tasks > MAX_TASKS or edges > MAX_EDGES:
        raise GraphError(
            f"{name}: the graph may have {tasks:.3g} tasks and {edges:.3g} edges; the limits are {MAX_TASKS} and "
            f"{MAX_EDGES}"
        )


def whole(what: str, value: object, minimum: int = 1) -> int:
    """The value of a parameter that is a count; GraphError if it is not a whole number, or below the minimum."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not minimum <= value <= _LARGEST:
        raise GraphError(f"{what} is {shown(value)}; it must be a whole number of at least {minimum}")
    return int(value)


def wholes(generator: str, **counts: object) -> None:
    """Check several parameters of a generator as :func:`whole` does."""
    for name, value in counts.items():
        whole(f"{generator}: {name}", value)


def real(what: str, value: object, minimum: float = 0.0, maximum: float = math.inf) -> float:
    """The value of a parameter that is a real number; GraphError if it is not finite or outside the limits."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not minimum <= value <= maximum:  # type: ignore[arg-type, operator]
        limits = f"at least {minimum:g}" if maximum == math.inf else f"between {minimum:g} and {maximum:g}"
        raise GraphError(f"{what} is {shown(value)}; it must be a number {limits}")
    return float(value)  # type: ignore[arg-type]
