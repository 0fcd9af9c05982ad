"""Tables of an instance for the search over splits: what each entry of the menu costs, and what neighbours spare."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetgym._kernels.records import record
from hetgym._sums import summed
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.graph.transforms import AXES


@record
class Tables(NamedTuple):
    """K key operators, A entries of the menu, F edges between key operators."""

    legal: BoolArray  # [K, A]; the first entry, which leaves an operator whole, always is
    together: FloatArray  # [K, A] time of the slowest part if each has a device to itself, the fastest first [s]
    total: FloatArray  # [K, A] summed run time of the parts on their fastest devices [s]
    least: FloatArray  # [K, A] share of the smallest part; 1 for an operator that is whole
    apart: FloatArray  # [K, A] time to send what comes from, and goes to, operators that are no key operators [s]
    alone: FloatArray  # [K, A] `together`, and the time to deal out and gather if no neighbour is split [s]
    neighbour_pointer: IntArray  # [K + 1] row starts
    neighbour: IntArray  # key operators that a path connects on which there is none between
    twin_pointer: IntArray  # [K + 1] row starts
    twin: IntArray  # key operators with the same times, as in networks of repeated blocks
    edge_pointer: IntArray  # [K + 1] row starts
    edge: IntArray  # edges at a key operator
    source: IntArray  # [F] key operators
    target: IntArray  # [F]
    seconds: FloatArray  # [F] mean time to send the tensor [s]
    # made, dealt: [K, A] and [F, A] codes of the parts in which the source leaves the tensor, and in which the target
    # takes it; where both are equal and positive, nothing is gathered or scattered. -1 for parts that are summed or
    # overlap, -2 for a target whose parts all read the whole tensor, 0 for an operator that is whole.
    made: IntArray
    dealt: IntArray
    parts: IntArray  # [A] number of parts
    axis: IntArray  # [A] number of the axis among AXES; -1 for the first entry
    proportional: FloatArray  # [A] 1 if parts go by the speeds of the devices
    sizes: FloatArray  # [2] number of operators of the graph, and of devices


def new_tables(instance: SplitInstance, menu: Sequence[Choice]) -> Tables:
    """Work out the tables of an instance."""
    keys, problem, graph = instance.keys, instance.problem, instance.graph
    turn = {operator: k for k, operator in enumerate(keys)}
    away = ~np.eye(problem.num_devices, dtype=np.bool_)
    rate = float((1.0 / problem.bandwidth[away]).mean()) if away.any() else 0.0
    latency = float(problem.latency[away].mean()) if away.any() else 0.0
    shape = len(keys), len(menu)
    legal = np.zeros(shape, np.bool_)
    together, total, apart, alone = (np.zeros(shape) for _ in range(4))
    least, made = np.ones(shape), np.zeros(shape, np.int32)
    edges = [e for e in graph.edges if e.source in turn and e.target in turn]
    dealt = np.zeros((len(edges), len(menu)), np.int32)
    seconds = [latency + rate * graph.operators[e.source].outputs[e.slot].bytes for e in edges]
    codes: dict[tuple[int, tuple[int, ...]], int] = {}
    for k, operator in enumerate(keys):
        legal[k, 0] = True
        together[k, 0] = total[k, 0] = alone[k, 0] = problem.cost[operator].min()
        strangers = [e for e in graph.edges if e.target == operator and e.source not in turn]
        read = summed(latency + rate * graph.operators[e.source].outputs[e.slot].bytes for e in strangers)
        others = any(j not in turn for j in instance.readers[operator]) or not instance.readers[operator]
        write = latency + rate * graph.operators[operator].output_bytes if others else 0.0
        for a, option in enumerate(instance.options[k]):
            if option is None:
                continue
            legal[k, a] = True
            together[k, a], total[k, a], least[k, a] = option.together, option.total, option.least
            apart[k, a] = read + write
            made[k, a] = -1
            if option.result is not None:
                made[k, a] = codes.setdefault((option.result, option.lengths), len(codes) + 1)
            alone[k, a] = option.together + apart[k, a]
            for f, e in enumerate(edges):
                if e.source == operator:
                    alone[k, a] += seconds[f]
                elif e.target == operator:
                    deals = [deal for deal in option.deals if deal.source == (e.source, e.slot)]
                    exact = [codes.setdefault((d.axis, d.widths), len(codes) + 1) if d.exact else -1 for d in deals]
                    dealt[f, a] = exact[0] if exact else -2
                    alone[k, a] += seconds[f] * (1 if exact else menu[a].ways - 1)
    near = _neighbours(instance, turn)
    at = [[f for f, e in enumerate(edges) if k in (turn[e.source], turn[e.target])] for k in range(len(keys))]
    return Tables(
        legal,
        together,
        total,
        least,
        apart,
        alone,
        *_rows(near),
        *_rows(_twins(instance, np.concatenate([legal, together, total], axis=1))),
        *_rows(at),
        np.array([turn[e.source] for e in edges], np.int32),
        np.array([turn[e.target] for e in edges], np.int32),
        np.array(seconds, np.float64),
        made,
        dealt,
        np.array([choice.ways for choice in menu], np.int32),
        np.array([AXES.index(choice.axis) if choice.axis else -1 for choice in menu], np.int32),
        np.array([float(choice.parts == "proportional") for choice in menu]),
        np.array([len(graph), problem.num_devices], np.float64),
    )


def _neighbours(instance: SplitInstance, turn: dict[int, int]) -> list[list[int]]:
    """For each key operator those that a path connects, whatever its direction, on which no other one lies."""
    beside: list[set[int]] = [set() for _ in instance.readers]
    for i, readers in enumerate(instance.readers):
        for j in readers:
            beside[i].add(j)
            beside[j].add(i)
    found = []
    for operator in instance.keys:
        seen, queue, near = {operator}, deque([operator]), []
        while queue:
            for j in sorted(beside[queue.popleft()] - seen):
                seen.add(j)
                if j in turn:
                    near.append(turn[j])
                else:
                    queue.append(j)
        found.append(near)
    return found


def _twins(instance: SplitInstance, table: FloatArray) -> list[list[int]]:
    """For each key operator the others with the same times on all devices and in all ways of splitting."""
    whole = instance.problem.cost[list(instance.keys)]
    kinds: dict[bytes, list[int]] = {}
    names = [whole[k].tobytes() + table[k].tobytes() for k in range(len(table))]
    for k, name in enumerate(names):
        kinds.setdefault(name, []).append(k)
    return [[j for j in kinds[name] if j != k] for k, name in enumerate(names)]


def _rows(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Lists one behind the other, and where each begins."""
    pointer = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(row) for row in lists], out=pointer[1:])
    return pointer, np.array([k for row in lists for k in row], np.int32)
