"""Pipelines: problems that are cut into stages, and the orders in which stages work on micro-batches."""

from hetgym.pipeline.loading import load
from hetgym.pipeline.problem import DeviceKind, PipelineProblem

__all__ = ["DeviceKind", "PipelineProblem", "load"]
