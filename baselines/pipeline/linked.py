"""linked_dp: the best stages of a chain of layers, with the link between every two devices."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.baselines.pipeline.linked_kernel import LARGEST, SQUARES, SUM, fill
from hetgym.errors import ConfigError, ProblemError, check_name
from hetgym.pipeline.chain import LayerChain
from hetgym.pipeline.cuts import Stage
from hetgym.pipeline.pools import ROUNDING, exceeded, rations
from hetgym.pipeline.tokens import tokens_within

OBJECTIVES = ("throughput", "latency", "balance", "cache")
"""Objectives of :func:`linked_dp`. ``throughput``: the slowest stage, transfers at both ends included, is as fast as
possible; ``latency``: one request passes all stages as fast as possible; ``balance``: the heaviest stage, by run time
or, without times, by its share of the memory, is as light as possible; ``cache``: the largest cache fits."""

MAX_STEPS = 600_000_000  # Most steps of the dynamic program
MAX_STATES = 12_000_000  # Most entries of its tables
PRECISION = 1e-6  # Relative width at which the bisection of a period ends
MAX_PARTS = 16_000_000  # Most parts of the chain on a class of devices that are weighed


class _Classes(NamedTuple):
    """Devices that can stand for each other."""

    members: list[list[int]]  # devices of each class
    hop: FloatArray  # [n + 1, c, c] seconds from a class to another behind the layers before each place

    @property
    def counts(self) -> Int64Array:
        return np.array([len(own) for own in self.members], np.int64)


def linked_dp(chain: LayerChain, objective: str = "throughput", stages: int | None = None) -> list[Stage]:
    """Cut a chain of layers into the best stages, on the devices that suit it best.

    A dynamic program over sets of devices, the last device and the layers so far. Devices with equal figures and links
    stand for each other, so the result is exact; where there are too many sets of different devices, links between
    devices of equal figures are taken for equal while the cut is searched for. If devices share a memory and the best
    cut would exceed it, the memory is divided among them in many ways, see :func:`~hetgym.pipeline.pools.rations`.

    Of the cuts with room for the longest context that a model was made for, ``cache`` returns the fastest.

    Of the cuts that are best, the one with exactly ``stages`` stages and the least sum of squares is returned, so no
    stage is empty or short because another one is the slowest anyway; for ``latency``, the one with the fewest stages.

    Args:
        chain: layers, devices and links.
        objective: one of :data:`OBJECTIVES`.
        stages: number of devices that may be used; by default all.

    Raises:
        UnknownName: no such objective.
        ConfigError: more stages than devices, too many layers and devices, or no limit of memory for
            ``cache``.
        ProblemError: no cut fits into memory.
    """
    check_name("objective of a pipeline's cut", objective, OBJECTIVES)
    most = len(chain.devices) if stages is None else stages
    if not 1 <= most <= len(chain.devices):
        raise ConfigError(f"stages is {most}; {chain.name!r} has {len(chain.devices)} devices")
    if objective == "cache" and not np.isfinite(chain.memory).all():
        raise ConfigError("--objective cache compares what is free, so every device needs a memory_capacity")
    found = _linked(chain, objective, most)
    if not chain.pools:
        return _checked(chain, found, most)
    if found is not None and exceeded(chain.pools, chain.bytes_of(found)) is None and objective != "cache":
        return found
    best: tuple[tuple[float, ...], list[Stage]] | None = None
    sizes = chain.sizes() - _between(chain.cached) if objective == "cache" else chain.sizes()
    for memory in rations(chain.pools, chain.memory, sizes, float(sizes[0, -1])):
        divided = _linked(replace(chain, memory=memory, memory_pool=()), objective, most)
        if divided is not None:
            rank = _rank(chain, objective, divided, most)
            if best is None or rank < best[0]:
                best = rank, divided
    return _checked(chain, best and best[1], most)


def _linked(chain: LayerChain, objective: str, most: int) -> list[Stage] | None:
    """As :func:`linked_dp`, of a chain whose devices share no memory; None if no cut fits."""
    classes = _classes(chain)
    base = _weights(chain, classes, objective)
    search = _Search(classes, base, most, pays=objective if objective in ("throughput", "latency") else "")
    if objective == "latency":
        return _on_devices(classes, search.best(SUM, np.inf, exactly=False))
    limit = search.least(LARGEST) * ROUNDING
    if objective == "cache" and limit <= 1.0 / chain.longest:
        # Of all cuts with room for the longest context, the fastest is the best.
        ample = np.where(base <= 1.0 / chain.longest, _weights(chain, classes, "throughput"), np.inf)
        search = _Search(classes, ample, most, pays="throughput")
        limit = search.least(LARGEST) * ROUNDING
    if not limit < np.inf:
        return None
    found = _on_devices(classes, search.best(SQUARES, limit, exactly=True))
    if search.pays != "throughput" or found is None or not any(chain.turns) or chain.period(found) <= limit:
        return found
    return _in_turns(chain, classes, search, found, limit)


def _checked(chain: LayerChain, cut: list[Stage] | None, most: int) -> list[Stage]:
    """The cut; ProblemError if there is none."""
    if cut is None:
        raise ProblemError(f"chain {chain.name!r}: no cut along its layers fits on the devices; {chain.lacks(most)}")
    return cut


def _rank(chain: LayerChain, objective: str, cut: list[Stage], most: int) -> tuple[float, ...]:
    """How good a cut is, smaller being better; ties are broken as by :func:`linked_dp`."""
    if objective == "latency":
        return chain.latency_of(cut), len(cut)
    pays = objective in ("throughput", "cache")
    loads = chain.loads(cut) if pays else chain.run_times(cut)
    if objective == "balance" and not loads.any():
        memory = chain.memory[[stage.device for stage in cut]]
        loads = np.array([chain.held(stage) for stage in cut]) / np.where(np.isfinite(memory) & (memory > 0), memory, 1)
    room = -chain.room(cut) if objective == "cache" else 0.0
    slowest = chain.period(cut) if pays else float(loads.max())
    return room, float(f"{slowest:.12g}"), -len(cut), float((loads**2).sum())


def _classes(chain: LayerChain) -> _Classes:
    """Classes of devices by all figures; by all but links if these make too many sets."""
    for linked in (True, False):
        members = _alike(chain, linked)
        counts = [len(own) for own in members]
        c, n, sets = len(counts), len(chain.layers), float(np.prod([float(k + 1) for k in counts]))
        steps, states = sets * c * c * (c + 1) * n * n / 2, sets * c * (c + 1) * (n + 1)
        if steps <= MAX_STEPS and states <= MAX_STATES and c * n * n <= MAX_PARTS:
            return _Classes(members, _hops(chain, members))
    raise ConfigError(
        f"{n} layers on {len(chain.devices)} devices of {c} kinds have too many cuts; merge layers, or use another "
        "planner"
    )


def _alike(chain: LayerChain, linked: bool) -> list[list[int]]:
    """Devices with equal costs and memory and, if ``linked``, whose exchange would change no link."""
    found: list[list[int]] = []
    for d in range(len(chain.devices)):
        for own in found:
            if _same(chain, own[0], d, linked):
                own.append(d)
                break
        else:
            found.append([d])
    return found


def _same(chain: LayerChain, a: int, b: int, linked: bool) -> bool:
    if any(own and own[a] != own[b] for own in (chain.entry, chain.turns)):
        return False
    if chain.memory[a] != chain.memory[b] or not np.array_equal(chain.cost[:, a], chain.cost[:, b]):
        return False
    swapped = np.arange(len(chain.devices))
    swapped[[a, b]] = b, a
    tables = (chain.latency, chain.pace) if linked else ()
    return all(np.array_equal(table, table[np.ix_(swapped, swapped)]) for table in tables)


def _hops(chain: LayerChain, members: Sequence[Sequence[int]]) -> FloatArray:
    """[n + 1, c, c] mean time of a transfer behind the first layers from a device of a class to another device [s]."""
    c, n = len(members), len(chain.layers)
    hop = np.zeros((n + 1, c, c))
    for (a, own), (b, other) in itertools.product(enumerate(members), repeat=2):
        pairs = [(s, t) for s in own for t in other if s != t]
        if pairs:
            latency, pace = (float(np.mean([table[p] for p in pairs])) for table in (chain.latency, chain.pace))
            hop[1:, a, b] = chain.messages * latency + chain.sent * pace + chain.delay
    return hop


def _weights(chain: LayerChain, classes: _Classes, objective: str) -> FloatArray:
    """[c, n + 1, n + 1] weight of layers i to before j on a device of a class, without transfers; inf if not there."""
    n, size = len(chain.layers), chain.sizes()
    base = np.full((len(classes.members), n + 1, n + 1), np.inf)
    timed = bool((np.isfinite(chain.cost) & (chain.cost > 0)).any())
    for k, own in enumerate(classes.members):
        seconds, memory = chain.cost[:, own[0]], float(chain.memory[own[0]])
        kept = size - _between(chain.cached) if objective == "cache" else size
        fits = _runs(seconds) & (kept <= memory * ROUNDING)
        if objective == "cache":
            windows = [(tokens, _between(part)) for tokens, part in chain.windows]
            tokens = tokens_within(np.maximum(memory - kept, 0.0), _between(chain.cache), windows)
            weight = np.divide(1.0, tokens, out=np.full(tokens.shape, np.inf), where=tokens > 0)
        elif objective == "balance" and not timed:
            weight = size / memory if np.isfinite(memory) and memory else size
        else:
            weight = _between(np.where(np.isfinite(seconds), seconds, 0.0))
            weight += chain.entry[own[0]] if chain.entry else 0.0
        base[k] = np.where(fits, np.maximum(weight, 0.0), np.inf)
    return base


def _between(values: FloatArray) -> FloatArray:
    """[n + 1, n + 1] sums of values i to before j."""
    before = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(before[None, :] - before[:, None])


def _runs(seconds: FloatArray) -> BoolArray:
    """[n + 1, n + 1] True where a device can run layers i to before j, at least one."""
    missing = _between(np.where(np.isfinite(seconds), 0.0, 1.0))
    return np.asarray((missing == 0) & np.triu(np.ones(missing.shape, np.bool_), 1))


class _Search:
    """The dynamic program, to be run for several ways to add stages up."""

    def __init__(self, classes: _Classes, base: FloatArray, most: int, pays: str) -> None:
        self.classes, self.base, self.pays = classes, base, pays
        self.stride = np.cumprod([1, *(classes.counts + 1)])
        digits = np.arange(self.stride[-1])[:, None] // self.stride[:-1] % (classes.counts + 1)
        self.used = digits.sum(axis=1)  # devices of each set
        self.most = most
        sets, c, n = len(self.used), len(classes.members), base.shape[1] - 1
        self.value = np.empty((sets, c, n + 1, c + 1))
        self.came = np.empty((sets, c, n + 1, c + 1), np.int32)

    def least(self, how: int) -> float:
        """Least value of any cut."""
        return float(self._run(how, np.inf).min())

    def best(
        self, how: int, limit: float, exactly: bool, counted: FloatArray | None = None
    ) -> list[tuple[int, int, int]] | None:
        """The cut of least value whose stages do not exceed a limit: first layer, end and class of each stage.

        With ``exactly``, cuts onto all devices that may be used come first. None if none fits.
        """
        ends = self._run(how, limit, counted)
        if not np.isfinite(ends).any():
            return None
        full = np.where((self.used == self.most)[:, None], ends, np.inf)
        if exactly and np.isfinite(full).any():
            ends = full
        fewest = np.where(ends <= ends.min() * ROUNDING, self.used[:, None], np.iinfo(np.int64).max)
        members, kind = np.unravel_index(int(fewest.argmin()), ends.shape)
        return self._traced(int(members), int(kind))

    def _run(self, how: int, limit: float, counted: FloatArray | None = None) -> FloatArray:
        """[sets, c] least values of cuts of all layers onto exactly the devices of a set, by the last one's class."""
        pays = float(self.pays == "throughput"), float(self.pays != "")
        self.value[:] = np.inf
        counted = np.ones(len(self.classes.members)) if counted is None else counted
        tables = self.base, self.classes.hop, self.classes.counts, self.used, counted
        fill(*tables, (self.most, how, limit, *pays), self.value, self.came)
        return np.asarray(self.value[:, :, -1, -1])

    def _traced(self, members: int, kind: int) -> list[tuple[int, int, int]]:
        """The cut that the tables hold, from its last stage back to the first."""
        c, found = len(self.classes.members), []
        end, following = self.value.shape[2] - 1, c
        while end > 0:
            first, before = divmod(int(self.came[members, kind, end, following]), c + 1)
            found.append((first, end, kind))
            members -= int(self.stride[kind])
            end, following, kind = first, kind, before
        return found[::-1]


def _on_devices(classes: _Classes, cut: Sequence[tuple[int, int, int]] | None) -> list[Stage] | None:
    """Stages on devices: those of a class in their order."""
    if cut is None:
        return None
    free = [iter(own) for own in classes.members]
    return [Stage(first, end, next(free[kind])) for first, end, kind in cut]


def _in_turns(chain: LayerChain, classes: _Classes, search: _Search, found: list[Stage], least: float) -> list[Stage]:
    """The cut of the shortest period where devices take turns.

    For a limit on all loads, the dynamic program finds the least sum of loads of the devices that take turns. The least
    limit that this sum does not exceed is the period. Between the periods ``least`` and that of ``found`` it is
    bisected.
    """
    counted = np.array([float(chain.turns[own[0]]) for own in classes.members])
    most = chain.period(found)
    while most > least * (1.0 + PRECISION):
        middle = 0.5 * (least + most)
        cut = _on_devices(classes, search.best(SUM, middle, exactly=False, counted=counted))
        if cut is not None and chain.period(cut) <= middle * ROUNDING:
            found, most = cut, min(middle, chain.period(cut))
        else:
            least = middle
    return found
