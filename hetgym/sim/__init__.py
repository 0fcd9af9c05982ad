"""The simulator: runtimes, the kernel that runs schedules, and traces of what happened."""

from hetgym.sim.deadlines import Lateness, lateness
from hetgym.sim.energy import EnergyUse
from hetgym.sim.objective import OBJECTIVES, Objective, objective
from hetgym.sim.online import Decision, Estimate, Loss, OnlineSimulation, Situation, SlowDown, online
from hetgym.sim.runtime import PRESETS, Runtime, runtime
from hetgym.sim.simulation import simulate
from hetgym.sim.trace import Trace, Transfer

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "Decision",
    "EnergyUse",
    "Estimate",
    "Lateness",
    "Loss",
    "Objective",
    "OnlineSimulation",
    "Runtime",
    "Situation",
    "SlowDown",
    "Trace",
    "Transfer",
    "lateness",
    "objective",
    "online",
    "runtime",
    "simulate",
]
