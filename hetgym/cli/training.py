"""``hetgym train`` in a terminal: progress on stderr, a table or JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hetgym.agents.distributed.crew import Cluster, join
from hetgym.agents.recipe import Recipe
from hetgym.agents.run import TrainingRun
from hetgym.errors import ConfigError


def train(
    recipe: Recipe, name: str, out: Path, force: bool, as_json: bool, ray: str = "", workers: int | None = None
) -> int:  # fmt: skip
    """The whole of ``hetgym train``; returns the exit code.

    Args:
        recipe: what to do.
        name: of the run's folder.
        out: folder of all runs.
        force: whether to begin anew.
        as_json: whether stdout gets the results as JSON.
        ray: address of the Ray cluster whose workers play; empty for this process.
        workers: how many of them; by default as many as the cluster has cores.

    Raises:
        ConfigError: an impossible name, or a folder that holds another run.
        MissingExtra: Ray is not installed.
        ClusterError: the cluster cannot be joined or worked on.
    """
    if workers is not None and not ray:
        raise ConfigError("--workers belongs to --ray: give that, too")
    if Path(name).name != name or name in (".", "..", ""):
        raise ConfigError(f"a run is named by one word, not by a path such as {name!r}; --out takes the folder")
    console = Console(stderr=True, highlight=False)
    with _playing(console, ray, workers) as cluster, _progress(console) as bar:
        task = bar.add_task(name, total=recipe.steps, what="preparing; the first run compiles kernels")

        def watch(step: int, judged: dict[str, float] | None) -> None:
            bar.update(task, completed=min(step, recipe.steps), what="" if run is None else f"{run.speed(step):,.0f}/s")
            if judged is not None and run is not None:
                console.print(f"{step:>10,} steps  {_line(judged)}  {run.speed(step):,.0f} steps/s", soft_wrap=True)

        run: TrainingRun | None = None
        run = TrainingRun(recipe, out / name, force, watch, cluster)
        if run.checkpoint is not None:
            console.print(f"goes on at step {run.checkpoint.step:,} of {recipe.steps:,}", soft_wrap=True)
        try:
            run.train()
        except KeyboardInterrupt:
            console.print("interrupted: the same command goes on from the last checkpoint", soft_wrap=True)
            return 130
    results = run.results()
    if as_json:
        sys.stdout.write(json.dumps(results, allow_nan=False) + "\n")
    else:
        _print(results)
    for baseline, beaten in results["beaten"].items():
        if not beaten:
            ratio = results["final"].get(f"ratio_{baseline}", float("nan"))
            console.print(
                f"failed: {baseline} is not beaten, the mean ratio of makespans is {ratio:.4f}", soft_wrap=True
            )
    return 0 if all(results["beaten"].values()) else 1


@contextmanager
def _playing(console: Console, address: str, workers: int | None) -> Iterator[Cluster | None]:
    """Who plays: workers of a cluster, which takes some seconds to join, or nobody but this process."""
    if not address:
        yield None
        return
    with ExitStack() as stack:
        with console.status("connecting to a Ray cluster…"):
            cluster = stack.enter_context(join(address, workers))
        console.print(f"on {cluster.description}", soft_wrap=True)
        yield cluster


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[what]}"),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _line(judged: dict[str, float]) -> str:
    ratios = "  ".join(
        f"{value:.3f} of {name.removeprefix('ratio_')}" for name, value in judged.items() if name.startswith("ratio_")
    )
    return f"return {judged['return']:+.4f}  {ratios}"


def _print(results: dict[str, Any]) -> None:
    """Evaluations, and where the files are."""
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    table = Table(box=SIMPLE_HEAD)
    ratios = [name for name in results["final"] if name.startswith("ratio_")]
    for heading in ("steps", "return", "±", *(f"of {name.removeprefix('ratio_')}" for name in ratios)):
        table.add_column(heading, justify="right")
    for entry in results["history"]:
        table.add_row(
            f"{entry['step']:,}", f"{entry['return']:+.4f}", f"{entry['return_error']:.4f}",
            *(f"{entry.get(name, float('nan')):.4f}" for name in ratios),
        )  # fmt: skip
    console.print(table)
    console.print("makespans are means of ratios on held-out problems: below 1 is shorter", style="italic")
    for label in ("policy", "best", "results"):
        console.print(f"{label:>8}  {results['files'][label]}", markup=False, soft_wrap=True)
