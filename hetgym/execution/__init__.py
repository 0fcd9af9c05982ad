"""Execution of schedules on real devices: run them, time them, and compare the times with predictions.

A device is a worker process bound to cores and capped in its instruction set, or a GPU with a worker of its own; see
:class:`ExecutionDevice`. A :class:`Cluster` is the set of worker processes of one graph; it is unrelated to Ray
clusters. This package works on Linux only, since processes are bound to cores.
"""

from hetgym.execution.cluster import Cluster, Loaded
from hetgym.execution.devices import ExecutionDevice, parse_devices
from hetgym.execution.module import PlannedModule
from hetgym.execution.running import Execution, execute, run

__all__ = ["Cluster", "Execution", "ExecutionDevice", "Loaded", "PlannedModule", "execute", "parse_devices", "run"]
