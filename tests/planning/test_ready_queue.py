"""The queue of ready operators against a plain loop."""

from __future__ import annotations

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem
from hetgym._kernels.heap import pop
from hetgym._kernels.jit import lean
from hetgym._types import FloatArray, IntArray
from hetgym.planning.ready_queue import READY, ReadyQueue, new_queue, open_queue, release
from hetgym.problem import ProblemArrays


@lean
def play(p: ProblemArrays, queue: ReadyQueue, priority: FloatArray, taken: IntArray, ready: IntArray) -> None:
    """Take the operators out one by one; how many were ready each time."""
    open_queue(p, queue, priority)
    for k in range(len(taken)):
        ready[k] = queue.heaps.size[READY]
        taken[k] = p.topological_order[pop(queue.heaps, READY)]
        release(p, queue, taken[k], priority)


@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1))
def test_operators_come_after_their_predecessors_by_priority(problem: Problem, seed: int) -> None:
    n, queue = problem.num_operators, new_queue(problem.num_operators)
    priority = np.random.default_rng(seed).integers(0, 4, n).astype(np.float64)
    taken, ready = np.empty(n, np.int32), np.empty(n, np.int32)
    for _ in range(2):  # a queue may be used again
        play(problem.arrays, queue, priority, taken, ready)
        done: set[int] = set()
        for k in range(n):
            legal = [
                i
                for i in range(n)
                if i not in done and set(problem.edge_source[problem.edge_target == i].tolist()) <= done
            ]
            assert ready[k] == len(legal)
            assert taken[k] == min(legal, key=lambda i: (-priority[i], problem.arrays.position[i]))
            done.add(int(taken[k]))
        assert queue.heaps.size.tolist() == [0, 0] and not queue.waiting.any()
