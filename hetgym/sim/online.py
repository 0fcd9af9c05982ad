"""Online scheduling: a callable decides during the run.

The simulator stops at every moment at which operators can be committed to devices and calls the scheduler::

    def fastest(situation):
        operator = situation.ready[0]
        return operator, situation.estimate(operator).finish.argmin()

    trace = hetgym.sim.online(problem, fastest, runtime="links")

Nothing is known in advance: an operator becomes ready when its predecessors have finished, its inputs move when it is
committed, and devices may slow down or be lost during the run.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray, as_numbers
from hetgym.errors import ConfigError, InvalidSchedule
from hetgym.problem import Problem
from hetgym.sim import decisions
from hetgym.sim.kernel import FAIR, State, Switches
from hetgym.sim.loop import OVER, STUCK
from hetgym.sim.progress import OPEN, RUNNING, Progress, launch_order
from hetgym.sim.run import online_setting
from hetgym.sim.runtime import Runtime, charged
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.trace import Trace, traced


@dataclass(frozen=True)
class SlowDown:
    """A device takes longer from some time on, also for the operators that run at that time.

    Attributes:
        device: its number.
        at: time of the change [s].
        factor: factor of the problem's run times: 2 is half as fast, 1 the original speed.
    """

    device: int
    at: float
    factor: float


@dataclass(frozen=True)
class Loss:
    """A device is lost for good, with its running and queued operators and the results that are still needed.

    Results of operators without successors need no delivery. Links stay booked as they were.

    Attributes:
        device: its number.
        at: time of the loss [s].
    """

    device: int
    at: float


class Estimate(NamedTuple):
    """Estimated times of an operator on each device if it were committed now.

    Each transfer is estimated by itself, given the current bookings of the links. Each device is assumed
    to run its queued operators one after the other, without noise.
    """

    # arrival, start, finish: [d] arrival of its last input, start and finish [s]; inf where it cannot run
    arrival: FloatArray
    start: FloatArray
    finish: FloatArray


class Situation:
    """The view of a run on which a decision can be based; ``problem`` is the problem that is run."""

    problem: Problem
    _state: State
    _progress: Progress
    _switches: Switches
    _guess: Estimate

    @property
    def now(self) -> float:
        """The time [s]."""
        return float(self._progress.clock[0])

    @property
    def ready(self) -> IntArray:
        """Operators that can be committed, in topological order; never empty when a decision is due."""
        operators = np.flatnonzero(self._progress.status == OPEN).astype(np.int32)
        return operators[np.argsort(self.problem.arrays.position[operators])]

    @property
    def alive(self) -> BoolArray:
        """[d] whether each device still exists."""
        return self._progress.alive.copy()

    @property
    def queued(self) -> IntArray:
        """[d] operators committed to each device that have not started."""
        return self._progress.tail - self._progress.head

    @property
    def running(self) -> IntArray:
        """[d] operators that run on each device."""
        return self._progress.running.copy()

    @property
    def slowdown(self) -> FloatArray:
        """[d] factor by which each device takes longer than the problem says."""
        return self._progress.slowdown.copy()

    def estimate(self, operator: int) -> Estimate:
        """Estimated times of an operator on each device if it were committed now.

        Raises:
            InvalidSchedule: the operator is not ready.
        """
        self._check_ready(operator)
        p, s, run = self.problem.arrays, self._state, self._progress
        decisions.look(p, s, run, int(operator), self._switches, *self._guess)
        return Estimate(*(times.copy() for times in self._guess))

    def _check_ready(self, operator: int) -> None:
        n = self.problem.num_operators
        if not 0 <= operator < n or int(operator) != operator or self._progress.status[operator] != OPEN:
            raise InvalidSchedule(f"online: operator {operator} is not ready; ready: {self.ready.tolist()}")


Decision = tuple[int, int] | None  # An operator and the device that it is committed to, or None: wait


class OnlineSimulation(Situation):
    """A run that advances from decision to decision.

    While :attr:`over` is false the caller must :meth:`commit` one of the :attr:`ready` operators, or :meth:`wait`.
    :func:`online` is the loop around it.

    Args:
        runtime: as for :func:`~hetgym.simulate`; ``order`` is left to the decisions. A reader requests its inputs when
            it is committed; with ``transfers="cached"`` it reuses a copy that the device holds or awaits. The host of
            an accelerator issues an operator once it is committed.
        release: [n] time at which each operator becomes known [s], for jobs that arrive late.
        changes: slow-downs and losses.

    Raises:
        UnknownName: no preset of that name.
        ConfigError: a release or a change that makes no sense; or the loss of a device under fair
            sharing, which is not simulated.
    """

    def __init__(
        self,
        problem: Problem,
        runtime: str | Runtime = "classic",
        release: npt.ArrayLike | None = None,
        changes: Sequence[SlowDown | Loss] = (),
    ) -> None:
        self.problem = problem
        self.runtime = charged(as_runtime(runtime), problem)
        how = online_setting(problem, self.runtime)
        p, self._switches = problem.arrays, how.switches
        fair = self._switches.communication == FAIR
        if fair and any(isinstance(change, Loss) for change in changes):
            raise ConfigError("online: the loss of a device is not simulated where transfers share links fairly")
        devices, factors, moments = changes_of(problem, changes)
        self._state, self._progress, self._sharing = decisions.new_run(
            p, how.switches, how.factor, _release(problem, release), devices, factors, moments
        )
        self._guess = Estimate(*(np.empty(problem.num_devices) for _ in Estimate._fields))
        self._outcome = self._decide(decisions.GO_ON)

    @property
    def over(self) -> bool:
        """True if all operators have run."""
        return self._outcome == OVER

    def commit(self, operator: int, device: int) -> None:
        """Commit an operator to a device, behind what is queued there, and go on to the next decision.

        Raises:
            InvalidSchedule: the operator is not ready, or the device cannot run it.
        """
        self._check_ready(operator)
        p = self.problem
        exists = 0 <= device < p.num_devices and int(device) == device
        if not exists or not self._progress.alive[device] or not math.isfinite(p.cost[operator, device]):
            why = "cannot run it" if exists and self._progress.alive[device] else "does not exist"
            raise InvalidSchedule(
                f"online: operator {operator} ({p.operator_names[operator]!r}) is committed to device {device}, "
                f"which {why}" + (" any more" if exists and not self._progress.alive[device] else "")
            )
        self._outcome = self._decide(int(operator), int(device))

    def wait(self) -> None:
        """Commit nothing until an operator finishes or is released, or a device changes.

        Raises:
            InvalidSchedule: no further event will come, so the wait would not end.
        """
        self._outcome = self._decide(decisions.WAIT)

    def trace(self) -> Trace:
        """The finished run. Operators that ran more than once, because a device was lost, show their last run.

        Raises:
            InvalidSchedule: the run is not over.
            OutOfMemory: the runtime enforces capacities, and a device exceeded its own.
        """
        if not self.over:
            remaining = self.problem.num_operators - self._progress.tally[1]
            raise InvalidSchedule(f"online: {remaining} operators have not run")
        run, switches = self._progress, self.runtime
        return traced(self.problem, run.assignment, self._state, switches, "online", launch_order(run))

    def _decide(self, operator: int, device: int = 0) -> int:
        p, s, run = self.problem, self._state, self._progress
        outcome = decisions.decide(p.arrays, s, run, self._sharing, operator, device, self._switches)
        if not run.alive.all():
            lost = ~np.isfinite(p.cost[:, run.alive]).any(axis=1) & (run.status < RUNNING)
            for i in np.flatnonzero(lost):
                name = p.operator_names[i]
                raise InvalidSchedule(f"online: no device is left that can run operator {i} ({name!r})")
        if outcome == STUCK:
            raise InvalidSchedule(f"online: the decision waits at {self.now:g} s, but nothing runs or is queued")
        return int(outcome)


def online(
    problem: Problem,
    decide: Callable[[Situation], Decision],
    runtime: str | Runtime = "classic",
    release: npt.ArrayLike | None = None,
    changes: Sequence[SlowDown | Loss] = (),
) -> Trace:
    """Run a problem under a scheduler that decides during the run.

    Args:
        decide: called while operators are ready, until it returns None or none is ready; then again
            as soon as an operator has finished or been released, or a device has changed.
        runtime, release, changes: see :class:`OnlineSimulation`.

    Returns:
        The finished run. Operators that ran more than once, because a device was lost, show their last run.

    Raises:
        UnknownName: no preset of that name.
        ConfigError: a release or a change that makes no sense.
        InvalidSchedule: a decision that cannot be carried out, or a wait without end.
        OutOfMemory: the runtime enforces capacities, and a device exceeded its own.

    >>> problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
    >>> online(problem, lambda now: (now.ready[0], now.estimate(now.ready[0]).finish.argmin())).makespan
    3.5
    """
    run = OnlineSimulation(problem, runtime, release, changes)
    while not run.over:
        decision = decide(run)
        if decision is None:
            run.wait()
            continue
        try:
            operator, device = decision
        except TypeError as cause:
            raise InvalidSchedule(f"online: a decision is (operator, device) or None, not {decision!r}") from cause
        run.commit(operator, device)
    return run.trace()


def _release(problem: Problem, release: npt.ArrayLike | None) -> FloatArray:
    n = problem.num_operators
    if release is None:
        return np.zeros(n)
    times = as_numbers(release, "online: release times are not a list of numbers", ConfigError)
    if times.shape != (n,) or not (np.isfinite(times) & (times >= 0)).all():
        raise ConfigError(f"online: release must hold one finite time, not negative, for each of the {n} operators")
    return times


def changes_of(problem: Problem, changes: Sequence[SlowDown | Loss]) -> tuple[IntArray, FloatArray, FloatArray]:
    """Device, factor (inf for a loss) and moment of each change; ConfigError for one that makes no sense."""
    for change in changes:
        if not isinstance(change, SlowDown | Loss):
            raise ConfigError(f"online: a change is a SlowDown or a Loss, not {change!r}")
        if change.device not in range(problem.num_devices):
            raise ConfigError(f"online: {change} names a device that does not exist")
        if not 0 <= change.at < math.inf or (isinstance(change, SlowDown) and not 0 < change.factor < math.inf):
            raise ConfigError(f"online: {change} needs a finite time, not negative, and a positive finite factor")
    return (
        np.array([change.device for change in changes], np.int32),
        np.array([change.factor if isinstance(change, SlowDown) else math.inf for change in changes], np.float64),
        np.array([change.at for change in changes], np.float64),
    )
