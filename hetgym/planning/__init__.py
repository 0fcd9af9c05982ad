"""Planning: the public building blocks of schedulers, and the table of schedulers.

* A scheduler places operators on a :class:`Timeline`: :func:`place_by_priority` in the order of some priority,
  :mod:`~hetgym.planning.ready_list` by a rule among all ready operators, :mod:`~hetgym.planning.pull_loop` at run
  time. :mod:`~hetgym.planning.ranks`, :mod:`~hetgym.planning.degrees` and :mod:`~hetgym.planning.critical` say which
  operator is urgent.
* A timeline for a runtime other than ``classic`` carries :mod:`~hetgym.planning.bookings` of transfers;
  :func:`with_times` simulates the result, and :mod:`~hetgym.planning.capacity` makes plans that fit the memory.
  :func:`hetgym.planning.timeline.filled` does all of it for a function that fills a timeline.
* :func:`evaluate` gives the makespans of many placements, :func:`decode_placement` makes a schedule from one; searches
  over placements are in :mod:`hetgym.search`.
* :func:`best_start` gives the best plan without a search: of list schedules, of those of :func:`contracted` problems,
  and of their replays (:func:`replay`).
* :func:`lower_bound` bounds the makespan of any schedule from below.
* :func:`get`, :func:`names` and :func:`register` give schedulers names; :class:`Scheduler` is their common protocol.

Everything loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.planning import bookings as bookings
    from hetgym.planning import bounds as bounds
    from hetgym.planning import capacity as capacity
    from hetgym.planning import critical as critical
    from hetgym.planning import degrees as degrees
    from hetgym.planning import list_scheduling as list_scheduling
    from hetgym.planning import look_ahead as look_ahead
    from hetgym.planning import parts as parts
    from hetgym.planning import pull_loop as pull_loop
    from hetgym.planning import ranks as ranks
    from hetgym.planning import ready_list as ready_list
    from hetgym.planning import timeline as timeline
    from hetgym.planning.baseline import KINDS as KINDS
    from hetgym.planning.baseline import Baseline as Baseline
    from hetgym.planning.bounds import lower_bound as lower_bound
    from hetgym.planning.contraction import contracted as contracted
    from hetgym.planning.critical import critical_chain as critical_chain
    from hetgym.planning.critical import critical_path as critical_path
    from hetgym.planning.decode import DECODES as DECODES
    from hetgym.planning.decode import decode_in_order as decode_in_order
    from hetgym.planning.decode import decode_placement as decode_placement
    from hetgym.planning.evaluation import evaluate as evaluate
    from hetgym.planning.graph_plan import GraphPlan as GraphPlan
    from hetgym.planning.list_scheduling import place_by_priority as place_by_priority
    from hetgym.planning.policy import SchedulerPolicy as SchedulerPolicy
    from hetgym.planning.policy import as_policy as as_policy
    from hetgym.planning.protocols import Scheduler as Scheduler
    from hetgym.planning.registry import aliases as aliases
    from hetgym.planning.registry import get as get
    from hetgym.planning.registry import import_file as import_file
    from hetgym.planning.registry import names as names
    from hetgym.planning.registry import register as register
    from hetgym.planning.registry import rows as rows
    from hetgym.planning.registry import unregister as unregister
    from hetgym.planning.starts import best_start as best_start
    from hetgym.planning.starts import replay as replay
    from hetgym.planning.timeline import Timeline as Timeline
    from hetgym.planning.timeline import new_timeline as new_timeline
    from hetgym.planning.timeline import planned as planned
    from hetgym.planning.timeline import with_times as with_times

lazy(__name__)
