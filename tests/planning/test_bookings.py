from __future__ import annotations

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem, Runtime, simulate
from hetgym.baselines import get
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import place_in_order

start_on, book = callable_step(timeline.start_on), callable_step(timeline.book)
take_back, copy_into = callable_step(timeline.take_back), callable_step(timeline.copy_into)

LINKS = Runtime(communication="fifo")


def booked(line: timeline.Timeline) -> list[list[tuple[float, float]]]:
    """Begin and end of the transfers on each link or channel, in order of time."""
    v, found = line.moves.busy, []
    for k in range(len(v.size)):
        columns = [c for b in v.chain[k, : v.blocks[k]] for c in range(b * 64, b * 64 + v.held[k, b])]
        found.append([(float(v.begin[k, c]), float(v.end[k, c])) for c in columns])
    return found


def test_transfers_to_one_reader_wait_for_each_other() -> None:
    """Operators 0 and 1 end at 1 and 2 on device 0; their 3 s transfers share the link to device 1: 1-4 and 4-7."""
    problem = Problem.from_arrays([[1.0, 9.0], [1.0, 9.0], [np.inf, 1.0]], [(0, 2, 3.0), (1, 2, 3.0)])
    line, order = timeline.new_timeline(problem, LINKS), np.array([0, 1, 2], np.int32)
    place_in_order(problem.arrays, line, order, np.array([0, 0, 1], np.int32), np.zeros((3, 2)), True)
    assert line.start.tolist() == [0.0, 1.0, 7.0]
    assert booked(line)[0] == [(1.0, 4.0), (4.0, 7.0)]
    schedule = get("heft")(problem, LINKS)
    assert schedule.start[2] == 7.0 == simulate(problem, schedule, LINKS).start[2]
    assert get("heft")(problem).start[2] == 5.0  # where transfers never wait


def test_a_transfer_goes_into_the_first_gap_that_is_wide_enough() -> None:
    """On the link, 0-5 is idle at first, then 2-4 is taken, so that the next transfer of 2 s goes before it."""
    cost = [[0.0, 9.0], [2.0, 9.0], [np.inf, 1.0], [np.inf, 1.0]]
    problem = Problem.from_arrays(cost, [(1, 2, 2.0), (0, 3, 2.0)])
    line, fixed = timeline.new_timeline(problem, LINKS), np.array([0, 0, 1, 1], np.int32)
    place_in_order(problem.arrays, line, np.array([0, 1, 2, 3], np.int32), fixed, np.zeros((4, 2)), True)
    assert booked(line)[0] == [(0.0, 2.0), (2.0, 4.0)] and line.start[3] == 2.0


@given(strategies.machines(), strategies.runtimes(noise=0.0), st.integers(0, 2**32 - 1))
def test_no_link_carries_two_transfers_and_nothing_is_read_before_it_is_sent(
    problem: Problem, runtime: Runtime, seed: int
) -> None:
    if runtime.plans_as_classic:
        return
    rng = np.random.default_rng(seed)
    line, p = timeline.new_timeline(problem, runtime), problem.arrays
    fixed = strategies.random_assignment(problem, rng).astype(np.int32)
    for operator in strategies.random_topological_order(problem, rng):
        start = start_on(p, line, operator, fixed[operator], True)
        before = booked(line), line.moves.room.tolist(), line.busy.size.tolist()
        book(p, line, operator, fixed[operator], start)
        if rng.random() < 0.3:
            spare = timeline.new_timeline(problem, runtime)
            copy_into(line, spare)
            take_back(p, spare, operator)
            assert (booked(spare), spare.moves.room.tolist(), spare.busy.size.tolist()) == before
            assert start_on(p, spare, operator, fixed[operator], True) == start
    for transfers in booked(line):
        assert all(a[1] <= b[0] for a, b in zip(transfers, transfers[1:], strict=False))
    source, target = problem.edge_source, problem.edge_target
    own = line.moves.sent >= 0
    assert (line.moves.sent[own] >= line.finish[source[own]]).all()
    apart = fixed[source] != fixed[target]
    assert (line.moves.arrived[apart] <= line.start[target[apart]]).all()


def test_a_transfer_at_time_0_is_taken_back() -> None:
    problem = Problem.from_arrays([[0.0, 9.0], [np.inf, 1.0]], [(0, 1, 2.0)])
    line, order = timeline.new_timeline(problem, LINKS), np.array([0, 1], np.int32)
    place_in_order(problem.arrays, line, order, order, np.zeros((2, 2)), True)
    assert booked(line)[0] == [(0.0, 2.0)]
    take_back(problem.arrays, line, 1)
    assert booked(line)[0] == []


def test_a_copy_has_the_room_that_is_left_for_weights() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]], [], weight_bytes=[3.0], memory_capacity=[5.0, 7.0])
    enforcing = Runtime(memory="enforce")
    line, spare = (timeline.new_timeline(problem, enforcing, np.array([5.0, 7.0])) for _ in range(2))
    book(problem.arrays, line, 0, 1, 0.0)
    copy_into(line, spare)
    assert line.moves.room.tolist() == spare.moves.room.tolist() == [5.0, 4.0]
    take_back(problem.arrays, spare, 0)
    assert line.moves.room.tolist() == [5.0, 4.0] and spare.moves.room.tolist() == [5.0, 7.0]
