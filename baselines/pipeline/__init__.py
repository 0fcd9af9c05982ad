"""Cutting pipelines: functions from a PipelineProblem to the device of each operator, and their relatives.

``PARTITIONERS`` holds those that return a device for each operator, by name; :func:`cp_sat_cut` also
proves a bound, :func:`pipedream` replicates stages, :func:`annealed_cut` cuts for any objective and schedule,
:func:`optimum` gives the least value of a cut along one order, :func:`time_slices` and :func:`wavefront` are for
recurrent networks.
"""

from collections.abc import Callable

from hetgym._types import IntArray
from hetgym.baselines.pipeline.annealing import annealed_cut
from hetgym.baselines.pipeline.contiguous import contiguous_dp, equal_cut
from hetgym.baselines.pipeline.downset import downset_dp
from hetgym.baselines.pipeline.exact import ProvenCut, cp_sat_cut
from hetgym.baselines.pipeline.optima import optimum
from hetgym.baselines.pipeline.pipedream import ReplicatedPlan, ReplicatedStage, pipedream
from hetgym.baselines.pipeline.recurrent import time_slices, wavefront
from hetgym.pipeline.problem import PipelineProblem

PARTITIONERS: dict[str, Callable[[PipelineProblem], IntArray]] = {
    "equal-cut": equal_cut,
    "contiguous-dp": contiguous_dp,
    "downset-dp": downset_dp,
}

__all__ = [
    "PARTITIONERS",
    "ProvenCut",
    "ReplicatedPlan",
    "ReplicatedStage",
    "annealed_cut",
    "contiguous_dp",
    "cp_sat_cut",
    "downset_dp",
    "equal_cut",
    "optimum",
    "pipedream",
    "time_slices",
    "wavefront",
]
