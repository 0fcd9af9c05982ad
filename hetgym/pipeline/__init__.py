"""Pipelines: problems that are cut into stages, schedules of the stages' passes, and the values of cuts.

- Problems come from several sources: :func:`pipeline` and :func:`training_pipeline` price the :func:`blocks` of a graph
  on a platform, :func:`load` and :func:`load_layers` read files, :class:`RandomChains` draws random ones, and
  :class:`PipelineProblem` and :class:`TrainingPipeline` take arrays.
- A :class:`LayerChain`, from :func:`layer_chain` or :func:`load_layers`, also knows the link between every two devices.
- A cut is a list of :class:`Stage`; :func:`cut_problem` prices cuts for an :class:`Objective`. Methods that find good
  cuts are in :mod:`hetgym.baselines.pipeline`.
- A schedule (:data:`SCHEDULES`, :func:`orders`) is the order in which each stage runs its passes. :func:`makespan`
  returns the time it takes, :func:`peak_activations` the memory it needs. :func:`run` simulates it, and :func:`unroll`
  makes a :class:`hetgym.Problem` for any other runtime. :class:`FlowShop` is a pipeline of forward passes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.pipeline.blocking import BLOCKS as BLOCKS
    from hetgym.pipeline.blocking import blocks as blocks
    from hetgym.pipeline.building import layer_chain as layer_chain
    from hetgym.pipeline.building import pipeline as pipeline
    from hetgym.pipeline.building import training_pipeline as training_pipeline
    from hetgym.pipeline.chain import LayerChain as LayerChain
    from hetgym.pipeline.cuts import Cut as Cut
    from hetgym.pipeline.cuts import CutProblem as CutProblem
    from hetgym.pipeline.cuts import CutValue as CutValue
    from hetgym.pipeline.cuts import Stage as Stage
    from hetgym.pipeline.evaluation import makespan as makespan
    from hetgym.pipeline.flow_shop import FlowShop as FlowShop
    from hetgym.pipeline.layers import LayerTable as LayerTable
    from hetgym.pipeline.layers import load_layers as load_layers
    from hetgym.pipeline.loading import load as load
    from hetgym.pipeline.objective import OBJECTIVES as OBJECTIVES
    from hetgym.pipeline.objective import Objective as Objective
    from hetgym.pipeline.problem import DeviceKind as DeviceKind
    from hetgym.pipeline.problem import PipelineProblem as PipelineProblem
    from hetgym.pipeline.random_chains import RandomChains as RandomChains
    from hetgym.pipeline.reference import cut_problem as cut_problem
    from hetgym.pipeline.schedules import SCHEDULES as SCHEDULES
    from hetgym.pipeline.schedules import Orders as Orders
    from hetgym.pipeline.schedules import Pass as Pass
    from hetgym.pipeline.schedules import orders as orders
    from hetgym.pipeline.schedules import peak_activations as peak_activations
    from hetgym.pipeline.training import TrainingPipeline as TrainingPipeline
    from hetgym.pipeline.unrolling import run as run
    from hetgym.pipeline.unrolling import unroll as unroll

lazy(__name__)
