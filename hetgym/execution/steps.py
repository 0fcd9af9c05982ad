"""Steps: one worker's part of a schedule, as a sequence of callables with the values that they read and write."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from hetgym._groups import gathered

INPUT, CONSTANT = -1, -2
"""Stand for the operator that makes a tensor: an input is given anew for each run, a constant never changes."""


class Task(NamedTuple):
    """The computation of one operator, independent of the device."""

    call: Callable[..., tuple[Any, ...]]  # function from its operands to its outputs
    # for each operand the number of the tensor that feeds it, or a value that is part of the task
    operands: tuple[int | Any, ...]
    tokens: tuple[int, ...] = ()  # tensors that must be available before it runs but that it does not read


class Program(Protocol):
    """Makes the operators of one graph runnable on one device."""

    def task(self, operator: int) -> Task:
        """The task of an operator; repeated calls give the same weights."""
        ...


class Step(NamedTuple):
    """One step of a worker: running one operator."""

    operator: int  # number of the operator
    call: Callable[..., tuple[Any, ...]]  # function that computes it
    reads: tuple[int, ...]  # places of the operands among the worker's values
    waits: tuple[int, ...]  # tensors of other workers for which no earlier step of this worker has waited
    keeps: tuple[tuple[int, int], ...]  # `(output, place)` of outputs that later steps of this worker read
    publishes: tuple[tuple[int, int], ...]  # `(output, tensor)` of outputs that other workers read
    drops: tuple[int, ...]  # places that no later step of this worker reads


@dataclass(frozen=True)
class Flow:
    """The maker and the readers of every tensor that may move."""

    maker: tuple[tuple[int, int], ...]  # [t] operator and output slot that make the tensor; or INPUT or CONSTANT
    readers: tuple[tuple[int, ...], ...]  # [t] operators that read the tensor
    results: frozenset[int]  # tensors that the parent reads after the run

    def made_by(self) -> Mapping[int, list[tuple[int, int]]]:
        """Operator -> ``(output, tensor)`` of the tensors that it makes."""
        return gathered((operator, (slot, tensor)) for tensor, (operator, slot) in enumerate(self.maker))


class Plan(NamedTuple):
    """The steps of one worker, and its values before the first step."""

    steps: tuple[Step, ...]  # the steps in the order in which they run
    values: list[Any]  # initial value of each place; None for places that a step fills
    remote: frozenset[int]  # tensors that come from other workers


def plan(flow: Flow, assignment: Sequence[int], order: Sequence[int], device: int, program: Program) -> Plan:
    """Convert one device's part of a schedule to steps.

    Place ``t`` of the values belongs to tensor ``t``; values that are part of tasks come after these. ``assignment`` is
    [n] for all operators, ``order`` that of this device.
    """
    made = flow.made_by()
    values: list[Any] = [None] * len(flow.maker)
    last: dict[int, int] = {}
    drafts = []
    waited: set[int] = set()
    for turn, operator in enumerate(order):
        task = program.task(operator)
        needs = [t for t in (*task.operands, *task.tokens) if isinstance(t, int)]
        last.update(dict.fromkeys(needs, turn))
        remote = [t for t in needs if flow.maker[t][0] >= 0 and assignment[flow.maker[t][0]] != device]
        waits = tuple(dict.fromkeys(t for t in remote if t not in waited))
        waited.update(waits)
        places = []
        for operand in task.operands:
            if isinstance(operand, int):
                places.append(operand)
            else:
                places.append(len(values))
                values.append(operand)
        drafts.append((operator, task.call, tuple(places), waits))
    steps = []
    for turn, (operator, call, reads, waits) in enumerate(drafts):
        mine = made.get(operator, [])
        keeps = tuple((slot, t) for slot, t in mine if last.get(t, -1) > turn)
        publishes = tuple(
            (slot, t)
            for slot, t in mine
            if t in flow.results or any(assignment[reader] != device for reader in flow.readers[t])
        )
        drops = tuple(dict.fromkeys(t for t in reads if t < len(flow.maker) and last[t] == turn))
        steps.append(Step(operator, call, reads, waits, keeps, publishes, drops))
    return Plan(tuple(steps), values, frozenset(waited))
