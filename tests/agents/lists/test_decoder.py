"""The decoder of list policies against a plain-Python one that shares no code with it."""

import itertools

import numpy as np
import pytest

from hetgym import Problem
from hetgym.agents.lists import decoder
from hetgym.agents.lists.decoder import COUNT, DeviceFeature
from hetgym.planning.ranks import assigned_bottom_level, list_order, upward_rank
from hetgym.planning.timeline import new_timeline
from hetgym.sim import runtime
from hetgym.workloads import RandomMix


def small(seed: int, operators: int = 9) -> Problem:
    return RandomMix(operators=(operators, operators), devices=3)(np.random.default_rng(seed))


def outputs_for(problem: Problem, seed: int, spread: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng([seed, 7])
    return spread * rng.standard_normal((problem.num_operators, decoder.width(problem.num_devices)))


def desk_for(problem: Problem, name: str = "classic") -> decoder.Desk:
    return decoder.new_desk(problem, new_timeline(problem, runtime(name)), 1.7)


class Oracle:
    """A list scheduler of the classic model that goes by outputs, and the log-probability of what it is told to do."""

    def __init__(self, problem: Problem, outputs: np.ndarray, scale: float) -> None:
        self.problem, self.outputs, self.scale = problem, outputs, scale
        self.edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
        self.device: dict[int, int] = {}
        self.finish: dict[int, float] = {}
        self.busy: dict[int, list[tuple[float, float]]] = {a: [] for a in range(problem.num_devices)}

    def transfer(self, edge: int, a: int, b: int) -> float:
        p = self.problem
        return 0.0 if a == b else p.latency[a, b] + p.edge_bytes[edge] / p.bandwidth[a, b]

    def scores(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        p, d = self.problem, self.problem.num_devices
        start, score, seen = np.zeros(d), np.zeros(d), np.zeros((d, COUNT))
        last = [max((end for _, end in self.busy[a]), default=0.0) for a in range(d)]
        for a in range(d):
            inputs = [(e, j) for e, (j, k) in enumerate(self.edges) if k == i]
            arrivals = [self.finish[j] + self.transfer(e, self.device[j], a) for e, j in inputs]
            ready = max(arrivals, default=0.0)
            cost = p.cost[i, a]
            begins = sorted([ready, *(end for _, end in self.busy[a] if end >= ready)])
            start[a] = next(s for s in begins if all(s + cost <= b or e <= s for b, e in self.busy[a]))
            seen[a, DeviceFeature.IDLE] = max(0.0, start[a] - last[a])
            seen[a, DeviceFeature.ASKED] = sum(self.transfer(e, self.device[j], a) for e, j in inputs)
            readers = [k for j, k in self.edges if j == i]
            seen[a, DeviceFeature.KIN] = sum(
                p.mean_communication[e]
                for reader in readers
                for e, (j, k) in enumerate(self.edges)
                if k == reader and self.device.get(j) == a
            )
            seen[a, DeviceFeature.BACKLOG] = last[a] - min(last)
            seen[a, DeviceFeature.WAIT] = max(0.0, ready - max((self.finish[j] for _, j in inputs), default=0.0))
            score[a] = start[a] + cost
        seen = np.minimum(seen / self.scale, decoder.LIMIT)
        row = self.outputs[i]
        return start, (score - score.min()) / self.scale + row[1 : 1 + d] + seen @ row[1 + d : 1 + d + COUNT]

    def place(self, i: int, a: int, start: float) -> None:
        self.device[i], self.finish[i] = a, start + self.problem.cost[i, a]
        self.busy[a].append((start, self.finish[i]))

    def log_probability(self, turns: np.ndarray, devices: np.ndarray) -> float:
        total = 0.0
        for i in turns.tolist():
            ready = [
                k
                for k in range(self.problem.num_operators)
                if k not in self.device and all(j in self.device for j, t in self.edges if t == k)
            ]
            total += self.outputs[i, 0] - np.log(sum(np.exp(self.outputs[k, 0]) for k in ready))
            start, z = self.scores(i)
            logits = -z / np.exp(self.outputs[i, -1])
            total += logits[devices[i]] - np.log(np.exp(logits).sum())
            self.place(i, int(devices[i]), start[devices[i]])
        return float(total)


def test_the_gradient_is_that_of_the_log_probability() -> None:
    for seed in range(4):
        problem = small(seed, 7)
        outputs, rng = outputs_for(problem, seed), np.random.default_rng(seed)
        plans, slopes = decoder.sample_with_gradients(problem, desk_for(problem), outputs, rng.random((1, 7, 2)))
        turns, devices = plans.turns[0], plans.devices[0]
        again = decoder.gradient_of(problem, desk_for(problem), outputs, turns, devices)
        np.testing.assert_allclose(again, slopes[0], atol=1e-9)
        for i, k in itertools.product(range(7), range(outputs.shape[1])):
            ahead, behind = outputs.copy(), outputs.copy()
            ahead[i, k] += 1e-5
            behind[i, k] -= 1e-5
            difference = Oracle(problem, ahead, 1.7).log_probability(turns, devices)
            difference -= Oracle(problem, behind, 1.7).log_probability(turns, devices)
            assert slopes[0, i, k] == pytest.approx(difference / 2e-5, abs=1e-5)


def test_greedy_plans_take_the_device_of_least_score() -> None:
    for seed in range(10):
        problem = small(seed, 12)
        outputs = outputs_for(problem, seed, 0.5)
        turns = list_order(problem.arrays, outputs[:, 0])
        plans = decoder.decode(problem, desk_for(problem), outputs, turns[None])
        oracle = Oracle(problem, outputs, 1.7)
        for i in turns.tolist():
            start, z = oracle.scores(i)
            a = int(np.argmin(z))
            assert plans.devices[0, i] == a
            oracle.place(i, a, start[a])


def test_draws_are_those_of_the_policy() -> None:
    problem = small(3, 4)
    outputs = outputs_for(problem, 3)
    count = 20_000
    plans = decoder.sample(problem, desk_for(problem), outputs, np.random.default_rng(0).random((count, 4, 2)))
    kinds, numbers = np.unique(np.concatenate([plans.turns, plans.devices], 1), axis=0, return_counts=True)
    most = np.argsort(-numbers)[:10]
    for kind, number in zip(kinds[most], numbers[most], strict=True):
        chance = np.exp(Oracle(problem, outputs, 1.7).log_probability(kind[:4], kind[4:]))
        assert abs(number / count - chance) < 5 * np.sqrt(chance / count)


def test_reordered_schedules_keep_their_devices() -> None:
    problem = small(4)
    outputs, desk = outputs_for(problem, 4), desk_for(problem)
    plans = decoder.sample(problem, desk, outputs, np.random.default_rng(0).random((5, problem.num_operators, 2)))
    found = decoder.reordered(problem, desk, outputs, plans)
    assert (found.devices == plans.devices).all()
    for turns, devices, order, pointer in zip(*found, strict=True):
        level = assigned_bottom_level(problem.arrays, devices)
        assert (turns == list_order(problem.arrays, level)).all()
        oracle = Oracle(problem, outputs, 1.7)
        for i in turns:
            oracle.place(int(i), int(devices[i]), float(oracle.scores(int(i))[0][devices[i]]))
        for a in range(problem.num_devices):
            mine = order[pointer[a] : pointer[a + 1]].tolist()
            assert mine == sorted(mine, key=lambda i, finish=oracle.finish: finish[i])


@pytest.mark.parametrize("name", ["classic", pytest.param("framework", marks=pytest.mark.slow)])
def test_without_weights_it_is_a_list_scheduler(name: str) -> None:
    from hetgym.planning.list_scheduling import place_by_priority

    for seed in range(5):
        problem = RandomMix()(np.random.default_rng(seed))
        outputs = np.zeros((problem.num_operators, decoder.width(problem.num_devices)))
        turns = list_order(problem.arrays, upward_rank(problem))
        plans = decoder.decode(problem, desk_for(problem, name), outputs, turns[None])
        expected = place_by_priority(problem, upward_rank(problem), runtime=name)
        np.testing.assert_array_equal(plans.devices[0], expected.assignment)
