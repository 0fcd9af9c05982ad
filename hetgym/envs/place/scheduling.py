"""The part of the environments that schedule problems, before or during a run, which is not in their lanes."""

from __future__ import annotations

from typing import Any

from hetgym.envs.core.scalar import LaneEnv
from hetgym.problem import Problem
from hetgym.sim import Trace


class ScheduleEnv(LaneEnv):
    """One episode at a time that schedules a :class:`~hetgym.Problem`: HetSchedule-v0 or HetDispatch-v0."""

    def graph_view(self) -> Any:
        """The episode's state as a :class:`networkx.DiGraph`, for inspection.

        Returns:
            Operators as nodes by name, with ``kind``, ``cost`` (by device [s]) and ``device`` (a name, or None); those
            that are decided also have ``start`` and ``finish`` [s]. Edges have ``bytes``.

        Raises:
            ResetNeeded: there has been no reset.
        """
        return graph_view(self.problem, self.lanes.trace(0))  # type: ignore[attr-defined]


def graph_view(problem: Problem, trace: Trace) -> Any:
    """A problem and its partial schedule as a networkx graph; see :meth:`ScheduleEnv.graph_view`."""
    import networkx as nx

    view = nx.DiGraph(name=problem.name)
    for i, name in enumerate(problem.operator_names):
        device = int(trace.assignment[i])
        cost = dict(zip(problem.device_names, problem.cost[i].tolist(), strict=True))
        decided = {} if device < 0 else {"start": float(trace.start[i]), "finish": float(trace.finish[i])}
        where = None if device < 0 else problem.device_names[device]
        view.add_node(name, kind=problem.operator_kinds[i], cost=cost, device=where, **decided)
    for k in range(problem.num_edges):
        source, target = problem.operator_names[problem.edge_source[k]], problem.operator_names[problem.edge_target[k]]
        view.add_edge(source, target, bytes=float(problem.edge_bytes[k]))
    return view
