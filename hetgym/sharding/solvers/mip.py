"""Branch and bound on the linear program of a sharding problem; rows for memory are added where it runs out.

The program has a variable for each strategy and each allowed pair. Of the thousands of times only those enter at which
a solution takes too much, the worst first (Dantzig, Fulkerson & Johnson, Operations Research 2, 1954). HiGHS solves it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np

from hetgym._types import FloatArray, Int64Array
from hetgym.errors import require
from hetgym.sharding.reduction import Reduced
from hetgym.sharding.reduction.core import FORBIDDEN

ROWS = 40  # Most rows for memory that are added after a solution
GAP = 1e-4  # Share of the cost up to which branch and bound proves a solution
SCALE = 1e6  # The program's costs are scaled to about this sum

Found = Callable[[Int64Array, float], None]  # Takes a choice of the reduced problem that fits, or None, and a bound


class Program:
    """The linear program.

    Args:
        reduced: the problem.
        seconds: time after which it stops [s].
        found: takes each solution that fits, and each bound.
    """

    def __init__(self, reduced: Reduced, seconds: float, found: Found) -> None:
        self._highspy = require("highspy", "exact", "mip")
        self.reduced, self.found = reduced, found
        self.end = monotonic() + seconds
        core = reduced.core
        self.strategies = len(core.costs)
        self.rows: set[int] = set()  # times that have a row
        allowed = core.tables < FORBIDDEN
        self.highs = self._highspy.Highs()
        self.highs.silent()
        for name, value in (("threads", 1), ("mip_rel_gap", GAP), ("random_seed", 0)):
            self.highs.setOptionValue(name, value)
        costs = np.concatenate([core.costs, core.tables[allowed]]).astype(np.float64)
        spread = np.abs(costs[: self.strategies]).sum() + costs[self.strategies :].sum()
        self.scale = SCALE * max(1, core.nodes) / spread if spread > 0 else 1.0
        self._pass(costs * self.scale, allowed)

    def _pass(self, costs: FloatArray, allowed: npt.NDArray[np.bool_]) -> None:
        core = self.reduced.core
        strategies, n, m = self.strategies, core.nodes, len(core.ends)
        widths = np.diff(core.offsets)
        sizes = np.diff(core.table_offsets)
        edge = np.repeat(np.arange(m), sizes)[allowed]
        at = (np.arange(len(core.tables)) - np.repeat(core.table_offsets[:-1], sizes))[allowed]
        columns = widths[core.ends[:, 1]][edge]
        first, second = core.ends[edge, 0], core.ends[edge, 1]
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

    def solve(self) -> None:
        """Solve the relaxation, then branch and bound."""
        while self._run() and self._cut():
            pass
        if monotonic() >= self.end:
            return
        whole = np.arange(self.strategies, dtype=np.int32)
        kinds = np.full(self.strategies, self._highspy.HighsVarType.kInteger)
        self.highs.changeColsIntegrality(self.strategies, whole, kinds)
        while self._run() and self._cut():
            pass

    def _run(self) -> bool:
        """Solve the program with the rows that it has; false if time is up."""
        left = self.end - monotonic()
        if left <= 0:
            return False
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
        self.highs.run()
        return True

    def _cut(self) -> bool:
        """Add rows where the solution takes too much memory; false if it fits or there is none."""
        info = self.highs.getInfo()
        solution = np.asarray(self.highs.getSolution().col_value)[: self.strategies]
        memory = self.reduced.memory
        print(self.highs.getModelStatus(), info.objective_function_value / self.scale, info.mip_dual_bound / self.scale, len(self.rows), monotonic())
        if not len(solution):
            return False
        weights = np.repeat(np.arange(len(memory.begins)), np.diff(memory.usage_offsets))
        owner = np.repeat(np.arange(self.reduced.core.nodes), np.diff(memory.offsets))
        strategy = self.reduced.core.offsets[owner[weights]] + np.arange(len(memory.usages)) - memory.usage_offsets[weights]
        share = np.bincount(weights, memory.usages * solution[strategy], len(memory.begins))
        used = np.cumsum(
            np.bincount(memory.begins, share, memory.times + 1) - np.bincount(memory.ends, share, memory.times + 1)
        )[: memory.times]
        limit = float(self.reduced.problem.limit or 1)
        over = used - memory.slack
        peaks = np.flatnonzero(over > 1e-6 * limit)
        peaks = np.array([t for t in peaks if (t == 0 or over[t - 1] <= over[t]) and (t + 1 == len(over) or over[t + 1] < over[t])], np.int64)
        chosen = [t for t in peaks[np.argsort(-over[peaks], kind="stable")][:ROWS] if t not in self.rows]
        for t in chosen:
            self.rows.add(int(t))
            live = (memory.begins[weights] <= t) & (memory.ends[weights] > t) & (memory.usages > 0)
            amount = np.bincount(strategy[live], memory.usages[live] / limit, self.strategies)
            index = np.flatnonzero(amount).astype(np.int32)
            self.highs.addRow(-self._highspy.kHighsInf, memory.slack[t] / limit, len(index), index, amount[index])
        return bool(chosen)
