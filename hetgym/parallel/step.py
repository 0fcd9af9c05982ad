"""The time and memory of a training step under a plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import ConfigError
from hetgym.parallel.cluster import Cluster
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import LayerCosts, Passes, Sizes
from hetgym.parallel.plan import Group, ParallelPlan, Stage
from hetgym.pipeline.evaluation import schedule_table, stage_finishes
from hetgym.pipeline.schedules import peaks_of


@dataclass(frozen=True)
class TrainingStep:
    """A simulated training step.

    Attributes:
        seconds: time of the step [s].
        pipeline: time until the last backward pass ends [s].
        reduction: time that all-reduces of gradients add to it [s].
        update: time that the optimizer adds [s].
        bubble: share of the pipeline's time in which a stage is idle, mean over the stages of the slowest replica.
        memory: [p] most bytes on a GPU of each stage.
        capacity: [p] least memory of a GPU of each stage [byte].
        busy: [p] seconds that each stage of the slowest replica computes.
    """

    seconds: float
    pipeline: float
    reduction: float
    update: float
    bubble: float
    memory: FloatArray
    capacity: FloatArray
    busy: FloatArray

    @property
    def fits(self) -> bool:
        """True if no GPU exceeds its memory."""
        return bool((self.memory <= self.capacity).all())

    @property
    def limit(self) -> str:
        """What limits the step, in words."""
        if not self.fits:
            return f"memory: stage {int(np.argmax(self.memory / self.capacity))} does not fit"
        parts = {
            "gradient all-reduce": self.reduction,
            "optimizer": self.update,
            "pipeline bubble": self.bubble * self.pipeline,
        }
        name = max(parts, key=lambda key: parts[key])
        if parts[name] > 0.25 * self.seconds:
            return name
        return f"computation of stage {int(np.argmax(self.busy))}"


def training_step(
    plan: ParallelPlan, costs: LayerCosts, cluster: Cluster, framework: Framework | None = None
) -> TrainingStep:
    """Simulate a training step.

    Replicas run their pipelines side by side. A pass of a stage takes the sum of its layers' times on its group. A
    stage hands its boundary to the next one over the wire between their groups. When all replicas of a stage have
    ended their last backward pass, its gradients are reduced among the replicas and the optimizer updates the weights.

    Args:
        plan: the plan.
        costs: times and sizes of the model's layers.
        cluster: the GPUs and their network.
        framework: what the training program adds.

    Raises:
        ConfigError: the plan is for another number of layers or uses more GPUs than a pool has; or the costs do not
            know a pool, tensor degree and micro-batch of the plan.
        UnknownName: the plan uses an unknown pool.
    """
    framework = framework or Framework()
    _check(plan, costs, cluster)
    p, v = plan.depth, plan.chunks
    table = schedule_table(plan.schedule, p, plan.micro_batches, v)
    ends, pipeline, bubble, busy = np.zeros(p), 0.0, 0.0, np.zeros(p)
    for groups in dict.fromkeys(zip(*(stage.groups for stage in plan.stages), strict=True)):
        seconds = _seconds(plan, groups, costs, framework)
        moves = _moves(plan, groups, costs, cluster, framework)
        done = stage_finishes(table, *(_blocked(seconds, moves) if framework.blocking else (seconds, moves)))
        ends = np.maximum(ends, done)
        if done.max() > pipeline:
            pipeline = float(done.max())
            busy = plan.micro_batches * seconds.sum(axis=(0, 1)).reshape(v, p).sum(axis=0)
            bubble = float(1.0 - busy.mean() / pipeline)
    reduced, updated = np.zeros(p), np.zeros(p)
    for s in range(p):
        pieces = plan.stages[s::p]
        reduced[s] = sum(gradient_all_reduce(plan, stage, costs, cluster, framework) for stage in pieces)
        if framework.overlap:
            last = busy[s] / plan.micro_batches * 2.0 / 3.0
            reduced[s] = max(reduced[s] - last, reduced[s] / max(1, sum(k.last - k.first + 1 for k in pieces)))
        for group in dict.fromkeys(plan.stages[s].groups):
            passes, _ = _known(costs, group, plan.micro_batch)
            updated[s] = max(updated[s], sum(float(passes.update[stage.layers].sum()) for stage in pieces))
    after = float((ends + reduced).max())
    total = float((ends + reduced + updated).max())
    memory, capacity = stage_memory(plan, costs, cluster, framework)
    return TrainingStep(total, pipeline, after - pipeline, total - after, bubble, memory, capacity, busy)


def stage_memory(
    plan: ParallelPlan, costs: LayerCosts, cluster: Cluster, framework: Framework
) -> tuple[FloatArray, FloatArray]:
    """[p] most bytes on a GPU of each stage, and [p] least memory of such a GPU [byte]."""
    p, v = plan.depth, plan.chunks
    kept = peaks_of(plan.schedule, p, plan.micro_batches, v)
    memory, capacity = np.zeros(p), np.full(p, np.inf)
    for s in range(p):
        for group in dict.fromkeys(plan.stages[s].groups):
            _, sizes = _known(costs, group, plan.micro_batch)
            used = framework.context_bytes
            for stage in plan.stages[s::p]:
                used += float(sizes.parameters[stage.layers].sum()) * framework.state_bytes
                used += kept[s] * plan.micro_batch * float(sizes.stash[stage.layers].sum())
            memory[s] = max(memory[s], used)
            capacity[s] = min(capacity[s], cluster[group.pool].device.memory_capacity)
    return memory, capacity


def gradient_all_reduce(
    plan: ParallelPlan, stage: Stage, costs: LayerCosts, cluster: Cluster, framework: Framework
) -> float:
    """Time to reduce a stage's gradients among its replicas [s].

    Groups of the same pool share nodes as far as they fit. Groups of several pools go at the pace of the slowest.
    """
    replicas = len(stage.groups)
    if replicas < 2:
        return 0.0
    longest = 0.0
    for group in dict.fromkeys(stage.groups):
        _, sizes = _known(costs, group, plan.micro_batch)
        pool = cluster[group.pool]
        moved = float(sizes.parameters[stage.layers].sum()) * framework.gradient_bytes
        together = max(1, pool.per_node // group.tensor)
        nodes = -(-replicas // together)
        if nodes == 1 and any(other.pool != group.pool for other in stage.groups):
            nodes = 2
        longest = max(longest, pool.network.all_reduce(moved, replicas, nodes))
    return longest


def _seconds(plan: ParallelPlan, groups: tuple[Group, ...], costs: LayerCosts, framework: Framework) -> FloatArray:
    """[2 or 3, 1, v * p] seconds of the passes of each piece on its group."""
    split = plan.schedule == "zb-h1"
    seconds = np.zeros((3 if split else 2, 1, len(plan.stages)))
    for k, (stage, group) in enumerate(zip(plan.stages, groups, strict=True)):
        passes, _ = _known(costs, group, plan.micro_batch)
        turn = framework.turn / plan.chunks
        seconds[0, 0, k] = passes.forward[stage.layers].sum() + turn / 3.0
        backward = passes.backward[stage.layers].sum() + turn * 2.0 / 3.0
        seconds[1:, 0, k] = backward / 2.0 if split else backward
    return seconds


def _moves(
    plan: ParallelPlan, groups: tuple[Group, ...], costs: LayerCosts, cluster: Cluster, framework: Framework
) -> FloatArray:
    """[v * p] seconds from each piece to the next one."""
    moves = np.zeros(len(plan.stages))
    alone = len({group.pool for group in groups}) == 1
    tight = alone and plan.gpus // plan.replicas <= cluster[groups[0].pool].per_node
    known: dict[tuple[str, float], float] = {}
    for k in range(len(plan.stages)):
        a, b = groups[k], groups[(k + 1) % plan.depth]
        _, sizes = _known(costs, a, plan.micro_batch)
        moved = float(sizes.boundary[plan.stages[k].last]) * plan.micro_batch
        moved /= min(a.tensor, b.tensor) if framework.scatter else 1
        for pool in (a.pool, b.pool):
            if (pool, moved) not in known:
                known[pool, moved] = cluster[pool].network.send(moved, 1 if tight else 2)
        moves[k] = max(known[a.pool, moved], known[b.pool, moved])
    return moves


def _blocked(seconds: FloatArray, moves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Times of passes and moves if both ends of a transfer are busy with it.

    A pass first receives, then computes, then sends. What it sends is there before its send has ended: the receiver is
    busy with the same transfer. So passes take longer by what they receive and send, and moves are negative.
    """
    out = np.append(moves[:-1], 0.0)  # the last piece sends nothing forward
    into = np.append(0.0, moves[:-1])
    longer = seconds.copy()
    longer[:2, 0] += out + into
    return longer, -moves


def _check(plan: ParallelPlan, costs: LayerCosts, cluster: Cluster) -> None:
    if plan.layers != costs.layers:
        raise ConfigError(f"the plan is for {plan.layers} layers, the model has {costs.layers}")
    for name, used in plan.used().items():
        if used > cluster[name].gpus:
            raise ConfigError(f"the plan uses {used} GPUs of pool {name!r}, which has {cluster[name].gpus}")


def _known(costs: LayerCosts, group: Group, micro_batch: int) -> tuple[Passes, Sizes]:
    passes, sizes = costs.passes(group.pool, group.tensor, micro_batch), costs.sizes(group.tensor)
    if passes is None or sizes is None:
        raise ConfigError(
            f"the costs do not know a micro-batch of {micro_batch} on {group.tensor} GPUs of pool {group.pool!r}"
        )
    return passes, sizes
