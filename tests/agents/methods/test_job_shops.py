"""Methods for job shops: they learn the best schedule of a toy, resume exactly, and do not see sizes or padding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("sb3_contrib")

import hetgym  # noqa: E402
from hetgym import Problem  # noqa: E402
from hetgym._input.config import read  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.methods.job_shops import KEYS, Shop, ShopFeatures  # noqa: E402
from hetgym.agents.methods.l2d import arcs, completion  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.agents.recipe import Recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402
from hetgym.workloads.job_shops import JobShops  # noqa: E402

METHODS = {"slim": "hetgym.agents.methods.slim:Slim", "l2d": "hetgym.agents.methods.l2d:L2D"}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "slim": ("self-labelling", {"samples": 8, "learning_rate": 1e-2}),
    "l2d": ("maskable-ppo", {"n_steps": 16, "batch_size": 64, "learning_rate": 1e-2, "gae_lambda": 1.0}),
}


def flow_shop() -> Problem:
    """Four jobs that visit machine 0 and then 1; Johnson's rule (1954) gives 12, the order of the jobs 14."""
    times = [(5.0, 1.0), (3.0, 2.0), (2.0, 3.0), (1.0, 5.0)]
    cost = [[a, np.inf] if machine == 0 else [np.inf, b] for a, b in times for machine in (0, 1)]
    return Problem.from_arrays(cost, [(2 * j, 2 * j + 1, 0.0) for j in range(4)], name="flow-shop")


def recipe(method: str, **changes: Any) -> Recipe:
    algorithm, settings = SETTINGS[method]
    given: dict[str, Any] = {
        "algorithm": algorithm,
        "env": "HetDispatch-v0",
        "arguments": {"observation": "graph", "completion": "off"},
        "lanes": 16,
        "steps": 2560,
        "checkpoint_every": 256,
        "network": {"hidden": 16, "embedding": 8, "layers": 2, "features": METHODS[method]},
        "settings": settings,
        "evaluation": {"every": 100_000, "episodes": 2},
    }
    given["arguments"] = given["arguments"] | changes.pop("arguments", {})
    return read(Recipe, given | changes, "here")


def network(method: str) -> ActorCritic:
    """A network whose policy is not uniform, unlike that of a new one."""
    torch.manual_seed(0)
    found = ActorCritic("dispatch", "graph", Sizes(16, 8, 2, METHODS[method]))
    with torch.no_grad():
        found.actor.rule.normal_()
        found.actor.score.weight.normal_()
    return found


@pytest.mark.parametrize("method", [pytest.param("slim", marks=pytest.mark.slow), "l2d"])
def test_learns_johnsons_rule_on_a_flow_shop(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow_shop().save(tmp_path / "flow.npz")
    TrainingRun(recipe(method, arguments={"problem": str(tmp_path / "flow.npz")}), tmp_path).train()
    monkeypatch.delitem(sys.modules, METHODS[method].partition(":")[0])  # a file may name hetgym's own classes
    policy = hetgym.agents.load(tmp_path / "policy.safetensors")
    assert hetgym.simulate(flow_shop(), policy.plan(flow_shop())).makespan == 12.0


@pytest.mark.parametrize("method", [pytest.param("slim", marks=pytest.mark.slow), "l2d"])
def test_a_stopped_run_ends_with_the_weights_of_an_undisturbed_one(method: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"steps": 1024}
    changes["arguments"] = {"generator": {"kind": "job-shops", "jobs": [3, 5], "machines": [2, 3]}}
    TrainingRun(recipe(method, **changes), tmp_path / "whole").train()

    class Stop(Exception):
        pass

    def stop(step: int, judged: Any) -> None:
        if step > 600:
            raise Stop

    with pytest.raises(Stop):
        TrainingRun(recipe(method, **changes), tmp_path / "stopped", watch=stop).train()
    run = TrainingRun(recipe(method, **changes), tmp_path / "stopped")
    assert run.checkpoint is not None and 0 < run.checkpoint.step < 1024
    run.train()
    one, other = (Checkpoint.load(tmp_path / name / "checkpoint.safetensors").tensors for name in ("whole", "stopped"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("method", METHODS)
def test_padding_and_lanes_change_no_decision(method: str) -> None:
    found = network(method)
    shops = [JobShops(jobs=(j, j), machines=(m, m))(np.random.default_rng(j)) for j, m in ((4, 3), (6, 2))]
    alone = []
    for shop in shops:
        lanes = make_lanes("HetDispatch-v0", 1, problem=shop, completion="off")
        alone.append(played(found, lanes, [shop])[0])
    more = make_lanes("HetDispatch-v0", 2, problem=shops, max_operators=20, max_devices=5, completion="off")
    assert played(found, more, shops) == alone


def played(found: ActorCritic, lanes: Any, shops: list[Problem]) -> list[float]:
    """Makespans of greedy episodes; each decision is checked to be the same with gradients."""
    for lane, shop in enumerate(shops):
        lanes.prepare(lane, lanes.generator(0)[0], {"problem": shop}, 0)
    lanes.open()
    while not lanes.over.all():
        seen = {key: torch.as_tensor(part, dtype=torch.float32) for key, part in lanes.seen.items()}
        logits, values = found(seen)
        with torch.no_grad():
            again, _ = found(seen)
        finite = torch.isfinite(logits)
        assert torch.equal(finite, torch.isfinite(again)) and torch.allclose(logits[finite], again[finite], atol=1e-4)
        assert torch.isfinite(values).all() and not (finite & (seen["action_mask"] == 0)).any()
        lanes.step(logits.detach().numpy().argmax(axis=1), ~lanes.over)
    return [lanes.result(lane)["makespan"] for lane in range(lanes.count)]


def test_a_shop_by_hand() -> None:
    """Job 3 is first on machine 0, which is busy until 1; then job 2 waits in vain for job 1, which goes on."""
    lanes = make_lanes("HetDispatch-v0", 1, problem=flow_shop(), completion="off")
    lanes.prepare(0, lanes.generator(0)[0], {}, 0)
    lanes.open()

    class Nothing(ShopFeatures):
        def jobs(self, shop: Shop, lane: Any, lanes: int) -> Any:
            raise NotImplementedError

    features = Nothing("dispatch", "graph", Sizes(), 1)
    state = _commit(lanes, 6)
    assert features.choices(state)[0].nonzero().tolist() == [[lanes.mask.shape[1] - 1]], "no machine is idle"
    shop, scale = Shop(state), float(lanes.instance(0).reference)
    assert (shop.ready * scale).tolist()[0][:3] == [0.0] * 3 and float(shop.ready[0, 3] * scale) == pytest.approx(1.0)
    assert shop.placed.tolist() == [[0, 0, 0, 1]] and shop.front.tolist() == [[0, 2, 4, 7]]
    assert (shop.load * scale)[0].tolist() == pytest.approx([10.0, 11.0])
    assert (completion(shop) * scale)[0].tolist() == pytest.approx([5, 6, 3, 5, 2, 5, 1, 6])
    lanes.step(np.array([lanes.mask.shape[1] - 1]), ~lanes.over)
    shop = Shop(_commit(lanes, 4))
    assert arcs(shop).T.tolist() == [[6, 4]] and (completion(shop) * scale)[0, 4:6].tolist() == pytest.approx([3, 6])
    with pytest.raises(ConfigError, match="job shops take HetDispatch-v0"):
        Nothing("place", "graph", Sizes(), 1)


def _commit(lanes: Any, operator: int) -> dict[str, Any]:
    """Commit an operator to its machine; the observation behind it."""
    at = lanes.seen["candidate_operators"][0].tolist().index(operator)
    devices = lanes.seen["devices"].shape[1]
    lanes.step(np.array([at * devices + operator % 2]), ~lanes.over)
    seen = {key: torch.as_tensor(part.copy(), dtype=torch.float32) for key, part in lanes.seen.items()}
    assert set(KEYS) < set(seen)
    return seen
