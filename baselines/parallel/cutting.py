"""Cuts of a model over groups of GPUs, by dynamic programming under a limit on the longest stage."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._sums import summed
from hetgym._types import FloatArray, Int64Array
from hetgym.baselines.parallel.options import Options, in_flight
from hetgym.parallel import ParallelPlan, TrainingProblem

LARGEST = 1 << 27  # Most entries of a table; each takes 24 bytes

WORK = 1 << 31
"""Most work on one setting: entries that are filled in, and ways to add a stage before a suffix that are compared."""

SHARE = 2  # A table takes at most this part of the work that is left


def cuts(
    problem: TrainingProblem, found: Options, whole: bool = True, below: float = np.inf
) -> Iterator[tuple[float, ParallelPlan]]:
    """Plans of one setting with one chunk a stage, each with a shorter longest stage than the one before.

    The estimate of a step is the sum of all stages' slots (forward and backward pass of a micro-batch) plus M - 1 times
    the longest: exact for a pipeline without transfers (Zheng et al., "Alpa", OSDI 2022, section 5). For each limit on
    the longest slot, dynamic programming over suffixes of layers and numbers of GPUs of each pool finds the least sum.

    GPUs are counted in the largest number that divides what all options take. Where a table would exceed
    :data:`LARGEST`, or its share of :data:`WORK`, they are counted in larger units, and options take whole units: all
    its plans exist, but it lacks some, and the estimates are the least in these units only. If it has no plan at all,
    tables follow that count one pool finely and the others in larger units still.

    Args:
        found: options of the stages.
        whole: False to minimise the longest stage alone.
        below: plans with this estimate or a longer one are not asked for [s].

    Yields:
        Estimates [s] and plans.
    """
    if _too_small(problem, found):
        return
    for fine in (None, *range(len(problem.cluster.pools))):
        table = _Table(problem, found, WORK if fine is None else WORK / 4)
        any_plan = False
        for estimate, plan in _cuts(table, whole, below, fine):
            any_plan = True
            yield estimate, plan
        if any_plan or below < np.inf or not table.coarse:
            return


def coarse(problem: TrainingProblem, found: Options) -> bool:
    """True if :func:`cuts` may miss plans of a setting, because GPUs are counted in units too large for all of them."""
    if _too_small(problem, found):
        return False
    table = _Table(problem, found, WORK)
    table.fit(np.inf, None)
    return table.coarse


def _too_small(problem: TrainingProblem, found: Options) -> bool:
    """True if all GPUs together have too little memory for what layers need at least, with one micro-batch each."""
    tensors = np.array([kind.tensor for kind in found.kinds], np.float64)
    need = found.data * (tensors[:, None] * np.diff(found.state + found.stash, axis=1)).min(axis=0).sum()
    rooms = {kind.pool: room for kind, room in zip(found.kinds, found.room.tolist(), strict=True)}
    return bool(need > (1 + 1e-9) * summed(max(0.0, room) * problem.cluster[name].gpus for name, room in rooms.items()))


def _cuts(table: _Table, whole: bool, below: float, fine: int | None) -> Iterator[tuple[float, ParallelPlan]]:
    """See :func:`cuts`; ``fine`` is a pool whose GPUs are counted in the finest units."""
    found, slots = table.found, table.slots
    limit, least, rest = np.inf, below, max(1, found.turns - 1)
    if whole:
        limit = max(0.0, (least - float(found.fastest.sum())) / rest)
    while table.fit(limit, fine):
        sums, choice = table.suffixes(limit)
        reach = sums[:, -1, 0]
        if not np.isfinite(reach).any():
            return
        k = int(np.argmin(reach))
        plan_stages, longest = [], 0.0
        at, left = 0, sums.shape[1] - 1
        for step in range(k, -1, -1):
            option, end = choice[step, left, at]
            plan_stages.append((at, int(end), int(option)))
            longest = max(longest, float(slots[option, at, end]))
            at, left = int(end), left - int(table.take[option])
        estimate = (float(reach[k]) if whole else 0.0) + (found.turns - 1 if whole else 1) * longest
        yield estimate, found.plan(plan_stages)
        least = min(least, estimate)
        limit = longest * (1 - 1e-9)
        if whole:  # a tighter limit does not shorten the sum
            limit = min(limit, (least - float(reach[k])) / rest)
            if float(reach[k]) >= least:
                return


class _Table:
    """Numbering of the GPUs that are left, in units, and the tables over it.

    Attributes:
        coarse: True if some option does not take whole units.
        take: [o] GPUs that an option takes, as a step in the numbering.
        ends: [k, o, l + 1] number of ends that the memory of the k-th stage from the end has room for.
    """

    def __init__(self, problem: TrainingProblem, found: Options, left: float) -> None:
        self.found, self.layers = found, problem.costs.layers
        self.gpus = np.array([pool.gpus for pool in problem.cluster.pools])
        self.stages = int(min(problem.stages, self.layers, max(1, (self.gpus // found.used.clip(1)).max(axis=1).sum())))
        self.kept = in_flight(found.setting.schedule, self.stages, found.turns)
        self.slots, self.held = found.slots(), found.held()
        real = np.isfinite(self.slots)
        self.ends = np.stack([(real & (self.held >= kept)).sum(axis=2) for kept in self.kept])
        self.left = left
        self.count(np.maximum(1, np.gcd.reduce(found.used, axis=0)))

    def count(self, unit: Int64Array) -> None:
        """Count the GPUs of each pool in units."""
        self.unit, self.steps = unit, -(-self.found.used // unit)
        self.most = np.minimum(self.gpus // unit, self.stages * self.steps.max(axis=0))  # more are not taken
        self.coarse = bool((self.found.used % unit).any())

    @property
    def states(self) -> int:
        """Numbers of GPUs that may be left."""
        return prod(int(most) + 1 for most in self.most)

    def fit(self, limit: float, fine: int | None) -> bool:
        """Enlarge the units until a table is small enough; False if it cannot be.

        Of the pools that still have several units, the one with the most counts in units twice as large.

        Args:
            fine: a pool whose units are kept.
        """
        while True:
            entries = self.states * self.stages * (self.layers + 1)
            if entries <= LARGEST:
                self.number()
                work = self.work(limit) + entries
                if work * SHARE <= self.left:
                    self.left -= work
                    return True
            several = np.where(np.arange(len(self.most)) == fine, 0, self.most)
            pool = int(np.argmax(several))
            if several[pool] < 2:
                return False
            self.count(np.where(np.arange(len(self.most)) == pool, 2 * self.unit, self.unit))

    def number(self) -> None:
        """Number what may be left."""
        stride = np.append(1, np.cumprod(self.most + 1)[:-1]).astype(np.int64)
        self.take = (self.steps @ stride).astype(np.int64)
        free = np.stack(np.unravel_index(np.arange(self.states), (self.most + 1)[::-1])[::-1], axis=1)
        self.allowed = np.ascontiguousarray((free[:, None, :] >= self.steps[None]).all(axis=2))  # what is left suffices
        self.power = free * self.unit @ (self.found.power / self.gpus)

    def window(self, limit: float) -> tuple[Int64Array, Int64Array]:
        """[u] first layers of suffixes that may take what is left, from and to."""
        work, power, spare = self.found.work, self.power, min(limit, 1e300) * (1 + 1e-9)
        begin = np.searchsorted(work, work[-1] - spare * power)
        end = np.searchsorted(work, spare * (power[-1] - power) + 1e-9 * work[-1], side="right")
        return begin, np.minimum(np.maximum(begin, end), self.layers)

    def work(self, limit: float) -> float:
        """Most ways to add a stage before a suffix that a table compares."""
        begin, end = self.window(limit)
        ways = np.minimum((self.slots <= limit).sum(axis=2), self.ends).sum(axis=0)
        before = np.pad(np.cumsum(ways, axis=1), ((0, 0), (1, 0)))
        return float((self.allowed * (before[:, end] - before[:, np.minimum(begin, end)]).T).sum())

    def suffixes(self, limit: float) -> tuple[FloatArray, Int64Array]:
        """Least sums of slots over the layers from i on.

        Returns:
            [k, u, l + 1] least sum with k + 1 stages and at most u GPUs, inf if there is none; and [k, u, l + 1, 2]
            option and end of the first of them.
        """
        shape = self.stages, self.states, self.layers + 1
        sums, choice = np.full(shape, np.inf), np.zeros((*shape, 2), np.int64)
        parts = self.slots, self.held, self.kept, self.take, self.allowed
        _fill(*parts, *self.window(limit), limit, sums, choice)
        return sums, choice


# After step k, sums[k, u, i] is the least sum of slots of exactly k + 1 stages that hold the layers from i on and take
# at most u GPUs. A stage is added before the suffixes of step k - 1. Cost: O(k u o l^2). Suffixes are left out if
# they are too much work for their GPUs within the limit, or if the layers before them are too much for the others. A
# stage takes longer and more memory with every layer.
@lean
def _fill(
    slots: FloatArray,
    held: FloatArray,
    kept: FloatArray,
    take: Int64Array,
    allowed: np.ndarray,
    begin: Int64Array,
    end: Int64Array,
    limit: float,
    sums: FloatArray,
    choice: Int64Array,
) -> None:
    """Fill a table, see :meth:`_Table.suffixes`.

    Args:
        slots: [o, l + 1, l + 1] time of layers i to j on each option [s].
        held: [o, l + 1, l + 1] most micro-batches that fit.
        kept: [k] micro-batches that the k-th stage from the end keeps.
        take: [o] GPUs that an option takes, as a step in the numbering of what is left.
        allowed: [u, o] True if what is left suffices for an option.
        begin, end: [u] first layer of a suffix, at least, and less than.
        limit: longest slot [s].
        sums, choice: [k, u, l + 1] and [k, u, l + 1, 2], written.
    """
    options, last = slots.shape[0], slots.shape[1] - 1
    low = last  # first layer from which the stages before reach the end
    for k in range(sums.shape[0]):
        lowest = last
        for u in range(sums.shape[1]):
            for o in range(options):
                if not allowed[u, o]:
                    continue
                rest = u - take[o]
                for i in range(begin[u], end[u]):
                    for j in range(max(low, i + 1), last + 1):
                        slot = slots[o, i, j]
                        if slot > limit or kept[k] > held[o, i, j]:
                            break
                        value = slot if k == 0 else slot + sums[k - 1, rest, j]
                        if value < sums[k, u, i]:
                            lowest = min(lowest, i)
                            sums[k, u, i] = value
                            choice[k, u, i, 0] = o
                            choice[k, u, i, 1] = j
        low = lowest
