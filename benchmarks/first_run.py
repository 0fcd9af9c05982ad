"""The time that first episodes take: kernels are compiled, since the cache on disk is empty.

    python benchmarks/first_run.py --json first_run.json

Each row of *alone* is a fresh process with an own cache: import, ``gym.make``, ``reset`` and one episode of random
legal actions. *After the others* are the same episodes one after the other in one process. *Again* is the first row's
process once more, with the cache that it left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from _common import command_line, save, seconds, show

EPISODES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("HetSchedule-v0", {}),
    ("HetDispatch-v0", {}),
    ("HetSplit-v0", {}),
    ("HetPipeline-v0", {"objective": "throughput"}),
    ("HetPipeline-v0", {"objective": "latency"}),
)

SCRIPT = """
import json, sys, time
began = time.perf_counter()
import gymnasium as gym
import numpy as np
import hetgym
times = []
for name, arguments in json.loads(sys.argv[1]):
    env, done = gym.make(name, **arguments), False
    observation, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    while not done:
        legal = np.flatnonzero(observation["action_mask"])
        observation, _, terminated, truncated, info = env.step(int(rng.choice(legal)))
        done = terminated or truncated
    times.append(time.perf_counter() - began)
    began = time.perf_counter()
print(json.dumps(times))
"""


def play(episodes: list[tuple[str, dict[str, Any]]], cache: str) -> list[float]:
    """Times of episodes that one process plays, of which the first includes imports [s]."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(episodes)],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    times: list[float] = json.loads(done.stdout)
    return times


def main() -> None:
    parser = command_line(__doc__)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        together = play(list(EPISODES), f"{folder}/together")
        for k, episode in enumerate(EPISODES):
            alone, again = (play([episode], f"{folder}/{k}")[0] for _ in range(2))
            what = " ".join((episode[0], *map(str, episode[1].values())))
            rows.append({"what": what, "alone": alone, "together": together[k], "again": again})
    rows.append({"what": "all", "alone": None, "together": sum(together), "again": None})
    columns = {
        "what": lambda row: row["what"],
        "alone": lambda row: seconds(row["alone"]),
        "after the others": lambda row: seconds(row["together"]),
        "again": lambda row: seconds(row["again"]),
    }
    show("First episodes, kernels compiled", rows, columns)
    save(given.json, "first_run", rows)


if __name__ == "__main__":
    main()
