"""The makespan of a pipeline: stages run passes in fixed orders, each pass as soon as its inputs are available.

One kernel evaluates training steps under any schedule, sequences of requests, and recurrent networks: a permutation
flow shop is a pipeline of forward passes only.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import lean
from hetgym._types import FloatArray, Int64Array, frozen
from hetgym.errors import ConfigError
from hetgym.pipeline.schedules import Orders, orders, pass_seconds

FORWARD, BACKWARD, WEIGHT = range(3)  # Kinds of passes in kernels: the positions of their letters in `"FBW"`


def makespan(
    passes: Orders,
    forward: npt.ArrayLike,
    backward: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    transfer: float = 0.0,
) -> float:
    """Makespan of a pipeline: the finish of its last pass [s].

    The result equals ``run(...).makespan`` (:func:`~hetgym.pipeline.run`) to the last bit, and is much faster.

    Args:
        passes: the passes of each stage in order, see :func:`~hetgym.pipeline.orders`.
        forward: seconds of a stage's forward pass over all its chunks, one number or [p]; or of each chunk, [v, p].
        backward: seconds of the backward pass in the same form, without the time of ``weight``.
        weight: seconds of the weight pass in the same form; given if and only if the schedule has such passes.
        transfer: seconds of a transfer from one stage to the next.

    Raises:
        ConfigError: times of the wrong shape; weight passes without times, or times without passes; or orders in
            which some passes wait for each other in a cycle or for passes that are missing.

    >>> makespan(orders("1f1b", stages=4, micro_batches=8), forward=1.0, backward=2.0)
    33.0
    """
    seconds = pass_seconds(passes, forward, backward, weight)
    kinds, chunks, stages = seconds.shape
    if not 0 <= transfer < np.inf:
        raise ConfigError(f"pipeline schedule: transfer is {transfer!r}; it must be a time, not negative")
    moves = np.full(chunks * stages, float(transfer) if stages > 1 else 0.0)
    return float(stage_finishes(pass_table(passes), seconds.reshape(kinds, 1, chunks * stages), moves).max())


def pass_table(passes: Orders) -> Int64Array:
    """Encode the passes of each stage as numbers.

    Returns:
        [p, q, 3], read-only: kind, micro-batch, and chunk of the whole model, which is ``c * p + s`` for chunk c of
        stage s. q is at least the number of micro-batches; rows of stages with fewer passes end with kind -1.
    """
    stages = len(passes)
    batches = max((1 + item.micro_batch for order in passes for item in order), default=0)
    table = np.full((stages, max(batches, *map(len, passes)), 3), -1, np.int64)
    for stage, order in enumerate(passes):
        for k, item in enumerate(order):
            table[stage, k] = "FBW".index(item.kind), item.micro_batch, item.chunk * stages + stage
    return frozen(table)


@lru_cache(maxsize=512)
def schedule_table(schedule: str, stages: int, micro_batches: int, chunks: int) -> Int64Array:
    """:func:`pass_table` of a named schedule; ``"interleaved"`` uses ``chunks``, with one chunk it is 1F1B."""
    return pass_table(orders(schedule, stages, micro_batches, chunks if schedule == "interleaved" else None))


@lru_cache(maxsize=64)
def flow_table(stages: int, jobs: int) -> Int64Array:
    """:func:`pass_table` of forward passes only: every stage serves jobs first come, first served."""
    table = np.empty((stages, jobs, 3), np.int64)
    table[:, :, 0] = FORWARD
    table[:, :, 1] = np.arange(jobs)
    table[:, :, 2] = np.arange(stages)[:, None]
    return frozen(table)


def stage_finishes(passes: Int64Array, seconds: FloatArray, moves: FloatArray) -> FloatArray:
    """[p] finish of the last pass of each stage [s]; arguments as of :func:`last_finish`, any number in flight.

    Raises:
        ConfigError: some passes can never run.
    """
    clock = np.zeros(len(passes))
    if last_finish(passes, seconds, moves, 0, clock) == np.inf:
        raise ConfigError("pipeline schedule: passes wait for each other in a cycle, or for passes that are left out")
    return clock


def last_finish(
    passes: Int64Array, seconds: FloatArray, moves: FloatArray, in_flight: int = 0, clock: FloatArray | None = None
) -> float:
    """Finish of the last pass [s]; inf if some passes can never run.

    A forward pass waits for the forward pass of the previous chunk; a backward pass for its own forward pass and for
    the backward pass of the next chunk; a weight pass for its backward pass.

    Args:
        passes: [p, q, 3], read-only, see :func:`pass_table`.
        seconds: [kinds, 1 or m, v * p] seconds of the passes of each chunk, for all micro-batches or for each.
        moves: [v * p] seconds from each chunk to the next one, in either direction; the last is not used.
        in_flight: largest number of micro-batches that have begun their first but not finished their last forward
            pass; 0 = any number.
        clock: [p] filled in with the finish of the last pass of each stage [s]; 0 before.
    """
    stages, room, _ = passes.shape
    finish = np.full((3, seconds.shape[2], room), np.inf)
    clock = np.zeros(stages) if clock is None else clock
    return _run_passes(passes, seconds, moves, in_flight, finish, clock, np.zeros(stages, np.int64))


# Invariants before each visit of a stage s: its first at[s] passes have run; clock[s] is the finish of the last of
# them; finish[kind, chunk, micro-batch] is the finish of every pass that has run, and inf for all others. A visit runs
# passes of s until one waits for a pass that has not run. The start of a pass depends only on the finish of its inputs
# and of the previous pass, so the order of the visits does not change the times, not even in the last bit.
#
# A sweep visits every stage once. `left` is the number of passes that have not run. A sweep either decreases it or,
# at a fixed point, proves that the rest can never run. Cost: O(passes + sweeps * p). Forward passes alone take one
# sweep, GPipe takes p, and the other schedules take one or two per micro-batch.
@lean
def _run_passes(
    passes: Int64Array,
    seconds: FloatArray,
    moves: FloatArray,
    in_flight: int,
    finish: FloatArray,
    clock: FloatArray,
    at: Int64Array,
) -> float:
    """See :func:`last_finish`.

    Args:
        finish: [3, v * p, q] written; inf everywhere before [s].
        clock, at: [p] written; 0 before [s].
    """
    stages, chunks = passes.shape[0], seconds.shape[2]
    left = 0
    for stage in range(stages):
        for k in range(passes.shape[1]):
            left += 1 if passes[stage, k, 0] >= 0 else 0
    before = left + 1
    while 0 < left < before:
        before = left
        for stage in range(stages):
            while at[stage] < passes.shape[1] and passes[stage, at[stage], 0] >= 0:
                k = at[stage]
                kind, batch, chunk = passes[stage, k, 0], passes[stage, k, 1], passes[stage, k, 2]
                ready = 0.0
                if kind == FORWARD:
                    if chunk > 0:
                        ready = finish[FORWARD, chunk - 1, batch] + moves[chunk - 1]
                    elif 0 < in_flight <= batch:
                        ready = finish[FORWARD, chunks - 1, batch - in_flight]
                elif kind == BACKWARD:
                    ready = finish[FORWARD, chunk, batch]
                    if chunk + 1 < chunks:
                        ready = max(ready, finish[BACKWARD, chunk + 1, batch] + moves[chunk])
                else:
                    ready = finish[BACKWARD, chunk, batch]
                if ready == np.inf:
                    break
                clock[stage] = max(clock[stage], ready) + seconds[kind, batch if seconds.shape[1] > 1 else 0, chunk]
                finish[kind, chunk, batch] = clock[stage]
                at[stage] += 1
                left -= 1
    latest = np.inf if left > 0 else 0.0
    for stage in range(stages):
        latest = max(latest, clock[stage])
    return latest
