"""Branch and bound on the linear program of a sharding problem; rows for memory are added where it runs out.

The program has a variable for each strategy and each allowed pair. Of the thousands of times only those enter at which
a solution takes too much, the worst first (Dantzig, Fulkerson & Johnson, Operations Research 2, 1954). HiGHS solves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.errors import require
from hetgym.sharding.reduction import Reduced
from hetgym.sharding.reduction.core import FORBIDDEN
from hetgym.sharding.solvers.ascent import new_ascent
from hetgym.sharding.solvers.incumbent import CLOSE, Incumbent
from hetgym.sharding.solvers.model import model_of
from hetgym.sharding.solvers.sweeps import backward, forward

ROWS = 40  # Most rows for memory that are added after a solution
GAP = CLOSE / 2  # Share of the cost up to which branch and bound proves a solution
SCALE = 1e6  # The program's costs are scaled so that they add up to about this
SWEEPS = 5  # Sweeps of TRW-S for a first idea of that sum


def mip(incumbent: Incumbent, rng: np.random.Generator) -> Iterator[None]:
    """Solve the relaxation, then branch and bound; each step solves the program once and adds rows."""
    program = Program(incumbent)
    while program.run() and program.cut():
        yield
    if not incumbent.over:
        yield
        program.integral()
        while program.run() and program.cut():
            yield


def _rough_bound(reduced: Reduced) -> float:
    """The bound of a few sweeps without prices."""
    model = model_of(reduced)
    ascent = new_ascent(model)
    for _ in range(SWEEPS):
        forward(model, model.costs, ascent.messages, ascent.choice, ascent.scratch)
        bound = backward(model, model.costs, ascent.messages, ascent.scratch)
    return float(bound)


class Program:
    """The linear program of an incumbent's reduced problem."""

    def __init__(self, incumbent: Incumbent) -> None:
        self._highspy = require("highspy", "exact", "mip")
        self.incumbent, self.reduced = incumbent, incumbent.reduced
        core = self.reduced.core
        self.strategies = len(core.costs)
        self.rows: set[int] = set()  # times that have a row
        self.whole = False  # True once strategies are integer variables
        self.highs = self._highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        for interrupt in (self.highs.cbSimplexInterrupt, self.highs.cbIpmInterrupt, self.highs.cbMipInterrupt):
            interrupt.subscribe(self._watch)
        self.highs.cbMipSolution.subscribe(self._solution)
        for name, value in (("threads", 1), ("mip_rel_gap", GAP), ("random_seed", 0)):
            self.highs.setOptionValue(name, value)
        allowed = core.tables < FORBIDDEN
        costs = np.concatenate([core.costs, core.tables[allowed]]).astype(np.float64)
        self.scale = SCALE / max(1.0, abs(_rough_bound(self.reduced)))
        self._pass(costs * self.scale, allowed)

    def _pass(self, costs: FloatArray, allowed: BoolArray) -> None:
        core = self.reduced.core
        strategies, n, m = self.strategies, core.nodes, len(core.ends)
        widths = np.diff(core.offsets)
        sizes = np.diff(core.table_offsets)
        edge = np.repeat(np.arange(m), sizes)[allowed]
        at = (np.arange(len(core.tables)) - np.repeat(core.table_offsets[:-1], sizes))[allowed]
        columns = widths[core.ends[:, 1]][edge]
        sides = np.concatenate([[0], np.cumsum(widths[core.ends].reshape(-1))])
        row_first = n + sides[2 * edge] + at // columns
        row_second = n + sides[2 * edge + 1] + at % columns
        pairs = strategies + np.arange(len(edge))
        # Rows: one strategy for each node; and for each edge and strategy of either node, its pairs add up to it.
        side = np.repeat(np.arange(2 * m), np.diff(sides))
        node = core.ends.reshape(-1)[side]
        strategy = core.offsets[node] + np.arange(sides[-1]) - sides[side]
        rows = np.concatenate([np.repeat(np.arange(n), widths), n + np.arange(sides[-1]), row_first, row_second])
        variables = np.concatenate([np.arange(strategies), strategy, pairs, pairs])
        values = np.concatenate([np.ones(strategies), -np.ones(sides[-1]), np.ones(2 * len(pairs))])
        order = np.lexsort((rows, variables))
        program = self._highspy.HighsLp()
        program.num_col_, program.num_row_ = len(costs), n + int(sides[-1])
        program.col_cost_ = costs
        program.col_lower_, program.col_upper_ = np.zeros(len(costs)), np.ones(len(costs))
        right = np.concatenate([np.ones(n), np.zeros(sides[-1])])
        program.row_lower_, program.row_upper_ = right, right
        program.a_matrix_.format_ = self._highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.searchsorted(variables[order], np.arange(len(costs) + 1)).astype(np.int32)
        program.a_matrix_.index_ = rows[order].astype(np.int32)
        program.a_matrix_.value_ = values[order]
        self.highs.passModel(program)
        memory = self.reduced.memory
        # For each usage of a strategy in a row of memory, the row and the strategy.
        self.row = np.repeat(np.arange(len(memory.begins)), np.diff(memory.usage_offsets))
        owner = np.repeat(np.arange(n), np.diff(memory.offsets))[self.row]
        self.strategy = core.offsets[owner] + np.arange(len(memory.usages)) - memory.usage_offsets[self.row]

    def integral(self) -> None:
        """Make the strategies integer variables; pairs follow from them."""
        whole = np.arange(self.strategies, dtype=np.int32)
        kinds = np.full(self.strategies, self._highspy.HighsVarType.kInteger)
        self.highs.changeColsIntegrality(self.strategies, whole, kinds)
        self.whole = True

    def run(self) -> bool:
        """Solve the program with the rows that it has; False if time is up."""
        if self.incumbent.over:
            return False
        if self.incumbent.seconds is not None:
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + self.incumbent.left)
        self.highs.run()
        return True

    def cut(self) -> bool:
        """Take the bound and the solution, and add rows where it needs too much memory; False if it does nowhere."""
        status, kinds = self.highs.getModelStatus(), self._highspy.HighsModelStatus
        info = self.highs.getInfo()
        if self.whole:
            self.incumbent.prove(info.mip_dual_bound / self.scale, "mip")
        elif status == kinds.kOptimal:
            self.incumbent.prove(info.objective_function_value / self.scale, "mip")
        values = np.asarray(self.highs.getSolution().col_value)[: self.strategies]
        if not len(values) or info.primal_solution_status != self._highspy.SolutionStatus.kSolutionStatusFeasible:
            return False
        if self.whole:
            choice = self._choice(values)
            self.incumbent.offer(choice, "mip")
            values = np.zeros(self.strategies)
            values[self.reduced.core.offsets[:-1] + choice] = 1.0
        return self._add_rows(values)

    def _watch(self, event: Any) -> None:
        """End the solver once the incumbent is over. Bounds of events are no bounds: some are those of sub-problems."""
        if self.incumbent.ended or self.incumbent.gap <= GAP:
            event.interrupt()

    def _solution(self, event: Any) -> None:
        """Take a solution of branch and bound, if memory suffices."""
        self.incumbent.offer(self._choice(np.asarray(event.data_out.mip_solution)[: self.strategies]), "mip")

    def _choice(self, values: FloatArray) -> Int64Array:
        offsets = self.reduced.core.offsets
        return np.array([values[low:high].argmax() for low, high in pairwise(offsets.tolist())], np.int64)

    def _add_rows(self, values: FloatArray) -> bool:
        """Add rows at the worst times; False if there are none."""
        memory, limit = self.reduced.memory, float(self.reduced.problem.limit or 1)
        share = np.bincount(self.row, memory.usages * values[self.strategy], len(memory.begins))
        changes = np.bincount(memory.begins, share, memory.times + 1) - np.bincount(
            memory.ends, share, memory.times + 1
        )
        over = np.cumsum(changes)[: memory.times] - memory.slack
        high = np.concatenate([[-np.inf], over, [-np.inf]])
        peak = (over > 1e-6 * limit) & (high[1:-1] >= high[:-2]) & (high[1:-1] > high[2:])
        peaks = np.flatnonzero(peak)
        chosen = [t for t in peaks[np.argsort(-over[peaks], kind="stable")].tolist() if t not in self.rows][:ROWS]
        for t in chosen:
            self.rows.add(t)
            live = (memory.begins[self.row] <= t) & (memory.ends[self.row] > t) & (memory.usages > 0)
            amount = np.bincount(self.strategy[live], memory.usages[live] / limit, self.strategies)
            index = np.flatnonzero(amount).astype(np.int32)
            self.highs.addRow(-self._highspy.kHighsInf, memory.slack[t] / limit, len(index), index, amount[index])
        return bool(chosen)
