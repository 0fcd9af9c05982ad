"""Runtime: the switches of the simulated runtime."""

import sys
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

from hetgym.errors import ConfigError, check_name, suggestion, unknown_name
from hetgym.problem import Problem

COMMUNICATION = ("free", "fifo", "fair", "endpoint")
"""Values of :attr:`Runtime.communication`; their positions are the kernel's codes."""

TRANSFERS = ("per_edge", "cached", "aggregated")  # Values of Runtime.transfers; their positions are the kernel's codes
MEMORY = ("off", "track", "enforce")  # Values of Runtime.memory
ORDER = ("fixed", "priority", "ready")  # Values of Runtime.order

MAX_NOISE = 10.0
MAX_STREAMS = 1024


@dataclass(frozen=True)
class Runtime:
    """The switches of the simulated runtime, independent of each other; the defaults are the textbook model.

    A transfer takes latency + bytes / bandwidth of its route; one of no bytes still pays the latency. Transfers
    requested at the same instant are booked in the order of the producers' positions in their devices' orders, then by
    consumer id, then by edge index.

    Args:
        communication: ``"free"``, transfers never contend; ``"fifo"``, a directed link carries one transfer at a time,
            in the order of the requests, and a transfer holds every link of its route, latency included; ``"fair"``,
            after the latency the active flows share every link of their routes by max-min fairness; ``"endpoint"``, a
            device sends one and receives one transfer at a time.
        transfers: ``"per_edge"``, pushed when the producer finishes, once for each reader; ``"cached"``, pushed when
            the producer finishes, but a tensor goes to a device only once, at the largest byte count of its edges
            there; ``"aggregated"``, pulled as one message from each device when the reader's predecessors have all
            finished and, in a fixed order, the inputs of the operators before it on its device have been pulled.
        dispatch: host time for every launched operator [s]. In a fixed order an accelerator's host runs ahead of it: it
            has issued the k-th operator after k times the dispatch time. A CPU is its own host: after the inputs have
            arrived, the stream that takes an operator spends the time before it starts. Without a fixed order every
            device does so.
        streams: number of operators that a device may run at the same time; in a fixed order they start
            in that order. They share the device: while their occupancies (:attr:`hetgym.Problem.occupancy`) sum to at
            most 1 each runs at full speed; beyond that all slow down by the sum.
        overlap: relative slow-down, besides, of an operator for each one that already runs on the device when it
            starts: 0.2 makes it 20 % longer beside one, 40 % beside two.
        memory: ``"off"``; ``"track"``, record each device's use over time; ``"enforce"``, also refuse
            a run that exceeds a capacity.
        noise: standard deviation of the logarithm of each run time; the median is unchanged.
        order: ``"fixed"``, the schedule's device orders (or its priorities, if it has those);
            ``"priority"``, work-conserving: a free device takes the first of its operators, in the
            schedule's order, whose inputs have arrived; ``"ready"``, first come, first served: a free device takes
            the operator whose last input arrived first (ties: topological position), as executors do that know only
            the placement. The schedule's order is not obeyed.
        partitions: charge the time to enter partitions, and let synchronous devices and their host take turns
            (:attr:`hetgym.Problem.partition_overhead`). Problems that have any of these are always simulated and
            planned so; the switch makes no difference for others.

    Raises:
        ConfigError: a value that the switch does not have.

    >>> Runtime(communication="fifo")
    Runtime(communication='fifo')
    """

    communication: str = "free"
    transfers: str = "per_edge"
    dispatch: float = 0.0
    streams: int = 1
    overlap: float = 0.0
    memory: str = "off"
    noise: float = 0.0
    seed: int = 0
    order: str = "fixed"
    partitions: bool = False

    def __post_init__(self) -> None:
        choices = {"communication": COMMUNICATION, "transfers": TRANSFERS, "memory": MEMORY, "order": ORDER}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                hint = suggestion(getattr(self, name), known)
                raise ConfigError(f"runtime: {name} cannot be {getattr(self, name)!r}; {hint}")
        for name in ("dispatch", "overlap", "noise"):
            value = getattr(self, name)
            real = isinstance(value, Real) and not isinstance(value, bool)
            if not real or not 0 <= value <= sys.float_info.max:
                raise ConfigError(f"runtime: {name} is {value!r}; it must be a finite number, not negative")
            object.__setattr__(self, name, float(value))
        if self.noise > MAX_NOISE:
            raise ConfigError(f"runtime: noise is {self.noise!r}; beyond {MAX_NOISE:g} run times overflow")
        if isinstance(self.streams, Integral) and self.streams > MAX_STREAMS:
            raise ConfigError(f"runtime: streams is more than {MAX_STREAMS}, which no device has")
        for name, least in (("streams", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ConfigError(f"runtime: {name} is {value!r}; it must be a whole number of at least {least}")
            object.__setattr__(self, name, int(value))
        if not isinstance(self.partitions, bool):
            raise ConfigError(f"runtime: partitions is {self.partitions!r}; it must be true or false")
        if self.partitions and self.streams > 1:
            raise ConfigError(
                f"runtime: streams is {self.streams}; devices that take time to enter partitions run one operator at a "
                "time, so it must be 1"
            )

    def __repr__(self) -> str:
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Runtime({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"

    # Every short cut of the package asks one of these four; docs/developers/add-a-runtime-switch.md lists which.
    @property
    def is_classic(self) -> bool:
        """True if every switch has its default.

        Then the times that a timeline plans are those of a simulation, bit for bit: plans need not be simulated, and
        walks (:mod:`hetgym.search.walk`) may price changes.
        """
        return self == PRESETS["classic"]

    @property
    def plans_as_classic(self) -> bool:
        """True if transfers, hosts and memory delay nothing, so that a timeline has nothing to book.

        Then list schedulers place every operator as under ``classic``. Streams, orders and noise may still change the
        simulated times.
        """
        free = self.communication == "free" and self.transfers == "per_edge"
        return free and self.dispatch == 0.0 and self.memory != "enforce"

    @property
    def keeps_order(self) -> bool:
        """True if a device runs one operator at a time, in the order of the schedule.

        Then an operator starts when the one before it on its device has ended, or later: longest paths may follow
        device orders, and courses (:mod:`hetgym.search.course`) need no event loop.
        """
        return self.streams == 1 and self.order == "fixed" and not self.partitions

    @property
    def needs_clock(self) -> bool:
        """True if launches depend on the order of events, whatever the links: only the event loop gives exact times.

        Where it is False, a sweep along the device orders gives the times of the event loop, bit for bit; under
        ``communication="fifo"`` only if no link serves two pairs of devices (:attr:`hetgym.Problem.private_links`).
        """
        return not self.keeps_order or self.transfers == "aggregated" or self.communication in ("fair", "endpoint")


PRESETS: dict[str, Runtime] = {
    "classic": Runtime(),
    "links": Runtime(communication="fifo"),
    "donf": Runtime(communication="fifo", transfers="aggregated"),
    "fair": Runtime(communication="fair"),
    "ready": Runtime(order="ready"),
    "framework": Runtime(communication="fifo", transfers="cached", dispatch=5e-6, streams=2, memory="track"),
}
"""Named runtimes: ``classic`` is the contention-free model of the scheduling literature."""


def runtime(source: str | Runtime) -> Runtime:
    """Return a runtime unchanged, look a preset up by name, or read switches.

    Args:
        source: a runtime; a preset's name; or switches after a comma each, as in ``"links,order=ready"`` and as
            :func:`runtime_name` writes them. What is not named is as in the preset, or off without one.

    Raises:
        UnknownName: no preset or switch of that name.
        ConfigError: a value that the switch does not have.

    >>> runtime("links,order=ready")
    Runtime(communication='fifo', order='ready')
    """
    if isinstance(source, Runtime):
        return source
    if not isinstance(source, str):
        raise unknown_name("runtime", source, PRESETS)
    if source in PRESETS:
        return PRESETS[source]
    first, *others = (word.strip() for word in source.split(","))
    if first not in PRESETS and "=" not in first:
        raise unknown_name("runtime", first, PRESETS)
    base = PRESETS.get(first, Runtime())
    return replace(base, **dict(_switch(word) for word in (others if first in PRESETS else (first, *others))))


def _switch(word: str) -> tuple[str, Any]:
    """Name and value of one switch, as in ``streams=2``."""
    name, _, value = (part.strip() for part in word.partition("="))
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(Runtime)}
    check_name("switch of a runtime", name, kinds)
    if kinds[name] is bool:
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"runtime: {name} cannot be {value!r}; it must be true or false")
        return name, value.lower() == "true"
    try:
        return name, kinds[name](value)
    except ValueError:
        raise ConfigError(f"runtime: {name} cannot be {value!r}; it must be a number") from None


def charged(source: Runtime, problem: Problem) -> Runtime:
    """A runtime that charges the partitions of a problem; the runtime itself if it has none.

    Raises:
        ConfigError: the problem has some, and the runtime several streams.
    """
    return replace(source, partitions=True) if problem.has_partitions and not source.partitions else source


def runtime_name(source: Runtime) -> str:
    """Name of a preset, or the switches that are not at their defaults."""
    for name, preset in PRESETS.items():
        if preset == source:
            return name
    changed = [f"{f.name}={getattr(source, f.name)}" for f in fields(source) if getattr(source, f.name) != f.default]
    return ",".join(changed)
