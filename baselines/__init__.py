"""Baselines: the field's schedulers, one algorithm in each file, by name and as functions.

``hetgym.baselines.get("heft")(problem)`` gives a :class:`~hetgym.Schedule`; ``names()`` lists them. The table of
their names is :mod:`hetgym.baselines.table`; their building blocks are in :mod:`hetgym.planning`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.baselines.annealing import annealing as annealing
    from hetgym.baselines.baechi import m_etf as m_etf
    from hetgym.baselines.baechi import m_topo as m_topo
    from hetgym.baselines.batch_mode import duplex as duplex
    from hetgym.baselines.batch_mode import max_min as max_min
    from hetgym.baselines.batch_mode import min_min as min_min
    from hetgym.baselines.batch_mode import sufferage as sufferage
    from hetgym.baselines.bil import bil as bil
    from hetgym.baselines.bsa import bsa as bsa
    from hetgym.baselines.cpgc import cpgc as cpgc
    from hetgym.baselines.cpop import cpop as cpop
    from hetgym.baselines.dls import dls as dls
    from hetgym.baselines.dls import gdl as gdl
    from hetgym.baselines.donf import donf as donf
    from hetgym.baselines.donf_memory import donf_memory as donf_memory
    from hetgym.baselines.dps import dps as dps
    from hetgym.baselines.duet import duet as duet
    from hetgym.baselines.energy import TradeOff as TradeOff
    from hetgym.baselines.energy import energy_heft as energy_heft
    from hetgym.baselines.energy import trade_offs as trade_offs
    from hetgym.baselines.eop import eop as eop
    from hetgym.baselines.etf import etf as etf
    from hetgym.baselines.exact import cp_sat as cp_sat
    from hetgym.baselines.fast import fcp as fcp
    from hetgym.baselines.fast import flb as flb
    from hetgym.baselines.fused import tvm_fusion as tvm_fusion
    from hetgym.baselines.graham import graham as graham
    from hetgym.baselines.hbmct import hbmct as hbmct
    from hetgym.baselines.hcpt import hcpt as hcpt
    from hetgym.baselines.heft import heft as heft
    from hetgym.baselines.ilha import ilha as ilha
    from hetgym.baselines.key_operators import cpgc_partition as cpgc_partition
    from hetgym.baselines.key_operators import key_operators as key_operators
    from hetgym.baselines.key_operators import sub_models as sub_models
    from hetgym.baselines.lns import lns as lns
    from hetgym.baselines.lookahead import lookahead_heft as lookahead_heft
    from hetgym.baselines.m_sct import m_sct as m_sct
    from hetgym.baselines.mapping_heuristic import mapping_heuristic as mapping_heuristic
    from hetgym.baselines.online import mct as mct
    from hetgym.baselines.online import met as met
    from hetgym.baselines.online import olb as olb
    from hetgym.baselines.peft import peft as peft
    from hetgym.baselines.pets import pets as pets
    from hetgym.baselines.pilot import pilot as pilot
    from hetgym.baselines.queueing import fcfs as fcfs
    from hetgym.baselines.queueing import mor as mor
    from hetgym.baselines.queueing import mwkr as mwkr
    from hetgym.baselines.queueing import sjf as sjf
    from hetgym.baselines.rand_heft import rand_heft as rand_heft
    from hetgym.baselines.tensor_partition import greedy_split as greedy_split
    from hetgym.baselines.trivial import random_placement as random_placement
    from hetgym.baselines.trivial import round_robin as round_robin
    from hetgym.baselines.trivial import single_device as single_device
    from hetgym.baselines.window_cluster import windows_on_ray as windows_on_ray
    from hetgym.planning.baseline import Baseline as Baseline
    from hetgym.planning.bounds import area_bound as area_bound
    from hetgym.planning.bounds import combined_bound as combined_bound
    from hetgym.planning.bounds import communication_bound as communication_bound
    from hetgym.planning.bounds import critical_path_bound as critical_path_bound
    from hetgym.planning.bounds import load_bound as load_bound
    from hetgym.planning.bounds import lower_bound as lower_bound
    from hetgym.planning.graph_plan import GraphPlan as GraphPlan
    from hetgym.planning.policy import SchedulerPolicy as SchedulerPolicy
    from hetgym.planning.policy import as_policy as as_policy
    from hetgym.planning.protocols import Scheduler as Scheduler
    from hetgym.planning.registry import get as get
    from hetgym.planning.registry import names as names
    from hetgym.planning.registry import register as register
    from hetgym.search.budgets import anytime as anytime

lazy(__name__)
