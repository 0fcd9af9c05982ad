"""Results of hetgym digit by digit, to compare before and after a change that must not change results.

    python scripts/goldens.py record FILE [--only SECTION,...]
    python scripts/goldens.py compare FILE [OTHER]

``record`` writes ``{case: value}`` as JSON: numbers as ``float.hex()``, arrays as a digest. ``compare`` computes the
same cases again, or reads a second record, prints what differs, and exits with 1 if anything does. Sections:
``bench``, the schedules of all schedulers on hetbench-v2; ``random``, 1000 random problems under every preset;
``envs``, observations and returns under fixed seeds; ``policies``, plans of shipped policies. No result depends on
time: searches have their budgets of work, and solvers with time limits are left out. A record is valid for one
processor, as last digits of learned costs and of NumPy's functions may differ on another.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import hetgym
from hetgym import baselines, simulate
from hetgym.planning import aliases
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix, load_suite

Cases = Iterator[tuple[str, str]]

TIMED = ("cp-sat",)
SLOW = 450
"""Operators above which policies and searches are left out of ``bench``, as each takes seconds."""

POLICIES = "place-v1", "place-v1-search", "place-v2", "place-v2-search", "dispatch-v1", "dispatch-v2", "portfolio"

ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "place": ("HetSchedule-v0", {}),
    "place/links": ("HetSchedule-v0", {"runtime": "links", "decode": "best", "observation": "flat"}),
    "place/memory": ("HetSchedule-v0", {"memory": "mask", "completion": "eft"}),
    "dispatch": ("HetDispatch-v0", {}),
    "dispatch/jobs": ("HetDispatch-v0", {"runtime": "links", "noise": 0.2, "jobs": 3}),
    "dispatch/changes": ("HetDispatch-v0", {"slow_downs": 2, "losses": 1, "observation": "candidates"}),
    "split": ("HetSplit-v0", {"key_operators": 5}),
    "split/looking": ("HetSplit-v0", {"key_operators": 4, "lookahead": True, "completion": True}),
    "pipeline": ("HetPipeline-v0", {}),
    "pipeline/latency": ("HetPipeline-v0", {"objective": "latency", "observation": "flat"}),
    "pipeline/training": ("HetPipeline-v0", {"objective": "training", "schedule": "interleaved"}),
    "cluster": ("HetCluster-v0", {}),
    "improve": ("HetImprove-v0", {"accept": "metropolis"}),
    "improve/links": ("HetImprove-v0", {"runtime": "links", "start": "heft", "moves": None, "steps": 20}),
}
"""Case -> environment id and arguments."""


def digest(*values: Any) -> str:
    """A short digest of arrays, numbers and texts, the same for equal values of any integer type."""
    state = hashlib.sha256()
    for value in values:
        array = np.asarray(value)
        if array.dtype.kind in "iub":
            array = array.astype(np.int64)
        state.update(f"{array.dtype.kind}{array.shape}".encode())
        state.update(repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes())
    return state.hexdigest()[:16]


def attempt(work: Callable[[], tuple[Any, ...]]) -> str:
    """A number and a digest of the rest, or the name of the error that hetgym raised."""
    try:
        first, *rest = work()
    except hetgym.HetgymError as error:
        return f"raises {type(error).__name__}"
    return f"{float(first).hex()} {digest(*rest)}"


def planned(schedule: hetgym.Schedule) -> tuple[Any, ...]:
    return schedule.makespan, schedule.assignment, schedule.start, schedule.finish


def bench(number: int, names: Sequence[str]) -> Cases:
    problem = load_suite("hetbench-v2").specs[number].build()
    for name in names:
        row = baselines.get(name)
        heavy = row.kind in ("search", "policy", "rule") and problem.num_operators > SLOW
        if name not in TIMED and row.available and not heavy:
            yield f"bench/{problem.name}/{name}", attempt(lambda row=row: planned(row(problem)))


def mixed(number: int, _: Sequence[str]) -> Cases:
    for seed in range(number * 50, number * 50 + 50):
        problem = RandomMix()(np.random.default_rng(seed))
        for scheduler in ("heft", "donf"):
            schedule = baselines.get(scheduler)(problem)
            for preset in PRESETS:
                trace = simulate(problem, schedule, preset)
                case = trace.makespan, trace.start, trace.finish, trace.sent, trace.arrived, trace.memory.peak
                yield f"random/{seed}/{scheduler}/{preset}", attempt(lambda case=case: case)


def envs(number: int, _: Sequence[str]) -> Cases:
    case, (name, arguments) = list(ENVIRONMENTS.items())[number]
    env = gym.make(name, disable_env_checker=True, **arguments)
    rng = np.random.default_rng(number)
    for episode in range(4):
        observation, info = env.reset(seed=episode)
        seen, total, over = [digest(*flat(observation))], 0.0, False
        while not over:
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            observation, reward, over, _, info = env.step(action)
            seen.append(digest(*flat(observation), reward))
            total += float(reward)
        yield f"envs/{case}/{episode}", attempt(lambda: (total, info["makespan"], info["reference"], seen))  # noqa: B023


def flat(observation: Any) -> list[Any]:
    return [observation[key] for key in sorted(observation)] if isinstance(observation, dict) else [observation]


def policies(number: int, _: Sequence[str]) -> Cases:
    problem = RandomMix()(np.random.default_rng(10_000 + number))
    for name in POLICIES:
        for preset in ("classic", "links", "framework"):
            work = lambda name=name, preset=preset: planned(baselines.get(name)(problem, runtime=preset))  # noqa: E731
            yield f"policies/{number}/{name}/{preset}", attempt(work)


SECTIONS = {"bench": (bench, 80), "random": (mixed, 20), "envs": (envs, len(ENVIRONMENTS)), "policies": (policies, 4)}
"""Section -> its function, and the number of parts that run side by side."""


def part(job: tuple[str, int, Sequence[str]]) -> dict[str, str]:
    return dict(SECTIONS[job[0]][0](*job[1:]))


def compute(only: str, names: Sequence[str]) -> dict[str, str]:
    """All cases of the sections."""
    jobs = [(name, k, names) for name in only.split(",") for k in range(SECTIONS[name][1])]
    with ProcessPoolExecutor(2) as pool:
        return {case: value for found in pool.map(part, jobs) for case, value in found.items()}


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--only", default=",".join(SECTIONS))
    arguments = parser.parse_args()
    if arguments.command == "record":
        arguments.file.write_text(json.dumps(compute(arguments.only, [*baselines.names(), *aliases()]), indent=0))
        return
    known = json.loads(arguments.file.read_text())
    names = sorted({case.split("/")[-1] for case in known if case.startswith("bench/")})
    found = json.loads(arguments.other.read_text()) if arguments.other else compute(arguments.only, names)
    common = [case for case in known if case in found]
    lines = [f"{case}: {known[case]} -> {found[case]}" for case in common if known[case] != found[case]]
    missing, new = sorted(known.keys() - found.keys()), sorted(found.keys() - known.keys())
    print(*lines, f"{len(lines)} of {len(common)} differ; missing: {missing[:9]}, new: {new[:9]}", sep="\n")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
