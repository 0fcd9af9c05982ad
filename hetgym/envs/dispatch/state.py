"""The typed state of dispatch: the arrays that :mod:`hetgym.envs.dispatch.dynamics` reads and writes.

Sizes: L lanes; n operators, e edges and d devices of a problem, padded to N, E and D in arrays that all lanes share; K
candidates and A = K D + 1 actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray
from hetgym.envs.dispatch.jobs import Jobs
from hetgym.envs.dispatch.rollouts import ROLLOUTS
from hetgym.envs.dispatch.service import Service, begin_service, new_service, own_service
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.envs.place.state import PROBLEM
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim.decisions import new_run, restart
from hetgym.sim.kernel import State, Switches
from hetgym.sim.progress import Progress, Sharing


@record
class DispatchTables(NamedTuple):
    """One episode's tables for kernels.

    Only ``known``, ``front``, ``busy`` and parts of the service change.
    """

    service: Service  # which operators are known, and the order in which candidates are offered
    rank: FloatArray  # [n] upward rank [s]
    optimistic: FloatArray  # [n, d] PEFT's optimistic cost to an exit [s]
    tail: FloatArray  # [n, d] proven least time from the operator's finish to the end [s]
    bonus: FloatArray  # [n, d] added to finish times when the completion compares devices [s]
    front: IntArray  # [1 + d] the first operator that is not done, and how many of those before each device has run
    busy: FloatArray  # [d] run time of those on each device, by the costs [s]
    known: BoolArray  # [n] true if its row has been written
    operators: Float32Array  # [N, 12] rows of the operators to be written once they are known
    costs: Float32Array  # [N, D] run times to be written once their operators are known
    edges: Int64Array  # [2, E] ends of the edges to be written once both are known
    transfer: Float32Array  # [E] mean transfer times to be written with the edges


def tables_of(instance: ScheduleInstance, service: Service, blank: Mapping[str, npt.NDArray[Any]]) -> DispatchTables:
    """The tables of an episode.

    Args:
        blank: the fixed part of its observations, see :func:`hetgym.envs.place.observation.fixed`.
    """
    n, d = instance.problem.cost.shape
    tables = DispatchTables(
        service=service,
        rank=instance.upward,
        optimistic=instance.optimistic,
        tail=instance.tail,
        bonus=instance.bonus,
        front=np.zeros(1 + d, np.int32),
        busy=np.zeros(d),
        known=np.zeros(n, np.bool_),
        operators=blank["operators"],
        costs=blank["costs"],
        edges=blank["edges"],
        transfer=blank["edge_transfer"],
    )
    arrays: Any = tables[1:]
    return DispatchTables(service, *map(np.ascontiguousarray, arrays))


def own_tables(tables: DispatchTables) -> DispatchTables:
    """The same tables with copies of those that an episode changes."""
    changed = {name: getattr(tables, name).copy() for name in ("known", "front", "busy")}
    return tables._replace(service=own_service(tables.service), **changed)


def reference_tables(service: Service) -> DispatchTables:
    """Tables with nothing but the service, which is enough to play the reference."""
    return TABLES._replace(service=own_service(service))


@record
class DispatchState(NamedTuple):
    """The state of the episodes, apart from their runs."""

    turn: Int64Array  # [L] number of decisions so far
    hidden: Int64Array  # [L] number of ready operators that are not among the candidates
    # [L] value of the objective, the makespan or the mean time of jobs, that returns compare with [s]
    reference: FloatArray
    scale: FloatArray  # [L] 1 / reference; 0 if that is 0 [1/s]
    bound: FloatArray  # [L] estimated lower bound on the objective, given the committed operators [s]
    # [L] estimate of the objective whose decrease is the reward [s]: the reference at the start, then the bound, at the
    # end the value itself
    potential: FloatArray
    ready: FloatArray  # [L, D] scratch: arrival of the last input of one candidate [s]
    start: FloatArray  # [L, D] scratch: its start [s]
    finish: FloatArray  # [L, D] scratch: its finish [s]
    ends: FloatArray  # [L, K D] finish of each decision [s]; inf where it is impossible
    completion: FloatArray  # [L, A] objective if list scheduling, or the plan, took over after each action [s]
    flow: FloatArray  # [L, A] mean of finish plus optimistic cost to an exit over all operators left, in that case [s]


@record
class Plan(NamedTuple):
    """The plan of one run, see :mod:`hetgym.envs.dispatch.plans`."""

    order: IntArray  # [n] the operators of the plan by their turns; the first `many[0]` count
    turn: IntArray  # [n] turn of each operator, -1 if the plan does not hold it
    device: IntArray  # [n] device of each operator of the plan, -1 if it has none yet
    kept_order: IntArray  # [n] copy of the order
    kept_device: IntArray  # [n] devices of that order's operators
    moved: IntArray  # [n] scratch: operators that a change moves to another device
    before: IntArray  # [n] scratch: their devices before; or the operators of the turns before
    asked: FloatArray  # [d] scratch: time of the last request for inputs on each device [s]
    many: IntArray  # [2] number of operators; number of devices alive when it was found
    random: Int64Array  # [1] state of the generator of changes


def new_plan(operators: int, devices: int, seed: int) -> Plan:
    """An empty plan, whose changes are drawn from a seed of less than 64 bits."""
    order, turn, device, kept_order, kept_device, moved, before = (np.zeros(operators, np.int32) for _ in range(7))
    asked, many, random = np.zeros(devices), np.zeros(2, np.int32), np.array([seed % 2**63], np.int64)
    return Plan(order, turn, device, kept_order, kept_device, moved, before, asked, many, random)


def new_dispatch_state(lanes: int, candidates: int, devices: int) -> DispatchState:
    """A state of zeros."""
    per_lane = [np.zeros(lanes) for _ in range(4)]
    per_device = [np.zeros((lanes, devices)) for _ in range(3)]
    per_action = [np.zeros((lanes, candidates * devices + wait)) for wait in (0, 1, 1)]
    turn, hidden = np.zeros((2, lanes), np.int64)
    return DispatchState(turn, hidden, *per_lane, *per_device, *per_action)


@record
class DispatchObservation(NamedTuple):
    """Observations; see :mod:`hetgym.envs.dispatch.observation`. At levels without the graph, N and E are 0."""

    operators: Float32Array  # [L, N, 12]
    costs: Float32Array  # [L, N, D]
    assignment: Int64Array  # [L, N]
    edges: Int64Array  # [L, 2, E]
    edge_transfer: Float32Array  # [L, E]
    operator_mask: Int8Array  # [L, N]
    edge_mask: Int8Array  # [L, E]
    devices: Float32Array  # [L, D, 8]
    candidates: Float32Array  # [L, A, 13]
    candidate_operators: Int64Array  # [L, K]
    now: Float32Array  # [L, 1]
    mask: Int8Array  # [L, A]


@record
class DispatchRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    problems: Int64Array  # [L, …] rows of records: ProblemArrays
    tables: Int64Array  # [L, …] rows of records: DispatchTables
    states: Int64Array  # [L, …] rows of records: State
    runs: Int64Array  # [L, …] rows of records: Progress
    sharing: Int64Array  # [L, …] rows of records: Sharing; empty for None
    spares: Int64Array  # [L, …] rows of records: Rollouts
    plans: Int64Array  # [L, …] rows of records: Plan
    state: DispatchState  # of all lanes
    observation: DispatchObservation  # of all lanes
    reward: FloatArray  # [L] of the last step
    over: BoolArray  # [L] true where the episode is over
    fresh: BoolArray  # [L] true where an episode is to be opened


_ONE_OPERATOR = Problem.from_arrays([[1.0]], [])
_ONE_JOB = Jobs(np.zeros(1, np.int32), np.zeros(1), np.ones(1))


def _examples() -> tuple[State, Progress, DispatchTables, DispatchRecord]:
    switches = Switches(0, 0, 0.0, 1, 0.0, False, False)
    none = np.zeros(0)
    state, run, _ = new_run(PROBLEM, switches, np.ones(1), np.ones(1), np.zeros(0, np.int32), none, none)
    whole, table, number, known = np.ones(1), np.ones((1, 1)), np.zeros(2, np.int32), np.ones(1, np.bool_)
    shown, rows, mask = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int8)
    cube, ends = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.int64)
    service = new_service(_ONE_OPERATOR, np.zeros(1), _ONE_JOB, _ONE_JOB, "rank", np.zeros(1, np.int32), False)
    per_operator = (whole, table, table, table, number, whole, known)
    tables = DispatchTables(service, *per_operator, shown, shown, rows, np.zeros(1, np.float32))
    observation = DispatchObservation(cube, cube, rows, ends, shown, mask, mask, cube, cube, rows, shown, mask)
    lanes = whole, known, known
    record = DispatchRecord(*(rows,) * 7, new_dispatch_state(1, 1, 1), observation, *lanes)
    return state, run, tables, record


STATE, RUN, TABLES, RECORD = _examples()  # Examples of the records that lanes hold
read_problem = reader(PROBLEM)
read_tables = reader(TABLES)
read_state = reader(STATE)
read_run = reader(RUN)
read_rollouts = reader(ROLLOUTS)
read_plan = reader(new_plan(1, 1, 0))
read_lanes = reader(RECORD)


@interpreted
@lean
def begin_again(
    p: ProblemArrays,
    given: DispatchTables,
    s: State,
    run: Progress,
    sharing: Sharing | None,
    changed: DispatchTables,
) -> None:
    """Return a run without late operators and changes to time 0, and ``changed``, its own tables, to ``given``."""
    restart(p, s, run, sharing)
    begin_service(changed.service, given.service)
    for i in range(len(given.known)):
        changed.known[i] = given.known[i]
    for device in range(len(given.busy)):
        changed.busy[device] = changed.front[device] = 0
    changed.front[len(given.busy)] = 0
