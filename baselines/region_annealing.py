"""Region annealing: simulated annealing on placement and order under any runtime."""

from __future__ import annotations

from hetgym.baselines.launch_annealing import LaunchAnnealing, chooses
from hetgym.baselines.region_search import LARGE, NAME, RegionAnnealing
from hetgym.baselines.window_annealing import OWN, Resources, WindowAnnealing
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.proposals import new_proposals
from hetgym.search.search import searched
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime


def region_annealing(
    problem: Problem,
    start: str = "best",
    seed: int = 0,
    heat: float | None = None,
    cooling: float = 0.01,
    budget: int = 1_000_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Move regions between devices and operators in the order, priced by simulation under the runtime.

    A region is a connected piece of 1 to 32 operators around one that would save time elsewhere; half of them change
    places with a piece of the device where they go. Better plans are accepted, and worse ones ever more rarely: the
    temperature falls geometrically with the budget spent.
    The best schedule seen is returned, never worse than the start.

    Args:
        start: name of the scheduler whose schedule is improved; ``"best"``: the best of ``peft-again``, ``heft``
            and ``single-device``. Where capacities are enforced, those of :mod:`hetgym.planning.filling` compete.
        heat: first temperature, as a share of the start's makespan; by default 0.003, or 0.25 over the number of
            operators if that is less, and more in long searches of few operators; where every operator has one device
            only, so that the order alone is searched, 0.01, or 4 over their number.
        cooling: last temperature over the first.
        budget: largest number of operators launched in trials.

    Raises:
        UnknownName: no such scheduler.
        ConfigError: a negative budget, a time that is not positive, or temperatures that do not fall.
    """
    return searched(NAME, budget, seconds, lambda: annealing(problem, start, seed, heat, cooling, runtime))


def annealing(
    problem: Problem,
    start: str | Schedule = "best",
    seed: int = 0,
    heat: float | None = None,
    cooling: float = 0.01,
    runtime: str | Runtime = "classic",
    resources: Resources = OWN,
) -> RegionAnnealing:
    """The search that fits the size of a problem and the runtime; arguments are those of :class:`WindowAnnealing`."""
    if problem.num_operators >= LARGE:
        given = problem, start, seed, heat, cooling, runtime, resources
        if as_runtime(runtime).keeps_order:
            return WindowAnnealing(*given)
        if chooses(as_runtime(runtime)):
            return LaunchAnnealing(*given)
    network = resources.network
    guide = None if network is None else new_proposals(problem, network)
    return RegionAnnealing(problem, start, seed, heat, cooling, runtime, guide=guide, work=resources.work)
