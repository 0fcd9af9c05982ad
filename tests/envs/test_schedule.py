"""HetSchedule-v0 by what it promises: HEFT is zero, masks hold, episodes replay, errors are sentences."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.baselines import heft
from hetgym.envs import CANDIDATE_FEATURES, HetScheduleEnv, Replay, feature_table, replay
from hetgym.envs.core.scaling import CLIP
from hetgym.workloads import textbook

COLUMN = {feature.name: k for k, feature in enumerate(CANDIDATE_FEATURES)}


def masked_problem() -> hetgym.Problem:
    inf = math.inf
    return hetgym.Problem.from_arrays(
        [[2.0, inf, 3.0], [inf, 4.0, 4.0], [1.0, 1.0, inf], [5.0, 2.0, 2.0]],
        [(0, 1, 1.0), (0, 2, 2.0), (1, 3, 1.0), (2, 3, 4.0)],
    )  # fmt: skip


def rollout(env: gym.Env, choose, seed: int | None = 0) -> tuple[float, dict]:
    obs, info = env.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        obs, reward, done, _, info = env.step(choose(obs, info))
        total += reward
    return total, info


def earliest_finish(obs: dict, info: dict) -> int:
    return int(np.argmin(np.where(info["action_mask"], obs["candidates"][:, COLUMN["finish"]], np.inf)))


@pytest.mark.parametrize("runtime", ["classic", "links"])
@pytest.mark.parametrize("name", ["topcuoglu", "arabnejad-barbosa"])
def test_heft_played_as_an_agent_returns_exactly_zero(name: str, runtime: str) -> None:
    problem = textbook(name)
    plan = heft(problem)
    env = HetScheduleEnv(problem, runtime=runtime)
    total, info = rollout(env, lambda obs, info: int(plan.assignment[obs["current"][0]]))
    assert info["makespan"] == info["reference"] == hetgym.simulate(problem, plan, runtime).makespan
    assert total == pytest.approx(0.0, abs=1e-12)
    assert info["schedule"].to_dict() == {**plan.to_dict(), "scheduler": "agent"}


def test_heft_played_on_random_problems_returns_zero() -> None:
    env = gym.make("HetSchedule-v0")
    for seed in range(10):
        env.reset(seed=seed)
        problem = env.unwrapped.problem
        plan = heft(problem)
        total, info = rollout(env, lambda obs, info, plan=plan: int(plan.assignment[obs["current"][0]]), seed)
        assert info["makespan"] == plan.makespan and total == pytest.approx(0.0, abs=1e-9)


def test_completion_of_the_first_decision_is_heft() -> None:
    problem = textbook("topcuoglu")
    obs, _ = HetScheduleEnv(problem, completion="eft").reset(seed=0)
    assert obs["candidates"][:, COLUMN["completion"]].min() <= 1.0 + 1e-6  # following HEFT gives the reference
    first = heft(problem).assignment[obs["current"][0]]
    assert obs["candidates"][first, COLUMN["completion"]] == pytest.approx(1.0)


@pytest.mark.parametrize("decode", ["insertion", "append", "bottom-level", "best"])
@pytest.mark.parametrize("runtime", ["classic", "links"])
def test_schedule_is_legal_and_simulates_to_the_makespan(decode: str, runtime: str) -> None:
    env = gym.make("HetSchedule-v0", decode=decode, runtime=runtime)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        _, info = rollout(env, lambda obs, info, rng=rng: int(rng.choice(np.flatnonzero(info["action_mask"]))), seed)
        problem = env.unwrapped.problem
        hetgym.validate(problem, info["schedule"])
        assert hetgym.simulate(problem, info["schedule"], runtime).makespan == info["makespan"]


def test_best_decode_is_the_best_of_the_others() -> None:
    problem = textbook("arabnejad-barbosa")
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.integers(0, 3, 10)
        makespans = {}
        for decode in ("insertion", "append", "bottom-level", "best"):
            turn = iter(actions)
            _, info = rollout(HetScheduleEnv(problem, decode=decode), lambda obs, info, turn=turn: int(next(turn)))
            makespans[decode] = info["makespan"]
        best = makespans.pop("best")
        assert best == min(makespans.values())


def test_masked_and_senseless_actions_take_the_earliest_finish() -> None:
    problem = masked_problem()
    for bad in (-1, 3, 99, 1.5, math.nan, math.inf, "gpu", None, [1, 2]):
        env = HetScheduleEnv(problem)
        _, honest = rollout(env, earliest_finish)
        env.reset(seed=0)
        done = False
        while not done:
            _, _, done, _, info = env.step(bad)
        assert info["illegal_actions"] == problem.num_operators
        assert info["makespan"] == honest["makespan"] and honest["illegal_actions"] == 0
    env = HetScheduleEnv(problem)
    obs, info = env.reset()
    assert info["action_mask"].tolist() == [True, False, True]
    assert (obs["candidates"][1] == CLIP).all()
    _, _, _, _, info = env.step(1)  # operator 0 cannot run there
    assert info["illegal_actions"] == 1


def test_numpy_actions_of_any_shape_are_taken() -> None:
    env = HetScheduleEnv(textbook("topcuoglu"))
    for action in (np.int64(2), np.array(2), np.array([2]), 2.0, True):
        env.reset(seed=0)
        _, _, _, _, info = env.step(action)
        assert info["illegal_actions"] == 0


def test_replay_reaches_the_same_makespan() -> None:
    env = gym.make("HetSchedule-v0", runtime="links")
    rng = np.random.default_rng(8)
    _, info = rollout(env, lambda obs, info: int(rng.integers(-1, 4)), seed=8)
    problem = env.unwrapped.problem
    again = replay(problem, info["replay"], runtime="links")
    assert again["makespan"] == info["makespan"] and again["illegal_actions"] == info["illegal_actions"] > 0
    assert again["replay"] == info["replay"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay(textbook("topcuoglu"), info["replay"])
    with pytest.raises(hetgym.ConfigError, match="10 actions, not 1"):
        replay(textbook("topcuoglu"), Replay(textbook("topcuoglu").id, None, (0,)))


def test_reset_option_forces_a_problem(tmp_path) -> None:
    env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"))
    _, info = env.reset(options={"problem": textbook("arabnejad-barbosa")})
    assert info["problem"] == "arabnejad-barbosa"
    textbook("arabnejad-barbosa").save(tmp_path / "ab.npz")
    assert env.reset(options={"problem": tmp_path / "ab.npz"})[1]["problem"] == "arabnejad-barbosa"
    assert env.reset()[1]["problem"] == "topcuoglu"
    with pytest.raises(hetgym.ConfigError, match="no option 'problm'"):
        env.reset(options={"problm": None})
    large = hetgym.Problem.from_arrays(np.ones((11, 3)), [])
    with pytest.raises(hetgym.ProblemError, match=r"11 operators.*max_operators=11"):
        env.reset(options={"problem": large})


def test_padding_does_not_change_an_episode() -> None:
    problem = textbook("topcuoglu")
    tight, wide = HetScheduleEnv(problem), HetScheduleEnv(problem, max_operators=64, max_edges=99, max_devices=8)
    a, b = rollout(tight, earliest_finish), rollout(wide, earliest_finish)
    assert a[0] == b[0] and a[1]["makespan"] == b[1]["makespan"]
    small, large = tight.reset(seed=0)[0], wide.reset(seed=0)[0]
    assert large["operators"].shape == (64, 12) and large["action_mask"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert np.array_equal(small["operators"], large["operators"][:10])
    assert np.array_equal(small["candidates"], large["candidates"][:3])
    assert not large["operators"][10:].any() and not large["candidates"][3:].any()


@pytest.mark.parametrize(
    "problem",
    [
        hetgym.Problem.from_arrays([[1.0]], []),
        hetgym.Problem.from_arrays([[1.0, 2.0]] * 5, []),
        hetgym.Problem.from_arrays([[0.0, 0.0]] * 3, [(0, 1, 0.0), (1, 2, 0.0)]),
        hetgym.Problem.from_arrays([[3.0]] * 4, [(0, 1, 5.0), (1, 2, 5.0)]),
    ],
    ids=["one operator", "no edges", "all free", "one device"],
)
def test_degenerate_problems_play_to_the_end(problem: hetgym.Problem) -> None:
    env = HetScheduleEnv(problem, runtime="links")
    total, info = rollout(env, earliest_finish)
    assert np.isfinite(total) and info["makespan"] >= 0
    assert env.observation_space.contains(env.reset()[0])


def test_several_problems_are_all_drawn() -> None:
    env = gym.make("HetSchedule-v0", problem=[textbook("topcuoglu"), textbook("arabnejad-barbosa")])
    env.reset(seed=0)
    assert {env.reset()[1]["problem"] for _ in range(30)} == {"topcuoglu", "arabnejad-barbosa"}


def test_real_graph_on_a_platform() -> None:
    env = gym.make("HetSchedule-v0", graph="squeezenet", platform="cpu-gpu")
    _, info = rollout(env, earliest_finish)
    assert info["problem"] == "squeezenet@cpu-gpu" and info["makespan"] == info["reference"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "plaec"}, "did you mean 'place'"),
        ({"reward": "dens"}, "did you mean 'dense'"),
        ({"decode": "insert"}, "did you mean 'insertion'"),
        ({"completion": "oct"}, "unknown completion 'oct'"),
        ({"runtime": "clasic"}, "did you mean 'classic'"),
        ({"problem": []}, "at least one problem"),
        ({"problem": 3}, "expected a hetgym.Problem or a path, got int"),
        ({"graph": "resnet50"}, "give both"),
        ({"graph": "resnet51", "platform": "cpu-gpu"}, "did you mean 'resnet50'"),
        ({"graph": "resnet50", "platform": "cpu-gpuu"}, "did you mean 'cpu-gpu'"),
        ({"problem": textbook("topcuoglu"), "suite": "zoo"}, "one source, not from problem and suite"),
        ({"generator": lambda rng: textbook("topcuoglu")}, "pass max_operators"),
        ({"generator": "layred"}, "did you mean 'layered'"),
        ({"problem": textbook("topcuoglu"), "max_operators": 0}, "positive whole number"),
        ({"problem": textbook("topcuoglu"), "max_operators": "all"}, "positive whole number"),
        ({"problem": "/nowhere/x.npz"}, "no such file"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict, message: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=message) as caught:
        HetScheduleEnv(**arguments)
    assert "\n" not in str(caught.value)


def test_a_generator_must_return_problems_that_fit() -> None:
    env = HetScheduleEnv(generator=lambda rng: 3, max_operators=5, max_edges=5, max_devices=2)
    with pytest.raises(hetgym.ConfigError, match="returned int"):
        env.reset(seed=0)
    env = HetScheduleEnv(generator=lambda rng: textbook("topcuoglu"), max_operators=5, max_edges=50, max_devices=3)
    with pytest.raises(hetgym.ProblemError, match="10 operators, observations are padded to 5"):
        env.reset(seed=0)


def test_documentation_names_every_feature_count() -> None:
    text = HetScheduleEnv.__doc__ or ""
    rows = {line.split("``")[1]: line for line in text.splitlines() if line.strip().startswith("| ``")}
    place = HetScheduleEnv(textbook("topcuoglu")).observation_space
    dispatch = HetScheduleEnv(textbook("topcuoglu"), mode="dispatch").observation_space
    for key, symbol, space in (
        ("operators", "N", place), ("devices", "D", place), ("candidates", "D", place), ("devices", "D", dispatch),
        ("candidates", "K D + 1", dispatch),
    ):  # fmt: skip
        assert f"[{symbol}, {space[key].shape[1]}]" in rows[key]
    written = {name for line in rows for name in line.split("``")} | set(text.split("``"))
    assert set(place) | set(dispatch) <= written
    assert len(feature_table(CANDIDATE_FEATURES).splitlines()) == len(CANDIDATE_FEATURES)


def test_devices_without_room_are_masked() -> None:
    problem = hetgym.Problem.from_arrays(
        [[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]], [(0, 1, 2.0), (1, 2, 2.0)], weight_bytes=[6.0, 5.0, 9.0],
        output_bytes=[2.0, 2.0, 0.0], memory_capacity=[12.0, 12.0],
    )  # fmt: skip
    env = HetScheduleEnv(problem, memory="mask")
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [True, True]
    _, _, _, _, info = env.step(0)  # 6 of weights and 2 of output are on device 0
    assert info["action_mask"].tolist() == [False, True]  # 6 + 5 of weights, 2 read and 2 written: 15
    _, _, _, _, info = env.step(1)
    assert info["action_mask"].tolist() == [True, False]  # neither fits, 6 + 9 + 2 there is less than 5 + 9 + 4
    assert HetScheduleEnv(problem).reset(seed=0)[1]["action_mask"].all()
