"""Answers of programs: JSON from an untrusted process, read by the strict parser and checked before arrays are made."""

import math
from typing import Any

from hetgym._input.json import parse
from hetgym.errors import InvalidSchedule
from hetgym.problem import Problem
from hetgym.schedule import Schedule


def read_schedule(data: bytes, problem: Problem) -> Schedule:
    """The schedule of an answer; HetgymError says why there is none."""
    fields = read_answer(data, problem.num_devices + 64).get("schedule")
    if not isinstance(fields, dict):
        raise InvalidSchedule("the answer holds no schedule")
    kept = {name: value for name, value in fields.items() if name not in ("lower_bound", "scheduler")}
    _check_sizes(kept, problem)
    return Schedule.from_dict(kept)


def read_answer(data: bytes, containers: int = 64) -> dict[str, Any]:
    """The JSON object of an answer of at most ``containers`` lists and objects; HetgymError if it has none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidSchedule("the answer is not UTF-8 text") from None
    found = parse(text, "the answer", InvalidSchedule, containers=containers)
    if not isinstance(found, dict):
        raise InvalidSchedule("the answer is not a JSON object")
    if "error" in found:
        raise InvalidSchedule(str(found["error"]))
    return found


def _check_sizes(fields: dict[str, Any], problem: Problem) -> None:
    """Refuse lists whose length is not the problem's, and numbers in quotes, before arrays are made of them."""
    n = problem.num_operators
    for name in ("assignment", "priority", "start", "finish", "speed"):
        values = fields.get(name)
        if values is not None and not (isinstance(values, list) and len(values) == n and _plain_numbers(values)):
            raise InvalidSchedule(f"{name} must be a list of {n} numbers")
    order = fields.get("order")
    if order is not None and not (
        isinstance(order, list)
        and len(order) == problem.num_devices
        and all(isinstance(row, list) and _plain_numbers(row) for row in order)
        and math.fsum(map(len, order)) == n
    ):
        raise InvalidSchedule(f"order must hold one list for each of {problem.num_devices} devices, {n} numbers in all")


def _plain_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
