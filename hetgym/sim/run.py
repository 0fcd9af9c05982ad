"""Choosing how to walk: without a clock where that is exact, with one otherwise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import events, fair, kernel
from hetgym.sim.runtime import COMMUNICATION, TRANSFERS, Runtime


class Setting(NamedTuple):
    """A runtime made ready for one problem.

    Attributes:
        switches: the kernel's.
        factor: [n] noise, as a factor of each run time.
        clock: whether the order of events matters, so that the run needs a clock.
    """

    switches: kernel.Switches
    factor: FloatArray
    clock: bool


def setting(problem: Problem, runtime: Runtime, by_priority: bool = False) -> Setting:
    """Make a runtime ready for a problem.

    Args:
        problem: what will be run.
        runtime: the switches.
        by_priority: whether the schedule leaves the order to priorities.
    """
    free_choice = by_priority or runtime.order == "priority"
    switches = kernel.Switches(
        COMMUNICATION.index(runtime.communication), TRANSFERS.index(runtime.transfers), float(runtime.dispatch),
        int(runtime.streams), float(runtime.overlap), free_choice,
    )  # fmt: skip
    factor = np.ones(problem.num_operators)
    if runtime.noise > 0:
        factor = np.exp(runtime.noise * np.random.default_rng(runtime.seed).standard_normal(problem.num_operators))
    pushed = runtime.transfers != "aggregated"
    apart = runtime.communication == "free" or (runtime.communication == "fifo" and problem.private_links)
    return Setting(switches, factor, free_choice or runtime.streams > 1 or not pushed or not apart)


class Workspace(NamedTuple):
    """All that simulations of one problem write; reused from run to run.

    Attributes:
        state: what a simulation found.
        agenda: of the event loop; for an empty problem without a clock.
        flows: under fair sharing.
    """

    state: kernel.State
    agenda: events.Agenda
    flows: fair.Flows


def new_workspace(p: ProblemArrays, how: Setting) -> Workspace:
    """Allocate for a problem and a setting."""
    flows = fair.new_flows(p, how.switches.communication == kernel.FAIR)
    return Workspace(kernel.new_state(p), events.new_agenda(p, how.clock), flows)


def run(
    p: ProblemArrays, w: Workspace, assignment: IntArray, order: IntArray, order_pointer: IntArray,
    priority: FloatArray, how: Setting,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Run schedules, a row of each array for each; see :class:`hetgym.sim.events.Plan` for the arrays.

    Returns:
        [batch] makespans [s], and the fewest operators that ran in one of them: less than n if its
        orders deadlock. The state is what the last of them left.
    """
    makespan = np.empty(len(assignment))
    if how.clock:
        done = events.run_all_events(
            p, w.state, w.agenda, w.flows, assignment, order, order_pointer, priority, how.factor, how.switches,
            makespan,
        )  # fmt: skip
    else:
        done = kernel.run_orders(
            p, w.state, assignment, order, order_pointer, how.factor, how.switches, makespan
        )  # fmt: skip
    return makespan, done
