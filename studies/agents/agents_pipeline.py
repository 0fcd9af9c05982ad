"""Agents without parameters, the shipped policy and annealing in HetPipeline-v0, on held-out pipelines.

    python studies/agents/agents_pipeline.py --json agents-pipeline.json
    python studies/agents/agents_pipeline.py --seed 20000 --agents pipeline-v1 annealed --large 40 --enumerate
    python studies/agents/agents_pipeline.py --seed 20000 --agents pipeline-v1 annealed longer --longer 50

Random chains on two accelerators and two CPUs under every objective and schedule, and the networks of the zoo, cut at
the trunk, on every platform of two devices or more; with ``--large``, also chains of 24 to 48 blocks on eight devices
and of 40 to 80 blocks on sixteen, with twice as many micro-batches as devices. Chains have seeds from ``--seed`` on;
nothing was fitted or chosen on those from 20 000 on. *longer* anneals with ``--longer`` times the tries of a small
pipeline. Figures are ratios of values to the reference, which is the better of one device and equal cuts.

Without ``--agents`` the agents without parameters play: mean ratios, and for *completion* the worst, the share of
pipelines that are worse than the reference, and the mean ratio to the best of all cuts of small chains. With
``--agents`` there are mean, worst and share for each of them, and ratios to the values of ``pipeline-v1``: their mean
with a 95 % bootstrap interval, and the largest. Where the optimum is known, there are also the mean ratio to the
optimum and the share of pipelines within 2 % of it.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hetgym
from hetgym.agents import CandidatePolicy
from hetgym.baselines.pipeline import annealed_cut
from hetgym.baselines.pipeline.annealing import LEAST
from hetgym.envs import CUT_FEATURES, HetPipelineEnv
from hetgym.errors import ProblemError
from hetgym.graph import zoo
from hetgym.pipeline import SCHEDULES, Objective, RandomChains, Stage, TrainingPipeline, cut_problem, training_pipeline
from hetgym.platform import load_platform, platform_names

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _agents import Rule, linear, play, summary, uniform  # noqa: E402
from _common import command_line, save, seconds, show  # noqa: E402

CASES: tuple[dict[str, Any], ...] = (
    {},
    {"objective": "latency"},
    *({"objective": "training", "schedule": name} for name in sorted(SCHEDULES)),
)


WORDS = {"1f1b": "1F1B", "gpipe": "GPipe", "zb-h1": "ZB-H1"}
"""Names of objectives and schedules in tables."""


def agents() -> dict[str, Rule]:
    """Name -> rule, for all rules that are compared."""
    rules = {name: linear(CUT_FEATURES, **{name: 1.0}) for name in ("load", "bound", "completion")}
    return {"uniform": uniform(), **rules}


LARGE = (
    (RandomChains((24, 48), accelerators=4, cpus=4), 16),
    (RandomChains((40, 80), accelerators=8, cpus=8), 32),
)
"""Generators of larger chains, and their numbers of micro-batches."""


def words(arguments: dict[str, Any]) -> str:
    """The objective or the schedule in a word."""
    name: str = arguments.get("schedule", arguments.get("objective", "throughput"))
    return WORDS.get(name, name)


def cases(chains: int, large: int, seed: int) -> Iterator[tuple[str, dict[str, Any], list[TrainingPipeline]]]:
    """Title, arguments of the environment and pipelines of each set."""
    for arguments in CASES:
        drawn = [RandomChains()(np.random.default_rng(seed + k)) for k in range(chains)]
        yield f"chains, {words(arguments)}", arguments, drawn
    for generator, batches in LARGE if large else ():
        for arguments in CASES[2:]:
            title = f"chains of {generator.blocks[0]}-{generator.blocks[1]}, {words(arguments)}"
            drawn = [generator(np.random.default_rng(seed + k)) for k in range(large)]
            yield title, {**arguments, "micro_batches": batches}, drawn
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
    for arguments in CASES if chains else ():
        yield f"zoo, {words(arguments)}", arguments, pipelines


def one_episode(env: HetPipelineEnv, rule: Rule, pipeline: TrainingPipeline) -> dict[str, Any]:
    """Play an episode of a rule and return its last info."""
    return play(env, rule, 0, {"problem": pipeline})


def one_plan(
    policy: CandidatePolicy, samples: int | None, arguments: dict[str, Any], pipeline: TrainingPipeline
) -> dict[str, Any]:
    """The last info of the policy's best episode; with its default number, the reference's cut is a candidate, too."""
    info = policy.play(samples, problem=pipeline, **arguments)
    return info if samples else info | {"value": min(info["value"], info["reference"])}


def one_cut(arguments: dict[str, Any], tries: int | None, pipeline: TrainingPipeline) -> dict[str, Any]:
    """Value and reference of an annealed cut; the optimum is that of the other agents' episodes."""
    cuts = cut_problem(pipeline, Objective(**arguments))
    cut = annealed_cut(cuts, tries)
    assert cuts.fits(cut)
    return {"value": cuts.evaluate(cut).value, "reference": cuts.reference}


def least_of_all(arguments: dict[str, Any], pipeline: TrainingPipeline) -> float:
    """Least value of any cut that fits, by trying all; devices of a kind are used in turn [s]."""
    cuts = cut_problem(pipeline, Objective(**arguments))
    n, kind, best = len(cuts.names), cuts.problem.device_kind.tolist(), np.inf
    for p in range(1, min(n, len(kind)) + 1):
        for devices in itertools.permutations(range(len(kind)), p):
            if any(
                kind[d] == kind[e] and e < d and e not in devices[:k] for k, d in enumerate(devices) for e in range(d)
            ):
                continue
            for rounds in range(1, cuts.objective.rounds + 1):
                if cuts.tables.peak[rounds, p, 0] < 0:  # no such schedule
                    continue
                for ends in itertools.combinations(range(1, n), p * rounds - 1):
                    stages = zip((0, *ends), (*ends, n), devices * rounds, strict=True)
                    best = min(best, cuts.value_within([Stage(*stage) for stage in stages]))
    return best


def compare_rules(chains: int, seed: int) -> list[dict[str, Any]]:
    """Play the agents without parameters, and show their tables."""
    rows: list[dict[str, Any]] = []
    for title, arguments, pipelines in cases(chains, 0, seed):
        env = HetPipelineEnv(pipelines, **arguments, optimal=False)
        row: dict[str, Any] = {"problems": title, "count": len(pipelines)}
        for name, rule in agents().items():
            infos = [one_episode(env, rule, each) for each in pipelines]
            row[name] = summary(info["value"] / info["reference"] for info in infos)
        rows.append(row)
    show(
        "Mean value over the reference",
        rows,
        {
            "problems": lambda row: row["problems"],
            **{
                name if name == "uniform" else f"least {name}": lambda row, name=name: f"{row[name]['mean']:.3f}"  # type: ignore[misc]
                for name in agents()
            },
            "its worst": lambda row: f"{row['completion']['worst']:.3f}",
            "above the reference": lambda row: f"{100 * row['completion']['lost']:.1f} %",
        },
        "rules",
    )
    small: list[dict[str, Any]] = []
    for arguments in CASES:
        generator = RandomChains((7, 8) if arguments.get("schedule") == "interleaved" else (8, 10))
        pipelines = [generator(np.random.default_rng(seed + k)) for k in range(chains)]
        env = HetPipelineEnv(pipelines, **arguments, optimal=False)
        ratios = summary(
            one_episode(env, agents()["completion"], each)["value"] / least_of_all(arguments, each)
            for each in pipelines
        )
        small.append(
            {"schedule": f"{words(arguments)}, {generator.blocks[0]} to {generator.blocks[1]} blocks", **ratios}
        )
    show(
        "Least completion over the best of all cuts, small chains",
        small,
        {
            "schedule": lambda row: row["schedule"],
            "over the best": lambda row: f"{row['mean']:.3f}",
            "worst": lambda row: f"{row['worst']:.3f}",
        },
        "optimum",
    )
    return rows + small


def interval(ratios: npt.NDArray[np.float64]) -> list[float]:
    """95 % bootstrap interval of the mean."""
    rng = np.random.default_rng(0)
    means = [ratios[rng.integers(0, len(ratios), len(ratios))].mean() for _ in range(2000)]
    return [float(edge) for edge in np.percentile(means, [2.5, 97.5])]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--chains", type=int, default=200, help="random chains of each kind")
    parser.add_argument("--large", type=int, default=0, help="larger chains of each kind")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first chain of each kind")
    parser.add_argument("--longer", type=int, default=50, help="times the least tries of the agent *longer*")
    parser.add_argument("--enumerate", action="store_true", help="try all cuts of small chains under 1F1B and ZB-H1")
    parser.add_argument(
        "--agents", nargs="+", help="names of the agents that play; those without parameters by default"
    )
    options = parser.parse_args()
    if not options.agents:
        save(options.json, "agents-pipeline", compare_rules(options.chains, options.seed))
        return
    rows = []
    policy = hetgym.agents.load("pipeline-v1")
    for title, arguments, pipelines in cases(options.chains, options.large, options.seed):
        env = HetPipelineEnv(pipelines, **arguments)
        values: dict[str, npt.NDArray[np.float64]] = {}
        optima = np.full(len(pipelines), np.nan)
        plays = {name: partial(one_episode, env, rule) for name, rule in agents().items()}
        plays["pipeline-v1, greedy"] = partial(one_plan, policy, 1, arguments)
        plays["pipeline-v1"] = partial(one_plan, policy, None, arguments)
        plays["annealed"] = partial(one_cut, arguments, None)
        plays["longer"] = partial(one_cut, arguments, options.longer * LEAST)
        for name, episode in plays.items():
            if name not in options.agents:
                continue
            begin = time.thread_time()
            infos = [episode(each) for each in pipelines]
            spent = (time.thread_time() - begin) / len(pipelines)
            values[name] = np.array([info["value"] for info in infos])
            if options.enumerate and arguments.get("schedule") in ("1f1b", "zb-h1") and title.startswith("chains,"):
                if np.isnan(optima).all():
                    optima = np.array([least_of_all(arguments, each) for each in pipelines])
            elif name not in ("annealed", "longer"):
                optima = np.array([info["optimal"] for info in infos])
            known = values[name] / optima
            known = known[np.isfinite(known)]
            row: dict[str, Any] = {"problems": title, "count": len(infos), "agent": name, "known": len(known)}
            row["time"] = spent
            row |= summary(info["value"] / info["reference"] for info in infos)
            if "pipeline-v1" in values:
                shorter = values[name] / values["pipeline-v1"]
                row |= {"ratio": float(shorter.mean()), "interval": interval(shorter), "largest": float(shorter.max())}
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
            "over pipeline-v1": lambda row: (
                "{:.4f} [{:.4f}, {:.4f}]".format(row["ratio"], *row["interval"]) if "ratio" in row else "-"
            ),
            "largest": lambda row: f"{row['largest']:.4f}" if "ratio" in row else "-",
            "known": lambda row: str(row["known"]),
            "over optimum": lambda row: f"{row['optimum']:.4f}" if row["known"] else "-",
            "within 2 %": lambda row: f"{row['within']:.0%}" if row["known"] else "-",
            "time": lambda row: seconds(row["time"]),
        },
    )
    save(options.json, "agents-pipeline", rows)


if __name__ == "__main__":
    main()
