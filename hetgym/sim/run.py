"""Choosing how to walk: without a clock where that is exact, with one otherwise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import events, kernel
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


@jit
def run(
    p: ProblemArrays, s: kernel.State, assignment: IntArray, order: IntArray, order_pointer: IntArray,
    priority: FloatArray, how: Setting,
) -> int:  # fmt: skip
    """Run a schedule; see :func:`hetgym.sim.events.run_events` for the arguments.

    Returns:
        Number of operators that ran: less than n if the orders deadlock.
    """
    if how.clock:
        return events.run_events(p, s, assignment, order, order_pointer, priority, how.factor, how.switches)
    return kernel.run_order(p, s, assignment, order, order_pointer, how.factor, how.switches)
