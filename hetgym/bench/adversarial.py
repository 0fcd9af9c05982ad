"""Problems on which one scheduler loses most to another, found by annealing over problems."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hetgym._text import brief
from hetgym.bench.attempt import sentence
from hetgym.errors import ConfigError, HetgymError
from hetgym.planning import Baseline, evaluate, get
from hetgym.problem import Problem
from hetgym.search.search import check_limits, clock, searching
from hetgym.sim.runtime import Runtime, runtime_name
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.workloads.perturbing import Neighbourhood, chain

HOT, COLD = 0.1, 0.01
"""First and last temperature of a walk, as differences of the ratio's logarithm: the best of a few pairs that were
tried, on problems of six operators and three devices."""


class Improvement(NamedTuple):
    """A problem that was worse for the first scheduler than all before it."""

    evaluation: int  # number of the problem, from 1
    ratio: float  # makespan of the first scheduler over the second's
    change: str  # the move that led to it, in words; empty where a walk begins


@dataclass(frozen=True)
class Adversary:
    """A problem on which one scheduler loses to another."""

    problem: Problem  # the problem
    first: str  # name of the scheduler that loses
    second: str  # name of the other
    runtime: str  # name of the runtime, or its switches
    makespans: tuple[float, float]  # of the first and of the second [s]
    evaluations: int  # problems that both have scheduled
    seconds: float  # time of the search, without compiling [s]
    trail: tuple[Improvement, ...]  # all improvements; the first is the start, the last the problem

    __repr__ = brief

    @property
    def ratio(self) -> float:
        """Makespan of the first scheduler over the second's."""
        return self.trail[-1].ratio

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has, the problem by its id."""
        fields = {name: getattr(self, name) for name in ("first", "second", "runtime", "evaluations", "seconds")}
        makespans = {"first_makespan_s": self.makespans[0], "second_makespan_s": self.makespans[1]}
        trail = [improvement._asdict() for improvement in self.trail]
        return {**fields, "problem": self.problem.id, "ratio": self.ratio, **makespans, "trail": trail}


def adversary(
    first: str | Baseline,
    second: str | Baseline,
    runtime: str | Runtime = "classic",
    start: Problem | None = None,
    *,
    operators: int = 6,
    devices: int = 3,
    within: float = 2.0,
    budget: int = 2000,
    seconds: float | None = None,
    walks: int = 1,
    seed: int = 0,
    tell: Callable[[float, float], None] | None = None,
) -> Adversary:
    """Search for a problem on which one scheduler loses most to another.

    The idea and the moves are PISA's (Coleman, Krishnamachari, arXiv 2403.07120): simulated annealing over problems,
    in which a move stretches one number or adds or removes an edge, see
    :class:`~hetgym.workloads.perturbing.Neighbourhood`. The search maximises the ratio of the two makespans under the
    runtime; schedulers that take the runtime plan for it. The ratio is a lower bound on how badly the first can
    lose, and depends on the range: with a wider one it grows. Within
    :func:`hetgym.search.search.ended_by_interrupt` an interrupt ends the search, which returns the problem so far.

    Args:
        first: the scheduler that is to lose: a name, or a row such as ``get("heft", insertion=False)``.
        second: the one that it is compared with.
        runtime: a preset's name, or the switches.
        start: problem from which each walk starts; by default a chain with numbers drawn within the range.
        operators: number of operators of a drawn start.
        devices: number of its devices.
        within: every number stays within this factor of the start's, up and down.
        budget: largest number of problems that both schedule.
        seconds: limit of wall-clock time [s]; with it, results depend on the machine.
        walks: number of walks, each from the start or a new one, with an equal part of the budget. One long walk
            mostly finds more than several short ones.
        seed: seed of the random moves; equal seeds give equal results on any machine.
        tell: called after each problem with the share of the budget that is spent and the best ratio so far.

    Raises:
        UnknownName: no such scheduler or runtime.
        ConfigError: an impossible limit, or a scheduler that fails on the start.
        ProblemError: an impossible range or size.

    >>> found = adversary("heft", "single-device", budget=200)
    >>> found.ratio > 1.5, found.ratio >= found.trail[0].ratio
    (True, True)
    """
    rows = tuple(get(name) if isinstance(name, str) else name for name in (first, second))
    switches = as_runtime(runtime)
    _check(walks, budget, seed)
    near = Neighbourhood(chain(operators, devices) if start is None else start, within)
    name = "-against-".join(row.name for row in rows)
    rng = np.random.default_rng(seed)
    began = check_limits("adversary", budget, seconds)
    trail: list[Improvement] = []
    current, now, begun, count, spent = near.start(), 0.0, 0, 0, 0.0
    with searching() as interrupted:
        while spent < 1:
            if spent * walks >= begun:
                begun, now, change = int(spent * walks) + 1, -math.inf, ""
                proposal = near.start() if start is not None else near.draw(rng)
            else:
                proposal, change = near.step(current, rng)
            problem = near.problem(proposal, name)
            times = _makespans(rows, problem, switches, strict=count == 0)
            if interrupted():  # which may have ended a scheduler early, too
                break
            count += 1
            value = math.log(times[0] / times[1])
            temperature = HOT * (COLD / HOT) ** (spent * walks % 1)
            if value >= now or rng.random() < math.exp((value - now) / temperature):
                current, now = proposal, value
            if not trail or times[0] / times[1] > trail[-1].ratio:
                trail.append(Improvement(count, times[0] / times[1], change))
                best, makespans = problem, times
            spent = max(count / budget, 0.0 if seconds is None else (clock() - began) / seconds)
            if tell is not None:
                tell(min(spent, 1.0), trail[-1].ratio)
    if not trail:
        raise KeyboardInterrupt
    names = (rows[0].name, rows[1].name, runtime_name(switches))
    return Adversary(best, *names, makespans, count, clock() - began, tuple(trail))


def _check(walks: int, budget: int, seed: int) -> None:
    for name, value, least in (("walks", walks, 1), ("budget", budget, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ConfigError(f"adversary: {name} is {value!r}; it must be a whole number of at least {least}")


def _makespans(rows: tuple[Baseline, ...], problem: Problem, runtime: Runtime, strict: bool) -> tuple[float, float]:
    """Makespans of two schedulers [s].

    If a scheduler fails, or a makespan is 0 or beyond all numbers, both are 1, or ``strict`` makes that an error.
    """
    try:
        plans = [row(problem, runtime) for row in rows]
        first, second = evaluate(problem, plans, runtime, threads=1).tolist()
    except Exception as error:  # a plug-in may raise anything; the search must survive it
        if not strict:
            return 1.0, 1.0
        if isinstance(error, HetgymError):
            raise
        raise ConfigError(f"a scheduler fails on the start problem ({sentence(error)})") from error
    if 0 < first < math.inf and 0 < second < math.inf:
        return first, second
    if strict:
        raise ConfigError(f"the start problem takes {first:g} s and {second:g} s, whose ratio is not defined")
    return 1.0, 1.0
