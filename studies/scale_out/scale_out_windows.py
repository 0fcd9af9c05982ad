"""Plans on a Ray cluster: what a window costs the main process, and the cores that it keeps busy.

    python studies/scale_out/scale_out_windows.py --json scale-out-windows.json

One round of a long search is measured on this machine, piece by piece: the whole plan is surveyed, pasted and sorted
once a round, and each window is cut, packed and annealed. A task of almost no work gives what Ray costs. Speed-ups on
many cores are computed from these, for nodes as fast as this one and a network that is not the limit: a round takes
the time of the main process, and that of the tasks of one core.
"""

from __future__ import annotations

import pickle
import sys
from functools import partial
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

from hetgym import _ray
from hetgym.agents.pretrained import load
from hetgym.baselines import get
from hetgym.baselines.window_annealing import STINT, Resources, WindowAnnealing
from hetgym.baselines.window_cluster import tasks_of
from hetgym.baselines.window_executors import Threads, Work, anneal_window
from hetgym.errors import size
from hetgym.search.search import run
from hetgym.search.window_parcels import common, opened, packed

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, random_problem, save, seconds, show  # noqa: E402


class Watched(Threads):
    """One thread, which notes the processor time and bytes of each window."""

    def __init__(self) -> None:
        super().__init__(1)
        self.sent: list[int] = []
        self.cut: list[float] = []
        self.annealed: list[float] = []
        self.rounds = 0
        self.launches: list[Work] = []

    def anneal(self, cut: Any, works: Any, setting: Any) -> list[Any]:
        """As for threads, with each window packed and opened on the way."""
        found, p = [], common(setting.p)
        self.rounds, self.launches = self.rounds + 1, list(works)
        for number, work in enumerate(works):
            began = process_time()
            parcel = packed(cut(number))
            data = pickle.dumps(parcel, 5)
            middle = process_time()
            found.append(anneal_window(opened(parcel, p), work, setting))
            self.cut.append(middle - began)
            self.annealed.append(process_time() - middle)
            self.sent.append(len(data))
        return found


def task_seconds(ray: Any, length: int) -> float:
    """Processor time of the main process for a task with so many bytes [s]."""
    task, data = ray.remote(num_cpus=1)(lambda sent: len(sent)), bytes(length)
    ray.get([task.remote(data) for _ in range(8)])
    times = []
    for _ in range(5):
        began = process_time()
        ray.get([task.remote(data) for _ in range(16)])
        times.append((process_time() - began) / 16)
    return sorted(times)[2]


def measured(operators: int, cores: int, ray: Any) -> dict[str, Any]:
    """A search of a few rounds as long as those of a long one, and its speed-up on some cores."""
    problem, watched = random_problem(operators, 4), Watched()
    start = get("heft")(problem, "links")
    search = WindowAnnealing(
        problem, start, runtime="links", resources=Resources(load("place-v2").network, executor=watched)
    )
    total = 10 * STINT * operators  # the least in which stints are as long as they get
    began = process_time()
    while watched.rounds < 6:
        search.advance(search.placed + 1, total)
    spent = process_time() - began
    windows, rounds = len(watched.sent), watched.rounds
    each, apart = mean(watched.cut), mean(watched.annealed)
    fixed = (spent - windows * (each + apart)) / rounds
    k = windows / rounds
    tasks = tasks_of(watched.launches, cores)
    a_task = task_seconds(ray, int(mean(watched.sent) * k / tasks))
    own = fixed + k * each + tasks * a_task
    alone = fixed + k * (each + apart)
    away = own + -(-k // tasks) * apart
    row = {"operators": operators, "windows": k, "bytes": mean(watched.sent), "window_seconds": apart}
    row |= {"cut_seconds": each, "round_seconds": fixed, "tasks": tasks, "task_seconds": a_task}
    return row | {"cores": cores, "own_seconds": own, "speed_up": alone / away, "limit": alone / own}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000], help="numbers of operators")
    parser.add_argument("--cores", type=int, default=64, help="of the cluster on paper")
    options = parser.parse_args()
    small = random_problem(3000, 4)
    search = WindowAnnealing(
        small, "heft", runtime="links", resources=Resources(load("place-v2").network, executor=Watched())
    )
    run(search, 60_000, None)  # loads kernels
    with _ray.connect() as ray:
        rows = list(map(partial(measured, cores=options.cores, ray=ray), options.sizes))
    show(
        f"Plans on {options.cores} cores",
        rows,
        {
            "operators": lambda row: f"{row['operators']:,}".replace(",", " "),
            "windows a round": lambda row: f"{row['windows']:.1f}",
            "bytes a window": lambda row: size(row["bytes"]),
            "time of a window": lambda row: seconds(row["window_seconds"]),
            "cut and pack, a window": lambda row: seconds(row["cut_seconds"]),
            "whole plan, a round": lambda row: seconds(row["round_seconds"]),
            "tasks a round": lambda row: str(row["tasks"]),
            "Ray, a task": lambda row: seconds(row["task_seconds"]),
            "main process, a round": lambda row: seconds(row["own_seconds"]),
            "speed-up": lambda row: f"{row['speed_up']:.1f}",
        },
        "windows",
    )
    save(options.json, "scale_out_windows", rows)


if __name__ == "__main__":
    main()
