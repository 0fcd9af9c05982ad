from __future__ import annotations

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem, Runtime, simulate
from hetgym.schedule import Schedule
from hetgym.search import course, regions

price, keep, put, shift = (callable_step(step) for step in (course.price, course.keep, course.put, course.shift))
take_back, sort, span = callable_step(course.take_back), callable_step(course.sort), callable_step(regions.span)
find_chain = callable_step(course.find_chain)
draw_turn, overtakes = callable_step(regions.draw_turn), callable_step(regions.overtakes)
draw_pair, move_region = callable_step(regions.draw_pair), callable_step(regions.move_region)

FIXED = {"order": "fixed", "streams": 1, "noise": 0.0}


def random_course(problem: Problem, runtime: Runtime, rng: np.random.Generator) -> course.Course:
    assignment = strategies.random_assignment(problem, rng)
    order = strategies.random_topological_order(problem, rng)
    return course.new_course(problem, runtime, assignment, np.array(order, np.int32))


def simulated(problem: Problem, runtime: Runtime, line: course.Course) -> float:
    order = [[int(i) for i in line.order if line.assignment[i] == a] for a in range(problem.num_devices)]
    return simulate(problem, Schedule(line.assignment.copy(), order=order), runtime).makespan


def afresh(problem: Problem, runtime: Runtime, line: course.Course) -> float:
    if not runtime.keeps_order:
        return simulated(problem, runtime, line)
    return float(course.new_course(problem, runtime, line.assignment, line.order).value[course.CURRENT])


@given(strategies.machines(), strategies.runtimes(noise=0.0), st.integers(0, 2**32 - 1))
def test_a_course_is_the_simulation_where_it_says_so(problem: Problem, runtime: Runtime, seed: int) -> None:
    line = random_course(problem, runtime, np.random.default_rng(seed))
    if course.exact(problem, runtime):
        assert line.value[course.CURRENT] == simulated(problem, runtime, line)


def assert_prices(problem: Problem, runtime: Runtime, rng: np.random.Generator, changes: int) -> None:
    """Prices of random changes are those of the changed plan afresh, also after others were undone, kept or sorted."""
    line, switches, p = random_course(problem, runtime, rng), course.switches_of(problem, runtime), problem.arrays
    for _ in range(changes):
        limit = float(rng.choice([np.inf, line.value[course.CURRENT], 0.9 * line.value[course.CURRENT]]))
        shifted = problem.num_devices == 1 or rng.random() < 0.5
        if shifted:
            count, (source, target) = 0, draw_turn(p, line, rng)
            shift(line, source, target)
            first, last = min(source, target), max(source, target)
        else:
            seed, device = draw_pair(p, line, rng)
            count = 0 if seed < 0 else move_region(p, line, rng, seed, device, int(2 ** rng.integers(3)), 0.5, switches)
            first, last = span(p, line, count)
        if count == 0 and not shifted:
            continue
        found, truth = price(p, line, first, last, limit, switches), afresh(problem, runtime, line)
        assert found == (truth if truth <= limit else np.inf)
        if found < np.inf and rng.random() < 0.7:
            keep(p, line, first, last, switches)
            assert line.value[course.CURRENT] == truth
        elif count:
            take_back(line, count)
        else:
            shift(line, target, source)
        if rng.random() < 0.1:
            sort(p, line, switches)
        assert line.value[course.CURRENT] == afresh(problem, runtime, line)
        assert line.value[course.BEST] <= line.value[course.CURRENT] * (1 + 1e-12)
        assert not line.inside.any() and not line.change.any()


@pytest.mark.parametrize("streams", [2, 3])
@pytest.mark.parametrize("dispatch", [0.0, 0.25])
def test_an_operator_without_inputs_matters_as_soon_as_its_queue_ends(streams: int, dispatch: float) -> None:
    problem = Problem.from_arrays(np.tile([1.0, 5.0], (8, 1)), [], occupancy=0.5)
    runtime, assignment = Runtime(streams=streams, dispatch=dispatch), np.array([1] + [0] * 7, np.int32)
    line = course.new_course(problem, runtime, assignment, np.arange(8, dtype=np.int32))
    switches, p = course.switches_of(problem, runtime), problem.arrays
    for operator in (*range(7, 0, -1), *range(1, 8)):
        put(p, line, 0, operator, 1, switches)
        first, last = span(p, line, 1)
        assert price(p, line, first, last, np.inf, switches) == afresh(problem, runtime, line)
        take_back(line, 1)


@examples(20)
@given(strategies.machines(), strategies.runtimes(noise=0.0), st.integers(0, 2**32 - 1))
def test_the_price_of_a_change_is_that_of_the_changed_plan(problem: Problem, runtime: Runtime, seed: int) -> None:
    assert_prices(problem, runtime, np.random.default_rng(seed), 12)


@given(strategies.partitioned(), st.integers(0, 2**32 - 1), st.data())
def test_prices_charge_partitions(problem: Problem, seed: int, data: st.DataObject) -> None:
    runtime = data.draw(strategies.runtimes(noise=0.0, streams=1, partitions=problem.has_partitions))
    assert_prices(problem, runtime, np.random.default_rng(seed), 12)


@pytest.mark.parametrize("transfers", ["per_edge", "cached", "aggregated"])
@pytest.mark.parametrize("communication", ["free", "fifo", "endpoint"])
def test_prices_end_where_changes_have_died_away(communication: str, transfers: str) -> None:
    """Chains beside each other, so that most changes do not spread over all turns."""
    rng = np.random.default_rng(3)
    n, width = 200, 12
    edges = [(i, i + width, float(rng.integers(1, 4))) for i in range(n - width)]
    edges += [(i, i + width + 1, 1.0) for i in range(0, n - width - 1, 7)]
    problem = Problem.from_arrays(rng.integers(1, 9, (n, 4)).astype(float), edges, bandwidth=rng.integers(1, 3, (4, 4)))
    runtime = Runtime(communication=communication, transfers=transfers, dispatch=0.5 * (communication == "fifo"))
    assert_prices(problem, runtime, rng, 120)
    line, switches = random_course(problem, runtime, rng), course.switches_of(problem, runtime)
    until, readers = [], [[j for i, j, _ in edges if i == k] for k in range(n)]
    for turn in range(100, 150):
        if overtakes(line, turn, turn + 1) or line.order[turn + 1] in readers[line.order[turn]]:
            continue
        shift(line, turn, turn + 1)
        assert price(problem.arrays, line, turn, turn + 1, np.inf, switches) == afresh(problem, runtime, line)
        until.append(int(line.counts[course.UNTIL]))
        shift(line, turn + 1, turn)
    assert min(until) < n


@given(strategies.problems(), st.sampled_from(["priority", "ready"]), st.integers(0, 2**32 - 1))
def test_a_chain_has_no_gaps_where_the_event_loop_prices(problem: Problem, order: str, seed: int) -> None:
    runtime = Runtime(communication="fifo", order=order)
    line = random_course(problem, runtime, np.random.default_rng(seed))
    find_chain(problem.arrays, line)
    chain = line.chain[: line.counts[course.CHAIN]].tolist()
    assert line.now.finish[chain[0]] == line.value[course.CURRENT] and line.now.begin[chain[-1]] == 0.0
    arrived = {(i, j): [] for i, j in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)}
    for i, j, time in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), line.now.arrived, strict=True):
        arrived[i, j].append(time)
    for reader, cause in zip(chain, chain[1:], strict=False):
        same = line.assignment[reader] == line.assignment[cause]
        left = [line.now.finish[cause]] if same else []
        assert line.now.begin[reader] in arrived.get((cause, reader), []) + left


@given(strategies.problems(), st.integers(0, 2**32 - 1))
def test_sorting_a_plan_moves_no_operator_on_its_device(problem: Problem, seed: int) -> None:
    runtime = Runtime(communication="fifo")
    line = random_course(problem, runtime, np.random.default_rng(seed))
    before = [[int(i) for i in line.order if line.assignment[i] == a] for a in range(problem.num_devices)]
    sort(problem.arrays, line, course.switches_of(problem, runtime))
    assert [[int(i) for i in line.order if line.assignment[i] == a] for a in range(problem.num_devices)] == before
    assert (line.order[line.turn] == np.arange(problem.num_operators)).all()


def test_an_operator_that_passes_none_of_its_device_changes_nothing() -> None:
    problem = Problem.from_arrays(np.ones((3, 2)), [])
    line = course.new_course(problem, Runtime(), np.array([0, 1, 0], np.int32), np.array([0, 1, 2], np.int32))
    assert not overtakes(line, 0, 1) and overtakes(line, 0, 2) and overtakes(line, 2, 0) and not overtakes(line, 1, 2)
