"""The part of the observations of HetDispatch-v0 that depends on the run alone: the time, devices, operators."""

from __future__ import annotations

from hetgym._kernels.jit import step
from hetgym.envs.core.scaling import CLIP, share
from hetgym.envs.dispatch.observation import DispatchDeviceColumn
from hetgym.envs.dispatch.service import AGAIN, TOP
from hetgym.envs.dispatch.state import DispatchObservation, DispatchTables
from hetgym.envs.place.observation import OperatorColumn
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import backlog
from hetgym.sim.kernel import State
from hetgym.sim.progress import DONE, RUNNING, Progress

_MOST_COUNTED = 8 * int(CLIP)


@step
def show(
    p: ProblemArrays,
    tables: DispatchTables,
    s: State,
    run: Progress,
    seen: DispatchObservation,
    lane: int,
    scale: float,
) -> None:
    """Write the time, the devices and, if the graph is observed, the operators and edges that are known."""
    seen.now[lane, 0] = share(run.clock[0], scale)
    _move_front(p, tables, run)
    for device in range(p.cost.shape[1]):
        _show_device(p, tables, s, run, seen, lane, device, scale)
    if seen.operators.shape[1] > 0:
        news = _reveal(tables, run, seen, lane)
        _show_operators(s, run, seen, lane, scale)
        if news:
            _show_edges(p, tables, seen, lane)


@step
def _move_front(p: ProblemArrays, tables: DispatchTables, run: Progress) -> None:
    """Move the front past the operators that are done, unless these may have to run once more."""
    front = tables.front
    while front[0] < len(run.status) and run.status[front[0]] == DONE and not tables.service.how[AGAIN]:
        device = run.assignment[front[0]]
        tables.busy[device] += p.cost[front[0], device]
        front[1 + device] += 1
        front[0] += 1


@step
def _show_device(
    p: ProblemArrays,
    tables: DispatchTables,
    s: State,
    run: Progress,
    seen: DispatchObservation,
    lane: int,
    device: int,
    scale: float,
) -> None:
    """Write a device's row."""
    busy, committed, total = tables.busy[device], tables.front[1 + device], tables.front[0]
    for i in range(tables.front[0], tables.service.tally[TOP]):
        total += run.assignment[i] >= 0
        if run.assignment[i] == device:
            committed += 1
            busy += p.cost[i, device]
    now = run.clock[0]
    row = seen.devices[lane, device]
    row[DispatchDeviceColumn.BUSY] = share(busy, scale)
    row[DispatchDeviceColumn.BACKLOG] = share(backlog(p, s, run, device) - now, scale)
    row[DispatchDeviceColumn.SHARE] = committed / max(1, total)
    row[DispatchDeviceColumn.QUEUED] = min(run.tail[device] - run.head[device], _MOST_COUNTED) / 8
    row[DispatchDeviceColumn.RUNNING] = min(run.running[device], _MOST_COUNTED) / 8
    row[DispatchDeviceColumn.IS_ALIVE] = run.alive[device]
    row[DispatchDeviceColumn.SLOWDOWN] = min(run.slowdown[device], CLIP)


@step
def _reveal(tables: DispatchTables, run: Progress, seen: DispatchObservation, lane: int) -> bool:
    """Write the rows of operators that have been released; return true if there are new ones."""
    news = False
    for i in range(len(run.status)):
        if not tables.known[i] and tables.service.release[i] <= run.clock[0]:
            tables.known[i] = news = True
            seen.operator_mask[lane, i] = 1
            for column in range(tables.operators.shape[1]):
                seen.operators[lane, i, column] = tables.operators[i, column]
            for device in range(tables.costs.shape[1]):
                seen.costs[lane, i, device] = tables.costs[i, device]
    return news


@step
def _show_operators(s: State, run: Progress, seen: DispatchObservation, lane: int, scale: float) -> None:
    """Write the columns of operators that change."""
    for i in range(len(run.status)):
        committed, started = run.assignment[i] >= 0, run.status[i] >= RUNNING
        row = seen.operators[lane, i]
        row[OperatorColumn.IS_PLACED] = committed
        row[OperatorColumn.IS_CURRENT] = 0.0
        row[OperatorColumn.START] = share(s.start[i], scale) if started else 0.0
        row[OperatorColumn.FINISH] = share(s.finish[i], scale) if started else 0.0
        seen.assignment[lane, i] = run.assignment[i] if committed else -1


@step
def _show_edges(p: ProblemArrays, tables: DispatchTables, seen: DispatchObservation, lane: int) -> None:
    """Write the edges between known operators."""
    for edge in range(len(p.successor)):
        if tables.known[p.edge_source[edge]] and tables.known[p.successor[edge]]:
            seen.edge_mask[lane, edge] = 1
            seen.edges[lane, 0, edge] = tables.edges[0, edge]
            seen.edges[lane, 1, edge] = tables.edges[1, edge]
            seen.edge_transfer[lane, edge] = tables.transfer[edge]
