"""Planning: the public building blocks of schedulers.

Timelines, ranks, decoding, look-ahead, ready queues, moves, local search, bounds, and the registry of schedulers.
"""

from __future__ import annotations

from hetgym.planning.evaluation import DECODES, decode_placement, evaluate, planned
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.registry import KINDS, Baseline, Scheduler, get, names, register, unregister

__all__ = [
    "DECODES",
    "KINDS",
    "Baseline",
    "Scheduler",
    "decode_placement",
    "evaluate",
    "get",
    "names",
    "place_by_priority",
    "planned",
    "register",
    "unregister",
]
