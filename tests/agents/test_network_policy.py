"""Networks of policies: blind to padding and to the numbers of devices, and the same when they are read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("safetensors")


import hetgym  # noqa: E402
from hetgym.agents import artefact, as_scheduler, play  # noqa: E402
from hetgym.agents.actions import COLUMNS  # noqa: E402
from hetgym.agents.network_policy import FORMAT, NetworkPolicy, check_fits, load_policy, start_from  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.agents.networks.actor_critic import LEVELS, VIEWS, relative  # noqa: E402
from hetgym.errors import ArtefactError, ConfigError  # noqa: E402
from hetgym.workloads import RandomMix, textbook  # noqa: E402

MIX = RandomMix(operators=(6, 9), devices=3)
SIZES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "place": (
        "HetSchedule-v0",
        {"generator": MIX, "max_operators": 9, "max_edges": 27, "max_devices": 3},
        {"generator": MIX, "max_operators": 20, "max_edges": 50, "max_devices": 5},
    ),
    "dispatch": (
        "HetDispatch-v0",
        {"generator": MIX, "max_operators": 9, "max_edges": 27, "max_devices": 3, "gap": 0.3},
        {"generator": MIX, "max_operators": 20, "max_edges": 50, "max_devices": 5, "gap": 0.3},
    ),
    "split": ("HetSplit-v0", {"ways": 3}, {"ways": 3, "max_operators": 60, "max_edges": 80, "max_devices": 5}),
    "pipeline": ("HetPipeline-v0", {}, {"max_blocks": 30, "max_devices": 6}),
    "improve": (
        "HetImprove-v0",
        {"generator": MIX, "max_operators": 9, "max_edges": 27, "max_devices": 3},
        {"generator": MIX, "max_operators": 20, "max_edges": 50, "max_devices": 5},
    ),
}
"""Kind -> environment, arguments for a small and for a large padding."""

CASES = [(kind, level) for kind in SIZES for level in LEVELS]


def network(kind: str, level: str, seed: int = 0) -> ActorCritic:
    """A network whose policy is not uniform, unlike that of a new one."""
    torch.manual_seed(seed)
    found = ActorCritic(kind, level, Sizes(16, 8, 2))
    with torch.no_grad():
        found.actor.rule.normal_()
        found.actor.score.weight.normal_()
    return found.eval()


def batch(observation: dict[str, Any]) -> dict[str, Any]:
    return {key: torch.as_tensor(value, dtype=torch.float32)[None] for key, value in observation.items()}


def test_every_kind_has_a_view_that_fits_its_observations() -> None:
    assert set(VIEWS) == set(COLUMNS) == set(SIZES)


@pytest.mark.parametrize(("kind", "level"), CASES)
def test_padding_is_not_seen_all_episode_long(kind: str, level: str) -> None:
    name, small, large = SIZES[kind]
    envs = [gym.make(name, observation=level, **arguments) for arguments in (small, large)]
    assert [(s.kind, s.level) for s in (env.observation_space for env in envs)] == [(kind, level)] * 2
    found, seen = network(kind, level), [env.reset(seed=3)[0] for env in envs]
    devices = [env.unwrapped.lanes.padding.devices for env in envs]
    over, steps = False, 0
    while not over:
        (near, value), (far, other) = (found(batch(one)) for one in seen)
        taken = near[0].isfinite()
        place = torch.arange(near.shape[1])
        if kind == "dispatch":  # candidate k on device d stands elsewhere, waiting is last
            place = (place // devices[0]) * devices[1] + place % devices[0]
            place[-1] = far.shape[1] - 1
        assert torch.allclose(near[0, taken], far[0, place][taken], atol=1e-4), steps
        assert torch.allclose(value, other, atol=1e-4)
        assert int(far[0].isfinite().sum()) == int(taken.sum())
        action = int(near[0].argmax())
        assert int(far[0].argmax()) == int(place[action])
        seen[0], _, over, _, _ = envs[0].step(action)
        seen[1] = envs[1].step(int(place[action]))[0]
        steps += 1
    assert steps > 3


@pytest.mark.parametrize("level", LEVELS)
def test_numbers_of_devices_do_not_matter(level: str) -> None:
    rng = np.random.default_rng(0)
    problem = MIX(rng)
    edges = list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
    turned = hetgym.Problem.from_arrays(problem.cost[:, [2, 0, 1]], edges)
    found = network("place", level)
    first, _ = gym.make("HetSchedule-v0", problem=problem, observation=level).reset(seed=0)
    other, _ = gym.make("HetSchedule-v0", problem=turned, observation=level).reset(seed=0)
    (near, value), (far, same) = found(batch(first)), found(batch(other))
    assert torch.allclose(near[:, [2, 0, 1]], far, atol=1e-5) and torch.allclose(value, same, atol=1e-5)


@pytest.mark.parametrize("kind", SIZES)
def test_the_graph_is_looked_at(kind: str) -> None:
    name, small, _ = SIZES[kind]
    observation, _ = gym.make(name, **small).reset(seed=0)
    seen, found = batch(observation), network(kind, "graph")
    value = found(seen)[1]
    other = seen | {"costs": seen["costs"] * 1.5}
    assert (value - found(other)[1]).abs() > 1e-6


def test_relative_features() -> None:
    values = torch.tensor([[[1.0, 5.0], [3.0, 5.0], [9.0, 0.0]]])
    found = relative(values, torch.tensor([[True, True, False]]))
    assert torch.allclose(found[0, :, 0], torch.tensor([-1.0, 1.0, 0.0]), atol=1e-3)
    assert not found[0, :, 1].any()


@pytest.mark.parametrize("kind", ["place", "dispatch", "improve"])
def test_the_best_of_samples_counts(kind: str) -> None:
    problem, policy = RandomMix()(np.random.default_rng(3)), NetworkPolicy(ActorCritic(kind, "candidates"))
    given: dict[str, Any] = {"problem": problem} | ({} if kind == "improve" else {"completion": "off"})
    greedy, *more = (policy.play(count, **given)["makespan"] for count in (1, 2, 32))
    assert greedy >= more[0] >= more[1] < greedy
    again, other = (policy.play(8, seed=seed, **given)["replay"] for seed in (1, 2))
    assert again == policy.play(8, seed=1, **given)["replay"] != other
    assert policy.plan(problem).assignment.tolist() == as_scheduler(policy)(problem).assignment.tolist()
    with pytest.raises(ConfigError, match="samples"):
        policy.plan(problem, samples=0)


def test_saved_and_read_again(tmp_path: Path) -> None:
    path, policy = tmp_path / "policy.safetensors", NetworkPolicy(network("place", "candidates"), {"step": 3})
    policy.save(path)
    first = path.read_bytes()
    again = load_policy(path)
    assert again.card["step"] == 3 and again.network.card() == policy.network.card()
    again.save(path)
    assert path.read_bytes() == first
    env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"), observation="candidates")
    assert play(env, again, seed=0).info["replay"] == play(env, policy, seed=0).info["replay"]
    assert as_scheduler(again, **again.arguments)(textbook("topcuoglu")).makespan >= 73
    fresh = ActorCritic("place", "candidates", Sizes(16, 8, 2))
    start_from(fresh, path)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), policy.network.parameters(), strict=True))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path, policy = tmp_path / "policy.safetensors", NetworkPolicy(network("place", "candidates"))
    policy.save(path)
    with pytest.raises(ConfigError, match="the recipe asks for"):
        start_from(network("pipeline", "candidates"), path)
    with pytest.raises(ConfigError, match="plays HetSchedule-v0, the environment is HetPipeline-v0"):
        check_fits(policy.network, gym.make("HetPipeline-v0").observation_space)
    with pytest.raises(ConfigError, match="takes observation='candidates', the environment gives 'graph'"):
        check_fits(policy.network, gym.make("HetSchedule-v0").observation_space)
    with pytest.raises(ConfigError, match="plays HetSchedule-v0, the environment is HetCluster-v0"):
        play(gym.make("HetCluster-v0", observation="candidates"), policy)
    flat = gym.make("HetSchedule-v0", observation="flat")
    with pytest.raises(ConfigError, match="observation='graph' or 'candidates'"):
        check_fits(policy.network, flat.observation_space)
    with pytest.raises(ConfigError, match="not flat"):
        policy(*flat.reset(seed=0))
    with pytest.raises(ArtefactError, match="no such file"):
        load_policy(tmp_path / "none.safetensors")
    for damage in (b"", path.read_bytes()[:-9], b"x" * 99):
        (tmp_path / "damaged.safetensors").write_bytes(damage)
        with pytest.raises(ArtefactError, match="not a readable safetensors file"):
            load_policy(tmp_path / "damaged.safetensors")
    weights = {name: weight.numpy() for name, weight in policy.network.state_dict().items()}
    kind = artefact.policy_file(FORMAT)
    artefact.save(path, kind, "hetgym-checkpoint", {}, weights)
    with pytest.raises(ArtefactError, match="not a hetgym-policy"):
        load_policy(path)
    card = {"network": policy.network.card() | {"level": "graph"}}
    artefact.save(path, kind, FORMAT, card, weights)
    with pytest.raises(ArtefactError, match="do not fit their card"):
        load_policy(path)
    bad = {name: weight * np.nan for name, weight in weights.items()}
    artefact.save(path, kind, FORMAT, {"network": policy.network.card()}, bad)
    with pytest.raises(ArtefactError, match="not finite"):
        load_policy(path)
    with pytest.raises(ArtefactError, match="cannot be written"):
        policy.save(tmp_path / "none" / "policy.safetensors")
