"""Sharding: every operator on all devices of a mesh, each on its part of the tensors.

A :class:`ShardingProblem` has a list of strategies for each operator, prices for them and for every pair that meets on
an edge, and a limit of memory over time. :func:`solve` chooses among them. :func:`build` makes a problem of a graph and
a :class:`Mesh`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.sharding.axis_by_axis import axis_by_axis as axis_by_axis
    from hetgym.sharding.building import build as build
    from hetgym.sharding.classical import data_parallel as data_parallel
    from hetgym.sharding.classical import megatron as megatron
    from hetgym.sharding.evaluation import ShardingReport as ShardingReport
    from hetgym.sharding.evaluation import evaluate as evaluate
    from hetgym.sharding.loading import load as load
    from hetgym.sharding.loading import save as save
    from hetgym.sharding.mesh import Mesh as Mesh
    from hetgym.sharding.placement import Entry as Entry
    from hetgym.sharding.placement import P as P
    from hetgym.sharding.placement import Placement as Placement
    from hetgym.sharding.placement import R as R
    from hetgym.sharding.placement import S as S
    from hetgym.sharding.placement import local_bytes as local_bytes
    from hetgym.sharding.placement import local_shape as local_shape
    from hetgym.sharding.planning import CLASSICAL as CLASSICAL
    from hetgym.sharding.planning import ShardedPlan as ShardedPlan
    from hetgym.sharding.planning import plan_sharding as plan_sharding
    from hetgym.sharding.planning import shapes as shapes
    from hetgym.sharding.problem import INFINITE as INFINITE
    from hetgym.sharding.problem import ShardingProblem as ShardingProblem
    from hetgym.sharding.reduction import Reduced as Reduced
    from hetgym.sharding.reduction import reduce as reduce
    from hetgym.sharding.resharding import Step as Step
    from hetgym.sharding.resharding import resharding as resharding
    from hetgym.sharding.sharded_graph import Node as Node
    from hetgym.sharding.sharded_graph import ShardedGraph as ShardedGraph
    from hetgym.sharding.solvers.registry import SOLVERS as SOLVERS
    from hetgym.sharding.solvers.registry import Solver as Solver
    from hetgym.sharding.solvers.solving import ShardingPlan as ShardingPlan
    from hetgym.sharding.solvers.solving import solve as solve
    from hetgym.sharding.strategies import Strategy as Strategy
    from hetgym.sharding.strategies import local_operator as local_operator
    from hetgym.sharding.strategies import strategies as strategies
    from hetgym.sharding.validation import validate as validate

lazy(__name__)
