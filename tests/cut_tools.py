"""Plans of pipelines and episodes for the tests of cutting."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from hetgym.envs import HetPipelineEnv
from hetgym.pipeline import DeviceKind, FlowShop, PipelineProblem, TrainingPipeline, orders, run

Plan = tuple[tuple[int, int, int], ...]

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
    """The actions with which an agent reproduces a plan."""
    return [1 + d if block == i else 0 for i, j, d in plan for block in range(i, j)]


def plan_of(assignment: np.ndarray) -> Plan:
    """The stages of a chain's assignment."""
    starts = [0, *(np.flatnonzero(np.diff(assignment)) + 1).tolist()]
    return tuple((i, j, int(assignment[i])) for i, j in zip(starts, [*starts[1:], len(assignment)], strict=True))


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


def cuts(n: int, d: int, schedule: str = "", chunks: int = 1, micro_batches: int = 1) -> Iterator[Plan]:
    """All plans that the rules allow, whatever the memory."""
    for p, rounds in itertools.product(range(1, d + 1), range(1, chunks + 1)):
        if rounds > 1 and (schedule != "interleaved" or p < 2 or micro_batches % p):
            continue
        for ends in itertools.combinations(range(1, n), p * rounds - 1):
            limits = [0, *ends, n]
            for devices in itertools.permutations(range(d), p):
                yield tuple((limits[k], limits[k + 1], devices[k % p]) for k in range(p * rounds))


def worth(step: TrainingPipeline, plan: Plan, arguments: dict[str, Any]) -> float:
    """The value of a plan of a chain by the library's own functions."""
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
    )
