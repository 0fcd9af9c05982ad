"""Ranks: numbers that say how urgent an operator is before anything is placed.

All take a Problem and return one float64 an operator (or an operator and device). Means are over
the devices that can run an operator and over all ordered pairs of different devices.
"""

import numpy as np

from hetgym._kernels.heap import pop
from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._types import FloatArray, IntArray
from hetgym.planning.ready_queue import READY, ReadyQueue, new_queue, open_queue, release
from hetgym.problem import Problem, ProblemArrays


def longest_path_to_exit(p: ProblemArrays, weight: FloatArray, communication: FloatArray) -> FloatArray:
    """[n] longest path from an operator to an exit, its own time included; times [s] are [n] and [e]."""
    rank = np.empty(len(weight))
    write_longest_path_to_exit(p, weight, communication, rank)
    return rank


@interpreted
@lean
def write_longest_path_to_exit(
    p: ProblemArrays, weight: FloatArray, communication: FloatArray, rank: FloatArray
) -> None:
    """As :func:`longest_path_to_exit`, for kernels: fills ``rank``, [n]."""
    for k in range(len(weight) - 1, -1, -1):
        i = p.topological_order[k]
        tail = 0.0
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            tail = max(tail, communication[edge] + rank[p.successor[edge]])
        rank[i] = weight[i] + tail


def longest_path_from_entry(p: ProblemArrays, weight: FloatArray, communication: FloatArray) -> FloatArray:
    """[n] longest path from an entry to an operator's start, with times as in :func:`longest_path_to_exit` [s]."""
    rank = np.zeros(len(weight))
    write_longest_path_from_entry(p, weight, communication, rank)
    return rank


@lean
def write_longest_path_from_entry(
    p: ProblemArrays, weight: FloatArray, communication: FloatArray, rank: FloatArray
) -> None:
    """As :func:`longest_path_from_entry`, for kernels: fills ``rank``, [n] of zeros."""
    for i in p.topological_order:
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            rank[j] = max(rank[j], rank[i] + weight[i] + communication[edge])


def upward_rank(problem: Problem) -> FloatArray:
    """[n] HEFT's rank_u: mean length of the longest path from the operator to an exit [s].

    Source: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, equation 7.
    """
    return longest_path_to_exit(problem.arrays, problem.mean_cost, problem.mean_communication)


def downward_rank(problem: Problem) -> FloatArray:
    """[n] CPOP's rank_d: mean length of the longest path from an entry to the operator's start [s].

    Source: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, equation 9.
    """
    return longest_path_from_entry(problem.arrays, problem.mean_cost, problem.mean_communication)


def assigned_bottom_level(p: ProblemArrays, assignment: IntArray) -> FloatArray:
    """[n] longest path to an exit with the costs and transfers of a given placement [s]."""
    level = np.empty(len(assignment))
    write_bottom_level(p, np.array(assignment, np.int32), level)
    return level


@lean
def write_bottom_level(p: ProblemArrays, assignment: IntArray, level: FloatArray) -> None:
    """As :func:`assigned_bottom_level`, for kernels: fills ``level``, [n]."""
    for k in range(len(assignment) - 1, -1, -1):
        i = p.topological_order[k]
        a = assignment[i]
        tail = 0.0
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            other = assignment[j]
            transfer = 0.0 if a == other else p.latency[a, other] + p.edge_bytes[edge] / p.bandwidth[a, other]
            tail = max(tail, transfer + level[j])
        level[i] = p.cost[i, a] + tail


@lean
def write_optimistic_cost(p: ProblemArrays, communication: FloatArray, table: FloatArray) -> None:
    """As :func:`optimistic_cost`, for kernels: fills ``table``, [n, d] of zeros; ``communication`` is that of edges."""
    n, d = p.cost.shape
    for k in range(n - 1, -1, -1):
        i = p.topological_order[k]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            for a in range(d):
                best = np.inf
                for other in range(d):
                    transfer = 0.0 if a == other else communication[edge]
                    best = min(best, table[j, other] + p.cost[j, other] + transfer)
                table[i, a] = max(table[i, a], best)


def optimistic_cost(problem: Problem) -> FloatArray:
    """[n, d] PEFT's optimistic cost table: time to an exit after the operator ran on the device [s].

    Source: Arabnejad, Barbosa, IEEE TPDS 25(3), 2014, equation 2.
    """
    table = np.zeros(problem.cost.shape)
    write_optimistic_cost(problem.arrays, problem.mean_communication, table)
    return table


@interpreted
@lean
def write_least_cost_to_exit(p: ProblemArrays, table: FloatArray) -> None:
    """As :func:`least_cost_to_exit`, for kernels: fills ``table``, [n, d] of zeros."""
    n, d = p.cost.shape
    for k in range(n - 1, -1, -1):
        i = p.topological_order[k]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            for a in range(d):
                best = np.inf
                for other in range(d):
                    transfer = 0.0 if a == other else p.latency[a, other] + p.edge_bytes[edge] / p.bandwidth[a, other]
                    best = min(best, transfer + (p.cost[j, other] + table[j, other]))
                table[i, a] = max(table[i, a], best)


def least_cost_to_exit(problem: Problem) -> FloatArray:
    """[n, d] a proven lower bound on the time from the operator's finish on the device to the end [s].

    As :func:`optimistic_cost`, with each transfer at its true price between the two devices.
    """
    table = np.zeros(problem.cost.shape)
    write_least_cost_to_exit(problem.arrays, table)
    return table


@lean
def _write_least_cost_from_entry(p: ProblemArrays, table: FloatArray) -> None:
    n, d = p.cost.shape
    for i in p.topological_order:
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            for other in range(d):
                best = np.inf
                for a in range(d):
                    transfer = 0.0 if a == other else p.latency[a, other] + p.edge_bytes[edge] / p.bandwidth[a, other]
                    best = min(best, table[i, a] + p.cost[i, a] + transfer)
                table[j, other] = max(table[j, other], best)


def least_cost_from_entry(problem: Problem) -> FloatArray:
    """[n, d] a proven lower bound on the operator's start on the device [s]."""
    table = np.zeros(problem.cost.shape)
    _write_least_cost_from_entry(problem.arrays, table)
    return table


def list_order(p: ProblemArrays, priority: FloatArray) -> IntArray:
    """[n] operators by descending priority, ties by topological position, never before their inputs.

    A ready list does the repair that a plain sort would need where operators of no cost make priorities equal.
    """
    order = np.empty(len(priority), np.int32)
    write_list_order(p, new_queue(len(order)), np.array(priority, np.float64), order)
    return order


@interpreted
@lean
def write_list_order(p: ProblemArrays, queue: ReadyQueue, priority: FloatArray, order: IntArray) -> None:
    """As :func:`list_order`, for kernels: fills ``order``, [n]; ``queue`` is scratch."""
    open_queue(p, queue, priority)
    for k in range(len(order)):
        order[k] = p.topological_order[pop(queue.heaps, READY)]
        release(p, queue, order[k], priority)
