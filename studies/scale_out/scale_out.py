"""Costs and gains of a Ray cluster: transfers of problems, tasks with almost no work, and a whole run.

    python studies/scale_out/scale_out.py --json scale-out.json

Runs take place in this process, in a pool of processes of the standard library and on a Ray cluster of
this machine's cores: the same executor interface, and the same bytes on the wire.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from hetgym import _ray
from hetgym.baselines import get
from hetgym.bench import on_ray, run, warm_up
from hetgym.bench.executor import Attempts, Batch, Executor, Here
from hetgym.bench.ray_executor import _work
from hetgym.bench.wire import unpack_attempt
from hetgym.errors import size
from hetgym.workloads import ProblemSpec, load_suite
from hetgym.workloads.packing import pack_problem, unpack_problem

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, median_seconds, random_problem, save, seconds, show  # noqa: E402


def moving(operators: int, ray: Any) -> dict[str, Any]:
    """Bytes and times of one problem on its way."""
    problem = random_problem(operators, 3)
    packed, pickled = pack_problem(problem), pickle.dumps(problem, 5)
    receive = ray.remote(lambda data: unpack_problem(data.tobytes()).num_operators)
    there = median_seconds(lambda: ray.get(receive.remote(ray.put(np.frombuffer(packed, np.uint8)))))
    return {
        "operators": operators,
        "edges": problem.num_edges,
        "bytes": len(packed),
        "pickle_bytes": len(pickled),
        "pack_seconds": median_seconds(lambda: pack_problem(problem)),
        "unpack_seconds": median_seconds(lambda: unpack_problem(packed)),
        "dumps_seconds": median_seconds(lambda: pickle.dumps(problem, 5)),
        "loads_seconds": median_seconds(lambda: pickle.loads(pickled)),
        "worker_seconds": there,
    }


class Pool:
    """The peer: a pool of processes, one for each core."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.description = "pool"
        self._pool = pool

    def work(self, batches: Iterable[Batch], runtimes: Sequence[str]) -> Iterator[tuple[Batch, Attempts]]:
        """Everything is submitted at once."""
        todo = []
        for batch in batches:
            assert batch.case.built is not None
            data = np.frombuffer(pack_problem(batch.case.built[0]), np.uint8)
            fixed = (batch.case.spec.name, data)
            todo.append((batch, [self._pool.submit(_work, *fixed, b, tuple(runtimes)) for b in batch.schedulers]))
        for batch, futures in todo:
            assert batch.case.built is not None
            yield batch, iter([unpack_attempt(future.result(), batch.case.built[0]) for future in futures])


def timed(name: str, specs: Sequence[ProblemSpec], schedulers: Sequence[str], executor: Executor) -> dict[str, Any]:
    """A run, after one that warms the processes up."""
    run(specs[:2], schedulers, executor=executor)
    began, busy = perf_counter(), process_time()
    rows = run(specs, schedulers, executor=executor).rows
    times = {"seconds": perf_counter() - began, "own_seconds": process_time() - busy}
    return {"executor": name, "schedules": len(rows) // 2, **times}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 1000, 100_000], help="numbers of operators")
    parser.add_argument("--address", default="local", help="of a Ray cluster")
    options = parser.parse_args()
    small = [ProblemSpec.held(random_problem(50, 3), f"p{k}") for k in range(80)]
    runs = {
        "quick schedulers": (small, ["single-device", "heft", "peft", "cpop", "min-min"]),
        "searches": (load_suite("zoo").specs, ["annealing", "pilot-annealing", "lns", "cpgc"]),
    }
    warm_up({name for _, names in runs.values() for name in names}, ("classic", "links"))
    cores = len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn"))
    with on_ray(options.address) as cluster, _ray.connect() as ray, pool:
        places = {"this process": Here(), f"pool, {cores} processes": Pool(pool), cluster.description: cluster}
        moved = [moving(size, ray) for size in options.sizes]
        times = {
            what: [timed(name, specs, [get(n).name for n in names], place) for name, place in places.items()]
            for what, (specs, names) in runs.items()
        }
    rows = [row | {"run": what, "alone": rows[0]["seconds"]} for what, rows in times.items() for row in rows]
    show(
        "Moving a problem",
        moved,
        {
            "operators": lambda row: f"{row['operators']:,}".replace(",", " "),
            "edges": lambda row: f"{row['edges']:,}".replace(",", " "),
            ".npz": lambda row: size(row["bytes"]),
            "pickle": lambda row: size(row["pickle_bytes"]),
            "pack": lambda row: seconds(row["pack_seconds"]),
            "unpack": lambda row: seconds(row["unpack_seconds"]),
            "pickle dumps": lambda row: seconds(row["dumps_seconds"]),
            "pickle loads": lambda row: seconds(row["loads_seconds"]),
            "to a worker and back": lambda row: seconds(row["worker_seconds"]),
        },
        "problems",
    )
    show(
        "A benchmark run, by where it runs",
        rows,
        {
            "run": lambda row: row["run"],
            "schedules": lambda row: str(row["schedules"]),
            "where": lambda row: row["executor"],
            "time, a schedule": lambda row: seconds(row["seconds"] / row["schedules"]),
            "CPU time of the main process, a schedule": lambda row: seconds(row["own_seconds"] / row["schedules"]),
            "speed-up": lambda row: f"{row['alone'] / row['seconds']:.2f}",
        },
        "runs",
    )
    save(options.json, "scale_out", moved + rows)


if __name__ == "__main__":
    main()
