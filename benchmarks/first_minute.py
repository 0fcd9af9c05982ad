"""The time that first uses take: kernels are compiled, since the cache on disk is empty.

    python benchmarks/first_minute.py --json first_minute.json

Every run is a fresh process: ``hetgym bench`` without options, with the time until its first table; and one episode of
random legal actions in each environment, from the start of the process to its end. *Again* is the episode with the
cache that it left. For comparison, ``import hetgym`` and ``hetgym --help``. Wall times mean something on an idle
machine; elsewhere compare processor times.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import command_line, save, seconds, show

BENCH_ROWS = ("hetgym bench", "hetgym bench, first table")
"""Most time that it may take [s]; an episode 8 s."""

EPISODES = (
    "HetSchedule-v0", "HetDispatch-v0", "HetSplit-v0", "HetPipeline-v0", "HetCluster-v0", "HetImprove-v0",
)  # fmt: skip

SCRIPT = """
import sys
import gymnasium as gym
import numpy as np
import hetgym
env, done = gym.make(sys.argv[1]), False
observation, info = env.reset(seed=0)
rng = np.random.default_rng(0)
while not done:
    legal = np.flatnonzero(observation["action_mask"])
    observation, _, terminated, truncated, info = env.step(int(rng.choice(legal)))
    done = terminated or truncated
"""

BENCH = [sys.executable, "-m", "hetgym", "bench"]


def timed(command: list[str], cache: Path, mark: str = "") -> tuple[float, float, float]:
    """Wall time of a process, the same until it prints a line with ``mark``, and processor time with its children [s].

    Raises:
        SystemExit: it fails.
    """
    before, began, seen = sum(os.times()[2:4]), time.perf_counter(), 0.0
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if mark and mark in line and not seen:
                seen = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ends with exit code {process.returncode}")
    return time.perf_counter() - began, seen, sum(os.times()[2:4]) - before


def row(what: str, runs: list[tuple[float, float]]) -> dict[str, Any]:
    """A row of the table, from wall and processor times of its runs [s]."""
    wall, used = ([run[k] for run in runs] for k in range(2))
    return {
        "what": what,
        "wall": wall,
        "median": statistics.median(wall),
        "used": statistics.median(used),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each")
    parser.add_argument("--only", default="", help="rows whose names begin like this")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    numbers = range(given.runs)
    with tempfile.TemporaryDirectory() as folder:
        if "hetgym bench".startswith(given.only):
            made = [timed(BENCH, Path(folder, f"bench-{k}"), "gap to best") for k in numbers]
            for k, what in enumerate(BENCH_ROWS):
                rows.append(row(what, [(run[k], run[2]) for run in made]))
        for name in (name for name in EPISODES if name.startswith(given.only)):
            command = [sys.executable, "-c", SCRIPT, name]
            for what in (name, f"{name}, again"):
                made = [timed(command, Path(folder, f"{name}-{k}")) for k in numbers]
                rows.append(row(what, [(run[0], run[2]) for run in made]))
        for what, command in (
            ("import hetgym", [sys.executable, "-c", "import hetgym"]),
            ("hetgym --help", [sys.executable, "-m", "hetgym", "--help"]),
        ):
            if what.startswith(given.only):
                made = [timed(command, Path(folder, "start")) for _ in numbers]
                rows.append(row(what, [(run[0], run[2]) for run in made]))
    columns = {
        "what": lambda row: row["what"],
        "median": lambda row: seconds(row["median"]),
        "runs": lambda row: ", ".join(map(seconds, row["wall"])),
        "processor time": lambda row: seconds(row["used"]),
    }
    show("First uses, kernels compiled", rows, columns)
    save(given.json, "first_minute", rows)


if __name__ == "__main__":
    main()
