"""The array heap against heapq."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym._kernels import heap as module

pop, push = callable_step(module.pop), callable_step(module.push)

ITEM = st.tuples(st.sampled_from([0.0, 1.0, 2.5, -3.0]), st.integers(0, 2**45))


@given(steps=st.lists(st.one_of(ITEM, st.none()), max_size=60), heap=st.integers(0, 2))
def test_items_come_out_as_from_heapq(steps: list[tuple[float, int] | None], heap: int) -> None:
    heaps, plain = module.new_heaps([60] * 3), []
    for step in steps:
        if step is not None:
            push(heaps, heap, *step)
            heapq.heappush(plain, step)
        elif plain:
            assert pop(heaps, heap) == heapq.heappop(plain)[1]
        assert heaps.size.tolist() == [len(plain) if k == heap else 0 for k in range(3)]
    while plain:
        assert pop(heaps, heap) == heapq.heappop(plain)[1]
