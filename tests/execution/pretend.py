"""An executor in plain Python that knows its costs: what calibration must recover and prediction repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.execution.calibration import first_remote_reads
from hetgym.execution.cluster import Loaded
from hetgym.execution.running import Execution
from hetgym.execution.work import bare_problem
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.schedule import Schedule


def random_graph(n: int, rng: np.random.Generator) -> DataflowGraph:
    """Operators of one output that read up to three earlier ones."""
    outputs = [Tensor((int(rng.integers(1, 5000)),)) for _ in range(n)]
    operators, edges = [], []
    for i in range(n):
        sources = sorted(set(rng.integers(0, i, 3).tolist())) if i else []
        operators.append(Operator(f"o{i}", "Relu", tuple(outputs[s] for s in sources), (outputs[i],)))
        edges += [(s, 0, i) for s in sources]
    return DataflowGraph(operators, edges, "random")


@dataclass
class Pretender:
    """A machine whose costs are known.

    Attributes:
        local: [n, d] run times [s].
        slower: [d, 2] an operator with remote inputs: fixed, and for each remote byte [s].
        publish: [d, 2] writing a tensor: fixed, and for each byte [s].
        dispatch: [d] before every operator [s].
        lag: until a reader notices [s].
    """

    graph: DataflowGraph
    local: FloatArray
    slower: FloatArray
    publish: FloatArray
    dispatch: FloatArray
    lag: float

    def run(self, schedule: Schedule, rounds: int = 1) -> Execution:
        n, d = self.local.shape
        problem = bare_problem(self.graph, tuple(f"w{k}" for k in range(d)))
        order = schedule.device_order(problem)
        where = schedule.assignment
        first = first_remote_reads(problem, where, order)
        start, finish, free = np.zeros(n), np.zeros(n), np.zeros(d)
        sent, arrived = np.zeros(problem.num_edges), np.zeros(problem.num_edges)
        heads = [list(row) for row in order]
        done: set[int] = set()
        while any(heads):
            for k in range(d):
                if not heads[k] or not done.issuperset(
                    problem.edge_source[problem.edge_target == heads[k][0]].tolist()
                ):
                    continue
                i = int(heads[k].pop(0))
                incoming = np.flatnonzero(problem.edge_target == i)
                ready = [arrived[e] + (self.lag if where[problem.edge_source[e]] != k else 0) for e in incoming]
                start[i] = max([free[k], *ready]) + self.dispatch[k]
                remote = sum(float(problem.edge_bytes[e]) for e in incoming if first[e])
                slower = self.slower[k, 0] + self.slower[k, 1] * remote if remote else 0.0
                finish[i] = start[i] + self.local[i, k] + slower
                outgoing = np.flatnonzero(problem.edge_source == i)
                away = [e for e in outgoing if where[problem.edge_target[e]] != k]
                cost = self.publish[k, 0] + self.publish[k, 1] * problem.edge_bytes[away[0]] if away else 0.0
                for e in outgoing:
                    sent[e], arrived[e] = finish[i], finish[i] + (cost if e in away else 0.0)
                free[k] = finish[i] + cost
                done.add(i)
        loaded = Loaded(1, schedule, order)
        stacked = [np.repeat(part[None], rounds, 0) for part in (start, finish, sent, arrived)]
        return Execution(problem, schedule, loaded, *stacked)
