"""Training steps on clusters: plans of stages, tensor and data degrees, their time and their memory.

A :class:`ParallelPlan` distributes the layers of a model over the GPUs of a :class:`Cluster`. :func:`training_step`
simulates it, given the times and sizes of the layers: measured ones (:class:`ProfiledLayers`), or those that cost
models predict for the operators of a transformer (:class:`TransformerLayers`).
"""

from hetgym.parallel.cluster import Cluster, Pool
from hetgym.parallel.framework import FRAMEWORKS, Framework, framework_of
from hetgym.parallel.layers import LayerCosts, Passes, ProfiledLayers, Sizes, SwitchedCosts, switched
from hetgym.parallel.loading import cluster_names, load_cluster
from hetgym.parallel.network import MeasuredNetwork, Nccl, Network, Wire
from hetgym.parallel.plan import Group, ParallelPlan, Stage, load_plan, uniform
from hetgym.parallel.problem import Setting, TrainingProblem
from hetgym.parallel.random_steps import RandomSteps
from hetgym.parallel.reduction import as_pipeline, plan_of
from hetgym.parallel.step import (
    TrainingStep,
    gradient_all_reduce,
    passing_bytes,
    shared_passes,
    stage_memory,
    training_step,
)
from hetgym.parallel.transformer import SIZES, TransformerLayers, TransformerSize

__all__ = [
    "FRAMEWORKS",
    "SIZES",
    "Cluster",
    "Framework",
    "Group",
    "LayerCosts",
    "MeasuredNetwork",
    "Nccl",
    "Network",
    "ParallelPlan",
    "Passes",
    "Pool",
    "ProfiledLayers",
    "RandomSteps",
    "Setting",
    "Sizes",
    "Stage",
    "SwitchedCosts",
    "TrainingProblem",
    "TrainingStep",
    "TransformerLayers",
    "TransformerSize",
    "Wire",
    "as_pipeline",
    "cluster_names",
    "framework_of",
    "gradient_all_reduce",
    "load_cluster",
    "load_plan",
    "passing_bytes",
    "plan_of",
    "shared_passes",
    "stage_memory",
    "switched",
    "training_step",
    "uniform",
]
