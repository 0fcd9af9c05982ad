"""Policies without PyTorch: they take the same decisions as the networks that they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")


from hetgym.agents.actions import COLUMNS  # noqa: E402
from hetgym.agents.candidates import FILES, CandidatePolicy, candidate_policy  # noqa: E402
from hetgym.agents.network_policy import NetworkPolicy  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.agents.networks.actor_critic import VIEWS  # noqa: E402
from hetgym.envs.core.kinds import IDS  # noqa: E402
from hetgym.errors import ArtefactError, ConfigError, UnknownName  # noqa: E402
from hetgym.graph import load_graph  # noqa: E402
from hetgym.pipeline import RandomChains  # noqa: E402
from hetgym.platform import load_platform  # noqa: E402
from hetgym.workloads import textbook  # noqa: E402

MAKE: dict[str, tuple[str, dict[str, Any]]] = {
    "place": ("HetSchedule-v0", {"problem": textbook("topcuoglu")}),
    "dispatch": ("HetDispatch-v0", {"noise": 0.3, "jobs": 2}),
    "split": ("HetSplit-v0", {"lookahead": True}),
    "pipeline": ("HetPipeline-v0", {"objective": "latency"}),
    "improve": ("HetImprove-v0", {"problem": textbook("topcuoglu"), "steps": 20}),
}


def trained(kind: str, seed: int = 0) -> ActorCritic:
    """A network whose policy is not uniform."""
    torch.manual_seed(seed)
    found = ActorCritic(kind, "candidates", Sizes(hidden=16))
    with torch.no_grad():
        found.actor.rule.normal_()
        found.actor.score.weight.normal_()
    return found.eval()


def compiled(network: ActorCritic) -> Any:
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    return candidate_policy(weights, {"network": network.card()})


def test_every_kind_has_columns() -> None:
    assert set(COLUMNS) == set(VIEWS) == set(MAKE) == set(IDS) - {"cluster"}
    assert all(VIEWS[kind].columns == COLUMNS[kind] and VIEWS[kind].kind == kind for kind in COLUMNS)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("level", ["candidates", "graph"])
def test_decides_as_the_network_all_episode_long(kind: str, level: str) -> None:
    name, arguments = MAKE[kind]
    env = gym.make(name, observation=level, **arguments)
    steps = alike = 0
    for seed in range(3):
        network = trained(kind, seed)
        policy, reference = compiled(network), NetworkPolicy(network)
        seen, info = env.reset(seed=seed)
        over = False
        while not over:
            action = policy(seen, info)
            assert info["action_mask"][action]
            with torch.no_grad():
                logits = network(
                    {key: torch.as_tensor(values, dtype=torch.float32)[None] for key, values in seen.items()}
                )[0][0]
            assert logits[action] >= logits.max() - 1e-3
            alike += action == reference(seen, info)
            steps += 1
            seen, _, over, _, info = env.step(action)
    assert steps > 10
    assert alike > 0.9 * steps  # of equal devices float32 takes one, float64 the first


@pytest.mark.parametrize("kind", COLUMNS)
def test_lanes_are_decided_on_side_by_side(kind: str) -> None:
    name, arguments = MAKE[kind]
    policy = compiled(trained(kind))
    seen, info = gym.make_vec(name, num_envs=3, observation="candidates", **arguments).reset(seed=5)
    together = policy.decide(seen)
    single = [policy({k: v[i] for k, v in seen.items()}, {}) for i in range(3)]
    assert together.tolist() == single


def test_begins_as_a_rule() -> None:
    network = ActorCritic("dispatch", "candidates")
    network.begin_as({"completion": 100.0})
    policy, column = compiled(network), COLUMNS["dispatch"].index("completion")
    env = gym.make("HetDispatch-v0", observation="candidates")
    seen, info = env.reset(seed=1)
    over = False
    while not over:
        wanted = int(np.where(info["action_mask"], seen["candidates"][:, column], np.inf).argmin())
        assert policy(seen, info) == wanted
        seen, _, over, _, info = env.step(wanted)
    with pytest.raises(UnknownName, match="completion"):
        network.begin_as({"completon": 1.0})


def test_plans() -> None:
    schedule = compiled(trained("dispatch")).plan(textbook("topcuoglu"))
    assert schedule.assignment.shape == (10,)
    plan = compiled(trained("split")).plan(load_graph("alexnet", batch=8), load_platform("even-pair"))
    assert plan.makespan == plan.schedule.makespan > 0
    step = RandomChains()(np.random.default_rng(0))
    stages = compiled(trained("pipeline")).plan(step)
    assert stages[0].first == 0 and stages[-1].end == step.problem.num_operators


def test_a_bad_cutter_plans_the_reference() -> None:
    network = ActorCritic("pipeline", "candidates")
    network.begin_as({"completion": -100.0})
    policy, step = compiled(network), RandomChains()(np.random.default_rng(0))
    info = policy.play(problem=step)
    assert info["value"] > info["reference"]
    assert policy.plan(step) == info["reference_stages"] != info["stages"]
    played = gym.make("HetPipeline-v0", problem=step)
    played.reset(seed=0)
    begins = {stage.first: 1 + stage.device for stage in info["reference_stages"]}
    for block in range(step.problem.num_operators):
        *_, last = played.step(begins.get(block, 0))
    assert last["value"] == info["reference"]


def test_saved_and_read_again(tmp_path: Path) -> None:
    network = trained("pipeline")
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    FILES.save(tmp_path / "mine", weights, {"network": network.card(), "recipe": {"arguments": {"batch": 8}}})
    first = (tmp_path / "mine.safetensors").read_bytes()
    again = FILES.load(tmp_path / "mine")
    assert again.card["format"] == FILES.form and again.arguments == {"observation": "candidates"}
    FILES.save(tmp_path / "mine", weights, again.card)
    assert (tmp_path / "mine.safetensors").read_bytes() == first
    seen, info = gym.make("HetPipeline-v0", observation="candidates").reset(seed=0)
    assert again(seen, info) == compiled(network)(seen, info)


def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    network = trained("pipeline")
    weights, card = {name: tensor.numpy() for name, tensor in network.state_dict().items()}, network.card()
    with pytest.raises(ArtefactError, match="looks at candidates alone"):
        CandidatePolicy(weights, {"network": card | {"level": "graph"}})
    with pytest.raises(ArtefactError, match="not the weights"):
        CandidatePolicy({}, {"network": card})
    with pytest.raises(ArtefactError, match="other features"):
        CandidatePolicy(weights, {"network": card | {"view": "split"}})
    with pytest.raises(ArtefactError, match="not finite"):
        CandidatePolicy(weights | {"actor.rule": np.full_like(weights["actor.rule"], np.nan)}, {"network": card})
    with pytest.raises(ArtefactError, match="no such file"):
        FILES.load(tmp_path / "none")
    policy = compiled(network)
    wrongs = (
        ({"samples": 0}, "samples is 0"),
        ({"samples": 2.5}, "whole"),
        ({"lanes": 3}, "lanes"),
        ({"temperature": 0}, "temp"),
    )
    for wrong, message in wrongs:
        with pytest.raises(ConfigError, match=message):
            policy.play(**wrong)
    with pytest.raises(ConfigError, match="flat"):
        policy(np.zeros(3), {})
    seen, info = gym.make("HetSchedule-v0", observation="candidates").reset(seed=0)
    with pytest.raises(
        ConfigError, match="plays HetPipeline-v0, whose candidates have 8 features; these observations have 9"
    ):
        policy(seen, info)
