"""Large problems: what plans are worth that no search has touched, and what they take.

    python benchmarks/large.py starts --sizes 3000,10000 --seeds 1000-1003
    python benchmarks/large.py search --sizes 10000 --seconds 6 --seeds 1000-1003 --before CHECKOUT
    python benchmarks/large.py threads --sizes 10000,30000 --seeds 1000

Problems are of the kinds of :func:`kinds`, one of each for every seed. *starts* compares
:func:`hetgym.planning.starts.best_start`, and the options ``start`` of HEFT, with the best of all list schedulers that
plan for the runtime: geometric mean of the ratios of makespans with a bootstrap interval, and processor time, kernels
compiled beforehand, on one thread. The list schedulers that compare all ready operators take minutes at 10 000
operators. *threads* searches in windows on one thread and on two, in turn: the median of operators launched a second,
and of the ratio of each pair, whether the plans are equal, and the serial share, which is the processor time of one
thread spent outside windows. Two threads need two idle cores: *cores busy* is their processor time over the time of the
clock. Choices were made on seeds below 100; report seeds from 1000 on.
*search* compares the search of ``place-v2`` with that of another checkout of hetgym, in a process of its own, at equal
processor time on one thread, or with ``--before-seconds`` for the other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import command_line, ends, random_problem, save, seconds, show

from hetgym import Problem, Schedule
from hetgym._kernels.interpreted import compile_at_once
from hetgym.agents import load
from hetgym.baselines import get
from hetgym.baselines.window_annealing import Resources, WindowAnnealing
from hetgym.baselines.window_executors import Setting, Threads, Work
from hetgym.bench.significance import mean_intervals
from hetgym.graph import DataflowGraph
from hetgym.graph.generators import generate_graph
from hetgym.graph.transforms import training
from hetgym.planning import rows
from hetgym.planning.starts import best_start
from hetgym.platform import load_platform
from hetgym.search import search as clock
from hetgym.search.search import run
from hetgym.search.windows import Change, Window
from hetgym.workloads import RandomMix
from hetgym.workloads.generated_mix import GeneratedMix
from hetgym.workloads.synthetic import edge_weights, scale_communication
from hetgym.workloads.tiled_mix import TIMES

DEVICES, CCR = (4, 6, 8), (0.1, 0.5, 1.0, 3.0)
Draw = Callable[[int, np.random.Generator], Problem]

TIMED = 3  # Searches of which the median rate is taken
MOST_CELLS = 80_000  # of lstm_grid, whose generator is bounded

PLATFORMS = ("8gpu-node", "two-level-cluster")  # of which links serve several pairs of devices


def kinds(size: int, seed: int) -> dict[str, Callable[[], Problem]]:
    """The kinds of problems: for each a function that draws one of about ``size`` operators."""
    draws: dict[str, Draw] = {name: partial(_mixed, name) for name in RandomMix.EDGES}
    draws |= {name: partial(_generated, name) for name in ("daggen-thin", "daggen-wide", "fork_join")}
    draws |= {name: partial(_generated, name) for name in ("transformer", "lstm_grid")}
    draws |= {"tiled": _tiled, "windowed": _windowed, "decoder": _decoder, "training": _training}
    numbers = enumerate(draws.values())
    made = [partial(draw, size, np.random.default_rng((seed, size, number))) for number, draw in numbers]
    return dict(zip(draws, made, strict=True))


def _machine(rng: np.random.Generator) -> tuple[int, float]:
    """A number of devices and a CCR."""
    return int(rng.choice(DEVICES)), float(rng.choice(CCR))


def _mixed(name: str, size: int, rng: np.random.Generator) -> Problem:
    d, ccr = _machine(rng)
    return RandomMix((name,), (size, size), d, (ccr,))(rng)


def _generated(name: str, size: int, rng: np.random.Generator) -> Problem:
    """A problem of a generator, with its parameters scaled to the size."""
    d, ccr = _machine(rng)
    branches, heads = int(rng.integers(3, 41)), int(rng.choice((2, 4, 8, 16)))
    layers, cells = int(rng.integers(4, max(5, int(size**0.5)) + 1)), min(size, MOST_CELLS)
    shape = {
        "daggen-thin": {"tasks": (size, size), "fat": (0.1, 0.4), "density": (0.02, 0.2), "jump": (1, 3)},
        "daggen-wide": {"tasks": (size, size), "fat": (0.8, 2.0), "density": (0.01, 0.04), "jump": (1, 3)},
        "fork_join": {"stages": (max(1, size // (branches + 1)),) * 2, "branches": (branches, branches)},
        "transformer": {"blocks": (max(1, size // (8 * heads + 9)),) * 2, "heads": (heads, heads)},
        "lstm_grid": {"layers": (layers, layers), "steps": (cells // layers, cells // layers)},
    }[name]
    return GeneratedMix({name.partition("-")[0]: shape}, (d,), (ccr,))(rng)


def _tiled(size: int, rng: np.random.Generator) -> Problem:
    """A tiled factorisation on as many CPU cores as GPUs, with transfers."""
    (d, ccr), name = _machine(rng), str(rng.choice(list(TIMES)))
    tiles = round((size * (6 if name == "cholesky" else 3)) ** (1 / 3))
    graph = generate_graph(name, tiles=tiles)
    times = [TIMES[name][operator.name.partition("(")[0]] for operator in graph.operators]
    cost = np.repeat(np.array(times) / 1e3, (d // 2, d - d // 2), axis=1)
    transfers = scale_communication(edge_weights(len(graph.edge_source), rng), cost, ccr)
    return Problem.from_edges(cost, graph.edge_source, graph.edge_target, transfers, f"{name}-{tiles}-ccr{ccr:g}")


def _windowed(size: int, rng: np.random.Generator) -> Problem:
    return random_problem(size, _machine(rng)[0], int(rng.integers(2**31)))


def _decoder(size: int, rng: np.random.Generator) -> Problem:
    """A decoder with experts on a platform with shared links."""

    def graph(layers: int) -> DataflowGraph:
        return generate_graph("language_model", layers=layers, experts=experts, sequence=64)

    experts = int(rng.choice((4, 8, 16)))
    layer = len(graph(2)) - len(graph(1))
    return _priced(graph(max(1, size // layer)), rng)


def _training(size: int, rng: np.random.Generator) -> Problem:
    """The training step of a network with branches on a platform with shared links."""

    def graph(blocks: int) -> DataflowGraph:
        return training(generate_graph("inception", blocks=blocks))

    block = len(graph(2)) - len(graph(1))
    return _priced(graph(max(1, size // block)), rng)


def _priced(graph: DataflowGraph, rng: np.random.Generator) -> Problem:
    """The problem of a graph on a drawn platform, with drawn changes of its devices and operators."""
    problem = Problem.build(graph, load_platform(str(rng.choice(PLATFORMS))), "roofline")
    n, d = problem.cost.shape
    return problem.replace(cost=problem.cost * np.exp(rng.normal(0.0, 0.3, d) + rng.normal(0.0, 0.1, (n, d))))


def numbers(text: str) -> list[int]:
    """Whole numbers with commas between them, and ranges such as 1000-1003."""
    pairs = [part.split("-") for part in text.split(",")]
    return [number for pair in pairs for number in range(int(pair[0]), int(pair[-1]) + 1)]


def timed(call: Callable[[], Schedule]) -> tuple[float, float]:
    """Makespan of a plan, and processor time to make it [s]."""
    began = time.process_time()
    return call().makespan, time.process_time() - began


def starts(sizes: list[int], seeds: list[int], runtime: str) -> list[dict[str, Any]]:
    """For each kind and size what starts are worth beside the best list schedule, and for each size together."""
    lists = [row for row in rows("list") if row.plans_for == "any"]
    methods: dict[str, Callable[[Problem], Schedule]] = {
        "best_start": lambda problem: best_start(problem, runtime),
        "heft:start=replay": lambda problem: get("heft:start=replay")(problem, runtime),
        "heft:start=contracted": lambda problem: get("heft:start=contracted")(problem, runtime),
    }
    for name in ("layered", "decoder"):  # with links of their own and with shared ones
        problem = kinds(200, 0)[name]()
        for scheduler in (*lists, *(partial(get(row.name), runtime=runtime) for row in lists), *methods.values()):
            scheduler(problem)
    found: list[dict[str, Any]] = []
    for size in sizes:
        for seed in seeds:
            for kind, draw in kinds(size, seed).items():
                problem = draw()
                best = min(row(problem, runtime).makespan for row in lists)
                for method, scheduler in methods.items():
                    makespan, spent = timed(partial(scheduler, problem))
                    one = {"n": size, "seed": seed, "kind": kind, "what": method, "problem": problem.name}
                    found.append(one | {"ratio": makespan / best, "s": spent})
    return found


class Before:
    """The search of another checkout of hetgym, in a process of its own.

    Args:
        checkout: its folder.
    """

    def __init__(self, checkout: Path) -> None:
        paths = {"PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name("large_peer.py"))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | paths, cwd=checkout
        )

    def makespan(self, problem: Problem, runtime: str, limit: float) -> float:
        """Makespan after a processor time [s]."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "problem.npz"
            problem.save(file)
            self._process.stdin.write(json.dumps({"problem": str(file), "runtime": runtime, "seconds": limit}) + "\n")
            self._process.stdin.flush()
            return float(json.loads(self._process.stdout.readline()))


def searches(given: argparse.Namespace) -> list[dict[str, Any]]:
    """For each problem the makespan of the search over that of another checkout."""
    clock.perf_counter = time.process_time  # other work on the machine does not count
    os.environ["OMP_NUM_THREADS"] = "1"
    policy, before, found = load("place-v2"), Before(given.before), []
    other = given.before_seconds or given.seconds
    for name in ("layered", "decoder"):
        problem = kinds(2500, 0)[name]()
        policy.plan(problem, 0.3, runtime=given.runtime)
        before.makespan(problem, given.runtime, 0.3)
    for size in given.sizes:
        for seed in given.seeds:
            for kind, draw in kinds(size, seed).items():
                if given.kinds and kind not in given.kinds:
                    continue
                problem = draw()
                base = before.makespan(problem, given.runtime, other)
                makespan, spent = timed(
                    lambda problem=problem: policy.plan(problem, given.seconds, runtime=given.runtime)
                )
                one = {"n": size, "seed": seed, "kind": kind, "what": "place-v2", "problem": problem.name}
                found.append(one | {"ratio": makespan / base, "s": spent})
                print(f"{kind} {problem.num_operators} seed {seed}: {makespan / base:.4f} in {spent:.1f} s", flush=True)
    return found


def summary(found: list[dict[str, Any]], groups: list[str]) -> list[dict[str, Any]]:
    """Geometric means of the ratios of rows that agree in some columns, with intervals, and processor times."""
    together: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in found:
        together.setdefault(tuple(row[name] for name in groups), []).append(row)
    result = []
    for key, members in together.items():
        logs = [float(np.log(row["ratio"])) for row in members]
        interval = mean_intervals([logs], np.random.default_rng(0))[0]
        low, high = (None if end is None else float(np.exp(end)) for end in (interval.low, interval.high))
        spent = [row["s"] for row in members]
        line = dict(zip(groups, key, strict=True)) | {"problems": len(members), "ratio": float(np.exp(np.mean(logs)))}
        result.append(line | {"low": low, "high": high, "median s": statistics.median(spent), "most s": max(spent)})
    return result


class Watched(Threads):
    """Adds up the processor time spent on windows [s]."""

    inside = 0.0

    def anneal(self, cut: Callable[[int], Window], works: Sequence[Work], setting: Setting) -> list[Change]:
        """As for threads."""
        began = time.process_time()
        found = super().anneal(cut, works, setting)
        self.inside += time.process_time() - began
        return found


def searched(
    problem: Problem, start: Schedule, runtime: str, launches: int, count: int
) -> tuple[Schedule, dict[str, float]]:
    """The plan of a search on some threads, and what it took."""
    threads, network = Watched(count), load("place-v2").network
    search = WindowAnnealing(problem, start, runtime=runtime, resources=Resources(network, executor=threads))
    began, busy = time.perf_counter(), time.process_time()
    run(search, launches * problem.num_operators, None)
    took, busy = time.perf_counter() - began, time.process_time() - busy
    return search.schedule(), {"rate": search.placed / took, "busy": busy / took, "serial": 1.0 - threads.inside / busy}


def threads(sizes: list[int], seeds: list[int], runtime: str, launches: int) -> list[dict[str, Any]]:
    """For each problem what one thread and two make of it."""
    small = kinds(3000, 0)["decoder"]()
    searched(small, get("heft")(small, runtime), runtime, 50, 2)
    found = []
    for size in sizes:
        for seed in seeds:
            for kind, draw in kinds(size, seed).items():
                problem = draw()
                start = get("heft")(problem, runtime)
                plans: list[Schedule] = []
                took: dict[int, list[dict[str, float]]] = {1: [], 2: []}
                for count in (1, 2) * TIMED:
                    plan, figures = searched(problem, start, runtime, launches, count)
                    plans.append(plan)
                    took[count].append(figures)
                alone, both = ({name: middle(took[k], name) for name in took[k][0]} for k in (1, 2))
                equal = all(np.array_equal(plans[0].assignment, plan.assignment) for plan in plans)
                equal &= all(plan.makespan == plans[0].makespan for plan in plans)
                row = {"n": size, "seed": seed, "kind": kind, "what": "threads", "problem": problem.name}
                ratio = statistics.median(two["rate"] / one["rate"] for one, two in zip(took[1], took[2], strict=True))
                row |= {"equal": equal, "busy": both["busy"], "serial": alone["serial"], "ratio": ratio}
                found.append(row | {"one": alone["rate"], "two": both["rate"]})
    return found


def middle(rows: list[dict[str, float]], name: str) -> float:
    """The median of a figure."""
    return statistics.median(row[name] for row in rows)


def show_threads(found: list[dict[str, Any]]) -> None:
    """A row for each problem."""
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "operators": lambda row: str(row["n"]),
        "kind": lambda row: str(row["kind"]),
        "million launches a second": lambda row: f"{row['one'] / 1e6:.2f}",
        "two threads": lambda row: f"{row['two'] / 1e6:.2f}",
        "speed-up": lambda row: f"{row['ratio']:.2f}",
        "cores busy": lambda row: f"{row['busy']:.2f}",
        "serial share": lambda row: f"{row['serial']:.1%}",
        "plans": lambda row: "equal" if row["equal"] else "differ",
    }
    mean = np.exp(np.mean([np.log(row["ratio"]) for row in found]))
    show(f"searches in windows on threads, speed-up {mean:.2f} in the geometric mean", found, columns)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=("starts", "search", "threads"))
    parser.add_argument("--sizes", type=numbers, default=[3000], help="numbers of operators, such as 3000,10000")
    parser.add_argument("--seeds", type=numbers, default=[1000, 1001], help="such as 1000-1003")
    parser.add_argument("--runtime", default="links")
    parser.add_argument("--launches", type=int, default=4000, help="of threads, for each operator")
    parser.add_argument("--seconds", type=float, default=6.0, help="processor time of a search")
    parser.add_argument("--before", type=Path, help="the other checkout of hetgym")
    parser.add_argument("--before-seconds", type=float, help="processor time of its search, by default the same")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="by default all")
    given = parser.parse_args()
    compile_at_once()
    if given.what == "threads":
        found = threads(given.sizes, given.seeds, given.runtime, given.launches)
        show_threads(found)
        save(given.json, "large", found)
        return
    found = starts(given.sizes, given.seeds, given.runtime) if given.what == "starts" else searches(given)
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "what": lambda row: str(row["what"]),
        "operators": lambda row: str(row["n"]),
        "kind": lambda row: str(row.get("kind", "all")),
        "problems": lambda row: str(row["problems"]),
        "ratio": lambda row: f"{row['ratio']:.4f}",
        "interval": lambda row: ends(row["low"], row["high"]),
        "time, median": lambda row: seconds(row["median s"]),
        "time, most": lambda row: seconds(row["most s"]),
    }
    title = f"{given.what} under {given.runtime}"
    show(title, summary(found, ["n", "what"]), columns)
    single = [row for row in found if row["what"] in ("best_start", "place-v2")]
    show(f"{title}, kinds", summary(single, ["n", "what", "kind"]), columns)
    save(given.json, "large", found)


if __name__ == "__main__":
    main()
