"""Stages: what episodes that cut pipelines need to know of their problem, and what finished cuts are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._jit import jit
from hetgym._types import FloatArray, frozen
from hetgym.baselines.pipeline.recurrent import FlowShop
from hetgym.errors import ConfigError, ProblemError, unknown_name
from hetgym.pipeline import SCHEDULES, Orders, PipelineProblem, TrainingPipeline, orders, peak_activations, unroll
from hetgym.pipeline.contraction import Contraction, bind
from hetgym.problem import Problem
from hetgym.schedule import Schedule

OBJECTIVES = ("throughput", "latency", "training")
"""What a cut is judged by."""

THROUGHPUT, LATENCY, TRAINING = range(3)

Index = npt.NDArray[np.int64]

Piece = tuple[int, int, int]
"""Blocks from the first to before the second number, and their device."""

MAX_ROOM = 4_000_000
"""Most entries of the table that says what fits on which devices."""


@dataclass(frozen=True)
class Rules:
    """What an episode is played by.

    Attributes:
        objective: one of :data:`OBJECTIVES`.
        requests: N of the latency.
        schedule: of a training step, one of :data:`~hetgym.pipeline.SCHEDULES`.
        micro_batches: M of a training step.
        chunks: most pieces on a device, for ``"interleaved"``.
        optimal: whether the optimum is worked out.
        completion: whether agents see how well the rest can be cut.

    Raises:
        UnknownName, ConfigError: a value that does not fit.
    """

    objective: str = "throughput"
    requests: int = 16
    schedule: str = "1f1b"
    micro_batches: int = 8
    chunks: int = 2
    optimal: bool = True
    completion: bool = True

    def __post_init__(self) -> None:
        for what, value, known in (
            ("objective", self.objective, OBJECTIVES), ("pipeline schedule", self.schedule, SCHEDULES),
        ):  # fmt: skip
            if value not in known:
                raise unknown_name(what, value, known)
        for what in ("requests", "micro_batches", "chunks"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= 4096:
                raise ConfigError(f"{what} is {value!r}; it must be a whole number from 1 to 4096")

    @property
    def code(self) -> int:
        """Position of the objective."""
        return OBJECTIVES.index(self.objective)

    @property
    def rounds(self) -> int:
        """Most pieces on a device."""
        return int(self.chunks) if self.code == TRAINING and self.schedule == "interleaved" else 1

    @property
    def turns(self) -> int:
        """Requests or micro-batches that a value is for."""
        return (1, int(self.requests), int(self.micro_batches))[self.code]


class Tables(NamedTuple):
    """What kernels know of a problem: n blocks, d devices, k kinds of them, v rounds.

    Attributes:
        forward, backward, weight: [n, d] seconds of the passes; backward and weight are 0 unless it is for training.
            inf in ``forward`` where a device cannot run a block.
        comm: [n + 1, n + 1] seconds of transfers that a stage of blocks i to before j pays in a pass.
        certain: [n + 1, n + 1] the part of it that is for tensors made before i.
        rest: [n + 1] least seconds of all passes of blocks i to the end.
        path: [n + 1] the same without weight passes.
        largest: [n + 1] most seconds of one of these blocks.
        size, stash: [n + 1] bytes of the blocks before i.
        capacity: [d] bytes; inf where it is not looked at.
        pays: [d] 1 where transfers take the device's time.
        kind: [d] kind of each device.
        stride: [k] what a device of a kind counts in the number of a set of devices.
        free: [1] the number of the set of all devices.
        wall: [n + 1, d] first block from i on that a device cannot run.
        peak: [v + 1, d + 1, d] most micro-batches whose activations stage s of p keeps, by rounds, p and s;
            -1 where the schedule does not exist.
        levels: [l] numbers of stages that are told apart.
        room: [l, d + 1, sets] least i such that blocks i to the end fit on the last q of so many stages, on
            devices of a set.
        rest_sum, rest_load: [limits, rows, sets, n + 1] of the best cuts of blocks i to the end, see
            :mod:`hetgym.envs.pipeline.remainders`; empty where these are not known [s].
    """

    forward: FloatArray
    backward: FloatArray
    weight: FloatArray
    comm: FloatArray
    certain: FloatArray
    rest: FloatArray
    path: FloatArray
    largest: FloatArray
    size: FloatArray
    stash: FloatArray
    capacity: FloatArray
    pays: FloatArray
    kind: Index
    stride: Index
    free: Index
    wall: Index
    peak: FloatArray
    levels: Index
    room: Index
    rest_sum: FloatArray
    rest_load: FloatArray


@dataclass(frozen=True)
class Context:
    """What episodes need to know of their problem; computed once a problem.

    Attributes:
        step: the problem, with its backward pass.
        bound: its blocks.
        tables: what kernels see.
        names: [n] a name for each block, that of its first operator.
        chain: whether loads of the tables are those of the problem to the last bit.
        within: whether a cut fits into memory; if none does, memory is not looked at.
        reference: see :class:`~hetgym.envs.pipeline.env.HetPipelineEnv` [s].
        alone: value of the best single device; inf if none can run everything [s].
        pieces: the cut of the reference.
        known: what was worked out later: the optimum.
    """

    step: TrainingPipeline
    bound: Contraction
    tables: Tables
    names: tuple[str, ...]
    chain: bool
    within: bool
    reference: float
    alone: float
    pieces: tuple[Piece, ...] = ()
    known: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def problem(self) -> PipelineProblem:
        """The problem."""
        return self.step.problem


class Cut(NamedTuple):
    """What a finished cut is worth.

    Attributes:
        value: of the objective [s].
        forward, backward, weight: [pieces] seconds of the passes of each piece, transfers included.
    """

    value: float
    forward: FloatArray
    backward: FloatArray
    weight: FloatArray


def as_training(problem: PipelineProblem | TrainingPipeline) -> TrainingPipeline:
    """A problem with its backward pass; see :class:`~hetgym.pipeline.TrainingPipeline` for what is assumed."""
    return problem if isinstance(problem, TrainingPipeline) else TrainingPipeline(problem)


def prepare(step: TrainingPipeline, rules: Rules) -> Context:
    """Compute a problem's context.

    Raises:
        ProblemError: no contiguous cut can run, there are too many sets of devices, or the pipeline has
            backward operators already and is to be trained.
    """
    if rules.code == TRAINING and step.problem.backward.any():
        raise ProblemError(
            f"pipeline {step.problem.name!r} has backward operators of its own, objective='training' adds a backward "
            "pass to one of inference; cut it for its throughput or latency"
        )
    problem, small = step.problem, bind(step.problem)
    chain = [list(m) for m in small.members] == [[i] for i in range(problem.num_operators)] and bool(
        (problem.edge_target == problem.edge_source + 1).all()
    )
    tables = _tables(step, small, rules, chain)
    within = fits(tables)
    if not within:
        tables = tables._replace(capacity=frozen(np.full(len(tables.capacity), np.inf)))
        tables = tables._replace(room=_room_of(tables, problem))
        if not fits(tables):
            raise ProblemError(f"pipeline {problem.name!r}: no contiguous cut puts all operators where they can run")
    names = tuple(problem.operator_names[inside[0]] for inside in small.members)
    context = Context(step, small, tables, names, chain, within, np.nan, np.inf)
    alone, reference, pieces = _reference(context, rules)
    return Context(step, small, tables, names, chain, within, reference, alone, tuple(pieces))


def fits(tables: Tables) -> bool:
    """Whether some cut fits on the devices."""
    free = int(tables.free[0])
    return any(bool((tables.room[row, : p + 1, free] == 0).any()) for row, p in enumerate(tables.levels.tolist()))


def evaluate(context: Context, rules: Rules, pieces: Sequence[Piece]) -> Cut:
    """What a cut is worth.

    Args:
        context: of the problem.
        rules: what it is judged by.
        pieces: in reading order; with several rounds those of a round on the devices of the first.
    """
    t = context.tables
    sums = [
        [float(np.cumsum(table[i:j, d])[-1]) for i, j, d in pieces] for table in (t.forward, t.backward, t.weight)
    ]  # fmt: skip
    paid = [float(t.comm[i, j]) if t.pays[d] else 0.0 for i, j, d in pieces]
    forward = np.array([a + b for a, b in zip(sums[0], paid, strict=True)])
    backward = np.zeros(len(pieces))
    if rules.code == TRAINING:
        backward = np.array([a + b for a, b in zip(sums[1], paid, strict=True)])
    return settle(context, rules, pieces, forward, backward, np.array(sums[2]))


def settle(
    context: Context, rules: Rules, pieces: Sequence[Piece], forward: FloatArray, backward: FloatArray,
    weight: FloatArray,
) -> Cut:  # fmt: skip
    """What a cut is worth whose stages' times are known, as :mod:`hetgym.pipeline` prices it."""
    stages = len({d for _, _, d in pieces})
    if not context.chain and stages == len(pieces):
        loads = context.problem.loads(assignment_of(context, pieces)) if context.within else _loads(context, pieces)
        forward = loads[[d for _, _, d in pieces]]
    if rules.code == THROUGHPUT:
        value = float(forward.max())
    elif rules.code == LATENCY:
        value = float(_flow(forward, rules.turns))
    else:
        table = _passes(rules.schedule, stages, rules.turns, len(pieces) // stages)
        value = float(_run(table, forward, backward, weight, stages))
    return Cut(value, forward, backward, weight)


def _loads(context: Context, pieces: Sequence[Piece]) -> FloatArray:
    """Loads of a cut that exceeds the memory, which the problem itself would refuse."""
    problem = context.problem
    free = [type(k)(k.name, k.count, np.inf, k.transfers) for k in problem.kinds]
    edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
    roomy = PipelineProblem(problem.cost, edges, free, problem.transfer, 0.0, problem.colour, problem.backward)
    return roomy.loads(assignment_of(context, pieces))


def assignment_of(context: Context, pieces: Sequence[Piece]) -> npt.NDArray[np.int32]:
    """[operators] device of each operator of the problem."""
    device = np.zeros(len(context.bound.members), np.int32)
    for i, j, d in pieces:
        device[i:j] = d
    return context.bound.expand(device, context.problem.num_operators)


def memory_of(context: Context, rules: Rules, pieces: Sequence[Piece]) -> FloatArray:
    """[d] bytes that each device holds at most."""
    t, held = context.tables, np.zeros(len(context.tables.capacity))
    devices = list(dict.fromkeys(d for _, _, d in pieces))
    for i, j, d in pieces:
        peak = t.peak[len(pieces) // len(devices), len(devices), devices.index(d)]
        held[d] += t.size[j] - t.size[i] + peak * (t.stash[j] - t.stash[i])
    return held


@lru_cache(maxsize=512)
def passes_of(schedule: str, stages: int, micro_batches: int, rounds: int) -> Orders:
    """Orders of a schedule; an interleaved one of a single round is 1F1B."""
    return orders(schedule, stages, micro_batches, rounds if schedule == "interleaved" else None)


def unrolled(
    rules: Rules, forward: FloatArray, backward: FloatArray, weight: FloatArray
) -> tuple[Problem, Schedule] | None:
    """What a cut does, as a problem with an operator for each pass, and its schedule; None for the throughput.

    Args:
        rules: what it is judged by.
        forward: [rounds, p] seconds of each piece.
        backward: likewise.
        weight: likewise.
    """
    rounds, stages = forward.shape
    if rules.code == LATENCY:
        seconds = np.tile(forward[0], (rules.turns, 1))
        return FlowShop(tuple(range(stages)), (1,) * stages, seconds, (0.0,) * (stages - 1)).unroll()
    if rules.code == TRAINING:
        passes = passes_of(rules.schedule, stages, rules.turns, rounds)
        return unroll(passes, forward, backward, weight if rules.schedule == "zb-h1" else None)
    return None


@lru_cache(maxsize=512)
def schedule_of(rules: Rules, stages: int, pieces: int) -> Schedule | None:
    """The schedule of :func:`unrolled`, which does not depend on how long anything takes."""
    ones = np.ones((pieces // stages, stages))
    found = unrolled(rules, ones, ones, ones)
    return None if found is None else replace(found[1], scheduler="agent")


@lru_cache(maxsize=512)
def _passes(schedule: str, stages: int, micro_batches: int, rounds: int) -> Index:
    """[p, passes, 3] kind, micro-batch and chunk of each stage's passes in order."""
    rows = [
        [("FBW".index(item.kind), item.micro_batch, item.chunk) for item in order]
        for order in passes_of(schedule, stages, micro_batches, rounds)
    ]
    return frozen(np.array(rows, np.int64))


@lru_cache(maxsize=512)
def _peaks(schedule: str, stages: int, micro_batches: int, rounds: int) -> tuple[float, ...]:
    return tuple(peak_activations(passes_of(schedule, stages, micro_batches, rounds)))


@jit
def _flow(load: FloatArray, requests: int) -> float:
    """When the last of equal requests leaves the last stage [s]; as :class:`FlowShop` has it."""
    free = np.zeros(len(load))
    for _ in range(requests):
        arrival = 0.0
        for s in range(len(load)):
            free[s] = max(free[s], arrival) + load[s]
            arrival = free[s]
    return float(free[-1])


@jit
def _run(passes: Index, forward: FloatArray, backward: FloatArray, weight: FloatArray, stages: int) -> float:
    """Makespan of a training step [s]; as :func:`hetgym.pipeline.run` has it.

    Args:
        passes: [p, passes, 3], see :func:`_passes`.
        forward: [v * p] seconds of each piece.
        backward: [v * p] likewise.
        weight: [v * p] likewise.
        stages: p.
    """
    pieces, count = len(forward), passes.shape[1]
    batches = passes[:, :, 1].max() + 1
    ahead = np.full((pieces, batches), np.inf)  # finish of the forward pass
    back = np.full((pieces, batches), np.inf)
    clock = np.zeros(stages)
    at = np.zeros(stages, np.int64)
    left = stages * count
    while left > 0:
        for s in range(stages):
            while at[s] < count:
                kind, batch, piece = passes[s, at[s], 0], passes[s, at[s], 1], passes[s, at[s], 2] * stages + s
                if kind == 0:
                    ready = ahead[piece - 1, batch] if piece > 0 else 0.0
                elif kind == 1:
                    ready = ahead[piece, batch]
                    if piece + 1 < pieces:
                        ready = max(ready, back[piece + 1, batch])
                else:
                    ready = back[piece, batch]
                if ready == np.inf:
                    break
                start = max(clock[s], ready)
                clock[s] = start + (forward[piece] if kind == 0 else backward[piece] if kind == 1 else weight[piece])
                if kind == 0:
                    ahead[piece, batch] = clock[s]
                elif kind == 1:
                    back[piece, batch] = clock[s]
                at[s] += 1
                left -= 1
    return float(clock.max())


def _tables(step: TrainingPipeline, small: Contraction, rules: Rules, chain: bool) -> Tables:
    """Tables of a problem's blocks."""
    problem, kind = step.problem, step.problem.device_kind
    n, d = len(small.members), problem.num_devices

    def gathered(values: FloatArray) -> FloatArray:
        return np.stack([values[list(inside)].sum(axis=0) for inside in small.members])

    forward = np.array(problem.cost if chain else small.cost)[:, kind]
    backward, weight = np.zeros((n, d)), np.zeros((n, d))
    size, stash = gathered(problem.size), np.zeros(n)
    if rules.code == TRAINING:
        backward, weight = gathered(step.backward)[:, kind], gathered(step.weight)[:, kind]
        if rules.schedule != "zb-h1":
            backward, weight = backward + weight, np.zeros((n, d))
        size, stash = size + gathered(step.state), gathered(step.stash)
    everything = np.where(np.isfinite(forward), forward + backward + weight, np.inf)
    both = np.where(np.isfinite(forward), forward + backward, np.inf)
    comm, certain = _chain_transfers(problem.transfer) if chain else _transfers(n, small)
    wall = np.full((n + 1, d), n, np.int64)
    for i in range(n - 1, -1, -1):
        wall[i] = np.where(np.isfinite(forward[i]), wall[i + 1], i)
    peak = np.full((rules.rounds + 1, d + 1, d), -1.0)
    for v in range(1, rules.rounds + 1):
        for p in range(1, d + 1):
            if rules.code != TRAINING:
                peak[v, p, :p] = 0.0
            elif v == 1 or (rules.turns % p == 0 and 1 < p <= n // v):
                peak[v, p, :p] = _peaks(rules.schedule, p, rules.turns, v)
    counts = np.array([k.count for k in problem.kinds], np.int64)
    memory = np.array([k.memory for k in problem.kinds])[kind] * (1 + 1e-12)
    tables = Tables(
        forward, backward, weight, comm, certain, rest=_suffix(everything.min(axis=1)), path=_suffix(both.min(axis=1)),
        largest=np.append(np.maximum.accumulate(everything.min(axis=1)[::-1])[::-1], 0.0),
        size=np.concatenate([[0.0], np.cumsum(size)]), stash=np.concatenate([[0.0], np.cumsum(stash)]),
        capacity=memory, pays=np.array([float(k.transfers) for k in problem.kinds])[kind], kind=kind.astype(np.int64),
        stride=np.cumprod([1, *(counts + 1)])[:-1].astype(np.int64), free=np.array([np.prod(counts + 1) - 1], np.int64),
        wall=wall, peak=peak,
        levels=np.arange(1, d + 1, dtype=np.int64) if rules.code == TRAINING else np.array([d], np.int64),
        room=np.zeros((0, 0, 0), np.int64), rest_sum=np.zeros((0, 0, 0, 0)), rest_load=np.zeros((0, 0, 0, 0)),
    )  # fmt: skip
    tables = Tables._make(frozen(np.ascontiguousarray(array)) for array in tables)
    return tables._replace(room=_room_of(tables, problem))


def _suffix(values: FloatArray) -> FloatArray:
    """[n + 1] sums of what is at i and behind it."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _chain_transfers(transfer: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Transfers of each stage of a chain, as :meth:`PipelineProblem.loads` adds them."""
    n = len(transfer)
    into = np.concatenate([[0.0], transfer])[:, None]  # of a stage that begins at i
    out = np.concatenate([[0.0], transfer[:-1], [0.0]])[None, :]  # of one that ends before j
    stage = np.arange(n + 1)[:, None] < np.arange(n + 1)[None, :]
    return np.where(stage, out + into, 0.0), np.where(stage, np.broadcast_to(into, (n + 1, n + 1)), 0.0)


def _transfers(n: int, small: Contraction) -> tuple[FloatArray, FloatArray]:
    """Transfers of each stage: a tensor is paid for if the stage holds some but not all that it connects."""
    comm, certain = np.zeros((n + 1, n + 2)), np.zeros((n + 1, n + 2))  # as differences along the end
    for nodes, seconds in small.crossing.items():
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
    sums = [np.maximum(np.cumsum(differences, axis=1)[:, : n + 1], 0.0) for differences in (comm, certain)]
    return sums[0], sums[1]


def _room_of(tables: Tables, problem: PipelineProblem) -> Index:
    counts = np.array([k.count for k in problem.kinds], np.int64)
    sets, d = int(np.prod(counts + 1)), len(tables.capacity)
    if len(tables.levels) * (d + 1) * sets > MAX_ROOM:
        raise ProblemError(
            f"pipeline {problem.name!r}: {d} devices of {len(counts)} kinds make {sets} sets, too many to know what "
            "fits on them; let equal devices be one DeviceKind, or take fewer"
        )
    first = np.array([int(np.argmax(tables.kind == t)) if counts[t] else 0 for t in range(len(counts))], np.int64)
    t = tables
    return frozen(_room(t.size, t.stash, t.capacity, t.wall, t.peak, t.levels, counts, first))


@jit
def _room(
    size: FloatArray, stash: FloatArray, capacity: FloatArray, wall: Index, peak: FloatArray, levels: Index,
    counts: Index, first: Index,
) -> Index:  # fmt: skip
    """See :class:`Tables`. A stage that turns out empty is left out, which never needs more memory.

    Args:
        size: see :class:`Tables`, as the following.
        stash: likewise.
        capacity: likewise.
        wall: likewise.
        peak: likewise.
        levels: likewise.
        counts: [k] devices of each kind.
        first: [k] a device of each kind.
    """
    n, d = len(size) - 1, len(capacity)
    sets = 1
    for count in counts:
        sets *= count + 1
    room = np.full((len(levels), d + 1, sets), n, np.int64)
    for row in range(len(levels)):
        p = levels[row]
        for q in range(1, p + 1):
            keep = peak[1, p, p - q]
            for members in range(sets):
                best = room[row, q - 1, members]
                stride = 1
                for t in range(len(counts)):
                    if members // stride % (counts[t] + 1) > 0:
                        end = room[row, q - 1, members - stride]
                        i = end
                        while i > 0 and wall[i - 1, first[t]] >= end:
                            if size[end] - size[i - 1] + keep * (stash[end] - stash[i - 1]) > capacity[first[t]]:
                                break
                            i -= 1
                        best = min(best, i)
                    stride *= counts[t] + 1
                room[row, q, members] = best
    return room


def _reference(context: Context, rules: Rules) -> tuple[float, float, Sequence[Piece]]:
    """Value of the best single device, the reference, and its cut."""
    t, d, n = context.tables, context.problem.num_devices, len(context.names)
    kind = context.problem.device_kind
    cuts: list[list[Piece]] = [[(0, n, a)] for a in range(d)]
    values = [_value(context, rules, pieces) for pieces in cuts]
    alone = min(values, default=np.inf)
    for group in [list(range(d))] + [np.flatnonzero(kind == k).tolist() for k in np.unique(kind)]:
        for rounds in range(1, rules.rounds + 1):
            p = min(len(group), n)
            if p * rounds <= n and t.peak[rounds, p, 0] >= 0:
                ends = [k * n // (p * rounds) for k in range(p * rounds + 1)]
                cuts.append([(ends[k], ends[k + 1], int(group[k % p])) for k in range(p * rounds)])
                values.append(_value(context, rules, cuts[-1]))
    best = int(np.argmin(values)) if values else -1
    if best < 0 or not np.isfinite(values[best]):
        pieces = first_fit(context)
        return alone, _value(context, rules, pieces), pieces
    return alone, values[best], cuts[best]


def _value(context: Context, rules: Rules, pieces: Sequence[Piece]) -> float:
    """Value of a cut, inf if it cannot run or exceeds the memory."""
    t = context.tables
    if any(t.wall[i, d] < j for i, j, d in pieces) or (memory_of(context, rules, pieces) > t.capacity).any():
        return np.inf
    return evaluate(context, rules, pieces).value


def first_fit(context: Context) -> list[Piece]:
    """A cut that fits: last stages first, each as long as can be, found in the table of what fits where."""
    t, n = context.tables, len(context.names)
    for row, p in enumerate(t.levels.tolist()):
        members, pieces, start = int(t.free[0]), [], 0
        q = next((q for q in range(p + 1) if t.room[row, q, members] == 0), None)
        if q is None:
            continue
        used: set[int] = set()
        while q > 0 and start < n:
            if t.room[row, q - 1, members] <= start:
                q -= 1
                continue
            for d in range(len(t.capacity)):
                if d in used:
                    continue
                end = int(t.room[row, q - 1, members - t.stride[t.kind[d]]])
                need = t.size[end] - t.size[start] + t.peak[1, p, p - q] * (t.stash[end] - t.stash[start])
                if end <= start or (t.wall[start, d] >= end and need <= t.capacity[d]):
                    if end > start:
                        pieces.append((start, end, d))
                    used.add(d)
                    members -= int(t.stride[t.kind[d]])
                    start = max(start, end)
                    break
            q -= 1
        if start == n:
            return pieces
    raise AssertionError("a cut fits, but none was found")
