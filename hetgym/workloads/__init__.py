"""Whole problems: textbook examples, files that carry their own costs, and random draws."""

from hetgym.workloads.examples import textbook
from hetgym.workloads.loading import load_problem
from hetgym.workloads.random_mix import RandomMix
from hetgym.workloads.real_mix import RealMix
from hetgym.workloads.uniform_machines import on_uniform_machines

__all__ = ["RandomMix", "RealMix", "load_problem", "on_uniform_machines", "textbook"]
