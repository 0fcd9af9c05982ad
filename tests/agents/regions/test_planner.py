"""The region policy as a scheduler, and its files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from proposal_tools import weights

import hetgym
from hetgym import OutOfMemory, Problem, simulate, validate
from hetgym.agents import schedulers
from hetgym.agents.regions.planner import FILES, RegionPlanner
from hetgym.errors import ArtefactError, ConfigError
from hetgym.search.proposals import FEATURES
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix


@pytest.fixture(scope="module")
def planner() -> RegionPlanner:
    return RegionPlanner(weights(len(FEATURES)), {"name": "mine"})


@pytest.mark.parametrize(
    "preset",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("classic", "donf", "framework", "ready") else name
        for name in sorted(PRESETS)
    ],
)
def test_plans_for_any_runtime_and_never_longer_than_the_lists(planner: RegionPlanner, preset: str) -> None:
    problem = RandomMix()(np.random.default_rng(3))
    plan = planner(problem, preset)
    validate(problem, plan)
    assert plan.scheduler == "mine" and simulate(problem, plan, preset).makespan == plan.makespan
    for name in ("heft", "peft-again", "single-device"):
        assert plan.makespan <= hetgym.baselines.get(name)(problem, preset).makespan * (1 + 1e-12)


def test_same_call_same_plan_and_more_is_not_worse(planner: RegionPlanner) -> None:
    problem = RandomMix()(np.random.default_rng(4))
    plans = [planner.plan(problem, runtime="links", operators=count, seed=2) for count in (0, 5_000, 5_000)]
    assert np.array_equal(plans[1].start, plans[2].start) and plans[1].makespan <= plans[0].makespan
    assert planner.plan(problem, "5ms", runtime="links").makespan <= plans[0].makespan


@pytest.mark.slow
def test_a_plan_as_an_agent(planner: RegionPlanner) -> None:
    problem = RandomMix()(np.random.default_rng(5))
    played = hetgym.agents.as_scheduler(planner)(problem)
    assert played.makespan <= planner(problem).makespan * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("d", [1, 3])
def test_tiny_problems(planner: RegionPlanner, n: int, d: int) -> None:
    problem = Problem.from_arrays(np.ones((n, d)), [(0, 1, 1.0)] if n == 2 else [])
    assert planner(problem, "links").makespan == float(n)
    assert planner(Problem.from_arrays(np.zeros((n, d)), [])).makespan == 0.0


def test_what_cannot_fit_is_refused(planner: RegionPlanner) -> None:
    problem = Problem.from_arrays(np.ones((2, 2)), [], weight_bytes=5.0, memory_capacity=4.0)
    with pytest.raises(OutOfMemory):
        planner(problem, hetgym.Runtime(memory="enforce"))


def test_budgets_that_are_none(planner: RegionPlanner) -> None:
    problem = RandomMix()(np.random.default_rng(0))
    with pytest.raises(ConfigError, match="budget"):
        planner.plan(problem, operators=-1)
    with pytest.raises(ConfigError):
        planner.plan(problem, "soon")


def test_files_give_the_policy_back(tmp_path) -> None:
    FILES.save(tmp_path / "p", weights(len(FEATURES)), {"name": "mine", "recipe": {}})
    found, problem = FILES.load(tmp_path / "p"), RandomMix()(np.random.default_rng(1))
    assert found.card["name"] == "mine"
    row = hetgym.baselines.get(str(tmp_path / "p.safetensors"))
    assert row.plans_for == "any"
    assert row(problem, "links").makespan == found(problem, "links").makespan


def test_refuses_other_weights(tmp_path) -> None:
    for wrong in (
        {name: array for name, array in weights(len(FEATURES)).items() if name != "enter.bias"},
        weights(len(FEATURES)) | {"enter.weight": np.zeros((4, 3), np.float32)},
        weights(len(FEATURES)) | {"enter.bias": np.full(4, np.nan, np.float32)},
        weights(len(FEATURES)) | {"leave.weight": np.zeros((4,), np.float32)},
    ):
        with pytest.raises(ArtefactError, match="region policy"):
            FILES.save(tmp_path / "p", wrong, {})
    FILES.save(tmp_path / "p", weights(len(FEATURES)), {})
    card = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps(card | {"format": "hetgym-place-policy"}))
    with pytest.raises(ArtefactError):
        FILES.load(tmp_path / "p")


def test_within_a_time_shops_are_not_left_to_the_policy_that_chooses_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every operator has one device, ``place-v1-search`` has nothing to decide but the order of HEFT."""
    asked = []
    monkeypatch.setattr(schedulers, "place_v1_search", lambda problem, *_: asked.append(problem.name))
    cost = np.full((6, 2), np.inf)
    cost[np.arange(6), np.arange(6) % 2] = 1.0
    shop = Problem.from_arrays(cost, [(0, 1, 1.0), (1, 2, 1.0), (3, 4, 1.0)], name="shop")
    for problem in (shop, hetgym.workloads.textbook("topcuoglu")):
        schedulers.place_v2_search(problem, seconds=0.02, budget=1000)
    assert asked == ["topcuoglu"]
