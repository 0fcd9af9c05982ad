"""Dispatch policies where jobs arrive one after the other, compared with online heuristics that know jobs.

    python studies/agents/agents_streaming.py --json agents-streaming.json

Jobs arrive in a Poisson process and share four devices; run times vary by 20 %. The objective is the mean time from a
job's arrival to its last finish. A heuristic orders the ready operators by their job, then by upward rank, and puts
each where it finishes first by the simulator's own estimate, with or without PEFT's optimistic cost. It commits at
once, or only while fewer than 1, 2 or 3 operators are on that device, so that a job that arrives later can overtake
what is left.
Figures are ratios to the mean time under the reference (highest upward rank first): mean and its standard error.

Episodes have seeds from --first on; the default ones were used for nothing else.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hetgym
from hetgym import Problem
from hetgym.envs import DISPATCH_CANDIDATE_FEATURES, HetDispatchEnv
from hetgym.planning.ranks import optimistic_cost, upward_rank
from hetgym.sim import online
from hetgym.sim.online import Situation

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _agents import linear, play  # noqa: E402
from _common import command_line, save, seconds, show  # noqa: E402
from agents_dispatch import OPPONENTS, changes_of_episode, paired  # noqa: E402

Key = Callable[["Crowd", npt.NDArray[Any]], npt.NDArray[Any]]
"""Says which of the ready operators [r] comes first: the least number [r] does."""


class Crowd:
    """The jobs of a run, as far as they are served.

    Args:
        problem: all jobs.
        job: [n] job of each operator.
        release: [n] time at which each operator becomes known [s].
    """

    def __init__(self, problem: Problem, job: npt.NDArray[Any], release: npt.NDArray[Any]) -> None:
        self.job = job
        self.work = problem.mean_cost
        self.rank = upward_rank(problem)
        count = int(job.max()) + 1
        self.came = np.array([release[job == j].min() for j in range(count)])
        self.total = np.bincount(job, self.work, count)
        self.left = self.total.copy()
        self.path = np.array([self.rank[job == j].max() for j in range(count)])
        self.served = np.zeros(count)

    def commit(self, operator: int) -> None:
        """Take note of a decision."""
        self.left[self.job[operator]] -= self.work[operator]
        self.served[self.job[operator]] += self.work[operator]


JOB_KEYS: dict[str, Key] = {
    "first come": lambda c, ready: c.came[c.job[ready]],
    "shortest job": lambda c, ready: c.total[c.job[ready]],
    "least work left": lambda c, ready: c.left[c.job[ready]],
    "shortest path": lambda c, ready: c.path[c.job[ready]],
    "fair share": lambda c, ready: c.served[c.job[ready]],
    "fair share by weight": lambda c, ready: c.served[c.job[ready]] / c.total[c.job[ready]],
    "highest rank": lambda c, ready: np.zeros(len(ready)),
    "lowest rank": lambda c, ready: c.rank[ready],
}
"""Orders of jobs."""

Heuristic = Callable[[Problem, npt.NDArray[Any], npt.NDArray[Any]], Callable[[Situation], tuple[int, int] | None]]


def by_job(key: Key, depth: int, look_ahead: bool) -> Heuristic:
    """Operators by job, then by upward rank, each on its best device, if fewer than ``depth`` operators are there."""

    def make(problem: Problem, job: npt.NDArray[Any], release: npt.NDArray[Any]) -> Any:
        crowd = Crowd(problem, job, release)
        extra = optimistic_cost(problem) if look_ahead else np.zeros(problem.cost.shape)

        def decide(now: Situation) -> tuple[int, int] | None:
            there = now.queued + now.running
            if depth and (there >= depth).all():
                return None
            for k in np.lexsort((-crowd.rank[now.ready], key(crowd, now.ready))):
                operator = int(now.ready[k])
                device = int(np.argmin(now.estimate(operator).finish + extra[operator]))
                if not depth or there[device] < depth:
                    crowd.commit(operator)
                    return operator, device
            return None

        return decide

    return make


def variants() -> dict[str, Heuristic]:
    """All heuristics by name."""
    found: dict[str, Heuristic] = {}
    for look_ahead, choice in ((False, "finish"), (True, "finish + optimistic cost")):
        for depth in (1, 2, 3):
            for name, key in JOB_KEYS.items():
                found[f"{name}, queues of {depth}, {choice}"] = by_job(key, depth, look_ahead)
        found[f"at once, {choice}"] = by_job(JOB_KEYS["least work left"], 0, look_ahead)
    for name in ("fcfs", "sjf", "min-min", "max-min", "sufferage", "donf", "peft"):
        found[name] = lambda problem, job, release, make=OPPONENTS[name]: make(problem)  # type: ignore[misc]
    return found


HEURISTICS = variants()


def mean_time(finish: npt.NDArray[Any], job: npt.NDArray[Any], release: npt.NDArray[Any]) -> float:
    """Mean time from the jobs' arrivals to their last finishes [s]."""
    return float(np.mean([finish[job == j].max() - release[job == j].min() for j in range(int(job.max()) + 1)]))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--episodes", type=int, default=40, help="for each rate of arrivals")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--gaps", type=float, nargs="+", default=[0.6, 0.3])
    parser.add_argument("--runtime", default="links")
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--slow-downs", type=int, default=0)
    parser.add_argument("--first", type=int, default=700_000, help="seed of the first episode")
    parser.add_argument("--policies", nargs="+", default=["dispatch", "planned-dispatch"], help="rules, names or paths")
    parser.add_argument("--tries", type=int, default=300, help="of the rule, for each decision and job")
    options = parser.parse_args()
    rule = linear(DISPATCH_CANDIDATE_FEATURES, completion=1.0, flow=0.3)
    agents: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "the rule": (rule, "job-time", {}),
        "the rule, with a plan": (rule, "job-time", {"tries": options.tries}),
    }
    for name in options.policies:
        policy = hetgym.agents.rule(name) if name in hetgym.agents.RULES else hetgym.agents.load(name)
        tries = {"tries": policy.arguments.get("tries", 0)}
        agents[name] = policy, "job-time", tries
        agents[f"{name}, for the makespan"] = policy, "makespan", tries
    rows = []
    for gap in options.gaps:
        ratios: dict[str, list[float]] = {}
        spent: dict[str, float] = {}
        shared: dict[str, Any] = {
            "observation": "candidates",
            "runtime": options.runtime,
            "jobs": options.jobs,
            "gap": gap,
            "noise": options.noise,
            "slow_downs": options.slow_downs,
        }
        episodes = range(options.first, options.first + options.episodes)
        reference = {}
        plain: Any = HetDispatchEnv(**shared, objective="job-time")
        for seed in episodes:
            plain.reset(seed=seed)
            problem, drawn, job = plain.problem, plain.lanes.drawn(0), job_of(plain.problem)
            reference[seed] = plain.lanes.instance(0).reference
            for name, make in HEURISTICS.items():
                decide = make(problem, job, drawn.release)
                trace = online(problem, decide, drawn.runtime, drawn.release, changes_of_episode(plain))
                found = mean_time(trace.finish, job, drawn.release)
                ratios.setdefault(name, []).append(found / reference[seed])
        for name, (agent, objective, more) in agents.items():
            env: Any = HetDispatchEnv(**shared, **more, objective=objective)
            begin, decisions = time.thread_time(), 0
            for seed in episodes:
                info = play(env, agent, seed)
                decisions += len(info["replay"].actions)
                drawn = env.lanes.drawn(0)
                found = mean_time(info["trace"].finish, job_of(info["trace"].problem), drawn.release)
                ratios.setdefault(f"agent: {name}", []).append(found / reference[seed])
            spent[f"agent: {name}"] = (time.thread_time() - begin) / decisions
        base = np.array(ratios[f"agent: {options.policies[-1]}"])
        for name, values in sorted(ratios.items(), key=lambda item: float(np.mean(item[1]))):
            error = float(np.std(values) / len(values) ** 0.5)
            ours, interval = paired([base], [values])
            row = {"gap": gap, "what": name, "mean": float(np.mean(values)), "error": error}
            rows.append(row | {"decision": spent.get(name), "ours": ours, "interval": interval})
    show(
        "Mean time of jobs over that of the reference",
        rows,
        {
            "gap": lambda row: f"{row['gap']:g}",
            "what": lambda row: row["what"],
            "mean": lambda row: f"{row['mean']:.3f}",
            "+-": lambda row: f"{row['error']:.3f}",
            "last policy over it": lambda row: "{:.3f} ({:.3f} to {:.3f})".format(row["ours"], *row["interval"]),
            "decision": lambda row: seconds(row["decision"]),
        },
    )
    save(options.json, "agents-streaming", rows)


def job_of(problem: Problem) -> npt.NDArray[Any]:
    """[n] job of each operator, by its name."""
    return np.array([int(name.partition("/")[0].removeprefix("job")) for name in problem.operator_names])


if __name__ == "__main__":
    main()
