"""Objectives: what a plan is to keep small, relative to another run."""

from dataclasses import dataclass, fields

from hetgym._input.config import check_number
from hetgym.errors import ConfigError, check_name, shown
from hetgym.sim.trace import Trace


@dataclass(frozen=True)
class Objective:
    """A weighted sum of the makespan, the energy and the rent of a run, each relative to those of a reference.

    Raises:
        ConfigError: a weight that is negative or not finite, or no weight above 0.

    >>> objective("makespan=1,energy=3")
    Objective(makespan=0.25, energy=0.75, cost=0.0)
    """

    makespan: float = 0.0  # weight of the makespan
    energy: float = 0.0  # weight of the energy
    cost: float = 0.0  # weight of the rent

    def __post_init__(self) -> None:
        for name in OBJECTIVES:
            check_number(getattr(self, name), f"the weight of {name}", ConfigError)
        total = self.makespan + self.energy + self.cost
        if total == 0:
            raise ConfigError("an objective needs a weight above 0")
        for name in OBJECTIVES:
            object.__setattr__(self, name, getattr(self, name) / total)

    def value(self, trace: Trace, reference: Trace) -> float:
        """The weighted mean of the ratios; below 1 is better than the reference.

        A quantity of weight 0 is not computed. A ratio to a reference of 0 counts as 1.

        Raises:
            ProblemError: the problem does not state what the objective needs.
        """
        total = 0.0
        for name in OBJECTIVES:
            weight = getattr(self, name)
            if weight > 0:
                value, other = quantity(trace, name), quantity(reference, name)
                total += weight * (value / other if other > 0 else 1.0)
        return total


OBJECTIVES = tuple(field.name for field in fields(Objective))
"""Names of the quantities: ``makespan`` [s], ``energy`` [J], ``cost`` [currency]."""


def quantity(trace: Trace, name: str) -> float:
    """The makespan [s], energy [J] or cost [currency] of a run; ProblemError where powers or prices are not stated."""
    return trace.energy.total if name == "energy" else float(getattr(trace, name))


def objective(given: str | Objective) -> Objective:
    """An objective by name, or from weights as in ``makespan=0.5,energy=0.5``.

    Raises:
        UnknownName: no such quantity.
        ConfigError: not a number, a quantity that is given twice, or weights that are no objective.
    """
    if isinstance(given, Objective):
        return given
    if not isinstance(given, str):
        raise ConfigError(f"an objective is a name or weights such as 'makespan=1,energy=1', not {shown(given)}")
    weights: dict[str, float] = {}
    for part in given.split(","):
        name, equals, number = (word.strip() for word in part.partition("="))
        check_name("objective", name, OBJECTIVES)
        if name in weights:
            raise ConfigError(f"objective {shown(given)}: {name} is given twice")
        try:
            weights[name] = float(number) if equals else 1.0
        except ValueError:
            raise ConfigError(f"objective {shown(given)}: {shown(number)} is not a number") from None
    return Objective(**weights)
