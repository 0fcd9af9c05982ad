"""The array heap against heapq."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym.sim import heap

pop, push = callable_step(heap.pop), callable_step(heap.push)

ITEM = st.tuples(st.sampled_from([0.0, 1.0, 2.5, -3.0]), st.integers(0, 2**45))


@given(steps=st.lists(st.one_of(ITEM, st.none()), max_size=60), row=st.integers(0, 1))
def test_items_come_out_as_from_heapq(steps: list[tuple[float, int] | None], row: int) -> None:
    rows, plain = heap.new_heap(2, 60), []
    for step in steps:
        if step is not None:
            push(rows, row, *step)
            heapq.heappush(plain, step)
        elif plain:
            assert pop(rows, row) == heapq.heappop(plain)[1]
        assert rows.size.tolist() == ([len(plain), 0] if row == 0 else [0, len(plain)])
    while plain:
        assert pop(rows, row) == heapq.heappop(plain)[1]
