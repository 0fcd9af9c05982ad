"""Workloads: sources of whole problems.

Suites and their best-known makespans, textbook examples, files that carry their own costs, random draws, and
synthetic costs.
"""

from hetgym.workloads.best_known import Best, BestKnown, load_best_known
from hetgym.workloads.examples import textbook
from hetgym.workloads.from_networkx import from_networkx
from hetgym.workloads.loading import as_problem, load_problem
from hetgym.workloads.perturbing import Neighbourhood, chain
from hetgym.workloads.random_mix import RandomMix
from hetgym.workloads.real_mix import RealMix
from hetgym.workloads.recorded import replay
from hetgym.workloads.specs import ProblemSpec
from hetgym.workloads.suites import Suite, load_suite, suite_names
from hetgym.workloads.synthetic import cvb_costs, edge_weights, range_based_costs, scale_communication, unrelated_costs
from hetgym.workloads.uniform_machines import on_uniform_machines

__all__ = [
    "Best", "BestKnown", "Neighbourhood", "ProblemSpec", "RandomMix", "RealMix", "Suite", "as_problem", "chain",
    "cvb_costs", "edge_weights", "from_networkx", "load_best_known", "load_problem", "load_suite",
    "on_uniform_machines", "range_based_costs", "replay", "scale_communication", "suite_names", "textbook",
    "unrelated_costs",
]  # fmt: skip
