"""Episodes as values; :func:`hetgym.envs.replay` plays them again."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hetgym._text import brief
from hetgym.envs.core.arguments import Arguments, ScalarArguments, VectorArguments
from hetgym.sim import Loss, SlowDown
from hetgym.sim.runtime import runtime, runtime_name

DRAWS = frozenset({"split", "generator"})
"""Arguments by which a reset with a seed draws a problem; an episode on a given problem does without them."""

_SHOWN = frozenset({"reward", "observation", "illegal"})  # no makespan depends on these
_CHANGES: dict[str, Any] = {"SlowDown": SlowDown, "Loss": Loss}


@dataclass(frozen=True)
class Replay:
    """An episode as a value: the same problem, arguments and actions give the same makespan again.

    It holds plain values only: ``json.dumps(dataclasses.asdict(episode))`` writes it, ``Replay(**json.loads(text))``
    reads it.

    Attributes:
        problem: :attr:`hetgym.Problem.id` of the problem that was scheduled.
        seed: seed of the reset that drew the problem, None if that reset had none.
        actions: the actions that were executed.
        conditions: seed of noise, arrivals and changes, in HetDispatch-v0; of the moves, in HetImprove-v0.
        order: the order of decisions, if the reset gave one.
        jobs: number of problems that were joined, in HetDispatch-v0.
        env_id: id of the environment.
        arguments: name and value of each argument of the environment that the episode depends on, unless it is the
            default; see :func:`recorded`. None if they are not known.
        gap: mean time between arrivals of several jobs [s].
        makespan: makespan of the episode [s]; None if it is not known.
        start: devices of the operators, and the order on each device, of the plan that the reset gave, if it gave one,
            in HetImprove-v0.
        arrivals, release, weights: of jobs, operators and jobs, if the reset gave them, in HetDispatch-v0 [s].
    """

    problem: str
    seed: int | None
    actions: tuple[int, ...]
    conditions: int | None = None
    order: tuple[int, ...] | None = None
    jobs: int = 1
    env_id: str = "HetSchedule-v0"
    arguments: tuple[tuple[str, Any], ...] | None = None
    gap: float | None = None
    makespan: float | None = None
    start: tuple[tuple[int, ...], tuple[tuple[int, ...], ...] | None] | None = None
    arrivals: tuple[float, ...] | None = None
    release: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        for name in ("actions", "order", "arguments", "start", "arrivals", "release", "weights"):  # JSON has no tuples
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, _tuples(getattr(self, name)))


def recorded(arguments: Arguments) -> tuple[tuple[str, Any], ...]:
    """Names and plain values of an environment's arguments on which an episode depends, where not the defaults."""
    known = influences(_shared_class(type(arguments)))
    found = {name: plain(name, getattr(arguments, name)) for name in known}
    return tuple((name, value) for name, value in found.items() if value != known[name])


def influences(of: type[Arguments]) -> dict[str, Any]:
    """The arguments of an environment on which episodes depend, besides the problem -> their defaults as plain values.

    Args:
        of: the dataclass of the arguments.
    """
    # What says where problems come from stands in the base that has `source` and does not make lanes.
    sources: list[Any] = [base for base in of.__mro__ if hasattr(base, "source") and not hasattr(base, "lanes")]
    others = ({field.name for base in sources for field in fields(base)} - DRAWS) | _SHOWN
    names = [field for field in fields(of) if field.name not in others and not field.name.startswith("max_")]
    return {field.name: plain(field.name, field.default) for field in names}


def plain(name: str, value: Any) -> Any:
    """The value of an argument as text, numbers and tuples; an object without such a form as its type in ``<>``."""
    if name == "runtime":
        return runtime_name(runtime(value))
    if isinstance(value, list | tuple):
        return tuple(plain("", one) for one in value)
    if isinstance(value, SlowDown | Loss):
        return (type(value).__name__, *vars(value).values())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else f"<{type(value).__name__}>"


def restored(name: str, value: Any) -> Any:
    """The value of an argument from its plain form."""
    return [_CHANGES[kind](*values) for kind, *values in value] if name == "changes" else value


def _shared_class(of: Any) -> Any:
    """The dataclass of the arguments that the scalar and the vector environment share."""
    return next(base for base in of.__mro__ if not issubclass(base, ScalarArguments | VectorArguments))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
