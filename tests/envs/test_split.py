"""HetSplit-v0: split graphs by hand, the greedy baseline's splits, masks, memory, replays, bad input."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import DataflowGraph, Platform, Problem
from hetgym.baselines import greedy_split
from hetgym.device import Device, Link
from hetgym.envs import (
    SPLIT_CANDIDATE_FEATURES,
    SPLIT_DEVICE_FEATURES,
    SPLIT_OPERATOR_FEATURES,
    HetSplitEnv,
    Replay,
    feature_table,
    replay_split,
)
from hetgym.envs.split.menu import LEAVE, Choice, lengths, menu
from hetgym.envs.split.networks import RandomNetworks
from hetgym.graph import Operator, Tensor
from hetgym.graph.transforms import fuse, pieces, split

COLUMN = {feature.name: k for k, feature in enumerate(SPLIT_CANDIDATE_FEATURES)}
ROW = {feature.name: k for k, feature in enumerate(SPLIT_OPERATOR_FEATURES)}
MIB = 2**20


def machine(ratio: float = 1.0, memory: float = math.inf, latency: float = 1e-6, devices: int = 2) -> Platform:
    """Devices of 1 TFLOP/s, the first ``ratio`` times slower, links of 1 TB/s, without launch overhead."""
    perfect = {"matmul": 1.0, "conv": 1.0, "elementwise": 1.0}
    made = [
        Device(f"d{k}", "gpu", {"float32": 1e12 / (ratio if k == 0 else 1.0)}, 1e18, memory, efficiency=perfect,
               memory_efficiency=1.0)
        for k in range(devices)
    ]  # fmt: skip
    names = [device.name for device in made]
    return Platform("made", made, [Link(a, b, latency, 1e12) for a in names for b in names if a != b])


def products(count: int = 1, size: int = 1024) -> DataflowGraph:
    """A chain of products of square matrices: 2 size^3 FLOP each."""
    x = Tensor((size, size))
    nodes = [Operator(f"p{k}", "MatMul", (x, Tensor((size, size), constant=True, name=f"w{k}")), (x,))
             for k in range(count)]  # fmt: skip
    return DataflowGraph(nodes, [(k, 0, k + 1) for k in range(count - 1)], "products")


WHOLE = 2 * 1024**3 / 1e12  # seconds of a product


def action(env: HetSplitEnv, *choice: Any) -> int:
    return env.unwrapped.lanes.menu.index(Choice(*choice))


def rollout(env: gym.Env, policy: Callable[[Any, dict], int], seed: int | None = 0) -> tuple[list[float], dict]:
    obs, info = env.reset(seed=seed)
    rewards, done = [], False
    while not done:
        obs, reward, done, _, info = env.step(policy(obs, info))
        rewards.append(reward)
    return rewards, info


def at_random(seed: int) -> Callable[[Any, dict], int]:
    rng = np.random.default_rng(seed)
    return lambda obs, info: int(rng.choice(np.flatnonzero(info["action_mask"])))


def test_the_menu() -> None:
    assert menu(["batch"], [2], ["equal", "proportional"]) == (
        LEAVE, Choice("batch", 2, "equal"), Choice("batch", 2, "proportional"))  # fmt: skip
    assert len(menu(["batch", "output", "reduction", "spatial"], [2, 3, 4], ["equal", "proportional"])) == 25
    assert [str(choice) for choice in menu(["spatial"], [3], ["equal"])] == ["leave", "spatial x3 equal"]
    assert menu(["batch"], [], ["equal"]) == (LEAVE,)


def test_parts_at_indivisible_sizes() -> None:
    op = products(1, 10).operators[0]
    assert lengths(op, Choice("batch", 2, "equal"), [1.0, 1.0, 1.0]) == (5, 5)
    assert lengths(op, Choice("batch", 3, "equal"), [1.0, 1.0, 1.0]) is None
    assert lengths(op, Choice("batch", 3, "equal"), [1.0, 1.0, 1.0], divisible=False) == (3, 4, 3)
    assert lengths(op, Choice("batch", 2, "equal"), [1.0, 1.0, 1.0], multiple=2) is None  # 4 and 6
    assert lengths(op, Choice("batch", 2, "proportional"), [1.0, 1.0, 1.0]) is None  # that is the equal one
    assert lengths(op, Choice("batch", 3, "proportional"), [1.0, 1.0, 1.0]) == (3, 4, 3)
    assert lengths(op, Choice("batch", 3, "proportional"), [1.0, 1.0, 1.0], divisible=False) is None
    assert lengths(op, Choice("batch", 2, "proportional"), [4.0, 1.0]) == (8, 2)
    assert lengths(op, Choice("batch", 3, "equal"), [1.0, 1.0, math.inf], divisible=False) is None
    assert lengths(op, Choice("spatial", 2, "equal"), [1.0, 1.0]) is None
    small = products(1, 2).operators[0]
    assert lengths(small, Choice("batch", 3, "equal"), [1.0] * 3, divisible=False) is None  # a part would be empty


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
            "leave", "batch x2 equal", "output x2 equal", "reduction x2 equal"]  # fmt: skip
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
            Operator("up", "MatMul", (Tensor((64, 512)), Tensor((512, 2048), constant=True, name="u")),
                     (Tensor((64, 2048)),)),
            Operator("down", "MatMul", (Tensor((64, 2048)), Tensor((2048, 768), constant=True, name="d")),
                     (Tensor((64, 768)),)),
        ],
        [(0, 0, 1)], "mlp",
    )  # fmt: skip
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
        for (turn, entry), name in zip(env.unwrapped.lanes.chosen[0], chosen, strict=True):
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


def test_observations_say_what_was_decided() -> None:
    env = HetSplitEnv(products(3), machine(devices=3), granularity=0.0)
    obs, _ = env.reset(seed=0)
    assert obs["operators"][:, ROW["time_share"]].tolist() == pytest.approx([1 / 3] * 3)
    assert obs["operators"][:, ROW["is_current"]].tolist() == [1, 0, 0] and obs["current"][0] == 0
    assert np.array_equal(obs["operator"], obs["operators"][0])
    legal = obs["candidates"][action(env, "output", 2, "equal")]
    assert legal[COLUMN["part_time"]] == pytest.approx(1 / 6) and legal[COLUMN["total_time"]] == pytest.approx(1 / 3)
    assert legal[COLUMN["together_time"]] == pytest.approx(1 / 6) and legal[COLUMN["largest_part"]] == 0.5
    assert legal[COLUMN["scatter"]] == pytest.approx(8 * MIB / 1e12 / (3 * WHOLE))  # both parts read all rows
    assert legal[COLUMN["gather"]] == pytest.approx(4 * MIB / 1e12 / (3 * WHOLE))
    thirds = obs["candidates"][action(env, "output", 3, "equal")]
    assert thirds[COLUMN["legal"]] == 0 and thirds[COLUMN["parts"]] == 3 / 8 and thirds[COLUMN["part_time"]] == 0
    obs, *_ = env.step(action(env, "output", 3, "proportional"))  # 341, 342, 341
    row = obs["operators"][0]
    assert row[[ROW["is_decided"], ROW["is_current"], ROW["parts"], ROW["proportional"]]].tolist() == [1, 0, 3 / 8, 1]
    assert row[[ROW[axis] for axis in ("batch", "output", "reduction", "spatial")]].tolist() == [0, 1, 0, 0]
    assert obs["devices"][:, 1].sum() == pytest.approx(1.0, rel=1e-3)
    obs, *_ = env.step(0)
    assert obs["operators"][1, [ROW["is_decided"], ROW["parts"]]].tolist() == [1, 0] and obs["current"][0] == 2
    obs, _, done, _, info = env.step(0)
    assert done and not obs["candidates"].any() and not obs["operator"].any() and info["action_mask"].any()
    assert not obs["operators"][:, ROW["is_current"]].any()


def test_masks_at_indivisible_sizes_and_groups() -> None:
    group = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "group": 3}
    x, w = Tensor((3, 6, 7, 7)), Tensor((12, 2, 3, 3), constant=True, name="w")
    graph = DataflowGraph([Operator("conv", "Conv", (x, w), (Tensor((3, 12, 7, 7)),), group)], [], "grouped")
    env = HetSplitEnv(graph, machine(devices=3), granularity=0.0)
    _, info = env.reset(seed=0)
    legal = [str(env.lanes.menu[a]) for a in np.flatnonzero(info["action_mask"])]
    assert legal == [
        "leave", "batch x2 proportional", "batch x3 equal", "output x2 proportional", "output x3 equal",
        "spatial x2 proportional", "spatial x3 proportional",
    ]  # fmt: skip
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
    """Unsplit: 4 MiB of weights and a result of 4. In halves: 2 of weights, a result of 2, its copy, 4 joined."""
    for capacity, axes in ((8.5, []), (10.5, ["batch", "output"]), (14.5, ["batch", "output", "reduction"])):
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
    assert seen == [True, True, False]  # whole summands need more room
    for seed in range(4):
        assert rollout(env, at_random(seed), seed)[1]["illegal_actions"] == 0
    env.reset(seed=0)
    *_, info = env.step(action(env, "reduction", 2, "equal"))
    assert info["illegal_actions"] == 1 and env.problem.num_operators == 3


def test_masked_and_senseless_actions_leave_the_operator_whole() -> None:
    for bad in (-1, 99, 1.5, math.nan, math.inf, "batch", None, [1, 2]):
        env = HetSplitEnv(products(2), machine())
        env.reset(seed=0)
        env.step(bad)
        _, _, done, _, info = env.step(bad)
        assert done and info["illegal_actions"] == 2 and info["makespan"] == info["reference"]
        assert set(info["choices"].values()) == {"leave"}
    env = HetSplitEnv(products(2), machine())
    env.reset(seed=0)
    *_, info = env.step(action(env, "spatial", 2, "equal"))
    assert info["illegal_actions"] == 1


@pytest.mark.parametrize(
    ("graph", "platform"),
    [
        (products(), machine(devices=1)),
        (DataflowGraph([Operator("r", "Reshape", (Tensor((4,)),), (Tensor((2, 2)),))], [], "free"), machine()),
        (DataflowGraph([Operator("t", "Task", (), (Tensor((4,)),), {"flops": 1e9})], [], "task"), machine()),
        (DataflowGraph([op for k in range(3) for op in products(k + 1).operators[-1:]], [], "apart"), machine()),
    ],
    ids=["one device", "free", "nothing to split", "no edges"],
)
def test_degenerate_graphs_play_to_the_end(graph: DataflowGraph, platform: Platform) -> None:
    env = HetSplitEnv(graph, platform, runtime="links", memory="mask", lookahead=True)
    obs, info = env.reset(seed=0)
    assert env.observation_space.contains(obs) and info["action_mask"][0]
    rewards, info = rollout(env, at_random(0))
    assert np.isfinite(rewards).all() and info["makespan"] >= 0
    assert math.fsum(rewards) == pytest.approx(math.fsum(info["reward_terms"].values()), abs=1e-9)


def test_operators_with_the_names_of_parts_are_left_alone() -> None:
    x = Tensor((64, 64))
    names = ("a", "a/1", "b", "b/gather", "c")
    nodes = [Operator(name, "MatMul", (x, Tensor((64, 64), constant=True)), (x,)) for name in names]
    env = HetSplitEnv(DataflowGraph(nodes, [(k, 0, k + 1) for k in range(4)], "names"), machine(), granularity=0.0)
    env.reset(seed=0)
    keys = {names[key] for key in env.lanes.state(0).instance.keys}
    assert keys == {"a/1", "b/gather", "c"}


def test_replay_reaches_the_same_makespan() -> None:
    arguments = {"key_operators": 4, "runtime": "links"}
    env = gym.make("HetSplit-v0", **arguments)
    rng = np.random.default_rng(8)
    _, info = rollout(env, lambda obs, info: int(rng.integers(-1, 17)), seed=8)
    context = env.unwrapped.lanes.state(0).instance
    again = replay_split(context.graph, context.platform, info["replay"], ways=3, **arguments)
    assert again["makespan"] == info["makespan"] and again["illegal_actions"] == info["illegal_actions"] > 0
    assert again["replay"] == info["replay"] and again["choices"] == info["choices"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay_split(products(), machine(), info["replay"])
    own = Problem.build(products(2), machine()).id
    for actions in ((0,), (0, 0, 0)):
        with pytest.raises(hetgym.ConfigError, match=f"has {len(actions)} actions, but"):
            replay_split(products(2), machine(), Replay(own, None, actions))


def test_reset_options_force_a_graph_and_a_platform() -> None:
    env = gym.make("HetSplit-v0", graph=["alexnet", "squeezenet"], platform=["cpu-gpu", "even-pair"], key_operators=2)
    drawn = {env.reset(seed=seed)[1]["problem"] for seed in range(40)}
    assert drawn == {f"{g}@{p}" for g in ("alexnet", "squeezenet") for p in ("cpu-gpu", "even-pair")}
    forced = {env.reset(options={"graph": "alexnet"})[1]["problem"] for _ in range(20)}
    assert forced == {"alexnet@cpu-gpu", "alexnet@even-pair"}
    assert env.reset(options={"graph": products(), "platform": machine()})[1]["problem"] == "products@made"
    with pytest.raises(hetgym.ConfigError, match="no option 'problem'"):
        env.reset(options={"problem": None})
    with pytest.raises(hetgym.ConfigError, match="a name or a path, got int"):
        env.reset(options={"graph": 3})
    with pytest.raises(hetgym.ConfigError, match=r"hetgym.Platform.*got int"):
        env.reset(options={"platform": 3})
    with pytest.raises(hetgym.ProblemError, match="max_devices=4"):
        env.reset(options={"platform": machine(devices=4)})


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
    assert not twin.lanes.splits._nodes and not twin.lanes.splits._contexts
    for a in (2, 1):
        one, other = env.step(a), twin.step(a)
        assert one[1] == other[1] and all(np.array_equal(one[0][key], other[0][key]) for key in one[0])
    assert one[4]["split_graph"] == other[4]["split_graph"] and one[4]["makespan"] == other[4]["makespan"]


def test_levels_show_the_same() -> None:
    whole, narrow, flat = (gym.make("HetSplit-v0", observation=level) for level in ("graph", "candidates", "flat"))
    full, some, vector = (env.reset(seed=5)[0] for env in (whole, narrow, flat))
    assert set(some) == {"action_mask", "candidates", "devices", "makespan", "operator"}
    assert all(np.array_equal(some[key], full[key]) for key in some)
    joined = [full[key].ravel() for key in ("candidates", "operator", "devices", "makespan", "action_mask")]
    assert np.array_equal(vector, np.concatenate(joined).astype(np.float32))


def test_padding_does_not_change_an_episode() -> None:
    tight, wide = HetSplitEnv(products(3), machine()), HetSplitEnv(
        products(3), machine(), max_operators=9, max_edges=8, max_devices=5, ways=2
    )  # fmt: skip
    small, large = tight.reset(seed=0)[0], wide.reset(seed=0)[0]
    assert large["operators"].shape == (9, 20) and not large["operators"][3:].any()
    assert np.array_equal(small["operators"], large["operators"][:3])
    assert np.array_equal(small["candidates"], large["candidates"])
    assert rollout(tight, at_random(0))[0] == rollout(wide, at_random(0))[0]


def test_text_frames_name_what_is_split() -> None:
    env = HetSplitEnv(products(2), machine(), render_mode="ansi")
    env.reset(seed=0)
    assert "0/2 decided" in env.render() and "next: p0 (MatMul): leave, batch x2 equal" in env.render()
    env.step(1)
    assert "p0: batch x2 equal" in env.render()
    env.step(0)
    assert "done: makespan" in env.render()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "dens"}, "did you mean 'dense'"),
        ({"observation": "grap"}, "did you mean 'graph'"),
        ({"scheduler": "hetf"}, "or 'heft'"),
        ({"runtime": "clasic"}, "did you mean 'classic'"),
        ({"runtime": hetgym.Runtime(memory="enforce")}, "use memory='mask'"),
        ({"memory": "msk"}, "did you mean 'mask'"),
        ({"costs": "rofline"}, "did you mean 'roofline'"),
        ({"axes": ["bach"]}, "did you mean 'batch'"),
        ({"axes": "batch"}, "expected a list"),
        ({"axes": []}, "expected a list"),
        ({"parts": ["equal", "equal"]}, "different names"),
        ({"parts": ["even"]}, "unknown parts 'even'"),
        ({"ways": 1}, "ways is 1"),
        ({"ways": [2, 1]}, "whole numbers from 2 on"),
        ({"ways": [2, 2]}, "repeated"),
        ({"ways": "all"}, "ways is 'all'"),
        ({"key_operators": 0}, "key_operators is 0"),
        ({"key_operators": 1.5}, "key_operators is 1.5"),
        ({"multiple": 0}, "multiple is 0"),
        ({"granularity": math.nan}, "granularity is nan"),
        ({"granularity": 1.0}, "share of the unsplit makespan"),
        ({"graph": "alexnet"}, "give both"),
        ({"graph": "alexnett", "platform": "cpu-gpu"}, "did you mean 'alexnet'"),
        ({"graph": "alexnet", "platform": "cpu-gpuu"}, "did you mean 'cpu-gpu'"),
        ({"graph": [], "platform": "cpu-gpu"}, "at least one graph"),
        ({"graph": 3, "platform": "cpu-gpu"}, "got int"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "generator": RandomNetworks()}, "one source"),
        ({"generator": "layered"}, "expected callable"),
        ({"generator": RandomNetworks()}, "pass max_operators"),
        ({"max_operators": 0}, "positive whole number"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict, message: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=message) as caught:
        HetSplitEnv(**arguments)
    assert "\n" not in str(caught.value)


def test_a_generator_must_return_what_fits() -> None:
    env = HetSplitEnv(generator=lambda rng: products(), max_operators=5, max_edges=5, max_devices=2)
    with pytest.raises(hetgym.ConfigError, match="returned DataflowGraph"):
        env.reset(seed=0)
    env = HetSplitEnv(generator=lambda rng: (products(9), machine()), max_operators=5, max_edges=50, max_devices=3)
    with pytest.raises(hetgym.ProblemError, match="9 operators, observations are padded to 5"):
        env.reset(seed=0)
    env = HetSplitEnv(generator=lambda rng: (products(2), machine()), max_operators=5, max_edges=5, max_devices=3)
    assert len(rollout(env, at_random(0))[0]) == 2


def test_documentation_names_every_feature_count() -> None:
    text = HetSplitEnv.__doc__ or ""
    space = HetSplitEnv().observation_space
    for key, symbol in (("operators", "N"), ("devices", "D"), ("candidates", "A")):
        assert f"| ``{key}`` | [{symbol}, {space[key].shape[1]}] |" in text
    assert f"| ``operator`` | [{len(SPLIT_OPERATOR_FEATURES)}] |" in text
    assert all(f"``{key}``" in text for key in space.spaces)
    assert len(feature_table(SPLIT_DEVICE_FEATURES).splitlines()) == 4


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
