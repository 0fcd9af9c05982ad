"""Random task graphs: layers, forks and joins, and other shapes from the scheduling literature."""

from __future__ import annotations

import numpy as np

from hetgym.errors import GraphError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.tasks import Index, bounded, random_tasks, real, whole


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

    Raises:
        GraphError: a parameter out of range.

    >>> layered(np.random.default_rng(0), tasks=20)
    DataflowGraph('layered', 20 operators, 28 edges)
    """
    source, target = layered_edges(rng, tasks, width, predecessors)
    return random_tasks("layered", rng, tasks, source, target, flops, payload)


def layered_edges(
    rng: np.random.Generator, tasks: int, width: int | None = None, predecessors: int = 3
) -> tuple[Index, Index]:
    """Source and target, [e] each, of the edges of :func:`layered`, of which no two are equal."""
    whole("layered: tasks", tasks)
    whole("layered: predecessors", predecessors)
    widest = int(rng.integers(3, 10)) if width is None else whole("layered: width", width)
    bounded("layered", tasks, tasks * min(predecessors, widest))
    start = _levels(rng, tasks, 1, widest)
    sizes = np.diff(start)
    level = np.repeat(np.arange(len(sizes)), sizes)
    reader = np.arange(sizes[0], tasks)
    before = level[reader] - 1
    count = np.minimum(rng.integers(1, predecessors + 1, len(reader)), sizes[before])
    # Draw without replacement, all rows at once. The k-th draw is an index into the tasks not yet chosen; adding 1 for
    # each earlier choice that is not larger, smallest first, turns it into an index into all tasks.
    limit = int(min(predecessors, sizes.max()))
    chosen = np.zeros((len(reader), limit), np.int64)
    for k in range(limit):
        pick = np.floor(rng.random(len(reader)) * np.maximum(sizes[before] - k, 1)).astype(np.int64)
        for taken in np.sort(chosen[:, :k], axis=1).T:
            pick += pick >= taken
        chosen[:, k] = pick
    used = np.arange(limit) < count[:, None]
    source = (chosen + start[before][:, None])[used]
    target = np.broadcast_to(reader[:, None], used.shape)[used]
    return source, target


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

    Raises:
        GraphError: a parameter out of range.
    """
    whole("daggen: tasks", tasks)
    whole("daggen: jump", jump)
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
    """A chain of stages, each of which forks into parallel tasks that join again.

    The join of a stage is the fork of the next: ``stages · (branches + 1) + 1`` tasks.

    Args:
        rng: source of all randomness.
        stages: number of fork-join stages.
        branches: number of parallel tasks in a stage.
        flops: mean work of a task [FLOP].
        payload: mean size of an edge [byte].

    Raises:
        GraphError: a parameter out of range.
    """
    whole("fork_join: stages", stages)
    whole("fork_join: branches", branches)
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

    Raises:
        GraphError: a parameter out of range.
    """
    source, target = inception_like_edges(rng, tasks, branches, length)
    return random_tasks("inception_like", rng, tasks, source, target, flops, payload)


def inception_like_edges(
    rng: np.random.Generator, tasks: int, branches: tuple[int, int] = (2, 5), length: tuple[int, int] = (1, 4)
) -> tuple[Index, Index]:
    """Source and target, [e] each, of the edges of :func:`inception_like`, of which no two are equal."""
    whole("inception_like: tasks", tasks)
    bounded("inception_like", tasks, 2 * tasks)
    ranges = {"branches": branches, "length": length}
    for name, bounds in ranges.items():
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise GraphError(f"inception_like: {name} is {shown(bounds)}; it must be the fewest and the most")
        whole(f"inception_like: most of {name}", bounds[1], whole(f"inception_like: fewest of {name}", bounds[0]))
        bounded(f"inception_like: {name}", bounds[1])
    edges: list[tuple[int, int]] = []
    fork, used = 0, 1
    while used < tasks:
        join = tasks - 1
        ends: list[int] = []
        sizes = rng.integers(length[0], length[1] + 1, int(rng.integers(branches[0], branches[1] + 1)))
        for size in sizes.tolist():
            chain = list(range(used, min(used + size, join)))
            edges += zip([fork, *chain], chain, strict=False)
            ends += chain[-1:]
            used += len(chain)
        edges += [(end, used) for end in ends or [fork]]
        fork, used = used, used + 1
    table: Index = np.array(edges, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _levels(rng: np.random.Generator, tasks: int, low: int, high: int) -> Index:
    """Draw level widths uniformly from low..high until all tasks are placed; the last width is cut to fit.

    Returns:
        [levels + 1] the first task of each level, then n.
    """
    bounds = np.concatenate([[0], np.cumsum(rng.integers(low, high + 1, -(-tasks // low)))])
    return np.append(bounds[bounds < tasks], tasks)
