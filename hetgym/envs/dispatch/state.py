"""The typed state of dispatch: the arrays that :mod:`hetgym.envs.dispatch.dynamics` reads and writes.

Sizes: L lanes; n operators, e edges and d devices of a problem, padded to N, E and D in arrays that all lanes share; K
candidates and A = K D + 1 actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import lean
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray
from hetgym.envs.dispatch.conditions import Drawn
from hetgym.envs.dispatch.jobs import Jobs
from hetgym.envs.dispatch.rollouts import ROLLOUTS
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.envs.place.state import PROBLEM
from hetgym.problem import Problem
from hetgym.sim.decisions import new_run, restart
from hetgym.sim.fair import Flows
from hetgym.sim.kernel import State, Switches
from hetgym.sim.progress import Progress


@record
class DispatchTables(NamedTuple):
    """One episode's tables for kernels.

    Only ``order``, ``turn``, ``bound``, ``left``, ``spare`` and ``known`` change. A run has one job if the objective is
    the makespan, whatever it is made of.

    Attributes:
        order: [n] operators by descending priority, in which candidates are offered.
        rank: [n] upward rank [s].
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        tail: [n, d] proven least time from the operator's finish to the end [s].
        bonus: [n, d] added to finish times when the completion compares devices [s].
        turn: [n] position of each operator in ``order``.
        release: [n] time at which each operator becomes known [s].
        work: [n] mean run time [s].
        job: [n] job of each operator.
        came: [j] arrival of each job [s]; 0 if the objective is the makespan.
        bound: [j] estimated lower bound on each job's end, given the committed operators [s].
        left: [j] scratch: what is left of each job.
        spare: [n] scratch.
        known: [n] true if its row has been written.
        operators: [N, 12] rows of the operators to be written once they are known.
        costs: [N, D] run times to be written once their operators are known.
        edges: [2, E] ends of the edges to be written once both are known.
        transfer: [E] mean transfer times to be written with the edges.
    """

    order: IntArray
    rank: FloatArray
    optimistic: FloatArray
    tail: FloatArray
    bonus: FloatArray
    turn: IntArray
    release: FloatArray
    work: FloatArray
    job: IntArray
    came: FloatArray
    bound: FloatArray
    left: FloatArray
    spare: IntArray
    known: BoolArray
    operators: Float32Array
    costs: Float32Array
    edges: Int64Array
    transfer: Float32Array


def tables_of(
    instance: ScheduleInstance, drawn: Drawn, blank: Mapping[str, npt.NDArray[Any]], jobs: Jobs
) -> DispatchTables:
    """The tables of an episode.

    Args:
        instance: of the problem.
        drawn: the conditions.
        blank: the fixed part of its observations, see :func:`hetgym.envs.place.observation.fixed`.
        jobs: whose ends count.
    """
    n = instance.problem.num_operators
    turn = np.empty(n, np.int32)
    turn[instance.order] = np.arange(n, dtype=np.int32)
    tables = DispatchTables(
        order=instance.order.copy(),
        rank=instance.upward,
        optimistic=instance.optimistic,
        tail=instance.tail,
        bonus=instance.bonus,
        turn=turn,
        release=drawn.release,
        work=instance.problem.mean_cost,
        job=jobs.job,
        came=jobs.came,
        bound=jobs.came.copy(),
        left=np.zeros(len(jobs.came)),
        spare=np.zeros(n, np.int32),
        known=np.zeros(n, np.bool_),
        operators=blank["operators"],
        costs=blank["costs"],
        edges=blank["edges"],
        transfer=blank["edge_transfer"],
    )
    return DispatchTables._make(np.ascontiguousarray(array) for array in tables)


def own_tables(tables: DispatchTables) -> DispatchTables:
    """The same tables with copies of those that an episode changes."""
    changed = ("order", "turn", "bound", "left", "spare", "known")
    return tables._replace(**{name: getattr(tables, name).copy() for name in changed})


def reference_tables(problem: Problem, drawn: Drawn, order: IntArray, jobs: Jobs) -> DispatchTables:
    """Tables with nothing but the order and the jobs, which is enough to play the reference."""
    n = problem.num_operators
    return TABLES._replace(
        order=order.copy(),
        turn=np.zeros(n, np.int32),
        release=drawn.release,
        work=problem.mean_cost,
        job=jobs.job,
        came=jobs.came,
        bound=jobs.came.copy(),
        left=np.zeros(len(jobs.came)),
        spare=np.zeros(n, np.int32),
    )


@record
class DispatchState(NamedTuple):
    """The state of the episodes, apart from their runs.

    Attributes:
        turn: [L] number of decisions so far.
        hidden: [L] number of ready operators that are not among the candidates.
        reference: [L] value of the objective, the makespan or the mean time of jobs, that returns compare with [s].
        scale: [L] 1 / reference; 0 if that is 0 [1/s].
        bound: [L] estimated lower bound on the objective, given the committed operators [s].
        potential: [L] estimate of the objective whose decrease is the reward [s]: the reference at the start, then
            the bound, at the end the value itself.
        ready: [L, D] scratch: arrival of the last input of one candidate [s].
        start: [L, D] scratch: its start [s].
        finish: [L, D] scratch: its finish [s].
        ends: [L, K D] finish of each decision [s]; inf where it is impossible.
        completion: [L, A] objective if list scheduling, or the plan, took over after each action [s].
        flow: [L, A] mean of finish plus optimistic cost to an exit over all operators left, in that case [s].
    """

    turn: Int64Array
    hidden: Int64Array
    reference: FloatArray
    scale: FloatArray
    bound: FloatArray
    potential: FloatArray
    ready: FloatArray
    start: FloatArray
    finish: FloatArray
    ends: FloatArray
    completion: FloatArray
    flow: FloatArray


@record
class Plan(NamedTuple):
    """The plan of one run, see :mod:`hetgym.envs.dispatch.plans`.

    Attributes:
        order: [n] the operators of the plan by their turns; the first ``many[0]`` count.
        turn: [n] turn of each operator, -1 if the plan does not hold it.
        device: [n] device of each operator of the plan, -1 if it has none yet.
        kept_order: [n] copy of the order.
        kept_device: [n] devices of that order's operators.
        moved: [n] scratch: operators that a change moves to another device.
        before: [n] scratch: their devices before; or the operators of the turns before.
        asked: [d] scratch: time of the last request for inputs on each device [s].
        many: [2] number of operators; number of devices alive when it was found.
        random: [1] state of the generator of changes.
    """

    order: IntArray
    turn: IntArray
    device: IntArray
    kept_order: IntArray
    kept_device: IntArray
    moved: IntArray
    before: IntArray
    asked: FloatArray
    many: IntArray
    random: Int64Array


def new_plan(operators: int, devices: int, seed: int) -> Plan:
    """An empty plan, whose changes are drawn from a seed of less than 64 bits."""
    order, turn, device, kept_order, kept_device, moved, before = (np.zeros(operators, np.int32) for _ in range(7))
    return Plan(
        order=order,
        turn=turn,
        device=device,
        kept_order=kept_order,
        kept_device=kept_device,
        moved=moved,
        before=before,
        asked=np.zeros(devices),
        many=np.zeros(2, np.int32),
        random=np.array([seed % 2**63], np.int64),
    )


def new_dispatch_state(lanes: int, candidates: int, devices: int) -> DispatchState:
    """A state of zeros."""
    per_lane = [np.zeros(lanes) for _ in range(4)]
    per_device = [np.zeros((lanes, devices)) for _ in range(3)]
    per_action = [np.zeros((lanes, candidates * devices + wait)) for wait in (0, 1, 1)]
    turn, hidden = np.zeros((2, lanes), np.int64)
    return DispatchState(turn, hidden, *per_lane, *per_device, *per_action)


@record
class DispatchObservation(NamedTuple):
    """Observations; see :mod:`hetgym.envs.dispatch.observation`. At levels without the graph, N and E are 0.

    Attributes:
        operators: [L, N, 12].
        costs: [L, N, D].
        assignment: [L, N].
        edges: [L, 2, E].
        edge_transfer: [L, E].
        operator_mask: [L, N].
        edge_mask: [L, E].
        devices: [L, D, 8].
        candidates: [L, A, 13].
        candidate_operators: [L, K].
        now: [L, 1].
        mask: [L, A].
    """

    operators: Float32Array
    costs: Float32Array
    assignment: Int64Array
    edges: Int64Array
    edge_transfer: Float32Array
    operator_mask: Int8Array
    edge_mask: Int8Array
    devices: Float32Array
    candidates: Float32Array
    candidate_operators: Int64Array
    now: Float32Array
    mask: Int8Array


@record
class DispatchRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record.

    Attributes:
        problems: [L, …] rows of records: :class:`~hetgym.problem.ProblemArrays`.
        tables: [L, …] rows of records: :class:`DispatchTables`.
        states: [L, …] rows of records: :class:`~hetgym.sim.kernel.State`.
        runs: [L, …] rows of records: :class:`~hetgym.sim.progress.Progress`.
        flows: [L, …] rows of records: :class:`~hetgym.sim.fair.Flows`.
        spares: [L, …] rows of records: :class:`~hetgym.envs.dispatch.rollouts.Rollouts`.
        plans: [L, …] rows of records: :class:`Plan`.
        state: of all lanes.
        observation: of all lanes.
        reward: [L] of the last step.
        over: [L] true where the episode is over.
        fresh: [L] true where an episode is to be opened.
    """

    problems: Int64Array
    tables: Int64Array
    states: Int64Array
    runs: Int64Array
    flows: Int64Array
    spares: Int64Array
    plans: Int64Array
    state: DispatchState
    observation: DispatchObservation
    reward: FloatArray
    over: BoolArray
    fresh: BoolArray


def _examples() -> tuple[State, Progress, Flows, DispatchTables, DispatchRecord]:
    switches = Switches(0, 0, 0.0, 1, 0.0, False, False)
    none = np.zeros(0)
    state, run, flows = new_run(PROBLEM, switches, np.ones(1), np.ones(1), np.zeros(0, np.int32), none, none)
    whole, table, number, known = np.ones(1), np.ones((1, 1)), np.zeros(1, np.int32), np.ones(1, np.bool_)
    shown, rows, mask = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int8)
    cube, ends = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.int64)
    per_operator = (number, whole, table, table, table, number, whole, whole, number)
    per_job = (np.zeros(1), np.zeros(1), np.zeros(1))
    tables = DispatchTables(*per_operator, *per_job, number, known, shown, shown, rows, np.zeros(1, np.float32))
    observation = DispatchObservation(cube, cube, rows, ends, shown, mask, mask, cube, cube, rows, shown, mask)
    lanes = whole, known, known
    record = DispatchRecord(*(rows,) * 7, new_dispatch_state(1, 1, 1), observation, *lanes)
    return state, run, flows, tables, record


STATE, RUN, FLOWS, TABLES, RECORD = _examples()
"""Examples of the records that lanes hold."""

read_problem = reader(PROBLEM)
read_tables = reader(TABLES)
read_state = reader(STATE)
read_run = reader(RUN)
read_flows = reader(FLOWS)
read_rollouts = reader(ROLLOUTS)
read_plan = reader(new_plan(1, 1, 0))
read_lanes = reader(RECORD)


@lean
def begin_again(
    problem: Int64Array,
    tables: Int64Array,
    state: Int64Array,
    run: Int64Array,
    flows: Int64Array,
    own: Int64Array,
) -> None:
    """Return a run without late operators and changes to time 0, and what it has changed of its tables to what it was.

    Args:
        problem: row of the problem.
        tables: row of the initial tables.
        state: row of the run's state.
        run: row of its progress.
        flows: row of its flows.
        own: row of its own tables.
    """
    restart(read_problem(problem), read_state(state), read_run(run), read_flows(flows))
    t, changed = read_tables(tables), read_tables(own)
    for i in range(len(t.order)):
        changed.order[i], changed.turn[i] = t.order[i], t.turn[i]
        changed.spare[i], changed.known[i] = t.spare[i], t.known[i]
    for j in range(len(t.bound)):
        changed.bound[j], changed.left[j] = t.bound[j], t.left[j]
