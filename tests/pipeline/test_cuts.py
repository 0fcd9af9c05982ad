"""Values of cuts: by hand, by the problem's own loads, and by the schedules' makespans."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import pipelines, small_chain

from hetgym import InvalidSchedule, ProblemError
from hetgym.pipeline import DeviceKind, FlowShop, Objective, PipelineProblem, Stage, TrainingPipeline, cut_problem
from hetgym.pipeline.evaluation import makespan
from hetgym.pipeline.schedules import orders

CHAIN = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], [DeviceKind("gpu", 2)], transfer=0.5)
HALVES = [Stage(0, 1, 0), Stage(1, 4, 1)]


def every_cut(n: int, d: int) -> list[list[Stage]]:
    """All cuts of n blocks into one stage a device."""
    found = []
    for p in range(1, min(n, d) + 1):
        for ends in itertools.combinations(range(1, n), p - 1):
            limits = [0, *ends, n]
            for devices in itertools.permutations(range(d), p):
                found.append([Stage(limits[k], limits[k + 1], devices[k]) for k in range(p)])
    return found


def test_a_chain_by_hand() -> None:
    """Stages of 4 + 0.5 and 0.5 + 1 + 1 + 2 seconds."""
    value, forward, backward, weight = cut_problem(CHAIN).evaluate(HALVES)
    assert (value, forward.tolist(), backward.tolist(), weight.tolist()) == (4.5, [4.5, 4.5], [0.0, 0.0], [0.0, 0.0])
    assert cut_problem(CHAIN, Objective("latency", requests=3)).evaluate(HALVES).value == 9.0 + 2 * 4.5
    step = cut_problem(CHAIN, Objective("training", micro_batches=2)).evaluate(HALVES)
    assert (step.forward.tolist(), step.backward.tolist()) == ([4.5, 4.5], [8.5, 8.5])
    assert step.value == (2 + 1) * 13.0


@examples(60)
@given(problem=pipelines())
def test_throughput_is_the_problems_max_load(problem: PipelineProblem) -> None:
    """Colours, skip connections, backward operators: a cut that fits is legal, and worth its largest load."""
    try:
        cuts = cut_problem(problem)
    except ProblemError:
        return
    for cut in every_cut(len(cuts.names), problem.num_devices):
        assignment = cuts.assignment(cut)
        if not cuts.within_memory:
            continue
        if cuts.fits(cut):
            assert cuts.evaluate(cut).value == problem.max_load(assignment)
            assert cuts.memory(cut) == pytest.approx(np.bincount(assignment, problem.size, problem.num_devices))
        else:
            with pytest.raises(InvalidSchedule, match="memory|placement"):
                problem.check(assignment)


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), schedule=st.sampled_from(["gpipe", "1f1b", "zb-h1"]))
def test_latency_and_training_are_makespans(seed: int, schedule: str) -> None:
    step = small_chain(np.random.default_rng(seed), 4)
    objectives = Objective("latency", requests=3), Objective("training", schedule=schedule, micro_batches=4)
    try:
        latency, training = (cut_problem(step, objective) for objective in objectives)
    except ProblemError:
        return
    for cut in every_cut(4, 3):
        p = len(cut)
        if latency.fits(cut):
            value, forward, _, _ = latency.evaluate(cut)
            jobs = np.tile(forward, (3, 1))
            assert value == FlowShop(tuple(range(p)), (1,) * p, jobs, (0.0,) * (p - 1)).makespan
        if training.fits(cut):
            value, forward, backward, weight = training.evaluate(cut)
            split = weight if schedule == "zb-h1" else None
            assert value == makespan(orders(schedule, p, 4), forward, backward, split)
            assert split is not None or not weight.any()


def test_rounds_share_devices() -> None:
    """Two rounds on two devices: each holds two chunks, and keeps the activations that the schedule says."""
    chain = PipelineProblem.chain(np.ones((4, 1)), [DeviceKind("gpu", 2)], size=1.0)
    objective = Objective("training", schedule="interleaved", micro_batches=2, chunks=2)
    cuts = cut_problem(TrainingPipeline(chain, stash=1.0, state=0.0), objective)
    cut = [Stage(k, k + 1, k % 2) for k in range(4)]
    found = cuts.evaluate(cut)
    assert found.value == makespan(orders("interleaved", 2, 2, 2), np.ones((2, 2)), np.full((2, 2), 2.0))
    peaks = cuts.tables.peak[2, 2, :2]
    assert cuts.memory(cut).tolist() == (2.0 + peaks * 2.0).tolist()


def test_memory_that_nothing_fits_into_is_not_looked_at() -> None:
    edges = [(0, 1), (0, 2), (1, 2)]
    tight = PipelineProblem(np.ones((3, 1)), edges, [DeviceKind("gpu", 2, 1.0)], transfer=0.25, size=1.0)
    cuts = cut_problem(tight)
    cut = [Stage(0, 1, 0), Stage(1, 3, 1)]
    assert not cuts.within_memory and cuts.fits(cut) and cuts.memory(cut).tolist() == [1.0, 2.0]
    assert cuts.evaluate(cut).value == 2.25  # the second stage fetches one tensor, once


def test_operators_that_nobody_reads_pay_for_no_transfer() -> None:
    """Two rows of operators: nothing crosses a cut between them, whatever their outputs would take to move."""
    apart = PipelineProblem([[1.0]] * 4, [(0, 1), (2, 3)], [DeviceKind("gpu", 2)], transfer=9.0)
    cuts = cut_problem(apart)
    assert not cuts.is_chain and cuts.evaluate([Stage(0, 2, 0), Stage(2, 4, 1)]).value == 2.0
    assert cuts.evaluate([Stage(0, 1, 0), Stage(1, 4, 1)]).value == apart.max_load([0, 1, 1, 1]) == 12.0


def test_devices_that_cannot_run_a_block() -> None:
    cuts = cut_problem(PipelineProblem.chain([[1.0, 1.0], [math.inf, 1.0]], [DeviceKind("a"), DeviceKind("b")]))
    assert cuts.fits([Stage(0, 1, 0), Stage(1, 2, 1)]) and not cuts.fits([Stage(0, 2, 0)])


@pytest.mark.parametrize("stage", [(0, 5, 0), (-1, 2, 0), (2, 2, 0), (0, 4, 2), (0, 4, -1)])
def test_stages_of_blocks_or_devices_that_do_not_exist(stage: tuple[int, int, int]) -> None:
    with pytest.raises(IndexError, match="4 blocks and 2 devices"):
        cut_problem(CHAIN).evaluate([Stage(*stage)])
