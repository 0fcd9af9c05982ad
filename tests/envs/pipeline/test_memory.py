"""Masks of cuts: legal episodes are the cuts that fit, no more and no less."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cut_tools import Plan, actions_of, cuts, play, reachable, worth
from pipeline_tools import small_chain

import hetgym
from hetgym.envs import (
    HetPipelineEnv,
)
from hetgym.pipeline import (
    SCHEDULES,
    DeviceKind,
    PipelineProblem,
    TrainingPipeline,
    orders,
    peak_activations,
)


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


def fits(step: TrainingPipeline, plan: Plan, arguments: dict[str, Any]) -> bool:
    """True if a plan fits into memory."""
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
    {},
    {"objective": "latency", "requests": 3},
    *({"objective": "training", "schedule": name, "micro_batches": 4} for name in sorted(SCHEDULES)),
    {"objective": "training", "schedule": "interleaved", "micro_batches": 6, "chunks": 3},
]


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
