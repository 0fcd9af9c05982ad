"""``hetgym price``: what an operator costs on each device, and why."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym._groups import gathered
from hetgym._text import counted
from hetgym.cli.options import FuseOption, JsonOption, ModelOptions, load_devices

if TYPE_CHECKING:
    from rich.table import Table

    from hetgym.costs import Explanation

MOST = 200  # Operators in a table, the dearest; those of equal prices share a row


def price(
    model: Annotated[
        str, typer.Argument(help="A zoo name (see 'hetgym list graphs'), or an .onnx, .pt2, .py or .json file.")
    ],
    platform: Annotated[
        str, typer.Option(help="A preset (see 'hetgym list platforms'), a YAML file, or a description of a machine.")
    ],
    operator: Annotated[
        str, typer.Option(help="Explain the price of this operator. Default: a table of the dearest ones.")
    ] = "",
    *,
    options: ModelOptions,
    fuse: FuseOption = False,
    costs: Annotated[
        str, typer.Option(help="Cost model; see 'hetgym list costs'. auto: those of the devices.")
    ] = "auto",
    as_json: JsonOption = False,
) -> int:
    """Explain prices: the model and its class, the bound, the learned ratio, the spread, and the rules that applied.

    Without --operator a table of the dearest operators on each device. Devices that are equal but for their names are
    shown once.
    """
    import numpy as np

    from hetgym._text import duration
    from hetgym.cli.console import print_json, print_table, say, stdout
    from hetgym.costs import cost_model, explain
    from hetgym.errors import unknown_name

    machine, chosen = load_devices(platform), cost_model(costs)
    graph = options.load(model, fuse)
    names = [op.name for op in graph.operators]
    if operator and operator not in names:
        raise unknown_name("operator", operator, names)
    asked = [graph.operators[names.index(operator)]] if operator else graph.operators
    alike = gathered((str(device.to_dict() | {"name": ""}), device.name) for device in machine)
    if as_json:
        rows = [
            {**_plain(explain(op, machine[group[0]], costs)), "devices": group}
            for group in alike.values()
            for op in asked
        ]
        print_json({"model": graph.name, "platform": machine.name, "costs": costs, "prices": rows})
        return 0
    for group in alike.values():
        device, where = machine[group[0]], ", ".join(group)
        if operator:
            for line in _lines(explain(asked[0], device, costs), where):
                say(line)
            continue
        seconds = chosen.predict(asked, device)
        total = duration(float(seconds[np.isfinite(seconds)].sum()))
        say(f"{where}: {counted(len(asked), 'operator')}, {total} in sum")
        dearest = np.argsort(-seconds, kind="stable")[:MOST]
        print_table(_table([explain(asked[i], device, costs) for i in dearest]))
        if len(asked) > MOST:
            stdout().print(f"the {MOST} dearest; --json has all, --operator NAME tells the rules", style="dim")
    return 0


def _plain(row: Explanation) -> dict[str, Any]:
    """An explanation as JSON values: null for a time that is not finite."""
    values = row.to_dict()
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in values.items()}


def _lines(found: Explanation, where: str) -> list[str]:
    """The explanation of one price, a fact a line."""
    from hetgym._text import duration

    price = "cannot run" if math.isinf(found.seconds) else duration(found.seconds)
    spread = f"; P10 {duration(found.low)}, P90 {duration(found.high)}" if found.low < found.high else ""
    beside = f" + {duration(found.added)} of launch, conversions and fused traffic" if found.added else ""
    fitted = {
        None: "no range of fitted rows is kept, so extrapolation is unknown",
        True: f"outside the fitted rows: {', '.join(found.outside or ())}",
        False: "within the fitted rows" if found.ratio != 1 else "nothing was learned",
    }
    return [
        f"{found.operator} ({found.kind}) on {where}: {price}{spread}",
        f"  model   {found.model}" + (f", class {found.category}" if found.category else ""),
        f"  bound   {found.bound}: {duration(found.physics)} of physics x ratio {found.ratio:.3g}{beside}",
        f"  range   {fitted[found.extrapolates]}",
        *(f"  rule    {rule}" for rule in found.rules),
    ]


def _table(explained: list[Explanation]) -> Table:
    """A row for each price, the first operator of those that share it."""
    from rich.text import Text

    from hetgym._text import duration
    from hetgym.cli.tables import table_of

    alike = Counter(replace(row, operator="") for row in explained)
    first = {replace(row, operator=""): row for row in reversed(explained)}
    words = ("operator", "model", "class", "bound", "range")
    heads = ("operator", "times", "price", "ratio", "model", "class", "bound", "range")
    table = table_of(*heads, left=words, spare=words[:0:-1])
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"  # names are complete, for --operator
    for key, count in alike.items():
        row = first[key]
        price = "cannot run" if math.isinf(row.seconds) else duration(row.seconds)
        inside = {None: "", True: "out", False: "in" if row.ratio != 1 else ""}[row.extrapolates]
        labels = map(Text, (row.model, row.category, row.bound, inside))
        table.add_row(Text(row.operator), str(count), price, f"{row.ratio:.3g}", *labels)
    for column in table.columns[1:]:
        column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
    return table
