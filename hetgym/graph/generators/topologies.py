"""Random task graphs: layers, forks and joins, and other shapes from the scheduling literature."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym.errors import GraphError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.tasks import Index, bounded, random_tasks, real, whole, wholes


def layered(
    rng: np.random.Generator,
    tasks: int = 50,
    width: int | None = None,
    predecessors: int = 3,
    flops: float = 1e9,
    payload: float = 1e6,
) -> DataflowGraph:
    """Layers of random width, where each task reads from a few tasks of the previous layer.

    Args:
        rng: source of all randomness.
        tasks: number of tasks, n.
        width: a layer has 1 to ``width`` tasks, drawn uniformly; by default ``width`` itself is drawn
            from 3 to 9.
        predecessors: a task reads from 1 to this many different tasks of the previous layer.
        flops: mean work of a task [FLOP].
        payload: mean size of an edge [byte].

    >>> layered(np.random.default_rng(0), tasks=20)
    DataflowGraph('layered', 20 operators, 28 edges)
    """
    source, target = layered_edges(rng, tasks, width, predecessors)
    return random_tasks("layered", rng, tasks, source, target, flops, payload)


def layered_edges(
    rng: np.random.Generator, tasks: int, width: int | None = None, predecessors: int = 3
) -> tuple[Index, Index]:
    """Source and target, [e] each, of the edges of :func:`layered`, all different."""
    wholes("layered", tasks=tasks, predecessors=predecessors)
    widest = int(rng.integers(3, 10)) if width is None else whole("layered: width", width)
    most = min(predecessors, widest)
    bounded("layered", tasks, tasks * most)
    source, target = np.empty(tasks * most, np.int64), np.empty(tasks * most, np.int64)
    e = write_layered(
        rng, tasks, widest, predecessors, np.empty(layered_scratch(tasks, most), np.int64), source, target
    )
    return source[:e], target[:e]


def layered_scratch(tasks: int, most: int) -> int:
    """Numbers that :func:`write_layered` needs as scratch; ``most`` is the smaller of a width and an in-degree."""
    return tasks + 1 + tasks * (most + 1)


# Readers draw without replacement, in turns. The k-th draw is an index into the tasks not yet chosen; adding 1 for each
# earlier choice that is not larger, smallest first, turns it into an index into all tasks.
@jit
def write_layered(
    rng: np.random.Generator, tasks: int, widest: int, predecessors: int, scratch: Index, source: Index, target: Index
) -> int:
    """As :func:`layered_edges`, for kernels; returns the number of edges.

    ``scratch`` is as long as :func:`layered_scratch` says; ``source`` and ``target`` are [n * min(predecessors,
    widest)], filled in as far as there are edges.
    """
    most = min(predecessors, widest)
    start, count, chosen = scratch, tasks + 1, 2 * tasks + 1  # where the counts and the choices begin in the scratch
    layers, used, limit = 0, 0, 0
    for _ in range(tasks):  # as many widths as there could be layers
        width = int(rng.integers(1, widest + 1))
        if used < tasks:
            start[layers] = used
            limit = max(limit, min(width, tasks - used))
            used += width
            layers += 1
    start[layers] = tasks
    limit = min(limit, most)
    first = start[1]
    for reader in range(first, tasks):
        scratch[count + reader] = rng.integers(1, predecessors + 1)
    for k in range(limit):
        layer = 1
        for reader in range(first, tasks):
            if reader == start[layer + 1]:
                layer += 1
            pick = int(rng.random() * max(start[layer] - start[layer - 1] - k, 1))
            row, last = chosen + reader * most, -1
            for _ in range(k):
                least = tasks
                for j in range(row, row + k):
                    if last < scratch[j] < least:
                        least = scratch[j]
                if pick >= least:
                    pick += 1
                last = least
            scratch[row + k] = pick
    edges, layer = 0, 1
    for reader in range(first, tasks):
        if reader == start[layer + 1]:
            layer += 1
        for k in range(min(scratch[count + reader], start[layer] - start[layer - 1])):
            source[edges] = start[layer - 1] + scratch[chosen + reader * most + k]
            target[edges] = reader
            edges += 1
    return edges


def daggen(
    rng: np.random.Generator,
    tasks: int = 50,
    fat: float = 0.5,
    density: float = 0.5,
    regularity: float = 0.5,
    jump: int = 1,
    flops: float = 1e9,
    payload: float = 1e6,
) -> DataflowGraph:
    """Random layers with the four shape parameters of Suter's ``daggen``.

    Implemented from the parameters' published description (Arabnejad and Barbosa, IEEE TPDS 25(3),
    2014, section 5.1); its draws are not those of the original program.

    Args:
        rng: source of all randomness.
        tasks: number of tasks, n.
        fat: the mean width of a level is ``fat · sqrt(n)``; small values give chains, large ones forks and joins.
        density: share of the previous level that a task may read from, in [0, 1].
        regularity: evenness of the widths, in [0, 1]: they range over mean ± (1 - regularity) · mean.
        jump: an edge spans up to this many levels; one edge of each task spans exactly one.
        flops: mean work of a task [FLOP].
        payload: mean size of an edge [byte].
    """
    wholes("daggen", tasks=tasks, jump=jump)
    mean = real("daggen: fat", fat, maximum=1e6) * np.sqrt(tasks)
    real("daggen: density", density, 0.0, 1.0)
    scatter = 1.0 - real("daggen: regularity", regularity, 0.0, 1.0)
    low, high = max(1, round(mean * (1 - scatter))), max(1, round(mean * (1 + scatter)))
    bounded("daggen", tasks, tasks * max(1.0, density * min(tasks, high)))
    start = _levels(rng, tasks, low, high)
    sizes = np.diff(start)
    level = np.repeat(np.arange(len(sizes)), sizes)
    reader = np.arange(sizes[0], tasks)
    most = np.maximum(1, np.floor(density * sizes[level[reader] - 1])).astype(np.int64)
    count = rng.integers(1, most + 1)
    target = np.repeat(reader, count)
    reach = np.minimum(rng.integers(1, jump + 1, len(target)), level[target])
    reach[np.cumsum(count) - count] = 1  # the first edge of each task spans one level, so a task's level is its depth
    at = level[target] - reach
    source = start[at] + np.floor(rng.random(len(target)) * sizes[at]).astype(np.int64)
    pairs = np.unique(np.stack([source, target], axis=1), axis=0)
    return random_tasks("daggen", rng, tasks, pairs[:, 0], pairs[:, 1], flops, payload)


def fork_join(
    rng: np.random.Generator, stages: int = 4, branches: int = 6, flops: float = 1e9, payload: float = 1e6
) -> DataflowGraph:
    """A chain of stages; each forks into parallel tasks that join again.

    The join of a stage is the fork of the next: ``stages · (branches + 1) + 1`` tasks.

    Args:
        rng: source of all randomness.
        stages: number of fork-join stages.
        branches: number of parallel tasks in a stage.
        flops: mean work of a task [FLOP].
        payload: mean size of an edge [byte].
    """
    wholes("fork_join", stages=stages, branches=branches)
    bounded("fork_join", stages * (branches + 1) + 1, 2 * stages * branches)
    hub = np.repeat(np.arange(stages) * (branches + 1), branches)
    branch = hub + np.tile(np.arange(1, branches + 1), stages)
    source, target = np.concatenate([hub, branch]), np.concatenate([branch, hub + branches + 1])
    return random_tasks("fork_join", rng, stages * (branches + 1) + 1, source, target, flops, payload)


def inception_like(
    rng: np.random.Generator,
    tasks: int = 50,
    branches: tuple[int, int] = (2, 5),
    length: tuple[int, int] = (1, 4),
    flops: float = 1e9,
    payload: float = 1e6,
) -> DataflowGraph:
    """Blocks of parallel chains between a fork and a join, as in inception networks.

    The join of a block is the fork of the next; the last block is cut to the number of tasks.

    Args:
        rng: source of all randomness.
        tasks: number of tasks, n.
        branches: fewest and most chains of a block; the number is drawn uniformly.
        length: fewest and most tasks of a chain; the number is drawn uniformly.
        flops: mean work of a task [FLOP].
        payload: mean size of an edge [byte].
    """
    source, target = inception_like_edges(rng, tasks, branches, length)
    return random_tasks("inception_like", rng, tasks, source, target, flops, payload)


def inception_like_edges(
    rng: np.random.Generator, tasks: int, branches: tuple[int, int] = (2, 5), length: tuple[int, int] = (1, 4)
) -> tuple[Index, Index]:
    """Source and target, [e] each, of the edges of :func:`inception_like`, all different."""
    whole("inception_like: tasks", tasks)
    bounded("inception_like", tasks, 2 * tasks)
    ranges = {"branches": branches, "length": length}
    for name, bounds in ranges.items():
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise GraphError(f"inception_like: {name} is {shown(bounds)}; it must be a pair, the fewest and the most")
        whole(f"inception_like: most of {name}", bounds[1], whole(f"inception_like: fewest of {name}", bounds[0]))
        bounded(f"inception_like: {name}", bounds[1])
    source, target = np.empty(2 * tasks, np.int64), np.empty(2 * tasks, np.int64)
    scratch = np.empty(2 * branches[1], np.int64)
    e = write_inception_like(rng, tasks, branches[0], branches[1], length[0], length[1], scratch, source, target)
    return source[:e], target[:e]


@jit
def write_inception_like(
    rng: np.random.Generator,
    tasks: int,
    fewest: int,
    most: int,
    shortest: int,
    longest: int,
    scratch: Index,
    source: Index,
    target: Index,
) -> int:
    """As :func:`inception_like_edges`, for kernels; returns the number of edges.

    ``scratch`` is [2 * most]; ``source`` and ``target`` are [2 n], filled in as far as there are edges.
    """
    edges, fork, used, join = 0, 0, 1, tasks - 1
    while used < tasks:
        branches, ends = rng.integers(fewest, most + 1), 0
        for branch in range(branches):
            scratch[branch] = rng.integers(shortest, longest + 1)
        for branch in range(branches):
            before = fork
            for task in range(used, min(used + scratch[branch], join)):
                source[edges], target[edges] = before, task
                edges += 1
                before = task
            if before != fork:
                scratch[most + ends] = before
                ends += 1
                used = before + 1
        if ends == 0:
            scratch[most], ends = fork, 1
        for k in range(ends):
            source[edges], target[edges] = scratch[most + k], used
            edges += 1
        fork, used = used, used + 1
    return edges


def _levels(rng: np.random.Generator, tasks: int, low: int, high: int) -> Index:
    """[levels + 1] the first task of each level, then n; widths are uniform in low..high, the last is cut to fit."""
    bounds = np.concatenate([[0], np.cumsum(rng.integers(low, high + 1, -(-tasks // low)))])
    return np.append(bounds[bounds < tasks], tasks)
