"""Baselines: the field's schedulers, one algorithm a file, by name and as functions.

``hetgym.baselines.get("heft")(problem)`` gives a :class:`~hetgym.Schedule`; ``names()`` lists them.
"""

from hetgym.baselines.bounds import (
    area_bound,
    combined_bound,
    communication_bound,
    critical_path_bound,
    load_bound,
    lower_bound,
)
from hetgym.baselines.cpgc import cpgc
from hetgym.baselines.cpop import cpop
from hetgym.baselines.donf import donf
from hetgym.baselines.duet import duet
from hetgym.baselines.exact import cp_sat
from hetgym.baselines.graham import graham
from hetgym.baselines.heft import heft
from hetgym.baselines.key_operators import cpgc_partition, key_operators, sub_models
from hetgym.baselines.peft import peft
from hetgym.baselines.registry import Baseline, Scheduler, get, names, register
from hetgym.baselines.trivial import random_placement, round_robin, single_device

__all__ = [
    "Baseline", "Scheduler", "area_bound", "combined_bound", "communication_bound", "cp_sat", "cpgc",
    "cpgc_partition", "cpop", "critical_path_bound", "donf", "duet", "get", "graham", "heft", "key_operators",
    "load_bound", "lower_bound", "names", "peft", "random_placement", "register", "round_robin", "single_device",
    "sub_models",
]  # fmt: skip
