"""Growth of time and memory from 100 000 to 1 000 000 operators on eight devices.

    python benchmarks/scale.py [WHAT ...] --json scale.json

Each case runs in a process of its own, after a small problem for which kernels are compiled. The time is the median
processor time of three calls on new problems. The ratio is that of a size over the one a tenth as large: 10 where time
is linear, and some more where the smaller tables fit into caches. Memory is the peak of the process.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from _common import command_line, save, seconds, show

import hetgym
from hetgym import Problem
from hetgym.baselines import get, lower_bound
from hetgym.planning import ranks

SIZES = (100_000, 1_000_000)
DEVICES = 8
SMALL = 2_000  # operators of the problem for which kernels are compiled
RUNTIMES = ("classic", "links", "framework")


def arrays_of(operators: int, seed: int) -> tuple[Any, ...]:
    """Operators that read from up to three of the hundred before them: random costs, edges and payloads."""
    rng = np.random.default_rng(seed)
    target = np.repeat(np.arange(1, operators), 3)
    source = np.maximum(0, target - rng.integers(1, 101, len(target)))
    edge = np.unique(source * operators + target)
    cost = rng.uniform(1.0, 10.0, (operators, DEVICES))
    return cost, edge // operators, edge % operators, rng.uniform(0.0, 10.0, len(edge)), "scale"


def problem_of(operators: int, seed: int) -> Problem:
    """A problem of such arrays."""
    return Problem.from_edges(*arrays_of(operators, seed))


def placed(problem: Problem) -> hetgym.Schedule:
    """A random placement in topological order."""
    assignment = np.random.default_rng(1).integers(0, DEVICES, problem.num_operators).astype(np.int32)
    order = problem.topological_order
    return hetgym.Schedule(assignment, order=[order[assignment[order] == a] for a in range(DEVICES)])


Case = Callable[[Problem], Callable[[], Any]]


def _simulate(runtime: str) -> Case:
    def case(problem: Problem) -> Callable[[], Any]:
        plan = placed(problem)
        return lambda: hetgym.simulate(problem, plan, runtime)

    return case


def _evaluate(runtime: str) -> Case:
    def case(problem: Problem) -> Callable[[], Any]:
        plans = [placed(problem)] * 2
        return lambda: hetgym.evaluate(problem, plans, runtime, threads=1)

    return case


CASES: dict[str, Case] = {
    "problem": lambda problem: (lambda arrays: lambda: Problem.from_edges(*arrays))(
        arrays_of(problem.num_operators, 1)
    ),
    "views": lambda problem: lambda: (problem.arrays, problem.mean_cost, problem.mean_communication),
    "digest": lambda problem: lambda: problem.digest,
    "ranks": lambda problem: lambda: (ranks.upward_rank(problem), ranks.downward_rank(problem)),
    "optimistic costs": lambda problem: lambda: ranks.optimistic_cost(problem),
    "validate": lambda problem: (lambda plan: lambda: hetgym.validate(problem, plan))(placed(problem)),
    **{f"simulate {runtime}": _simulate(runtime) for runtime in RUNTIMES},
    **{f"evaluate 2 {runtime}": _evaluate(runtime) for runtime in RUNTIMES},
    **{
        f"{name} {runtime}": (
            lambda problem, name=name, runtime=runtime: lambda: get(name)(problem, runtime)  # type: ignore[misc]
        )
        for name in ("heft", "peft", "donf")
        for runtime in (("classic",) if name == "donf" else ("classic", "links"))
    },
    "bound": lambda problem: lambda: lower_bound(problem, runtime="framework"),
    "linear bound": lambda problem: lambda: lower_bound(problem, linear=True, runtime="links"),
}
"""What is measured: a function from a problem to the call."""


def peak() -> float:
    """Largest resident memory of this process so far [byte]."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(what: str, operators: int) -> tuple[float, float]:
    """Median processor time of a call [s], and the peak of memory [byte]."""
    case = CASES[what]
    case(problem_of(SMALL, 0))()
    times = []
    for seed in range(3):
        call = case(problem_of(operators, seed))
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times), peak()


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", nargs="*", help=f"some of {', '.join(CASES)}, by how they begin")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for what in [name for name in CASES if not options.what or name.startswith(tuple(options.what))]:
        row: dict[str, Any] = {"what": what, "ratio": None}
        for size in options.sizes:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                row["seconds"], row["bytes"] = pool.submit(measure, what, size).result()
            row["ratio"] = row["seconds"] / row[f"s {size // 10}"] if f"s {size // 10}" in row else row["ratio"]
            row[f"s {size}"], row[f"bytes {size}"] = row.pop("seconds"), row.pop("bytes")
        rows.append(row)
    columns: dict[str, Callable[[dict[str, Any]], str]] = {"what": lambda row: row["what"]}
    for size in options.sizes:
        columns[f"{size:,}"] = lambda row, size=size: seconds(row[f"s {size}"])  # type: ignore[misc]
    columns["ratio"] = lambda row: "-" if row["ratio"] is None else f"{row['ratio']:.1f}"
    for size in options.sizes:
        columns[f"memory at {size:,}"] = lambda row, size=size: f"{row[f'bytes {size}'] / 1e6:.0f} MB"  # type: ignore[misc]
    show(f"Growth on {DEVICES} devices", rows, columns)
    save(options.json, "scale", rows)


if __name__ == "__main__":
    main()
