"""Limits: how much an untrusted program may use for one schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hetgym._input.config import check_number
from hetgym.errors import ConfigError

PROGRAM = 1 << 20  # Longest program [byte]: a hundred times as long as the longest shipped scheduler
OPEN_FILES = 64  # Most files that a program may have open at the same time
THREADS = 64  # Most threads of a program at the same time


@dataclass(frozen=True)
class Limits:
    """What one call of a program may use; ConfigError about limits under which no interpreter runs."""

    # wall time from the start of the process to its answer, loading the program included; the processor time of all its
    # threads together may be one second longer [s]
    seconds: float = 10.0
    memory: float = 4 << 30  # address space, in which the interpreter, NumPy, Numba and hetgym take about 1 GiB [byte]
    file: float = 16 << 20  # longest file that it may write [byte]

    def __post_init__(self) -> None:
        check_number(self.seconds, "the time limit of a program [s]", ConfigError, positive=True, maximum=86400.0)
        check_number(
            self.memory, "the memory limit of a program [byte]", ConfigError, minimum=float(1 << 30), maximum=2.0**50
        )
        check_number(self.file, "the limit of files of a program [byte]", ConfigError, positive=True, maximum=2.0**50)

    @property
    def cpu_seconds(self) -> int:
        """Processor time after which the process is killed [s]."""
        return math.ceil(self.seconds) + 1

    def to_dict(self) -> dict[str, Any]:
        """The limits as plain values, which are arguments of the class."""
        return {"seconds": float(self.seconds), "memory": int(self.memory), "file": int(self.file)}


def answer_limit(operators: int, devices: int) -> int:
    """Longest answer that is read [byte]: each operator's device, place in the order and three times, as JSON text.

    A float takes up to 25 characters, a whole number up to 11; the rest is for names and messages.
    """
    return 65536 + 128 * operators + 16 * devices
