"""Every column of a dispatch episode against ``OnlineSimulation``, which takes the same decisions."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.envs import DISPATCH_CANDIDATE_FEATURES, DISPATCH_DEVICE_FEATURES, OPERATOR_FEATURES, HetDispatchEnv
from hetgym.planning import ranks
from hetgym.sim import SlowDown
from hetgym.sim.online import OnlineSimulation
from hetgym.workloads import RandomMix

CHANGES = [SlowDown(1, 4.0, 2.0)]


def columns(table: np.ndarray, features: tuple) -> dict[str, np.ndarray]:
    """Columns by the names of a public table."""
    assert table.shape[-1] == len(features)
    return {feature.name: table[..., k] for k, feature in enumerate(features)}


def test_every_column_is_what_its_table_says() -> None:
    problem = RandomMix(operators=(12, 16), devices=3)(np.random.default_rng(3))
    env = HetDispatchEnv(problem, runtime="links", completion="off", candidates=4, changes=CHANGES)
    obs, info = env.reset(seed=0)
    online, rng = OnlineSimulation(problem, "links", changes=CHANGES), np.random.default_rng(0)
    rank, optimistic = ranks.upward_rank(problem), ranks.optimistic_cost(problem)
    to_exit, reference = ranks.least_cost_to_exit(problem), env.lanes.instance(0).reference
    committed: dict[int, int] = {}
    bound, slowed = 0.0, 0
    while not online.over:
        now = online.now
        slowed += online.slowdown[1] == 2.0
        bound = max(bound, now)
        assert obs["now"][0] == pytest.approx(now / reference, rel=1e-5)
        check_devices(problem, online, obs, committed, reference)
        found = columns(obs["candidates"], DISPATCH_CANDIDATE_FEATURES)
        offered = sorted(online.ready.tolist(), key=lambda i: env.lanes.instance(0).order.tolist().index(i))[:4]
        assert obs["candidate_operators"].tolist()[: len(offered)] == offered
        ahead = {}
        for k, operator in enumerate(offered):
            estimate = online.estimate(operator)
            for d in range(3):
                row, cost = 3 * k + d, problem.cost[operator, d] * online.slowdown[d]
                ahead[row] = max(bound, estimate.finish[d] + to_exit[operator, d])
                expected = {
                    "cost": cost,
                    "ready": estimate.arrival[d] - now,
                    "start": estimate.start[d] - now,
                    "finish": estimate.finish[d] - now,
                    "wait": estimate.start[d] - estimate.arrival[d],
                    "cost_to_go": optimistic[operator, d],
                    "bound": ahead[row],
                    "completion": ahead[row],
                    "flow": ahead[row],
                    "upward_rank": rank[operator],
                }
                for name, value in expected.items():
                    scaled = min(max(value / reference, 0.0), 10.0)
                    assert found[name][row] == pytest.approx(scaled, rel=1e-5, abs=1e-6), (name, operator, d)
                assert found["is_wait"][row] == found["next_event"][row] == 0.0
        for row, value in ahead.items():
            assert found["regret"][row] == pytest.approx((value - min(ahead.values())) / reference, abs=1e-5)
        assert found["is_wait"][-1] == 1.0
        if info["action_mask"][-1]:
            assert found["completion"][-1] == found["bound"][-1] == pytest.approx(bound / reference, rel=1e-5)
            assert found["flow"][-1] == found["bound"][-1]
        waits = bool(info["action_mask"][-1]) and rng.random() < 0.2
        action = 12 if waits else int(rng.choice(sorted(ahead)))
        if waits:
            expected_event = found["next_event"][-1] * reference
            online.wait()
            assert online.over or online.now >= now + expected_event - 1e-4
        else:
            operator, device = offered[action // 3], action % 3
            online.commit(operator, device)
            committed[operator], bound = device, ahead[action]
        obs, _, done, _, info = env.step(action)
        assert done == online.over
    assert slowed > 0 and len(committed) == problem.num_operators


def check_devices(problem, online: OnlineSimulation, obs: dict, committed: dict[int, int], reference: float) -> None:
    """Rows of devices, and the columns of operators that change."""
    devices = columns(obs["devices"], DISPATCH_DEVICE_FEATURES)
    finite = np.where(np.isfinite(problem.cost), problem.cost, 0.0)
    for d in range(3):
        mine = [i for i, device in committed.items() if device == d]
        idle = online.estimate(int(online.ready[0]))
        backlog = max(0.0, idle.start[d] - online.now)
        expected = {
            "busy": problem.cost[mine, d].sum() / reference,
            "share": len(mine) / max(1, len(committed)),
            "total_cost": finite[:, d].sum() / 3 / reference,
            "queued": online.queued[d] / 8,
            "running": online.running[d] / 8,
            "is_alive": float(online.alive[d]),
            "slowdown": online.slowdown[d],
        }
        for name, value in expected.items():
            assert devices[name][d] == pytest.approx(float(value), rel=1e-5, abs=1e-6), (d, name)
        assert devices["backlog"][d] * reference <= backlog + 1e-4
        if idle.start[d] > idle.arrival[d]:  # then the operator waits for nothing else
            assert devices["backlog"][d] * reference == pytest.approx(backlog, abs=1e-4)
    operators = columns(obs["operators"], OPERATOR_FEATURES)
    for i in range(problem.num_operators):
        assert operators["is_placed"][i] == (i in committed)
        assert operators["is_current"][i] == (i in obs["candidate_operators"])
        assert obs["assignment"][i] == committed.get(i, -1)
