"""The simulator: runtimes, the kernel that runs schedules, and traces of what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.sim.deadlines import Lateness as Lateness
    from hetgym.sim.deadlines import lateness as lateness
    from hetgym.sim.energy import EnergyUse as EnergyUse
    from hetgym.sim.objective import OBJECTIVES as OBJECTIVES
    from hetgym.sim.objective import Objective as Objective
    from hetgym.sim.objective import objective as objective
    from hetgym.sim.online import Decision as Decision
    from hetgym.sim.online import Estimate as Estimate
    from hetgym.sim.online import Loss as Loss
    from hetgym.sim.online import OnlineSimulation as OnlineSimulation
    from hetgym.sim.online import Situation as Situation
    from hetgym.sim.online import SlowDown as SlowDown
    from hetgym.sim.online import online as online
    from hetgym.sim.runtime import PRESETS as PRESETS
    from hetgym.sim.runtime import Runtime as Runtime
    from hetgym.sim.runtime import runtime as runtime
    from hetgym.sim.simulation import simulate as simulate
    from hetgym.sim.trace import Trace as Trace
    from hetgym.sim.trace import Transfer as Transfer

lazy(__name__)
