"""CP-SAT: optimal schedules by constraint programming, with a proof or a gap."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.baselines.cpgc import cpgc
from hetgym.baselines.heft import heft
from hetgym.baselines.peft import peft
from hetgym.baselines.trivial import single_device
from hetgym.errors import ConfigError, ProblemError, require
from hetgym.planning.bounds import communication_bound, lower_bound
from hetgym.planning.decode import decode_placement
from hetgym.planning.ranks import least_cost_from_entry, least_cost_to_exit
from hetgym.planning.timeline import with_times
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim.memory import resident_weights

RESOLUTION = 2.0**30  # Ticks that the longest schedule considered may have, where times are not whole numbers already

_ROUNDING = 1e-12  # relative error of a float64 sum along a path, generously


@dataclass(frozen=True)
class Solution:
    """The best schedule that the solver found, and its proof."""

    schedule: Schedule  # the best schedule, timed in float64
    lower_bound: float  # no schedule is shorter [s]
    status: str  # `"optimal"` if the schedule's makespan is the bound up to the ticks' rounding, else `"feasible"`

    @property
    def gap(self) -> float:
        """Makespan over lower bound, less 1."""
        return self.schedule.makespan / self.lower_bound - 1.0 if self.lower_bound > 0 else 0.0


def cp_sat(problem: Problem, seconds: float = 10.0, workers: int = 4, seed: int = 0, memory: bool = False) -> Schedule:
    """Search for a provably shortest schedule by constraint programming, from the best heuristic's on.

    See :func:`solve` for the model and for the bound, which the schedule carries unless ``memory`` restricts
    placements. A schedule that is not proved optimal within the time limit depends on the machine's speed.

    Args:
        seconds: wall-clock limit of the solver [s].
        workers: the solver's threads; their strategies differ, so more is not always faster.
        memory: true if all weights and outputs of a device's operators must fit into its capacity together.

    Raises:
        ConfigError: a limit, a number of workers or a seed that is out of range.
        MissingExtra: OR-Tools is not installed.
        ProblemError: no placement fits into memory.
    """
    found = solve(problem, seconds, workers, seed, memory)
    return replace(found.schedule, lower_bound=None if memory else found.lower_bound)


def solve(problem: Problem, seconds: float = 10.0, workers: int = 4, seed: int = 0, memory: bool = False) -> Solution:
    """Minimise the makespan under the classic model, and prove how good the result is.

    One Boolean for each operator and device, one start for each operator, optional intervals that do not overlap on a
    device, and for every edge and pair of devices the transfer between them. The model also holds the load of each
    device, earliest starts and shortest ways to the end.

    Times are rounded *down* to ticks, a power of two of a second chosen so that the best heuristic's makespan has about
    :data:`RESOLUTION` of them (whole seconds where all times are whole and small). That can only shorten schedules, so
    the solver's bound holds for the problem itself. The device orders are run again in float64, which can make the
    result longer than the solver believes by a tick for each operator and transfer on the way.

    Arguments and errors are those of :func:`cp_sat`.
    """
    check_limits("cp-sat", seconds, workers, seed)
    solver_module = require("ortools.sat.python.cp_model", "exact", "the scheduler cp-sat")
    starts = [cpgc(problem), heft(problem), peft(problem), single_device(problem)]
    if memory:
        starts = [schedule for schedule in starts if _fits(problem, schedule.assignment)]
        starts = starts or [_packed(solver_module, problem)]
    best = min(starts, key=lambda schedule: schedule.makespan)
    bound = lower_bound(problem)
    if best.makespan <= bound * (1 + _ROUNDING):
        return Solution(best, best.makespan, "optimal")
    ticks = _ticks(problem, best.makespan)
    model = _Model(solver_module, problem, best, bound, ticks)
    if memory:
        _limit_memory(model.model, problem, model.on)
    solver, outcome = search(solver_module, model.model, seconds, workers, seed)
    if outcome in (solver_module.OPTIMAL, solver_module.FEASIBLE):
        found = model.read(solver)
        best = min(best, found, key=lambda schedule: schedule.makespan)
        bound = max(bound, solver.best_objective_bound / ticks)
    bound = min(bound, best.makespan)
    slack = 2 * problem.num_operators / ticks if ticks != 1.0 else 0.0
    proved = best.makespan <= bound * (1 + _ROUNDING) + slack
    return Solution(best, bound, "optimal" if proved else "feasible")


def _fits(problem: Problem, assignment: IntArray) -> bool:
    """True if all weights and outputs fit at the same time."""
    outputs = np.bincount(assignment, problem.output_bytes, minlength=problem.num_devices)
    held = resident_weights(problem, assignment) + outputs
    return bool((held <= problem.memory_capacity * (1 + _ROUNDING)).all())


def _limit_memory(model: Any, problem: Problem, on: list[dict[int, Any]]) -> None:
    """Keep what is on each device within its capacity; whole bytes stay whole."""
    shared = problem.shared_weights.pairs()
    need = problem.weight_bytes + problem.output_bytes - problem.shared_weights.each()
    need = np.append(need, [size for _, size in shared])
    if need.sum() == 0:
        return
    scale = float(2.0 ** np.floor(np.log2(2.0**50 / need.sum())))
    for a in np.flatnonzero(np.isfinite(problem.memory_capacity)).tolist():
        most = int(min(problem.memory_capacity[a] * (1 + _ROUNDING), 2.0 * need.sum()) * scale)
        held = [row.get(a, 0) for row in on]
        for readers, _ in shared:
            held.append(model.new_bool_var(""))  # true if the device holds the weight
            for i in readers:
                model.add_implication(on[i][a], held[-1]) if a in on[i] else None
        model.add(sum(int(size * scale) * here for size, here in zip(need, held, strict=True)) <= most)


def _packed(cp: Any, problem: Problem) -> Schedule:
    """Any placement that fits into memory; ProblemError if there is none."""
    model = cp.CpModel()
    n, d = problem.cost.shape
    on = [{a: model.new_bool_var(f"x{i},{a}") for a in range(d) if np.isfinite(problem.cost[i, a])} for i in range(n)]
    for row in on:
        model.add_exactly_one(list(row.values()))
    _limit_memory(model, problem, on)
    solver, outcome = search(cp, model, seconds=60.0, workers=1, seed=0)
    if outcome not in (cp.OPTIMAL, cp.FEASIBLE):
        raise ProblemError(f"problem {problem.name!r}: cp-sat found no placement that fits into the devices' memory")
    return decode_placement(
        problem, np.array([next(a for a, x in row.items() if solver.boolean_value(x)) for row in on], np.int32)
    )


def search(cp: Any, model: Any, seconds: float, workers: int, seed: int) -> tuple[Any, Any]:
    """Run the solver on a model that has a solution, and return it with its status.

    OR-Tools 9.15 can lose all solutions of such a model in its presolve if coefficients are large. A model that
    it reports as infeasible is solved again without presolve.
    """
    for presolve in (True, False):
        solver = cp.CpSolver()
        solver.parameters.max_time_in_seconds = float(seconds)
        solver.parameters.num_workers = workers
        solver.parameters.random_seed = seed
        solver.parameters.cp_model_presolve = presolve
        outcome = solver.solve(model)
        if outcome != cp.INFEASIBLE:
            break
    return solver, outcome


def check_limits(who: str, seconds: float, workers: int, seed: int) -> None:
    """ConfigError for a limit of the solver, a number of workers or a seed that is out of range."""
    if not (isinstance(seconds, int | float) and 0 < seconds <= 1e6):
        raise ConfigError(f"{who}: seconds is {seconds!r}; it must be a positive number")
    if not (isinstance(workers, int) and 1 <= workers <= 256):
        raise ConfigError(f"{who}: workers is {workers!r}; it must be a whole number from 1 to 256")
    if not (isinstance(seed, int) and 0 <= seed < 2**31):
        raise ConfigError(f"{who}: seed is {seed!r}; it must be a whole number from 0 to 2^31 - 1")


def _transfer_times(problem: Problem) -> dict[tuple[int, int], FloatArray]:
    """[d, d] seconds for each pair of neighbours: of parallel edges, the one that arrives last."""
    times: dict[tuple[int, int], FloatArray] = {}
    columns = (problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_bytes.tolist())
    for i, j, size in zip(*columns, strict=True):
        matrix = problem.latency + size / problem.bandwidth
        times[i, j] = np.maximum(times[i, j], matrix) if (i, j) in times else matrix
    return times


def _ticks(problem: Problem, horizon: float) -> float:
    """Ticks a second: 1 if all times are whole and few, else the power of two that fills the resolution."""
    durations = problem.cost[np.isfinite(problem.cost)]
    whole = horizon <= RESOLUTION and bool((durations == np.floor(durations)).all())
    for matrix in _transfer_times(problem).values() if whole else ():
        whole = whole and bool((matrix == np.floor(matrix)).all())
    return 1.0 if whole else float(2.0 ** np.floor(np.log2(RESOLUTION / horizon)))


class _Model:
    """The constraint model of one problem."""

    def __init__(self, cp: Any, problem: Problem, hint: Schedule, bound: float, ticks: float) -> None:
        assert hint.start is not None
        self.problem = problem
        self.ticks = ticks
        self.horizon = self.down(hint.makespan)
        self.model = model = cp.CpModel()
        n, d = problem.cost.shape
        head, tail = least_cost_from_entry(problem), least_cost_to_exit(problem)
        exact = ticks == 1.0 and max(communication_bound(problem), float(head.max())) < 2**53
        shrink = 1.0 if exact else 1.0 - _ROUNDING
        self.makespan = model.new_int_var(self.down(bound * shrink), self.horizon, "C")
        self.start = [model.new_int_var(0, self.horizon, f"s{i}") for i in range(n)]
        self.finish = [model.new_int_var(0, self.horizon, f"e{i}") for i in range(n)]
        self.on: list[dict[int, Any]] = []
        intervals: list[list[Any]] = [[] for _ in range(d)]
        load: list[list[Any]] = [[] for _ in range(d)]
        for i in range(n):
            here = int(hint.assignment[i])
            through = (head[i] + problem.cost[i] + tail[i]) * shrink
            devices = [a for a in range(d) if a == here or through[a] <= hint.makespan]
            on = {a: model.new_bool_var(f"x{i},{a}") for a in devices}
            self.on.append(on)
            model.add_exactly_one(list(on.values()))
            model.add(self.finish[i] == self.start[i] + sum(self.down(problem.cost[i, a]) * x for a, x in on.items()))
            model.add(self.makespan >= self.finish[i] + sum(self.down(tail[i, a] * shrink) * x for a, x in on.items()))
            for a, x in on.items():
                size = self.down(problem.cost[i, a])
                name = f"i{i},{a}"
                intervals[a].append(model.new_optional_fixed_size_interval_var(self.start[i], size, x, name))
                load[a].append(size * x)
                model.add(self.start[i] >= self.down(head[i, a] * shrink)).only_enforce_if(x)
                model.add_hint(x, a == here)
            model.add_hint(self.start[i], self.down(float(hint.start[i])))
        for a in range(d):
            model.add_no_overlap(intervals[a])
            model.add(sum(load[a]) <= self.makespan)
        for (i, j), times in _transfer_times(problem).items():
            self.precede(i, j, times)
        model.minimize(self.makespan)

    def down(self, seconds: float) -> int:
        """Whole ticks; times longer than the horizon are cut there, as they are forbidden anyway."""
        limit = self.horizon + 1 if hasattr(self, "horizon") else 1 << 60
        return int(min(np.floor(seconds * self.ticks), limit))

    def precede(self, i: int, j: int, times: FloatArray) -> None:
        """Operator j starts after i has finished and, on another device, after the transfer."""
        model, start, finish = self.model, self.start[j], self.finish[i]
        model.add(start >= finish)
        pairs = {(a, b): self.down(times[a, b]) for a in self.on[i] for b in self.on[j] if a != b}
        if not pairs or max(pairs.values()) == 0:
            return
        shared = sorted(self.on[i].keys() & self.on[j].keys())
        if len(set(pairs.values())) == 1:  # the same between any two devices
            same = model.new_bool_var(f"same{i},{j}")
            for a, x in self.on[i].items():
                if a in shared:
                    model.add(self.on[j][a] == x).only_enforce_if(same)
                else:
                    model.add_implication(same, ~x)
            for a in shared:
                model.add_bool_or([~self.on[i][a], ~self.on[j][a], same])
            size = next(iter(pairs.values()))
            model.add(start >= finish + size - size * same)
            return
        for (a, b), size in pairs.items():
            both = [self.on[i][a], self.on[j][b]]
            if size > self.horizon:
                model.add_bool_or([~x for x in both])
            elif size > 0:
                model.add(start >= finish + size).only_enforce_if(both)

    def read(self, solver: Any) -> Schedule:
        """The solver's placement and device orders, with exact times."""
        n, d = self.problem.cost.shape
        assignment: IntArray = np.array(
            [next(a for a, x in on.items() if solver.boolean_value(x)) for on in self.on], np.int32
        )
        start = [solver.value(s) for s in self.start]
        finish = [solver.value(e) for e in self.finish]
        position = self.problem.arrays.position
        ranked = sorted(range(n), key=lambda i: (start[i], finish[i], position[i]))
        order = [[i for i in ranked if assignment[i] == a] for a in range(d)]
        return with_times(self.problem, Schedule(assignment, order=order))
