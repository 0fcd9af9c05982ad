"""Pipelines: problems that are cut into stages, schedules of the stages' passes, and the values of cuts.

- Problems come from several sources: :func:`pipeline` and :func:`training_pipeline` price the :func:`blocks` of a graph
  on a platform, :func:`load` and :func:`load_layers` read files, :class:`RandomChains` draws random ones, and
  :class:`PipelineProblem` and :class:`TrainingPipeline` take arrays.
- A cut is a list of :class:`Stage`; :func:`cut_problem` prices cuts for an :class:`Objective`. Methods that find good
  cuts are in :mod:`hetgym.baselines.pipeline`.
- A schedule (:data:`SCHEDULES`, :func:`orders`) is the order in which each stage runs its passes. :func:`makespan`
  returns the time it takes, :func:`peak_activations` the memory it needs. :func:`run` simulates it, and :func:`unroll`
  makes a :class:`hetgym.Problem` for any other runtime. :class:`FlowShop` is a pipeline of forward passes only.
"""

from hetgym.pipeline.blocking import BLOCKS, blocks
from hetgym.pipeline.building import pipeline, training_pipeline
from hetgym.pipeline.cuts import Cut, CutProblem, CutValue, Stage
from hetgym.pipeline.evaluation import makespan
from hetgym.pipeline.flow_shop import FlowShop
from hetgym.pipeline.layers import LayerTable, load_layers
from hetgym.pipeline.loading import load
from hetgym.pipeline.objective import OBJECTIVES, Objective
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.random_chains import RandomChains
from hetgym.pipeline.reference import cut_problem
from hetgym.pipeline.schedules import SCHEDULES, Orders, Pass, orders, peak_activations
from hetgym.pipeline.training import TrainingPipeline
from hetgym.pipeline.unrolling import run, unroll

__all__ = [
    "BLOCKS",
    "OBJECTIVES",
    "SCHEDULES",
    "Cut",
    "CutProblem",
    "CutValue",
    "DeviceKind",
    "FlowShop",
    "LayerTable",
    "Objective",
    "Orders",
    "Pass",
    "PipelineProblem",
    "RandomChains",
    "Stage",
    "TrainingPipeline",
    "blocks",
    "cut_problem",
    "load",
    "load_layers",
    "makespan",
    "orders",
    "peak_activations",
    "pipeline",
    "run",
    "training_pipeline",
    "unroll",
]
