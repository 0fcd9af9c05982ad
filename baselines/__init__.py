"""Baselines: the field's schedulers, one algorithm in each file, by name and as functions.

``hetgym.baselines.get("heft")(problem)`` gives a :class:`~hetgym.Schedule`; ``names()`` lists them. The table of
their names is :mod:`hetgym.baselines.table`; their building blocks are in :mod:`hetgym.planning`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy
from hetgym.planning.baseline import Baseline
from hetgym.planning.registry import get, names, register

if TYPE_CHECKING:
    from hetgym.baselines.annealing import annealing, pilot_annealing
    from hetgym.baselines.baechi import m_etf, m_topo
    from hetgym.baselines.batch_mode import duplex, max_min, min_min, sufferage
    from hetgym.baselines.bil import bil
    from hetgym.baselines.bsa import bsa
    from hetgym.baselines.cpgc import cpgc
    from hetgym.baselines.cpop import cpop
    from hetgym.baselines.dls import dls, gdl
    from hetgym.baselines.donf import donf
    from hetgym.baselines.donf_memory import donf_memory
    from hetgym.baselines.dps import dps
    from hetgym.baselines.duet import duet
    from hetgym.baselines.energy import TradeOff, energy_heft, trade_offs
    from hetgym.baselines.eop import eop
    from hetgym.baselines.etf import etf
    from hetgym.baselines.exact import cp_sat
    from hetgym.baselines.fast import fcp, flb
    from hetgym.baselines.fused import tvm_fusion
    from hetgym.baselines.graham import graham
    from hetgym.baselines.hbmct import hbmct
    from hetgym.baselines.hcpt import hcpt
    from hetgym.baselines.heft import heft
    from hetgym.baselines.heft_donf import heft_donf
    from hetgym.baselines.ilha import ilha
    from hetgym.baselines.key_operators import cpgc_partition, key_operators, sub_models
    from hetgym.baselines.lns import lns
    from hetgym.baselines.lookahead import lookahead_heft
    from hetgym.baselines.m_sct import m_sct
    from hetgym.baselines.mapping_heuristic import mapping_heuristic
    from hetgym.baselines.online import mct, met, olb
    from hetgym.baselines.peft import peft
    from hetgym.baselines.pets import pets
    from hetgym.baselines.pilot import pilot
    from hetgym.baselines.queueing import fcfs, sjf
    from hetgym.baselines.rand_heft import rand_heft
    from hetgym.baselines.tensor_partition import greedy_split
    from hetgym.baselines.trivial import random_placement, round_robin, single_device
    from hetgym.planning.bounds import (
        area_bound,
        combined_bound,
        communication_bound,
        critical_path_bound,
        load_bound,
        lower_bound,
    )
    from hetgym.planning.graph_plan import GraphPlan
    from hetgym.planning.policy import SchedulerPolicy, as_policy
    from hetgym.planning.protocols import Scheduler
    from hetgym.search.budgets import anytime

_HOME = {
    "hetgym.baselines.annealing": ("annealing", "pilot_annealing"),
    "hetgym.baselines.baechi": ("m_etf", "m_topo"),
    "hetgym.baselines.batch_mode": ("duplex", "max_min", "min_min", "sufferage"),
    "hetgym.baselines.bil": ("bil",),
    "hetgym.baselines.bsa": ("bsa",),
    "hetgym.baselines.cpgc": ("cpgc",),
    "hetgym.baselines.cpop": ("cpop",),
    "hetgym.baselines.dls": ("dls", "gdl"),
    "hetgym.baselines.donf": ("donf",),
    "hetgym.baselines.donf_memory": ("donf_memory",),
    "hetgym.baselines.dps": ("dps",),
    "hetgym.baselines.duet": ("duet",),
    "hetgym.baselines.energy": ("TradeOff", "energy_heft", "trade_offs"),
    "hetgym.baselines.eop": ("eop",),
    "hetgym.baselines.etf": ("etf",),
    "hetgym.baselines.exact": ("cp_sat",),
    "hetgym.baselines.fast": ("fcp", "flb"),
    "hetgym.baselines.fused": ("tvm_fusion",),
    "hetgym.baselines.graham": ("graham",),
    "hetgym.baselines.hbmct": ("hbmct",),
    "hetgym.baselines.hcpt": ("hcpt",),
    "hetgym.baselines.heft": ("heft",),
    "hetgym.baselines.heft_donf": ("heft_donf",),
    "hetgym.baselines.ilha": ("ilha",),
    "hetgym.baselines.key_operators": ("cpgc_partition", "key_operators", "sub_models"),
    "hetgym.baselines.lns": ("lns",),
    "hetgym.baselines.lookahead": ("lookahead_heft",),
    "hetgym.baselines.m_sct": ("m_sct",),
    "hetgym.baselines.mapping_heuristic": ("mapping_heuristic",),
    "hetgym.baselines.online": ("mct", "met", "olb"),
    "hetgym.baselines.peft": ("peft",),
    "hetgym.baselines.pets": ("pets",),
    "hetgym.baselines.pilot": ("pilot",),
    "hetgym.baselines.queueing": ("fcfs", "sjf"),
    "hetgym.baselines.rand_heft": ("rand_heft",),
    "hetgym.baselines.tensor_partition": ("greedy_split",),
    "hetgym.baselines.trivial": ("random_placement", "round_robin", "single_device"),
    "hetgym.planning.bounds": (
        "area_bound",
        "combined_bound",
        "communication_bound",
        "critical_path_bound",
        "load_bound",
        "lower_bound",
    ),
    "hetgym.search.budgets": ("anytime",),
    "hetgym.planning.graph_plan": ("GraphPlan",),
    "hetgym.planning.policy": ("SchedulerPolicy", "as_policy"),
    "hetgym.planning.protocols": ("Scheduler",),
}

__all__ = [
    "Baseline",
    "GraphPlan",
    "Scheduler",
    "SchedulerPolicy",
    "TradeOff",
    "annealing",
    "anytime",
    "area_bound",
    "as_policy",
    "bil",
    "bsa",
    "combined_bound",
    "communication_bound",
    "cp_sat",
    "cpgc",
    "cpgc_partition",
    "cpop",
    "critical_path_bound",
    "dls",
    "donf",
    "donf_memory",
    "dps",
    "duet",
    "duplex",
    "energy_heft",
    "eop",
    "etf",
    "fcfs",
    "fcp",
    "flb",
    "gdl",
    "get",
    "graham",
    "greedy_split",
    "hbmct",
    "hcpt",
    "heft",
    "heft_donf",
    "ilha",
    "key_operators",
    "lns",
    "load_bound",
    "lookahead_heft",
    "lower_bound",
    "m_etf",
    "m_sct",
    "m_topo",
    "mapping_heuristic",
    "max_min",
    "mct",
    "met",
    "min_min",
    "names",
    "olb",
    "peft",
    "pets",
    "pilot",
    "pilot_annealing",
    "rand_heft",
    "random_placement",
    "register",
    "round_robin",
    "single_device",
    "sjf",
    "sub_models",
    "sufferage",
    "trade_offs",
    "tvm_fusion",
]

__getattr__ = lazy(__name__, _HOME)
