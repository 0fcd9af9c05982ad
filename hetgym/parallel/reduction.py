"""Training problems as pipelines to cut: one data degree, one micro-batch, one tensor degree for each pool."""

from collections.abc import Mapping, Sequence

import numpy as np

from hetgym.errors import ConfigError
from hetgym.parallel.plan import Group, ParallelPlan, Stage
from hetgym.parallel.problem import TrainingProblem
from hetgym.parallel.step import passing_bytes
from hetgym.pipeline import DeviceKind, PipelineProblem, TrainingPipeline
from hetgym.pipeline import Stage as Piece


def as_pipeline(problem: TrainingProblem, data: int, micro_batch: int, tensors: Mapping[str, int]) -> TrainingPipeline:
    """The pipeline that remains once degrees are chosen, for ``HetPipeline-v0`` and methods that cut pipelines.

    Every device is a group of GPUs that holds one replica of a stage. Gradients' all-reduce and the optimizer are not
    part of the pipeline. Memory is that of all GPUs of a group, and a layer takes there what all of them keep: a tensor
    that is not split is kept by each. A layer takes the same on all devices: the most over the tensor degrees.
    Passes take for a moment what the largest layer needs. A cut that fits also fits as a plan.

    Args:
        tensors: pool -> tensor degree; pools that are left out take no stage.

    Raises:
        ConfigError: the global batch is not a multiple, a pool has too few GPUs, or times or sizes are not known.
        UnknownName: no such pool.

    >>> from hetgym.parallel import SIZES, TransformerLayers, load_cluster
    >>> cluster = load_cluster("dgx-a100-64")
    >>> problem = TrainingProblem(TransformerLayers(SIZES["llama-7b"], cluster), cluster, 512)
    >>> as_pipeline(problem, 32, 1, {"a100": 2}).problem
    PipelineProblem('512 samples, 32 replicas, micro-batch 1', 34 operators, 33 edges, 8 devices)
    """
    if problem.global_batch % (data * micro_batch):
        raise ConfigError(
            f"a global batch of {problem.global_batch} is not a multiple of {data} replicas times a micro-batch of "
            f"{micro_batch}"
        )
    kinds, forward, backward = [], [], []
    state, stash = np.zeros(problem.costs.layers), np.zeros(problem.costs.layers)
    whole = problem.costs.sizes(1) or problem.costs.sizes(min(tensors.values(), default=1))
    transfer = np.zeros(problem.costs.layers)
    for name, tensor in tensors.items():
        pool = problem.cluster[name]
        passes, sizes = problem.costs.passes(name, tensor, micro_batch), problem.costs.sizes(tensor)
        count = pool.groups(tensor) // data
        if passes is None or sizes is None or whole is None or not count:
            raise ConfigError(f"pool {name!r}: no {data} groups of {tensor} GPUs, or no times for them")
        once = float(passing_bytes(sizes, problem.framework, micro_batch).max())
        room = problem.framework.room(pool.device) - once
        state = np.maximum(state, tensor * sizes.parameters * problem.framework.state(data))
        stash = np.maximum(stash, tensor * sizes.stash * micro_batch)
        kinds.append(DeviceKind(name, min(count, 1024), max(0.0, tensor * room)))
        forward.append(passes.forward)
        backward.append(passes.backward / 2.0)
        moved = whole.boundary * micro_batch / (tensor if problem.framework.scatter else 1)
        transfer = np.maximum(transfer, [pool.network.send(size, 2) for size in moved.tolist()])
    if not kinds or whole is None:
        raise ConfigError("no pool has a tensor degree")
    name = f"{problem.global_batch} samples, {data} replicas, micro-batch {micro_batch}"
    chain = PipelineProblem.chain(np.stack(forward, axis=1), kinds, transfer, name=name)
    half = np.stack(backward, axis=1)
    return TrainingPipeline(chain, half, half, stash=stash, state=state)


def plan_of(
    problem: TrainingProblem, cut: Sequence[Piece], data: int, micro_batch: int, tensors: Mapping[str, int]
) -> ParallelPlan:
    """The plan that a cut of :func:`as_pipeline` stands for.

    Args:
        cut: stages on devices, which are numbered pool after pool.
        tensors: pool -> tensor degree.

    Raises:
        ConfigError: a device that the pipeline does not have.
    """
    names = [
        name for name, tensor in tensors.items() for _ in range(min(problem.cluster[name].groups(tensor) // data, 1024))
    ]
    stages = []
    for piece in cut:
        if not 0 <= piece.device < len(names):
            raise ConfigError(f"the cut has device {piece.device}, the pipeline {len(names)} devices")
        group = Group(names[piece.device], tensors[names[piece.device]])
        stages.append(Stage(piece.first, piece.end - 1, (group,) * data))
    chunks = len(stages) // len({piece.device for piece in cut})
    schedule = "interleaved" if chunks > 1 else problem.schedules[0]
    return ParallelPlan(tuple(stages), micro_batch, problem.global_batch, schedule, chunks)
