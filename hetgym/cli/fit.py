"""``hetgym fit``: a cost model fitted to measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym.cli.console import print_json, print_table, say, stderr
from hetgym.cli.options import JsonOption
from hetgym.errors import ArtefactError

if TYPE_CHECKING:
    from rich.table import Table

    from hetgym.costs.fitting import Score
    from hetgym.costs.scoring import Scores
    from hetgym.device import Device
    from hetgym.measurements import Dataset


def fit(
    dataset: Annotated[str, typer.Argument(help="A shipped dataset, or the path of a table.csv.gz.")],
    kind: Annotated[
        str, typer.Option(help="Kind of cost model: roofline, polynomial, neural, boosted, gaussian, blend or wave.")
    ] = "boosted",
    out: Annotated[Path | None, typer.Option(help="The fitted cost model. Default: DATASET-KIND.npz.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything that is random.")] = 0,
    with_models: Annotated[
        bool, typer.Option(help="Fit the rows of named models, too; without them they remain a test.")
    ] = True,
    as_json: JsonOption = False,
) -> int:
    """Fit a cost model to measurements.

    Prints its errors on shapes and on models that were held out of the fit, then fits all shapes and
    writes the model, which a platform file names in its devices' costs.
    """
    from hetgym.measurements import Dataset

    target = out or Path(f"{Path(dataset).name.removesuffix('.csv.gz')}-{kind}.npz")
    found = Dataset.load(dataset)
    if not len(found.table.timed()):
        raise ArtefactError(f"{dataset}: no operator in it has a time, so there is nothing to fit")
    scores = _fit(dataset, found, kind, seed, target, with_models)
    if as_json:
        print_json({"artefact": str(target), "kind": kind, **scores.document()})
        return 0
    print_table(scores_table(scores))
    for line in scores.lines():
        say(line)
    say(f"artefact  {target}  ({target.stat().st_size / 1e3:.0f} kB)")
    return 0


def _fit(name: str, dataset: Dataset, kind: str, seed: int, target: Path, with_models: bool) -> Scores:
    """Score the kind of model on what is held out, then fit all rows and write the model; returns the scores."""
    from hetgym.costs.fitting import fit as fit_rows
    from hetgym.costs.scoring import Scores, named_graphs

    table, device = dataset.table.timed(), dataset.device
    with stderr().status("fitting…") as status:

        def show(what: str) -> None:
            status.update(f"fitting {what}…")

        scores = Scores.of(table, device, kind, seed, show, spread=not with_models)
        rows = table if with_models else table.where(~named_graphs(table))
        costs = fit_rows(table, device, kind, seed=seed, progress=show) if with_models else scores.costs
    card = {
        "source": f"{name}: {dataset.notes}",
        "machine": dataset.machine.label,
        "licence": "MIT",
        "seed": seed,
        "rows": len(rows),
        "named models": "fitted" if with_models else "left out",
        "device": _plain_device(device),
        "scores": scores.document(),
    }
    replace(costs, card=card).save(target)
    return scores


def _plain_device(device: Device) -> dict[str, Any]:
    """The figures of a device that prices depend on, as JSON values."""
    keys = ("kind", "memory_bandwidth", "launch_overhead", "processors", "cache_bytes")
    return {"peak_flops": dict(device.peak_flops), **{key: getattr(device, key) for key in keys}}


def scores_table(scores: Scores) -> Table:
    """Errors on held-out shapes by class of operators."""
    from hetgym.cli.tables import table_of

    title = "held-out shapes, operators of at least 50 us"
    table = table_of("class", "n", "mean", "median", "P90", "bias", left=("class",), title=title)
    for name, score in scores.by_class().items():
        table.add_row(name, *_cells(score))
    table.add_section()
    table.add_row("alone", *_cells(scores.long("isolated")))
    table.add_row("within graphs", *_cells(scores.long("graph")))
    table.add_row("all forward", *_cells(scores.long()))
    table.add_row("all backward", *_cells(scores.backward()))
    return table


def _cells(score: Score) -> list[str]:
    if not score.n:
        return ["0", "", "", "", ""]
    return [str(score.n), *(f"{value:.1%}" for value in (score.mean, score.median, score.p90)), f"{score.bias:+.1%}"]
