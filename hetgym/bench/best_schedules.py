"""The schedules behind a table of best-known values: an ``.npz`` file of the same name beside the table."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._input.artefacts import Array, Kind, load_npz, save_npz
from hetgym._input.files import as_path
from hetgym._sums import summed
from hetgym._types import Int64Array, IntArray
from hetgym.errors import ConfigError, shown, unknown_name
from hetgym.schedule import Schedule


def _declared(header: Mapping[str, Any], names: Collection[str], where: str) -> dict[str, Array]:
    """The arrays of a file: those of version 2, or the orders themselves in files without a version."""
    if header.get("version") is None:
        return {name: Array("int32", ("operators",)) for name in ("assignment", "order")}
    if header["version"] != 2:
        raise ConfigError(f"{where}: not best-known schedules of format version 2")
    return {"assignment": Array(("uint8", "uint16"), ("operators",)), "steps": Array("uint8", (4, "operators"))}


_FILE = Kind(ConfigError, _declared, header_limit=8 << 20, limit=256 << 20)
_MOST_ORDERS = 1 << 20
"""Most device orders in a file, empty ones included: an order takes a hundred bytes of memory, but none in the file."""


def load_best_schedule(path: str | Path, problem: str, runtime: str = "classic") -> Schedule:
    """The schedule behind a best-known makespan under a runtime: a placement with device orders, without times.

    The path is that of the table, or of the schedules beside it.

    Raises:
        ConfigError: the file is missing or damaged.
        UnknownName: it has no schedule of that problem under that runtime.
    """
    schedules = load_best_schedules(path)
    if (problem, runtime) not in schedules:
        raise unknown_name("best-known schedule", f"{problem} / {runtime}", [" / ".join(key) for key in schedules])
    return schedules[problem, runtime]


def load_best_schedules(path: str | Path) -> dict[tuple[str, str], Schedule]:
    """All schedules behind a table, by problem and runtime; ConfigError if the file is missing or damaged."""
    file = as_path(path, "a file of best-known schedules", ConfigError).with_suffix(".npz")
    header, arrays = load_npz(file, _FILE)
    rows = header.get("schedules")
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise ConfigError(f"{file}: holds no list of schedules (problem, runtime, operators, devices)")
    if summed(row[2] for row in rows) != len(arrays["assignment"]) or summed(row[3] for row in rows) > _MOST_ORDERS:
        raise ConfigError(f"{file}: the schedules do not fill the arrays, or are for more devices than there can be")
    found: dict[tuple[str, str], Schedule] = {}
    at = 0
    for problem, runtime, operators, devices in rows:
        own = slice(at, at + operators)
        at += operators
        assignment = arrays["assignment"][own].astype(np.int32)
        if operators and not 0 <= assignment.min() <= assignment.max() < devices:
            raise ConfigError(f"{file}: {shown(problem)} is placed on devices outside of 0..{devices - 1}")
        ends = np.cumsum(np.bincount(assignment, minlength=devices))
        order = arrays["order"][own] if "order" in arrays else _unpacked(assignment, arrays["steps"][:, own], ends)
        if order is None:
            raise ConfigError(f"{file}: an order of {shown(problem)} leaves the operators of its device")
        found[problem, runtime] = Schedule(assignment, order=np.split(order, ends[:-1]), model=runtime)
    return found


# Orders take most of a file. An operator is named by its place among the operators of its device, in order of their
# numbers, and by the distance of that from the place after the operator before it: 0 where numbers ascend one by one.
# Distances alternate in sign (0, -1, 1, -2, … become 0, 1, 2, 3, …), and bytes of equal weight are stored together, so
# that most are 0 and all compress well.
def _packed(order: Sequence[IntArray]) -> npt.NDArray[np.uint8]:
    """[4, n] bytes of the orders of all devices, lowest first."""
    rows = [np.empty(0, np.int64)]
    for operators in order:
        place = np.searchsorted(np.sort(operators), operators)
        rows.append(np.diff(place, prepend=-1) - 1)
    distance = np.concatenate(rows)
    alternating = np.where(distance >= 0, 2 * distance, -2 * distance - 1).astype("<u4")
    return np.ascontiguousarray(alternating.view(np.uint8).reshape(-1, 4).T)


def _unpacked(assignment: IntArray, steps: npt.NDArray[np.uint8], ends: Int64Array) -> IntArray | None:
    """[n] orders of all devices one after the other; None if one names operators that its device does not have."""
    alternating = np.ascontiguousarray(steps.T).view("<u4").reshape(-1).astype(np.int64)
    distance = np.where(alternating & 1, -(alternating + 1) // 2, alternating // 2)
    begins = np.concatenate([[0], ends[:-1]])
    own = np.repeat(begins, ends - begins)  # where the device of each entry begins
    total = np.cumsum(distance + 1)
    place = total - 1 - np.where(own > 0, total[own - 1], 0)
    if len(place) and not (place.min() >= 0 and (place < np.repeat(ends - begins, ends - begins)).all()):
        return None
    operators = np.argsort(assignment, kind="stable").astype(np.int32)
    return np.asarray(operators[own + place], np.int32)


def _is_row(row: object) -> bool:
    """True if an entry of the header names a problem, a runtime, a number of operators and one of devices."""
    if not isinstance(row, list) or [type(value) for value in row] != [str, str, int, int]:
        return False
    return bool(row[2] >= 0 and row[3] >= 1)


def save_best_schedules(path: str | Path, schedules: Mapping[tuple[str, str], Schedule]) -> None:
    """Write schedules by (problem, runtime) for :func:`load_best_schedules`; ConfigError if that fails."""
    index, assignments, steps = [], [], []
    for (problem, runtime), schedule in schedules.items():
        assert schedule.order is not None
        index.append((problem, runtime, len(schedule.assignment), len(schedule.order)))
        assignments.append(schedule.assignment)
        steps.append(_packed(schedule.order))
    devices = max((row[3] for row in index), default=1)
    arrays = {
        "assignment": np.concatenate(assignments).astype(np.uint8 if devices <= 256 else np.uint16),
        "steps": np.concatenate(steps, axis=1),
    }
    save_npz(Path(path).with_suffix(".npz"), {"version": 2, "schedules": index}, arrays, _FILE)
