"""Pipelines: problems that are cut into stages, and the orders in which stages work on micro-batches."""

from hetgym.pipeline.loading import load
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.schedules import SCHEDULES, Orders, Pass, orders, peak_activations, run, unroll

__all__ = [
    "SCHEDULES", "DeviceKind", "Orders", "Pass", "PipelineProblem", "load", "orders", "peak_activations", "run",
    "unroll",
]  # fmt: skip
