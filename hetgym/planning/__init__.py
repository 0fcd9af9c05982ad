"""Planning: the public building blocks of schedulers, and the table of schedulers.

* A scheduler places operators on a :class:`Timeline`: :func:`place_by_priority` in the order of some priority,
  :mod:`~hetgym.planning.ready_list` by a rule among all ready operators, :mod:`~hetgym.planning.pull_loop` at run
  time. :mod:`~hetgym.planning.ranks`, :mod:`~hetgym.planning.degrees` and :mod:`~hetgym.planning.critical` say which
  operator is urgent.
* A timeline for another runtime than ``classic`` carries :mod:`~hetgym.planning.bookings` of transfers;
  :func:`with_times` simulates the result, and :mod:`~hetgym.planning.capacity` makes plans that fit the memory.
* :func:`evaluate` gives the makespans of many placements, :func:`decode_placement` makes a schedule from one; searches
  over placements are in :mod:`hetgym.search`.
* :func:`lower_bound` bounds the makespan of any schedule from below.
* :func:`get`, :func:`names` and :func:`register` give schedulers names; :class:`Scheduler` is their common protocol.

Everything loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy
from hetgym.planning.baseline import KINDS, Baseline
from hetgym.planning.registry import get, import_file, names, register, rows, unregister

if TYPE_CHECKING:
    from hetgym.planning import (
        bookings,
        bounds,
        capacity,
        critical,
        degrees,
        list_scheduling,
        look_ahead,
        parts,
        pull_loop,
        ranks,
        ready_list,
        timeline,
    )
    from hetgym.planning.bounds import lower_bound
    from hetgym.planning.critical import critical_chain, critical_path
    from hetgym.planning.decode import DECODES, decode_in_order, decode_placement
    from hetgym.planning.evaluation import evaluate
    from hetgym.planning.graph_plan import GraphPlan
    from hetgym.planning.list_scheduling import place_by_priority
    from hetgym.planning.policy import SchedulerPolicy, as_policy
    from hetgym.planning.protocols import Scheduler
    from hetgym.planning.timeline import Timeline, new_timeline, planned, with_times

_HOME = {
    "hetgym.planning.bounds": ("lower_bound",),
    "hetgym.planning.critical": ("critical_chain", "critical_path"),
    "hetgym.planning.decode": ("DECODES", "decode_in_order", "decode_placement"),
    "hetgym.planning.evaluation": ("evaluate",),
    "hetgym.planning.graph_plan": ("GraphPlan",),
    "hetgym.planning.list_scheduling": ("place_by_priority",),
    "hetgym.planning.policy": ("SchedulerPolicy", "as_policy"),
    "hetgym.planning.protocols": ("Scheduler",),
    "hetgym.planning.timeline": ("Timeline", "new_timeline", "planned", "with_times"),
}
_MODULES = (
    "bookings",
    "bounds",
    "capacity",
    "critical",
    "degrees",
    "list_scheduling",
    "look_ahead",
    "parts",
    "pull_loop",
    "ranks",
    "ready_list",
    "timeline",
)

__all__ = [
    "DECODES",
    "KINDS",
    "Baseline",
    "GraphPlan",
    "Scheduler",
    "SchedulerPolicy",
    "Timeline",
    "as_policy",
    "bookings",
    "bounds",
    "capacity",
    "critical",
    "critical_chain",
    "critical_path",
    "decode_in_order",
    "decode_placement",
    "degrees",
    "evaluate",
    "get",
    "import_file",
    "list_scheduling",
    "look_ahead",
    "lower_bound",
    "names",
    "new_timeline",
    "parts",
    "place_by_priority",
    "planned",
    "pull_loop",
    "ranks",
    "ready_list",
    "register",
    "rows",
    "timeline",
    "unregister",
    "with_times",
]

__getattr__ = lazy(__name__, _HOME, _MODULES)
