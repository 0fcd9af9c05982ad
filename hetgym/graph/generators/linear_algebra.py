"""Task graphs of numerical kernels, with the FLOPs and the transfers of their blocked algorithms."""

import math

import numpy as np

from hetgym.errors import GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.tasks import bounded, task_graph, whole

_DOUBLE, _COMPLEX = 8, 16  # bytes


class _Tasks:
    """Collector of tasks and edges by name."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.work: list[float] = []
        self.edges: list[tuple[int, int, int]] = []

    def add(self, name: str, flops: float, reads: dict[str, int]) -> None:
        """Add a task that reads from earlier tasks; ``reads`` maps the name of each to a number of bytes."""
        self.ids[name] = task = len(self.ids)
        self.work.append(flops)
        self.edges += [(self.ids[producer], task, size) for producer, size in reads.items()]

    def graph(self, name: str) -> DataflowGraph:
        table = np.array(self.edges, np.int64).reshape(-1, 3)
        work = np.array(self.work, np.float64)
        return task_graph(name, work, table[:, 0], table[:, 1], table[:, 2], list(self.ids))


class _Tiles(_Tasks):
    """Collector of tasks that each write a tile, and read tiles as their last writers left them."""

    def __init__(self, tile: int) -> None:
        super().__init__()
        self.size = tile * tile * _DOUBLE
        self.last: dict[tuple[int, int], str] = {}  # tile -> the task that wrote it last

    def update(self, name: str, flops: float, written: tuple[int, int], *read: tuple[int, int], task: str = "") -> str:
        """Add a task, and return its name; it may also read what an earlier ``task`` wrote."""
        producers = [self.last[at] for at in (written, *read) if at in self.last] + [task] * bool(task)
        self.add(name, flops, dict.fromkeys(producers, self.size))
        self.last[written] = name
        return name


def cholesky(tiles: int = 8, tile: int = 512) -> DataflowGraph:
    """Tiled Cholesky factorisation, right-looking (Buttari et al., Parallel Computing 35(1), 2009).

    T tiles per side give T potrf, T(T-1)/2 trsm, T(T-1)/2 syrk and T(T-1)(T-2)/6 gemm tasks.

    Args:
        tiles: tiles per side, T.
        tile: rows and columns of a tile of float64 numbers.

    >>> cholesky(4)
    DataflowGraph('cholesky', 20 operators, 30 edges)
    """
    whole("cholesky: tiles", tiles)
    bounded("cholesky", tiles**3 / 6, tiles**3 / 2)
    cube, tasks = float(whole("cholesky: tile", tile)) ** 3, _Tiles(tile)
    for k in range(tiles):
        tasks.update(f"potrf({k})", cube / 3, (k, k))
        for i in range(k + 1, tiles):
            tasks.update(f"trsm({i},{k})", cube, (i, k), (k, k))
        for i in range(k + 1, tiles):
            tasks.update(f"syrk({i},{k})", cube, (i, i), (i, k))
            for j in range(k + 1, i):
                tasks.update(f"gemm({i},{j},{k})", 2 * cube, (i, j), (i, k), (j, k))
    return tasks.graph("cholesky")


def lu(tiles: int = 8, tile: int = 512) -> DataflowGraph:
    """Tiled LU factorisation without pivoting, right-looking (Buttari et al., Parallel Computing 35(1), 2009).

    T tiles per side give T getrf, T(T-1) trsm and T(T-1)(2T-1)/6 gemm tasks, whose FLOPs sum to 2/3 (T tile)³.

    Args:
        tiles: tiles per side, T.
        tile: rows and columns of a tile of float64 numbers.

    >>> lu(4)
    DataflowGraph('lu', 30 operators, 54 edges)
    """
    whole("lu: tiles", tiles)
    bounded("lu", tiles**3 / 3, tiles**3)
    cube, tasks = float(whole("lu: tile", tile)) ** 3, _Tiles(tile)
    for k in range(tiles):
        tasks.update(f"getrf({k})", cube * 2 / 3, (k, k))
        for i in range(k + 1, tiles):
            tasks.update(f"trsm({k},{i})", cube, (k, i), (k, k))  # of the row
            tasks.update(f"trsm({i},{k})", cube, (i, k), (k, k))  # of the column
        for i in range(k + 1, tiles):
            for j in range(k + 1, tiles):
                tasks.update(f"gemm({i},{j},{k})", 2 * cube, (i, j), (i, k), (k, j))
    return tasks.graph("lu")


def qr(tiles: int = 8, tile: int = 512) -> DataflowGraph:
    """Tiled QR factorisation by a flat tree of eliminations (Buttari et al., Parallel Computing 35(1), 2009).

    T tiles per side give T geqrt, T(T-1)/2 unmqr, T(T-1)/2 tsqrt and T(T-1)(2T-1)/6 tsmqr tasks. These take 4, 6, 6
    and 12 thirds of tile³ FLOPs (Bouwmeester et al., SC 2011, table 1). The tsqrt tasks of a column follow one another,
    as each updates the triangle of its diagonal tile. The reflectors of that tile are a datum of their own.

    Args:
        tiles: tiles per side, T.
        tile: rows and columns of a tile of float64 numbers.

    >>> qr(4)
    DataflowGraph('qr', 30 operators, 54 edges)
    """
    whole("qr: tiles", tiles)
    bounded("qr", tiles**3 / 3, tiles**3)
    third, tasks = float(whole("qr: tile", tile)) ** 3 / 3, _Tiles(tile)
    for k in range(tiles):
        reflectors = tasks.update(f"geqrt({k})", 4 * third, (k, k))
        for j in range(k + 1, tiles):
            tasks.update(f"unmqr({k},{j})", 6 * third, (k, j), task=reflectors)
        for i in range(k + 1, tiles):
            tasks.update(f"tsqrt({i},{k})", 6 * third, (i, k), (k, k))
            tasks.last[k, k] = f"tsqrt({i},{k})"
            for j in range(k + 1, tiles):
                tasks.update(f"tsmqr({i},{j},{k})", 12 * third, (i, j), (i, k), (k, j))
                tasks.last[k, j] = f"tsmqr({i},{j},{k})"
    return tasks.graph("qr")


def gaussian_elimination(size: int = 10, block: int = 128) -> DataflowGraph:
    """Gaussian elimination by columns (Topcuoglu et al., IEEE TPDS 13(3), 2002, section 5.3).

    m columns give (m² + m - 2) / 2 tasks: step k has one pivot task, and one update task for each later column.

    Args:
        size: columns of blocks, m.
        block: rows and columns of a block; numbers are float64.

    >>> len(gaussian_elimination(5))
    14
    """
    whole("gaussian_elimination: size", size, 2)
    bounded("gaussian_elimination", size**2 / 2, size**2)
    whole("gaussian_elimination: block", block)
    tasks = _Tasks()
    for k in range(1, size):
        rows = (size - k + 1) * block
        column = rows * block * _DOUBLE
        pivot = f"pivot({k})"
        tasks.add(pivot, float(rows * block**2), {f"update({k - 1},{k})": column} if k > 1 else {})
        for j in range(k + 1, size + 1):
            before = {f"update({k - 1},{j})": column} if k > 1 else {}
            tasks.add(f"update({k},{j})", 2.0 * rows * block**2, {pivot: column, **before})
    return tasks.graph("gaussian_elimination")


def fft(points: int = 16, block: int = 1024) -> DataflowGraph:
    """Fast Fourier transform (Topcuoglu et al., IEEE TPDS 13(3), 2002, section 5.3).

    m points give a binary tree of 2m - 1 recursive calls, which only distribute the data. Below its leaves there
    are log2 m ranks of m butterfly tasks; rank r combines the parts i and i xor 2^(r-1).

    Args:
        points: number of parts that the input is split into, m; a power of two.
        block: complex128 numbers in a part; a leaf transforms its own part.

    >>> len(fft(8)) == 2 * 8 - 1 + 8 * 3
    True
    """
    whole("fft: points", points, 2)
    bounded("fft", points * (2 + math.log2(points)), 2 * points * (1 + math.log2(points)))
    whole("fft: block", block)
    if points & (points - 1):
        raise GraphError(f"fft: points is {points}; it must be a power of two")
    tasks = _Tasks()
    part = block * _COMPLEX
    ranks = points.bit_length() - 1
    for level in range(ranks + 1):
        for i in range(1 << level):
            inside = 5.0 * block * math.log2(block) if level == ranks else 0.0
            caller = {f"call({level - 1},{i // 2})": part * (points >> level)} if level else {}
            tasks.add(f"call({level},{i})", inside, caller)
    previous = [f"call({ranks},{i})" for i in range(points)]
    for rank in range(1, ranks + 1):
        current = [f"butterfly({rank},{i})" for i in range(points)]
        for i, name in enumerate(current):
            # A complex product and a complex sum of each number take 8 FLOPs.
            tasks.add(name, 8.0 * block, {previous[i]: part, previous[i ^ (1 << (rank - 1))]: part})
        previous = current
    return tasks.graph("fft")
