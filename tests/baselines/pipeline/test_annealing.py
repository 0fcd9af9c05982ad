"""Annealed cuts against all cuts, against the shipped policy, and under limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from pipeline_tools import small_chain

import hetgym
from hetgym import ConfigError, ProblemError
from hetgym.baselines.pipeline import annealed_cut, optimum
from hetgym.baselines.pipeline.annealing import KEPT, LEGAL, PRICED, SLICE, TRIED, CutSearch
from hetgym.pipeline import CutProblem, Objective, RandomChains, Stage, cut_problem
from hetgym.pipeline.remainders import with_remainders

TRAINING = [Objective("training", schedule=name, micro_batches=6) for name in ("gpipe", "1f1b", "interleaved", "zb-h1")]


def best_of_all(cuts: CutProblem) -> float:
    """Least value of any cut that fits."""
    n, d, best = len(cuts.names), cuts.problem.num_devices, math.inf
    for p, v in itertools.product(range(1, d + 1), range(1, cuts.objective.rounds + 1)):
        if p * v > n or (v > 1 and (p == 1 or cuts.objective.turns % p)):
            continue
        for ends in itertools.combinations(range(1, n), p * v - 1):
            limits = [0, *ends, n]
            for devices in itertools.permutations(range(d), p):
                cut = [Stage(limits[k], limits[k + 1], devices[k % p]) for k in range(p * v)]
                if cuts.fits(cut):
                    best = min(best, cuts.evaluate(cut).value)
    return best


@pytest.mark.parametrize("objective", [Objective(), Objective("latency"), *TRAINING], ids=str)
def test_the_best_of_all_cuts_of_small_chains(objective: Objective) -> None:
    """Memory is tight, and some blocks cannot run everywhere; in several rounds a search may end in a corner."""
    ratios = []
    for seed in range(12):
        try:
            cuts = cut_problem(small_chain(np.random.default_rng(seed), 7), objective)
        except ProblemError:
            continue
        cut = annealed_cut(cuts)
        assert cuts.fits(cut)
        ratios.append(cuts.evaluate(cut).value / best_of_all(cuts))
    assert len(ratios) > 6 and min(ratios) > 1 - 1e-9
    found = np.array(ratios) < 1 + 1e-9
    assert found.all() if objective.rounds == 1 else found.mean() > 0.8


@pytest.mark.parametrize("objective", [Objective(), Objective("latency")], ids=str)
def test_the_optimum_where_it_is_known(objective: Objective) -> None:
    for seed in range(8):
        cuts = cut_problem(RandomChains()(np.random.default_rng(300 + seed)), objective)
        assert cuts.evaluate(annealed_cut(cuts)).value <= 1.001 * optimum(cuts)


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_shorter_than_the_policy_that_is_blind_to_the_schedule(schedule: str) -> None:
    policy, ratios = hetgym.agents.load("pipeline-v1"), []
    for seed in range(8):
        chain = RandomChains((24, 48), 4, 4)(np.random.default_rng(400 + seed))
        arguments = {"objective": "training", "schedule": schedule, "micro_batches": 16}
        cuts = cut_problem(chain, Objective(**arguments))  # type: ignore[arg-type]
        played = policy.play(problem=chain, **arguments)
        ratios.append(cuts.evaluate(annealed_cut(cuts)).value / min(played["value"], played["reference"]))
    assert np.mean(ratios) < 0.99 and max(ratios) < 1.01


def test_same_call_same_cut_and_more_is_not_worse() -> None:
    cuts = cut_problem(RandomChains((30, 40), 4, 4)(np.random.default_rng(1)), TRAINING[2])
    found = [annealed_cut(cuts, tries=tries, seed=3) for tries in (0, 4_000, 4_000)]
    assert found[1] == found[2]
    values = [cuts.evaluate(cut).value for cut in found]
    assert values[1] < values[0] <= cuts.reference
    search = CutSearch(with_remainders(cuts), seed=3)
    before = search.value
    for _ in range(3):
        search.run(2_000)
        assert search.value <= before
        before = search.value
    assert cuts.evaluate(search.cut).value == pytest.approx(search.value, rel=1e-12)
    counts = search.counts
    assert 6_000 <= counts[TRIED] < 6_200 and counts[TRIED] > counts[LEGAL] > 5 * counts[PRICED] >= 5 * counts[KEPT] > 0


def test_a_time_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = cut_problem(RandomChains((30, 40), 4, 4)(np.random.default_rng(2)), TRAINING[1])
    assert cuts.evaluate(annealed_cut(cuts, seconds=0.02)).value <= cuts.reference
    ticks = itertools.count()
    monkeypatch.setattr("hetgym.baselines.pipeline.annealing.clock", lambda: 0.01 * next(ticks))
    search = CutSearch(with_remainders(cuts))
    search.run(10**12, seconds=0.05)
    assert 4 <= search.counts[TRIED] <= 4 * SLICE


def test_without_tables_it_begins_with_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetgym.pipeline.remainders.MAX_STEPS", 0)
    cuts = cut_problem(RandomChains()(np.random.default_rng(3)), TRAINING[1])
    assert annealed_cut(cuts, tries=0) == cuts.reference_cut
    assert cuts.evaluate(annealed_cut(cuts)).value < cuts.reference


def test_memory_that_nothing_fits_into_is_ignored() -> None:
    chain = hetgym.pipeline.PipelineProblem.chain(
        np.ones((5, 1)), [hetgym.pipeline.DeviceKind("gpu", 2, 1.0)], 0.1, size=10.0
    )
    cuts = cut_problem(chain, TRAINING[1])
    assert not cuts.within_memory
    assert cuts.evaluate(annealed_cut(cuts)).value <= cuts.reference


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("objective", [Objective(), *TRAINING], ids=str)
def test_tiny_problems(n: int, count: int, objective: Objective) -> None:
    for seconds in (0.0, 1.0):
        chain = hetgym.pipeline.PipelineProblem.chain(
            np.full((n, 1), seconds), [hetgym.pipeline.DeviceKind("gpu", count)]
        )
        cuts = cut_problem(chain, objective)
        assert cuts.evaluate(annealed_cut(cuts, tries=300)).value == pytest.approx(best_of_all(cuts))


def test_limits_that_are_none() -> None:
    cuts = cut_problem(RandomChains()(np.random.default_rng(0)))
    with pytest.raises(ConfigError, match="tries"):
        annealed_cut(cuts, tries=-1)
    with pytest.raises(ConfigError, match="seconds"):
        annealed_cut(cuts, seconds=0.0)
