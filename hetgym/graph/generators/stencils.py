"""Task graphs of grids whose cells depend on their neighbours."""

import numpy as np

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.tasks import Index, bounded, task_graph, wholes

_DOUBLE = 8  # bytes


def wavefront(rows: int = 8, columns: int = 8, sweeps: int = 1, tile: int = 512) -> DataflowGraph:
    """A grid of tiles swept from one corner to the other: tiles of one antidiagonal can run side by side.

    Tile (i, j) of sweep s reads the borders of tiles (i - 1, j) and (i, j - 1) of the same sweep, and from the sweep
    before its own numbers and the borders of (i + 1, j) and (i, j + 1), as Gauss-Seidel iterations of the five-point
    stencil do; one sweep has the dependencies of a sequence alignment (Lamport, CACM 17(2), 1974: hyperplanes). A
    number takes 5 FLOPs.

    Args:
        rows: tiles of a column.
        columns: tiles of a row; ``rows · columns · sweeps`` tasks.
        sweeps: passes over the grid.
        tile: rows and columns of a tile of float64 numbers.

    >>> wavefront(rows=3, columns=4)
    DataflowGraph('wavefront', 12 operators, 17 edges)
    """
    wholes("wavefront", rows=rows, columns=columns, sweeps=sweeps, tile=tile)
    bounded("wavefront", rows * columns * sweeps, 5 * rows * columns * sweeps)
    task = np.arange(sweeps * rows * columns).reshape(sweeps, rows, columns)
    border, whole = tile * _DOUBLE, tile * tile * _DOUBLE
    edges = [
        _edges(task[:, :-1], task[:, 1:], border),
        _edges(task[:, :, :-1], task[:, :, 1:], border),
        _edges(task[:-1], task[1:], whole),
        _edges(task[:-1, 1:], task[1:, :-1], border),
        _edges(task[:-1, :, 1:], task[1:, :, :-1], border),
    ]
    source, target, payload = np.concatenate(edges, axis=1)
    names = [f"tile({s},{i},{j})" for s in range(sweeps) for i in range(rows) for j in range(columns)]
    return task_graph("wavefront", np.full(task.size, 5.0 * tile * tile), source, target, payload, names)


def _edges(source: Index, target: Index, payload: int) -> Index:
    """[3, e] source, target and bytes of edges between tasks at equal places of two arrays."""
    return np.stack([source.ravel(), target.ravel(), np.full(source.size, payload)])
