"""GraphPlan: a rewritten graph and the schedule of it."""

from dataclasses import dataclass

from hetgym._text import brief
from hetgym.graph.dataflow import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule


@dataclass(frozen=True, eq=False)
class GraphPlan:
    """The result of a method that rewrites the graph before it schedules."""

    graph: DataflowGraph  # the graph after fusing or splitting
    problem: Problem  # that graph, priced on the platform
    schedule: Schedule  # of that problem

    __repr__ = brief

    @property
    def makespan(self) -> float:
        """Planned finish of the last operator [s]."""
        return self.schedule.makespan
