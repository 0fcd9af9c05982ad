"""The typed state of dispatch: the arrays that :mod:`hetgym.envs.dispatch.dynamics` reads and writes.

Sizes: L lanes; n operators, e edges and d devices of a problem, padded to N, E and D in arrays that all lanes share; K
candidates and A = K D + 1 actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import blank, example
from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray
from hetgym.envs.dispatch.service import Service, begin_service, own_service
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.envs.place.state import PROBLEM
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import new_run, restart
from hetgym.sim.kernel import State, Switches
from hetgym.sim.progress import Progress, Sharing


@record
class DispatchTables(NamedTuple):
    """One episode's tables for kernels.

    Only ``known``, ``front``, ``busy`` and parts of the service change.
    """

    service: Service  # which operators are known, and the order in which candidates are offered
    rank: Annotated[FloatArray, "n"]  # upward rank [s]
    optimistic: Annotated[FloatArray, "n, d"]  # PEFT's optimistic cost to an exit [s]
    tail: Annotated[FloatArray, "n, d"]  # proven least time from the operator's finish to the end [s]
    bonus: Annotated[FloatArray, "n, d"]  # added to finish times when the completion compares devices [s]
    # the first operator that is not done, and how many of those before it each device has run
    front: Annotated[IntArray, "1 + d"]
    busy: Annotated[FloatArray, "d"]  # run time of those on each device, by the costs [s]
    known: Annotated[BoolArray, "n"]  # true if its row has been written
    operators: Annotated[Float32Array, "N, 12"]  # rows of the operators to be written once they are known
    costs: Annotated[Float32Array, "N, D"]  # run times to be written once their operators are known
    edges: Annotated[Int64Array, "2, E"]  # ends of the edges to be written once both are known
    transfer: Annotated[Float32Array, "E"]  # mean transfer times to be written with the edges


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

    turn: Annotated[Int64Array, "L"]  # number of decisions so far
    hidden: Annotated[Int64Array, "L"]  # number of ready operators that are not among the candidates
    # value of the objective, the makespan or the mean time of jobs, that returns compare with [s]
    reference: Annotated[FloatArray, "L"]
    scale: Annotated[FloatArray, "L"]  # 1 / reference; 0 if that is 0 [1/s]
    bound: Annotated[FloatArray, "L"]  # estimated lower bound on the objective, given the committed operators [s]
    # estimate of the objective whose decrease is the reward [s]: the reference at the start, then the bound, at the end
    # the value itself
    potential: Annotated[FloatArray, "L"]
    ready: Annotated[FloatArray, "L, D"]  # scratch: arrival of the last input of one candidate [s]
    start: Annotated[FloatArray, "L, D"]  # scratch: its start [s]
    finish: Annotated[FloatArray, "L, D"]  # scratch: its finish [s]
    ends: Annotated[FloatArray, "L, K D"]  # finish of each decision [s]; inf where it is impossible
    # objective if list scheduling, or the plan, took over after each action [s]
    completion: Annotated[FloatArray, "L, A"]
    # mean of finish plus optimistic cost to an exit over all operators left, in that case [s]
    flow: Annotated[FloatArray, "L, A"]


@record
class Plan(NamedTuple):
    """The plan of one run, see :mod:`hetgym.envs.dispatch.plans`."""

    order: Annotated[IntArray, "n"]  # the operators of the plan by their turns; the first `many[0]` count
    turn: Annotated[IntArray, "n"]  # turn of each operator, -1 if the plan does not hold it
    device: Annotated[IntArray, "n"]  # device of each operator of the plan, -1 if it has none yet
    kept_order: Annotated[IntArray, "n"]  # copy of the order
    kept_device: Annotated[IntArray, "n"]  # devices of that order's operators
    moved: Annotated[IntArray, "n"]  # scratch: operators that a change moves to another device
    before: Annotated[IntArray, "n"]  # scratch: their devices before; or the operators of the turns before
    asked: Annotated[FloatArray, "d"]  # scratch: time of the last request for inputs on each device [s]
    many: Annotated[IntArray, "2"]  # number of operators; number of devices alive when it was found
    random: Annotated[Int64Array, "1"]  # state of the generator of changes


def new_plan(operators: int, devices: int, seed: int) -> Plan:
    """An empty plan, whose changes are drawn from a seed of less than 64 bits."""
    plan = blank(Plan, n=operators, d=devices)
    plan.random[0] = seed % 2**63
    return plan


@record
class DispatchObservation(NamedTuple):
    """Observations; see :mod:`hetgym.envs.dispatch.observation`. At levels without the graph, N and E are 0."""

    operators: Annotated[Float32Array, "L, N, 12"]
    costs: Annotated[Float32Array, "L, N, D"]
    assignment: Annotated[Int64Array, "L, N"]
    edges: Annotated[Int64Array, "L, 2, E"]
    edge_transfer: Annotated[Float32Array, "L, E"]
    operator_mask: Annotated[Int8Array, "L, N"]
    edge_mask: Annotated[Int8Array, "L, E"]
    devices: Annotated[Float32Array, "L, D, 8"]
    candidates: Annotated[Float32Array, "L, A, 13"]
    candidate_operators: Annotated[Int64Array, "L, K"]
    now: Annotated[Float32Array, "L, 1"]
    mask: Annotated[Int8Array, "L, A"]


@record
class DispatchRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    problems: Annotated[Int64Array, "L, row"]  # rows of records: ProblemArrays
    tables: Annotated[Int64Array, "L, row"]  # rows of records: DispatchTables
    states: Annotated[Int64Array, "L, row"]  # rows of records: State
    runs: Annotated[Int64Array, "L, row"]  # rows of records: Progress
    sharing: Annotated[Int64Array, "L, row"]  # rows of records: Sharing; empty for None
    spares: Annotated[Int64Array, "L, row"]  # rows of records: Rollouts
    plans: Annotated[Int64Array, "L, row"]  # rows of records: Plan
    state: DispatchState  # of all lanes
    observation: DispatchObservation  # of all lanes
    reward: Annotated[FloatArray, "L"]  # of the last step
    over: Annotated[BoolArray, "L"]  # true where the episode is over
    fresh: Annotated[BoolArray, "L"]  # true where an episode is to be opened


_SWITCHES = Switches(0, 0, 0.0, 1, 0.0, False, False)
_NONE = np.zeros(0)
# Examples of the records that lanes hold
STATE, RUN, _ = new_run(PROBLEM, _SWITCHES, np.ones(1), np.ones(1), np.zeros(0, np.int32), _NONE, _NONE)
TABLES, RECORD = example(DispatchTables), example(DispatchRecord)
read_problem = reader(PROBLEM)
read_tables = reader(TABLES)
read_state = reader(STATE)
read_run = reader(RUN)
read_plan = reader(example(Plan))
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
