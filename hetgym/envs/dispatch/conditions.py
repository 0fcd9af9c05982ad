"""The conditions of HetDispatch-v0: noise, arrivals and changes, given or drawn for each episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np

from hetgym._types import BoolArray, FloatArray, Int64Array, IntArray
from hetgym.envs.core.arguments import Arguments, real, whole
from hetgym.envs.dispatch.jobs import Jobs, jobs_of, mean_work, nonnegative, poisson, times_of
from hetgym.envs.place.instance import heft_makespan
from hetgym.errors import ConfigError, shown
from hetgym.problem import Problem
from hetgym.sim import Loss, Runtime, SlowDown
from hetgym.sim.online import changes_of
from hetgym.workloads.job_shops import JobShops, is_job_shop

MOST_JOBS = 1_000_000
Times = Sequence[float] | Callable[[np.random.Generator, int], Any] | None
"""Times or weights: a list, or ``callable(rng, count)`` that makes one for each episode."""

_OFFERED, _MOST_OFFERED = 8, 4096  # Operators offered at a time, by default and at most
SLOWEST = 4.0  # Largest factor of a random slow-down; the least is 1.5


@dataclass(frozen=True)
class Conditions(Arguments):
    """The conditions of episodes of HetDispatch-v0; :class:`~hetgym.envs.HetDispatchEnv` describes them."""

    _: KW_ONLY
    candidates: int | None = whole(None, most=_MOST_OFFERED)  # number of operators offered at a time
    noise: float = real(0.0)  # standard deviation of the logarithm of each run time, drawn anew for each episode
    jobs: int = whole(1, most=MOST_JOBS)  # number of problems drawn for an episode; all run on the machine of the first
    gap: float = real(0.5)
    load: float | None = real(None)
    arrivals: Times | str | PathLike[str] = None
    release: Times = None
    weights: Times = None
    rule: Literal["rank", "fifo", "spt", "mwkr", "mor", "wspt", "srpt", "fair"] | None = None
    changes: Sequence[SlowDown | Loss] = ()  # slow-downs and losses of every episode
    slow_downs: int = whole(0, least=0, most=4096)
    losses: int = whole(0, least=0, most=4096)
    tries: int = whole(0, least=0, most=1_000_000)
    deadline: float = real(0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.arrivals, str | PathLike):
            object.__setattr__(self, "arrivals", times_of(self.arrivals))
        for name in ("arrivals", "release", "weights"):
            value = getattr(self, name)
            if not callable(value):
                found = nonnegative(name, value)
                object.__setattr__(self, name, None if found is None else tuple(found.tolist()))
        if isinstance(self.arrivals, tuple):
            if self.jobs not in (1, len(self.arrivals)):
                raise ConfigError(f"{len(self.arrivals)} arrivals for jobs={self.jobs}; give one for each")
            object.__setattr__(self, "jobs", len(self.arrivals))
        if self.load == 0:
            raise ConfigError("load is 0; it must be positive: the share of the machine that arriving work needs")
        given = [name for name in ("load", "arrivals", "release") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} both say when jobs arrive; give one of them")
        if not isinstance(self.changes, list | tuple):
            raise ConfigError(f"changes is {shown(self.changes)}; it must be a list of SlowDown and Loss")
        object.__setattr__(self, "changes", tuple(self.changes))
        for change in self.changes:
            if not isinstance(change, SlowDown | Loss):
                raise ConfigError(f"changes holds {shown(change)}; expected a SlowDown or a Loss")

    @property
    def calm(self) -> bool:
        """True without noise, late arrivals and changes."""
        others = ("candidates", "tries", "deadline", "rule")
        usual = {field.name: field.default for field in fields(Conditions) if field.name not in others}
        return all(getattr(self, name) == value for name, value in usual.items())

    def offered(self, problems: Sequence[Problem], generator: object = None) -> int:
        """Number of operators offered at a time: 8 by default, or all jobs of the largest of some job shops."""
        if self.candidates is not None:
            return self.candidates
        shops = [int(problem.component.max()) + 1 for problem in problems if is_job_shop(problem)]
        if isinstance(generator, JobShops):
            shops.append(generator.jobs[1])
        return min(max([_OFFERED, *(count * self.jobs for count in shops)]), _MOST_OFFERED)

    def mean_gap(self, problems: Sequence[Problem], runtime: Runtime) -> float:
        """Mean time between the arrivals of such problems [s]."""
        if self.load is not None:
            return mean_work(problems) / self.load
        return self.gap * float(np.mean([heft_makespan(problem, runtime) for problem in problems]))

    def releases(
        self,
        problems: Sequence[Problem],
        gap: float,
        lists: Mapping[str, FloatArray | None],
        rng: np.random.Generator,
    ) -> tuple[FloatArray, FloatArray | None]:
        """[n] the time at which each operator of an episode becomes known [s], and [j] the weights of the jobs or None.

        Args:
            problems: the jobs.
            gap: mean time between arrivals [s].
            lists: ``arrivals``, ``release`` and ``weights`` of the reset, which come before those of the environment.
            rng: draws arrivals, and is passed to callables.

        Raises:
            ConfigError: another number of times or weights than of operators or jobs.
        """
        sizes = [problem.num_operators for problem in problems]
        given = {name: values for name, values in lists.items() if values is not None}
        if "arrivals" in given and "release" in given:
            raise ConfigError("options['arrivals'] and options['release'] both say when jobs arrive; give one of them")
        wanted = {"arrivals": len(problems), "release": int(np.sum(sizes)), "weights": len(problems)}
        for name in ["weights"] if "arrivals" in given or "release" in given else wanted:
            value = getattr(self, name)
            made = nonnegative(name, value(rng, wanted[name]) if callable(value) else value)
            if made is not None:
                given.setdefault(name, made)
        for name, what in (("arrivals", "jobs"), ("release", "operators")):
            if len(given.get(name, ())) not in (0, wanted[name]):
                raise ConfigError(f"{name} holds {len(given[name])} times for {wanted[name]} {what}; give one for each")
        if "release" not in given:
            arrivals = given["arrivals"] if "arrivals" in given else poisson(len(problems), gap, rng)
            given["release"] = np.repeat(arrivals, sizes)
        return given["release"], given.get("weights")


def deadlines(
    problems: Sequence[Problem], release: FloatArray, factor: float, runtime: Runtime
) -> tuple[Jobs, FloatArray]:
    """All jobs, and [j] their deadlines: the arrival, and a multiple of the makespan of HEFT for the job alone [s].

    Args:
        release: [n] time at which each operator becomes known [s].
    """
    sizes = [problem.num_operators for problem in problems]
    jobs = jobs_of(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes), release)
    return jobs, jobs.came + factor * np.array([heft_makespan(problem, runtime) for problem in problems])


class Drawn(NamedTuple):
    """The conditions of one episode."""

    runtime: Runtime  # with the seed of its noise
    release: FloatArray  # [n] time at which each operator becomes known [s]
    devices: IntArray  # [c] device of each change
    factors: FloatArray  # [c] its new slow-down; inf for a loss
    moments: FloatArray  # [c] time of the change [s]


def given(problem: Problem, conditions: Conditions, runtime: Runtime, release: FloatArray) -> Drawn:
    """The conditions of an episode before slow-downs and losses are drawn.

    Args:
        runtime: with the seed of its noise.
        release: [n] time at which each operator becomes known [s].

    Raises:
        ConfigError: a change that is not possible on this problem.
    """
    drawn = Drawn(runtime, release, *changes_of(problem, conditions.changes))
    alive = survivors(problem, drawn)
    if alive.all():
        return drawn
    homeless = ~np.isfinite(problem.cost[:, alive]).any(axis=1)
    if homeless.any():
        name = problem.operator_names[int(np.argmax(homeless))]
        raise ConfigError(f"after the losses no device is left that can run operator {name!r}")
    return drawn


def noisy(runtime: Runtime, noise: float, rng: np.random.Generator) -> Runtime:
    """A runtime with noise whose seed is drawn; without noise the runtime unchanged."""
    noise = noise if noise > 0 else runtime.noise
    return replace(runtime, noise=noise, seed=int(rng.integers(2**31))) if noise > 0 else runtime


def with_changes(
    problem: Problem, drawn: Drawn, conditions: Conditions, horizon: float, rng: np.random.Generator
) -> Drawn:
    """Conditions with random slow-downs and losses added.

    Args:
        conditions: conditions of all episodes; they give the numbers of changes.
        horizon: time within which the changes happen [s].
    """
    order = rng.permutation(problem.num_devices)
    lost = draw_losses(problem, survivors(problem, drawn), order, conditions.losses)
    slowed = rng.integers(problem.num_devices, size=conditions.slow_downs)
    factors = rng.uniform(1.5, SLOWEST, conditions.slow_downs)
    moments = rng.uniform(0.0, horizon, conditions.slow_downs + len(lost))
    return drawn._replace(
        devices=np.concatenate([drawn.devices, slowed, lost]).astype(np.int32),
        factors=np.concatenate([drawn.factors, factors, np.full(len(lost), np.inf)]),
        moments=np.concatenate([drawn.moments, moments]),
    )


def draw_losses(problem: Problem, alive: BoolArray, order: Int64Array, losses: int) -> IntArray:
    """The devices that are lost: the first ones of an order whose losses leave every operator a device.

    Args:
        alive: [d] true for devices that no given change takes away.
        order: [d] all devices in random order.
        losses: number of devices to lose; fewer are returned if no other device can be spared.
    """
    alive, able = alive.copy(), np.isfinite(problem.cost)
    lost: list[int] = []
    for device in order.tolist():
        if len(lost) == losses:
            break
        kept = alive & (np.arange(len(alive)) != device)
        if able[:, kept].any(axis=1).all() and kept.any():
            lost.append(device)
            alive = kept
    return np.array(lost, np.int32)


def survivors(problem: Problem, drawn: Drawn) -> BoolArray:
    """[d] true for devices that no change takes away."""
    alive = np.ones(problem.num_devices, np.bool_)
    alive[drawn.devices[np.isinf(drawn.factors)]] = False
    return alive
