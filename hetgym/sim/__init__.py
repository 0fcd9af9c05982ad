"""The simulator: runtimes, the kernel that runs schedules, and traces of what happened."""

from hetgym.sim.batch import DECODES, evaluate
from hetgym.sim.runtime import PRESETS, Runtime, runtime
from hetgym.sim.simulation import simulate
from hetgym.sim.trace import Trace, Transfer

__all__ = ["DECODES", "PRESETS", "Runtime", "Trace", "Transfer", "evaluate", "runtime", "simulate"]
