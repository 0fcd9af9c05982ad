"""Growth of time and memory from 100 000 to 1 000 000 operators on eight devices.

    python benchmarks/scale.py [--sizes 100000 1000000] [--cases simulate evaluate] [--json scale.json]

Each case runs in a process of its own, after a small problem for which kernels are compiled. In each round every size
has a new problem and a call; times are medians of processor time, and the ratio is the median over the rounds of the
largest size's time over that of the smallest: in proportion to the sizes where time is linear, and some more where the
smaller tables fit into caches. Memory is the peak of the process up to the first call of that size.

The time of `plan` is its wall-clock time beyond the budget, of one call, so it has no ratio.
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
ROUNDS = 5
BUDGET = 60.0  # Time of a plan [s]


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


def _plan(runtime: str) -> Case:
    def case(problem: Problem) -> Callable[[], Any]:
        budget = BUDGET if problem.num_operators > SMALL else 1.0
        return lambda: hetgym.plan(problem, runtime, budget)

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
    **{f"plan {runtime}": _plan(runtime) for runtime in ("links", "framework")},
}
"""What is measured: a function from a problem to the call."""


def peak() -> float:
    """Largest resident memory of this process so far [byte]."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(what: str, sizes: list[int]) -> dict[str, Any]:
    """The row of a case: medians of times [s], the ratio, and peaks of memory [byte]."""
    case, plans = CASES[what], what.startswith("plan")
    case(problem_of(SMALL, 0))()
    times: dict[int, list[float]] = {size: [] for size in sizes}
    row: dict[str, Any] = {"what": what, "ratio": None}
    for seed in range(1 if plans else ROUNDS):
        for size in sizes:
            call = case(problem_of(size, seed))
            clock = time.perf_counter if plans else time.process_time
            began = clock()
            call()
            times[size].append(clock() - began - (BUDGET if plans else 0.0))
            row.setdefault(f"bytes {size}", peak())
    if not plans and len(sizes) > 1:
        pairs = zip(times[sizes[-1]], times[sizes[0]], strict=True)
        row["ratio"] = statistics.median(large / small for large, small in pairs)
    return row | {f"s {size}": statistics.median(times[size]) for size in sizes}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--cases", nargs="*", help=f"some of {', '.join(CASES)}, by how they begin")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    options = parser.parse_args()
    sizes = sorted(options.sizes)
    rows: list[dict[str, Any]] = []
    for what in [name for name in CASES if not options.cases or name.startswith(tuple(options.cases))]:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            rows.append(pool.submit(measure, what, sizes).result())
    columns: dict[str, Callable[[dict[str, Any]], str]] = {"what": lambda row: row["what"]}
    for size in sizes:
        columns[f"{size:,}"] = lambda row, size=size: seconds(row[f"s {size}"])  # type: ignore[misc]
    columns["ratio"] = lambda row: "-" if row["ratio"] is None else f"{row['ratio']:.1f}"
    for size in sizes:
        columns[f"memory at {size:,}"] = lambda row, size=size: f"{row[f'bytes {size}'] / 1e6:.0f} MB"  # type: ignore[misc]
    show(f"Growth on {DEVICES} devices", rows, columns)
    save(options.json, "scale", rows)


if __name__ == "__main__":
    main()
