"""Episodes of the place policy: their features, and that they equal those of HetSchedule-v0."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from place_tools import drawn, permuted, prepared

import hetgym
from hetgym.agents.place import episodes
from hetgym.agents.place.tokens import LIMIT, TOKEN_FEATURES, view
from hetgym.workloads import RandomMix, textbook


def look(problem, order, turn, device, bonus, tail, horizon, placed):
    """The look-ahead in plain Python: greatest and mean of finish plus time to the end."""
    busy, finish, where = [list(some) for some in placed[0]], dict(placed[1]), dict(placed[2])
    preds = [[] for _ in range(problem.num_operators)]
    for u, v, size in zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True):
        preds[v].append((int(u), size))

    def start(i, a):
        ready = 0.0
        for u, size in preds[i]:
            transfer = problem.latency[where[u], a] + size / problem.bandwidth[where[u], a] if where[u] != a else 0.0
            ready = max(ready, finish[u] + transfer)
        at = ready
        for begin, end in sorted(busy[a]):
            if at + problem.cost[i, a] <= begin:
                break
            at = max(at, end)
        return at

    ends = []
    for k in range(turn, min(problem.num_operators, turn + 1 + horizon)):
        i = order[k]
        options = [device] if k == turn else [a for a in range(problem.num_devices) if np.isfinite(problem.cost[i, a])]
        best = min(options, key=lambda a: (start(i, a) + problem.cost[i, a] + (k > turn) * bonus[i, a], a))
        begin = start(i, best)
        busy[best].append((begin, begin + problem.cost[i, best]))
        finish[i], where[i] = begin + problem.cost[i, best], best
        ends.append(finish[i] + tail[i, best])
    return max(ends), sum(ends) / len(ends)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_seen_is_what_plain_python_sees(seed):
    problem = drawn(seed)
    stage, head, desk = prepared(problem, seed)
    _, choice = episodes.greedy(problem, stage, head, desk)
    start, finish = desk.placed.start.copy(), desk.placed.finish.copy()
    seen = episodes.replay(problem, stage, head, desk, choice)
    names = [feature.name for feature in episodes.CANDIDATE_FEATURES]
    bound = 0.0
    for turn, i in enumerate(stage.order):
        before = stage.order[:turn]
        busy = [[(start[j], finish[j]) for j in before if choice[j] == a] for a in range(3)]
        placed = busy, {j: finish[j] for j in before}, {j: choice[j] for j in before}
        keys = {}
        for a in np.flatnonzero(np.isfinite(problem.cost[i])):
            each = []
            for bonus in stage.bonus:
                far, mean = look(problem, stage.order, turn, a, bonus, stage.tail, episodes.HORIZON, placed)
                far = max(far, bound)
                each.append(far if turn + 1 + episodes.HORIZON >= 14 else (far + mean) / 2)
            whole, _ = look(problem, stage.order, turn, a, stage.bonus[0], stage.tail, episodes.FAR, placed)
            keys[a] = min(each), np.mean(each), max(whole, bound)
        least = [min(key[k] for key in keys.values()) for k in (0, 1, 2)]
        for a, key in keys.items():
            for k, name in enumerate(("outlook", "consensus", "completion")):
                expected = min((key[k] - least[k]) / stage.scale[0], LIMIT)
                assert seen[turn, a, names.index(name)] == pytest.approx(expected, abs=1e-9)
            exposure = min(max(least[0] - bound, 0.0) / stage.scale[0], LIMIT)
            assert seen[turn, a, names.index("exposure")] == pytest.approx(exposure, abs=1e-9)
        bound = max(bound, finish[i] + stage.tail[i, choice[i]])


@pytest.mark.parametrize("seed", range(3))
def test_an_episode_is_one_of_the_environment(seed):
    problem = RandomMix(operators=(10, 30))(np.random.default_rng(seed))
    stage, head, desk = prepared(problem, seed)
    makespan, choice = episodes.greedy(problem, stage, head, desk)
    env = gym.make("HetSchedule-v0", problem=problem)
    env.reset()
    for i in stage.order:
        _, _, over, _, info = env.step(choice[i])
    assert over and info["makespan"] == makespan


@pytest.mark.parametrize("seed", range(3))
def test_permuting_devices_permutes_the_plan(seed):
    problem, swap = drawn(seed), [2, 0, 1]
    first, second = prepared(problem), prepared(permuted(problem, swap))
    makespan, choice = episodes.greedy(problem, *first)
    other, moved = episodes.greedy(permuted(problem, swap), *second)
    assert other == pytest.approx(makespan)
    np.testing.assert_array_equal(np.array(swap)[moved], choice)


def test_samples_are_drawn_from_the_policy():
    problem = textbook("topcuoglu")
    stage, head, desk = prepared(problem)
    greedy, choice = episodes.greedy(problem, stage, head, desk)
    makespans, choices = episodes.sample(problem, stage, head, desk, [1.0] * 30, np.random.default_rng(0))
    again, _ = episodes.sample(problem, stage, head, desk, [1.0] * 30, np.random.default_rng(0))
    np.testing.assert_array_equal(makespans, again)
    assert len({tuple(row) for row in choices.tolist()}) > 5
    cold, chosen = episodes.sample(problem, stage, head, desk, [1e-9] * 3, np.random.default_rng(0))
    assert (cold == greedy).all() and (chosen == choice).all()
    for makespan, row in zip(makespans, choices, strict=True):
        assert makespan == hetgym.evaluate(problem, row[None])[0]


def test_first_decisions_are_drawn_as_often_as_preferred():
    problem = drawn(1, 4, 3, banned=0.0)
    stage, head, desk = prepared(problem)
    _, choices = episodes.sample(problem, stage, head, desk, [1.0] * 4000, np.random.default_rng(0))
    episodes.greedy(problem, stage._replace(order=stage.order[:1]), head, desk)
    shares = np.exp(desk.score - desk.score.max())
    found = np.bincount(choices[:, stage.order[0]], minlength=3) / 4000
    np.testing.assert_allclose(found, shares / shares.sum(), atol=0.03)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_tokens_are_finite_and_bounded(n):
    problem = drawn(n, n, 4)
    tokens = view(problem).tokens
    assert tokens.shape == (n, 4, len(TOKEN_FEATURES))
    assert np.isfinite(tokens).all() and tokens.min() >= 0.0 and tokens.max() <= LIMIT


def test_what_costs_nothing_does_no_harm():
    problem = hetgym.Problem.from_arrays(np.zeros((3, 2)), [(0, 1, 0.0)])
    stage, head, desk = prepared(problem)
    assert episodes.greedy(problem, stage, head, desk)[0] == 0.0
