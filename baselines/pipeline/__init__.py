"""Cutting pipelines: functions from a PipelineProblem to the device of each operator, and their relatives.

:func:`plan_pipeline` takes one of ``PLANNERS``. ``PARTITIONERS`` holds those that return a device for each operator, by
name; :func:`cp_sat_cut` also proves a bound, :func:`pipedream` replicates stages, :func:`annealed_cut` cuts for any
objective and schedule, :func:`linked_dp` knows the link between every two devices,
:func:`optimum` gives the least value of a cut along one order, :func:`time_slices` and
:func:`wavefront` are for recurrent networks.
"""

from hetgym.baselines.pipeline.annealing import annealed_cut
from hetgym.baselines.pipeline.contiguous import contiguous_dp, equal_cut
from hetgym.baselines.pipeline.downset import downset_dp
from hetgym.baselines.pipeline.even import even_cut
from hetgym.baselines.pipeline.exact import ProvenCut, cp_sat_cut
from hetgym.baselines.pipeline.linked import linked_dp
from hetgym.baselines.pipeline.optima import optimum
from hetgym.baselines.pipeline.pipedream import ReplicatedPlan, ReplicatedStage, pipedream
from hetgym.baselines.pipeline.planning import PARTITIONERS, PLANNERS, plan_pipeline
from hetgym.baselines.pipeline.recurrent import time_slices, wavefront

__all__ = [
    "PARTITIONERS",
    "PLANNERS",
    "ProvenCut",
    "ReplicatedPlan",
    "ReplicatedStage",
    "annealed_cut",
    "contiguous_dp",
    "cp_sat_cut",
    "downset_dp",
    "equal_cut",
    "even_cut",
    "linked_dp",
    "optimum",
    "pipedream",
    "plan_pipeline",
    "time_slices",
    "wavefront",
]
