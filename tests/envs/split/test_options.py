"""Masks of splits: sizes, groups, small parts, memory, names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from split_tools import action, at_random, machine, products, rollout

import hetgym
from hetgym import DataflowGraph, Problem
from hetgym.envs import (
    HetSplitEnv,
)
from hetgym.graph import Operator, Tensor
from hetgym.graph.transforms import split

MIB = 2**20


def test_masks_at_indivisible_sizes_and_groups() -> None:
    group = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "group": 3}
    x, w = Tensor((3, 6, 7, 7)), Tensor((12, 2, 3, 3), constant=True, name="w")
    graph = DataflowGraph([Operator("conv", "Conv", (x, w), (Tensor((3, 12, 7, 7)),), group)], [], "grouped")
    env = HetSplitEnv(graph, machine(devices=3), granularity=0.0)
    _, info = env.reset(seed=0)
    legal = [str(env.lanes.menu[a]) for a in np.flatnonzero(info["action_mask"])]
    assert legal == [
        "leave",
        "batch x2 proportional",
        "batch x3 equal",
        "output x2 proportional",
        "output x3 equal",
        "spatial x2 proportional",
        "spatial x3 proportional",
    ]
    rounded = HetSplitEnv(graph, machine(devices=3), granularity=0.0, divisible=False)
    _, info = rounded.reset(seed=0)
    legal = [str(env.lanes.menu[a]) for a in np.flatnonzero(info["action_mask"])]
    assert legal == ["leave", *(f"{axis} x{k} equal" for axis in ("batch", "output", "spatial") for k in (2, 3))]


def test_granularity_and_multiples_mask_small_parts() -> None:
    def legal(**arguments: Any) -> int:
        env = HetSplitEnv(products(2, 96), machine(devices=4), parts=["equal"], axes=["batch"], **arguments)
        return int(env.reset(seed=0)[1]["action_mask"].sum())

    assert legal() == 4
    assert legal(granularity=0.125) == 4 and legal(granularity=0.126) == 3  # a fourth of a half
    assert legal(granularity=0.9) == 1
    assert legal(multiple=32) == 2 and legal(multiple=24) == 3 and legal(multiple=1000) == 1
    assert legal(ways=2) == 2 and legal(ways=[4]) == 2


def test_choices_that_exceed_the_memory_are_masked() -> None:
    """Unsplit: 4 MiB of weights and a result of 4. Halves: 2 of weights (batch 4), 2 of result, its copy, 4 joined."""
    cases = (8.5, []), (10.5, ["output"]), (12.5, ["batch", "output"]), (14.5, ["batch", "output", "reduction"])
    for capacity, axes in cases:
        env = HetSplitEnv(products(), machine(memory=capacity * MIB), parts=["equal"], memory="mask")
        _, info = env.reset(seed=0)
        assert [env.lanes.menu[a].axis for a in np.flatnonzero(info["action_mask"])] == ["", *axes]
        *_, info = env.step(action(env, "reduction", 2, "equal"))
        assert info["illegal_actions"] == ("reduction" not in axes) and info["memory_excess"] == 0
        free = HetSplitEnv(products(), machine(memory=capacity * MIB), parts=["equal"])
        assert free.reset(seed=0)[1]["action_mask"].sum() == 4
        *_, info = free.step(action(free, "reduction", 2, "equal"))
        assert info["memory_excess"] == max(0.0, (14 - capacity) * MIB) and max(info["peak_memory"]) == 14 * MIB


def test_what_does_not_fit_at_first_may_only_get_better() -> None:
    platform = machine(memory=6 * MIB)  # the whole product takes 8
    env = HetSplitEnv(products(), platform, parts=["equal"], memory="mask")
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist()[0] and info["action_mask"].sum() == 1
    *_, info = env.step(0)
    assert info["memory_excess"] == 2 * MIB


def test_what_the_inner_scheduler_cannot_place_is_masked() -> None:
    """The unsplit chain fills the memories; parts need room for what is joined, too."""
    env = HetSplitEnv(products(3), machine(memory=11 * MIB), parts=["equal"], scheduler="m-etf")
    with pytest.raises(hetgym.ProblemError, match="needs 8.38861e"):
        env.reset(seed=0)
    env = HetSplitEnv(products(3), machine(memory=17 * MIB), parts=["equal"], scheduler="m-etf")
    _, info = env.reset(seed=0)
    seen = []
    for choice in env.lanes.menu[1:4]:
        problem = Problem.build(split(products(3), "p0", choice.axis, 2), machine(memory=17 * MIB))
        try:
            hetgym.baselines.get("m-etf")(problem)
            seen.append(True)
        except hetgym.ProblemError:
            seen.append(False)
    assert info["action_mask"].tolist() == [True, *seen, False]
    assert seen == [False, True, False]  # whole weights, and whole summands, need more room
    for seed in range(4):
        assert rollout(env, at_random(seed), seed)[1]["illegal_actions"] == 0
    env.reset(seed=0)
    *_, info = env.step(action(env, "reduction", 2, "equal"))
    assert info["illegal_actions"] == 1


def test_operators_with_the_names_of_parts_are_left_alone() -> None:
    x = Tensor((64, 64))
    names = ("a", "a/1", "b", "b/gather", "c")
    nodes = [Operator(name, "MatMul", (x, Tensor((64, 64), constant=True)), (x,)) for name in names]
    env = HetSplitEnv(DataflowGraph(nodes, [(k, 0, k + 1) for k in range(4)], "names"), machine(), granularity=0.0)
    env.reset(seed=0)
    keys = {names[key] for key in env.lanes.state(0).instance.keys}
    assert keys == {"a/1", "b/gather", "c"}


def test_choices_that_do_not_worsen_an_excess_stay() -> None:
    """Unsplit, two products take 16 MiB of a device that has 2; halves of the first leave 14, whole summands 18."""
    env = HetSplitEnv(products(2), machine(memory=2 * MIB), parts=["equal"], memory="mask")
    _, info = env.reset(seed=0)
    legal = {str(env.lanes.menu[entry]) for entry in np.flatnonzero(info["action_mask"])}
    assert legal == {"leave", "batch x2 equal", "output x2 equal"}
