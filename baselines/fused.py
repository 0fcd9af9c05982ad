"""The plan of a compiler that does not schedule: fuse, then run all of it on the best single device."""

from dataclasses import replace

from hetgym.baselines.trivial import single_device
from hetgym.costs import CostModel
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms import fuse
from hetgym.planning.graph_plan import GraphPlan
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.sim import Runtime


def tvm_fusion(
    graph: DataflowGraph, platform: Platform, costs: str | CostModel = "auto", runtime: str | Runtime = "classic"
) -> GraphPlan:
    """Fuse as TVM does and run everything on the one device that is fastest then.

    Args:
        graph: graph of operators, not yet fused.

    Source: Chen et al., *TVM*, OSDI 2018, section 4.1.

    >>> from hetgym import load_graph, load_platform
    >>> plan = tvm_fusion(load_graph("resnet50"), load_platform("cpu-gpu"))
    >>> plan.graph, sorted(set(plan.schedule.assignment.tolist()))
    (DataflowGraph('resnet50', 58 operators, 73 edges), [1])
    """
    fused = fuse(graph).graph
    problem = Problem.build(fused, platform, costs)
    return GraphPlan(fused, problem, replace(single_device(problem, runtime), scheduler="tvm-fusion"))
