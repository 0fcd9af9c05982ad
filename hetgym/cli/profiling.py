"""``hetgym profile`` and ``hetgym fit`` in a terminal."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hetgym._types import BoolArray, FloatArray
from hetgym.cli.terminal import print_json, stderr, stdout
from hetgym.costs.features import class_of
from hetgym.costs.fitting import Score, fit, held_out, predict_rows, priced
from hetgym.costs.learned import LearnedCosts
from hetgym.device import Device
from hetgym.errors import ArtefactError, ConfigError
from hetgym.measurements import Dataset, MachineCard, Measurements

SHORT = 50e-6
"""Operators below this are counted apart: most of their time is dispatch [s]."""


def profile(items: Sequence[Any], target: Path, options: dict[str, Any], passes: int, as_json: bool) -> int:
    """The whole of ``hetgym profile``; returns the exit code.

    Args:
        items: of :class:`~hetgym.profiling.session.Item`.
        target: the table, NAME.csv.gz.
        options: of :class:`~hetgym.profiling.session.Profile`.
        passes: how often each item is measured.
        as_json: whether to print JSON.
    """
    from hetgym.profiling.describe import describe_device
    from hetgym.profiling.plans import total
    from hetgym.profiling.session import Item, Profile

    if target.exists():
        raise ConfigError(f"{target} is there already; give the profile another name")
    if not items:
        raise ConfigError("nothing to measure: no designs, no networks, no models and no shapes are asked for")
    session = Profile(target, **options)
    left = session.missing(items, passes)
    done = passes * len(items) - len(left)
    console = stderr()
    console.print(f"{total(items)}, {passes} times" + (f"; {done} of them measured before" if done else ""))
    machine = MachineCard.collect(session.settings.cores, session.settings.label)
    start = time.monotonic()
    columns = (TextColumn("profile"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(),
               TextColumn("[dim]{task.fields[what]}"))  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("profile", total=done + len(left), completed=done, what="")

        def show(item: Item, status: str) -> None:
            bar.update(task, advance=1, what=item.source)
            if status != "ok":
                console.print(f"{item.source}: {status}", highlight=False)

        table = session.run(items, passes, show)
    device = describe_device(session.device, session.settings, machine)
    notes = f"{total(items)}, {passes} times, medians; hetgym profile"
    Dataset(table, machine, device, notes).save(target)
    counts: dict[str, int] = defaultdict(int)
    for row in table:
        counts[row.status] += 1
    if as_json:
        print_json({"table": str(target), "rows": dict(counts), "seconds": round(time.monotonic() - start, 1)})
    else:
        words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        stdout().print(f"{len(table)} rows ({words}) in {time.monotonic() - start:.0f} s", highlight=False)
        stdout().print(f"   table  {target}\n    card  {target.name.removesuffix('.csv.gz')}.json", soft_wrap=True)
    return 0


def platform(hosts: dict[str, Any], target: Path) -> None:
    """Measure this machine's devices and links, and write them as a platform file."""
    from hetgym.profiling.describe import describe_platform, write_platform

    with stderr().status("measuring links…") as status:
        described = describe_platform(hosts, progress=lambda what: status.update(f"measuring {what}…"))
    try:
        write_platform(target, described)
    except OSError as cause:
        raise ConfigError(f"{target}: cannot be written ({cause.strerror})") from cause
    stderr().print(f"platform  {target}", highlight=False, soft_wrap=True)


def fit_dataset(name: str, model: str, seed: int, out: Path, with_models: bool, as_json: bool) -> int:
    """The whole of ``hetgym fit``: scores on what was held out, then a model of all rows; returns the exit code.

    Args:
        name: of the dataset.
        model: kind of cost model.
        seed: of the fits.
        out: the artefact.
        with_models: whether the rows of named models are fitted, too; without, they remain a test.
        as_json: whether to print JSON.
    """
    dataset = Dataset.load(name)
    table, device = dataset.table.timed(), dataset.device
    if not len(table):
        raise ArtefactError(f"{name}: no operator in it has a time, so there is nothing to fit")
    console = stderr()
    with console.status("fitting…") as status:

        def show(what: str) -> None:
            status.update(f"fitting {what}…")

        scores = Scores.of(table, device, model, seed, show, spread=not with_models)
        rows = table if with_models else table.where(~named_graphs(table))
        costs = fit(table, device, model, seed=seed, progress=show) if with_models else scores.costs
    digest = dataset.machine.label
    card = {"source": f"{name}: {dataset.notes}", "machine": digest, "licence": "MIT", "seed": seed,
            "rows": len(rows), "named models": "fitted" if with_models else "left out",
            "device": plain_device(device), "scores": scores.document()}  # fmt: skip
    replace(costs, card=card).save(out)
    if as_json:
        print_json({"artefact": str(out), "model": model, **scores.document()})
        return 0
    stdout().print(scores.table())
    for line in scores.lines():
        stdout().print(line, highlight=False, soft_wrap=True)
    stdout().print(f"artefact  {out}  ({out.stat().st_size / 1e3:.0f} kB)", highlight=False, soft_wrap=True)
    return 0


def plain_device(device: Device) -> dict[str, Any]:
    """The figures of a device that prices depend on, as JSON values."""
    keys = ("kind", "memory_bandwidth", "launch_overhead", "processors", "cache_bytes")
    return {"peak_flops": dict(device.peak_flops), **{key: getattr(device, key) for key in keys}}


class Scores:
    """How a model does on shapes and on graphs that its fit did not see.

    Args:
        shapes: rows whose shape group was held out, and their predictions [s].
        graphs: of each graph: the sum over its operators, predicted and measured [s].
        costs: the model that predicted the graphs.
    """

    def __init__(
        self, shapes: tuple[Measurements, FloatArray], graphs: dict[str, tuple[float, float]], costs: LearnedCosts
    ) -> None:
        self.shapes = shapes
        self.graphs = graphs
        self.costs = costs

    @classmethod
    def of(
        cls, table: Measurements, device: Device, model: str, seed: int, progress: Any = None, spread: bool = False
    ) -> Scores:
        """Fit twice: without a fifth of the shape groups, and without any named model.

        Args:
            table: rows that have times.
            device: what they were measured on.
            model: kind of cost model.
            seed: of the fits.
            progress: called with the name of each class.
            spread: whether the model without the named ones is to be used: all of its classes, with percentiles.
        """
        named = named_graphs(table)
        rest = table.where(~named)
        held = held_out(rest.operators)
        test = rest.where(held)
        asked = priced(test)
        fitted = fit(rest.where(~held), device, model, seed=seed, spread=False, only=asked, progress=progress)
        found = predict_rows(fitted, test, device)
        rows = table.where(named)
        only = None if spread else priced(rows)
        whole = fit(rest, device, model, seed=seed, spread=spread, only=only, progress=progress)
        predicted = predict_rows(whole, rows, device)
        graphs: dict[str, tuple[float, float]] = {}
        for name in sorted({row.source for row in rows}):
            at = [i for i, row in enumerate(rows) if row.source == name]
            count = np.array([rows.rows[i].count for i in at])
            graphs[name] = (float(predicted[at] @ count), float(rows.seconds[at] @ count))
        return cls((test, found), graphs, whole)

    def long(self, context: str | None = None) -> Score:
        """Held-out operators of at least :data:`SHORT`."""
        test, found = self.shapes
        mask = (test.seconds >= SHORT) & np.array([row.direction == "forward" for row in test], np.bool_)
        if context is not None:
            mask &= np.array([row.context == context for row in test], np.bool_)
        return Score.of(found[mask], test.seconds[mask])

    def backward(self) -> Score:
        """Held-out gradients of at least :data:`SHORT`."""
        test, found = self.shapes
        mask = (test.seconds >= SHORT) & np.array([row.direction == "backward" for row in test], np.bool_)
        return Score.of(found[mask], test.seconds[mask])

    def whole(self) -> Score:
        """Held-out models: the sum over all operators."""
        pairs = np.array(list(self.graphs.values()), np.float64).reshape(-1, 2)
        return Score.of(pairs[:, 0], pairs[:, 1])

    def document(self) -> dict[str, Any]:
        """All scores as JSON values."""
        graphs = {name: round(p / m - 1, 4) for name, (p, m) in self.graphs.items()}
        return {"held-out shapes, at least 50 us": _plain(self.long()), "alone": _plain(self.long("isolated")),
                "within graphs": _plain(self.long("graph")), "backward": _plain(self.backward()),
                "held-out models": _plain(self.whole()),
                "model errors": graphs}  # fmt: skip

    def table(self) -> Table:
        """Errors by class of operators."""
        test, found = self.shapes
        table = Table(box=SIMPLE_HEAD, title="held-out shapes, operators of at least 50 us", title_justify="left")
        for name in ("class", "n", "mean", "median", "P90", "bias"):
            table.add_column(name, justify="left" if name == "class" else "right")
        classes = np.array([class_of(op) for op in priced(test)])
        for name in sorted(set(classes.tolist())):
            mask: BoolArray = (classes == name) & (test.seconds >= SHORT)
            if mask.any():
                table.add_row(name, *_cells(Score.of(found[mask], test.seconds[mask])))
        table.add_section()
        table.add_row("alone", *_cells(self.long("isolated")))
        table.add_row("within graphs", *_cells(self.long("graph")))
        table.add_row("all forward", *_cells(self.long()))
        table.add_row("all backward", *_cells(self.backward()))
        return table

    def lines(self) -> list[str]:
        """Errors of whole models."""
        if not self.graphs:
            return []
        rows = [f"{name:16s} predicted {p * 1e3:9.2f} ms  measured {m * 1e3:9.2f} ms  {p / m - 1:+7.1%}"
                for name, (p, m) in self.graphs.items()]  # fmt: skip
        return ["held-out models, sum over operators", *rows, f"{'':16s} {self.whole()}", ""]


def named_graphs(table: Measurements) -> BoolArray:
    """[n] rows of graphs that are models with a name of their own, not random networks."""
    return np.array([row.context == "graph" and not row.source.startswith("random-") for row in table], np.bool_)


def _cells(score: Score) -> list[str]:
    if not score.n:
        return ["0", "", "", "", ""]
    return [str(score.n), *(f"{value:.1%}" for value in (score.mean, score.median, score.p90)), f"{score.bias:+.1%}"]


def _plain(score: Score) -> dict[str, float]:
    return {key: round(float(value), 4) for key, value in asdict(score).items()} if score.n else {"n": 0}
