"""Schedulers that know power: HEFT that weighs energy against time and reclaims slack, and the front between both."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hetgym._input.config import check_number
from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.errors import ConfigError, OutOfMemory, check_name
from hetgym.metrics import nondominated
from hetgym.planning.capacity import without_limits
from hetgym.planning.decode import decode_placement
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import upward_rank
from hetgym.planning.slack import SPEEDS, reclaim_slack
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim import Runtime, Trace, simulate
from hetgym.sim.energy import has_power
from hetgym.sim.objective import OBJECTIVES, Objective, quantity
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.runtime import runtime_name

WEIGHTS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)  # Weights of energy, and of price, with which trade_offs plans


def energy_heft(
    problem: Problem,
    weight: float = 1.0,
    reclaim: bool = True,
    speeds: Sequence[float] = SPEEDS,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Upward rank first, each operator where its finish and the energy that it takes are least; slack is reclaimed.

    To the finish of an operator on a device, the energy that it takes there beyond idling is added. A joule is
    converted to a time by ``weight`` over the mean power of devices beyond idling. Weighing both follows Lee, Zomaya,
    "Energy conscious scheduling for distributed computing systems under different operating conditions", IEEE TPDS
    22(8), 2011; they compare devices by ratios instead. On a problem that states no power this is HEFT.

    Args:
        weight: weight of energy; 0 gives the placement and the makespan of HEFT.
        reclaim: False to run everything at full clock, see :func:`hetgym.planning.slack.reclaim_slack`.
        speeds: clocks that operators may run at, as shares of the full one.

    Raises:
        ConfigError: a weight that is negative or not finite, or an impossible speed.
    """
    check_number(weight, "the weight of energy", ConfigError)
    plan = _weighed(problem, weight, problem.power_busy - problem.power_idle, runtime)
    return reclaim_slack(problem, plan, speeds, runtime) if reclaim and has_power(problem) else plan


def _weighed(problem: Problem, weight: float, rate: FloatArray, runtime: str | Runtime) -> Schedule:
    """HEFT with a price on time: [d] rates of devices, relative to their mean."""
    bonus = None
    if weight > 0 and rate.any():
        cost = np.where(np.isfinite(problem.cost), problem.cost, 0.0)
        bonus = weight * cost * rate / rate.mean()
    return place_by_priority(problem, upward_rank(problem), bonus=bonus, runtime=runtime)


@dataclass(frozen=True)
class TradeOff:
    """A plan, and what it takes."""

    schedule: Schedule  # the plan, with the times of the runtime
    trace: Trace  # its simulation
    values: dict[str, float]  # name of an objective -> makespan [s], energy [J] or cost [currency]

    __repr__ = brief


def trade_offs(
    problem: Problem,
    objectives: Sequence[str] = ("makespan", "energy"),
    runtime: str | Runtime = "classic",
    speeds: Sequence[float] = SPEEDS,
    beside: Iterable[Schedule] = (),
) -> list[TradeOff]:
    """Plans that do not dominate each other: an estimate of the Pareto front.

    Candidates are HEFT, :func:`energy_heft` with :data:`WEIGHTS`, the same with prices in place of powers, every device
    alone, and the given schedules; each also with its slack reclaimed.

    Args:
        objectives: names out of ``makespan``, ``energy`` and ``cost``.
        speeds: clocks that operators may run at, as shares of the full one.
        beside: further schedules, such as that of ``hetgym.plan``.

    Returns:
        By ascending first objective; of plans with equal values only the first.

    Raises:
        UnknownName: no such objective.
        ConfigError: no objective.
        InvalidSchedule: a schedule of ``beside`` is not one of the problem.
        ProblemError: the problem does not state power or price, which an objective needs.
        OutOfMemory: no plan was found that fits the capacities of the devices, which hold under every runtime.
    """
    for name in objectives:
        check_name("objective", name, OBJECTIVES)
    if not objectives:
        raise ConfigError("a front needs at least one objective")
    switches = as_runtime(runtime)
    if np.isfinite(problem.memory_capacity).any():
        switches = replace(switches, memory="enforce")
    asked = runtime_name(as_runtime(runtime))
    found: list[TradeOff] = []
    refused: OutOfMemory | None = None
    known: list[Callable[[], Schedule]] = [partial(_itself, problem, plan) for plan in beside]
    for make in [*known, *_candidates(problem, switches)]:
        try:
            plan = make()
            for schedule in (plan, reclaim_slack(problem, plan, speeds, switches)) if has_power(problem) else (plan,):
                trace = replace(simulate(problem, schedule, switches), runtime=asked)
                values = {name: quantity(trace, name) for name in objectives}
                model = asked if schedule.model == runtime_name(switches) else schedule.model
                slower = schedule.speed is not None and plan.speed is None
                name = f"{plan.scheduler}, slack reclaimed" if slower else plan.scheduler
                found.append(TradeOff(replace(schedule, model=model, scheduler=name), trace, values))
        except OutOfMemory as error:
            refused = error
    if not found:
        assert refused is not None
        raise refused
    points = np.array([list(item.values.values()) for item in found])
    kept = [found[k] for k in np.flatnonzero(nondominated(points))]
    return sorted(kept, key=lambda item: tuple(item.values.values()))


def best_for(
    problem: Problem, goal: Objective, runtime: str | Runtime = "classic", beside: Iterable[Schedule] = ()
) -> TradeOff:
    """The best plan of :func:`trade_offs` for an objective, which is relative to the plan of HEFT without limits.

    Args:
        goal: the objective.
        beside: further plans to choose from.

    Raises:
        ProblemError: the problem does not state power or price, which the objective needs.
        OutOfMemory: no plan fits.
    """
    names = [name for name in OBJECTIVES if getattr(goal, name) > 0]
    roomy = without_limits(runtime)
    reference = simulate(problem, _weighed(problem, 0.0, problem.price, roomy), roomy)
    return min(trade_offs(problem, names, runtime, beside=beside), key=lambda item: goal.value(item.trace, reference))


def _itself(problem: Problem, plan: Schedule) -> Schedule:
    validate(problem, plan, memory=False)
    return plan


def _candidates(problem: Problem, runtime: Runtime) -> Iterator[Callable[[], Schedule]]:
    """Makers of plans at full clock, which may find none that fits."""
    rates = {"energy": problem.power_busy - problem.power_idle, "price": problem.price}

    def weighed(weight: float, rate: FloatArray, name: str) -> Schedule:
        return replace(_weighed(problem, weight, rate, runtime), scheduler=name)

    yield partial(weighed, 0.0, problem.price, "heft")
    for what, rate in rates.items():
        for weight in WEIGHTS if rate.any() else ():
            yield partial(weighed, weight, rate, f"heft, weight of {what} {weight:g}")
    for device in np.flatnonzero(np.isfinite(problem.cost).all(axis=0)).tolist():
        alone = decode_placement(problem, np.full(problem.num_operators, device, np.int32))
        yield partial(replace, alone, scheduler=f"all on {problem.device_names[device]}")
