"""Detection of other load on the machine, which makes runs on two devices two to three times slower.

Timings of single operators still look normal then, so only the system's own counters show the load.
"""

import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from hetgym._sums import summed

LIMIT = 0.05  # Largest share of the cores' time that other processes may use

_IDLE = (3, 4)  # fields of a line of /proc/stat: idle, iowait


def busy_ticks(cores: Collection[int], text: str | None = None) -> int | None:
    r"""Clock ticks since the system's start in which the cores were not idle; None if it has no counters.

    ``text`` is the content of ``/proc/stat``; by default the file is read.

    >>> busy_ticks([0], "cpu  9 9 9\ncpu0 10 1 4 100 5 0 2 3 0 0\n")
    20
    """
    try:
        lines = (Path("/proc/stat").read_text("ascii") if text is None else text).splitlines()
    except OSError:
        return None
    total = 0
    for line in lines:
        name, *numbers = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
            ticks = [int(number) for number in numbers[:8]]  # user time already includes guest time
            total += summed(ticks) - summed(ticks[at] for at in _IDLE)
    return total


def process_ticks(pids: Sequence[int]) -> int:
    """Clock ticks that processes have used; processes that have ended count as 0."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total


class Watch:
    """Measures the use of some cores by other processes than those of the ids ``own``."""

    def __init__(self, cores: Collection[int], own: Sequence[int] = ()) -> None:
        self._cores = frozenset(cores)
        self._own = (os.getpid(), *own)
        self._second = os.sysconf("SC_CLK_TCK")
        self._busy, self._used, self._since = self._read()

    def _read(self) -> tuple[int | None, int, float]:
        return busy_ticks(self._cores), process_ticks(self._own), time.monotonic()

    def foreign(self) -> float:
        """Share of the cores' time that others used since the start; 0 if the system has no counters."""
        busy, used, now = self._read()
        if busy is None or self._busy is None or now <= self._since:
            return 0.0
        ticks = (busy - self._busy) - (used - self._used)
        return max(0.0, ticks / self._second / (now - self._since) / len(self._cores))


def foreign_share(cores: Collection[int], own: Sequence[int] = (), seconds: float = 1.0) -> float:
    """Share of the cores' time that other processes use, measured for ``seconds``."""
    watch = Watch(cores, own)
    time.sleep(seconds)
    return watch.foreign()
