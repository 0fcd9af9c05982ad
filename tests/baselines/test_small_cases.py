"""List schedulers on cases small enough to be worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import ConfigError, Problem, Runtime, simulate
from hetgym.baselines import get
from hetgym.baselines.bsa import neighbours
from hetgym.planning import ready_list, timeline
from hetgym.planning.ranks import least_cost_to_exit

INF = math.inf


def starts(name: str, problem: Problem, runtime: str = "classic", **options: int) -> tuple[list[int], list[float]]:
    schedule = get(name, **options)(problem, runtime)
    assert schedule.start is not None
    assert schedule.start.tolist() == simulate(problem, schedule, runtime).start.tolist()
    return schedule.assignment.tolist(), schedule.start.tolist()


def test_gdl_looks_at_the_descendant() -> None:
    """Operator 0 takes 2 anywhere, but operator 1, which gets 10 bytes of it, runs on device 1 only.

    On device 0 the descendant would end 11 later, on device 1 only 1 later.
    """
    problem = Problem.from_arrays([[2.0, 2.0], [INF, 1.0]], [(0, 1, 10.0)])
    assert starts("dls", problem) == ([0, 1], [0.0, 12.0])
    assert starts("gdl", problem) == ([1, 1], [0.0, 2.0])


def test_gdl_serves_first_what_has_no_other_place() -> None:
    """Device 0 is the best of both, with levels of 6 - 0 + (6 - 2) = 10 and 4 - 0 + 0 = 4 there.

    Operator 0 has a level of 6 - 0 + (6 - 10) = 2 on device 1 and would lose 8; operator 1 has no other device.
    """
    problem = Problem.from_arrays([[2.0, 10.0], [4.0, INF]], [])
    assert starts("dls", problem) == ([0, 0], [0.0, 2.0])
    assert starts("gdl", problem) == ([0, 0], [4.0, 0.0])


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_bil_is_optimal_for_chains(n: int, d: int, seed: int) -> None:
    """Proved in the paper. The optimum is the shortest path through operators and devices."""
    rng = np.random.default_rng(seed)
    problem = Problem.from_arrays(
        rng.uniform(1.0, 9.0, (n, d)), [(i, i + 1, float(rng.uniform(0, 9))) for i in range(n - 1)], latency=0.5
    )
    optimum = (problem.cost + least_cost_to_exit(problem))[0].min()
    assert get("bil")(problem).makespan == pytest.approx(optimum, rel=1e-12)


def test_bil_counts_speed_more_where_many_are_ready() -> None:
    """Four are ready on two devices, so run times count once more when the first one, operator 0, takes its device.

    It goes first: its BIMs are 4 + 2 + 3 = 9, with the transfer to its child, and 5 + 3 = 8; the others' are 1. Alone,
    it takes device 1, where its path ends at 8. In the crowd it is 9 + 4 to 8 + 5: a tie, to the smaller device.
    """
    cost = [[4.0, 5.0], [INF, 3.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    problem = Problem.from_arrays(cost, [(0, 1, 2.0)])
    assert starts("bil", problem)[0][0] == 0
    assert starts("bil", Problem.from_arrays(cost[:2], [(0, 1, 2.0)])) == ([1, 1], [0.0, 5.0])


def test_dps_prefers_what_has_little_behind_it() -> None:
    """When operator 0 has run for 8, operator 1 has 10 before it and 8 behind it, operator 2 has 5 and 0."""
    problem = Problem.from_arrays([[8.0], [10.0], [5.0]], [(0, 1, 0.0)])
    assert starts("heft", problem)[1] == [0.0, 8.0, 18.0]
    assert starts("dps", problem)[1] == [0.0, 13.0, 8.0]


def test_fcp_orders_only_as_many_as_there_are_devices() -> None:
    """One device, so one place: operator 2 of rank 9 queues behind operator 1 of rank 5."""
    problem = Problem.from_arrays([[1.0], [5.0], [9.0]], [(0, 2, 0.0)])
    assert starts("heft", problem)[1] == [0.0, 10.0, 1.0]
    assert starts("fcp", problem)[1] == [0.0, 1.0, 6.0]


def test_fcp_tries_two_devices() -> None:
    """Operator 3 is enabled by device 0, idle from 4 on; device 1 is idle first, from 3 on; device 2 is not tried.

    Its input is elsewhere at 5: it would end at 4 + 2.5 on device 0, at 5 + 2 on device 1, at 5 + 0.5 on device 2.
    """
    cost = [[4.0, INF, INF], [INF, 3.0, INF], [INF, INF, 3.5], [2.5, 2.0, 0.5]]
    problem = Problem.from_arrays(cost, [(0, 3, 1.0)])
    assert starts("heft", problem) == ([0, 1, 2, 2], [0.0, 0.0, 0.0, 5.0])
    assert starts("fcp", problem) == ([0, 1, 2, 0], [0.0, 0.0, 0.0, 4.0])


def test_flb_frees_an_operator_whose_device_is_busy_when_its_input_is_there() -> None:
    """Devices are alike. Operator 0 runs 0-2 on device 0; 1 and 2 read one byte of it, and have it at 3 elsewhere.

    Operator 1 starts at 2 on its enabling device 0. That is busy until 6 then, after 3, so operator 2 is freed and
    goes to device 1 at 3.
    """
    problem = Problem.from_arrays([[2.0, 2.0], [4.0, 4.0], [4.0, 4.0]], [(0, 1, 1.0), (0, 2, 1.0)])
    assert starts("flb", problem) == ([0, 0, 1], [0.0, 2.0, 3.0])


def test_hbmct_moves_until_the_last_device_ends_no_earlier() -> None:
    """All run fastest on device 0, which would end at 6.

    With operator 0 on device 1 they end at 4 and 3, with operator 2 there at 4 and 9. No second one moves, for device 1
    would end at 6. Device 0 runs operator 2 first, which has the larger rank.
    """
    problem = Problem.from_arrays([[2.0, 3.0], [2.0, 3.0], [2.0, 9.0]], [])
    assert starts("hbmct", problem) == ([1, 0, 0], [0.0, 2.0, 0.0])


def test_hbmct_ends_a_group_before_a_reader() -> None:
    """Ranks are 8, 8, 4 and 2; the third operator reads from the second, and the fourth from the third.

    All of the first group, 0 and 1, start on device 0, and operator 0 moves. The others have groups of their own.
    """
    problem = Problem.from_arrays([[8.0, 8.0], [3.0, 3.0], [2.0, 2.0], [2.0, 2.0]], [(1, 2, 1.0), (2, 3, 0.0)])
    assert starts("hbmct", problem) == ([1, 0, 0, 0], [0.0, 0.0, 3.0, 5.0])


def test_mh_takes_operators_as_they_become_ready() -> None:
    """Operator 2 is ready at 1 and takes device 1 from 2 to 7; operator 3, which has 10 behind it, is ready at 2."""
    cost = [[1.0, INF], [INF, 2.0], [INF, 5.0], [INF, 1.0], [10.0, INF]]
    problem = Problem.from_arrays(cost, [(0, 2, 0.0), (1, 3, 0.0), (3, 4, 0.0)])
    assert starts("heft", problem)[1] == [0.0, 0.0, 3.0, 2.0, 3.0]
    assert starts("mh", problem)[1] == [0.0, 0.0, 2.0, 7.0, 8.0]


def test_ilha_keeps_operators_with_their_inputs_as_far_as_loads_are_even() -> None:
    """Four readers of operator 0 take 2 on each of two devices: shares of 4, so two stay, at 1 and 3.

    The inputs of the others are sent one after the other, 1-2 and 2-3, and they run at 2 and 4. HEFT alternates.
    """
    problem = Problem.from_arrays([[1.0, INF]] + [[2.0, 2.0]] * 4, [(0, j, 1.0) for j in range(1, 5)])
    assert starts("heft", problem, "communication=endpoint")[0] == [0, 0, 1, 0, 1]
    assert starts("ilha", problem, "communication=endpoint") == ([0, 0, 0, 1, 1], [0.0, 1.0, 3.0, 2.0, 4.0])


def test_ilha_refuses_chunks_that_are_none() -> None:
    problem = Problem.from_arrays([[1.0]], [])
    with pytest.raises(ConfigError, match="ilha: chunk is 0; it must hold at least one operator"):
        get("ilha", chunk=0)(problem)


def test_bsa_moves_where_operators_finish_earlier() -> None:
    """Three operators of 2 on device 0. The second ends at 2 on device 1 and at 4 on device 0.

    The third ends at 4 on both, and stays.
    """
    problem = Problem.from_arrays([[2.0, 2.0]] * 3, [])
    assert starts("bsa", problem) == ([0, 1, 0], [0.0, 0.0, 2.0])


def test_bsa_moves_along_links() -> None:
    """Devices in a line, 0 - 1 - 2: from device 0 operators reach device 2 only by way of device 1."""
    links = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    for first, order in ((0, [0, 1, 2]), (1, [1, 0, 2]), (2, [2, 1, 0])):
        pivots, neighbour = neighbours(np.cumsum([0, *np.ravel(links)]), 3, first)
        assert pivots == order
        assert neighbour.astype(int).tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("name", ["heft", "dls", "gdl", "mh", "ilha", "bsa"])
def test_a_link_that_is_taken_makes_the_other_device_worthwhile(name: str) -> None:
    """Operator 0 ends at 1 on device 0 and sends 4 bytes each to 1 and 2, over the link to device 1.

    Operator 1, which has 8 behind it on device 2, runs on device 1 only: the link is taken 1-5. Operator 2 takes 7 on
    device 0, to end at 8, or 1 on device 1: from 6 on where transfers never wait, from 9 on where they share the link.
    """
    cost = [[1.0, 9.0, INF], [INF, 1.0, INF], [7.0, 1.0, INF], [INF, INF, 8.0]]
    problem = Problem.from_arrays(cost, [(0, 1, 4.0), (0, 2, 4.0), (1, 3, 0.0)])
    assert starts(name, problem) == ([0, 1, 1, 2], [0.0, 5.0, 6.0, 6.0])
    assert starts(name, problem, "links") == ([0, 1, 0, 2], [0.0, 5.0, 1.0, 6.0])


start_on, book = callable_step(timeline.start_on), callable_step(timeline.book)


@pytest.mark.parametrize("name", ["dls", "mh"])
@examples(60)
@given(problem=strategies.machines(), runtime=strategies.runtimes(noise=0.0))
def test_every_ready_operator_is_rated_again_where_transfers_are_booked(
    name: str, problem: Problem, runtime: Runtime
) -> None:
    runtime = replace(runtime, memory="off")
    p, line = problem.arrays, timeline.new_timeline(problem, runtime)
    level, median = ready_list.static_level(problem), ready_list.median_cost(problem)
    place = p.position.tolist()
    while (line.assignment < 0).any():
        before = {i: problem.edge_source[problem.edge_target == i] for i in np.flatnonzero(line.assignment < 0)}
        ready = [i for i, sources in before.items() if (line.assignment[sources] >= 0).all()]
        if name == "mh":
            since = {i: line.finish[before[i]].max(initial=0.0) for i in ready}
            ready = [min(ready, key=lambda i: (since[i], -level[i], place[i]))]
        pairs = []
        for i in ready:
            for device in np.flatnonzero(np.isfinite(problem.cost[i])):
                start, cost = start_on(p, line, i, device, False), problem.cost[i, device]
                value = -(level[i] - start + (median[i] - cost)) if name == "dls" else start + cost
                pairs.append((value, place[i], device, i, start))
        _, _, device, i, start = min(pairs)
        book(p, line, i, device, start)
    assert get(name)(problem, runtime).assignment.tolist() == line.assignment.tolist()


def test_gdl_looks_at_the_first_of_descendants_that_get_equally_much() -> None:
    """Operator 1, which runs well on device 0, and operator 2, which does on device 1, get 20 bytes each."""
    problem = Problem.from_arrays([[2.0, 2.0], [1.0, 9.0], [9.0, 1.0]], [(0, 2, 20.0), (0, 1, 20.0)])
    assert starts("gdl", problem)[0][0] == 0
    swapped = Problem.from_arrays([[2.0, 2.0], [9.0, 1.0], [1.0, 9.0]], [(0, 2, 20.0), (0, 1, 20.0)])
    assert starts("gdl", swapped)[0][0] == 1


def test_pets_takes_the_shorter_of_operators_of_equal_rank() -> None:
    """Operators 0 and 1 have ranks of 5 + 1 and 2 + 4; of 2 and 3, ranks and costs are equal."""
    problem = Problem.from_arrays([[5.0, 5.0], [2.0, 2.0]] + [[1.0, 1.0]] * 2, [(0, 2, 1.0), (1, 3, 4.0)])
    assert starts("pets", problem)[0][:2] == [1, 0]  # operator 1 goes first, to device 0
    alike = Problem.from_arrays([[2.0, 2.0]] * 2, [])
    assert starts("pets", alike)[0] == [0, 1]
