"""The schedules behind a table of best-known values: an ``.npz`` file of the same name beside the table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hetgym._input.artefacts import Array, Kind, load_npz, save_npz
from hetgym._input.files import as_path
from hetgym._sums import summed
from hetgym.errors import ConfigError, shown, unknown_name
from hetgym.schedule import Schedule

_FILE = Kind(
    ConfigError,
    lambda header, names, where: {name: Array("int32", ("operators",)) for name in ("assignment", "order")},
    header_limit=8 << 20,
    limit=256 << 20,
)
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
        assignment, order = (arrays[name][at : at + operators] for name in ("assignment", "order"))
        at += operators
        if operators and not 0 <= assignment.min() <= assignment.max() < devices:
            raise ConfigError(f"{file}: {shown(problem)} is placed on devices outside of 0..{devices - 1}")
        ends = np.cumsum(np.bincount(assignment, minlength=devices))
        found[problem, runtime] = Schedule(assignment, order=np.split(order, ends[:-1]), model=runtime)
    return found


def _is_row(row: object) -> bool:
    """True if an entry of the header names a problem, a runtime, a number of operators and one of devices."""
    if not isinstance(row, list) or [type(value) for value in row] != [str, str, int, int]:
        return False
    return bool(row[2] >= 0 and row[3] >= 1)


def save_best_schedules(path: str | Path, schedules: Mapping[tuple[str, str], Schedule]) -> None:
    """Write schedules by (problem, runtime) for :func:`load_best_schedules`; ConfigError if that fails."""
    index, assignments, orders = [], [], []
    for (problem, runtime), schedule in schedules.items():
        assert schedule.order is not None
        index.append((problem, runtime, len(schedule.assignment), len(schedule.order)))
        assignments.append(schedule.assignment)
        orders.append(np.concatenate(schedule.order))
    arrays = {"assignment": np.concatenate(assignments), "order": np.concatenate(orders)}
    save_npz(Path(path).with_suffix(".npz"), {"schedules": index}, arrays, _FILE)
