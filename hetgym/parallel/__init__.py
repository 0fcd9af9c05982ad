"""Training steps on clusters: plans of stages, tensor and data degrees, their time and their memory.

A :class:`ParallelPlan` distributes the layers of a model over the GPUs of a :class:`Cluster`. :func:`training_step`
simulates it, given the times and sizes of the layers: measured ones (:class:`ProfiledLayers`), or those that cost
models predict for the operators of a transformer (:class:`TransformerLayers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.parallel.cluster import Cluster as Cluster
    from hetgym.parallel.cluster import Pool as Pool
    from hetgym.parallel.framework import FRAMEWORKS as FRAMEWORKS
    from hetgym.parallel.framework import Framework as Framework
    from hetgym.parallel.framework import framework_of as framework_of
    from hetgym.parallel.layers import LayerCosts as LayerCosts
    from hetgym.parallel.layers import Passes as Passes
    from hetgym.parallel.layers import ProfiledLayers as ProfiledLayers
    from hetgym.parallel.layers import Sizes as Sizes
    from hetgym.parallel.layers import SwitchedCosts as SwitchedCosts
    from hetgym.parallel.layers import switched as switched
    from hetgym.parallel.loading import cluster_names as cluster_names
    from hetgym.parallel.loading import load_cluster as load_cluster
    from hetgym.parallel.network import MeasuredNetwork as MeasuredNetwork
    from hetgym.parallel.network import Nccl as Nccl
    from hetgym.parallel.network import Network as Network
    from hetgym.parallel.network import Wire as Wire
    from hetgym.parallel.plan import Group as Group
    from hetgym.parallel.plan import ParallelPlan as ParallelPlan
    from hetgym.parallel.plan import Stage as Stage
    from hetgym.parallel.plan import load_plan as load_plan
    from hetgym.parallel.plan import uniform as uniform
    from hetgym.parallel.problem import Setting as Setting
    from hetgym.parallel.problem import TrainingProblem as TrainingProblem
    from hetgym.parallel.random_steps import RandomSteps as RandomSteps
    from hetgym.parallel.reduction import as_pipeline as as_pipeline
    from hetgym.parallel.reduction import plan_of as plan_of
    from hetgym.parallel.step import TrainingStep as TrainingStep
    from hetgym.parallel.step import gradient_all_reduce as gradient_all_reduce
    from hetgym.parallel.step import passing_bytes as passing_bytes
    from hetgym.parallel.step import shared_passes as shared_passes
    from hetgym.parallel.step import stage_memory as stage_memory
    from hetgym.parallel.step import training_step as training_step
    from hetgym.parallel.transformer import SIZES as SIZES
    from hetgym.parallel.transformer import TransformerLayers as TransformerLayers
    from hetgym.parallel.transformer import TransformerSize as TransformerSize

lazy(__name__)
