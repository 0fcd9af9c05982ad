"""The queue of ready operators against a plain loop."""

from __future__ import annotations

import heapq

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem
from hetgym.planning.ready_queue import new_queue, open_queue, release


@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1))
def test_operators_come_after_their_predecessors_by_priority(problem: Problem, seed: int) -> None:
    arrays, n = problem.arrays, problem.num_operators
    priority = np.random.default_rng(seed).integers(0, 4, n).astype(np.float64)
    waiting, queue = open_queue.py_func(arrays, priority)
    position, done = arrays.position, set()
    while queue:
        ready = [
            i for i in range(n) if i not in done and set(problem.edge_source[problem.edge_target == i].tolist()) <= done
        ]
        assert len(ready) == len(queue)
        i = int(arrays.topological_order[heapq.heappop(queue)[1]])
        assert i == min(ready, key=lambda k: (-priority[k], position[k]))
        done.add(i)
        release.py_func(arrays, i, priority, waiting, queue)
    assert len(done) == n
    assert new_queue() == []
