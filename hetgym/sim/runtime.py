"""Runtime: what the simulated runtime does, one switch at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hetgym.errors import ConfigError, suggestion, unknown_name

COMMUNICATION = ("free", "fifo")
"""Values of :attr:`Runtime.communication`; their positions are the kernel's codes."""


@dataclass(frozen=True)
class Runtime:
    """The switches of the simulated runtime; all off is the textbook model.

    Transfers are pushed when their producer finishes, one for each edge between different devices,
    and take latency + bytes / bandwidth. A device runs one operator at a time.

    Args:
        communication: ``"free"``, transfers never contend; ``"fifo"``, a directed link carries one
            transfer at a time, latency included, in the order of the requests (ties by the
            producer's position in its device's order, then consumer id, then edge index).

    Raises:
        ConfigError: a value that the switch does not have.

    >>> Runtime(communication="fifo")
    Runtime(communication='fifo')
    """

    communication: str = "free"

    def __post_init__(self) -> None:
        if self.communication not in COMMUNICATION:
            hint = suggestion(self.communication, COMMUNICATION)
            raise ConfigError(f"runtime: communication cannot be {self.communication!r}; {hint}")

    @property
    def contention(self) -> bool:
        """Whether transfers wait for links."""
        return self.communication != "free"


PRESETS: dict[str, Runtime] = {
    "classic": Runtime(),
    "links": Runtime(communication="fifo"),
}
"""Named runtimes: ``classic`` is the contention-free model of the scheduling literature."""


def runtime(source: str | Runtime) -> Runtime:
    """Return a runtime as it is, or look a preset up by name.

    Raises:
        UnknownName: no preset of that name.
    """
    if isinstance(source, Runtime):
        return source
    if source not in PRESETS:
        raise unknown_name("runtime", source, PRESETS)
    return PRESETS[source]


def runtime_name(source: Runtime) -> str:
    """Name of a preset, or the switches that are not at their defaults."""
    for name, preset in PRESETS.items():
        if preset == source:
            return name
    changed = [f"{f.name}={getattr(source, f.name)}" for f in fields(source) if getattr(source, f.name) != f.default]
    return ",".join(changed)
