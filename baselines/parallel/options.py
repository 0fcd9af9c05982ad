"""What a stage may run on, and what ranges of layers cost there."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from hetgym._types import FloatArray, Int64Array, frozen
from hetgym.parallel import Group, ParallelPlan, Setting, Stage, TrainingProblem, passing_bytes
from hetgym.parallel.layers import Sizes
from hetgym.pipeline.schedules import orders, peak_activations

FEW = 8  # Most data degrees for which all mixtures of two kinds of groups are options of a stage


@dataclass(frozen=True)
class Options:
    """Options of a stage under a setting: the groups of its replicas."""

    setting: Setting  # data degree d, micro-batch and schedule
    turns: int  # micro-batches of a replica, M
    kinds: tuple[Group, ...]  # kinds of groups
    replicas: Int64Array  # [o, d] number of the kind of each replica; a mixture has its first kind first
    used: Int64Array  # [o, pools] GPUs of each pool that an option takes
    # [kinds, l + 1] sums of forward and backward times of the layers before each, without the weight passes that a
    # schedule may postpone [s]
    slot: FloatArray
    state: FloatArray  # [kinds, l + 1] sums of bytes that do not depend on the batch, without those of the libraries
    # [kinds] bytes of state that count for the first and for the last layer; one stage of all holds them once
    tied: FloatArray
    stash: FloatArray  # [kinds, l + 1] sums of bytes of a micro-batch
    work: FloatArray  # [l + 1] sums of the least work of the layers before each, for all replicas
    power: FloatArray  # [pools] work that all GPUs of a pool do in a second
    room: FloatArray  # [kinds] bytes of a GPU, less those of the libraries
    once: FloatArray  # [kinds, l] bytes that each layer needs while it is computed, see passing_bytes

    @property
    def data(self) -> int:
        """Data degree."""
        return self.setting.data

    def groups(self, option: int) -> tuple[Group, ...]:
        """The groups of an option."""
        return self._groups[option]

    @cached_property
    def _groups(self) -> list[tuple[Group, ...]]:
        return [tuple(self.kinds[k] for k in row) for row in self.replicas.tolist()]

    @cached_property
    def _rows(self) -> list[Int64Array]:
        """Kinds of each option."""
        return [np.array(sorted(set(row))) for row in self.replicas.tolist()]

    @property
    def fastest(self) -> FloatArray:
        """[l] least time of a micro-batch in each layer [s]."""
        return np.asarray(np.diff(self.slot, axis=1).min(axis=0))

    @property
    def longest(self) -> float:
        """Least time of the longest slot: that of any layer, or all work over what all GPUs do in a second [s]."""
        return max(float(self.fastest.max()), float(self.work[-1] / self.power.sum()))

    def largest(self) -> FloatArray:
        """[kinds, l + 1, l + 1] most bytes that one of the layers i to j needs while it is computed."""
        layers = self.once.shape[1]
        most = np.zeros((len(self.once), layers + 1, layers + 1))
        if self.once.any():
            for i in range(layers):
                most[:, i, i + 1 :] = np.maximum.accumulate(self.once[:, i:], axis=1)
        return most

    def plan(self, stages: Iterable[tuple[int, int, int]]) -> ParallelPlan:
        """The plan of stages, or of pieces under several chunks, given as (first layer, end, option)."""
        return self.plan_of_stages(tuple(Stage(first, end - 1, self.groups(option)) for first, end, option in stages))

    def plan_of_stages(self, made: tuple[Stage, ...]) -> ParallelPlan:
        """The plan of stages with groups."""
        setting, each = self.setting, self.setting.data * self.setting.micro_batch
        return ParallelPlan(made, setting.micro_batch, self.turns * each, *setting[2:])

    def slots(self) -> FloatArray:
        """[o, l + 1, l + 1] time of a micro-batch in layers i to j on the slowest replica [s]; inf for i >= j."""
        each = self.slot[:, None, :] - self.slot[:, :, None]
        below = np.tri(each.shape[1], dtype=np.bool_)
        return np.stack([np.where(below, np.inf, each[row].max(axis=0)) for row in self._rows])

    def held(self) -> FloatArray:
        """[o, l + 1, l + 1] most micro-batches whose activations fit in memory; negative if the weights do not."""
        state = self.state[:, None, :] - self.state[:, :, None]
        state[:, 0, -1] -= self.tied
        stash = self.stash[:, None, :] - self.stash[:, :, None]
        left = self.room[:, None, None] * (1 + 1e-12) - state - self.largest()
        most = np.divide(left, stash, out=np.where(left < 0, -1.0, np.inf), where=stash > 0)
        return np.stack([most[row].min(axis=0) for row in self._rows])


def options(problem: TrainingProblem, setting: Setting, mixed: bool = True) -> Options | None:
    """Options of a stage; None if there are none.

    Args:
        setting: data degree, micro-batch and schedule.
        mixed: also mixtures of two kinds of groups from different pools.
    """
    data, micro_batch, problem = setting.data, setting.micro_batch, problem.under(setting)
    pools = [pool.name for pool in problem.cluster.pools]
    gpus = np.array([pool.gpus for pool in problem.cluster.pools])
    kinds = problem.kinds(micro_batch)
    rows = [(k,) * data for k in range(len(kinds))]
    if mixed and data > 1:
        shares = range(1, data) if data <= FEW else sorted({data * k // FEW for k in range(1, FEW)})
        for a in range(len(kinds)):
            for b in range(a + 1, len(kinds)):
                if kinds[a].pool != kinds[b].pool:
                    rows += [(a,) * share + (b,) * (data - share) for share in shares]
    replicas, used = [], []
    for row in rows:
        count = np.zeros(len(pools), np.int64)
        for k in row:
            count[pools.index(kinds[k].pool)] += kinds[k].tensor
        if (count <= gpus).all():
            replicas.append(row)
            used.append(count)
    if not replicas:
        return None
    slot, state, stash = np.stack([_sums(problem, kind, setting) for kind in kinds], axis=1)
    work, power = _work(problem, kinds, slot, data)
    room = [problem.framework.room(problem.cluster[kind.pool].device) for kind in kinds]
    return Options(
        setting=setting,
        turns=problem.samples(data, micro_batch) // (data * micro_batch),
        kinds=tuple(kinds),
        replicas=np.array(replicas),
        used=np.array(used),
        slot=slot,
        state=state,
        tied=np.array([_known(problem, kind).tied * problem.framework.state(data) for kind in kinds]),
        stash=stash,
        work=work,
        power=power,
        room=np.array(room, np.float64),
        once=np.stack([passing_bytes(_known(problem, kind), problem.framework, micro_batch) for kind in kinds]),
    )


def in_flight(schedule: str, stages: int, turns: int) -> FloatArray:
    """[k] least number of micro-batches that the k-th stage from the end keeps, in pipelines of up to ``stages``."""
    if schedule == "1f1b":
        return np.asarray(np.minimum(np.arange(1.0, stages + 1), turns))
    kept = np.full(stages, np.inf)
    for p in range(1, stages + 1):
        # A schedule that keeps fewer micro-batches than it has will keep no more if it gets more of them.
        few = _peaks(schedule, p, min(turns, p + 1))
        kept[:p] = np.minimum(kept[:p], few if few.max() <= p else _peaks(schedule, p, turns))
    return kept


@cache
def _peaks(schedule: str, stages: int, turns: int) -> FloatArray:
    """[p] most micro-batches that each stage keeps, from the last one to the first."""
    passes = orders(schedule, stages, turns, 1 if schedule == "interleaved" else None)
    return frozen(np.array(peak_activations(passes)[::-1], np.float64))


def _work(problem: TrainingProblem, kinds: list[Group], slot: FloatArray, data: int) -> tuple[FloatArray, FloatArray]:
    """Least work of the layers and power of the pools, see :class:`Options`.

    Work is seconds times GPUs times a weight of the pool. No plan does more work in a second than the sum of weights
    of its GPUs, and none does a layer with less than the least over the pools, whatever the weights. They are chosen
    so that an average layer is the same work on each pool.
    """
    power, least = np.zeros(len(problem.cluster.pools)), np.full(slot.shape[1] - 1, np.inf)
    for p, pool in enumerate(problem.cluster.pools):
        rows = [
            row * kind.tensor for kind, row in zip(kinds, np.diff(slot, axis=1), strict=True) if kind.pool == pool.name
        ]
        if rows:
            spent = np.min(rows, axis=0)
            weight = 1.0 / max(float(spent.mean()), 1e-300)
            power[p] = weight * pool.gpus
            least = np.minimum(least, weight * spent)
    return data * np.append(0.0, np.cumsum(least)), power


def _sums(problem: TrainingProblem, kind: Group, setting: Setting) -> FloatArray:
    """[3, l + 1] sums before each layer of slot, state and stash; see :class:`Options`."""
    passes, sizes = problem.costs.passes(kind.pool, kind.tensor, setting.micro_batch), _known(problem, kind)
    assert passes is not None
    columns = (
        passes.forward + passes.backward / (2.0 if setting.schedule == "zb-h1" else 1.0),
        sizes.parameters * problem.framework.state(setting.data),
        sizes.stash * setting.micro_batch,
    )
    return np.stack([np.append(0.0, np.cumsum(column)) for column in columns])


def _known(problem: TrainingProblem, kind: Group) -> Sizes:
    """Sizes of the layers on a kind of groups, which has them."""
    sizes = problem.costs.sizes(kind.tensor)
    assert sizes is not None
    return sizes
