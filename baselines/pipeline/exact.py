"""The best contiguous cut of a pipeline by constraint programming, with a proof or a gap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetgym._types import IntArray
from hetgym.baselines.exact import check_limits, search
from hetgym.baselines.pipeline.downset import NodeStage, placement, prefixes, solve
from hetgym.baselines.pipeline.sharing import respects_pools
from hetgym.errors import ProblemError, require
from hetgym.pipeline.contraction import Contraction, contract
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.sharing import relaxed

RESOLUTION = 2.0**26  # Ticks of the first answer's max-load

_SLACK = 1e-12  # relative error of a float64 sum of times, generously


@dataclass(frozen=True)
class ProvenCut:
    """A cut, and a bound that no contiguous cut beats."""

    assignment: IntArray  # [n] device of each operator
    max_load: float  # time between two results in steady state [s]
    lower_bound: float  # no contiguous cut is faster [s]
    status: str  # `"optimal"` if the max-load is the bound up to the ticks' rounding, else `"feasible"`


def cp_sat_cut(problem: PipelineProblem, seconds: float = 10.0, workers: int = 4, seed: int = 0) -> ProvenCut:
    """Minimise the max-load over all contiguous cuts, and prove how good the result is.

    For graphs with too many downsets for :func:`downset_dp`. One Boolean says for each node and stage whether the node
    is in that stage or an earlier one, which a node can only be if all that it reads is; one for each stage and kind of
    device, which device runs the stage; one for each tensor and stage, whether the stage holds some but not all of what
    the tensor connects. Nodes are those of the contraction that :func:`downset_dp` starts from, and the best cut along
    one topological order is the first answer.

    Times are rounded down to ticks, so that the solver's bound holds for the problem itself; the max-load of the result
    is worked out afresh. A cut that is not proved optimal within the time depends on the machine's speed.

    Source: the model is the integer program of Tarnawski et al., NeurIPS 2020, section 5.2, with stages in
    order; the solver is that of Perron, Didier, Gay, CP 2023.

    Args:
        seconds: wall-clock limit of the solver [s].

    Raises:
        ConfigError: a limit, a number of workers or a seed that is out of range.
        MissingExtra: OR-Tools is not installed.
        ProblemError: no contiguous cut fits into memory, or none was found in the time.
    """
    check_limits("cp_sat_cut", seconds, workers, seed)
    cp = require("ortools.sat.python.cp_model", "exact", "cutting pipelines exactly")
    small = contract(problem)
    first, value = solve(problem, small, prefixes(small), math.inf)
    if first is not None and (problem.pools or problem.takes_turns.any()):
        placed = placement(relaxed(problem), small, first)
        first = first if respects_pools(problem, placed) else None
        value = math.inf if first is None else problem.max_load(placed)
    model = _Model(cp, problem, small, first, value)
    solver, outcome = search(cp, model.model, seconds, workers, seed)
    if outcome == cp.INFEASIBLE and first is None:
        raise ProblemError(f"pipeline {problem.name!r}: no contiguous cut fits into the devices' memory")
    bound = 0.0 if outcome == cp.INFEASIBLE else solver.best_objective_bound / model.ticks
    if outcome in (cp.OPTIMAL, cp.FEASIBLE):
        found = placement(problem, small, model.read(solver))
        if first is None or problem.max_load(found) < value:
            return _judged(problem, found, bound, model)
    if first is None:
        raise ProblemError(f"pipeline {problem.name!r}: no contiguous cut was found in {seconds:g} seconds")
    return _judged(problem, placement(problem, small, first), bound, model)


def _judged(problem: PipelineProblem, assignment: IntArray, bound: float, model: _Model) -> ProvenCut:
    reached = problem.max_load(assignment)
    bound = min(bound, reached)
    proved = reached <= bound * (1 + _SLACK) + model.terms / model.ticks
    return ProvenCut(assignment, reached, bound, "optimal" if proved else "feasible")


class _Model:
    """The constraint model of one problem."""

    def __init__(
        self, cp: Any, problem: PipelineProblem, small: Contraction, hint: list[NodeStage] | None, value: float
    ) -> None:
        self.model = model = cp.CpModel()
        usable = [t for t, kind in enumerate(problem.kinds) if kind.count]
        stages, m = problem.num_devices, len(small.members)
        possible = np.where(np.isfinite(small.cost), small.cost, 0.0)
        horizon = value if hint else float(possible.max(axis=1).sum()) + 2 * math.fsum(small.crossing.values())
        horizon += 0.0 if hint else math.fsum(kind.entry * kind.count for kind in problem.kinds)
        self.horizon = horizon
        self.ticks = float(2.0 ** np.floor(np.log2(RESOLUTION / horizon))) if horizon > 0 else 1.0
        self.terms = m + len(small.crossing)  # each rounded down by a tick at most
        self.by = [[model.new_bool_var(f"z{i},{s}") for s in range(stages - 1)] for i in range(m)]
        self.kind = [{t: model.new_bool_var(f"k{s},{t}") for t in usable} for s in range(stages)]
        load = model.new_int_var(0, self.down(horizon) + 1, "L")
        for s in range(stages):
            model.add_exactly_one(self.kind[s].values())
        for t in usable:
            model.add(sum(self.kind[s][t] for s in range(stages)) == problem.kinds[t].count)
        for i in range(m):
            for s in range(stages - 2):
                model.add_implication(self.by[i][s], self.by[i][s + 1])
            for j in range(m):
                if small.after[i] >> j & 1:
                    for s in range(stages - 1):
                        model.add_implication(self.by[j][s], self.by[i][s])
        inside = [[self.inside(i, s) for i in range(m)] for s in range(stages)]
        scale = 1.0
        if small.size.any():
            scale = float(2.0 ** np.floor(np.log2(2.0**50 / float(small.size.sum()))))  # whole bytes stay whole
        turns: list[Any] = []
        drawn: dict[str, list[Any]] = {kind.pool: [] for kind in problem.kinds if kind.pool}
        for s in range(stages):
            cut = self.cut(small, s, inside[s]) if any(problem.kinds[t].transfers for t in usable) else 0
            for t, here in self.kind[s].items():
                times = [self.down(possible[i, t]) for i in range(m)]
                work = model.new_int_var(0, sum(times), f"w{s},{t}")
                model.add(work == sum(time * x for time, x in zip(times, inside[s], strict=True)))
                busy = work + (cut if problem.kinds[t].transfers else 0)
                if problem.kinds[t].entry:
                    busy += self.down(problem.kinds[t].entry) * self.any_of(inside[s], f"e{s},{t}")
                model.add(load >= busy).only_enforce_if(here)
                if problem.kinds[t].turns:
                    turns.append(model.new_int_var(0, self.down(horizon) + 1, f"t{s},{t}"))
                    model.add(turns[-1] >= busy).only_enforce_if(here)
                for i in np.flatnonzero(~np.isfinite(small.cost[:, t])).tolist():
                    model.add(inside[s][i] == 0).only_enforce_if(here)
                if math.isfinite(problem.kinds[t].memory) and small.size.any():
                    held = sum(int(small.size[i] * scale) * inside[s][i] for i in range(m))
                    most = int(problem.kinds[t].memory * (1.0 + _SLACK) * scale)  # as PipelineProblem.check has it
                    model.add(held <= most).only_enforce_if(here)
                    if problem.kinds[t].pool:
                        part = model.new_int_var(0, most, f"p{s},{t}")
                        model.add(part >= held).only_enforce_if(here)
                        drawn[problem.kinds[t].pool].append(part)
        if turns:
            model.add(load >= sum(turns))
        for pool in problem.pools:
            parts = drawn[problem.kinds[problem.device_kind[pool.devices[0]]].pool]
            model.add(sum(parts) <= int(pool.capacity * (1.0 + _SLACK) * scale))
        model.minimize(load)
        self.hint(hint)

    def down(self, seconds: float) -> int:
        """Whole ticks; what is longer than the horizon is cut there, for it is forbidden anyway."""
        return int(min(seconds * (1.0 - _SLACK), 2.0 * self.horizon) * self.ticks)

    def any_of(self, parts: list[Any], name: str) -> Any:
        """A Boolean that is true if any of some Booleans is."""
        found = self.model.new_bool_var(name)
        for part in parts:
            self.model.add_implication(part, found)
        return found

    def inside(self, i: int, number: int) -> Any:
        """A Boolean: a node is in a stage."""
        here = self.model.new_bool_var(f"x{i},{number}")
        now = self.by[i][number] if number < len(self.by[i]) else 1
        self.model.add(here == now - (self.by[i][number - 1] if number else 0))
        return here

    def cut(self, small: Contraction, number: int, inside: list[Any]) -> Any:
        """Ticks that a stage pays for tensors that it holds in part."""
        paid = []
        for nodes, seconds in small.crossing.items():
            part = self.model.new_bool_var(f"y{nodes:x},{number}")
            touched = [i for i in range(len(inside)) if nodes >> i & 1]
            for i, j in zip(touched, [*touched[1:], touched[0]], strict=True):
                self.model.add(part >= inside[i] - inside[j])
            paid.append(self.down(seconds) * part)
        total = self.model.new_int_var(0, sum(map(self.down, small.crossing.values())), f"c{number}")
        self.model.add(total == sum(paid))
        return total

    def hint(self, cut: list[NodeStage] | None) -> None:
        """Start the search from a cut."""
        if cut is None:
            return
        seen = 0
        for number, stage in enumerate(self.kind):
            seen |= cut[number].nodes if number < len(cut) else 0
            for kind, here in stage.items():
                if number < len(cut):
                    self.model.add_hint(here, cut[number].kind == kind)
            for i, row in enumerate(self.by):
                if number < len(row):
                    self.model.add_hint(row[number], bool(seen >> i & 1))

    def read(self, solver: Any) -> list[NodeStage]:
        """The solver's stages that are not empty."""
        cut = []
        before = 0
        for number, stage in enumerate(self.kind):
            upto = sum(
                1 << i for i, row in enumerate(self.by) if number >= len(row) or solver.boolean_value(row[number])
            )
            if upto != before:
                kind = next(t for t, here in stage.items() if solver.boolean_value(here))
                cut.append(NodeStage(upto & ~before, kind))
            before = upto
        return cut
