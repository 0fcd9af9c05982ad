"""Pipelines from a table of layers: a CSV file whose headings carry the units."""

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetgym._input.files import as_path, read_text
from hetgym._types import FloatArray
from hetgym.errors import ProblemError
from hetgym.pipeline.chain import LayerChain
from hetgym.pipeline.columns import Columns
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.programs import roles_of
from hetgym.platform import Platform

MAX_BYTES = 8_000_000


@dataclass(frozen=True)
class LayerTable:
    """A table of layers as a pipeline."""

    problem: PipelineProblem  # a chain with one operator for each layer; all links are equal
    chain: LayerChain  # the same layers, with the link between every two devices
    timed: bool  # False if the table has no times; all are then 0
    unit: str  # of the sizes: `"B"` or `"parameters"`


def load_layers(
    path: str | os.PathLike[str], platform: Platform | None = None, devices: int | None = None
) -> LayerTable:
    """Read a table of layers.

    The columns are ``layer``, its name; ``count``, for as many equal layers in a row; ``time [ms]``, its run time, or
    ``time NAME [ms]`` for devices of that name or kind; ``size [MB]``, its weights and all else that it keeps in
    memory; ``shared-with``, the name of an earlier or later layer with which it shares a weight, of the smaller of both
    sizes; ``cache [kB]``, what it keeps for each token; and ``output [MB]``, which the next layer reads, or
    ``transfer [ms]``, the time to move that to or from main memory. Units are those of
    :data:`~hetgym.pipeline.columns.COLUMNS`. Fields are separated by commas, tabs or semicolons, as the headings show;
    beside semicolons, numbers may have decimal commas. All columns but one of time or size may be missing. Without
    ``cache``, all layers but the words before the first and the head behind the last have one, and all caches are
    equal.

    Args:
        platform: the devices, their memory, and the links over which outputs move.
        devices: number of equal devices of unlimited memory, without a platform.

    Raises:
        ProblemError: the file is missing or damaged, a heading or number is invalid, or a device has no time.
    """
    table = _read(as_path(path, "a table of layers", ProblemError), platform)
    if platform is None:
        count = devices or 1
        kinds, first = [DeviceKind("device", count)], [0]
        cost = np.repeat(table.time(None)[:, None], count, axis=1)
    else:
        cost = np.stack([table.time(device) for device in platform.devices], axis=1)
        kinds, first = kinds_of(platform, cost)
    chain = _chain(table, platform, cost)
    transfer = chain.delay
    if platform is not None and len(platform) > 1:
        apart = ~np.eye(len(platform), dtype=np.bool_)
        transfer = transfer + chain.messages * chain.latency[apart].mean() + chain.sent * chain.pace[apart].mean()
    edges = [(k, k + 1) for k in range(table.number - 1)]
    rest = {"operator_names": table.names, "name": chain.name, "shared": chain.shared}
    problem = PipelineProblem(cost[:, first], edges, kinds, transfer, chain.size, **rest)  # type: ignore[arg-type]
    return LayerTable(problem, chain, "time" in table.units, chain.unit)


def _read(file: Path, platform: Platform | None) -> Columns:
    """The columns of a file; ProblemError if they do not suit the platform."""
    text = read_text(file, MAX_BYTES, ProblemError).removeprefix("\ufeff").splitlines()  # as spreadsheets save it
    mark = max(",;\t", key=text[0].count) if text else ","
    try:
        lines = [row for row in csv.reader(text, delimiter=mark, strict=True) if row]
    except csv.Error as cause:
        raise ProblemError(f"{file}: not a CSV file ({cause})") from cause
    if len(lines) < 2:
        raise ProblemError(f"{file}: expected a line of headings, such as layer,time [ms],size [MB], and layers")
    table = Columns(file, lines, decimal="," if mark == ";" else ".")
    if platform is not None and table.units.get("size") == "parameters":
        raise ProblemError(f"{file}: sizes in parameters fit no memory in bytes; give size [MB], or no platform")
    if platform is None and "output" in table.units:
        raise ProblemError(f"{file}: the time of an output depends on links: give a platform, or transfer [ms]")
    return table


def _chain(table: Columns, platform: Platform | None, cost: FloatArray) -> LayerChain:
    """The layers of a table with their run times [n, d], on a platform or on equal devices without links."""
    n, d = cost.shape
    nothing, columns = np.zeros(n), table.columns
    fixed = "transfer" in columns or platform is None
    roles = roles_of(table.names)
    cached = np.array([float(role == "layer") for role in roles])
    return LayerChain(
        table.file.name.removesuffix(".csv").removesuffix(".tsv"),
        tuple(table.names),
        tuple(f"device {k}" for k in range(d)) if platform is None else tuple(x.name for x in platform),
        cost=cost,
        size=columns.get("size", nothing),
        memory=np.full(d, np.inf) if platform is None else np.array([x.usable_memory for x in platform]),
        latency=np.zeros((d, d)) if platform is None else platform.latency,
        pace=np.zeros((d, d)) if platform is None else 1.0 / platform.bandwidth,
        messages=nothing if fixed else np.ones(n),
        sent=nothing if fixed else columns.get("output", nothing),
        delay=columns.get("transfer", nothing),
        cache=columns.get("cache", cached),
        cached=nothing,
        shared=table.shared(),
        roles=tuple(roles),
        memory_pool=() if platform is None else tuple(platform.memory_pool),
        entry=() if platform is None else tuple(x.partition_overhead for x in platform),
        turns=() if platform is None else tuple(platform.takes_turns),
        per_token="cache" in columns,
        unit="parameters" if table.units.get("size") == "parameters" else "B",
    )


def kinds_of(platform: Platform, cost: FloatArray) -> tuple[list[DeviceKind], list[int]]:
    """Kinds of devices, consecutive ones with equal costs [n, d] and memory being one; and the first device of each."""
    turns = platform.takes_turns
    alike = [(x.usable_memory, x.memory_pool, x.partition_overhead, turns[k]) for k, x in enumerate(platform)]
    first = [d for d in range(len(alike)) if d == 0 or alike[d] != alike[d - 1] or (cost[:, d] != cost[:, d - 1]).any()]
    counts = np.diff([*first, len(platform)]).tolist()
    named = [platform[d] for d in first]
    kinds = [
        DeviceKind(x.name, count, x.usable_memory, pool=x.memory_pool, entry=x.partition_overhead, turns=turns[d])
        for d, x, count in zip(first, named, counts, strict=True)
    ]
    return kinds, first
