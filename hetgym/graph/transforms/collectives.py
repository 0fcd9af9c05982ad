"""Collectives: all-reduce and its parts as operators and edges, so that they compete for links like other transfers.

Names and meanings are those of MPI and NCCL. Every rank contributes a buffer of ``count`` elements, cut into
chunks. A ``RecvReduce`` adds an arriving chunk to the rank's own; a ``Recv`` passes it on and takes no time. Both
belong to the rank that receives. The transfers between them are ordinary edges.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hetgym._sums import summed
from hetgym.errors import ConfigError, unknown_name
from hetgym.graph.ops import DTYPE_BYTES, Operator, Tensor
from hetgym.graph.transforms.replicated import Builder, Replicated, Value, chunks_of, whole_number

Held = list[dict[int, Value]]  # For each rank: chunk -> the value that holds it

Steps = Callable[[Builder, str, Held, Sequence[int]], None]
"""Function that adds the operators of one pass over a block of chunks."""


def ring_reduce_scatter(builder: Builder, name: str, held: Held, block: Sequence[int]) -> None:
    """Sum chunk c of a block of k chunks on rank c, in k - 1 steps around the ring that start at rank c + 1."""
    k = builder.ranks
    moving = [held[(part + 1) % k][chunk] for part, chunk in enumerate(block)]
    for step in range(2, k + 1):
        for part, chunk in enumerate(block):
            rank = (part + step) % k
            moving[part] = builder.recv_reduce(f"{name}/chunk{chunk}", rank, moving[part], held[rank][chunk])
    for part, chunk in enumerate(block):
        for rank in range(k):
            del held[rank][chunk]
        held[part][chunk] = moving[part]


def ring_all_gather(builder: Builder, name: str, held: Held, block: Sequence[int]) -> None:
    """Pass chunk c of a block of k chunks from rank c around the ring, in k - 1 steps."""
    k = builder.ranks
    for step in range(1, k):
        for part, chunk in enumerate(block):
            before, rank = (part + step - 1) % k, (part + step) % k
            held[rank][chunk] = builder.recv(f"{name}/chunk{chunk}", rank, held[before][chunk])


def ring_all_reduce(builder: Builder, name: str, held: Held, block: Sequence[int]) -> None:
    """Reduce-scatter, then all-gather."""
    ring_reduce_scatter(builder, name, held, block)
    ring_all_gather(builder, name, held, block)


def binomial_tree(k: int) -> list[list[int]]:
    """Children of each rank, smallest subtree first; rank 0 is the root, which ceil(log2 k) rounds reach."""
    return [[r + (1 << j) for j in range(k.bit_length()) if r % (2 << j) == 0 and r + (1 << j) < k] for r in range(k)]


def binary_tree(k: int) -> list[list[int]]:
    """Children of each rank in an in-order binary tree: odd ranks are leaves, and the root, rank 0, has one child."""
    children: list[list[int]] = [[] for _ in range(k)]
    for r in range(1, k):
        bit = r & -r
        up = (r ^ bit) | (bit << 1)
        children[up if up < k else r ^ bit].append(r)
    return children


def tree_reduce(
    builder: Builder, name: str, held: Held, chunk: int, children: list[list[int]], order: list[int]
) -> None:
    """Sum a chunk on the root: every rank adds its children's chunks to its own and sends the sum to its parent."""
    for rank in order[::-1]:
        for child in children[rank]:
            held[rank][chunk] = builder.recv_reduce(
                f"{name}/chunk{chunk}/from{child}", rank, held[child].pop(chunk), held[rank][chunk]
            )


def tree_broadcast(
    builder: Builder, name: str, held: Held, chunk: int, children: list[list[int]], order: list[int]
) -> None:
    """Send a chunk from the root down the tree, to the largest subtree first."""
    for rank in order:
        for child in children[rank][::-1]:
            held[child][chunk] = builder.recv(f"{name}/chunk{chunk}", child, held[rank][chunk])


Tree = tuple[list[list[int]], list[int]]  # Children of each rank, and the ranks from the root down


def _trees(algorithm: str, k: int) -> list[Tree]:
    """The trees of an algorithm; each carries one chunk of a block."""
    if algorithm == "tree":
        return [_rooted(binomial_tree(k), 0)]
    one = binary_tree(k)
    other: list[list[int]] = [[] for _ in range(k)]
    twin = [k - 1 - r if k % 2 == 0 else (r + 1) % k for r in range(k)]
    for r, children in enumerate(one):
        other[twin[r]] = [twin[c] for c in children]
    return [_rooted(one, 0), _rooted(other, twin[0])]


def _rooted(children: list[list[int]], root: int) -> Tree:
    order = [root]
    for rank in order:  # grows while it is read
        order += children[rank][::-1]
    return children, order


def _over_trees(algorithm: str, reduce: bool, broadcast: bool) -> Steps:
    def run(builder: Builder, name: str, held: Held, block: Sequence[int]) -> None:
        for chunk, (children, order) in zip(block, _trees(algorithm, builder.ranks), strict=True):
            if reduce:
                tree_reduce(builder, name, held, chunk, children, order)
            if broadcast:
                tree_broadcast(builder, name, held, chunk, children, order)

    return run


ALGORITHMS = ("ring", "tree", "double-tree")
"""Algorithms for all-reduce.

* ``ring``: reduce-scatter and all-gather around a ring, 2 (k - 1) steps of 1/k of the buffer; no
  algorithm sends fewer bytes (Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009).
* ``tree``: up a binomial tree and down again, 2 ceil(log2 k) steps of the whole buffer, fewest for small
  ones; a rank sends up to ceil(log2 k) buffers (Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005).
* ``double-tree``: half of the buffer over each of two binary trees in which inner ranks of one are leaves
  of the other, for k even; for large buffers in many chunks, where pairs do not share links. A rank sends up to
  two buffers (Sanders, Speck & Träff, Parallel Computing 35(12), 2009).
"""

_STEPS: dict[tuple[str, str], Steps] = {
    ("all-reduce", "ring"): ring_all_reduce,
    ("reduce-scatter", "ring"): ring_reduce_scatter,
    ("all-gather", "ring"): ring_all_gather,
} | {
    (name, algorithm): _over_trees(algorithm, name != "broadcast", name != "reduce")
    for name in ("all-reduce", "reduce", "broadcast")
    for algorithm in ("tree", "double-tree")
}
COLLECTIVES = ("all-gather", "all-reduce", "broadcast", "reduce", "reduce-scatter")
"""Names of the collectives that :func:`collective` can build."""


def block_size(algorithm: str, ranks: int) -> int:
    """Number of chunks in one pass of an algorithm (UnknownName if there is no such algorithm)."""
    if algorithm not in ALGORITHMS:
        raise unknown_name("all-reduce algorithm", algorithm, ALGORITHMS)
    return {"ring": ranks, "tree": 1, "double-tree": 2}[algorithm]


def run_collective(builder: Builder, collective: str, name: str, held: Held, algorithm: str, passes: int) -> None:
    """Add the operators of a collective, and update ``held`` to the ranks that hold the results.

    Before, ``held`` has the chunks of each rank: ``passes`` blocks, which follow one another, on every rank that
    contributes. ``name`` is the prefix of the operators' names.
    """
    width = block_size(algorithm, builder.ranks)
    for first in range(0, passes * width, width):
        _STEPS[collective, algorithm](builder, name, held, range(first, first + width))


def collective(
    name: str, ranks: int, count: int, dtype: str = "float32", algorithm: str = "ring", chunks: int = 1
) -> Replicated:
    """Build the graph of a single collective, for studies of links.

    Args:
        name: ``"all-reduce"``; ``"reduce-scatter"`` or ``"all-gather"``, its halves on a ring; ``"reduce"`` or
            ``"broadcast"``, its halves on a tree. The root is rank 0; that of a second tree is the last rank or rank 1.
        ranks: number of ranks, k.
        count: elements of the whole buffer. Before an all-gather each rank holds 1/k of it.
        dtype: dtype of the elements.
        algorithm: one of :data:`ALGORITHMS`.
        chunks: number of parts that the buffer is cut into and that follow one another (pipelining).

    Returns:
        The graph. Each rank begins with ``rank0/Bucket``, …, which takes no time and holds the rank's contribution,
        and ends with ``rank0/Unbucket``, ….

    Raises:
        UnknownName: no such collective, algorithm or dtype.
        ConfigError: a number out of range, or a collective that the algorithm does not support.

    >>> collective("all-reduce", 4, 1 << 20).graph
    DataflowGraph('all-reduce-ring', 32 operators, 52 edges)
    """
    k, total = whole_number(ranks, "ranks"), whole_number(count, "count")
    passes = whole_number(chunks, "chunks")
    if name not in COLLECTIVES:
        raise unknown_name("collective", name, COLLECTIVES)
    if dtype not in DTYPE_BYTES:
        raise unknown_name("dtype", dtype, DTYPE_BYTES)
    parts = passes * block_size(algorithm, k)
    if (name, algorithm) not in _STEPS:
        known = ", ".join(other for what, other in _STEPS if what == name)
        raise ConfigError(f"{name} cannot use the algorithm {algorithm!r}; known for it: {known}")
    builder, whole = Builder(k), Tensor((total,), dtype)
    held: Held = []
    for rank in range(k):
        cut = chunks_of(whole, parts)
        number = builder.add(Operator(f"rank{rank}/Bucket", "Bucket", (whole,), cut), rank, [])
        held.append({c: (number, c) for c in range(parts)})
    if name == "all-gather":
        held = [{c: value for c, value in mine.items() if c % k == rank} for rank, mine in enumerate(held)]
    if name == "broadcast":
        roots = [order[0] for _, order in _trees(algorithm, k)]
        held = [{c: v for c, v in mine.items() if roots[c % len(roots)] == rank} for rank, mine in enumerate(held)]
    run_collective(builder, name, name, held, algorithm, passes)
    for rank, mine in enumerate(held):
        values = [mine[c] for c in sorted(mine)]
        tensors = tuple(builder.tensor(value) for value in values)
        size = summed(t.size for t in tensors)
        builder.add(
            Operator(f"rank{rank}/Unbucket", "Unbucket", tensors, (replace(whole, shape=(size,)),)), rank, values
        )
    return builder.done(f"{name}-{algorithm}", [whole.bytes])
