"""Cutting pipelines: functions from a PipelineProblem to the device of each operator."""

from hetgym.baselines.pipeline.downset import downset_dp

__all__ = ["downset_dp"]
