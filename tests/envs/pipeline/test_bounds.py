"""Bounds are never exceeded, and values equal those of the library's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetgym
from hetgym.envs import (
    CUT_FEATURES,
    HetPipelineEnv,
)
from hetgym.pipeline import (
    SCHEDULES,
    FlowShop,
    RandomChains,
    TrainingPipeline,
    orders,
    run,
)

Plan = tuple[tuple[int, int, int], ...]

COLUMN = {feature.name: k for k, feature in enumerate(CUT_FEATURES)}


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


CASES: list[dict[str, Any]] = [
    {},
    {"objective": "latency", "requests": 3},
    *({"objective": "training", "schedule": name, "micro_batches": 4} for name in sorted(SCHEDULES)),
    {"objective": "training", "schedule": "interleaved", "micro_batches": 6, "chunks": 3},
]


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
