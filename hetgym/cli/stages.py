"""The stages of a pipeline: their figures, and how a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hetgym._types import FloatArray, IntArray
    from hetgym.pipeline import LayerChain, PipelineProblem, Stage

KEYS = {"throughput": "slowest_s", "latency": "request_s", "balance": "heaviest", "cache": "room"}
"""Objective -> the figure that it minimises; ``cache`` maximises its own."""


class Case(NamedTuple):
    """What is cut."""

    problem: PipelineProblem  # the pipeline
    layers: Sequence[tuple[str, str]]  # names of the first and the last part of each layer, which is never cut
    layer: IntArray  # [n] layer of each operator of the problem
    devices: Sequence[str]  # name of each device
    timed: bool = True  # False if there are no times
    unit: str = "B"  # of sizes: `"B"` or `"parameters"`
    chain: LayerChain | None = None  # the layers with the link between every two devices; None for graphs
    hosts: frozenset[int] = frozenset()  # devices that are CPUs, which no stage of the programs below runs on
    prefix: str = ""  # of the names of layers, in the program's own model


def stages_of(devices: IntArray) -> list[Stage]:
    """The stages of a chain from the device of each layer."""
    from hetgym.pipeline import Stage

    ends = [*(np.flatnonzero(np.diff(devices)) + 1).tolist(), len(devices)]
    return [Stage(a, b, int(devices[a])) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _times(case: Case, devices: IntArray) -> tuple[FloatArray, FloatArray, float]:
    """[d] loads with transfers, [d] without them, and the time of one request [s]."""
    if case.chain is None:
        problem = case.problem
        loads = problem.loads(devices)
        kinds = problem.device_kind[devices]
        own = np.bincount(devices, problem.cost[np.arange(len(devices)), kinds], minlength=len(loads))
        own[np.unique(devices)] += np.array([kind.entry for kind in problem.kinds])[problem.device_kind][
            np.unique(devices)
        ]
        return loads, np.asarray(own, np.float64), float(loads.sum())
    stages = stages_of(devices)
    loads, alone = np.zeros(len(case.devices)), np.zeros(len(case.devices))
    used = [stage.device for stage in stages]
    loads[used], alone[used] = case.chain.loads(stages), case.chain.run_times(stages)
    return loads, alone, case.chain.latency_of(stages)


def figures_of(case: Case, devices: IntArray) -> dict[str, Any]:
    """The stages of a cut in the order of the layers, and what follows from them, in SI units.

    ``fullest`` is the share of its memory that the fullest device uses, or several devices of the memory that they
    share; None if no memory is limited. ``largest`` is the size of the largest stage. ``heaviest``, the value of the
    objective ``balance``, is the run time of the heaviest stage or, without times, ``fullest`` or else ``largest``.
    """
    problem = case.problem
    memory = np.array([kind.memory for kind in problem.kinds])[problem.device_kind]
    loads, alone, request = _times(case, devices)
    held = problem.held(devices)
    rows = []
    for device in dict.fromkeys(devices[problem.order].tolist()):
        inside = np.unique(case.layer[devices == device]).tolist()
        row = {"device": case.devices[device], "layers": len(inside)}
        row |= {"first": case.layers[inside[0]][0], "last": case.layers[inside[-1]][1]}
        row |= {"seconds": float(loads[device])} if case.timed else {}
        row |= {"bytes" if case.unit == "B" else case.unit: float(held[device])}
        rows.append(row | {"capacity_bytes": float(memory[device])})
    figures: dict[str, Any] = {"stages": rows}
    if case.timed:
        slowest = max(float(loads.max()), float(loads[problem.takes_turns].sum()))
        figures |= {"slowest_s": slowest, "request_s": request} | _alone(case)
        figures["speedup"] = figures["alone_s"] / slowest if slowest > 0 else None
    shares = [float((held / memory).max()), *(held[list(p.devices)].sum() / p.capacity for p in problem.pools)]
    figures["fullest"] = float(max(shares)) if np.isfinite(memory).any() else None
    figures |= {"largest": float(held.max()), "largest_unit": case.unit}
    light = (figures["largest"], case.unit) if figures["fullest"] is None else (figures["fullest"], "share")
    figures["heaviest"], figures["heaviest_unit"] = (float(alone.max()), "s") if case.timed else light
    if case.chain is not None:
        figures |= _of_chain(case, case.chain, stages_of(devices))
    return figures


def _of_chain(case: Case, chain: LayerChain, stages: Sequence[Stage]) -> dict[str, Any]:
    """The largest cache that fits, and the layouts of other programs."""
    from hetgym.pipeline.programs import layouts_of

    names = [case.prefix * (name != "lm_head") + name for name in chain.layers]
    layouts = layouts_of(names, chain.roles, [(stage.first, stage.end) for stage in stages])
    layouts = {} if case.hosts & {stage.device for stage in stages} else layouts
    room = chain.room(stages)
    figures: dict[str, Any] = {"layouts": layouts} if layouts else {}
    return figures | ({"room": room, "room_unit": "tokens" if chain.per_token else "B"} if np.isfinite(room) else {})


def print_stages(case: Case, figures: dict[str, Any], title: str) -> None:
    """A cut in words and as a table."""
    from rich.text import Text

    from hetgym._text import duration, percent, time_unit
    from hetgym.cli.console import print_table, say
    from hetgym.cli.tables import shortened, table_of

    rows = figures["stages"]
    say(title, "italic")
    if case.timed:
        gain, but = figures["speedup"], "" if figures["alone_fits"] else ", which could not hold all layers"
        words = f", {gain:.2f} times as fast as {figures['alone']} alone{but}" if gain is not None else ""
        every = f"a result every {duration(figures['slowest_s'])}{words}"
        say(every, "bold")
        say(f"one request takes {duration(figures['request_s'])} through all stages")
    full = "largest" if figures["fullest"] is None else "fullest"
    if figures[full] > 0:
        style = None if case.timed else "bold"
        say(amount(figures[full], full, case.unit), style)
    if "room" in figures:
        say(amount(figures["room"], "room", figures["room_unit"]))
    key = "bytes" if case.unit == "B" else case.unit
    scale, unit = _unit(max(row[key] for row in rows)) if key == "bytes" else (1.0, case.unit)
    slowest = figures.get("slowest_s", 0.0)
    seconds, time = time_unit(slowest)
    sized = any(row[key] for row in rows)
    limited = sized and any(row["capacity_bytes"] is not None for row in rows)
    heads = ["stage", "device", "layers", "first", "last"]
    heads += [f"time [{time}]", "of the slowest"] if case.timed else []
    heads += ([f"size [{unit}]"] if sized else []) + (["of the device"] if limited else [])
    table = table_of(*heads, left=("device", "first", "last"), spare=("last", "first", "of the slowest", "layers"))
    for number, row in enumerate(rows):
        names = (shortened(row[end], 24) for end in ("device", "first", "last"))
        device, first, last = map(Text, names)  # no markup
        cells: list[Any] = [str(number), device, str(row["layers"]), first, last]
        if case.timed:
            cells += [f"{row['seconds'] / seconds:.4g}", percent(row["seconds"] / slowest if slowest > 0 else 1.0)]
        if sized:
            cells.append(f"{row[key] / scale:,.4g}" if key == "bytes" else f"{row[key]:,.10g}")
        if limited:
            cells.append(percent(row["bytes"] / row["capacity_bytes"]) if row["capacity_bytes"] is not None else "–")
        table.add_row(*cells)
    print_table(table)
    for text in figures.get("layouts", {}).values():
        say(text)


def amount(value: float, key: str, unit: str) -> str:
    """The value of an objective in words.

    >>> amount(0.25, "fullest", "B"), amount(9952.0, "largest", "parameters")
    ('25.00 % of the memory of the fullest device', '9,952 parameters on the fullest device')
    """
    from hetgym._text import duration, percent
    from hetgym.errors import size

    if key == "room":
        return f"room for a cache of {f'{value:,.0f} tokens' if unit == 'tokens' else f'{size(value)} a layer'}"
    if key in ("slowest_s", "request_s"):
        return f"{duration(value)} {'in the slowest stage' if key == 'slowest_s' else 'for one request'}"
    if key == "fullest":
        return f"{percent(value)} of the memory of the fullest device"
    return f"{size(value) if unit == 'B' else f'{value:,.10g} {unit}'} on the fullest device"


def _alone(case: Case) -> dict[str, Any]:
    """The fastest device for all layers, its time [s], and whether it holds them; one that does not, if none does."""
    problem = case.problem
    entry = np.array([kind.entry for kind in problem.kinds])
    seconds, memory = problem.cost.sum(axis=0) + entry, np.array([kind.memory for kind in problem.kinds])
    holds = problem.size.sum() <= memory
    kind = int(np.argmin(np.where(holds, seconds, np.inf) if np.isfinite(seconds[holds]).any() else seconds))
    first = int(np.flatnonzero(problem.device_kind == kind)[0])
    return {"alone": case.devices[first], "alone_s": float(seconds[kind]), "alone_fits": bool(holds[kind])}


def _unit(largest: float) -> tuple[float, str]:
    """The unit in which sizes read best, as a divisor and its name."""
    return next(
        ((scale, name) for scale, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if largest >= scale), (1.0, "B")
    )
