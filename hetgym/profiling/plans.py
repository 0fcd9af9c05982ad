"""Plans: the items that a profile measures."""

import csv
from collections.abc import Sequence
from pathlib import Path

from hetgym._input.files import as_path, read_text
from hetgym._sums import summed
from hetgym._text import plain
from hetgym.errors import ConfigError, GraphError, suggestion
from hetgym.graph.assembly import check_operator
from hetgym.graph.loading import load_graph
from hetgym.graph.ops import Operator
from hetgym.measurements.table import COLUMNS, DIRECTIONS, attributes_of, parse_tensors
from hetgym.profiling.designs import CORE, DESIGNS, Size, draw
from hetgym.profiling.networks import random_networks
from hetgym.profiling.session import Item

_NEEDED = ("kind", "inputs", "outputs")
_LONGEST = 64 << 20


def design_items(names: Sequence[str], share: float = 1.0, seed: int = 0, size: Size = CORE) -> list[Item]:
    """Items for isolated operators of space-filling designs: forward, and backward as far as a design includes it.

    Without names all designs are used. ``share`` is that of each design's count and may exceed 1.

    Raises:
        UnknownName: no such design.
    """
    items = []
    for name in names or DESIGNS:
        operators = draw(name, max(1, round(share * DESIGNS[name].count)) if name in DESIGNS else None, seed, size)
        items += [Item(name, op) for op in operators]
        items += [
            Item(name, op, direction="backward")
            for op in operators[: round(share * size.gradients * DESIGNS[name].backward)]
        ]
    return items


def network_items(count: int, seed: int = 0, size: Size = CORE) -> list[Item]:
    """Items for random networks, measured as whole graphs; see :func:`~hetgym.profiling.networks.random_networks`."""
    return [Item(graph.name, graph=graph) for graph in random_networks(count, seed, size)]


def model_items(models: Sequence[str]) -> list[Item]:
    """Items for given models, measured as whole graphs: zoo names, ``.onnx``, ``.pt2`` or ``.json`` files."""
    return [Item(plain(Path(model).stem), graph=load_graph(model)) for model in models]


def table_items(path: str | Path) -> list[Item]:
    """Items for isolated operators that a CSV file lists.

    Its first line names the columns: ``kind``, ``inputs`` and ``outputs``, and if wanted ``attributes``, ``direction``
    and ``source``, as in a table of measurements. A line that is not an operator is a ConfigError that names it.
    """
    file = as_path(path, "a list of shapes", ConfigError)
    try:
        lines = list(csv.reader(read_text(file, _LONGEST, ConfigError).splitlines(), strict=True))
    except csv.Error as cause:
        raise ConfigError(f"{path}: not a CSV file ({cause})") from cause
    header = lines[0] if lines else []
    for name in header:
        if name not in COLUMNS:
            raise ConfigError(f"{path}: unknown column {name!r}; {suggestion(name, COLUMNS)}")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise ConfigError(f"{path}: column {missing[0]!r} is missing; required: {', '.join(_NEEDED)}")
    items = []
    for number, fields in enumerate(lines[1:], 2):
        where = f"{path}: line {number}"
        if len(fields) != len(header):
            raise ConfigError(f"{where}: {len(fields)} fields, but {len(header)} columns")
        row = dict(zip(header, fields, strict=True))
        direction = row.get("direction") or "forward"
        if direction not in DIRECTIONS or not row["kind"]:
            raise ConfigError(f"{where}: the kind is empty, or the direction is not one of {', '.join(DIRECTIONS)}")
        inputs, outputs = (parse_tensors(row[side], where) for side in ("inputs", "outputs"))
        source = row.get("source") or plain(file.stem)
        attributes = attributes_of(row.get("attributes", ""), where)
        operator = Operator(source, row["kind"], inputs, outputs, attributes)
        try:
            check_operator(operator, where)
        except GraphError as error:
            raise ConfigError(str(error)) from error.__cause__
        items.append(Item(source, operator, direction=direction))
    return items


def total(items: Sequence[Item]) -> str:
    """The contents of a plan in words."""
    graphs = sum(item.graph is not None for item in items)
    return (
        f"{len(items) - graphs} operators alone, {graphs} graphs with {summed(_size(item) for item in items)} operators"
    )


def _size(item: Item) -> int:
    return 0 if item.graph is None else len(item.graph)
