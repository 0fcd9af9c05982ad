"""Sharding: every operator on all devices of a mesh, each on its part of the tensors.

A :class:`ShardingProblem` has a list of strategies for each operator, prices for them and for every pair that meets on
an edge, and a limit of memory over time. :func:`solve` chooses among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.sharding.evaluation import ShardingReport as ShardingReport
    from hetgym.sharding.evaluation import evaluate as evaluate
    from hetgym.sharding.loading import load as load
    from hetgym.sharding.loading import save as save
    from hetgym.sharding.problem import INFINITE as INFINITE
    from hetgym.sharding.problem import ShardingProblem as ShardingProblem
    from hetgym.sharding.reduction import Reduced as Reduced
    from hetgym.sharding.reduction import reduce as reduce
    from hetgym.sharding.solvers.registry import SOLVERS as SOLVERS
    from hetgym.sharding.solvers.registry import Solver as Solver
    from hetgym.sharding.solvers.solving import ShardingPlan as ShardingPlan
    from hetgym.sharding.solvers.solving import solve as solve
    from hetgym.sharding.validation import validate as validate

lazy(__name__)
