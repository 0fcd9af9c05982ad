"""``hetgym train``: an agent trained by a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym._input.files import check_run_name, write_json
from hetgym._progress import Progress
from hetgym.cli.console import print_json, print_path, print_table, progress, stderr, stdout, tell
from hetgym.cli.options import ForceOption, ImportOption, JsonOption, OutOption, Output, import_files
from hetgym.errors import ConfigError

if TYPE_CHECKING:
    from hetgym.agents.distributed.crew import RayCluster
    from hetgym.agents.recipe import Recipe
    from hetgym.agents.run import TrainingRun


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe (see 'hetgym list recipes') or a YAML file.")],
    steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Budget of steps. Default: the recipe's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of everything that is random. Default: the recipe's.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="N-N", help="Several runs, one for each seed: a range or a list, as in 0-4 or 1,5,8.")
    ] = "",
    imports: ImportOption = None,
    out: OutOption = Path("results"),
    name: Annotated[
        str, typer.Option(help="Name of this run's folder. Default: the recipe and the seed, which --seeds adds.")
    ] = "",
    force: ForceOption = False,
    as_json: JsonOption = False,
    ray: Annotated[
        str,
        typer.Option(
            metavar="[ADDRESS]",
            help="Play on a Ray cluster: auto, host:port or, without an address, one of this machine.",
        ),
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Processes that play with --ray. Default: the Ray cluster's cores."),
    ] = None,
) -> int:
    """Train an agent by a recipe, and compare it with baselines on problems that it does not see.

    Writes checkpoints, policies and TensorBoard curves to OUT/NAME/. If a run is stopped or killed, the same command
    resumes it from its last checkpoint and ends with the same weights, with --ray or without. With --seeds, prints
    means over the runs with 95 % intervals, and writes them to OUT/NAME-seeds.json. Exit code 1 if the policy does not
    beat a baseline that the recipe names.
    """
    from hetgym.agents.recipe import load_recipe
    from hetgym.bench.seeds import seeds_of

    import_files(imports)
    changes = {key: value for key, value in (("steps", steps), ("seed", seed)) if value is not None}
    if seeds and seed is not None:
        raise ConfigError("give either --seed or --seeds")
    recipes = [load_recipe(recipe, **changes, **{"seed": one}) for one in seeds_of(seeds)] if seeds else []
    chosen = recipes or [load_recipe(recipe, **changes)]
    if workers is not None and not ray:
        raise ConfigError("--workers needs --ray")
    folder = name or (Path(recipe).stem if seeds else f"{Path(recipe).stem}-s{chosen[0].seed}")
    return run(chosen, Output(out, folder, force, as_json), ray, workers, bool(seeds))


def run(
    recipes: Sequence[Recipe], output: Output, ray: str = "", workers: int | None = None, together: bool = False
) -> int:
    """Train with progress on stderr, and print the results; returns the exit code.

    ``workers`` play on the Ray cluster at the address ``ray`` (empty for this process); by default one for each core.
    Runs ``together`` differ in their seed, which their folders' names end in.

    Raises:
        ConfigError: an impossible name, a folder that holds another run, or an algorithm that no workers can share.
        ClusterError: the Ray cluster cannot be joined or worked on.
    """
    from hetgym.agents.algorithms import check_workers

    check_run_name(output.name)
    if ray:
        check_workers(recipes[0].algorithm)
    done: list[dict[str, Any]] = []
    with _playing(ray, workers) as cluster:
        for recipe in recipes:
            name = f"{output.name}-s{recipe.seed}" if together else output.name
            found = _train(recipe, replace(output, name=name), cluster)
            if found is None:
                tell("interrupted: the same command resumes from the last checkpoint")
                return 130
            done.append(found)
    results = _joined(done, output) if together else done[0]
    if output.as_json:
        print_json(results)
    elif together:
        _print_joined(results, output)
    else:
        _print(results)
    for baseline, beaten in results["beaten"].items():
        if not beaten:
            last = results["history"][-1].get(f"ratio_{baseline}", float("nan"))
            ratio = last["mean"] if isinstance(last, dict) else last
            tell(f"failed: {baseline} is not beaten, the mean ratio of makespans is {ratio:.4f}")
    return 0 if all(results["beaten"].values()) else 1


def _joined(results: Sequence[dict[str, Any]], output: Output) -> dict[str, Any]:
    """Means over the runs; also written to OUT/NAME-seeds.json."""
    from hetgym.bench.seeds import over_seeds

    found = over_seeds(results)
    write_json(_joined_file(output), found)
    return found


def _joined_file(output: Output) -> Path:
    return output.out / f"{output.name}-seeds.json"


def _print_joined(results: dict[str, Any], output: Output) -> None:
    """Means over the runs with intervals."""
    from hetgym.cli.tables import table_of

    names = [name for name in results["history"][-1] if name != "step"]
    table = table_of("steps", *(name.replace("ratio_", "of ") for name in names))
    for entry in results["history"]:
        cells = []
        for name in names:
            mean, low, high = (entry[name][key] for key in ("mean", "low", "high"))
            cells.append(f"{mean:.4f}" + ("" if low is None else f" [{low:.4f}, {high:.4f}]"))
        table.add_row(f"{entry['step']:,}", *cells)
    print_table(table)
    stdout().print(
        f"means over {len(results['seeds'])} seeds with 95 % intervals; ratios of makespans below 1 are shorter",
        style="italic",
    )
    print_path("results", _joined_file(output))


@contextmanager
def _playing(address: str, workers: int | None) -> Iterator[RayCluster | None]:
    """The workers of a Ray cluster, which takes some seconds to join; None if this process plays."""
    if not address:
        yield None
        return
    from hetgym.agents.distributed.crew import join

    with ExitStack() as stack:
        with stderr().status("connecting to a Ray cluster…"):
            cluster = stack.enter_context(join(address, workers))
        tell(f"on {cluster.description}")
        yield cluster


def _train(recipe: Recipe, output: Output, cluster: RayCluster | None) -> dict[str, Any] | None:
    """Train under a progress bar; returns the results, None after an interrupt."""
    console = stderr()
    with Progress(output.name, quiet=console.is_terminal) as lines, progress(console) as bar:
        task = bar.add_task(output.name, total=recipe.steps, what="preparing")
        from hetgym.agents.run import TrainingRun  # loads PyTorch, which takes seconds

        def watch(step: int, judged: dict[str, float] | None) -> None:
            speed = "" if training is None else f"{training.speed(step):,.0f}"
            bar.update(task, completed=min(step, recipe.steps), what=f"{speed}/s" if speed else "")
            lines.now = f"step {step:,} of {recipe.steps:,}" + (f", {speed} steps/s" if speed else "")
            if judged is not None and speed:
                console.print(f"{step:>10,} steps  {_line(judged)}  {speed} steps/s", soft_wrap=True)

        training: TrainingRun | None = None
        try:
            training = TrainingRun(recipe, output.out / output.name, output.force, watch, cluster)
            if training.checkpoint is not None:
                console.print(f"resuming at step {training.checkpoint.step:,} of {recipe.steps:,}", soft_wrap=True)
            training.train()
        except KeyboardInterrupt:
            return None
    return training.results()


def _line(judged: dict[str, float]) -> str:
    ratios = "  ".join(
        f"{value:.3f} of {name.removeprefix('ratio_')}" for name, value in judged.items() if name.startswith("ratio_")
    )
    return f"return {judged['return']:+.4f}  {ratios}"


def _print(results: dict[str, Any]) -> None:
    """Evaluations, and the files that were written."""
    from hetgym.cli.tables import table_of

    ratios = [name for name in results["final"] if name.startswith("ratio_")]
    table = table_of("steps", "return", "±", *(f"of {name.removeprefix('ratio_')}" for name in ratios))
    for entry in results["history"]:
        table.add_row(
            f"{entry['step']:,}",
            f"{entry['return']:+.4f}",
            f"{entry['return_error']:.4f}",
            *(f"{entry.get(name, float('nan')):.4f}" for name in ratios),
        )
    print_table(table)
    stdout().print(
        "makespans are means of ratios on the problems of the evaluation: below 1 is shorter", style="italic"
    )
    for label in ("policy", "best", "results"):
        print_path(label, results["files"][label])
