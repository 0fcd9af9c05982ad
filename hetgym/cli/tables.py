"""Tables for the terminal: summaries, comparisons, groups, choices, devices, scores and catalogues."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hetgym._sums import summed
from hetgym._text import duration, number, percent
from hetgym.bench.comparison import Against
from hetgym.bench.fronts import Choice
from hetgym.bench.groups import GroupLine
from hetgym.bench.plan import Block, DeviceShare
from hetgym.bench.significance import Comparison
from hetgym.bench.summary import Line
from hetgym.cli.console import Spared
from hetgym.errors import size
from hetgym.workloads.best_known import PROVED

ACROSS = 6  # Groups of problems side by side
RIVALS = 8  # Schedulers side by side that others are compared with


def table_of(*headings: str, left: Sequence[str] = (), title: str | None = None, spare: Sequence[str] = ()) -> Table:
    """An empty table of numbers, right-aligned.

    Args:
        left: columns of words, left-aligned and never wrapped.
        spare: columns that narrow terminals leave out, the most dispensable first.
    """
    table = Spared(box=SIMPLE_HEAD, title=title, title_justify="left")
    table.spare = spare
    for heading in headings:
        words = heading in left
        table.add_column(Text(heading), justify="left" if words else "right", no_wrap=words)
    return table


BLIND = "†"  # Mark of schedulers that plan for another runtime than the one that runs the plan


def summary_table(lines: Sequence[Line], runtime: str, blind: Collection[str] = ()) -> Table:
    """The summary of one runtime, the smallest mean gap first; ``blind`` schedulers plan for another one."""
    heads = ("scheduler", "kind", "gap to best", "gap to bound", "SLR", "speed-up", "wins", "time to schedule")
    table = table_of(*heads, left=heads[:2], spare=("kind", "gap to bound", "wins", "SLR"))
    for place, line in enumerate(line for line in lines if line.runtime == runtime):
        name = Text(line.scheduler, style="bold" if place == 0 else "")
        if line.scheduler in blind:
            name.append(f" {BLIND}", style="dim")
        if line.failed:
            name.append(f" ({line.failed} failed)", style="red")
        table.add_row(
            name,
            line.kind,
            percent(line.gap_to_best),
            _over_bound(line.gap_to_bound),
            number(line.slr, "{:.3f}"),
            number(line.speedup, "{:.2f}×"),
            f"{line.wins}/{line.problems}",
            duration(line.schedule_seconds),
        )
    return table


def _over_bound(gap: float | None) -> str:
    return "optimal" if gap is not None and gap <= PROVED else percent(gap)


def against_table(lines: Sequence[Against], runtime: str) -> Table:
    """The comparisons with the reference under one runtime, the shortest schedules first."""
    mine = [line for line in lines if line.runtime == runtime]
    reference = mine[0].reference if mine else ""
    heads = (f"makespan over {reference}", "95 % interval", "better", "equal", "worse", "probability")
    table = table_of("scheduler", *heads, left=("scheduler",), spare=("equal", "probability"))
    for line in sorted(mine, key=lambda line: line.comparison.ratio if line.comparison else math.inf):
        found = line.comparison
        if found is None:
            table.add_row(line.scheduler, *["–"] * 6)
            continue
        ratio = Text(f"{found.ratio:.3f}", style="bold" if found.significant else "")
        counts = map(str, (found.better, found.equal, found.worse))
        chance = "–" if found.probability is None else f"{100 * found.probability:.1f} %"
        table.add_row(line.scheduler, ratio, _interval(found), *counts, chance)
    return table


def _interval(found: Comparison) -> str:
    return "–" if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}"


def group_tables(lines: Sequence[GroupLine], by: str, runtime: str, ranking: Sequence[str]) -> list[Table]:
    """Mean gaps of schedulers (rows, as ranked) on groups of a column (columns), a few groups side by side."""
    mine = {(line.scheduler, line.group): line for line in lines if line.by == by and line.runtime == runtime}
    groups = list(dict.fromkeys(group for _, group in mine))
    tables = []
    for first in range(0, len(groups), ACROSS):
        part = groups[first : first + ACROSS]
        counts = [max(line.problems for (_, name), line in mine.items() if name == group) for group in part]
        table = table_of(by, *(f"{group}\n({n})" for group, n in zip(part, counts, strict=True)), left=(by,))
        for scheduler in ranking:
            cells = [mine.get((scheduler, group)) for group in part]
            table.add_row(scheduler, *("–" if cell is None else percent(cell.gap_to_best) for cell in cells))
        tables.append(table)
    return tables


def choices_table(choices: Sequence[Choice]) -> Table:
    """The best scheduler within each time; a name that differs from the one above is bold."""
    table = table_of(
        "within", "best", "takes", "gap to best", "95 %", "next best", "gap", "chance", left=("best", "next best")
    )
    for column in table.columns:
        column.no_wrap = True
    before = ""
    for choice in choices:
        best, second = choice.best, choice.second
        table.add_row(
            duration(choice.within_s),
            Text(best.scheduler, style="" if best.scheduler == before else "bold"),
            duration(best.seconds),
            percent(best.gap),
            "–" if best.low is None or best.high is None else f"{100 * best.low:.1f} to {100 * best.high:.1f} %",
            second.scheduler if second else "–",
            percent(second.gap if second else None),
            "–" if choice.probability is None else f"{100 * choice.probability:.0f} %",
        )
        before = best.scheduler
    return table


def ratio_tables(ratios: Mapping[tuple[str, str], float | None], against: Sequence[str]) -> list[Table]:
    """How much longer schedulers (rows) take than others (columns) where they lose most, a few columns side by side.

    ``ratios`` are by first and second scheduler; None where nothing was found.
    """
    rows = list(dict.fromkeys(first for first, _ in ratios))
    worst = {
        first: max((ratio for (name, _), ratio in ratios.items() if name == first and ratio), default=0.0)
        for first in rows
    }
    tables = []
    for begin in range(0, len(against), RIVALS):
        part = against[begin : begin + RIVALS]
        table = table_of("scheduler", *part, left=("scheduler",))
        for first in rows:
            cells = [ratios.get((first, second)) for second in part]
            styles = ["bold" if cell is not None and cell == worst[first] else "" for cell in cells]
            table.add_row(first, *map(Text, [number(cell, "{:.2f}") for cell in cells], styles))
        tables.append(table)
    return tables


def device_table(shares: Sequence[DeviceShare]) -> Table:
    """The load of each device under a plan."""
    heads = ("device", "operators", "busy", "utilised", "weights", "memory, at most", "of", "sends", "receives")
    table = table_of(*heads, left=("device",))
    for share in shares:
        capacity = "–" if share.capacity_bytes is None else size(share.capacity_bytes)
        load = str(share.operators), duration(share.busy_seconds), percent(share.utilisation)
        amounts = size(share.weight_bytes), size(share.peak_bytes), capacity
        table.add_row(share.name, *load, *amounts, size(share.sent_bytes), size(share.received_bytes))
    return table


def block_table(found: Sequence[Block], most: int = 16) -> Table:
    """The blocks of a plan in the order of the model; of more than ``most``, the longest in time and the others."""
    total = summed(block.seconds for block in found)
    shown = sorted(sorted(range(len(found)), key=lambda k: -found[k].seconds)[:most])
    table = table_of("what goes where", "device", "operators", "time", "share", left=("what goes where", "device"))
    for k in shown:
        block = found[k]
        name = block.first if block.operators == 1 else f"{shortened(block.first)} … {shortened(block.last)}"
        share = percent(block.seconds / total if total > 0 else 0.0)
        table.add_row(name, block.device, str(block.operators), duration(block.seconds), share)
    if len(found) > most:
        rest = [found[k] for k in sorted(set(range(len(found))) - set(shown))]
        spent = summed(block.seconds for block in rest)
        count = summed(block.operators for block in rest)
        table.add_row(
            f"{len(rest)} shorter blocks", "", str(count), duration(spent), percent(spent / total), style="dim"
        )
    return table


def shortened(name: str, most: int = 34) -> str:
    """The end of a long name, which says more than its beginning."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def front_table(plans: Sequence[tuple[str, Mapping[str, float]]]) -> Table:
    """Plans with their makespan [s], energy [J] and cost: schedulers with their values by name, the same for all."""
    units = {"energy": "energy [J]"}
    table = table_of("plan", *(units.get(name, name) for name in plans[0][1]), left=("plan",))
    for scheduler, values in plans:
        cells = (duration(value) if name == "makespan" else f"{value:.4g}" for name, value in values.items())
        table.add_row(scheduler, *cells)
    return table


PROSE = ("description", "summary", "citation", "source", "notes", "settings", "devices")
"""Columns of catalogues that are texts: they are printed below a row's name and facts."""


def catalogue(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """The rows, all of the same keys: a table of numbers and words, or a paragraph each where there are texts."""
    if any(column in PROSE for column in rows[0]):
        return Group(*(part for row in rows for part in _paragraphs(row)))
    table = Table(box=SIMPLE_HEAD)
    for heading, value in rows[0].items():
        numeric = isinstance(value, int | float)
        heading = {"gflop": "GFLOP", "weights_mb": "weights MB"}.get(heading, heading)
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=heading == "name" or numeric)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _paragraphs(row: dict[str, Any]) -> Iterator[RenderableType]:
    facts = [f"{key} {_cell(value)}" for key, value in row.items() if key not in ("name", *PROSE) and value]
    head = Text(str(row["name"]), style="bold")
    if facts:
        head.append(f"  {' · '.join(facts)}", style="not bold dim")
    yield head
    for key in PROSE:
        if row.get(key):
            yield Padding(Text(_cell(row[key])), (0, 0, 0, 4))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
