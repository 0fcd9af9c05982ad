"""Costs and gains of training on a Ray cluster: the same updates, played in this process and by workers.

    python studies/scale_out/scale_out_training.py --json scale-out-training.json

A row is a recipe in one place: time of a step of all its lanes (of an update, where the recipe has none), roll-out
and gradients together, evaluations left out. ``playing`` is what workers take over, ``CPU here`` processor time of
this process meanwhile, which no number of workers takes off it. What was trained is compared at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

from hetgym.agents.distributed.crew import RayCluster, join
from hetgym.agents.distributed.players import RayPlayers
from hetgym.agents.recipe import Recipe, load_recipe
from hetgym.agents.sb3.training import build
from hetgym.agents.training.place_labelling import PlaceLabelling
from hetgym.agents.training.playing import Threads
from hetgym.agents.training.trainer import arrays

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, seconds, show  # noqa: E402

UPDATES = {"ppo-schedule": 4, "maskable-ppo-schedule": 2, "split": 1, "place": 6}
"""Recipes, and the updates that are timed after a first one."""

CURRICULUM = [{"kind": "random", "count": 24, "arguments": {"operators": [100, 200]}}]


class Clock:
    """Total wall time, and total processor time of this process, of all calls of a function [s].

    Args:
        function: the function to call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = self.own = 0.0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call it."""
        began, busy = perf_counter(), process_time()
        found = self.function(*arguments, **options)
        self.seconds += perf_counter() - began
        self.own += process_time() - busy
        return found


def ppo(recipe: Recipe, updates: int, cluster: RayCluster | None) -> dict[str, Any]:
    """Time updates of PPO, after one that loads kernels."""
    model = build(recipe, cluster)
    envs, size = model.get_env(), recipe.lanes * model.n_steps
    model.learn(size)
    envs.episodes.step = playing = Clock(envs.episodes.step)
    learn = Clock(model.learn)
    learn(updates * size, reset_num_timesteps=False)
    envs.close()
    return row(recipe, updates * model.n_steps, learn, playing, arrays(model.policy.network))


def place_labelling(recipe: Recipe, updates: int, cluster: RayCluster | None) -> dict[str, Any]:
    """Time updates of self-labelling, after two that load kernels and send most problems."""
    training = PlaceLabelling(recipe.parsed_settings(), updates, recipe.network, recipe.seed)
    with ThreadPoolExecutor(1) as pool:
        players: Any = Threads(pool) if cluster is None else RayPlayers(cluster, training.settings.problems)
        for _ in range(2):
            training.advance(players)
        players.play = playing = Clock(players.play)
        learn = Clock(training.advance)
        for _ in range(updates):
            learn(players)
        if cluster is not None:
            players.close()
    return row(recipe, updates, learn, playing, arrays(training.network))


def row(recipe: Recipe, count: int, learn: Clock, playing: Clock, network: dict[str, Any]) -> dict[str, Any]:
    """One row."""
    return {
        "algorithm": recipe.algorithm,
        "lanes": recipe.lanes,
        "count": count,
        "seconds": learn.seconds,
        "playing_seconds": playing.seconds,
        "playing_own_seconds": playing.own,
        "network": network,
    }


def measure(name: str, updates: int, cluster: RayCluster | None) -> dict[str, Any]:
    """One row."""
    recipe = load_recipe(name)
    if name == "split":  # whose steps take long: shorter roll-outs
        recipe = load_recipe(name, settings={**recipe.settings, "n_steps": 16})
    if recipe.algorithm == "place-labelling":
        recipe = load_recipe(name, settings={**recipe.settings, "curriculum": CURRICULUM})
        return place_labelling(recipe, updates, cluster)
    return ppo(recipe, updates, cluster)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--recipes", nargs="+", default=list(UPDATES), choices=list(UPDATES))
    parser.add_argument("--address", default="local", help="of a Ray cluster")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in options.recipes:
        alone = measure(name, UPDATES[name], None)
        rows.append({"recipe": name, "workers": 0, **alone})
        with join(options.address) as cluster:
            for workers in options.workers:
                rows.append(
                    {
                        "recipe": name,
                        "workers": workers,
                        **measure(name, UPDATES[name], RayCluster(cluster.ray, workers)),
                    }
                )
        for made in rows[-len(options.workers) - 1 :]:
            made["speed_up"] = alone["playing_seconds"] / made["playing_seconds"]
            weights = made.pop("network")
            made["same"] = all(np.array_equal(weights[key], value) for key, value in alone["network"].items())
    show(
        "training",
        rows,
        {
            "recipe": lambda row: row["recipe"],
            "workers": lambda row: str(row["workers"] or "-"),
            "a step": lambda row: seconds(row["seconds"] / row["count"]),
            "playing": lambda row: seconds(row["playing_seconds"] / row["count"]),
            "CPU here": lambda row: seconds(row["playing_own_seconds"] / row["count"]),
            "speed-up": lambda row: f"{row['speed_up']:.2f} x",
            "same": lambda row: "yes" if row["same"] else "NO",
        },
    )
    save(options.json, "scale_out_training", rows)


if __name__ == "__main__":
    main()
