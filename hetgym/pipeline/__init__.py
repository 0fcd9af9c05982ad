"""Pipelines: problems that are cut into stages, and the orders in which stages work on micro-batches."""

from hetgym.pipeline.building import BLOCKS, blocks, pipeline, training_pipeline
from hetgym.pipeline.loading import load
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.random_chains import RandomChains
from hetgym.pipeline.schedules import SCHEDULES, Orders, Pass, orders, peak_activations, run, unroll
from hetgym.pipeline.training import TrainingPipeline

__all__ = [
    "BLOCKS", "SCHEDULES", "DeviceKind", "Orders", "Pass", "PipelineProblem", "RandomChains", "TrainingPipeline",
    "blocks", "load", "orders", "peak_activations", "pipeline", "run", "training_pipeline", "unroll",
]  # fmt: skip
