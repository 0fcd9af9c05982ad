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
    from hetgym import agents, baselines, bench, costs, envs, graph, parallel, pipeline, planning, sim, workloads
    from hetgym.baselines.parallel import plan_training
    from hetgym.errors import (
        ConfigError,
        GraphError,
        HetgymError,
        InvalidSchedule,
        MissingExtra,
        OutOfMemory,
        PlatformError,
        ProblemError,
        UnknownName,
    )
    from hetgym.export import export_plan
    from hetgym.graph import DataflowGraph, load_graph
    from hetgym.planning import evaluate
    from hetgym.platform import Device, Link, Platform, load_platform
    from hetgym.portfolio import plan
    from hetgym.problem import Problem
    from hetgym.schedule import Schedule, validate
    from hetgym.sim import Runtime, Trace, simulate
    from hetgym.workloads import load_problem

__version__ = VERSION

_HOME = {
    "hetgym.baselines.parallel": ("plan_training",),
    "hetgym.errors": (
        "ConfigError",
        "GraphError",
        "HetgymError",
        "InvalidSchedule",
        "MissingExtra",
        "OutOfMemory",
        "PlatformError",
        "ProblemError",
        "UnknownName",
    ),
    "hetgym.export": ("export_plan",),
    "hetgym.graph": ("DataflowGraph", "load_graph"),
    "hetgym.platform": ("Device", "Link", "Platform", "load_platform"),
    "hetgym.portfolio": ("plan",),
    "hetgym.problem": ("Problem",),
    "hetgym.schedule": ("Schedule", "validate"),
    "hetgym.planning": ("evaluate",),
    "hetgym.sim": ("Runtime", "Trace", "simulate"),
    "hetgym.workloads": ("load_problem",),
}
_MODULES = (
    "agents", "baselines", "bench", "costs", "envs", "graph", "parallel", "pipeline", "planning", "sim", "workloads",
)  # fmt: skip

__all__ = [
    "ConfigError", "DataflowGraph", "Device", "GraphError", "HetgymError", "InvalidSchedule", "Link", "MissingExtra",
    "OutOfMemory", "Platform", "PlatformError", "Problem", "ProblemError", "Runtime", "Schedule", "Trace",
    "UnknownName", "agents", "baselines", "bench", "costs", "envs", "evaluate", "export_plan", "graph",
    "load_graph", "load_platform", "load_problem", "parallel", "pipeline", "plan", "plan_training", "planning",
    "sim", "simulate", "validate", "workloads",
]  # fmt: skip


__getattr__ = lazy(__name__, _HOME, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
offer("hetgym.own_schedulers:ROWS", "hetgym.own_schedulers:FILES")
