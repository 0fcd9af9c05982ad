"""HetPipeline-v0 by what it promises: values of the library, exact masks, optima that can be played."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.baselines.pipeline import contiguous_dp
from hetgym.envs import (
    BLOCK_FEATURES,
    CUT_FEATURES,
    STAGE_FEATURES,
    HetPipelineEnv,
    Replay,
    feature_table,
    replay_pipeline,
)
from hetgym.graph.generators import lstm_grid
from hetgym.pipeline import (
    SCHEDULES,
    DeviceKind,
    FlowShop,
    PipelineProblem,
    RandomChains,
    TrainingPipeline,
    blocks,
    orders,
    peak_activations,
    run,
    training_pipeline,
)
from hetgym.platform import load_platform

Plan = tuple[tuple[int, int, int], ...]
COLUMN = {feature.name: k for k, feature in enumerate(CUT_FEATURES)}
TWO = [DeviceKind("gpu", 2)]
CHAIN = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], TWO, transfer=0.5, name="four")


def play(env: gym.Env, actions: Any, seed: int | None = 0) -> tuple[float, dict[str, Any]]:
    _, info = env.reset(seed=seed)
    total, done = 0.0, False
    for action in actions:
        assert not done and info["action_mask"].any()
        _, reward, done, _, info = env.step(action)
        total += reward
    assert done
    return total, info


def actions_of(plan: Plan) -> list[int]:
    """What an agent does to get a plan."""
    return [1 + d if block == i else 0 for i, j, d in plan for block in range(i, j)]


def plan_of(assignment: np.ndarray) -> Plan:
    """The stages of a chain's assignment."""
    starts = [0, *(np.flatnonzero(np.diff(assignment)) + 1).tolist()]
    return tuple((i, j, int(assignment[i])) for i, j in zip(starts, [*starts[1:], len(assignment)], strict=True))


def cuts(n: int, d: int, schedule: str = "", chunks: int = 1, micro_batches: int = 1) -> Iterator[Plan]:
    """All plans that the rules allow, whatever the memory."""
    for p, rounds in itertools.product(range(1, d + 1), range(1, chunks + 1)):
        if rounds > 1 and (schedule != "interleaved" or p < 2 or micro_batches % p):
            continue
        for ends in itertools.combinations(range(1, n), p * rounds - 1):
            limits = [0, *ends, n]
            for devices in itertools.permutations(range(d), p):
                yield tuple((limits[k], limits[k + 1], devices[k % p]) for k in range(p * rounds))


def reachable(env: HetPipelineEnv, prefix: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    """All episodes that only take legal actions."""
    _, info = env.reset(seed=0)
    done = False
    for action in prefix:
        _, _, done, _, info = env.step(action)
    if done:
        yield prefix, info
        return
    assert info["action_mask"].any()
    for action in np.flatnonzero(info["action_mask"]).tolist():
        yield from reachable(env, (*prefix, action))


def within_rounds(plans: set[Plan]) -> set[Plan]:
    """Those of the plans whose every decision leaves a plan that ends with the running round."""

    def rounds(pieces: Plan) -> int:
        devices = [d for *_, d in pieces]
        return 1 + devices[:-1].count(devices[-1])

    known = {}
    for plan in plans:
        actions = actions_of(plan)
        for b in range(1, len(actions) + 1):
            known.setdefault(tuple(actions[:b]), set()).add(rounds(plan))
    kept = set()
    for plan in plans:
        actions = tuple(actions_of(plan))
        running = [rounds(plan[: k + 1]) for k, (i, j, _) in enumerate(plan) for _ in range(i, j)]
        if all(running[b - 1] in known[actions[:b]] for b in range(1, len(actions) + 1)):
            kept.add(plan)
    return kept


def seconds_of(step: TrainingPipeline, plan: Plan, schedule: str) -> tuple[np.ndarray, ...]:
    """Forward, backward and weight passes of a chain's pieces, [rounds, p], written apart from the environment."""
    chain, kind = step.problem, step.problem.device_kind
    rows = []
    for i, j, d in plan:
        k = kind[d]
        moved = (chain.transfer[i - 1] if i else 0.0) + (chain.transfer[j - 1] if j < chain.num_operators else 0.0)
        moved *= chain.kinds[k].transfers
        b, w = step.backward[i:j, k].sum(), step.weight[i:j, k].sum()
        rows.append((chain.cost[i:j, k].sum() + moved, b + moved + (0.0 if schedule == "zb-h1" else w), w))
    p = len({d for _, _, d in plan})
    return tuple(np.array(column).reshape(-1, p) for column in zip(*rows, strict=True))


def worth(step: TrainingPipeline, plan: Plan, arguments: dict[str, Any]) -> float:
    """What a plan of a chain is worth by the library's own functions."""
    objective = arguments.get("objective", "throughput")
    device = np.repeat([d for _, _, d in plan], [j - i for i, j, _ in plan])
    if objective == "throughput":
        return step.problem.max_load(device)
    if objective == "latency":
        loads = step.problem.loads(device)[[d for _, _, d in plan]]
        jobs = np.tile(loads, (arguments["requests"], 1))
        return FlowShop(tuple(d for *_, d in plan), tuple(j - i for i, j, _ in plan), jobs, (0.0,) * len(plan)).makespan
    f, b, w = seconds_of(step, plan, arguments["schedule"])
    chunks = len(f) if arguments["schedule"] == "interleaved" else None
    passes = orders(arguments["schedule"], f.shape[1], arguments["micro_batches"], chunks)
    return run(passes, f, b, w if arguments["schedule"] == "zb-h1" else None).makespan


def fits(step: TrainingPipeline, plan: Plan, arguments: dict[str, Any]) -> bool:
    """Whether a plan keeps the memory's limits."""
    chain = step.problem
    kinds = [chain.kinds[k] for k in chain.device_kind]
    p = len({d for _, _, d in plan})
    keep = [0.0] * p
    if arguments.get("objective") == "training":
        chunks = len(plan) // p if arguments["schedule"] == "interleaved" else None
        keep = peak_activations(orders(arguments["schedule"], p, arguments["micro_batches"], chunks))
    held = [0.0] * len(kinds)
    for number, (i, j, d) in enumerate(plan):
        if not np.isfinite(chain.cost[i:j, chain.device_kind[d]]).all():
            return False
        state = step.state[i:j].sum() if arguments.get("objective") == "training" else 0.0
        held[d] += chain.size[i:j].sum() + state + keep[number % p] * step.stash[i:j].sum()
    return all(bytes_ <= kind.memory for bytes_, kind in zip(held, kinds, strict=True))


CASES: list[dict[str, Any]] = [
    {}, {"objective": "latency", "requests": 3},
    *({"objective": "training", "schedule": name, "micro_batches": 4} for name in sorted(SCHEDULES)),
    {"objective": "training", "schedule": "interleaved", "micro_batches": 6, "chunks": 3},
]  # fmt: skip


def small_chain(rng: np.random.Generator, n: int = 6) -> TrainingPipeline:
    """Whole bytes, tight memory, and now and then a block that a kind cannot run."""
    cost = rng.uniform(0.5, 3.0, (n, 2))
    if rng.random() < 0.5:
        cost[rng.integers(n), rng.integers(2)] = math.inf
    size, stash = rng.integers(0, 5, n), rng.integers(0, 3, n)
    need = float((4 * size + 2 * stash).sum())
    small, large = np.round(need * np.sort(rng.uniform(0.25, 1.1, 2)))
    kinds = [DeviceKind("a", 2, small), DeviceKind("b", 1, large, transfers=bool(rng.random() < 0.5))]
    chain = PipelineProblem.chain(cost, kinds, rng.uniform(0, 1, n), size)
    return TrainingPipeline(chain, rng.uniform(0.1, 2, (n, 2)), rng.uniform(0.1, 2, (n, 2)), stash)


@pytest.mark.parametrize("arguments", CASES, ids=lambda a: "-".join(str(v) for v in a.values()) or "throughput")
def test_legal_episodes_are_the_cuts_that_fit(arguments: dict[str, Any]) -> None:
    rng, tight, bound = np.random.default_rng(0), 0, 0
    for trial in range(12):
        step = small_chain(rng, 7 if arguments.get("chunks") == 3 else 5)
        n = step.problem.num_operators
        rules = [arguments.get(key, 1) for key in ("schedule", "chunks", "micro_batches")]
        rules[1] = arguments.get("chunks", 2)
        every = list(cuts(n, 3, *rules))
        expected = within_rounds({plan for plan in every if fits(step, plan, arguments)})
        env = HetPipelineEnv(step, **arguments)
        if not expected:
            continue
        tight += len(expected) < len(every)
        found = {}
        for actions, info in reachable(env):
            plan = tuple(tuple(stage) for stage in info["stages"])
            found[plan] = info["value"]
            assert info["within_memory"] and actions_of(plan) == list(actions)
        assert found.keys() == expected, trial
        for plan, value in found.items():
            assert value == pytest.approx(worth(step, plan, arguments), rel=1e-12)
        least = min(found.values())
        bound += info["optimal"] == info["optimal"]
        assert math.isnan(info["optimal"]) or info["optimal"] == pytest.approx(least, rel=1e-12)
    assert tight >= 5 and (bound > 0) is (arguments.get("objective") != "training")


@pytest.mark.parametrize("arguments", CASES, ids=lambda a: "-".join(str(v) for v in a.values()) or "throughput")
def test_bounds_are_bounds_and_values_are_the_librarys(arguments: dict[str, Any]) -> None:
    env, rng = HetPipelineEnv(generator=RandomChains(), **arguments), np.random.default_rng(1)
    for seed in range(40):
        obs, info = env.reset(seed=seed)
        bounds, total, done = [], 0.0, False
        while not done:
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            bounds.append(float(obs["candidates"][action, COLUMN["bound"]]))
            obs, reward, done, _, info = env.step(action)
            total += reward
        assert total == pytest.approx(1 - info["value"] / info["reference"], abs=1e-9)
        assert total == pytest.approx(sum(info["reward_terms"].values()), abs=1e-9)
        assert max(bounds) <= min(10.0, info["value"] / info["reference"]) * (1 + 1e-6)
        plan = tuple(tuple(stage) for stage in info["stages"])
        step = TrainingPipeline(env.problem)
        if arguments.get("objective") != "training" and info["within_memory"]:
            assert info["value"] == worth(step, plan, arguments)  # to the last bit
        elif arguments.get("objective") == "training":
            assert info["value"] == pytest.approx(worth(step, plan, arguments), rel=1e-12)
        if info["schedule"] is not None:
            problem, schedule = env.unrolled()
            assert hetgym.simulate(problem, schedule).makespan == info["value"]
            assert hetgym.simulate(problem, info["schedule"]).makespan == info["value"]


def test_a_chain_by_hand() -> None:
    # stages 4 + 0.5 and 0.5 + 1 + 1 + 2; the equal cut makes 4 + 1 + 0.5 and 0.5 + 1 + 2, one device 8
    total, info = play(gym.make("HetPipeline-v0", problem=CHAIN), [1, 2, 0, 0])
    assert (info["value"], info["reference"], info["optimal"]) == (4.5, 5.5, 4.5)
    assert total == pytest.approx(1 / 5.5) and info["loads"] == (4.5, 4.5)
    assert info["stages"] == ((0, 1, 0), (1, 4, 1)) and info["speedup"] == 8 / 4.5 and info["schedule"] is None
    # three requests: 4.5 + 4.5, and 4.5 for each that follows; reference: 5.5 + 3.5 + 2 * 5.5
    total, info = play(gym.make("HetPipeline-v0", problem=CHAIN, objective="latency", requests=3), [1, 2, 0, 0])
    assert (info["value"], info["reference"]) == (18.0, 20.0) and total == pytest.approx(0.1)


@pytest.mark.parametrize(("schedule", "expected"), [("gpipe", 33), ("1f1b", 33), ("zb-h1", 27), ("interleaved", 28.5)])
def test_training_steps_by_formula(schedule: str, expected: float) -> None:
    """Four equal stages, eight micro-batches, tF = 1, tB + tW = 2: the table of the schedules' tests."""
    chain = PipelineProblem.chain(np.full((8, 1), 0.5), [DeviceKind("gpu", 4)])
    env = HetPipelineEnv(chain, objective="training", schedule=schedule, micro_batches=8, chunks=2)
    each = 1 if schedule == "interleaved" else 2
    actions = [1 + block // each % 4 if block % each == 0 else 0 for block in range(8)]
    total, info = play(env, actions)
    assert info["illegal_actions"] == 0 and info["value"] == expected
    assert info["reference"] == expected  # the equal cut
    assert total == pytest.approx(0.0, abs=1e-12)


def test_the_best_cut_is_played_to_the_optimum() -> None:
    """Over chains and over graphs with skip connections: the dynamic program's cut, as an agent."""
    env = HetPipelineEnv()
    for seed in range(25):
        env.reset(seed=seed)
        best = contiguous_dp(env.problem)
        assert env.actions(best) == actions_of(plan_of(best))
        _, info = play(env, env.actions(best), seed)
        assert info["value"] == info["optimal"] == env.problem.max_load(best)
        assert info["illegal_actions"] == 0


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_who_follows_the_completion_cuts_best(objective: str) -> None:
    """It is the value of a cut that can be played, so it never rises on the way; off, it is the bound."""
    env = HetPipelineEnv(objective=objective)
    blind = HetPipelineEnv(objective=objective, completion=False)
    for seed in range(25):
        (obs, info), (other, _) = env.reset(seed=seed), blind.reset(seed=seed)
        done, expected = False, np.inf
        while not done:
            legal = np.flatnonzero(info["action_mask"])
            table, bounds = obs["candidates"][legal], other["candidates"][legal]
            completion, bound = table[:, COLUMN["completion"]], table[:, COLUMN["bound"]]
            assert (completion >= bound).all() and (bounds[:, COLUMN["completion"]] == bound).all()
            assert table[:, COLUMN["regret"]] == pytest.approx(
                np.minimum(10.0, completion - completion.min()), abs=1e-5
            )
            assert completion.min() <= expected * (1 + 1e-6)
            expected, action = completion.min(), int(legal[np.argmin(completion)])
            obs, _, done, _, info = env.step(action)
            other = blind.step(action)[0]
        assert info["value"] == pytest.approx(info["optimal"], rel=1e-6 if objective == "throughput" else 0.01)
        assert expected == pytest.approx(info["value"] / info["reference"], rel=1e-5)


def test_completions_of_training_steps_keep_the_memory() -> None:
    """Under every schedule the cut that was promised can be played, and takes about as long."""
    for schedule in SCHEDULES:
        env = HetPipelineEnv(objective="training", schedule=schedule)
        returns = []
        for seed in range(25):
            obs, info = env.reset(seed=seed)
            done = False
            while not done:
                value = np.where(info["action_mask"], obs["candidates"][:, COLUMN["completion"]], np.inf)
                obs, _, done, _, info = env.step(int(value.argmin()))
            returns.append(1 - info["value"] / info["reference"])
            assert info["value"] / info["reference"] == pytest.approx(value.min(), rel=0.15)
        assert np.mean(returns) > 0.2 and min(returns) > -0.1


def skips(rng: np.random.Generator) -> PipelineProblem:
    """A graph with skip connections, colours and a backward pass."""
    n = 6
    edges = [(i, i + 1) for i in range(n - 1)] + [(0, 3), (1, 5)]
    edges += [(n + j, n + i) for i, j in edges] + [(i, n + i) for i in range(n)]
    kinds = [DeviceKind("gpu", 2, 40.0), DeviceKind("cpu", 1, transfers=False)]
    colour = np.concatenate([np.arange(n), np.arange(n)])
    size, backward = rng.integers(1, 9, 2 * n), np.arange(2 * n) >= n
    return PipelineProblem(
        rng.uniform(1, 5, (2 * n, 2)), edges, kinds, rng.uniform(0, 2, 2 * n), size, colour, backward
    )  # fmt: skip


def test_graphs_with_skip_connections_colours_and_backward_operators() -> None:
    for seed in range(6):
        problem = skips(np.random.default_rng(seed))
        env = HetPipelineEnv(problem)
        assert env.observation_space["blocks"].shape[0] == 6
        values = {}
        for _, info in reachable(env):
            device = np.repeat([s.device for s in info["stages"]], [s.end - s.first for s in info["stages"]])
            values[tuple(device)] = info["value"]
            assert info["value"] == problem.max_load(np.concatenate([device, device]))
            assert info["within_memory"]
        every = set()
        for plan in cuts(6, 3):
            device = np.repeat([d for *_, d in plan], [j - i for i, j, _ in plan])
            try:
                problem.check(np.concatenate([device, device]))
            except hetgym.InvalidSchedule:
                continue
            every.add(tuple(device))
        assert values.keys() == every
        assert info["optimal"] == min(values.values())


def test_memory_that_nothing_fits_into_is_not_looked_at() -> None:
    chain = PipelineProblem.chain([[1.0], [1.0], [1.0]], [DeviceKind("gpu", 2, 1.0)], size=1.0)
    env = HetPipelineEnv(chain)
    obs, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [False, True, True]
    _, info = play(env, [1, 0, 2])
    assert info["within_memory"] is False and info["value"] == 2.0 and math.isnan(info["optimal"])
    assert info["memory"] == (2.0, 1.0)


def test_stashed_activations_close_the_mask() -> None:
    """Four micro-batches under GPipe need four times the activations, under 1F1B as many as stages follow."""
    chain = PipelineProblem.chain(np.ones((4, 1)), [DeviceKind("gpu", 2, 10.0)], size=1.0)
    step = TrainingPipeline(chain, stash=2.0, state=0.0)
    alone = HetPipelineEnv(step, objective="training", schedule="gpipe", micro_batches=4)
    _, info = play(alone, [1, 0, 2, 0])
    assert info["within_memory"] is False  # two blocks need 2 + 4 * 4
    env = HetPipelineEnv(step, objective="training", schedule="1f1b", micro_batches=4)
    obs, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [False, True, True]
    env.step(1)
    assert env.action_masks().tolist() == [True, False, True]  # 2 * 2 * 2 + 2, or 2 + 4 on the first stage
    env.step(0)
    assert env.action_masks().tolist() == [False, False, True]
    env.step(2)
    _, _, done, _, info = env.step(0)
    assert done and info["memory"] == (10.0, 6.0)


def test_blocks_that_one_kind_cannot_run() -> None:
    inf = math.inf
    kinds = [DeviceKind("a", 1), DeviceKind("b", 1)]
    env = HetPipelineEnv(PipelineProblem.chain([[1, 1], [inf, 1], [1, 1]], kinds))
    env.reset(seed=0)
    env.step(1)
    assert env.action_masks().tolist() == [False, False, True]
    with pytest.raises(hetgym.ProblemError, match="no contiguous cut"):
        HetPipelineEnv(PipelineProblem.chain([[1, inf], [inf, 1], [1, inf]], kinds)).reset(seed=0)


def test_what_is_not_legal_is_replaced_and_counted() -> None:
    env = HetPipelineEnv(CHAIN)
    for action in (0, -1, 3, 99, float("nan"), "left", None):
        env.reset(seed=0)
        _, _, _, _, info = env.step(action)
        assert info["illegal_actions"] == 1
        _, _, _, _, info = env.step(1)  # in use: stays
        assert info["illegal_actions"] == 2
        assert env.lanes.pieces(0) == [(0, 2, 0)]


def test_episodes_replay() -> None:
    env = gym.make("HetPipeline-v0", objective="training", schedule="interleaved")
    env.reset(seed=5)
    problem = env.unwrapped.lanes.instance(0).training
    rng, done = np.random.default_rng(0), False
    while not done:
        _, _, done, _, info = env.step(int(rng.integers(6)))
    again = replay_pipeline(problem, info["replay"], objective="training", schedule="interleaved")
    assert again["value"] == info["value"] and again["stages"] == info["stages"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay_pipeline(CHAIN, info["replay"])
    with pytest.raises(hetgym.ConfigError, match="actions"):
        replay_pipeline(CHAIN, Replay(CHAIN.id, 0, (1,)))


def test_a_platforms_real_model() -> None:
    env = gym.make("HetPipeline-v0", graph="resnet50", platform="cpu-2gpu-nvlink")
    obs, info = env.reset(seed=0)
    assert info["problem"] == "resnet50@cpu-2gpu-nvlink" and obs["blocks"].shape == (40, len(BLOCK_FEATURES))
    best = contiguous_dp(env.unwrapped.problem)
    total, info = play(env, actions_of(plan_of(best)))
    assert info["value"] == info["optimal"] and total >= 0


def test_time_steps_of_recurrent_networks_are_blocks() -> None:
    graph = lstm_grid(layers=2, steps=5)
    assert blocks(graph).tolist() == [0, 1, 2, 3, 4] * 2
    step = training_pipeline(graph, load_platform("cpu-gpu"))
    assert step.problem.num_operators == 5 and len(step.problem.edge_source) == 4  # a chain of steps
    assert np.allclose(step.problem.cost[1], step.problem.cost[2])
    held = (4 * 256 * 256 * 2 + 8 * 256) * 4 * 2
    assert step.problem.size.sum() == pytest.approx(held)
    assert step.state.sum() == pytest.approx(3 * held)
    env = HetPipelineEnv(graph="lstm", platform="cpu-gpu", objective="training")  # inputs skip steps: no chain
    assert env.observation_space["blocks"].shape[0] == 24
    _, info = play(env, [2] + [0] * 11 + [1] + [0] * 11)
    assert info["illegal_actions"] == 0 and info["value"] > 0


def test_sizes_differ_and_pad() -> None:
    other = PipelineProblem.chain(np.ones((2, 1)), [DeviceKind("gpu", 1)], name="two")
    env = gym.make("HetPipeline-v0", problem=[CHAIN, other])
    env.reset(seed=0)
    assert {env.reset()[1]["problem"] for _ in range(20)} == {"four", "two"}
    obs, info = env.reset(options={"problem": other})
    assert obs["block_mask"].tolist() == [1, 1, 0, 0] and info["action_mask"].tolist() == [False, True, False]
    one = PipelineProblem.chain([[1.0]], [DeviceKind("gpu", 1)])
    _, info = play(HetPipelineEnv(one), [1])
    assert info["value"] == info["reference"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "latncy"}, "did you mean 'latency'"),
        ({"schedule": "1f1d"}, "did you mean '1f1b'"),
        ({"reward": "dens"}, "did you mean 'dense'"),
        ({"observation": "grph"}, "did you mean 'graph'"),
        ({"micro_batches": 0}, "micro_batches is 0"),
        ({"requests": 2.5}, "requests is 2.5"),
        ({"chunks": True}, "chunks is True"),
        ({"problem": []}, "at least one pipeline"),
        ({"problem": 3}, "or a path, got int"),
        ({"problem": "/nowhere/x.json"}, "no such file"),
        ({"graph": "resnet50"}, "give both"),
        ({"problem": CHAIN, "generator": RandomChains()}, "one source, not from problem and generator"),
        ({"generator": "chain"}, "must be a callable"),
        ({"generator": lambda rng: CHAIN}, "pass max_blocks"),
        ({"problem": CHAIN, "max_blocks": 0}, "positive whole number"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "blocks": "trunks"}, "did you mean 'trunk'"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "blocks": "steps"}, "no time steps"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "optimizer": "adan"}, "did you mean 'adam'"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=message) as caught:
        HetPipelineEnv(**arguments)
    assert "\n" not in str(caught.value)


def test_bad_pipelines_are_refused() -> None:
    env = HetPipelineEnv(CHAIN, max_blocks=4)
    with pytest.raises(hetgym.ProblemError, match="5 blocks, observations are padded to 4"):
        env.reset(options={"problem": PipelineProblem.chain(np.ones((5, 1)), TWO)})
    with pytest.raises(hetgym.ProblemError, match="pass max_devices=3"):
        env.reset(options={"problem": PipelineProblem.chain(np.ones((4, 1)), [DeviceKind("gpu", 3)])})
    with pytest.raises(hetgym.ConfigError, match="no option 'colour'"):
        env.reset(options={"colour": 1})
    with pytest.raises(hetgym.ConfigError, match="returned int"):
        HetPipelineEnv(generator=lambda rng: 3, max_blocks=3, max_devices=2).reset(seed=0)
    with pytest.raises(gym.error.ResetNeeded):
        HetPipelineEnv(CHAIN).actions([0, 0, 1, 1])
    assert env.reset(seed=0) and env.actions([1, 1, 0, 0]) == [2, 0, 1, 0]
    with pytest.raises(hetgym.InvalidSchedule, match="circle"):
        env.actions([0, 1, 0, 1])
    loose = HetPipelineEnv(PipelineProblem(np.ones((3, 1)), [], TWO))
    assert loose.reset(seed=0) and loose.actions([1, 0, 0]) == [2, 1, 0]
    with pytest.raises(hetgym.ConfigError, match="one stage a device"):
        loose.actions([0, 1, 0])
    with pytest.raises(hetgym.ConfigError, match="finished episode"):
        env.unrolled()
    many = [DeviceKind(f"d{k}", 1, float(k + 1)) for k in range(24)]
    with pytest.raises(hetgym.ProblemError, match="sets"):
        HetPipelineEnv(PipelineProblem.chain(np.ones((4, 24)), many)).reset(seed=0)
    with pytest.raises(hetgym.ProblemError, match="backward operators of its own"):
        HetPipelineEnv(skips(np.random.default_rng(0)), objective="training").reset(seed=0)
    for bad in ({"stash": -1.0}, {"backward": [1.0, 2.0]}, {"state": "much"}, {"weight": math.nan}):
        with pytest.raises(hetgym.ProblemError, match="training of 'four'"):
            TrainingPipeline(CHAIN, **bad)
    with pytest.raises(hetgym.ProblemError, match="holds no pipeline"):
        RandomChains(blocks=(3, 2))


def test_documentation_names_every_feature_count() -> None:
    text = HetPipelineEnv.__doc__ or ""
    space = HetPipelineEnv(CHAIN).observation_space
    for key, symbol in (("blocks", "N"), ("devices", "D"), ("candidates", "1 + D")):
        assert f"| ``{key}`` | [{symbol}, {space[key].shape[1]}] |" in text
    assert all(f"``{key}``" in text for key in space.spaces)
    for features in (BLOCK_FEATURES, STAGE_FEATURES, CUT_FEATURES):
        assert len(feature_table(features).splitlines()) == len(features)
