"""Proposals: what the network sees and remembers, and that regions begin where it says."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem, Runtime, simulate, validate
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.search import course, proposals, regions, sum_tree
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix

judge, look, note, propose, saving, weight_of = map(
    callable_step,
    (proposals.judge, proposals.look, proposals.note, proposals.propose, regions.saving, sum_tree.weight_of),
)
INPUTS = {name: k for k, name in enumerate(proposals.FEATURES)}


def random_network(seed: int, hidden: int = 3) -> proposals.Network:
    rng = np.random.default_rng(seed)
    features = len(proposals.FEATURES)
    return proposals.Network(rng.normal(size=(features, hidden)), rng.normal(size=hidden), rng.normal(size=hidden))


def begun(
    problem: Problem, runtime: Runtime, rng: np.random.Generator, network: proposals.Network | None = None
) -> tuple[course.Course, proposals.Proposals]:
    assignment = strategies.random_assignment(problem, rng)
    order = np.array(strategies.random_topological_order(problem, rng), np.int32)
    return course.new_course(problem, runtime, assignment, order), proposals.new_proposals(
        problem, network or random_network(0)
    )


def hard(soft: float) -> float:
    return soft / (1.0 - abs(soft))


@given(strategies.problems(), strategies.runtimes(noise=0.0), st.integers(0, 2**32 - 1))
def test_the_network_sees_what_an_operator_would_save(problem: Problem, runtime: Runtime, seed: int) -> None:
    rng = np.random.default_rng(seed)
    line, found = begun(problem, runtime, rng)
    p, switches, makespan = problem.arrays, course.switches_of(problem, runtime), line.value[course.CURRENT]
    if makespan == 0.0:
        return
    i, device = int(rng.integers(problem.num_operators)), int(rng.integers(problem.num_devices))
    if device == line.assignment[i] or not np.isfinite(problem.cost[i, device]):
        return
    look(p, line, found, i, device, 0.01, switches)
    unit = makespan * problem.num_devices / problem.num_operators
    seen = {name: float(found.inputs[k]) for name, k in INPUTS.items()}
    run = problem.cost[i, line.assignment[i]] - problem.cost[i, device]
    assert hard(seen["saved"]) * unit == pytest.approx(saving(p, line, i, device), rel=1e-6, abs=1e-6 * makespan)
    assert hard(seen["run_saved"]) * unit == pytest.approx(run, rel=1e-6, abs=1e-6 * makespan)
    assert hard(seen["saved"]) == pytest.approx(
        hard(seen["run_saved"]) + hard(seen["transfer_saved"]), rel=1e-6, abs=1e-6
    )
    assert 0.0 <= seen["longest_delay"] <= seen["delay"] < 1.0 and 0.0 <= seen["relief"] < 1.0
    assert np.isfinite(found.inputs).all()


@given(strategies.problems(), st.integers(0, 2**32 - 1))
def test_realised_tails_reach_the_end_and_no_further(problem: Problem, seed: int) -> None:
    runtime = Runtime(communication="fifo", order="ready")
    line, found = begun(problem, runtime, np.random.default_rng(seed))
    if problem.num_devices == 1 or line.value[course.CURRENT] == 0.0:
        return
    look(problem.arrays, line, found, 0, 0, 0.01, course.switches_of(problem, runtime))
    ends = line.now.finish + found.tail
    assert ends.max() == pytest.approx(line.value[course.CURRENT], rel=1e-9)


@given(strategies.problems(), st.sampled_from(sorted(PRESETS)), st.integers(0, 2**32 - 1))
def test_regions_begin_where_the_odds_are(problem: Problem, preset: str, seed: int) -> None:
    """Of a network that knows one pair only, all proposals begin there."""
    rng = np.random.default_rng(seed)
    line, found = begun(problem, PRESETS[preset], rng)
    p, switches, d = problem.arrays, course.switches_of(problem, PRESETS[preset]), problem.num_devices
    if line.value[course.CURRENT] == 0.0:
        return
    legal = [
        i * d + a
        for i in range(problem.num_operators)
        for a in range(d)
        if a != line.assignment[i] and np.isfinite(problem.cost[i, a])
    ]
    for leaf in range(problem.num_operators * d):
        total = judge(p, line, found, leaf, 1.0, 0.01, switches)
        assert (total > 0.0) == (leaf in legal) and total == weight_of(found.tree, leaf)
        if total > 0.0:
            assert found.odds.sum() == pytest.approx(total)
            squares = (found.odds**2).sum()
            assert judge(p, line, found, leaf, 2.0, 0.01, switches) == pytest.approx(squares)
            judge(p, line, found, leaf, 1.0, 0.01, switches)
    before = line.assignment.copy()
    count = propose(p, line, found, rng, 1.0, 1.0, 0.01, regions.DOUBLINGS, 0.5, switches)
    assert (count > 0) == bool(legal)
    if count:
        moved = line.moved[:count]
        left, device = before[moved[0]], line.assignment[moved[0]]
        goes = line.assignment[moved] == device
        assert goes[0] and left != device and len(set(moved)) == count
        assert (before[moved[goes]] != device).all()
        assert (before[moved[~goes]] == device).all() and (line.assignment[moved[~goes]] == left).all()
        note(p, line, found, count, 1.0, np.inf)
        assert found.refused[moved[0], device] == 1.0 and found.refused.sum() == 1.0
        note(p, line, found, count, 1.0, 0.5)
        assert found.refused.sum() == 0.0


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_any_network_gives_plans_as_they_will_run(preset: str) -> None:
    for seed in range(4):
        problem = RandomMix(operators=(20, 60), devices=2 + seed)(np.random.default_rng(seed))
        guide = proposals.new_proposals(problem, random_network(seed))
        search = RegionAnnealing(problem, "heft", seed, runtime=preset, guide=guide)
        first = search.makespan
        search.advance(20_000, 20_000)
        plan = search.schedule()
        validate(problem, plan)
        assert simulate(problem, plan, preset).makespan == plan.makespan <= first


def test_rows_say_what_became_of_a_region() -> None:
    problem = RandomMix()(np.random.default_rng(1))
    guide = proposals.new_proposals(problem, random_network(1), rows=500, every=7)
    RegionAnnealing(problem, "heft", runtime="links", guide=guide).advance(60_000, 60_000)
    inputs, outcome = proposals.rows_of(guide)
    assert inputs.shape == (len(outcome), len(proposals.FEATURES)) and 100 < len(outcome) <= 500
    assert set(np.unique(outcome)) <= {np.float32(0.0), np.float32(proposals.WORSE), np.float32(1.0)}
    assert 0 < (outcome == 1.0).sum() < len(outcome) / 2
    assert set(np.round(inputs[:, proposals.SIZE] * 5).astype(int)) == set(range(regions.DOUBLINGS))


def test_the_longer_a_search_the_less_is_left_to_its_network() -> None:
    problem = RandomMix()(np.random.default_rng(1))
    guide = proposals.new_proposals(problem, random_network(1))
    search, plain = RegionAnnealing(problem, "heft", guide=guide), RegionAnnealing(problem, "heft")
    n = problem.num_operators
    short, long, longer = (search.mix_of(effort * n**2) for effort in (1, 5_000, 500_000))
    assert short.trust > 5 * long.trust > 50 * longer.trust > 0.0
    assert 2.0 == short.sharpness > search.mix_of(50 * n**2).sharpness > long.sharpness == pytest.approx(1.0, abs=0.01)
    assert (
        short.reorder < long.reorder < longer.reorder < plain.mix_of(n).reorder == pytest.approx(longer.reorder, 0.01)
    )
    assert RegionAnnealing(problem, "heft", reorder=0.2, guide=guide).mix_of(n).reorder == 0.2
    assert RegionAnnealing(problem, "heft", runtime="ready", guide=guide).mix_of(n).reorder == 0.0
