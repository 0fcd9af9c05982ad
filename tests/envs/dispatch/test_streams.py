"""Streams of jobs: when they arrive, by what rule they are served, and how long they take."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import Problem
from hetgym.envs import HetDispatchEnv, replay
from hetgym.envs.core.replay import Replay
from hetgym.envs.dispatch.service import RULES
from hetgym.errors import ConfigError, UnknownName


def job(*costs: float) -> Problem:
    """A chain of operators on one device."""
    return Problem.from_arrays([[cost] for cost in costs], [(k, k + 1, 0.0) for k in range(len(costs) - 1)])


def played(env: Any, agent: Any = None, seed: int | None = 0, **options: Any) -> dict[str, Any]:
    return hetgym.agents.play(env, agent or hetgym.agents.in_turn(), seed, options).info


def served(info: dict[str, Any]) -> list[int]:
    """Operators in the order of their starts."""
    return [int(i) for i in np.argsort(info["trace"].start, kind="stable")]


def stream(problems: list[Problem], **arguments: Any) -> HetDispatchEnv:
    """An environment whose episodes are given as lists of jobs."""
    sizes = {"max_operators": 64, "max_edges": 64, "max_devices": problems[0].num_devices}
    return HetDispatchEnv(generator=lambda rng: problems[0], jobs=len(problems), completion="off", **sizes, **arguments)


THREE = [job(3.0, 3.0), job(1.0), job(2.0, 1.0)]  # operators 0 and 1; 2; 3 and 4


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        ("fifo", [0, 2, 3, 1, 4]),  # all came together, so the operators that have been ready longest
        ("spt", [2, 3, 4, 0, 1]),
        ("mwkr", [0, 1, 3, 2, 4]),  # 6, 3; then 3, 1 and 1: ties by rank, then by number
        ("mor", [0, 3, 1, 2, 4]),  # 2, 2 and 1: ties by rank
        ("wspt", [2, 3, 4, 0, 1]),
        ("srpt", [2, 3, 4, 0, 1]),
        ("fair", [0, 1, 2, 3, 4]),  # with one device no job has more under way than another: by number
    ],
)
def test_each_rule_by_hand(rule: str, order: list[int]) -> None:
    env = stream(THREE, arrivals=[0.0, 0.0, 0.0], rule=rule, objective="job-time")
    info = played(env, problem=THREE)
    assert served(info) == order
    assert info["value"] == pytest.approx(info["reference"], rel=1e-12), "the agent serves as the reference does"


def test_weights_change_wspt_and_fair() -> None:
    env = stream(THREE, arrivals=[0.0, 0.0, 0.0], weights=[10.0, 1.0, 1.0], rule="wspt", objective="job-time")
    info = played(env, problem=THREE)
    assert served(info) == [0, 1, 2, 3, 4], "6 / 10 is less than 1 / 1"
    ends = [6.0, 7.0, 10.0]
    assert list(info["jobs"].end) == ends and info["flow_time"] == pytest.approx(np.mean(ends))
    assert info["weighted_flow_time"] == info["value"] == pytest.approx(np.average(ends, weights=[10, 1, 1]))
    two = [Problem.from_arrays(np.ones((3, 2)), []) for _ in range(2)]
    for weights, first in (([1.0, 1.0], [0, 3]), ([3.0, 1.0], [0, 3]), ([1.0, 3.0], [0, 3])):
        info = played(stream(two, arrivals=[0.0, 0.0], weights=weights, rule="fair"), problem=two)
        assert sorted(served(info)[:2]) == first, "a device for each of two jobs"


def test_fair_shares_devices_out_by_weight() -> None:
    """Four devices and two jobs of six operators: three for the job that weighs three times as much."""
    two = [Problem.from_arrays(np.ones((6, 4)), []) for _ in range(2)]
    info = played(stream(two, arrivals=[0.0, 0.0], weights=[3.0, 1.0], rule="fair"), problem=two)
    begun = np.flatnonzero(info["trace"].start == 0.0)
    assert (begun < 6).sum() == 3 and len(begun) == 4


@pytest.mark.parametrize("rule", [*RULES, None])
def test_an_agent_that_serves_in_turn_gets_what_the_reference_gets(rule: str | None) -> None:
    env = HetDispatchEnv(jobs=4, load=0.8, rule=rule or "rank", objective="job-time", completion="off", noise=0.1)
    total = hetgym.agents.play(env, hetgym.agents.in_turn(), 5).total_reward
    assert total == pytest.approx(0.0, abs=0.02), "but for candidates that are hidden, and rounded features"


def test_completions_of_a_stream_are_those_of_the_whole_run() -> None:
    """Jobs one after the other on one device: when the last is left, all that others took is known."""
    env = HetDispatchEnv(
        [job(1.0), job(2.0)], jobs=6, arrivals=[0.0, 10.0, 20.0, 30.0, 40.0, 50.0], objective="job-time", noise=0.3
    )
    env.reset(seed=1)
    over, told = False, 0.0
    while not over:
        told = float(env.lanes.state.completion[0, 0])  # type: ignore[attr-defined]
        _, _, over, _, info = env.step(0)
    flow, last = info["jobs"].flow, env.problem.cost[-1, 0]
    assert told == pytest.approx((flow[:-1].sum() + last) / 6, rel=1e-12)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_flow_times_are_those_of_lindley(load: float, count: int) -> None:
    """One device, first come, first served: W' = max(0, W + S - A)."""
    rng = np.random.default_rng(3)
    arrivals = np.cumsum(np.concatenate([[0.0], rng.exponential(1.0 / load, count - 1)]))
    env = HetDispatchEnv(
        job(1.0), arrivals=arrivals.tolist(), rule="fifo", objective="job-time", completion="off", candidates=1,
        observation="candidates",
    )  # fmt: skip
    env.reset(seed=0)
    wait, flow = 0.0, np.empty(count)
    for k in range(count):
        wait = 0.0 if k == 0 else max(0.0, wait + 1.0 - (arrivals[k] - arrivals[k - 1]))
        flow[k] = wait + 1.0
    instance: Any = env.lanes.instance(0)  # type: ignore[attr-defined]
    assert instance.reference == pytest.approx(flow.mean(), rel=1e-12)
    done = False
    while not done:
        _, _, done, _, info = env.step(0)
    assert np.abs(info["jobs"].flow - flow).max() <= 1e-12 * arrivals[-1]
    assert info["flow_time"] == pytest.approx(flow.mean(), rel=1e-12)


def test_the_shortest_first_take_less_time_than_the_first_first() -> None:
    def draw(rng: np.random.Generator) -> Problem:
        return job(float(rng.exponential(1.0)))

    sizes = {"max_operators": 400, "max_edges": 0, "max_devices": 1}
    found = {}
    for rule in ("fifo", "srpt"):
        env = HetDispatchEnv(
            generator=draw, jobs=400, load=0.8, rule=rule, objective="job-time", completion="off", **sizes
        )
        values = []
        for seed in range(5):
            env.reset(seed=seed)
            values.append(env.lanes.instance(0).reference)  # type: ignore[attr-defined]
        found[rule] = np.array(values)
    assert (found["srpt"] < found["fifo"]).all() and found["srpt"].mean() < 0.8 * found["fifo"].mean()


def test_a_load_is_the_work_of_the_source_over_the_machine() -> None:
    """Two devices and jobs of 4 s and 8 s: the mean work is 3 s of the machine, so one arrives every 6 s."""
    problems = [Problem.from_arrays([[4.0, 4.0]], []), Problem.from_arrays([[8.0, 8.0]], [])]
    env = HetDispatchEnv(problems, jobs=2000, load=0.5, completion="off", rule="fifo", observation="candidates")
    env.reset(seed=0)
    arrival = np.unique(env.lanes.drawn(0).release)  # type: ignore[attr-defined]
    assert np.diff(arrival).mean() == pytest.approx(6.0, rel=0.06)


def test_arrivals_from_a_list_a_file_and_a_callable(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.txt"
    file.write_text("# seconds\n0, 2.5\n7\n")
    given: list[Any] = [[0.0, 2.5, 7.0], str(file), file, lambda rng, count: np.array([0.0, 2.5, 7.0])[:count]]
    for arrivals in given:
        more = {"jobs": 3} if callable(arrivals) else {}
        env = HetDispatchEnv(job(1.0), arrivals=arrivals, completion="off", **more)
        _, info = env.reset(seed=0)
        info = played(env)
        assert info["jobs"].arrival.tolist() == [0.0, 2.5, 7.0] and info["jobs"].flow.tolist() == [1.0] * 3
        assert len(env.replayable) == 3


def test_an_option_of_a_reset_comes_before_the_arguments_and_is_replayed() -> None:
    env = HetDispatchEnv(job(1.0, 2.0), jobs=2, weights=[1.0, 4.0], objective="job-time", completion="off")
    plain = played(env)
    info = played(env, arrivals=[0.0, 1.0], weights=[1.0, 1.0])
    assert info["jobs"].arrival.tolist() == [0.0, 1.0] and info["jobs"].weight.tolist() == [1.0, 1.0]
    late = played(env, release=[0.0, 0.0, 5.0, 6.0])
    assert late["jobs"].arrival.tolist() == [0.0, 5.0] and late["trace"].start.tolist()[2:] == [5.0, 6.0]
    for one in (plain, info, late):
        written = json.loads(json.dumps(asdict(one["replay"])))
        again = replay([job(1.0, 2.0)] * 2, Replay(**written))
        assert again["jobs"].flow.tolist() == one["jobs"].flow.tolist()
        assert again["weighted_flow_time"] == one["value"]


def test_the_lists_of_one_reset_are_not_those_of_the_next() -> None:
    env = HetDispatchEnv(job(1.0, 2.0), completion="off")
    assert played(env, release=[0.0, 5.0])["replay"].release == (0.0, 5.0)
    info = played(env)
    assert info["replay"].release is None and info["makespan"] == 3.0
    assert replay(job(1.0, 2.0), info["replay"])["makespan"] == 3.0


def test_times_of_jobs_are_equal_if_all_are() -> None:
    env = HetDispatchEnv(job(1.0), jobs=2, completion="off")
    one, again, other = (played(env, arrivals=[0.0, 3.0], weights=[1.0, w])["jobs"] for w in (2.0, 2.0, 3.0))
    assert one == again != other and one != "jobs"


def test_release_times_of_a_single_problem() -> None:
    three = Problem.from_arrays([[1.0]] * 3, [])
    env = HetDispatchEnv(three, release=[10.0, 20.0, 30.0], completion="off", objective="job-time")
    _, info = env.reset(seed=0)
    assert info["action_mask"][:-1].sum() == 1, "only the first has become known"
    info = played(env)
    assert info["trace"].start.tolist() == [10.0, 20.0, 30.0] and info["value"] == 1.0 == info["flow_time"]


def test_lanes_equal_scalar_environments() -> None:
    arguments: dict[str, Any] = {
        "jobs": 5, "load": 0.7, "rule": "srpt", "objective": "job-time", "noise": 0.1, "completion": "off",
        "weights": lambda rng, count: rng.uniform(1.0, 2.0, count),
    }  # fmt: skip
    envs = gym.make_vec("HetDispatch-v0", num_envs=3, pool=None, **arguments)
    seen, infos = envs.reset(seed=4)
    scalars = [gym.make("HetDispatch-v0", **arguments) for _ in range(3)]
    ended: dict[int, dict[str, Any]] = {}
    live = {lane: env.reset(seed=4 + lane)[1] for lane, env in enumerate(scalars)}
    while len(ended) < 3:
        mask = infos["action_mask"]
        actions = mask.argmax(axis=1)
        seen, _, over, _, infos = envs.step(actions)
        for lane in list(live):
            observation, _, done, _, info = scalars[lane].step(int(actions[lane]))
            assert np.array_equal(observation["candidates"], seen["candidates"][lane])
            if done:
                ended[lane] = info
                del live[lane]
                for key in ("flow_time", "weighted_flow_time", "makespan"):
                    assert infos[key][lane] == info[key]
        if len(live) < 3 and live and any(over):
            break  # the lanes that have ended begin anew, the others are compared above
    assert ended


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arrivals": [0.0, -1.0]}, "none of them negative"),
        ({"arrivals": "nowhere.txt"}, "nowhere.txt"),
        ({"arrivals": [0.0, 1.0], "jobs": 3}, "2 arrivals for jobs=3"),
        ({"arrivals": [0.0, 1.0], "load": 0.5}, "both say when jobs arrive"),
        ({"load": 0.0}, "load is 0"),
        ({"load": float("nan")}, "load is nan"),
        ({"weights": [0.0]}, "weights must be positive"),
        ({"weights": lambda rng, count: [-1.0] * count}, "none of them negative"),
        ({"weights": "heavy"}, "not a list of numbers"),
    ],
)
def test_what_makes_no_stream_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HetDispatchEnv(job(1.0), **arguments).reset(seed=0)


def test_wrong_numbers_of_times_are_refused_at_reset() -> None:
    env = HetDispatchEnv(job(1.0, 1.0), jobs=2, completion="off")
    for options, message in (
        ({"arrivals": [0.0]}, "arrivals holds 1 times for 2 jobs"),
        ({"release": [0.0] * 3}, "release holds 3 times for 4 operators"),
        ({"weights": [1.0] * 3}, "3 weights for 2 jobs"),
        ({"arrivals": [0.0, 1.0], "release": [0.0] * 4}, "give one of them"),
    ):
        with pytest.raises(ConfigError, match=message):
            env.reset(seed=0, options=options)
    with pytest.raises(UnknownName, match="srtp"):
        HetDispatchEnv(rule="srtp")  # type: ignore[arg-type]
    env = HetDispatchEnv(job(1.0), jobs=2, arrivals=lambda rng, count: [0.0])
    with pytest.raises(ConfigError, match="arrivals holds 1 times for 2 jobs"):
        env.reset(seed=0)
