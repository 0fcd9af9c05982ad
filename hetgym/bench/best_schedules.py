"""The schedules behind a table of best-known values: one ``.npz`` file of the table's stem, beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hetgym._archive import load_archive, save_archive
from hetgym.errors import ConfigError, unknown_name
from hetgym.schedule import Schedule

_DTYPES = {"assignment": "int32", "order": "int32"}


def load_best_schedule(path: str | Path, problem: str, runtime: str = "classic") -> Schedule:
    """The schedule behind a best-known makespan.

    Args:
        path: of the table, or of the schedules beside it.
        problem: name of the problem.
        runtime: under which it is the shortest known.

    Returns:
        A placement with device orders; simulate it to get its times.

    Raises:
        ConfigError: the file is missing or damaged.
        UnknownName: it has no schedule of that problem under that runtime.
    """
    schedules = load_best_schedules(path)
    if (problem, runtime) not in schedules:
        raise unknown_name("best-known schedule", f"{problem} / {runtime}", [" / ".join(key) for key in schedules])
    return schedules[problem, runtime]


def load_best_schedules(path: str | Path) -> dict[tuple[str, str], Schedule]:
    """All schedules behind a table, by problem and runtime.

    Raises:
        ConfigError: the file is missing or damaged.
    """
    file = Path(path).with_suffix(".npz")
    header, arrays = load_archive(file, _DTYPES, ConfigError)
    found: dict[tuple[str, str], Schedule] = {}
    at = 0
    try:
        for problem, runtime, operators, devices in header["schedules"]:
            assignment = arrays["assignment"][at : at + operators]
            order = arrays["order"][at : at + operators]
            at += operators
            ends = np.cumsum(np.bincount(assignment, minlength=devices))
            found[problem, runtime] = Schedule(assignment, order=np.split(order, ends[:-1]), model=runtime)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{file}: holds no list of schedules ({error})") from error
    if at != len(arrays["assignment"]) or at != len(arrays["order"]):
        raise ConfigError(f"{file}: the schedules do not fill the arrays")
    return found


def save_best_schedules(path: str | Path, schedules: Mapping[tuple[str, str], Schedule]) -> None:
    """Write schedules so that :func:`load_best_schedules` restores them.

    Args:
        path: of the table, or of the schedules beside it.
        schedules: (problem, runtime) -> schedule with device orders.

    Raises:
        OSError: the file cannot be written.
    """
    index, assignments, orders = [], [], []
    for (problem, runtime), schedule in schedules.items():
        assert schedule.order is not None
        index.append((problem, runtime, len(schedule.assignment), len(schedule.order)))
        assignments.append(schedule.assignment)
        orders.append(np.concatenate(schedule.order))
    arrays = {"assignment": np.concatenate(assignments), "order": np.concatenate(orders)}
    save_archive(Path(path).with_suffix(".npz"), {"schedules": index}, arrays)
