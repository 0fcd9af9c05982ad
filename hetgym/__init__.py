"""hetgym: Gymnasium environments in which agents learn to run deep-learning graphs on heterogeneous hardware.

This module is the public surface. Each name loads when it is first used, so ``import hetgym`` is fast and needs no
optional dependency. Importing hetgym registers the environments with Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy
from hetgym._version import VERSION
from hetgym.envs.registration import register
from hetgym.planning.registry import offer

if TYPE_CHECKING:
    from hetgym import agents as agents
    from hetgym import baselines as baselines
    from hetgym import bench as bench
    from hetgym import costs as costs
    from hetgym import envs as envs
    from hetgym import graph as graph
    from hetgym import parallel as parallel
    from hetgym import pipeline as pipeline
    from hetgym import planning as planning
    from hetgym import sharding as sharding
    from hetgym import sim as sim
    from hetgym import workloads as workloads
    from hetgym.baselines.parallel import plan_training as plan_training
    from hetgym.errors import ConfigError as ConfigError
    from hetgym.errors import GraphError as GraphError
    from hetgym.errors import HetgymError as HetgymError
    from hetgym.errors import InvalidSchedule as InvalidSchedule
    from hetgym.errors import MissingExtra as MissingExtra
    from hetgym.errors import OutOfMemory as OutOfMemory
    from hetgym.errors import PlatformError as PlatformError
    from hetgym.errors import ProblemError as ProblemError
    from hetgym.errors import UnknownName as UnknownName
    from hetgym.export import export_plan as export_plan
    from hetgym.graph import DataflowGraph as DataflowGraph
    from hetgym.graph import load_graph as load_graph
    from hetgym.llm import plan_llm as plan_llm
    from hetgym.planning import evaluate as evaluate
    from hetgym.platform import Device as Device
    from hetgym.platform import Link as Link
    from hetgym.platform import Platform as Platform
    from hetgym.platform import load_platform as load_platform
    from hetgym.portfolio import plan as plan
    from hetgym.problem import Problem as Problem
    from hetgym.schedule import Schedule as Schedule
    from hetgym.schedule import validate as validate
    from hetgym.sharding import plan_sharding as plan_sharding
    from hetgym.sim import Runtime as Runtime
    from hetgym.sim import Trace as Trace
    from hetgym.sim import simulate as simulate
    from hetgym.workloads import load_problem as load_problem

__version__ = VERSION

lazy(__name__)
register()
offer("hetgym.own_schedulers:ROWS", "hetgym.own_schedulers:FILES")
