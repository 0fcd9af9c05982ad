"""The typed state of splitting: the choices of an episode, and the graph that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from hetgym.envs.split.assembly import Numbered
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.joining import Loads
from hetgym.graph import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Chosen = tuple[tuple[int, int], ...]
"""Splits as (turn, entry of the menu), in the order in which they are applied; operators left whole do not appear."""


@dataclass(frozen=True, eq=False)
class SplitNode:
    """A graph as split so far; what hardly anybody asks for is made when it is asked for.

    Attributes:
        makespan: of the inner scheduler's schedule under the runtime [s].
        loads: of the devices under that schedule.
        excess: bytes by which the fullest device exceeds its memory, at most 0 if all fit; -inf if not computed.
        plan: makes the problem and the schedule.
        rewrite: makes the graph.
        blocks: that the problem is put together from, where it was priced without being made.
    """

    makespan: float
    loads: Loads
    excess: float
    plan: Callable[[], tuple[Problem, Schedule]] = field(repr=False)
    rewrite: Callable[[], DataflowGraph] = field(repr=False)
    blocks: Numbered | None = field(default=None, repr=False)

    @cached_property
    def planned(self) -> tuple[Problem, Schedule]:
        """The graph on the platform, and the inner scheduler's schedule."""
        return self.plan()

    @property
    def problem(self) -> Problem:
        """The graph on the platform."""
        return self.planned[0]

    @property
    def schedule(self) -> Schedule:
        """The inner scheduler's schedule."""
        return self.planned[1]

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
