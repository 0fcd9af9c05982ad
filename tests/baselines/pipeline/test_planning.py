"""Even cuts against all cuts, and plans of pipelines on parts of a machine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import small_chain

from hetgym import ConfigError, InvalidSchedule, ProblemError, UnknownName
from hetgym.baselines.pipeline import PLANNERS, contiguous_dp, even_cut, plan_pipeline
from hetgym.pipeline import DeviceKind, PipelineProblem


def all_cuts(problem: PipelineProblem, stages: int) -> list[np.ndarray]:
    """Loads of all legal cuts of a chain onto that many devices."""
    n, found = problem.num_operators, []
    for ends in itertools.combinations(range(1, n), stages - 1):
        sizes = np.diff([0, *ends, n])
        for devices in itertools.permutations(range(problem.num_devices), stages):
            try:
                found.append(problem.loads(np.repeat(devices, sizes)))
            except InvalidSchedule:
                continue
    return found


@examples(40)
@given(seed=st.integers(0, 2**32 - 1))
def test_an_even_cut_is_the_most_even_of_the_best_cuts(seed: int) -> None:
    problem = small_chain(np.random.default_rng(seed), 5).problem
    try:
        slowest = problem.max_load(contiguous_dp(problem))
    except ProblemError:
        with pytest.raises(ProblemError):
            even_cut(problem)
        return
    loads = problem.loads(even_cut(problem))
    assert loads.max() == pytest.approx(slowest, rel=1e-12)
    onto_all = [cut for cut in all_cuts(problem, problem.num_devices) if cut.max() <= slowest * (1 + 1e-12)]
    if onto_all:
        assert (loads**2).sum() == pytest.approx(min(float((cut**2).sum()) for cut in onto_all), rel=1e-9)


def test_no_stage_is_empty_because_another_one_is_the_slowest() -> None:
    chain = PipelineProblem.chain([[9.0], [1.0], [1.0], [1.0]], [DeviceKind("gpu", 4)])
    assert even_cut(chain).tolist() == [0, 1, 2, 3]


def test_the_best_devices_are_chosen_and_keep_their_numbers() -> None:
    kinds = [DeviceKind("slow", 2), DeviceKind("fast", 2), DeviceKind("other")]
    chain = PipelineProblem.chain([[8.0, 2.0, 5.0]] * 4, kinds)
    assert plan_pipeline(chain, 2).tolist() == [2, 2, 3, 3]
    assert plan_pipeline(chain, 3).tolist() == [2, 2, 3, 3]  # a slower device would only be waited for
    assert plan_pipeline(chain, 1).tolist() == [2] * 4


def test_a_balanced_cut_is_even_by_time_or_else_by_the_share_of_memory() -> None:
    """Llama 3 70B in 8 bits on eight cards: words and head of 1.05 GB, eighty layers of 0.855 GB."""
    size = [1.05e9, *[0.855e9] * 80, 1.05e9]
    chain = PipelineProblem.chain(np.zeros((82, 1)), [DeviceKind("l4", 8, memory=24e9)], size=size)
    held = np.bincount(plan_pipeline(chain, objective="balance"), minlength=8)
    assert (
        held.min() > 0 and held[0] == held[-1] == 10 and set(held[1:-1]) == {10, 11}
    )  # nine layers and words, or head
    cards = [DeviceKind("large", memory=80.0), DeviceKind("small", memory=40.0)]
    two = PipelineProblem.chain(np.zeros((6, 2)), cards, size=6.0)
    assert np.bincount(plan_pipeline(two, objective="balance")).tolist() == [4, 2]
    sent = PipelineProblem.chain(np.ones((6, 1)), [DeviceKind("gpu", 2)], transfer=[0, 0, 9, 0, 0, 0])
    assert np.bincount(plan_pipeline(sent, objective="balance")).tolist() == [3, 3]  # transfers do not count


@pytest.mark.parametrize("planner", [name for name in PLANNERS if name != "cp-sat"])
def test_every_planner_plans(planner: str) -> None:
    chain = PipelineProblem.chain([[1.0], [2.0], [3.0]], [DeviceKind("gpu", 8)])
    assert chain.max_load(plan_pipeline(chain, 2, planner)) in (3.0, 5.0)


def test_what_cannot_be_planned_is_refused() -> None:
    chain = PipelineProblem.chain([[1.0]] * 3, [DeviceKind("gpu", 2, memory=4.0)], size=3.0)
    with pytest.raises(ConfigError, match="stages is 3; 'chain' has 2 devices"):
        plan_pipeline(chain, 3)
    with pytest.raises(ProblemError, match="no contiguous cut fits"):
        plan_pipeline(chain)
    with pytest.raises(UnknownName, match="did you mean 'even-cut'"):
        plan_pipeline(chain, planner="evencut")
    with pytest.raises(UnknownName, match="unknown objective of a pipeline's cut"):
        plan_pipeline(chain, objective="latency")
    many = PipelineProblem.chain(np.ones((3, 12)), [DeviceKind(f"k{k}", 2) for k in range(12)])
    with pytest.raises(ConfigError, match="too many sets of 5 devices"):
        plan_pipeline(many, 5)
