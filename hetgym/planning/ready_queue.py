"""The queue of ready operators: those whose predecessors are done, by descending priority.

A heap of pairs (minus the priority, topological position), so that ties go to the smaller position.
"""

from __future__ import annotations

import heapq

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays

Queue = list[tuple[float, np.int32]]
"""Entries of a heap of operators: minus the priority, and the topological position."""


@jit
def new_queue() -> Queue:
    """An empty queue, of the type that kernels expect."""
    queue = [(0.0, np.int32(0))]
    queue.pop()
    return queue


@jit
def open_queue(p: ProblemArrays, priority: FloatArray) -> tuple[IntArray, Queue]:
    """Queue the operators without predecessors.

    Args:
        p: the problem.
        priority: [n] larger first.

    Returns:
        [n] number of edges on which an operator waits, and the queue.
    """
    n = len(priority)
    waiting = np.empty(n, np.int32)
    queue = new_queue()
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            heapq.heappush(queue, (-priority[i], p.position[i]))
    return waiting, queue


@jit
def release(p: ProblemArrays, operator: int, priority: FloatArray, waiting: IntArray, queue: Queue) -> None:
    """Queue the successors that waited for nothing but this operator.

    Args:
        p: the problem.
        operator: the operator that is done.
        priority: [n] larger first.
        waiting: [n] number of edges on which an operator waits; brought up to date.
        queue: gets the operators that are ready now.
    """
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        waiting[j] -= 1
        if waiting[j] == 0:
            heapq.heappush(queue, (-priority[j], p.position[j]))
