"""Tables of a problem's blocks, which give the load, transfers and memory of any stage."""

from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, frozen
from hetgym.pipeline.contraction import Contraction
from hetgym.pipeline.objective import TRAINING, Objective
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.schedules import peaks_of
from hetgym.pipeline.training import TrainingPipeline
from hetgym.weights import SharedWeights


@record
class CutTables(NamedTuple):
    """The tables of a problem for kernels: n blocks in order, d devices of k kinds, at most v rounds.

    The number of rounds is the number of chunks of the model on each device. A set of devices is encoded as one number,
    the sum of ``stride`` over its members, which determines how many devices of each kind it holds.
    """

    # forward, backward, weight: seconds of the passes; backward and weight are 0 unless the objective is
    # training. inf in `forward` where a device cannot run a block.
    forward: Annotated[FloatArray, "n, d"]
    backward: Annotated[FloatArray, "n, d"]
    weight: Annotated[FloatArray, "n, d"]
    # seconds of transfers that a stage of blocks i to before j pays in a pass
    comm: Annotated[FloatArray, "n + 1, n + 1"]
    certain: Annotated[FloatArray, "n + 1, n + 1"]  # the part of `comm` for tensors made before i
    rest: Annotated[FloatArray, "n + 1"]  # least seconds of all passes of blocks i to the end
    path: Annotated[FloatArray, "n + 1"]  # least seconds of forward and backward passes of blocks i to the end
    # most seconds of any one of these blocks, for all passes on its fastest device
    largest: Annotated[FloatArray, "n + 1"]
    # bytes of weights and state of blocks i to before j: of a weight that several of them read, once. A device with
    # several pieces holds the sum of theirs.
    size: Annotated[FloatArray, "n + 1, n + 1"]
    stash: Annotated[FloatArray, "n + 1"]  # bytes of activations of one micro-batch of the blocks before i
    capacity: Annotated[FloatArray, "d"]  # bytes; inf if memory is ignored
    pays: Annotated[FloatArray, "d"]  # 1 where transfers take the device's time
    kind: Annotated[Int64Array, "d"]  # kind of each device
    stride: Annotated[Int64Array, "k"]  # amount that a device of each kind adds to the number of a set of devices
    free: Annotated[Int64Array, "1"]  # the number of the set of all devices
    wall: Annotated[Int64Array, "n + 1, d"]  # first block from i on that a device cannot run
    # most micro-batches whose activations stage s of p keeps, by rounds, p and s; -1 where the schedule does not exist
    peak: Annotated[FloatArray, "v + 1, d + 1, d"]
    levels: Annotated[Int64Array, "l"]  # numbers of stages that have rows of their own in `room`
    # least i such that blocks i to the end fit on the last q of that many stages, on devices of a set; see room
    room: Annotated[Int64Array, "l, d + 1, sets"]
    # rest_sum, rest_load: seconds of the best cuts of blocks i to the end; empty if they
    # were not computed; see remainders
    rest_sum: Annotated[FloatArray, "limits, rows, sets, n + 1"]
    rest_load: Annotated[FloatArray, "limits, rows, sets, n + 1"]


def tables_of(training: TrainingPipeline, blocks: Contraction, objective: Objective, is_chain: bool) -> CutTables:
    """Compute the tables of a problem's blocks; ``room``, ``rest_sum`` and ``rest_load`` are left empty."""
    problem, kind = training.problem, training.problem.device_kind
    n, d = len(blocks.members), problem.num_devices

    def gathered(values: FloatArray) -> FloatArray:
        """Sums over the operators of each block."""
        return values if is_chain else np.stack([values[list(inside)].sum(axis=0) for inside in blocks.members])

    forward = (problem.cost if is_chain else blocks.cost)[:, kind]
    backward, weight = np.zeros((n, d)), np.zeros((n, d))
    group = np.zeros(problem.num_operators, np.int32)
    for block, inside in enumerate(blocks.members):
        group[list(inside)] = block
    group = np.arange(n, dtype=np.int32) if is_chain else group
    own, stash, copies = gathered(problem.size), np.zeros(n), 1.0
    if objective.code == TRAINING:
        backward, weight = gathered(training.backward)[:, kind], gathered(training.weight)[:, kind]
        if not objective.split_backward:
            backward, weight = backward + weight, np.zeros((n, d))
        own, stash, copies = own + gathered(training.state), gathered(training.stash), 1.0 + training.shared_state
    own = own - copies * problem.shared.spared(group, n)
    comm, certain = _chain_transfers(problem.transfer) if is_chain else _transfers(n, blocks)
    each = [k for k in problem.kinds for _ in range(k.count)]
    counts, _ = counts_and_first(problem)
    sets = np.cumprod([1, *(counts + 1)])
    tables = CutTables(
        forward=forward,
        backward=backward,
        weight=weight,
        comm=comm,
        certain=certain,
        rest=np.zeros(n + 1),
        path=np.zeros(n + 1),
        largest=np.zeros(n + 1),
        size=-copies * spared_bytes(problem.shared.grouped(group, n), n),
        stash=np.zeros(n + 1),
        capacity=np.array([float(k.memory) * (1 + 1e-12) for k in each]),
        pays=np.array([float(k.transfers) for k in each]),
        kind=kind.astype(np.int64),
        stride=sets[:-1],
        free=sets[-1:] - 1,
        wall=np.full((n + 1, d), n),
        peak=_peaks(objective, n, d),
        levels=np.arange(1, d + 1) if objective.code == TRAINING else np.array([d]),
        room=np.zeros((0, 0, 0), np.int64),
        rest_sum=np.zeros((0, 0, 0, 0)),
        rest_load=np.zeros((0, 0, 0, 0)),
    )
    tables = CutTables._make(map(np.ascontiguousarray, tables))
    tables.stash[1:] = np.cumsum(stash)
    before = np.concatenate([[0.0], np.cumsum(own)])
    tables.size[:] += before[None, :] - before[:, None]
    _fill_sums(tables)
    for array in tables:
        frozen(array)
    return tables


# From the last block backwards: before each step the rows of the blocks that were visited are complete.
@lean
def _fill_sums(tables: CutTables) -> None:
    """Fill in ``rest``, ``path``, ``largest`` and ``wall``, which is n everywhere before."""
    n, d = tables.forward.shape
    for i in range(n - 1, -1, -1):
        everything, path = np.inf, np.inf
        for device in range(d):
            both = tables.forward[i, device] + tables.backward[i, device]
            path, everything = min(path, both), min(everything, both + tables.weight[i, device])
            tables.wall[i, device] = tables.wall[i + 1, device] if both < np.inf else i
        tables.rest[i], tables.path[i] = tables.rest[i + 1] + everything, tables.path[i + 1] + path
        tables.largest[i] = max(tables.largest[i + 1], everything)


def spared_bytes(shared: SharedWeights, n: int) -> FloatArray:
    """[n + 1, n + 1] bytes that blocks i to before j need not hold, as an earlier one of them reads the same weight."""
    spared = np.zeros((n + 1, n + 1))
    for readers, size in shared.pairs():
        for before, after in pairwise(readers):
            spared[before, after + 1] += size  # for stages that hold both
    return np.cumsum(np.cumsum(spared[::-1], axis=0)[::-1], axis=1) if len(shared.size) else spared


def counts_and_first(problem: PipelineProblem) -> tuple[Int64Array, Int64Array]:
    """[k] number of devices of each kind, and [k] the first device of each kind; 0 if there is none."""
    counts, first, before = [kind.count for kind in problem.kinds], [], 0
    for count in counts:
        first.append(before if count else 0)
        before += count
    return np.array(counts, np.int64), np.array(first, np.int64)


def _peaks(objective: Objective, n: int, d: int) -> FloatArray:
    """[v + 1, d + 1, d] micro-batches whose activations each stage keeps; see :class:`CutTables`.

    An interleaved schedule of p stages needs a multiple of p micro-batches, and at least one block per chunk.
    """
    rounds, trains = objective.rounds, objective.code == TRAINING
    peak = np.full((rounds + 1, d + 1, d), -1.0)
    for v in range(1, rounds + 1):
        for p in range(1, d + 1):
            if not trains:
                peak[v, p, :p] = 0.0
            elif v == 1 or (objective.turns % p == 0 and 1 < p <= n // v):
                peak[v, p, :p] = peaks_of(objective.schedule, p, objective.turns, v)
    return peak


def _chain_transfers(transfer: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``comm`` and ``certain`` of a chain, with sums in the same order as in :meth:`PipelineProblem.loads`."""
    comm, certain = np.zeros((2, len(transfer) + 1, len(transfer) + 1))
    _fill_chain_transfers(transfer, comm, certain)
    return comm, certain


@lean
def _fill_chain_transfers(transfer: FloatArray, comm: FloatArray, certain: FloatArray) -> None:
    """Fill in what :func:`_chain_transfers` returns; 0 everywhere before."""
    n = len(transfer)
    for i in range(n):
        into = transfer[i - 1] if i > 0 else 0.0
        for j in range(i + 1, n + 1):
            comm[i, j] = (transfer[j - 1] if j < n else 0.0) + into
            certain[i, j] = into


def _transfers(n: int, blocks: Contraction) -> tuple[FloatArray, FloatArray]:
    """``comm`` and ``certain`` of blocks: a stage pays for a tensor if it holds some but not all blocks on it.

    For each tensor and first block i, the ends j of the stages that pay form an interval. It begins after the first
    block from i on that the tensor connects. It extends to the end of the model if i is behind the tensor's first
    block, and otherwise to its last block. Its bounds are entered as steps, and sums along j give the tables.
    """
    comm, certain = np.zeros((n + 1, n + 2)), np.zeros((n + 1, n + 2))
    for nodes, seconds in blocks.crossing.items():
        touched = [k for k in range(n) if nodes >> k & 1]
        first, last = touched[0], touched[-1]
        following = np.searchsorted(touched, np.arange(last + 1))
        for i in range(last + 1):
            at = touched[following[i]] + 1
            comm[i, at] += seconds
            if i <= first:
                comm[i, last + 1] -= seconds
            else:
                certain[i, at] += seconds
    sums = [np.maximum(np.cumsum(steps, axis=1)[:, : n + 1], 0.0) for steps in (comm, certain)]
    return sums[0], sums[1]
