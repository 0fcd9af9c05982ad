"""The typed state of splitting: the choices of an episode, and the graph that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from hetgym.envs.split.instance import SplitInstance
from hetgym.graph import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Chosen = tuple[tuple[int, int], ...]
"""Splits as (turn, entry of the menu), in the order in which they are applied; operators left whole do not appear."""


@dataclass(frozen=True, eq=False)
class SplitNode:
    """A graph as split so far.

    Attributes:
        problem: the graph on the platform.
        schedule: the inner scheduler's.
        makespan: of that schedule under the runtime [s].
        excess: bytes by which the fullest device exceeds its memory, at most 0 if all fit; -inf if not computed.
        rewrite: makes the graph, with parts as operators of their own.
    """

    problem: Problem
    schedule: Schedule
    makespan: float
    excess: float
    rewrite: Callable[[], DataflowGraph] = field(repr=False)

    @cached_property
    def graph(self) -> DataflowGraph:
        """The graph, with parts as operators of their own."""
        return self.rewrite()


@dataclass(eq=False)
class SplitState:
    """The state of one lane.

    Attributes:
        instance: the graph on the platform.
        chosen: the splits so far.
        actions: actions as they were passed, one for each operator that is decided.
    """

    instance: SplitInstance
    chosen: Chosen = ()
    actions: list[int] = field(default_factory=list)

    @property
    def turn(self) -> int:
        """Number of operators that are decided."""
        return len(self.actions)

    @property
    def operator(self) -> int:
        """The operator to be decided on."""
        return self.instance.keys[self.turn]
