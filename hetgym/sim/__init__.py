"""The simulator: runtimes, the kernel that runs schedules, and traces of what happened."""

from hetgym.sim.online import Decision, Estimate, Loss, OnlineSimulation, Situation, SlowDown, online
from hetgym.sim.runtime import PRESETS, Runtime, runtime
from hetgym.sim.simulation import simulate
from hetgym.sim.trace import Trace, Transfer

__all__ = [
    "PRESETS",
    "Decision",
    "Estimate",
    "Loss",
    "OnlineSimulation",
    "Runtime",
    "Situation",
    "SlowDown",
    "Trace",
    "Transfer",
    "online",
    "runtime",
    "simulate",
]
