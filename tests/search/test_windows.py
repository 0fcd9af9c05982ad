"""Windows: what a window says of a change is what a simulation of the whole plan says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem, Runtime
from hetgym.search import course, regions, windows
from hetgym.search.windows import change_of
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix

price, keep, put, shift = (callable_step(step) for step in (course.price, course.keep, course.put, course.shift))
take_back, span, sort = callable_step(course.take_back), callable_step(regions.span), callable_step(course.sort)
draw_pair, move_region = callable_step(regions.draw_pair), callable_step(regions.move_region)
draw_turn, find_chain = callable_step(regions.draw_turn), callable_step(course.find_chain)

RUNTIMES = {
    "classic": Runtime(),
    "links": PRESETS["links"],
    "donf": PRESETS["donf"],
    "cached": Runtime(communication="fifo", transfers="cached", dispatch=0.05),
    "endpoint": Runtime(communication="endpoint", transfers="cached"),
    "asked at the endpoint": Runtime(communication="endpoint", transfers="aggregated", dispatch=0.05),
}


def random_plan(problem: Problem, runtime: Runtime, rng: np.random.Generator) -> course.Course:
    assignment = strategies.random_assignment(problem, rng)
    order = strategies.random_topological_order(problem, rng)
    return course.new_course(problem, runtime, assignment, np.array(order, np.int32))


def spans(n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Random windows that lie apart."""
    cuts = np.unique(rng.integers(0, n // course.GRID + 1, 6)) * course.GRID
    return list(zip(cuts[:-1].tolist(), np.minimum(cuts[1:], n).tolist(), strict=True))[:: int(rng.integers(1, 3))]


def cut_all(
    plan: course.Course, problem: Problem, runtime: Runtime, turns: list[tuple[int, int]]
) -> list[windows.Window]:
    """Windows of a plan, which have begun."""
    switches = course.switches_of(problem, runtime)
    cutter = windows.Cutter(problem, plan, switches)
    survey = cutter.survey(turns)
    cuts = [cutter.cut(survey, number) for number in range(len(turns))]
    for cut in cuts:
        course.begin(cut.p, cut.course, switches)
    return cuts


def whole(problem: Problem, runtime: Runtime, plan: course.Course, cut: windows.Window) -> float:
    """Makespan of the whole plan with what a window holds [s]."""
    assignment, order = plan.assignment.copy(), plan.order.copy()
    for k in range(cut.end - cut.begin):
        number = cut.course.order[cut.begin - cut.first + k]
        order[cut.begin + k] = cut.operators[number]
        assignment[cut.operators[number]] = cut.course.assignment[number]
    return float(course.new_course(problem, runtime, assignment, order).value[course.CURRENT])


def large(seed: int, devices: int = 3) -> Problem:
    """Some hundred operators, with capacities that matter if they are enforced."""
    return RandomMix(operators=(150, 300), devices=devices, ccr=(1.0, 3.0))(np.random.default_rng(seed))


@pytest.mark.parametrize("name", RUNTIMES)
@examples(15)
@given(seed=st.integers(0, 2**32 - 1), halo=st.sampled_from([0, 16, 64]))
def test_a_window_begins_as_the_plan_is(name: str, seed: int, halo: int) -> None:
    rng, runtime = np.random.default_rng(seed), RUNTIMES[name]
    problem = large(seed % 20)
    plan = random_plan(problem, runtime, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "HALO", halo)
        cuts = cut_all(plan, problem, runtime, spans(len(plan.order), rng))
    for cut in cuts:
        inside = cut.end - cut.first
        assert cut.operators[:inside].tolist() == plan.order[cut.first : cut.end].tolist()
        for mine, theirs in zip(cut.course.now[:2], plan.now[:2], strict=True):
            assert mine[:inside].tolist() == theirs[cut.operators[:inside]].tolist()
        assert cut.course.value[course.CURRENT] == pytest.approx(plan.value[course.CURRENT], rel=1e-12)
        find_chain(cut.p, cut.course)
        chain = cut.course.chain[: cut.course.counts[course.CHAIN]]
        assert (cut.begin - cut.first <= cut.course.turn[chain]).all()


@pytest.mark.parametrize("name", RUNTIMES)
@examples(10)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_price_of_a_change_in_a_window_is_that_of_the_whole_plan(name: str, seed: int) -> None:
    """With a halo from the begin on, nothing is estimated: what follows a window is known by sums and maxima.

    Only where readers ask for their inputs, an operator that moves changes what those behind the window ask for.
    """
    rng, runtime = np.random.default_rng(seed), RUNTIMES[name]
    problem = large(seed % 20)
    plan, switches = random_plan(problem, runtime, rng), course.switches_of(problem, runtime)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "HALO", 10**6)
        cut = cut_all(plan, problem, runtime, spans(len(plan.order), rng)[-1:])[0]
    line, p = cut.course, cut.p
    for _ in range(12):
        if rng.random() < 0.5 or runtime.transfers == "aggregated":
            count, (source, target) = 0, draw_turn(p, line, rng)
            shift(line, source, target)
            first, last = min(source, target), max(source, target)
        else:
            operator, device = draw_pair(p, line, rng)
            if operator < 0:
                continue
            count = move_region(p, line, rng, operator, device, int(2 ** rng.integers(3)), 0.5, switches)
            first, last = span(p, line, count)
        found = price(p, line, first, last, np.inf, switches)
        assert found == pytest.approx(whole(problem, runtime, plan, cut), rel=1e-9)
        if rng.random() < 0.6:
            keep(p, line, first, last, switches)
        elif count:
            take_back(line, count)
        else:
            shift(line, target, source)
        if rng.random() < 0.2:
            sort(p, line, switches)
            assert line.value[course.CURRENT] == pytest.approx(whole(problem, runtime, plan, cut), rel=1e-9)


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("limit", [0.0, np.inf])
def test_what_is_pasted_and_taken_back(name: str, limit: float) -> None:
    runtime, rng = RUNTIMES[name], np.random.default_rng(7)
    problem = large(3)
    plan, switches = random_plan(problem, runtime, rng), course.switches_of(problem, runtime)
    before = [array.copy() for array in (plan.assignment, plan.order, plan.turn, plan.now.finish, plan.tail, plan.held)]
    cutter = windows.Cutter(problem, plan, switches)
    cuts = cut_all(plan, problem, runtime, [(32, 64), (96, 128)])
    for cut in cuts:
        for _ in range(6):
            operator, device = draw_pair(cut.p, cut.course, rng)
            if operator >= 0:
                count = move_region(cut.p, cut.course, rng, operator, device, 2, 0.0, switches)
                first, last = span(cut.p, cut.course, count)
                price(cut.p, cut.course, first, last, np.inf, switches)
                keep(cut.p, cut.course, first, last, switches)
            source, target = draw_turn(cut.p, cut.course, rng)
            shift(cut.course, source, target)
    assert cutter.paste([change_of(cut) for cut in cuts], limit) == (limit > 0.0)
    after = (plan.assignment, plan.order, plan.turn, plan.now.finish, plan.tail, plan.held)
    same = [np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert all(same) if limit == 0.0 else not any(same[:4])
    again = course.new_course(problem, runtime, plan.assignment, plan.order)
    assert plan.value[course.CURRENT] == again.value[course.CURRENT]
    assert plan.held == pytest.approx(again.held) and plan.marks.load[0] == pytest.approx(again.marks.load[0])


def test_a_window_counts_shared_weights_that_the_rest_of_the_plan_holds() -> None:
    n = 64
    problem = Problem.from_arrays(
        np.ones((n, 2)),
        [(i, i + 1, 1.0) for i in range(n - 1)],
        weight_bytes=[3.0 if i in (5, 20, 40) else 1.0 for i in range(n)],
        shared_weights=[((5, 20, 40), 3.0)],
        memory_capacity=[100.0, 100.0],
    )
    runtime = replace(PRESETS["links"], memory="enforce")
    assignment = np.array([1 if i in (5, 40) else 0 for i in range(n)], np.int32)
    plan, switches = (
        course.new_course(problem, runtime, assignment, problem.topological_order),
        course.switches_of(problem, runtime),
    )
    plan.room[:] = problem.memory_capacity
    assert plan.held.tolist() == [61.0 + 3.0, 3.0]
    cut = cut_all(plan, problem, runtime, [(16, 32)])[0]
    operator = int(np.flatnonzero(cut.operators == 20)[0])
    put(cut.p, cut.course, 0, operator, 1, switches)
    # the weight leaves device 0, and device 1 holds it already
    assert (cut.course.held - plan.held).tolist() == [-3.0, 0.0]
    take_back(cut.course, 1)
    assert cut.course.held.tolist() == plan.held.tolist()
