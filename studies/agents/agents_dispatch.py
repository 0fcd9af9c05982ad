"""Agents without parameters and the shipped policy in HetDispatch-v0, compared with online heuristics.

    python studies/agents/agents_dispatch.py --json agents-dispatch.json
    python studies/agents/agents_dispatch.py --first 920000 --episodes 100 --zoo 6 --policies-only

Run times vary by 20 %, and one device slows down during the run. Opponents are the online heuristics of
hetgym.baselines, which decide in the same runs as the agents: ready operators, in the order of the heuristic's
priority, are put where they finish first by the simulator's own estimate. That estimate includes links and queues, so
it makes no difference which of DONF's communication models is used. Figures are ratios of makespans to those of the
reference (highest upward rank first). ``--policies-only`` leaves the agents without parameters out, and sets the
policies beside the best heuristic. With other policies, or on one set of problems, each agent and heuristic has a line:
mean, its standard error, worst, and share of runs that are slower. ``--bounds`` shows what plans reach that know the
noise.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym import Problem
from hetgym.agents import Policy
from hetgym.envs import DISPATCH_CANDIDATE_FEATURES, HetDispatchEnv
from hetgym.planning import lower_bound
from hetgym.planning.degrees import nested_out_degree, two_level_out_degree, weighted_out_degree
from hetgym.planning.ranks import optimistic_cost, upward_rank
from hetgym.sim import Loss, SlowDown, online
from hetgym.sim.online import Situation
from hetgym.sim.run import online_setting

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _agents import linear, play, summary, uniform  # noqa: E402
from _common import command_line, save, seconds, show  # noqa: E402

Decide = Callable[[Situation], tuple[int, int] | None]

ZOO = ("inception_v1", "squeezenet", "nasnet", "shufflenet", "bert_base", "lstm")
PLATFORMS = ("cpu-2gpu-nvlink", "cpu-gpu-npu", "8gpu-node")
POLICIES = ["dispatch", "planned-dispatch"]

RULES: dict[str, dict[str, float]] = {
    "finish": {"finish": 1.0, "is_wait": 10.0},
    "bound": {"bound": 1.0, "is_wait": 10.0},
    "completion": {"completion": 1.0},
    "completion, no wait": {"completion": 1.0, "is_wait": 10.0},
    "completion + 0.3 flow": {"completion": 1.0, "flow": 0.3},
}


WHO: dict[str, tuple[str, ...]] = {
    "least completion + 0.3 flow": ("agent: completion + 0.3 flow",),
    "least completion": ("agent: completion",),
    "the same, never waiting": ("agent: completion, no wait",),
    "upward rank; finish + optimistic cost": ("heft + oct",),
    "PEFT": ("peft",),
    "least bound": ("agent: bound",),
    "least finish": ("agent: finish",),
    "HEFT (the reference)": ("heft",),
    "min-min": ("min-min",),
    "MCT": ("mct",),
    "DONF, DONF2, ADON": ("donf", "donf2", "adon"),
    "sufferage, max-min": ("sufferage", "max-min"),
    "FCFS and SJF": ("fcfs", "sjf"),
    "MET, OLB": ("met", "olb"),
    "uniform": ("agent: uniform",),
}
"""Lines of the table of rules, and whose figures they hold."""


def listed(priority: Callable[[Problem], Any], bonus: Callable[[Problem], Any] | None = None) -> Any:
    """The ready operator of highest priority, on the device with the least finish plus bonus."""

    def make(problem: Problem) -> Decide:
        rank, position = np.asarray(priority(problem)), problem.arrays.position
        extra = np.zeros(problem.cost.shape) if bonus is None else bonus(problem)

        def decide(now: Situation) -> tuple[int, int]:
            operator = int(now.ready[np.lexsort((position[now.ready], -rank[now.ready]))[0]])
            return operator, int(np.argmin(now.estimate(operator).finish + extra[operator]))

        return decide

    return make


def first_fit(score: Callable[[Problem, Situation, int], Any]) -> Any:
    """The first ready operator in topological order, on the device of least score."""

    def make(problem: Problem) -> Decide:
        def decide(now: Situation) -> tuple[int, int]:
            operator = int(now.ready[0])
            able = np.isfinite(problem.cost[operator]) & now.alive
            return operator, int(np.argmin(np.where(able, score(problem, now, operator), np.inf)))

        return decide

    return make


def queue(key: Callable[[Problem], Any] | None) -> Any:
    """FCFS (without a key) or SJF: only idle devices get operators."""

    def make(problem: Problem) -> Decide:
        since: dict[int, float] = {}
        rank = None if key is None else key(problem)

        def decide(now: Situation) -> tuple[int, int] | None:
            for operator in now.ready.tolist():
                since.setdefault(operator, now.now)
            idle = (now.queued + now.running) == 0
            for operator in sorted(now.ready.tolist(), key=lambda i: since[i] if rank is None else rank[i]):
                finish = np.where(idle, now.estimate(operator).finish, np.inf)
                if np.isfinite(finish).any():
                    return operator, int(np.argmin(finish))
            return None

        return decide

    return make


def batch_mode(pick: Callable[[Any], int]) -> Any:
    """Min-min and similar heuristics: a rule picks one of all ready operators, each on its best device."""

    def make(_: Problem) -> Decide:
        def decide(now: Situation) -> tuple[int, int]:
            finish = np.stack([now.estimate(int(i)).finish for i in now.ready])
            at = pick(np.sort(finish, axis=1))
            return int(now.ready[at]), int(np.argmin(finish[at]))

        return decide

    return make


def _sufferage(finish: Any) -> int:
    return int(np.argmax(np.where(np.isfinite(finish[:, 1]), finish[:, 1] - finish[:, 0], np.inf)))


OPPONENTS: dict[str, Any] = {
    "mct": listed(lambda p: -p.arrays.position),
    "met": first_fit(lambda p, now, i: p.cost[i] * now.slowdown),
    "olb": first_fit(lambda p, now, i: now.queued + now.running),
    "fcfs": queue(None),
    "sjf": queue(lambda p: p.mean_cost),
    "donf": listed(weighted_out_degree),
    "donf2": listed(lambda p: two_level_out_degree(p, 0.5)),
    "adon": listed(lambda p: nested_out_degree(p, 0.5)),
    "heft": listed(upward_rank),
    "peft": listed(lambda p: optimistic_cost(p).mean(axis=1), optimistic_cost),
    "heft + oct": listed(upward_rank, optimistic_cost),
    "min-min": batch_mode(lambda f: int(np.argmin(f[:, 0]))),
    "max-min": batch_mode(lambda f: int(np.argmax(f[:, 0]))),
    "sufferage": batch_mode(_sufferage),
}


def opponents(env: HetDispatchEnv) -> dict[str, float]:
    """Opponent -> its makespan over that of the reference, under the conditions of the environment's episode."""
    lanes: Any = env.lanes
    drawn, problem, reference = lanes.drawn(0), lanes.problem(0), lanes.instance(0).reference
    changes = changes_of_episode(env)
    return {
        name: online(problem, make(problem), drawn.runtime, drawn.release, changes).makespan / reference
        for name, make in OPPONENTS.items()
    }


def changes_of_episode(env: HetDispatchEnv) -> list[SlowDown | Loss]:
    """The slow-downs and losses of the environment's episode."""
    lanes: Any = env.lanes
    drawn = lanes.drawn(0)
    return [
        SlowDown(int(d), float(at), float(factor)) if np.isfinite(factor) else Loss(int(d), float(at))
        for d, factor, at in zip(drawn.devices, drawn.factors, drawn.moments, strict=True)
    ]


def clairvoyant(env: HetDispatchEnv) -> dict[str, float]:
    """What runs without surprises could reach at best, over the reference; both know the noise, and nothing slows down.

    Returns:
        A proven lower bound on the makespan of every run of the episode, and two plans of place-v2: with inputs that
        leave as soon as they exist, as in plans, and with inputs that are requested when all of them exist, as in runs.
    """
    lanes: Any = env.lanes
    drawn, problem, reference = lanes.drawn(0), lanes.problem(0), lanes.instance(0).reference
    factor = online_setting(problem, drawn.runtime).factor
    known = problem.replace(cost=problem.cost * factor[:, None])
    calm = replace(drawn.runtime, noise=0.0)
    asked = replace(calm, transfers="aggregated")
    planner = hetgym.agents.load("place-v2")
    return {
        "proven bound": lower_bound(known, runtime=calm) / reference,
        "inputs moved as soon as they exist": planner.plan(known, runtime=calm).makespan / reference,
        "inputs requested when all exist": planner.plan(known, runtime=asked).makespan / reference,
    }


def paired(values: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> tuple[float, list[float]]:
    """Ratio of two means of paired figures, and its 95 % bootstrap interval over the episodes.

    Args:
        values: figures of one or several sets of episodes, each of which counts alike.
        base: the figures to compare with.
    """
    rng, above, below = np.random.default_rng(0), np.zeros(2000), np.zeros(2000)
    for one, other in zip(values, base, strict=True):
        draws = rng.integers(len(one), size=(2000, len(one)))
        above += np.array(one)[draws].mean(axis=1)
        below += np.array(other)[draws].mean(axis=1)
    means = [sum(float(np.mean(one)) for one in several) for several in (values, base)]
    return means[0] / means[1], np.percentile(above / below, [2.5, 97.5]).tolist()


def together(sets: Sequence[dict[str, list[float]]], first: str) -> list[dict[str, Any]]:
    """Rows of all sets of episodes, each of which counts alike."""
    rows = []
    for name in set.intersection(*(set(ratios) for ratios in sets)):
        parts = [summary(ratios[name]) for ratios in sets]
        whole = {key: float(np.mean([part[key] for part in parts])) for key in ("mean", "lost")}
        whole["error"] = float(np.sqrt(sum(part["error"] ** 2 for part in parts))) / len(parts)
        row = {"problems": "all sets", "what": name, "decision": 0.0, "worst": max(part["worst"] for part in parts)}
        ratio, interval = paired([ratios[name] for ratios in sets], [ratios[first] for ratios in sets])
        rows.append({**row, **whole, "paired": ratio, "interval": interval})
    return sorted(rows, key=lambda row: row["mean"])


def tables_of_rules(rows: Sequence[dict[str, Any]], bare: float) -> None:
    """Show the agents without parameters beside the heuristics, and what plans add.

    Args:
        rows: of all sets of episodes.
        bare: time of a decision of *least finish* without roll-outs, on the problems of the first set [s].
    """
    sets = list(dict.fromkeys(row["problems"] for row in rows if row["problems"] != "all sets"))
    found = {(row["problems"], row["what"]): row for row in rows}

    def means(where: str, names: tuple[str, ...]) -> str:
        values = sorted(found[where, name]["mean"] for name in names)
        return " to ".join(f"{value:.3f}" for value in dict.fromkeys((values[0], values[-1])))

    show(
        "Mean makespan over the reference",
        [{"who": who, **{where: means(where, names) for where in sets}} for who, names in WHO.items()],
        {
            "who decides": lambda row: row["who"],
            **{where: lambda row, where=where: row[where] for where in sets},  # type: ignore[misc]
        },
        "rules",
    )
    planned = {where: found[where, "agent: planned-dispatch"] for where in sets}
    show(
        "A plan as a third roll-out: makespan over that without",
        [planned],
        {
            "tries": lambda _: f"{hetgym.agents.rule('planned-dispatch').arguments['tries']} changes a decision",
            **{
                where.split()[-1]: lambda row, where=where: (  # type: ignore[misc]
                    "{:.3f} ({:.3f} to {:.3f})".format(row[where]["paired"], *row[where]["interval"])
                )
                for where in sets
            },
        },
        "plans",
    )
    best = "agent: completion + 0.3 flow"
    errors = [f"{found[where, best]['error']:.3f}" for where in sets]
    overall = found["all sets", "agent: completion"]
    first = {name: seconds(found[sets[0], f"agent: {name}"]["decision"]) for name in ("finish", "planned-dispatch")}
    figures = {
        "standard errors of the first row": f"{min(errors)} to {max(errors)}",
        "least completion over the first row, sets alike": "{:.3f} ({:.3f} to {:.3f})".format(
            overall["paired"], *overall["interval"]
        ),
        f"a decision with completions, {sets[0]}": first["finish"],
        f"a decision without completions, {sets[0]}": seconds(bare),
        f"a decision of planned-dispatch, {sets[0]}": first["planned-dispatch"],
    }
    show_figures(figures)


def tables_of_policies(found: Sequence[dict[str, Any]]) -> None:
    """Show the policies beside the best heuristic of each set of episodes."""
    plain, planned = (f"agent: {name}" for name in POLICIES)

    def ratio(some: list[dict[str, list[float]]], name: str, base: str) -> list[float]:
        mean, interval = paired([ratios[name] for ratios in some], [ratios[base] for ratios in some])
        return [mean, *interval]

    rows: list[dict[str, Any]] = []
    every = [part["ratios"] for part in found]
    sets = [(f"{part['problems']} ({len(part['ratios'][plain])})", [part["ratios"]]) for part in found]
    for title, some in [*sets, ("all sets, each alike", every)]:
        means = {
            name: float(np.mean([np.mean(ratios[name]) for ratios in some])) for name in (*OPPONENTS, plain, planned)
        }
        best = min(OPPONENTS, key=means.__getitem__)
        over = {"plans": ratio(some, planned, plain), "shorter": ratio(some, planned, best)}
        rows.append({"problems": title, "best": best, "means": means, **over})
    more = "{:.1f} % ({:.1f} to {:.1f})"
    for row in rows:
        mean, low, high = (100 * (1 - value) for value in row["shorter"])
        row["shorter by"] = more.format(mean, high, low)
    show(
        "Makespan over the reference",
        rows,
        {
            "problems": lambda row: row["problems"],
            **{name: lambda row, name=name: f"{row['means'][f'agent: {name}']:.3f}" for name in POLICIES},  # type: ignore[misc]
            "planned-dispatch over dispatch": lambda row: "{:.3f} ({:.3f} to {:.3f})".format(*row["plans"]),
            "best heuristic": lambda row: f"{row['means'][row['best']]:.3f} ({row['best']})",
            "planned-dispatch shorter by": lambda row: row["shorter by"],
        },
        "rules",
    )
    figures = {f"planned-dispatch over the best heuristic, mean of {len(sets)} sets": rows[-1]["shorter by"]}
    figures |= {
        f"a decision of planned-dispatch, {part['problems']}": seconds(part["spent"][planned]) for part in found
    }
    show_figures(figures)


def show_figures(figures: dict[str, str]) -> None:
    """Show single figures."""
    rows = [{"what": what, "figure": figure} for what, figure in figures.items()]
    columns = {"what": lambda row: row["what"], "figure": lambda row: row["figure"]}
    show("Further figures", rows, columns, "key-figures")


def table_of_bounds(found: Sequence[dict[str, Any]]) -> None:
    """Show what runs without surprises could reach at best."""
    show(
        "What plans reach that know all run times in advance",
        [{"problems": part["problems"], **{n: float(np.mean(r)) for n, r in part["ratios"].items()}} for part in found],
        {
            "problems": lambda row: row["problems"],
            **{name: lambda row, name=name: f"{row[name]:.3f}" for name in found[0]["ratios"]},  # type: ignore[misc]
        },
        "bounds",
    )


def timed(env: HetDispatchEnv, agent: Any, seeds: Sequence[int]) -> tuple[list[float], float]:
    """Makespans of an agent over the reference, and the processor time of a decision [s]."""
    play(env, agent, seeds[0])  # compiles
    ratios, decisions, begin = [], 0, time.thread_time()
    for seed in seeds:
        info = play(env, agent, seed)
        ratios.append(info["makespan"] / info["reference"])
        decisions += len(info["replay"].actions)
    return ratios, (time.thread_time() - begin) / decisions


def measured(
    options: Namespace, conditions: dict[str, Any], sets: Sequence[tuple[str, dict[str, Any], int]]
) -> list[dict[str, Any]]:
    """For each set of episodes the makespans over the reference, and the processor times of decisions [s]."""
    found = []
    for title, arguments, episodes in sets:
        env = HetDispatchEnv(**conditions, **arguments)
        seeds = range(options.first, options.first + episodes)
        ratios: dict[str, list[float]] = {}
        for seed in seeds:
            env.reset(seed=seed)
            for name, ratio in (clairvoyant(env) if options.bounds else opponents(env)).items():
                ratios.setdefault(name, []).append(ratio)
        spent = dict.fromkeys(ratios, 0.0)
        agents: dict[str, Any] = {}
        if not options.policies_only:
            agents = {"uniform": uniform()} | {n: linear(DISPATCH_CANDIDATE_FEATURES, **w) for n, w in RULES.items()}
        known = hetgym.agents.RULES
        agents |= {n: hetgym.agents.rule(n) if n in known else hetgym.agents.load(n) for n in options.policies}
        for name, agent in ({} if options.bounds else agents).items():
            tries = agent.arguments.get("tries", 0) if isinstance(agent, Policy) else 0
            env = HetDispatchEnv(**conditions, **arguments, tries=tries)
            ratios[f"agent: {name}"], spent[f"agent: {name}"] = timed(env, agent, seeds)
        found.append({"problems": title, "ratios": ratios, "spent": spent})
    return found


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--episodes", type=int, default=400, help="of random problems, for each runtime; or 0")
    parser.add_argument("--zoo", type=int, default=10, help="of each network on each platform")
    parser.add_argument("--platforms", nargs="+", default=PLATFORMS, help="of the networks")
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--slow-downs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first episode")
    parser.add_argument("--policies", nargs="+", default=POLICIES, help="rules, names or paths")
    parser.add_argument("--bounds", action="store_true", help="instead of all agents, plans that know the noise")
    parser.add_argument("--policies-only", action="store_true", help="leave out the agents without parameters")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="files of earlier runs instead of a run")
    options = parser.parse_args()
    conditions: dict[str, Any] = {
        "observation": "candidates",
        "noise": options.noise,
        "slow_downs": options.slow_downs,
    }
    sets: list[tuple[str, dict[str, Any], int]] = [
        (f"random under {runtime}", {"runtime": runtime}, options.episodes)
        for runtime in (("classic", "links") if options.episodes else ())
    ]
    sets += [
        (f"zoo on {platform}", {"graph": list(ZOO), "platform": platform, "runtime": "links"}, options.zoo * len(ZOO))
        for platform in (options.platforms if options.zoo else ())
    ]
    found = [part for path in options.join for part in json.loads(path.read_text())["rows"]]
    found = found or measured(options, conditions, sets)
    if options.bounds:
        table_of_bounds(found)
        save(options.json, "agents-dispatch", found)
        return
    if options.policies_only and options.policies == POLICIES:
        tables_of_policies(found)
        save(options.json, "agents-dispatch", found)
        return
    rows = []
    for part in found:
        ratios = part["ratios"]
        base = ratios[f"agent: {options.policies[0]}"]
        for name, values in sorted(ratios.items(), key=lambda item: float(np.mean(item[1]))):
            row = {"problems": part["problems"], "what": name, "decision": part["spent"][name], **summary(values)}
            row["paired"], row["interval"] = paired([values], [base])
            rows.append(row)
    if len(found) > 1:
        rows += together([part["ratios"] for part in found], f"agent: {options.policies[0]}")
    if not options.policies_only and options.policies == POLICIES and len(sets) > 1:
        _, arguments, episodes = sets[0]
        env = HetDispatchEnv(**conditions, **arguments, completion="off")
        finish = linear(DISPATCH_CANDIDATE_FEATURES, **RULES["finish"])
        tables_of_rules(rows, timed(env, finish, range(options.first, options.first + episodes))[1])
        save(options.json, "agents-dispatch", rows)
        return
    show(
        "Makespan over the reference",
        rows,
        {
            "problems": lambda row: row["problems"],
            "what": lambda row: row["what"],
            "mean": lambda row: f"{row['mean']:.3f}",
            "+-": lambda row: f"{row['error']:.3f}",
            "worst": lambda row: f"{row['worst']:.2f}",
            "slower": lambda row: f"{row['lost']:.0%}",
            "over the first policy": lambda row: "{:.3f} ({:.3f} to {:.3f})".format(row["paired"], *row["interval"]),
            "decision": lambda row: seconds(row["decision"] or None),
        },
    )
    save(options.json, "agents-dispatch", rows)


if __name__ == "__main__":
    main()
