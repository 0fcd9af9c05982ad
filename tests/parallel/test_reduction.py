"""Training problems as pipelines, in methods and in the environment that cut pipelines."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.baselines.pipeline import annealed_cut
from hetgym.device import Device
from hetgym.errors import ConfigError
from hetgym.parallel import (
    Cluster,
    Framework,
    Group,
    MeasuredNetwork,
    Pool,
    ProfiledLayers,
    TrainingProblem,
    Wire,
    as_pipeline,
    plan_of,
    uniform,
)
from hetgym.pipeline import Objective, cut_problem

FREE = MeasuredNetwork(Wire(0.0, (1.0,), (1e18,)))


def problem(memory: float = 1e9) -> TrainingProblem:
    """Twelve unequal layers on eight fast GPUs and four slow ones, without costs of communication."""
    rng = np.random.default_rng(0)
    base = rng.uniform(1.0, 3.0, (12, 3)) * [1.0, 2.0, 0.0]
    times = {(name, 2, 1): base * slow for name, slow in (("fast", 1.0), ("slow", 2.5))}
    pools = [Pool(Device(n, "gpu", {"float32": 1.0}, 1.0, memory), g, 4, FREE) for n, g in (("fast", 2), ("slow", 1))]
    sizes = {1: [[10.0, 4.0, 2.0]] * 12, 2: [[5.0, 2.0, 2.0]] * 12}
    return TrainingProblem(ProfiledLayers(times, sizes), Cluster("two", tuple(pools)), 16, Framework())


def test_the_value_of_a_cut_is_the_time_of_the_pipeline_of_its_plan() -> None:
    training, tensors = problem(), {"fast": 2, "slow": 2}
    cuts = cut_problem(as_pipeline(training, 2, 1, tensors), Objective("training", micro_batches=8))
    cut = annealed_cut(cuts)
    step = training.step(plan_of(training, cut, 2, 1, tensors))
    assert step.pipeline == pytest.approx(cuts.evaluate(cut).value)
    assert step.seconds < training.value(uniform(12, 2, [Group("fast", 2)] * 2, 1, 16))


def test_the_environment_cuts_it() -> None:
    training, tensors = problem(), {"fast": 2, "slow": 2}
    pipeline = as_pipeline(training, 2, 1, tensors)
    env = gym.make("HetPipeline-v0", problem=pipeline, objective="training", micro_batches=8)
    episode = hetgym.agents.play(env, hetgym.agents.CutPlanner(), seed=0)
    plan = plan_of(training, episode.info["stages"], 2, 1, tensors)
    assert training.step(plan).pipeline == pytest.approx(episode.info["value"])


def test_memory_is_that_of_all_gpus_of_a_group() -> None:
    training, tensors = problem(memory=2000.0), {"fast": 2}
    pipeline = as_pipeline(training, 1, 1, tensors)
    assert pipeline.problem.kinds[0].memory == 4000.0
    assert pipeline.state.tolist() == [180.0] * 12


def test_a_cut_that_fits_fits_as_a_plan() -> None:
    """Groups of two GPUs split weights, not stashes, and gather a layer's parameters under ZeRO 3."""
    training, tensors = problem(), {"fast": 2, "slow": 1}
    assert isinstance(training.costs, ProfiledLayers)
    times = {("fast", 2, 1): np.ones((12, 3)), ("slow", 1, 1): np.full((12, 3), 2.0)}
    costs = ProfiledLayers(times, {1: [[10.0, 40.0, 2.0]] * 12, 2: [[5.0, 40.0, 2.0]] * 12})
    fitting = 0
    for framework, memory in product((Framework(), Framework(zero=3)), np.linspace(300.0, 1500.0, 13).tolist()):
        pools = tuple(
            replace(pool, device=replace(pool.device, memory_capacity=memory)) for pool in training.cluster.pools
        )
        tight = TrainingProblem(costs, Cluster("tight", pools), 16, framework, tensors=(1, 2))
        cuts = cut_problem(as_pipeline(tight, 2, 1, tensors), Objective("training", micro_batches=8))
        if cuts.within_memory:
            plan = plan_of(tight, annealed_cut(cuts), 2, 1, tensors)
            assert tight.fullest(plan) <= 1.0
            fitting += 1
    assert 4 < fitting < 26


def test_devices_are_groups_that_a_node_holds() -> None:
    training = problem()
    pools = tuple(replace(pool, per_node=5) for pool in training.cluster.pools)
    odd = replace(training, cluster=Cluster("odd", pools))
    assert [kind.count for kind in as_pipeline(odd, 1, 1, {"fast": 2, "slow": 2}).problem.kinds] == [4, 2]


def test_impossible_degrees_are_refused() -> None:
    training = problem()
    for arguments, words in (
        ((3, 1, {"fast": 2}), "not a multiple of 3 replicas"),
        ((8, 1, {"fast": 2}), "no 8 groups of 2 GPUs"),
        ((1, 1, {"fast": 1}), "no times"),
        ((1, 1, {}), "no pool"),
    ):
        with pytest.raises(ConfigError, match=words):
            as_pipeline(training, *arguments)
    cut = annealed_cut(cut_problem(as_pipeline(training, 1, 1, {"fast": 2, "slow": 2}), Objective("training")))
    with pytest.raises(ConfigError, match="the cut has device"):
        plan_of(training, [cut[0]._replace(device=99)], 1, 1, {"fast": 2})


def test_plan_takes_training_problems() -> None:
    training = problem()
    plan = hetgym.plan_training(training)
    assert training.value(plan) <= training.value(uniform(12, 1, [Group("fast", 2)] * 4, 1, 16))


def test_what_a_group_keeps_and_sends_by_hand() -> None:
    """Groups of two GPUs of 1000 bytes; layers of 5 parameters, 3 bytes of stash and 8 of boundary a sample."""
    costs = ProfiledLayers(
        {("gpu", 2, 4): [[1.0, 2.0, 0.0]] * 3}, {1: [[10.0, 5.0, 8.0]] * 3, 2: [[5.0, 3.0, 8.0]] * 3}
    )
    wire = MeasuredNetwork(Wire(0.0, (1.0,), (2.0,)))
    cluster = Cluster("one", (Pool(Device("gpu", "gpu", {"float32": 1.0}, 1.0, 1000.0), 2, 4, wire),))
    plain = Framework(state_bytes=18.0, context_bytes=100.0)
    for framework, once, sent in (
        (plain, 0.0, 32.0),
        (replace(plain, scatter=True), 0.0, 16.0),
        (replace(plain, zero=3), 5 * (4.0 + 2.0), 32.0),
    ):
        training = TrainingProblem(costs, cluster, 16, framework, tensors=(2,), micro_batches=(4,))
        pipeline = as_pipeline(training, 2, 4, {"gpu": 2})
        (kind,) = pipeline.problem.kinds
        assert (kind.count, kind.memory) == (2, 2 * (900.0 - once))
        assert pipeline.stash.tolist() == [2 * 3 * 4.0] * 3
        assert pipeline.state.tolist() == [2 * 5 * framework.state(2)] * 3
        assert pipeline.problem.transfer.tolist() == [sent / 2.0] * 3
        assert pipeline.problem.cost.tolist() == pipeline.backward.tolist() == pipeline.weight.tolist() == [[1.0]] * 3
