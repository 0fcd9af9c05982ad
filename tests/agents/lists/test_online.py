"""Decisions of list policies during runs, against plain-Python ones that share no code with them."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import hetgym
from hetgym import Problem
from hetgym.agents.lists import online
from hetgym.agents.lists.decoder import DeviceFeature
from hetgym.agents.lists.dispatcher import FILES, Dispatching, ListDispatcher
from hetgym.agents.lists.online import COUNT, FIRST, WHOLE, OnlineFeature
from hetgym.agents.lists.tokens import EDGE_FEATURES, TOKEN_FEATURES
from hetgym.agents.networks.lists import ListNetwork
from hetgym.agents.training.run_gradient import played
from hetgym.agents.training.trainer import arrays
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.dispatch.conditions import Drawn
from hetgym.errors import ArtefactError, ConfigError
from hetgym.planning.ranks import optimistic_cost
from hetgym.sim import SlowDown, runtime
from hetgym.sim import online as run_online
from hetgym.sim.online import Situation
from hetgym.workloads import RandomMix

SCALE = 1.7


def small(seed: int, operators: int = 12) -> Problem:
    return RandomMix(operators=(operators, operators), devices=3)(np.random.default_rng(seed))


def outputs_for(problem: Problem, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 7])
    return rng.standard_normal((problem.num_operators, problem.num_devices + WHOLE))


def desk_for(problem: Problem, outputs: np.ndarray, release: np.ndarray | None = None) -> online.Desk:
    n = problem.num_operators
    released = np.zeros(n) if release is None else release
    return online.new_desk(problem, outputs, np.full(n, SCALE), optimistic_cost(problem), released, n)


class Oracle:
    """Decides by outputs, greedily."""

    def __init__(self, problem: Problem, outputs: np.ndarray, release: np.ndarray | None = None) -> None:
        self.problem, self.outputs, self.tail = problem, outputs, optimistic_cost(problem)
        self.edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
        self.device: dict[int, int] = {}
        self.reach = 0.0
        self.release = np.zeros(problem.num_operators) if release is None else release

    def scores(self, now: Situation, i: int) -> np.ndarray:
        p, d = self.problem, self.problem.num_devices
        sees = now.estimate(i)
        seen = np.zeros((d, COUNT))
        end = np.array([_backlog(now, a) for a in range(d)])
        seen[:, DeviceFeature.IDLE] = sees.start - end
        seen[:, DeviceFeature.BACKLOG] = end - end.min()
        seen[:, DeviceFeature.WAIT] = sees.arrival - now.now
        seen[:, FIRST + OnlineFeature.SLOWED] = (now.slowdown - 1) * SCALE
        for e, (j, k) in enumerate(self.edges):
            for a in range(d):
                if k == i and self.device[j] != a:
                    b = self.device[j]
                    seen[a, DeviceFeature.ASKED] += p.latency[b, a] + p.edge_bytes[e] / p.bandwidth[b, a]
                if self.device.get(j) == a and (i, k) in self.edges:
                    seen[a, DeviceFeature.KIN] += p.mean_communication[e]
        for other in now.ready.tolist():
            if other != i:
                finish = np.sort(now.estimate(other).finish)
                best = int(now.estimate(other).finish.argmin())
                seen[best, FIRST + OnlineFeature.WANTED] += finish[1] - finish[0]
        seen[:, FIRST + OnlineFeature.EXCESS] = np.maximum(0.0, sees.finish + self.tail[i] - self.reach)
        demand = end - now.now
        for j in range(p.num_operators):
            if j not in self.device and self.release[j] <= now.now:
                a = int((p.cost[j] + self.tail[j]).argmin())
                demand[a] += p.cost[j, a] * now.slowdown[a]
        seen[:, FIRST + OnlineFeature.DEMAND] = (demand / demand.mean() - 1) * SCALE
        out = self.outputs[i]
        z = (sees.finish - sees.finish.min()) / SCALE + out[1 : 1 + d]
        found: np.ndarray = z + np.minimum(seen / SCALE, online.LIMIT) @ out[1 + d : 1 + d + COUNT]
        return found

    def __call__(self, now: Situation) -> tuple[int, int]:
        i = max(now.ready.tolist(), key=lambda j: self.outputs[j, 0])
        device = int(self.scores(now, i).argmin())
        self.device[i] = device
        self.reach = max(self.reach, now.estimate(i).finish[device] + self.tail[i, device])
        return i, device


def _backlog(now: Situation, device: int) -> float:
    s, run, cost = now._state, now._progress, now.problem.cost
    end = max(now.now, s.free[device]) if run.running[device] else now.now
    for i in run.queue[run.head[device] : run.tail[device]].tolist():
        end = max(end, s.ready[i]) + cost[i, device] * run.slowdown[device]
    return float(end)


@pytest.mark.parametrize("name", ["classic", "links", pytest.param("framework", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(4))
def test_runs_of_most_probable_decisions_are_those_of_the_oracle(name: str, seed: int) -> None:
    problem = small(seed)
    outputs, changes = outputs_for(problem, seed), SlowDown(1, 2.0 * problem.mean_cost.mean(), 3.0)
    how, release = runtime(f"{name},noise=0.2,seed=3"), np.zeros(problem.num_operators)
    release[problem.num_operators // 2 :] = problem.mean_cost.mean()
    drawn = Drawn(how, release, np.array([1], np.int32), np.array([3.0]), np.array([changes.at]))
    makespans, _ = played(problem, drawn, desk_for(problem, outputs, release))
    expected = run_online(problem, Oracle(problem, outputs, release), how, release, [changes])
    assert makespans[0] == pytest.approx(expected.makespan, rel=1e-12)


def test_gradients_are_those_of_log_probabilities() -> None:
    """On two operators and two devices all runs can be listed."""
    problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
    outputs = 0.3 * outputs_for(problem, 0)
    drawn = Drawn(runtime("links"), np.zeros(2), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    desk = desk_for(problem, outputs)
    makespans, slopes = played(problem, drawn, desk, 4000, seed=1)
    # the mean of the gradient of a log-probability is 0, and its product with makespans the gradient of their mean
    assert abs(slopes.mean(0)).max() < 0.2
    assert slopes[:, :, 0].std() == 0.0  # one operator at a time leaves no choice among operators
    step = 0.05
    for k in (1, 2, 3 + DeviceFeature.WAIT):
        found = np.mean((makespans - makespans.mean()) * slopes[:, 1, k])
        ends = []
        for sign in (1, -1):
            moved = outputs.copy()
            moved[1, k] += sign * step
            ends.append(played(problem, drawn, desk_for(problem, moved), 40_000, seed=2)[0].mean())
        assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=0.05)


def policy(spread: float = 0.2) -> ListDispatcher:
    torch.manual_seed(0)
    network = ListNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), 8, 1, WHOLE)
    with torch.no_grad():
        for weight in network.parameters():
            weight += spread * torch.randn_like(weight)
    return ListDispatcher(arrays(network))


def test_the_agent_decides_as_runs_do() -> None:
    problem, acting = small(5, 20), policy()
    found = acting.look([problem], "links")
    drawn = Drawn(runtime("links"), np.zeros(20), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    makespans, _ = played(problem, drawn, online.new_desk(problem, *found, drawn.release, 20))
    for arguments in ({"observation": "candidates", "completion": "off"}, {}):
        env = gym.make("HetDispatch-v0", problem=problem, runtime="links", candidates=20, **arguments)
        assert hetgym.agents.play(env, acting).info["makespan"] == pytest.approx(makespans[0], rel=1e-12)


def test_each_job_is_looked_at_by_itself() -> None:
    acting = policy()
    given: dict[str, Any] = {"jobs": 3, "noise": 0.2, "slow_downs": 1, "losses": 1, "completion": "off"}
    lanes = make_lanes("HetDispatch-v0", 2, **given)
    for lane in range(2):
        lanes.prepare(lane, lanes.generator(lane)[0], {}, lane)
    lanes.open()
    jobs: Any = lanes
    for one, other in zip(jobs.jobs(1), jobs.replayable(1), strict=True):
        assert one.device_names == jobs.problem(1).device_names and (one.cost == other.cost).all()
        assert (one.bandwidth == jobs.problem(1).bandwidth).all() and one.num_edges == other.num_edges
    agent = Dispatching(acting)
    agent.begin(lanes)
    while not lanes.over.all():
        lanes.step(agent.decide(), ~lanes.over)
    for lane in range(2):
        env = gym.make("HetDispatch-v0", **given)
        assert hetgym.agents.play(env, acting, seed=lane).info["makespan"] == lanes.result(lane)["makespan"]


def test_files_and_plans(tmp_path: Any) -> None:
    torch.manual_seed(0)
    weights = arrays(ListNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), 8, 1, WHOLE))
    FILES.save(tmp_path / "runs", weights, {"name": "mine"})
    found = hetgym.agents.load(tmp_path / "runs.safetensors")
    problem = hetgym.workloads.textbook("topcuoglu")
    assert isinstance(found, ListDispatcher)
    plans = found.plan(problem), ListDispatcher(weights).plan(problem)
    assert len({hetgym.simulate(problem, plan).makespan for plan in plans}) == 1
    with pytest.raises(ArtefactError, match="list policy"):
        ListDispatcher({**weights, "operator.2.bias": np.zeros(3, np.float32)})
    with pytest.raises(ConfigError, match="HetDispatch-v0"):
        hetgym.agents.play(gym.make("HetSchedule-v0"), found)
