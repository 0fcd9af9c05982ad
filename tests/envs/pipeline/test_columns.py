"""Every column of an episode that cuts a chain, against sums and a search through all cuts of the rest."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hetgym.envs import BLOCK_FEATURES, CUT_FEATURES, STAGE_FEATURES, HetPipelineEnv
from hetgym.pipeline import DeviceKind, PipelineProblem, TrainingPipeline

COST = np.array([[3.0, 2.0], [1.0, 4.0], [2.5, 1.5], [2.0, 3.0], [1.0, 1.0]])
KINDS = [DeviceKind("gpu", 2, 30.0), DeviceKind("cpu", 1)]
SIZE = np.array([4.0, 6.0, 3.0, 5.0, 2.0])
MOVE = np.array([0.5, 0.25, 0.75, 0.5])
CHAIN = PipelineProblem.chain(COST, KINDS, transfer=[*MOVE, 0.0], size=SIZE, name="five")
KIND = [0, 0, 1]


def columns(table: np.ndarray, features: tuple) -> dict[str, np.ndarray]:
    """Columns by the names of a public table."""
    assert table.shape[-1] == len(features)
    return {feature.name: table[..., k] for k, feature in enumerate(features)}


def load(first: int, end: int, device: int) -> float:
    """Seconds of a stage for one request: its blocks, and the transfers at its ends."""
    moved = (MOVE[first - 1] if first > 0 else 0.0) + (MOVE[end - 1] if end < 5 else 0.0)
    return float(COST[first:end, KIND[device]].sum() + moved)


def fits(first: int, end: int, device: int) -> bool:
    return bool(SIZE[first:end].sum() <= KINDS[KIND[device]].memory)


def best_value(stages: list[tuple[int, int]], block: int) -> float:
    """Least of the largest loads of all cuts that begin as decided: (first block, device) of each stage so far."""
    best, unused = math.inf, [d for d in range(3) if d not in {device for _, device in stages}]
    for count in range(len(unused) + 1):
        for devices in itertools.permutations(unused, count):
            for firsts in itertools.combinations(range(block, 5), count):
                cut = [*stages, *zip(firsts, devices, strict=True)]
                ends = [*(first for first, _ in cut[1:]), 5]
                parts = [(first, end, device) for (first, device), end in zip(cut, ends, strict=True)]
                if all(fits(*part) for part in parts):
                    best = min(best, max(load(*part) for part in parts))
    return best


@pytest.mark.parametrize("taken", [(1, 0, 3, 0, 2), (3, 0, 0, 2, 0), (2, 1, 0, 0, 3)])
def test_every_column_is_what_its_table_says(taken: tuple[int, ...]) -> None:
    env = HetPipelineEnv(CHAIN)
    obs, info = env.reset(seed=0)
    reference = env.lanes.instance(0).reference
    stages: list[tuple[int, int]] = []
    for block, choice in enumerate(taken):
        check_rows(obs, stages, block, reference)
        found = columns(obs["candidates"], CUT_FEATURES)
        values = {}
        for action in np.flatnonzero(info["action_mask"]).tolist():
            after = stages if action == 0 else [*stages, (block, action - 1)]
            first, device = after[-1]
            values[action] = best_value(after, block + 1)
            ended = 0.0 if action == 0 or not stages else load(stages[-1][0], block, stages[-1][1])
            limit = KINDS[KIND[device]].memory
            expected = {
                "cost": COST[block, KIND[device]] / reference,
                "ended": ended / reference,
                "load": load(first, block + 1, device) / reference,
                "completion": values[action] / reference,
                "memory_left": 1.0 if math.isinf(limit) else 1 - SIZE[first : block + 1].sum() / limit,
                "is_used": float(action == 0),
            }
            for name, value in expected.items():
                assert found[name][action] == pytest.approx(value, rel=1e-5), (block, action, name)
            assert max(ended, load(first, block + 1, device)) / reference - 1e-5 <= max(
                found["bound"][action], found["load"][action]
            )
            assert 0 < found["bound"][action] <= values[action] / reference * (1 + 1e-6)
        for action, value in values.items():
            assert found["regret"][action] == pytest.approx((value - min(values.values())) / reference, abs=1e-6)
        assert not obs["candidates"][~info["action_mask"]].any()
        stages = stages if choice == 0 else [*stages, (block, choice - 1)]
        obs, _, _, _, info = env.step(choice)
    assert info["illegal_actions"] == 0
    assert info["value"] == max(load(*stage) for stage in info["stages"])


def check_rows(obs: dict, stages: list[tuple[int, int]], decided: int, reference: float) -> None:
    """Rows of blocks and devices."""
    blocks, devices = columns(obs["blocks"], BLOCK_FEATURES), columns(obs["devices"], STAGE_FEATURES)
    each = COST[:, KIND]
    for i in range(5):
        stage = sum(first <= i for first, _ in stages) if i < decided else 0
        expected = {
            "mean_cost": each[i].mean() / reference,
            "least_cost": each[i].min() / reference,
            "rest": each[i:].min(axis=1).sum() / reference,
            "cut": (MOVE[i - 1] if i else 0.0) / reference,
            "next_cut": (MOVE[i] if i < 4 else 0.0) / reference,
            "size": SIZE[i] / 30.0,
            "stash": 0.0,
            "turn": i / 4,
            "is_decided": float(i < decided),
            "is_current": float(i == decided),
            "stage": stage / 3,
            "piece": stage / 3,
        }
        for name, value in expected.items():
            assert blocks[name][i] == pytest.approx(value, rel=1e-5, abs=1e-7), (i, name)
    for d in range(3):
        number = next((k + 1 for k, (_, device) in enumerate(stages) if device == d), 0)
        first = stages[number - 1][0] if number else 0
        end = (stages[number][0] if number < len(stages) else decided) if number else 0
        closed = 0 < number < len(stages)
        seconds = load(first, end, d) if closed else COST[first:end, KIND[d]].sum()
        limit = KINDS[KIND[d]].memory
        expected = {
            "load": seconds / reference,
            "is_used": float(number > 0),
            "memory_left": 1.0 if math.isinf(limit) else 1 - SIZE[first:end].sum() / limit,
            "is_current": float(0 < number == len(stages)),
            "stage": number / 3,
            "total_cost": each[:, d].sum() / 3 / reference,
        }
        for name, value in expected.items():
            assert devices[name][d] == pytest.approx(float(value), rel=1e-5, abs=1e-7), (d, name)


def test_stages_of_training_pay_for_both_passes_over_their_ends() -> None:
    """Blocks of 1 s forward and 2 s backward, and 0.5 s over each boundary, either way."""
    chain = PipelineProblem.chain([[1.0]] * 4, [DeviceKind("gpu", 4)], transfer=0.5)
    env = HetPipelineEnv(chain, objective="training", micro_batches=4)
    obs, _ = env.reset(seed=0)
    pace = 3.0 / columns(obs["candidates"], CUT_FEATURES)["cost"][1]
    for action, ended, load in ((1, 0.0, 4.0), (2, 4.0, 5.0), (3, 5.0, 5.0)):
        found = columns(obs["candidates"], CUT_FEATURES)
        assert found["ended"][action] * pace == pytest.approx(ended)
        assert found["load"][action] * pace == pytest.approx(load)
        obs, *_ = env.step(action)


def test_memory_counts_the_chunks_that_a_device_has_already() -> None:
    """Blocks 0 and 1 leave 3 bytes on device 0, block 2 leaves 4 on device 1; block 3 leaves 8 of a hundred."""
    chain = PipelineProblem.chain([[1.0]] * 6, [DeviceKind("gpu", 2, 100.0)])
    training = TrainingPipeline(chain, stash=[1.0, 2.0, 4.0, 8.0, 16.0, 1.0], state=0.0)
    env = HetPipelineEnv(training, objective="training", schedule="interleaved", micro_batches=4, chunks=2)
    env.reset(seed=0)
    for action in (1, 0, 2):
        obs, _, _, _, info = env.step(action)
    assert info["action_mask"][:2].all()
    left = columns(obs["candidates"], CUT_FEATURES)["memory_left"]
    assert left[:2] == pytest.approx([1 - 12 / 100, 1 - 11 / 100])
