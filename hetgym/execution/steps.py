"""Steps: a schedule as one worker runs it, a callable at a time and what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

INPUT, CONSTANT = -1, -2
"""In place of the operator that makes a tensor: it is given anew for each run, or it never changes."""


class Task(NamedTuple):
    """What one operator does, wherever it runs.

    Attributes:
        call: from its operands to its outputs.
        operands: for each operand the tensor that feeds it, or a value that the task brings along.
        tokens: tensors that must be there before it runs and that it does not read.
    """

    call: Callable[..., tuple[Any, ...]]
    operands: tuple[int | Any, ...]
    tokens: tuple[int, ...] = ()


class Program(Protocol):
    """Makes the operators of one graph runnable on one device."""

    def task(self, operator: int) -> Task:
        """What an operator does; called again it gives the same weights."""
        ...


class Step(NamedTuple):
    """One turn of a worker.

    Attributes:
        operator: its number.
        call: what runs.
        reads: places of the operands among the worker's values.
        waits: tensors of other workers that nobody here has waited for yet.
        keeps: ``(output, place)`` of what later steps here read.
        publishes: ``(output, tensor)`` of what others read.
        drops: places that nobody here reads any more.
    """

    operator: int
    call: Callable[..., tuple[Any, ...]]
    reads: tuple[int, ...]
    waits: tuple[int, ...]
    keeps: tuple[tuple[int, int], ...]
    publishes: tuple[tuple[int, int], ...]
    drops: tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """Who makes and who reads every tensor that may move.

    Attributes:
        maker: [t] operator and output slot that make it; or :data:`INPUT` or :data:`CONSTANT`.
        readers: [t] operators that read it.
        results: tensors that the parent reads when the run is over.
    """

    maker: tuple[tuple[int, int], ...]
    readers: tuple[tuple[int, ...], ...]
    results: frozenset[int]

    def made_by(self) -> Mapping[int, list[tuple[int, int]]]:
        """Operator -> ``(output, tensor)`` of what it makes."""
        made: dict[int, list[tuple[int, int]]] = {}
        for tensor, (operator, slot) in enumerate(self.maker):
            made.setdefault(operator, []).append((slot, tensor))
        return made


class Plan(NamedTuple):
    """The steps of one worker, and what it holds before the first.

    Attributes:
        steps: in the order in which they run.
        values: what lies at each place at the start; None where a step puts something.
        remote: tensors that come from elsewhere.
    """

    steps: tuple[Step, ...]
    values: list[Any]
    remote: frozenset[int]


def plan(flow: Flow, assignment: Sequence[int], order: Sequence[int], device: int, program: Program) -> Plan:
    """Turn one device's part of a schedule into steps.

    Args:
        flow: who makes and reads what.
        assignment: [n] device of each operator.
        order: this device's operators in the order in which they run.
        device: the number of this device.
        program: makes operators runnable.

    Returns:
        The steps. Place ``t`` of the values belongs to tensor ``t``; what tasks bring along comes after.
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
