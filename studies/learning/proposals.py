"""What learning adds to region annealing: proposals of a trained network against others.

    python studies/learning/proposals.py time --linear one-unit.safetensors  # at equal time
    python studies/learning/proposals.py whole --peer old/bin/python  # whole searches, one of them of an earlier hetgym
    python studies/learning/proposals.py tries --runtime links,ready  # tries and time others need for the same plan
    python studies/learning/proposals.py lists --runtime links  # place-v2 without a budget over all lists
    python studies/learning/proposals.py networks --runtime links  # networks of hetbench-v2: gap to the best known
    python studies/learning/proposals.py classic  # place-v2 over place-v1 under the classic model
    python studies/learning/proposals.py splices --runtime links  # place-v2 over itself without splices
    python studies/learning/proposals.py headroom --linear one-unit.safetensors  # for any policy
    python studies/learning/proposals.py lists --join links.json ready.json  # tables of several runs, by their --json

The policies' training never saw the seeds of these random problems. *one way* is region annealing without exchanges of
regions, *gain* with them; both begin half of their regions where these would save most. *old* is region annealing as it
was before policies: one way, and as hot with many operators as with few. *earlier* is that of an earlier hetgym, which
has the ``--peer`` Python; its plans are simulated by this one. *random* takes all regions as likely. *one
unit* is a network of one hidden unit, a linear rule of the same inputs, from ``--linear``; *trained* has place-v2's
network, and *place-v2* is its whole search, with splices where it is long. *random* and *untrained* get the same share
of regions, 0.3 turns among the tries, as the trained network. Times are processor times of one thread. Ratios are over
``peft-again`` of the runtime, with paired bootstrap intervals.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym import Problem
from hetgym.agents.regions.planner import FILES
from hetgym.baselines import get
from hetgym.baselines.region_search import HEAT, RegionAnnealing
from hetgym.baselines.spliced_annealing import SplicedAnnealing
from hetgym.baselines.window_annealing import Resources
from hetgym.bench.significance import mean_intervals
from hetgym.schedule import Schedule
from hetgym.search import course, search
from hetgym.search.proposals import FEATURES, Network, new_proposals
from hetgym.workloads import RandomMix, load_suite

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, ends, save, seconds, show  # noqa: E402

SEEDS = {"small": 930_000, "large": 940_000}
SIZES = {"small": "30 to 80", "large": "400"}
"""Operators of the random problems."""

SPLICED_SEARCHES = 10, 11
"""Seeds of the searches for *splices*."""

LONG = 5
"""Launches of a long search over those without a budget, for *headroom*."""

BASES = ("gain", "one way", "old")
"""What the others are compared with: searches without a network."""

EARLIER = "earlier"
"""Region annealing of an earlier hetgym, one more of these with ``--peer``."""

SHARES = (0.5, 0.7, 0.85, 0.95)
"""Shares of the time that place-v1 has before place-v2, for *classic*."""

KINDS = ("trivial", "online", "list", "memory", "partition")
NETWORKS = ("alexnet", "bert", "inception", "lstm", "nasnet", "squeezenet", "transformer", "vgg", "vit")
BUDGETS: dict[str, tuple[float, ...]] = {
    "time": (0.005, 0.05, 0.5),
    "whole": (0.005, 0.05, 0.5, 5.0),
    "tries": (2, 4, 8, 16, 32, 64, 128, 256),
    "networks": (0, 1, 10),
    "classic": (0.005, 0.05, 0.5, 2.0),
    "splices": (5.0,),
}
"""Seconds, where 0 stands for no budget; in *tries* launches over the square of the number of operators."""

UNITS = ("tries", "s")
"""What *tries* counts: priced changes, and processor time."""

NAMES = {
    "one way": "one way",
    "random": "random",
    "gain": "by gain",
    "untrained": "untrained",
    "one unit": "linear rule",
}
"""Columns of *tries*."""

FEW = 4
"""Smallest budgets, of which *tries* shows medians."""


def problems(small: int, large: int, first: int | None = None) -> dict[str, list[Problem]]:
    """Random problems of 30 to 80 and of 400 operators; seeds count from ``first`` and 10 000 on."""
    seeds = SEEDS if first is None else {"small": first, "large": first + 10_000}
    return {
        "small": [RandomMix()(np.random.default_rng(seeds["small"] + k)) for k in range(small)],
        "large": [RandomMix(operators=(400, 400))(np.random.default_rng(seeds["large"] + k)) for k in range(large)],
    }


def methods(linear: Path | None) -> dict[str, dict[str, Any]]:
    """Name of a way of proposing regions -> arguments of the search."""
    f, rng = len(FEATURES), np.random.default_rng(0)
    zero = Network(np.zeros((f, 1)), np.zeros(1), np.zeros(1))
    untrained = Network(rng.normal(0, f**-0.5, (f, 16)), np.zeros(16), rng.normal(0, 0.25, 16))
    found: dict[str, dict[str, Any]] = {
        "old": {"exchanged": 0.0, "heat": HEAT[0]},
        "one way": {"exchanged": 0.0},
        "gain": {},
        "random": {"network": zero, "trust": 1.0},
        "untrained": {"network": untrained},
    }
    if linear is not None:
        found["one unit"] = {"network": FILES.load(linear.with_suffix("")).network}
    network = hetgym.agents.load("place-v2").network
    return found | {"trained": {"network": network}, "place-v2": {"network": network, "spliced": True}}


def searched(
    problem: Problem, start: Schedule, runtime: str, options: dict[str, Any], budget: int, seconds: float | None
) -> tuple[float, int, float]:
    """Makespan over that of the start, number of tries, and processor time [s]."""
    began, options = search.clock(), dict(options)
    network = options.pop("network", None)
    if options.pop("spliced", False):
        spliced = SplicedAnnealing(problem, start, runtime=runtime, resources=Resources(network))
        search.run(spliced, budget, seconds, began=began)
        return spliced.schedule().makespan / start.makespan, 0, search.clock() - began
    if isinstance(peer := options.pop("peer", None), Peer):
        assert seconds is not None
        return peer.searched(problem, start, runtime, seconds)
    guide = None if network is None else new_proposals(problem, network)
    found = RegionAnnealing(problem, start, runtime=runtime, guide=guide, **options)
    search.run(found, budget, seconds, began=began)
    ratio, tries = found.schedule().makespan / start.makespan, int(found.course.counts[course.TRIED])
    return ratio, tries, search.clock() - began


def compare(
    runtime: str,
    sets: dict[str, list[Problem]],
    ways: dict[str, dict[str, Any]],
    budgets: tuple[float, ...],
    timed: bool,
) -> list[dict[str, Any]]:
    """Each way at each budget: mean ratio, those to the bases with their intervals, and tries.

    At equal time the means over all budgets follow, beside *best known*: the best plan of any way with any budget.
    """
    rows: list[dict[str, Any]] = []
    for size, chosen in sets.items():
        if not chosen:
            continue
        starts = [get("peft-again")(problem, runtime) for problem in chosen]
        for options in ways.values():
            searched(chosen[0], starts[0], runtime, options, 1_000, min(budgets) if timed else None)  # compiled
        found: dict[float, Ratios] = {}
        for budget in budgets:
            ratios, tries, spent = ({name: [] for name in ways} for _ in range(3))
            for problem, start in zip(chosen, starts, strict=True):
                for name, options in ways.items():
                    work = 2**62 if timed else int(budget * problem.num_operators**2)
                    ratio, count, took = searched(problem, start, runtime, options, work, budget if timed else None)
                    ratios[name].append(ratio)
                    tries[name].append(count)
                    spent[name].append(took)
            found[budget] = ratios
            for name, beside in compared([ratios]).items():
                count, took = float(np.mean(tries[name])), float(np.mean(spent[name]))
                rows.append({"what": name, "problems": size, "budget": budget, **beside, "tries": count, "s": took})
        if timed:
            best = np.min([list(ratios.values()) for ratios in found.values()], axis=(0, 1)).tolist()
            for name, beside in compared([ratios | {"best known": best} for ratios in found.values()]).items():
                rows.append({"what": name, "problems": size, "budget": "mean", **beside, "tries": 0.0})
    return rows


class Peer:
    """An earlier hetgym, in a process of its own.

    Args:
        python: that has it.
        folder: for files of problems.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self._file = folder / "problem.npz"
        command = [str(python), str(Path(__file__).with_name("proposals_peer.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def searched(self, problem: Problem, start: Schedule, runtime: str, seconds: float) -> tuple[float, int, float]:
        """As the function of this name, of region annealing there."""
        problem.save(self._file)
        assert start.order is not None and self._process.stdin is not None and self._process.stdout is not None
        order = [row.tolist() for row in start.order]
        task = {"problem": str(self._file), "runtime": runtime, "order": order, "seconds": seconds}
        print(json.dumps(task | {"assignment": start.assignment.tolist()}), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        plan = Schedule(np.array(answer["assignment"], np.int32), order=answer["order"])
        return hetgym.simulate(problem, plan, runtime).makespan / start.makespan, 0, answer["s"]


Ratios = dict[str, list[float]]
"""Name of a way -> makespan over that of the start, for each problem."""


def compared(found: list[Ratios]) -> dict[str, dict[str, Any]]:
    """For each way its mean ratio, and the mean of its ratios to each base, with its interval, over some budgets."""
    values = {name: np.array([ratios[name] for ratios in found]) for name in found[0]}
    bases = [base for base in (*BASES, EARLIER) if base in values]
    over = [(values[name] / values[base]).mean(0) for base in bases for name in values]
    intervals = mean_intervals(over, np.random.default_rng(0))
    return {
        name: {"ratio": float(values[name].mean())}
        | {f"over {base}": asdict(intervals[k + len(values) * m]) for m, base in enumerate(bases)}
        for k, name in enumerate(values)
    }


def needed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tries and time that the others need, over those of the trained network, for what it reaches with each budget."""
    found = []
    names = [name for name in dict.fromkeys(row["what"] for row in rows) if name != "trained"]
    for size in dict.fromkeys(row["problems"] for row in rows):
        curves = {
            (name, unit): [(row[unit], row["ratio"]) for row in rows if row["what"] == name and row["problems"] == size]
            for name in (*names, "trained")
            for unit in UNITS
        }
        for at, (tries, ratio) in enumerate(curves["trained", "tries"]):
            row: dict[str, Any] = {"problems": size, "at": at, "tries": tries, "ratio": ratio}
            for name in names:
                row[name] = {}
                for unit in UNITS:
                    reached = _reached(curves[name, unit], ratio)
                    row[name][unit] = None if reached is None else reached / curves["trained", unit][at][0]
            found.append(row)
    return found


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of what each way needs over the trained network, with the smallest budgets."""
    few = [row for row in rows if row["at"] < FEW]
    found: list[dict[str, Any]] = []
    for name in (name for name in NAMES if name in rows[0]):
        values = {unit: float(np.median([row[name][unit] or np.inf for row in few])) for unit in UNITS}
        found.append({"what": name} | {unit: value if value < np.inf else None for unit, value in values.items()})
    return found


def multiple(value: float | None, unit: str = "") -> str:
    """How many times as much; a dash where the largest budget did not suffice."""
    return "–" if value is None else f"{value:.1f}{unit}"


def _reached(points: list[tuple[float, float]], ratio: float) -> float | None:
    """Tries or time at which a curve reaches a ratio, between its points in logarithms; None if it never does."""
    for (few, above), (many, below) in zip(points, points[1:], strict=False):
        if below <= ratio:
            if above <= ratio:
                return few
            share = (above - ratio) / (above - below)
            return float(np.exp((1 - share) * np.log(few) + share * np.log(many)))
    return None


def lists(runtime: str, sets: dict[str, list[Problem]], effort: int | None) -> list[dict[str, Any]]:
    """place-v2 without a budget over the best of all list schedulers together, and its time.

    With an effort, a number of launches over the square of the number of operators, place-v2 has that budget instead.
    """
    rows = []
    chosen = [row for row in hetgym.planning.rows() if row.kind in KINDS and row.available]
    for size, some in sets.items():
        ratios, times = [], []
        for problem in some:
            plans = [scheduler(problem, runtime) for scheduler in chosen]
            best = min(hetgym.simulate(problem, plan, runtime).makespan for plan in plans)
            began = time.process_time()
            work = None if effort is None else effort * problem.num_operators**2
            plan = hetgym.agents.load("place-v2").plan(problem, runtime=runtime, operators=work)
            times.append(time.process_time() - began)
            ratios.append(plan.makespan / best)
        if some:
            (interval,) = mean_intervals([ratios], np.random.default_rng(0))
            rows.append(
                {"what": size, "mean": interval.mean, "low": interval.low, "high": interval.high}
                | {"n": len(some), "schedulers": len(chosen), "s": float(np.median(times))}
            )
    return rows


def networks(runtime: str, budgets: tuple[float, ...], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Gap to the best known makespan on networks, of place-v2 with some budgets."""
    specs = [spec for spec in load_suite("hetbench-v2").specs if spec.name.startswith(names)]
    rows = []
    for budget in budgets:
        gaps = {}
        for spec in specs:
            problem = spec.build()
            assert spec.known is not None
            scheduler = get("place-v2-search", seconds=budget, budget=2**62) if budget else get("place-v2")
            gaps[spec.name] = scheduler(problem, runtime).makespan / spec.known.best[runtime].makespan_s - 1.0
        rows.append({"what": f"{budget:g} s" if budget else "no budget", "gaps": gaps})
    return rows


def splices(runtime: str, budget: float) -> list[dict[str, Any]]:
    """The search with splices and that without on the fused NASNets: mean makespans over the best known."""
    network = hetgym.agents.load("place-v2").network

    def ends(problem: Problem, seed: int) -> list[float]:
        makespans = []
        for spliced in (False, True):
            began = search.clock()
            found: search.Search
            if spliced:
                found = SplicedAnnealing(problem, "best", seed, runtime, Resources(network))
            else:
                found = RegionAnnealing(problem, seed=seed, runtime=runtime, guide=new_proposals(problem, network))
            search.run(found, 2**62, budget, began=began)
            makespans.append(found.schedule().makespan)
        return makespans

    specs = [
        spec for spec in load_suite("hetbench-v2").specs if spec.name.startswith("nasnet") and "-fused" in spec.name
    ]
    ends(specs[0].build(), 0)  # compiled
    rows = []
    for spec in specs:
        assert spec.known is not None
        problem, best = spec.build(), spec.known.best[runtime].makespan_s
        one, spliced = np.mean([ends(problem, seed) for seed in SPLICED_SEARCHES], axis=0) / best
        rows.append({"what": spec.name, "budget": budget, "one": float(one), "spliced": float(spliced)})
    return rows


def classic(sets: dict[str, list[Problem]], budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """place-v2 over place-v1 under the classic model, without a budget and with some.

    *alone* is the region policy's own search; the others begin with what place-v1 found in a share of the time.
    ``place-v2-search`` leaves all of the time to place-v1.
    """
    old, new = hetgym.agents.load("place-v1"), hetgym.agents.load("place-v2")
    rows = []
    for size, chosen in sets.items():
        for budget in (None, *budgets) if chosen else ():
            ratios: dict[str, list[float]] = {}
            for problem in chosen:
                first = old.plan(problem, budget).makespan
                ratios.setdefault("alone", []).append(new.plan(problem, budget).makespan / first)
                for share in SHARES if budget is not None else ():
                    assert budget is not None
                    began = search.clock()
                    start = old.plan(problem, share * budget)
                    left = max(1e-9, budget - (search.clock() - began))
                    ratio = new.plan(problem, left, start=start).makespan / first
                    ratios.setdefault(f"behind {share:.0%}", []).append(ratio)
            intervals = mean_intervals(list(ratios.values()), np.random.default_rng(0))
            for name, interval in zip(ratios, intervals, strict=True):
                row = {"what": name, "budget": "none" if budget is None else f"{budget:g} s", "problems": size}
                rows.append(row | {"mean": interval.mean, "low": interval.low, "high": interval.high})
    return rows


def headroom(
    runtime: str, sets: dict[str, list[Problem]], linear: Path, times: int, others: list[Path]
) -> list[dict[str, Any]]:
    """Policies without a budget over the best plan of long searches: what is left for any other policy to gain.

    The long searches are those of the linear rule and of place-v2 with so many times the launches and two seeds. ``over
    linear`` is the ratio to the plans of the linear rule.
    """
    policies = {"one unit": FILES.load(linear.with_suffix("")), "place-v2": hetgym.agents.load("place-v2")}
    searchers = list(policies.values())
    policies |= {other.stem: FILES.load(other.with_suffix("")) for other in others}
    rows = []
    for size, chosen in sets.items():
        excess: dict[str, list[float]] = {name: [] for name in policies}
        for problem in chosen:
            plans = {name: policy.plan(problem, runtime=runtime).makespan for name, policy in policies.items()}
            launches = times * max(4_000_000, 40 * problem.num_operators**2)
            longest = [
                policy.plan(problem, runtime=runtime, operators=launches, seed=seed).makespan
                for policy in searchers
                for seed in (1, 2)
            ]
            best = min(*longest, *plans.values())
            for name in policies:
                excess[name].append(plans[name] / best)
        if chosen:
            over = np.array(list(excess.values()))
            intervals = mean_intervals(np.concatenate([over, over / over[0]]), np.random.default_rng(0))
            for k, name in enumerate(excess):
                row = {"what": name, "problems": size, "n": len(chosen), "times": times, **asdict(intervals[k])}
                rows.append(row | {"over linear": asdict(intervals[len(excess) + k])})
    return rows


def between(interval: dict[str, float], digits: int = 3) -> str:
    """A mean with its interval."""
    low, high = (interval[end] for end in ("low", "high"))
    return f"{interval['mean']:.{digits}f} ({ends(low, high, f'.{digits}f')})"


def shorter(interval: dict[str, float]) -> str:
    """How much shorter makespans are than those to which they have this ratio."""
    mean, low, high = (1 - (interval[end] or interval["mean"]) for end in ("mean", "high", "low"))
    return f"{percents(mean)} % ({percents(low)} to {percents(high)})"


def percents(value: float) -> str:
    """A share in per cent, without the sign of zero."""
    return f"{round(100 * value, 1) + 0.0:.1f}"


def grouped(rows: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """A dictionary for each tuple of keys: these, and the rows by what they are of."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        group = found.setdefault(tuple(row[key] for key in keys), {key: row[key] for key in keys})
        group[row["what"]] = row
    return list(found.values())


RUNTIME: dict[str, Any] = {"runtime": lambda row: f"`{row['runtime']}`"}
PLACE: dict[str, Any] = RUNTIME | {"operators": lambda row: SIZES[row["problems"]]}
"""First columns of tables of grouped rows."""


def show_time(rows: list[dict[str, Any]]) -> None:
    """Tables of *time*."""
    timed = grouped([row for row in rows if row["budget"] != "mean"], "runtime", "problems", "budget")
    at = PLACE | {"time": lambda row: seconds(row["budget"])}
    ways = {way: name for way, name in (NAMES | {"trained": "trained"}).items() if way in timed[0]}
    columns = {name: lambda row, way=way: f"{row[way]['ratio']:.3f}" for way, name in ways.items()}
    show("Mean makespan over the starting plan's, by method and time", timed, at | columns, "searches")
    pairs = {"trained over by gain": ("trained", "gain"), "place-v2 over one way": ("place-v2", "one way")}
    columns = {
        title: lambda row, way=way, base=base: between(row[way][f"over {base}"]) for title, (way, base) in pairs.items()
    }
    show("The same as mean ratios", timed, at | columns, "ratios")
    figures: dict[str, str] = {}

    def gains(way: str, base: str, size: str, budgets: tuple[float, ...]) -> list[float]:
        rows = [row for row in timed if row["problems"] == size and row["budget"] in budgets]
        return [1 - row[way][f"over {base}"]["mean"] for row in rows]

    for what, size, budgets in (
        ("400 operators", "large", BUDGETS["time"]),
        ("30 to 80 operators in 5 ms", "small", (0.005,)),
        ("30 to 80 operators in 0.5 s", "small", (0.5,)),
    ):
        if found := gains("trained", "gain", size, budgets):
            figures[f"what the network adds, {what}"] = f"{percents(min(found))} to {percents(max(found))} %"
    if found := [gain for size in SIZES for gain in gains("gain", "one way", size, (0.05, 0.5))]:
        figures["gain by exchanges of regions, 50 ms and 0.5 s"] = f"{percents(min(found))} to {percents(max(found))} %"
    for size in SIZES if "one unit" in ways else ():
        ratios = [row["one unit"]["ratio"] / row["trained"]["ratio"] for row in timed if row["problems"] == size]
        if ratios:
            what = f"linear rule behind the network at equal time, {SIZES[size]} operators"
            figures[what] = f"{percents(min(ratios) - 1)} to {percents(max(ratios) - 1)} %"
    lines = [{"what": what, "figure": figure} for what, figure in figures.items()]
    show("Further figures", lines, {key: lambda row, key=key: row[key] for key in ("what", "figure")}, "key-figures")


def show_whole(rows: list[dict[str, Any]]) -> None:
    """The table of *whole*."""
    means = grouped([row for row in rows if row["budget"] == "mean"], "runtime", "problems")
    names = {"gain": "by gain", "one way": "one way", "old": "before policies", EARLIER: "that in its own code"}
    columns = PLACE | {
        f"than {names[base]}": lambda row, base=base: shorter(row["place-v2"][f"over {base}"])
        for base in names
        if base in means[0]
    }
    known = {"best known, than before policies": lambda row: shorter(row["best known"]["over old"])}
    budgets = dict.fromkeys(row["budget"] for row in rows if row["budget"] != "mean")
    title = f"The whole search, mean of {', '.join(map(seconds, budgets))}: how much shorter its makespans are"
    show(title, means, columns | known, "whole-search")


def show_lists(rows: list[dict[str, Any]]) -> None:
    """The table of *lists*."""
    columns = dict(RUNTIME)
    for size, words in SIZES.items():
        if any(row["what"] == size for row in rows):
            columns[f"{words} operators"] = lambda row, size=size: between(row[size])
            columns["its time" if size == "small" else "time with 400"] = lambda row, size=size: (
                f"{row[size]['s']:.2f} s"
            )
    count = ", ".join(dict.fromkeys(str(row["schedulers"]) for row in rows))
    title = f"Over the best of all {count} list, online, partition, memory and trivial schedulers together"
    counts = {"problems": lambda row: " and ".join(str(row[size]["n"]) for size in SIZES if size in row)}
    show(title, grouped(rows, "runtime"), columns | counts, "lists")


def show_networks(rows: list[dict[str, Any]]) -> None:
    """Tables of *networks*."""

    def mean(gaps: list[float]) -> str:
        return f"{percents(float(np.mean(gaps)))} %"

    def gap(row: dict[str, Any]) -> str:
        (interval,) = mean_intervals([list(row["gaps"].values())], np.random.default_rng(0))
        low, high = (interval.mean if end is None else end for end in (interval.low, interval.high))
        return f"{mean([interval.mean])} ({percents(low)} to {percents(high)})"

    names = dict.fromkeys(row["what"] for row in rows)
    every: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        every.setdefault((row["runtime"], row["what"]), row | {"gaps": {}})["gaps"].update(row["gaps"])
    lines = grouped(list(every.values()), "runtime")
    title = f"Mean gap to the best known makespan on {len(next(iter(every.values()))['gaps'])} networks of hetbench-v2"
    columns = {name: lambda row, name=name: gap(row[name]) for name in names}
    show(title, lines, RUNTIME | columns, "networks")
    columns = {
        name: lambda row, name=name: " / ".join(
            mean([gap for network, gap in row[name]["gaps"].items() if network.startswith("nasnet") == nasnet])
            for nasnet in (True, False)
        )
        for name in names
    }
    show("Mean gap on NASNets / on the other networks", lines, RUNTIME | columns, "nasnet")


def show_splices(rows: list[dict[str, Any]]) -> None:
    """The table of *splices*."""
    columns = {"network": lambda row: f"`{row['what']}`"} | RUNTIME | {"time": lambda row: seconds(row["budget"])}
    columns |= {"one search": lambda row: f"{row['one']:.3f}", "spliced": lambda row: f"{row['spliced']:.3f}"}
    show("Splicing the plans of several legs, at equal time: makespan over the best known", rows, columns, "splices")


def show_classic(rows: list[dict[str, Any]]) -> None:
    """The table of *classic*."""
    columns: dict[str, Any] = {name: lambda row, name=name: row[name] for name in ("problems", "budget", "what")}
    show("classic", rows, columns | {"over place-v1": lambda row: between(row, 4)})


def show_headroom(rows: list[dict[str, Any]]) -> None:
    """Tables of *headroom*."""
    groups = grouped(rows, "runtime", "problems")
    ways = [name for name in groups[0] if name not in ("runtime", "problems")]
    names = {way: NAMES.get(way, way) for way in ways}
    times = ", ".join(dict.fromkeys(str(row["times"]) for row in rows))
    place = PLACE | {"problems": lambda row: str(row[ways[0]]["n"])}
    columns = {name: lambda row, way=way: between(row[way]) for way, name in names.items()}
    show(f"Over the best of four searches of {times} times the launches", groups, place | columns, f"{times}-times")
    columns = {
        name: lambda row, way=way: between(row[way]["over linear"]) for way, name in names.items() if way != "one unit"
    }
    show("Over the linear rule", groups, place | columns, "over-linear")


def show_tries(rows: list[dict[str, Any]]) -> None:
    """Tables of *tries*."""
    columns = PLACE | {"tries": lambda row: f"{row['tries']:.0f}", "makespan": lambda row: f"{row['ratio']:.3f}"}
    for way, name in NAMES.items():
        if way in rows[0]:
            columns[name] = lambda row, way=way: " / ".join(multiple(row[way][unit]) for unit in UNITS)
    show("Tries / processor time, over those of the trained network", rows, columns, name="tries")
    columns = {"search": lambda row: NAMES[row["what"]]}
    for unit, name in zip(UNITS, ("priced changes", "processor time"), strict=True):
        columns[name] = lambda row, unit=unit: multiple(row[unit], " times")
    show(f"Median over the rows of the {FEW} smallest budgets", medians(rows), columns, name="medians")


SHOWN = {
    "time": show_time,
    "whole": show_whole,
    "tries": show_tries,
    "lists": show_lists,
    "networks": show_networks,
    "classic": show_classic,
    "splices": show_splices,
    "headroom": show_headroom,
}


def measured(options: Namespace, runtime: str, sets: dict[str, list[Problem]]) -> list[dict[str, Any]]:
    """Numbers under a runtime."""
    given = tuple(float(text) for text in options.budgets.split(",") if text)
    budgets = given or BUDGETS.get(options.what, ())
    if options.what == "time":
        return compare(runtime, sets, methods(options.linear), budgets, True)
    if options.what == "whole":
        ways = {way: methods(None)[way] for way in (*BASES, "place-v2")}
        if options.peer is not None:
            ways[EARLIER] = {"peer": Peer(options.peer, Path(tempfile.mkdtemp()))}
        return compare(runtime, sets, ways, budgets, True)
    if options.what == "tries":
        ways = {name: way for name, way in methods(options.linear).items() if name == "trained" or name in NAMES}
        return needed(compare(runtime, sets, ways, budgets, False))
    if options.what == "lists":
        return lists(runtime, sets, options.effort)
    if options.what == "networks":
        return networks(runtime, budgets, tuple(options.networks.split(",")))
    if options.what == "classic":
        return classic(sets, budgets)
    if options.what == "splices":
        return splices(runtime, *budgets)
    return headroom(runtime, sets, options.linear, options.long, options.also)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=SHOWN)
    parser.add_argument("--runtime", default="links", help="runtimes, joined by commas")
    parser.add_argument("--small", type=int, default=64, help="problems of 30 to 80 operators")
    parser.add_argument("--large", type=int, default=16, help="problems of 400 operators")
    parser.add_argument("--budgets", default="", help="seconds, joined by commas; of *networks* 0 for none")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="first parts of names, joined by commas")
    parser.add_argument("--first", type=int, help="seed of the first small problem; the first large one is 10 000 on")
    parser.add_argument("--effort", type=int, help="of place-v2 in *lists*, by default its own")
    parser.add_argument("--linear", type=Path, help="policy of one hidden unit, trained alike")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="further policies of *headroom*")
    parser.add_argument("--long", type=int, default=LONG, help="times the launches of searches of *headroom*")
    parser.add_argument("--peer", type=Path, help="Python of an earlier hetgym, for *whole*")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="files of earlier runs instead of a run")
    options = parser.parse_args()
    if options.what == "headroom" and options.linear is None and not options.join:
        parser.error("headroom needs --linear")
    search.perf_counter = time.process_time  # type: ignore[attr-defined]
    found = [row for path in options.join for row in json.loads(path.read_text())["rows"]]
    if not options.join:
        sets = problems(options.small, options.large, options.first)
        for runtime in options.runtime.split(","):
            found += [{"runtime": runtime, **row} for row in measured(options, runtime, sets)]
    SHOWN[options.what](found)
    save(options.json, f"proposals {options.what} {options.runtime}", found)


if __name__ == "__main__":
    main()
