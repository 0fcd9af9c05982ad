"""Choosing how to run: by the sweep where that is exact, by the event loop otherwise."""

from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim.kernel import State, Switches, new_state
from hetgym.sim.loop import run_schedules
from hetgym.sim.progress import Progress, Sharing, new_sharing, schedule_progress
from hetgym.sim.runtime import COMMUNICATION, TRANSFERS, Runtime, charged
from hetgym.sim.sweep import run_orders


class Setting(NamedTuple):
    """A runtime prepared for one problem."""

    switches: Switches  # the kernel's
    factor: FloatArray  # [n] noise, as a factor of each run time
    clock: bool  # true if the order of events matters, so that the run needs a clock


def setting(problem: Problem, runtime: Runtime, by_priority: bool = False) -> Setting:
    """Prepare a runtime for schedules of a problem; ``by_priority`` if they give priorities, not device orders."""
    runtime = charged(runtime, problem)
    switches = Switches(
        communication=COMMUNICATION.index(runtime.communication),
        transfers=TRANSFERS.index(runtime.transfers),
        dispatch=float(runtime.dispatch),
        streams=int(runtime.streams),
        overlap=float(runtime.overlap),
        work_conserving=by_priority or runtime.order != "fixed",
        by_arrival=runtime.order == "ready",
        partitions=runtime.partitions,
    )
    factor = np.ones(problem.num_operators)
    if runtime.noise > 0:
        factor = np.exp(runtime.noise * np.random.default_rng(runtime.seed).standard_normal(problem.num_operators))
    shared = runtime.communication == "fifo" and not problem.private_links
    return Setting(switches, factor, by_priority or runtime.needs_clock or shared)


def online_setting(problem: Problem, runtime: Runtime) -> Setting:
    """As :func:`setting`, for runs in which decisions determine the devices' orders."""
    how = setting(problem, runtime)
    return how._replace(switches=how.switches._replace(work_conserving=False, by_arrival=False), clock=True)


class Workspace(NamedTuple):
    """The arrays that simulations of one problem write; reused from run to run."""

    state: State  # the result of the last simulation
    progress: Progress  # of the event loop; next to nothing is allocated without a clock
    sharing: Sharing | None  # of links and devices, if any are shared
    stack: IntArray  # [n + 1] scratch of a run without a clock


def new_workspace(p: ProblemArrays, how: Setting) -> Workspace:
    """Allocate for a problem and a setting."""
    sharing = new_sharing(p, how.switches)
    stack = np.zeros(len(how.factor) + 1, np.int32)
    return Workspace(new_state(p), schedule_progress(p, how.switches, how.factor, how.clock), sharing, stack)


def run(
    p: ProblemArrays,
    room: Workspace,
    assignment: IntArray,
    order: IntArray,
    order_pointer: IntArray,
    priority: FloatArray,
    how: Setting,
) -> tuple[FloatArray, int]:
    """Run schedules, a row of each array for each; see :func:`hetgym.sim.loop.begin_schedule` for the arrays.

    Returns:
        [batch] makespans [s], and the smallest number of operators that ran in one of them: less than n if
        its orders deadlock. The state is that of the last run.
    """
    makespan = np.empty(len(assignment))
    schedules = (assignment, order, order_pointer)
    if how.clock:
        done = run_schedules(p, room.state, room.progress, room.sharing, *schedules, priority, how.switches, makespan)
    else:
        done = run_orders(p, room.state, room.stack, *schedules, how.factor, how.switches, makespan)
    return makespan, done
