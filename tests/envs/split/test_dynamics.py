"""Split graphs by hand, the greedy baseline, the pattern, and the caches."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from split_tools import action, at_random, machine, products, rollout

import hetgym
from hetgym import DataflowGraph, Problem
from hetgym.baselines import greedy_split
from hetgym.envs import (
    SPLIT_CANDIDATE_FEATURES,
    HetSplitEnv,
)
from hetgym.graph import Operator, Tensor
from hetgym.graph.transforms import fuse, pieces, split

COLUMN = {feature.name: k for k, feature in enumerate(SPLIT_CANDIDATE_FEATURES)}

MIB = 2**20


WHOLE = 2 * 1024**3 / 1e12  # seconds of a product


def test_one_product_by_hand() -> None:
    """Half of the product on each device, then one half of the result crosses the link."""
    cases = {
        "batch": WHOLE / 2 + 1e-6 + 2 * MIB / 1e12 + 8 * MIB / 1e18,  # a copy joins the halves
        "output": WHOLE / 2 + 1e-6 + 2 * MIB / 1e12 + 8 * MIB / 1e18,
        "reduction": WHOLE / 2 + 1e-6 + 4 * MIB / 1e12 + 1024**2 / 1e12,  # whole summands, one addition an element
    }
    for axis, makespan in cases.items():
        env = HetSplitEnv(products(), machine(), parts=["equal"])
        _, info = env.reset(seed=0)
        assert [str(env.lanes.menu[a]) for a in np.flatnonzero(info["action_mask"])] == [
            "leave",
            "batch x2 equal",
            "output x2 equal",
            "reduction x2 equal",
        ]
        _, reward, done, _, info = env.step(action(env, axis, 2, "equal"))
        assert done and info["reference"] == pytest.approx(WHOLE, rel=1e-12)
        assert info["makespan"] == pytest.approx(makespan, rel=1e-12)
        assert reward == pytest.approx(1 - makespan / WHOLE, abs=1e-12)
        assert info["choices"] == {"p0": f"{axis} x2 equal"}
        assert [op.name for op in info["split_graph"].operators] == ["p0/0", "p0/1", "p0/gather"]


def test_parts_in_proportion_to_the_speeds() -> None:
    env = HetSplitEnv(products(), machine(ratio=3.0, latency=1e-9))
    env.reset(seed=0)
    *_, info = env.step(action(env, "batch", 2, "proportional"))
    parts = [op.inputs[0].shape[0] for op in info["split_graph"].operators[:2]]
    assert parts == [768, 256]
    assert info["makespan"] == pytest.approx(0.75 * WHOLE + 1e-9 + MIB / 1e12 + 8 * MIB / 1e18, rel=1e-12)


def test_neighbours_in_the_same_parts_spare_the_transfers() -> None:
    """Rows of the first product are rows of the second: nothing is gathered in between."""
    env = HetSplitEnv(products(2), machine(), parts=["equal"], reward="dense")
    obs, _ = env.reset(seed=0)
    half = action(env, "batch", 2, "equal")
    assert not obs["candidates"][:, [COLUMN["spared_scatter"], COLUMN["spared_gather"]]].any()
    obs, first, *_ = env.step(half)
    once = WHOLE / 2 + 1e-6 + 2 * MIB / 1e12 + 8 * MIB / 1e18 + WHOLE
    assert first == pytest.approx(1 - once / (2 * WHOLE), abs=1e-12)
    assert obs["makespan"][0] == np.float32(once / (2 * WHOLE))
    assert (
        obs["candidates"][half, COLUMN["spared_scatter"]] == 1 and not obs["candidates"][half, COLUMN["spared_gather"]]
    )
    assert obs["candidates"][action(env, "output", 2, "equal"), COLUMN["spared_scatter"]] == 0
    _, second, done, _, info = env.step(half)
    twice = WHOLE + 1e-6 + 2 * MIB / 1e12 + 8 * MIB / 1e18
    assert done and info["makespan"] == pytest.approx(twice, rel=1e-12)
    assert first + second == pytest.approx(1 - twice / (2 * WHOLE), abs=1e-12)
    assert [op.name for op in info["split_graph"].operators] == ["p0/0", "p0/1", "p1/0", "p1/1", "p1/gather"]


def test_columns_then_reduction_cancel_whichever_comes_first() -> None:
    """Columns of the first product are what the second sums over, the pairing of Megatron."""
    wide = DataflowGraph(
        [
            Operator(
                "up", "MatMul", (Tensor((64, 512)), Tensor((512, 2048), constant=True, name="u")), (Tensor((64, 2048)),)
            ),
            Operator(
                "down",
                "MatMul",
                (Tensor((64, 2048)), Tensor((2048, 768), constant=True, name="d")),
                (Tensor((64, 768)),),
            ),
        ],
        [(0, 0, 1)],
        "mlp",
    )
    env = HetSplitEnv(wide, machine(), parts=["equal"], granularity=0.0)
    obs, _ = env.reset(seed=0)
    assert obs["current"][0] == 1  # the second is larger
    env.step(action(env, "reduction", 2, "equal"))
    obs = {key: env.lanes.seen[key][0] for key in ("candidates",)}
    assert obs["candidates"][action(env, "output", 2, "equal"), COLUMN["spared_gather"]] == 1
    *_, info = env.step(action(env, "output", 2, "equal"))
    assert [op.name for op in info["split_graph"].operators] == ["up/0", "up/1", "down/0", "down/1", "down/gather"]


def matching(env: HetSplitEnv, plan: Any) -> list[int]:
    """The actions that give a plan's operators."""
    lanes, graph = env.lanes, env.lanes.state(0).instance.graph
    there = {op.name: op for op in plan.graph.operators}
    actions = []
    for turn, key in enumerate(lanes.state(0).instance.keys):
        op, found = graph.operators[key], 0
        if op.name not in there:
            for entry, option in enumerate(lanes.state(0).instance.options[turn]):
                if option is not None and not found:
                    parts = pieces(op, lanes.menu[entry].axis, option.lengths)
                    same = all(there.get(part.name) == part for part in parts)
                    found = entry if same and f"{op.name}/{len(parts)}" not in there else 0
            assert found, f"{op.name} is split as no choice splits it"
        actions.append(found)
    return actions


@pytest.mark.parametrize(
    ("name", "platform"),
    [("alexnet", "cpu-gpu-balanced"), ("squeezenet", "even-pair"), ("inception_v1", "cpu-gpu-balanced")],
)
def test_the_greedy_baselines_choices_reach_its_makespan(name: str, platform: str) -> None:
    graph, preset = fuse(hetgym.load_graph(name, batch=4)).graph, hetgym.load_platform(platform)
    where = replace(preset, devices=tuple(replace(device, costs="") for device in preset.devices))  # rooflines stay
    plan = greedy_split(graph, where)
    env = HetSplitEnv(graph, where, key_operators=64, granularity=0.0, divisible=False)
    env.reset(seed=0)
    total, actions = 0.0, matching(env, plan)
    assert any(actions)
    for a in actions:
        _, reward, done, _, info = env.step(a)
        total += reward
    assert done and info["illegal_actions"] == 0
    assert info["makespan"] == plan.makespan
    whole = hetgym.baselines.get("heft")(Problem.build(graph, where))
    assert info["reference"] == whole.makespan and total == pytest.approx(1 - plan.makespan / whole.makespan, abs=1e-9)
    named = HetSplitEnv(name, where, batch=4, fused=True, key_operators=64, granularity=0.0, divisible=False)
    turns = iter(actions)
    assert rollout(named, lambda obs, info: next(turns))[1]["makespan"] == plan.makespan


@pytest.mark.parametrize("scheduler", ["heft", "peft", "cpop"])
@pytest.mark.parametrize("runtime", ["classic", "links", "framework"])
def test_the_last_info_holds_what_the_library_computes(scheduler: str, runtime: str) -> None:
    env = gym.make("HetSplit-v0", scheduler=scheduler, runtime=runtime, key_operators=5)
    for seed in range(3):
        rewards, info = rollout(env, at_random(seed), seed)
        context = env.unwrapped.lanes.state(0).instance
        chosen = [op for op in info["choices"] if info["choices"][op] != "leave"]
        graph = context.graph
        for (turn, entry), name in zip(env.unwrapped.lanes.state(0).chosen, chosen, strict=True):
            choice = env.unwrapped.lanes.menu[entry]
            assert str(choice) == info["choices"][name]
            graph = split(graph, name, choice.axis, context.options[turn][entry].lengths)
        assert graph == info["split_graph"]
        problem = Problem.build(graph, context.platform)
        assert problem.id == info["split_problem"].id == env.unwrapped.problem.id
        hetgym.validate(problem, info["schedule"])
        assert info["schedule"].to_dict() == hetgym.baselines.get(scheduler)(problem).to_dict()
        trace = hetgym.simulate(problem, info["schedule"], runtime)
        assert trace.makespan == info["makespan"] and tuple(trace.memory.peak) == info["peak_memory"]
        assert math.fsum(rewards) == pytest.approx(1 - info["makespan"] / info["reference"], abs=1e-9)
        assert info["speedup"] == hetgym.metrics.single_device_makespan(context.problem, runtime) / info["makespan"]


def test_lookahead_tells_the_makespan_and_changes_nothing_else() -> None:
    ahead, plain = (gym.make("HetSplit-v0", key_operators=4, lookahead=on) for on in (True, False))
    for seed in range(3):
        (seen, info), (other, _) = ahead.reset(seed=seed), plain.reset(seed=seed)
        policy, done = at_random(seed), False
        while not done:
            assert np.array_equal(seen["candidates"][:, :-1], other["candidates"][:, :-1])
            legal = seen["action_mask"] == 1
            assert (other["candidates"][:, -1] == other["makespan"][0]).all()
            assert seen["candidates"][0, -1] == seen["makespan"][0]
            assert (seen["candidates"][legal, -1] > 0).all()
            a = policy(seen, info)
            promised = seen["candidates"][a, -1]
            (seen, reward, done, _, info), (other, same, *_) = ahead.step(a), plain.step(a)
            assert promised == seen["makespan"][0] and reward == same


def test_graphs_met_before_are_not_worked_out_again() -> None:
    env = HetSplitEnv(products(2), machine())
    env.reset(seed=0)
    context = env.lanes.state(0).instance
    one = rollout(env, at_random(1))[1]
    two = rollout(env, at_random(1))[1]
    assert env.lanes.state(0).instance is context and one["split_problem"] is two["split_problem"]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_knows_what_was_chosen_but_not_what_was_remembered(clone: Any) -> None:
    env = HetSplitEnv(products(3), machine(), lookahead=True)
    env.reset(seed=0)
    env.step(1)
    twin = clone(env)
    assert not twin.lanes.splits._nodes and not twin.lanes.splits._split
    for a in (2, 1):
        one, other = env.step(a), twin.step(a)
        assert one[1] == other[1] and all(np.array_equal(one[0][key], other[0][key]) for key in one[0])
    assert one[4]["split_graph"] == other[4]["split_graph"] and one[4]["makespan"] == other[4]["makespan"]


def test_completion_splits_what_follows_by_the_pattern() -> None:
    """By hand: products in a row pay together, since their parts stay where they are; alone the links eat the gain."""
    slow = machine(latency=0.75 * WHOLE)
    env = HetSplitEnv(products(4), slow, axes=["batch"], completion=True, lookahead=True)
    obs, _ = env.reset(seed=0)
    pattern = action(env, "batch", 2, "equal")
    assert env.lanes.splits.pattern(env.lanes.state(0).instance) == pattern
    makespan, completion = (obs["candidates"][:, COLUMN[name]].copy() for name in ("makespan", "completion"))
    assert makespan[pattern] >= makespan[0] == 1 and completion[pattern] < 0.7 < completion[0]
    done = False
    while not done:
        assert obs["candidates"][pattern, COLUMN["completion"]] == completion[pattern]
        obs, _, done, _, info = env.step(pattern)
    assert info["makespan"] / info["reference"] == pytest.approx(completion[pattern], rel=1e-6)


def test_who_follows_the_completion_ends_no_later_than_the_pattern() -> None:
    env = HetSplitEnv(completion=True, observation="candidates", key_operators=6)
    for seed in range(4):
        least = []

        def policy(obs: Any, info: dict, least: list[float] = least) -> int:
            value = np.where(info["action_mask"], obs["candidates"][:, COLUMN["completion"]], np.inf)
            least.append(float(value.min()))
            return int(value.argmin())

        rewards, info = rollout(env, policy, seed)
        splits, context = env.lanes.splits, env.lanes.state(0).instance
        whole = splits.completion(context, (), 0) / info["reference"]
        assert all(a <= b * (1 + 1e-6) for a, b in zip(least, [whole, *least], strict=False))
        assert 1 - sum(rewards) == pytest.approx(least[-1], rel=1e-6)
