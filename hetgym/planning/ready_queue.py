"""The queue of ready operators: those whose predecessors are done, by descending priority.

A heap whose keys are minus the priorities and whose codes are topological positions, so that ties go to the smaller
position.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.heap import Heaps, new_heaps, push
from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays

READY, FINISHES = 0, 1
"""Heaps: ready operators, and operators by the finish that the event loop of a scheduler waits for."""


@record
class ReadyQueue(NamedTuple):
    """The ready operators, and what the others wait for."""

    waiting: IntArray  # [n] number of edges on which an operator waits
    heaps: Heaps  # READY and FINISHES; both hold topological positions


def new_queue(n: int) -> ReadyQueue:
    """Allocate for n operators."""
    return ReadyQueue(np.zeros(n, np.int32), new_heaps([n, n]))


@step
def open_queue(p: ProblemArrays, queue: ReadyQueue, priority: FloatArray) -> None:
    """Empty both heaps, and queue the operators without predecessors."""
    queue.heaps.size[READY] = queue.heaps.size[FINISHES] = 0
    for i in range(len(priority)):
        queue.waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if queue.waiting[i] == 0:
            push(queue.heaps, READY, -priority[i], p.position[i])


@step
def release(p: ProblemArrays, queue: ReadyQueue, operator: int, priority: FloatArray) -> None:
    """Queue the successors that waited for nothing but this operator."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        queue.waiting[j] -= 1
        if queue.waiting[j] == 0:
            push(queue.heaps, READY, -priority[j], p.position[j])
