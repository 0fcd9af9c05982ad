"""Steps per second of the environments with random legal actions, compared with well-known environments.

    python benchmarks/envs.py [--json FILE] [--seconds 3] [--million]

Problems have 100 and 250 operators on four devices, with three inputs per operator. *Scalar* is ``gym.make`` without
the checker that Gymnasium adds for debugging; *lanes* are 64 of ``gym.make_vec``. Resets and final infos are
included: episodes end every 100 or 250 steps. ``--million`` steps a million times and prints the process's growth.
Peers in the same run: CartPole-v1 (scalar and Gymnasium's own 64 lanes), and JSSEnv (a job-shop environment; ta01)
where it is installed.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from _common import random_problem, save, show

import hetgym  # noqa: F401

LANES = 64
TARGETS = {
    ("graph", "off", "scalar"): 20e3,
    ("candidates", "off", "scalar"): 60e3,
    ("graph", "off", "lanes"): 100e3,
    ("candidates", "off", "lanes"): 500e3,
}
"""Observation, completion, kind -> required steps per second."""

COMPLETION_TARGET = 10e3
"""The same with the completion feature, 100 operators."""

COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "environment": lambda row: row["environment"],
    "operators": lambda row: str(row["operators"] or "-"),
    "observation": lambda row: row["observation"],
    "completion": lambda row: row["completion"],
    "kind": lambda row: row["kind"],
    "steps / s": lambda row: f"{row['steps_per_second']:,.0f}",
    "asked for": lambda row: f"{row['target']:,.0f}" if row["target"] else "-",
}


def scalar(env: gym.Env, choose: Callable[[Any, Any], Any], budget: float) -> float:
    """Steps per second of one environment, without the time to choose actions."""
    seen, info = env.reset(seed=0)
    for _ in range(3):  # kernels are compiled when they are first needed
        seen, _, _, _, info = env.step(choose(seen, info))
    steps, spent, end = 0, 0.0, time.perf_counter() + budget
    while time.perf_counter() < end:
        action = choose(seen, info)
        begin = time.perf_counter()
        seen, _, done, truncated, info = env.step(action)
        if done or truncated:
            seen, info = env.reset()
        spent += time.perf_counter() - begin
        steps += 1
    return steps / spent


def lanes(envs: gym.vector.VectorEnv, choose: Callable[[Any, Any], Any], budget: float) -> float:
    """Steps per second of all lanes of a vector environment together."""
    seen, info = envs.reset(seed=0)
    for _ in range(3):
        seen, _, _, _, info = envs.step(choose(seen, info))
    steps, spent, end = 0, 0.0, time.perf_counter() + budget
    while time.perf_counter() < end:
        actions = choose(seen, info)
        begin = time.perf_counter()
        seen, _, _, _, info = envs.step(actions)
        spent += time.perf_counter() - begin
        steps += envs.num_envs
    return steps / spent


def old_style(env: Any, rng: np.random.Generator, budget: float) -> float:
    """Steps per second of an environment with the interface before Gymnasium, such as JSSEnv."""
    seen = env.reset()
    steps, spent, end = 0, 0.0, time.perf_counter() + budget
    while time.perf_counter() < end:
        action = int(rng.choice(np.flatnonzero(seen["action_mask"])))
        begin = time.perf_counter()
        seen, _, done, *_ = env.step(action)
        if done:
            seen = env.reset()
        spent += time.perf_counter() - begin
        steps += 1
    return steps / spent


def legal(rng: np.random.Generator) -> tuple[Callable[[Any, Any], int], Callable[[Any, Any], Any]]:
    """Functions that draw a random legal action from one mask, and from one mask per lane."""

    def one(_: Any, info: Any) -> int:
        return int(rng.choice(np.flatnonzero(info["action_mask"])))

    def many(_: Any, info: Any) -> Any:
        return np.where(info["action_mask"], rng.random(info["action_mask"].shape), -1.0).argmax(axis=1)

    return one, many


def ours(budget: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """HetSchedule-v0 in both modes."""
    rows = []
    one, many = legal(rng)
    for operators in (100, 250):
        problem = random_problem(operators, 4)
        for mode in ("place", "dispatch"):
            for observation in ("graph", "candidates"):
                for completion in ("off", "eft+oct"):
                    arguments = {"problem": problem, "mode": mode, "observation": observation, "completion": completion}
                    for kind in ("scalar", "lanes"):
                        if kind == "scalar":
                            env = gym.make("HetSchedule-v0", disable_env_checker=True, **arguments)
                            speed = scalar(env, one, budget)
                        else:
                            speed = lanes(gym.make_vec("HetSchedule-v0", num_envs=LANES, **arguments), many, budget)
                        target = TARGETS.get((observation, completion, kind), 0) if mode == "place" else 0
                        if completion != "off" and operators == 100 and mode == "place":
                            target = COMPLETION_TARGET
                        rows.append(
                            {
                                "environment": f"HetSchedule-v0, {mode}",
                                "operators": operators,
                                "observation": observation,
                                "completion": completion,
                                "kind": kind,
                                "steps_per_second": speed,
                                "target": target,
                            }
                        )
    return rows


def others(budget: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """The other two environments with their default arguments."""
    rows = []
    one, many = legal(rng)
    for name in ("HetSplit-v0", "HetPipeline-v0"):
        speeds = {
            "scalar": scalar(gym.make(name, disable_env_checker=True), one, budget),
            "lanes": lanes(gym.make_vec(name, num_envs=LANES), many, budget),
        }
        rows += [
            {
                "environment": name,
                "operators": 0,
                "observation": "graph",
                "completion": "-",
                "kind": kind,
                "steps_per_second": speed,
                "target": 0,
            }
            for kind, speed in speeds.items()
        ]
    return rows


def peers(budget: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """CartPole, and JSSEnv where it is installed."""
    cart = gym.make("CartPole-v1", disable_env_checker=True)
    vector = gym.make_vec("CartPole-v1", num_envs=LANES, vectorization_mode="vector_entry_point")
    found = {
        ("CartPole-v1", "scalar"): scalar(cart, lambda *_: int(rng.integers(2)), budget),
        ("CartPole-v1", "lanes"): lanes(vector, lambda *_: rng.integers(2, size=LANES), budget),
    }
    try:
        from JSSEnv.envs.jss_env import JssEnv  # noqa: PLC0415

        found["JSSEnv, ta01", "scalar"] = old_style(JssEnv(), rng, budget)
    except Exception as reason:  # an old package, whose import may fail
        print(f"JSSEnv was not run: {reason}")
    return [
        {
            "environment": name,
            "operators": 0,
            "observation": "-",
            "completion": "-",
            "kind": kind,
            "steps_per_second": speed,
            "target": 0,
        }
        for (name, kind), speed in found.items()
    ]


def growth() -> dict[str, Any]:
    """Growth of the process's memory over a million steps of 64 lanes of new problems, without the first tenth."""
    envs = gym.make_vec("HetSchedule-v0", num_envs=LANES, observation="candidates", completion="off")
    _, many = legal(np.random.default_rng(0))
    seen, info = envs.reset(seed=0)
    sizes = []
    for step in range(1_000_000 // LANES):
        seen, _, _, _, info = envs.step(many(seen, info))
        if step % (100_000 // LANES) == 0:
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {"first_tenth_mib": sizes[1], "end_mib": sizes[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--million", action="store_true", help="also step a million times, for the memory")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = [*ours(options.seconds, rng), *others(options.seconds, rng), *peers(options.seconds, rng)]
    show("Steps a second, random legal actions", rows, COLUMNS)
    missed = [row for row in rows if row["steps_per_second"] < row["target"]]
    print(f"{sum(row['target'] > 0 for row in rows) - len(missed)} of {sum(row['target'] > 0 for row in rows)} reached")
    if options.million:
        print("memory over a million steps: {first_tenth_mib:.0f} -> {end_mib:.0f} MiB".format(**growth()))
    save(options.json, "envs", rows)


if __name__ == "__main__":
    main()
