"""Agents without parameters, the shipped policy and annealing in HetPipeline-v0, on held-out pipelines.

    python benchmarks/agents_pipeline.py --json agents-pipeline.json
    python benchmarks/agents_pipeline.py --chains 100 --agents pipeline-v1 annealed --large 40

Random chains on two accelerators and two CPUs under every objective and schedule, and the networks of the zoo,
cut at the trunk, on every platform of two devices or more; with ``--large``, also chains of 24 to 48 blocks on eight
devices and of 40 to 80 blocks on sixteen, with twice as many micro-batches as devices. The seeds of chains are 0, 1, …;
nothing was fitted or chosen on these. Figures are ratios of values to the reference, which is the
better of one device and equal cuts: mean with its bootstrap interval, worst, and share of pipelines that are worse than the reference. Where the
optimum is known, there are also the mean ratio to the optimum and the share of pipelines within 2 % of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _agents import Rule, linear, play, summary, uniform
from _common import save, seconds, show

import hetgym
from hetgym.agents import CandidatePolicy
from hetgym.envs import CUT_FEATURES, HetPipelineEnv
from hetgym.errors import ProblemError
from hetgym.graph import zoo
from hetgym.pipeline import SCHEDULES, RandomChains, TrainingPipeline, training_pipeline
from hetgym.platform import load_platform, platform_names

CASES: tuple[dict[str, Any], ...] = (
    {},
    {"objective": "latency"},
    *({"objective": "training", "schedule": name} for name in sorted(SCHEDULES)),
)


def agents() -> dict[str, Rule]:
    """Name -> rule, for all rules that are compared."""
    rules = {name: linear(CUT_FEATURES, **{name: 1.0}) for name in ("load", "bound", "completion")}
    return {"uniform": uniform(), **rules}


def cases(chains: int) -> Iterator[tuple[str, dict[str, Any], list[TrainingPipeline]]]:
    """Title, arguments of the environment and pipelines of each set."""
    for arguments in CASES:
        title = " ".join(str(value) for value in arguments.values()) or "throughput"
        drawn = [RandomChains()(np.random.default_rng(seed)) for seed in range(chains)]
        yield f"chains, {title}", arguments, drawn
    pipelines = []
    for platform in platform_names():
        for network in zoo.names():
            try:
                step = training_pipeline(zoo.load(network), load_platform(platform))
                HetPipelineEnv(step, optimal=False).reset(seed=0)
            except ProblemError:  # too many sets of devices
                continue
            if step.problem.num_devices > 1:
                pipelines.append(step)
    for arguments in CASES[:3] if chains else ():
        title = " ".join(str(value) for value in arguments.values()) or "throughput"
        yield f"zoo, {title}", arguments, pipelines


def one_episode(env: HetPipelineEnv, rule: Rule, pipeline: TrainingPipeline) -> dict[str, Any]:
    """Play an episode of a rule and return its last info."""
    return play(env, rule, 0, {"problem": pipeline})


def one_plan(
    policy: CandidatePolicy, samples: int | None, arguments: dict[str, Any], pipeline: TrainingPipeline
) -> dict[str, Any]:
    """The last info of the policy's best episode; with its default number, the reference's cut is a candidate, too."""
    info = policy.play(samples, problem=pipeline, **arguments)
    return info if samples else info | {"value": min(info["value"], info["reference"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=200, help="random chains of each kind")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args()
    rows = []
    policy = hetgym.agents.load("pipeline-v1")
    for title, arguments, pipelines in cases(options.chains):
        env = HetPipelineEnv(pipelines, **arguments)
        plays = {name: partial(one_episode, env, rule) for name, rule in agents().items()}
        plays["pipeline-v1, greedy"] = partial(one_plan, policy, 1, arguments)
        plays["pipeline-v1"] = partial(one_plan, policy, None, arguments)
        for name, episode in plays.items():
            begin = time.thread_time()
            infos = [episode(each) for each in pipelines]
            spent = (time.thread_time() - begin) / len(pipelines)
            known = np.array([info["value"] / info["optimal"] for info in infos])
            known = known[np.isfinite(known)]
            row: dict[str, Any] = {"problems": title, "count": len(infos), "agent": name, "known": len(known)}
            row["time"] = spent
            row |= summary(info["value"] / info["reference"] for info in infos)
            if len(known):
                row |= {"optimum": float(known.mean()), "within": float((known <= 1.02).mean())}
            rows.append(row)
    show(
        "Values over the reference, and over the optimum",
        rows,
        {
            "problems": lambda row: f"{row['problems']} ({row['count']})",
            "what": lambda row: row["agent"],
            "mean": lambda row: f"{row['mean']:.3f}",
            "worst": lambda row: f"{row['worst']:.3f}",
            "worse": lambda row: f"{row['lost']:.1%}",
            "known": lambda row: str(row["known"]),
            "over optimum": lambda row: f"{row['optimum']:.4f}" if row["known"] else "-",
            "within 2 %": lambda row: f"{row['within']:.0%}" if row["known"] else "-",
            "time": lambda row: seconds(row["time"]),
        },
    )
    save(options.json, "agents-pipeline", rows)


if __name__ == "__main__":
    main()
