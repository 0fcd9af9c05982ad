"""Sharding problems in files: the JSON form of the ASPLOS 2025 contest on intra-operator parallelism."""

from __future__ import annotations

import json
import os
from itertools import chain
from typing import Any

import numpy as np

from hetgym._input.files import as_path, read_text, write_text
from hetgym._input.json import noun, parse, spelled
from hetgym._types import Int64Array
from hetgym.errors import ProblemError
from hetgym.sharding.problem import LARGEST, UNITS, ShardingProblem, check_rows

LIMIT_BYTES = 512 << 20  # Longest document that is accepted, after decompression [byte]

_FIELDS = {"nodes": ("intervals", "costs", "usages"), "edges": ("nodes", "costs")}


def load(path: str | os.PathLike[str]) -> ShardingProblem:
    """Read a sharding problem from a ``.json`` or ``.json.gz`` file.

    The form is that of the contest (google/iopddl:README.md). ``usage_limit`` may be absent; ``unit`` is hetgym's own
    and is "abstract" where it is absent.

    Raises:
        ProblemError: the file is missing, damaged, too long or of another form; tables are ragged, a number is negative
            or not whole, an index is out of range, or an interval ends before it begins.
    """
    file = as_path(path, "a sharding problem", ProblemError)
    where = str(path)
    document = parse(read_text(file, LIMIT_BYTES, ProblemError), where, ProblemError)
    fields = _object(_object(document, where, where).get("problem"), f"{where}: 'problem'", where)
    parts = {
        part: {name: _list(_object(fields.get(part), f"{where}: {part!r}", where), part, name, where) for name in names}
        for part, names in _FIELDS.items()
    }
    nodes, edges = parts["nodes"], parts["edges"]
    for part, names in (("nodes", ("costs", "usages")), ("edges", ("costs",))):
        first = _FIELDS[part][0]
        for name in names:
            if len(parts[part][name]) != len(parts[part][first]):
                raise ProblemError(
                    f"{where}: {part}: {len(parts[part][first])} {first} and {len(parts[part][name])} {name}"
                )
    name, unit, limit = (
        fields.get("name", file.name.split(".")[0]),
        fields.get("unit", "abstract"),
        fields.get("usage_limit"),
    )
    if not isinstance(name, str):
        raise ProblemError(f"{where}: 'name' is {noun(name)}, not a string")
    if unit not in UNITS:
        raise ProblemError(f"{where}: 'unit' is {spelled(unit)}; it must be one of {', '.join(UNITS)}")
    if limit is not None and (type(limit) is not int or not 0 <= limit <= LARGEST):
        raise ProblemError(f"{where}: 'usage_limit' is {spelled(limit)}, not a whole number from 0 to {LARGEST}")
    _check_pairs(nodes["intervals"], f"{where}: nodes: intervals")
    _check_pairs(edges["nodes"], f"{where}: edges: nodes")
    lengths = [[len(row) for row in rows] for rows in (nodes["costs"], nodes["usages"], edges["costs"])]
    pairs = _flat(edges["nodes"], f"{where}: edges: nodes").reshape(-1, 2)
    try:
        check_rows(lengths[0], lengths[1], pairs, lengths[2])
    except ValueError as error:
        raise ProblemError(f"{where}: {error}") from error
    return ShardingProblem(
        np.concatenate([[0], np.cumsum(lengths[0], dtype=np.int64)]),
        _flat(nodes["costs"], f"{where}: nodes: costs"),
        _flat(nodes["usages"], f"{where}: nodes: usages"),
        _flat(nodes["intervals"], f"{where}: nodes: intervals"),
        pairs,
        _flat(edges["costs"], f"{where}: edges: costs"),
        limit,
        name,
        unit,
    )


def save(problem: ShardingProblem, path: str | os.PathLike[str]) -> None:
    """Write a problem in the form that :func:`load` reads, gzipped if the name ends in ``.gz``.

    Raises:
        ProblemError: the file cannot be written.
    """
    nodes, edges = problem.offsets.tolist(), problem.table_offsets.tolist()
    content: dict[str, Any] = {
        "name": problem.name,
        "nodes": {
            "intervals": problem.intervals.tolist(),
            "costs": _rows(problem.costs, nodes),
            "usages": _rows(problem.usages, nodes),
        },
        "edges": {"nodes": problem.ends.tolist(), "costs": _rows(problem.tables, edges)},
    }
    if problem.limit is not None:
        content["usage_limit"] = problem.limit
    if problem.unit != "abstract":
        content["unit"] = problem.unit
    target = as_path(path, "a sharding problem", ProblemError)
    write_text(target, json.dumps({"problem": content}, separators=(",", ":")) + "\n", ProblemError)


def _rows(values: Int64Array, offsets: list[int]) -> list[list[int]]:
    flat = values.tolist()
    return [flat[first:end] for first, end in zip(offsets, offsets[1:], strict=False)]


def _object(value: Any, place: str, where: str) -> dict[str, Any]:
    if value is None:
        raise ProblemError(f"{where}: not a sharding problem, which has 'problem' with 'nodes' and 'edges'")
    if not isinstance(value, dict):
        raise ProblemError(f"{place} is {noun(value)}, not an object")
    return value


def _list(fields: dict[str, Any], part: str, name: str, where: str) -> list[list[Any]]:
    """A field that is a list of lists."""
    rows = fields.get(name)
    if not isinstance(rows, list):
        raise ProblemError(
            f"{where}: {part}: {name!r} is {noun(rows)}, not a list"
            if name in fields
            else f"{where}: {part}: no {name!r}"
        )
    for index, row in enumerate(rows):
        if not isinstance(row, list):
            raise ProblemError(f"{where}: {part}: {name}[{index}] is {noun(row)}, not a list")
    return rows


def _check_pairs(rows: list[list[Any]], place: str) -> None:
    for index, row in enumerate(rows):
        if len(row) != 2:
            raise ProblemError(f"{place}[{index}] has {len(row)} numbers, expected 2")


def _flat(rows: list[list[Any]], place: str) -> Int64Array:
    """All numbers of some rows."""
    numbers = list(chain.from_iterable(rows))
    kinds = set(map(type, numbers)) - {int}
    if not kinds:
        try:
            found = np.array(numbers, np.int64)
            if not found.size or found.min() >= 0:
                return found
        except OverflowError:
            pass
    for index, row in enumerate(rows):
        for value in row:
            if type(value) is not int or not 0 <= value <= LARGEST:
                raise ProblemError(f"{place}[{index}] holds {spelled(value)}, not a whole number from 0 to {LARGEST}")
    raise AssertionError(place)
