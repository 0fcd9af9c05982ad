"""hetgym's policies in Stable-Baselines3: its own tools work, and plain PPO respects masks."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    contrib = pytest.importorskip("sb3_contrib")
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.evaluation import evaluate_policy

import hetgym  # noqa: E402
from hetgym.agents import pretrained  # noqa: E402
from hetgym.agents.sb3 import ActionPolicy, MaskedActionPolicy, as_model  # noqa: E402
from hetgym.envs.sb3 import LaneVecEnv, make_vec_env  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402
from hetgym.workloads import textbook  # noqa: E402

SMALL: dict[str, Any] = {
    "n_steps": 8,
    "batch_size": 8,
    "device": "cpu",
    "seed": 0,
    "policy_kwargs": {"features_extractor_kwargs": {"hidden": 8, "embedding": 8, "layers": 1}},
}


def lanes(name: str = "HetPipeline-v0", **arguments: Any) -> LaneVecEnv:
    return make_vec_env(name, 2, seed=0, **arguments)


@pytest.mark.parametrize("level", [pytest.param("graph", marks=pytest.mark.slow), "candidates"])
@pytest.mark.parametrize("masked", [False, True])
def test_own_tools_of_stable_baselines3(level: str, masked: bool, tmp_path: Path) -> None:
    algorithm, policy = (contrib.MaskablePPO, MaskedActionPolicy) if masked else (sb3.PPO, ActionPolicy)
    envs = lanes(observation=level)
    model = algorithm(policy, envs, **SMALL)
    model.learn(32)
    network = model.policy.network
    assert network.actor is model.policy.action_net.head
    assert {id(p) for p in network.parameters()} == {id(p) for p in model.policy.parameters()}
    model.save(tmp_path / "model")
    again = algorithm.load(tmp_path / "model", env=envs)
    seen = envs.reset()
    assert np.array_equal(model.predict(seen, deterministic=True)[0], again.predict(seen, deterministic=True)[0])
    twin = copy.deepcopy(model.policy)
    assert twin.network.actor is twin.action_net.head is not network.actor
    mean, _ = evaluate_policy(model, envs, 4)
    assert np.isfinite(mean)


def test_plain_ppo_takes_legal_actions_alone() -> None:
    envs = lanes("HetDispatch-v0", observation="candidates", completion="off", candidates=3)
    model = sb3.PPO(ActionPolicy, envs, **SMALL)
    seen, blocked = envs.reset(), 0
    for _ in range(60):
        actions, _ = model.predict(seen)
        blocked += int((~envs.action_masks()).sum())
        seen, _, _, infos = envs.step(actions)
        assert all(info["illegal_actions"] == 0 for info in infos)
    assert blocked > 100
    observations = model.policy.obs_to_tensor(seen)[0]
    values, log_prob, entropy = model.policy.evaluate_actions(observations, torch.as_tensor(model.predict(seen)[0]))
    assert values.shape == (2, 1) and log_prob.isfinite().all() and entropy.isfinite().all()
    (log_prob.sum() + values.sum() + entropy.sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.policy.parameters())


def test_flat_observations_are_refused() -> None:
    with pytest.raises(ConfigError, match="observation='graph' or 'candidates'"):
        sb3.PPO(ActionPolicy, lanes(observation="flat"), **SMALL)


@pytest.mark.parametrize("name", [name for name in hetgym.agents.names() if "known" in pretrained.card(name)])
def test_every_compiled_policy_is_a_model(name: str) -> None:
    policy = hetgym.agents.load(name)
    places = {"HetSplit-v0": {"graph": "alexnet", "platform": "even-pair"}}
    envs = lanes(policy.card["env"], pool=None, **places.get(policy.card["env"], {}), **policy.arguments)
    try:
        model = as_model(policy, envs)
    except ConfigError as error:
        assert policy.kind in ("split", "pipeline", "dispatch") and "plans before the episode begins" in str(error)
        return
    rewards, lengths = evaluate_policy(model, envs, 4, return_episode_rewards=True)
    assert len(rewards) == 4 and min(lengths) > 3
    assert np.mean(rewards) > -0.05  # about as good as the reference, or better


@pytest.mark.slow
def test_plans_are_followed_in_lanes() -> None:
    envs = lanes("HetSchedule-v0", observation="candidates", completion="off", runtime="links")
    model = as_model(hetgym.agents.load("place-v2"), envs)
    seen, begun, ended = envs.reset(), np.ones(2, np.bool_), 0
    plans = [hetgym.agents.load("place-v2").plan(problem, runtime="links") for problem in envs.get_attr("problem")]
    while ended < 2:
        actions, _ = model.predict(seen, episode_start=begun)
        seen, _, begun, infos = envs.step(actions)
        for lane in np.flatnonzero(begun).tolist():
            if plans[lane] is not None:
                assert infos[lane]["schedule"].assignment.tolist() == plans[lane].assignment.tolist()
                plans[lane], ended = None, ended + 1


def test_planners_need_lanes_of_their_environment() -> None:
    envs = lanes("HetPipeline-v0", observation="candidates")
    with pytest.raises(ConfigError, match="plans before the episode begins"):
        as_model(hetgym.agents.load("place-v2"), envs)


def test_a_problem_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = lanes("HetSchedule-v0", problem=textbook("topcuoglu"), observation="candidates", completion="off")
    model: Any = as_model(hetgym.agents.load("place-v2"), envs)
    calls, schedule = [], model._agent.schedule
    monkeypatch.setattr(type(model._agent), "schedule", lambda self, *how: calls.append(how) or schedule(*how))
    evaluate_policy(model, envs, 6)
    assert len(calls) == envs.num_envs
