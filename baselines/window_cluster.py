"""Windows on a Ray cluster: the plan stays in the process that was started, and each task anneals some windows.

Tasks of lost workers run again, by Ray's own means; the plan is that of one process, bit for bit, on nodes with the
same kind of processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hetgym import _ray
from hetgym._sums import summed
from hetgym.baselines.window_executors import Setting, WindowExecutor, Work, anneal_window
from hetgym.errors import ClusterError
from hetgym.search.window_parcels import Parcel, common, opened, packed
from hetgym.search.windows import Change, Window

TASK = 18_000
"""Operators launched in the time that a task costs the main process, about 3 ms. With w launches in a round, m tasks of
the same size on as many cores take about w / m + TASK m; that is least for the root of w / TASK."""


@contextmanager
def windows_on_ray(address: str = _ray.LOCAL) -> Iterator[WindowExecutor]:
    """An executor of :func:`hetgym.plan` on the Ray cluster at an address; by default this machine's cores.

    Args:
        address: see :func:`hetgym._ray.connect`.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterError: the cluster cannot be joined or worked on.
    """
    with _ray.connect(address) as ray:
        yield _OnRay(ray, _work)


class _OnRay(_ray.OnRay):
    _sent: tuple[Setting, Any] | None = None  # the last setting, and its reference in the object store

    def anneal(self, cut: Callable[[int], Window], works: Sequence[Work], setting: Setting) -> list[Change]:
        """Cut windows here, and send each task as soon as its windows are cut."""
        if self._sent is None or self._sent[0] is not setting:
            self._sent = setting, self.ray.put(setting._replace(p=common(setting.p)))
        parts = np.array_split(np.arange(len(works)), tasks_of(works, _ray.cores(self.ray)))
        running = [self.task.remote(self._sent[1], [(packed(cut(int(k))), works[k]) for k in part]) for part in parts]
        errors = self.ray.exceptions
        try:
            found = self.ray.get(running)
        except errors.RayTaskError as error:
            raise error.cause from error  # an exception of the worker's own code
        except errors.RayError as error:
            why = f"windows could not be annealed on the Ray cluster ({_ray.last_line(error)})"
            raise ClusterError(f"{why}; run the command again, or without --ray") from error
        return [_own(change) for part in found for change in part]


def tasks_of(works: Sequence[Work], cores: int) -> int:
    """Number of tasks for the windows of a round; see :data:`TASK`."""
    launches = summed(work.launches for work in works)
    return max(1, min(len(works), cores, round(math.sqrt(launches / TASK))))


def _own(change: Change) -> Change:
    """The change with arrays that are not the object store's, which are read-only."""
    return change._replace(operators=np.array(change.operators), devices=np.array(change.devices))


def _work(setting: Setting, windows: Sequence[tuple[Parcel, Work]]) -> list[Change]:
    """The task: windows, one after the other."""
    return [anneal_window(opened(parcel, setting.p), work, setting) for parcel, work in windows]
