"""The best split of layers over devices: dynamic programming over kinds of devices and layers, exact for its model.

A group of devices holds consecutive layers; the CPU holds the first or the last ones, and experts of others. The state
is how many groups of each kind are used, the kind that was used last, and how many layers are placed. Whatever one
device or a cut that fills devices in order could do is among the splits, so no answer is worse.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, IntArray
from hetgym.llm.site import Site


class Stage(NamedTuple):
    """Consecutive layers of a group of devices."""

    devices: tuple[int, ...]
    first: int
    end: int  # behind the last layer


class Split(NamedTuple):
    """Where layers are."""

    stages: tuple[Stage, ...]  # in the order of the model, those of the CPU included
    away: tuple[int, ...] = ()  # layers of GPUs whose experts lie on the CPU
    shares: tuple[float, ...] = ()  # of the experts of each of these that do; all of them by default

    def moved(self, count: int) -> FloatArray:
        """[count] share of each layer's experts that lies on the CPU while the layer is on a GPU."""
        found = np.zeros(count)
        found[list(self.away)] = self.shares or 1.0
        return found


_NONE = -1  # kind before the first
_CPU = -2  # kind of the CPU

_Key = tuple[tuple[int, ...], int]  # groups of each kind that are used, and the kind that was used last

MOST_STATES = 2048  # Most ways to use groups of each kind; beyond them the devices keep their order

PENALTIES = (0.0, *(10.0**k for k in range(-12, 1)))
"""Seconds for each byte on the CPU, tried in turn until what is there fits."""


TURN = 2e-3
"""Share of the time that another order of the devices than the platform's must save: people expect theirs."""


LEVEL = 1e-7
"""Share of the time that is added for a full GPU, and a quarter of it for a half full one: among splits that are
equally fast, devices are filled evenly."""


class _Table(NamedTuple):
    """What a group of one kind costs with the layers from a to b, in tables over a and b."""

    cost: FloatArray  # [n + 1, n + 1]; inf where they do not fit
    lacks: FloatArray  # [n + 1, n + 1] bytes of experts that must be elsewhere


def best_split(site: Site, by_bytes: bool = False) -> Split | None:
    """The split of least decoding time, or the one with the fewest bytes on the CPU; None if none fits."""
    kinds = site.kinds if _states(site.kinds) <= MOST_STATES else tuple((k,) for k in range(len(site.groups)))
    for penalty in PENALTIES if not by_bytes else (1.0,):
        weight = 1e-9 if by_bytes else 1.0
        tables = [_table(site, site.groups[kind[0]], weight, penalty) for kind in kinds]
        found = _search(site, kinds, tables, weight, penalty)
        if found is None:
            return None
        if fits(site, found):
            return found
    return None


def usage(site: Site, split: Split) -> tuple[FloatArray, FloatArray, FloatArray]:
    """[d] weights, [d] caches and [d] buffers that each device holds under a split [byte]."""
    parts, cpu, count = site.parts, site.cpu, len(site.platform)
    weights, caches, buffers = np.zeros(count), np.zeros(count), np.zeros(count)
    there = parts.experts * split.moved(len(parts.dense))
    each = parts.dense + parts.experts - there
    for stage in split.stages:
        ways, layers, last = len(stage.devices), slice(stage.first, stage.end), stage.end == len(parts.dense)
        for k in stage.devices:
            weights[k] += (each[layers].sum() + (parts.head if last else 0.0)) / ways
            caches[k] += site.cache(stage.devices)[layers].sum()
            if k != cpu:
                buffers[k] = site.rules.buffers(parts, site.load, site.masks)
    if cpu is not None:
        weights[cpu] += there.sum()
    first, last_stage = split.stages[0], split.stages[-1]
    if site.rules.table_on_cpu and cpu is not None:
        weights[cpu] += parts.table
    elif not site.rules.table_on_cpu:
        for k in first.devices:
            weights[k] += (parts.table - (parts.tied if k in last_stage.devices else 0.0)) / len(first.devices)
    return weights, caches, buffers


def fits(site: Site, split: Split) -> bool:
    """Whether every memory holds what a split puts there; devices of one pool share theirs."""
    held = np.sum(usage(site, split), axis=0)
    pools = site.platform.memory_pool
    for pool in set(pools):
        members = [k for k, own in enumerate(pools) if own == pool]
        if held[members].sum() > max(site.room[k] for k in members):
            return False
    return bool((held <= np.array(site.room)).all())


def cpu_bytes(site: Site, split: Split) -> float:
    """Weights that a split leaves on the CPU beside the table of words [byte]."""
    if site.cpu is None:
        return 0.0
    weights, _, _ = usage(site, split)
    return float(weights[site.cpu]) - (site.parts.table if site.rules.table_on_cpu else 0.0)


def _table(site: Site, group: Sequence[int], weight: float, penalty: float) -> _Table:
    """Costs of all runs of layers on a group."""
    parts, n, ways = site.parts, len(site.parts.dense), len(group)
    alone, chosen = site.layer_times(group)
    own = np.concatenate([[0.0], np.cumsum(alone + chosen)]) * weight
    held = np.concatenate([[0.0], np.cumsum((parts.dense + parts.experts) / ways + site.cache(group))])
    cost = np.full((n + 1, n + 1), np.inf)
    room = site.free(group)
    need = held[None, :] - held[:, None] - room
    need[:, n] += parts.head / ways
    if not site.rules.table_on_cpu:
        need[0] += parts.table / ways
        need[0, n] -= parts.tied / ways
    a, b = np.triu_indices(n + 1, 1)
    spent = own[b] - own[a]
    spent[b == n] += site.head_time(group) * weight
    lacks = need[a, b]
    fits = lacks <= 0
    spent += LEVEL * own[n] * np.square(1.0 + np.minimum(lacks, 0.0) / max(room, 1.0))
    cost[a[fits], b[fits]] = spent[fits]
    lack = np.zeros((n + 1, n + 1))
    if site.rules.experts and site.cpu is not None and parts.experts.any() and ways == 1:
        a, b, spent, lacks = a[~fits], b[~fits], spent[~fits], lacks[~fits]
        behind = _extra(site, group, chosen) * weight + penalty * parts.experts
        cost[a, b] = spent + _freed(parts.experts, behind, a, b, lacks)
        lack[a, b] = lacks
    return _Table(cost, lack)


def _freed(size: FloatArray, behind: FloatArray, a: IntArray, b: IntArray, short: FloatArray) -> FloatArray:
    """[p] cost of the experts that :func:`_away` moves from runs of layers; infinite where they free too little.

    Args:
        behind: [n] cost of the experts of each layer on the CPU.
        a: [p] first layers.
        b: [p] those behind the last ones.
        short: [p] bytes to free.
    """
    held, spent = (np.concatenate([[0.0], np.cumsum(x)]) for x in (size, np.where(size > 0, behind, 0.0)))
    counts = np.concatenate([[0], np.cumsum(size > 0)])
    first = np.maximum(np.searchsorted(held, held[b] - short, side="right") - 1, 0)  # the last layers from here free it
    enough = held[b] - held[a] >= short
    fewest, least, left = np.zeros(len(a), np.int64), np.zeros(len(a)), short.copy()
    for one in np.unique(size[size > 0])[::-1]:  # the last ones of each size
        members = np.flatnonzero(size == one)
        own = np.concatenate([[0.0], np.cumsum(behind[members])])
        begin, end = np.searchsorted(members, a), np.searchsorted(members, b)
        taken = np.clip(np.ceil(left / one), 0, end - begin).astype(np.int64)
        fewest += taken
        least += own[end] - own[end - taken]
        left -= taken * one
    found = np.where(counts[b] - counts[first] <= fewest, spent[b] - spent[first], least)
    return np.where(enough, found, np.inf)


def _away(size: FloatArray, first: int, end: int, short: float) -> tuple[int, ...]:
    """The fewest layers of a run whose experts free some bytes, the last ones if these do.

    Experts of some layers take more bytes in a mix, which may save one layer.
    """
    inside = np.arange(end - 1, first - 1, -1)
    inside = inside[size[inside] > 0]
    largest = inside[np.argsort(-size[inside], kind="stable")]
    last, fewest = (int(np.searchsorted(np.cumsum(size[order]), short)) + 1 for order in (inside, largest))
    return tuple(sorted((inside[:last] if last <= fewest else largest[:fewest]).tolist()))


def _extra(site: Site, group: Sequence[int], chosen: FloatArray) -> FloatArray:
    """[n] additional time of experts on the CPU [s]."""
    assert site.cpu is not None
    there = site.cpu_times[1]
    return np.asarray(there + 2 * site.hop(group, (site.cpu,)) - chosen)


def _search(
    site: Site, kinds: Sequence[tuple[int, ...]], tables: list[_Table], weight: float, penalty: float
) -> Split | None:
    n = len(site.parts.dense)
    cpu = () if site.cpu is None else (site.cpu,)
    on_cpu = _cpu_costs(site, weight, penalty) if cpu and site.rules.cpu else None
    start = np.full(n + 1, np.inf)
    start[0] = 0.0
    states: dict[_Key, FloatArray] = {_begin(kinds, _NONE): start}
    if on_cpu is not None and site.rules.cpu == "first":
        states[_begin(kinds, _CPU)] = np.where(np.arange(n + 1) > 0, on_cpu[0], np.inf)
    came: dict[_Key, tuple[list[int], list[_Key]]] = {}
    hops = _hops(site, kinds, tables, weight)
    for key, before in _steps(kinds, site.rules.gpus):
        j, known = key[1], [state for state in before if state in states]
        if not known:
            continue
        reached = np.stack(
            [(states[state] + hops.get((state[1], j), 0.0))[:, None] + tables[j].cost for state in known]
        )
        flat = reached.reshape(-1, n + 1)
        at = flat.argmin(axis=0)
        best = flat[at, np.arange(n + 1)]
        if np.isfinite(best).any():
            states[key] = best
            came[key] = ((at % (n + 1)).tolist(), [known[k] for k in (at // (n + 1)).tolist()])
    return _end(site, kinds, tables, states, came, on_cpu, weight)


def _begin(kinds: Sequence[tuple[int, ...]], last: int) -> _Key:
    """The state before any group is used."""
    return (0,) * (len(kinds) if _states(kinds) <= MOST_STATES else 1), last


def _states(kinds: Sequence[tuple[int, ...]]) -> int:
    """Ways to use some groups of each kind."""
    return math.prod(len(kind) + 1 for kind in kinds)


def _steps(kinds: Sequence[tuple[int, ...]], most: int) -> Iterator[tuple[_Key, list[_Key]]]:
    """States, and those from which each is reached, in an order that knows these before it.

    With many kinds the groups keep the platform's order, and a state is the last group that is used.
    """
    starts = [_begin(kinds, last) for last in (_NONE, _CPU)]
    if _states(kinds) > MOST_STATES:
        for j in range(len(kinds)):
            yield ((j + 1,), j), starts + [((i + 1,), i) for i in range(j) if most > 1]
        return
    for used in product(*(range(len(kind) + 1) for kind in kinds)):
        for j, count in enumerate(used if 0 < summed(used) <= most else ()):
            if count:
                before = (*used[:j], count - 1, *used[j + 1 :])
                yield (used, j), [(before, i) for i in (_NONE, _CPU, *range(len(kinds)))]


def _hops(
    site: Site, kinds: Sequence[tuple[int, ...]], tables: list[_Table], weight: float
) -> dict[tuple[int, int], float]:
    """Cost of the activations from one kind, or the CPU, to another, and of another order than the platform's."""
    cpu = () if site.cpu is None else (site.cpu,)
    whole = min((float(table.cost[np.isfinite(table.cost)].max(initial=0.0)) for table in tables), default=0.0)
    groups = [site.groups[kind[0]] for kind in kinds]
    return {
        (i, j): weight * site.hop(cpu if i == _CPU else groups[i], site.groups[kinds[j][-1]])
        + (TURN * whole if i > j else 0.0)
        for i in (_CPU, *range(len(kinds)))
        for j in range(len(kinds))
    }


def _cpu_costs(site: Site, weight: float, penalty: float) -> tuple[FloatArray, FloatArray]:
    """[n + 1] costs of the first k layers on the CPU, and of the last n - k; the head is there with the last layer."""
    parts, n = site.parts, len(site.parts.dense)
    whole, _ = site.cpu_times
    each = whole * weight + penalty * (parts.dense + parts.experts + parts.cache)
    first = np.concatenate([[0.0], np.cumsum(each)])
    assert site.cpu is not None
    head = site.head_time((site.cpu,)) * weight + penalty * parts.head
    last = first[-1] - first
    last[:n] += head
    first[n] += head
    return first, last


def _end(
    site: Site,
    kinds: Sequence[tuple[int, ...]],
    tables: list[_Table],
    states: dict[_Key, FloatArray],
    came: dict[_Key, tuple[list[int], list[_Key]]],
    on_cpu: tuple[FloatArray, FloatArray] | None,
    weight: float,
) -> Split | None:
    """The split at which the cheapest state ends."""
    n = len(site.parts.dense)
    cpu = () if site.cpu is None else (site.cpu,)
    best, where = np.inf, None
    for key, value in states.items():
        if value[n] < best:
            best, where = float(value[n]), (key, n)
        if on_cpu is not None and site.rules.cpu == "last" and key[1] != _CPU:
            hop = 0.0 if key[1] == _NONE else weight * site.hop(site.groups[kinds[key[1]][0]], cpu)
            total = value[:n] + hop + on_cpu[1][:n]
            at = int(total.argmin())
            if total[at] < best:
                best, where = float(total[at]), (key, at)
    if where is None:
        return None
    key, at = where
    runs: list[tuple[int, int, int]] = [(_CPU, at, n)] if at < n else []
    away: list[int] = []
    while key[1] not in (_NONE, _CPU):
        sources, origins = came[key]
        first = sources[at]
        runs.append((key[1], first, at))
        if tables[key[1]].lacks[first, at] > 0:
            away += _away(site.parts.experts, first, at, float(tables[key[1]].lacks[first, at]))
        key, at = origins[at], first
    if key[1] == _CPU:
        runs.append((_CPU, 0, at))
    left = [list(kind) for kind in kinds]
    stages: list[Stage] = []
    for kind, first, end in reversed(runs):
        devices = cpu if kind == _CPU else site.groups[left[kind].pop(0)]
        if stages and stages[-1].devices == devices:
            stages[-1] = stages[-1]._replace(end=end)
        else:
            stages.append(Stage(devices, first, end))
    return Split(tuple(stages), tuple(sorted(away)))
