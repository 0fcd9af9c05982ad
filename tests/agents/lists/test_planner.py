"""List policies as planners, and their compiled network against that of PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import hetgym
from hetgym.agents.lists import inference
from hetgym.agents.lists.planner import FILES, ListPlanner
from hetgym.agents.lists.tokens import EDGE_FEATURES, PASSES, TOKEN_FEATURES, view
from hetgym.agents.networks.lists import ListNetwork
from hetgym.agents.training.list_gradient import Lesson, look
from hetgym.agents.training.trainer import arrays
from hetgym.errors import ArtefactError, ConfigError, OutOfMemory
from hetgym.planning.bounds import lower_bound
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import assigned_bottom_level, optimistic_cost, upward_rank
from hetgym.schedule import validate
from hetgym.sim import runtime, simulate
from hetgym.workloads import RandomMix, textbook


def network(hidden: int = 8, layers: int = 2, spread: float = 0.0) -> ListNetwork:
    torch.manual_seed(0)
    found = ListNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), hidden, layers)
    with torch.no_grad():
        for weight in found.parameters():
            weight += spread * torch.randn_like(weight)
    return found


def planner(**sizes: Any) -> ListPlanner:
    return ListPlanner(arrays(network(**sizes)))


def problems(count: int = 6) -> list[hetgym.Problem]:
    return [RandomMix(devices=2 + k % 3)(np.random.default_rng(k)) for k in range(count)]


@pytest.mark.parametrize(("hidden", "layers"), [(8, 2), (8, 0), (0, 0)])
def test_compiled_outputs_are_those_of_the_network(hidden: int, layers: int) -> None:
    net = network(hidden, layers, 0.3)
    for problem in problems(3):
        lesson = Lesson(problem, runtime("links"), views=[view(problem, "links")])
        with torch.no_grad():
            expected = look(net, [lesson]).double().numpy()
        found = inference.outputs(problem, lesson.views[0], inference.list_weights(arrays(net)))
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


def test_the_untrained_policy_is_the_best_of_a_few_passes_of_peft() -> None:
    for problem in problems():
        priority, found = upward_rank(problem), []
        for _ in range(PASSES):
            found.append(place_by_priority(problem, priority, bonus=optimistic_cost(problem)))
            priority = assigned_bottom_level(problem.arrays, found[-1].assignment)
        assert planner().plan(problem).makespan == pytest.approx(min(plan.makespan for plan in found))


@pytest.mark.parametrize("name", ["classic", "links", "framework", "ready"])
def test_plans_are_legal_and_have_simulated_times(name: str) -> None:
    policy = planner(spread=0.2)
    for problem in problems(3):
        plan = policy.plan(problem, runtime=name, samples=6)
        validate(problem, plan)
        assert simulate(problem, plan, name).makespan == pytest.approx(plan.makespan)


def test_more_plans_are_never_worse_and_equal_seeds_give_equal_plans() -> None:
    policy = planner(spread=0.2)
    for problem in problems(4):
        one = policy(problem, "links")
        several = [policy.plan(problem, runtime="links", samples=count, orders=1).makespan for count in (1, 4, 32)]
        assert one.makespan == several[0] >= several[1] >= several[2]
        again = policy.plan(problem, runtime="links", samples=32, orders=1)
        assert again.makespan == several[2]
        assert policy.plan(problem, runtime="links", samples=8, orders=8).makespan <= one.makespan


def test_plans_fit_where_capacities_are_enforced() -> None:
    problem = problems(1)[0]
    n, d = problem.num_operators, problem.num_devices
    tight = problem.replace(weight_bytes=np.full(n, 1e4), memory_capacity=np.full(d, 1e4 * np.ceil(n / d) + 9e3))
    plan = planner().plan(tight, runtime="links,memory=enforce", samples=16)
    assert (np.bincount(plan.assignment, minlength=d) <= np.ceil(n / d)).all()
    with pytest.raises(OutOfMemory):
        planner().plan(tight.replace(memory_capacity=np.full(d, 1e4)), runtime="memory=enforce")


def test_an_episode_of_the_agent_is_its_plan() -> None:
    policy = planner()
    scheduler = hetgym.agents.as_scheduler(policy, runtime="links")
    problem = problems(1)[0]
    assert scheduler(problem).makespan == policy(problem, "links").makespan


@pytest.mark.parametrize("problem", [textbook("topcuoglu"), RandomMix(operators=(1, 1))(np.random.default_rng(0))])
def test_small_problems(problem: hetgym.Problem) -> None:
    assert planner(spread=0.1).plan(problem, samples=16, seed=3).makespan >= lower_bound(problem) * (1 - 1e-9)


def test_numbers_of_plans_are_checked() -> None:
    problem = textbook("topcuoglu")
    with pytest.raises(ConfigError, match="samples"):
        planner().plan(problem, samples=0)
    with pytest.raises(ConfigError, match="samples is 2.5"):
        planner().plan(problem, samples=2.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="orders"):
        planner().plan(problem, samples=2, orders=3)


def test_files(tmp_path: Any) -> None:
    weights = arrays(network(spread=0.1))
    FILES.save(tmp_path / "lists", weights, {"name": "mine"})
    policy = hetgym.agents.load(tmp_path / "lists.safetensors")
    plan = policy.plan(textbook("topcuoglu"))
    assert (plan.makespan, plan.scheduler) == (ListPlanner(weights).plan(textbook("topcuoglu")).makespan, "mine")
    for name, wrong in (
        ("pair.0.weight", np.ones((3, 3), np.float32)),
        ("operator.2.bias", np.full(7, np.nan, np.float32)),
        ("encoder.embed.0.weight", np.ones((8, 2), np.float32)),
    ):
        with pytest.raises(ArtefactError, match="list policy"):
            ListPlanner({**weights, name: wrong})
    with pytest.raises(ArtefactError, match="list policy"):
        ListPlanner({})
