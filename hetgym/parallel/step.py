"""The time and memory of a training step under a plan."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetgym._sums import summed
from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.errors import ConfigError
from hetgym.parallel.cluster import Cluster
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import LayerCosts, Passes, Sizes, switched
from hetgym.parallel.plan import Group, ParallelPlan, Stage
from hetgym.pipeline.evaluation import schedule_table, stage_finishes
from hetgym.pipeline.schedules import peaks_of


@dataclass(frozen=True)
class TrainingStep:
    """A simulated training step."""

    seconds: float  # time of the step [s]
    pipeline: float  # time until the last backward pass ends [s]
    reduction: float  # time that all-reduces of gradients add to it [s]
    update: float  # time that the optimizer adds [s]
    bubble: float  # share of the pipeline's time in which a stage is idle, mean over the stages of the slowest replica
    memory: FloatArray  # [p] bytes on the fullest GPU of each stage, the one that needs the largest share of its memory
    capacity: FloatArray  # [p] memory of that GPU [byte]
    busy: FloatArray  # [p] seconds that each stage of the slowest replica computes

    __repr__ = brief

    @property
    def fits(self) -> bool:
        """True if no GPU exceeds its memory."""
        return bool((self.memory <= self.capacity).all())

    @property
    def limit(self) -> str:
        """The limit of the step, in words."""
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
    The first and the last stage also sum up the gradient of the weights that their layers share.

    Raises:
        ConfigError: the plan is for another number of layers, uses more GPUs than a pool has, or has groups that its
            nodes do not hold; or the costs do not know a pool, tensor degree and micro-batch of the plan.
        UnknownName: the plan uses an unknown pool.
    """
    costs, framework = switched(costs, framework or Framework(), plan.zero, plan.sequence)
    _check(plan, costs, cluster)
    p, v = plan.depth, plan.chunks
    table = schedule_table(plan.schedule, p, plan.micro_batches, v)
    ends, pipeline, bubble, busy = np.zeros(p), 0.0, 0.0, np.zeros(p)
    for groups in dict.fromkeys(zip(*(stage.groups for stage in plan.stages), strict=True)):
        seconds = _seconds(plan, groups, costs, cluster, framework)
        moves = _moves(plan, groups, costs, cluster, framework)
        done = stage_finishes(table, *(_blocked(seconds, moves) if framework.blocking else (seconds, moves)))
        ends = np.maximum(ends, done)
        if done.max() > pipeline:
            pipeline = float(done.max())
            busy = plan.micro_batches * seconds.sum(axis=(0, 1)).reshape(v, p).sum(axis=0)
            bubble = max(0.0, float(1.0 - busy.mean() / pipeline))  # without rounding below zero
    reduced, updated = np.zeros(p), np.zeros(p)
    for number in range(p):
        pieces = plan.stages[number::p]
        reduced[number] = summed(gradient_all_reduce(plan, stage, costs, cluster, framework) for stage in pieces)
        if framework.overlap:
            last = busy[number] / plan.micro_batches * 2.0 / 3.0
            reduced[number] = max(
                reduced[number] - last, reduced[number] / max(1, summed(k.last - k.first + 1 for k in pieces))
            )
        for group in dict.fromkeys(plan.stages[number].groups):
            passes, sizes = _known(costs, group, plan.micro_batch)
            shared = plan.replicas if framework.zero else 1
            spent = summed(float(passes.update[stage.layers].sum()) for stage in pieces)
            if p == 1 and sizes.tied:
                spent *= sizes.held(slice(0, costs.layers)) / float(sizes.parameters.sum())
            updated[number] = max(updated[number], spent / shared)
    if p > 1:
        reduced[[0, -1]] += tied_all_reduce(plan, costs, cluster, framework)
    after = float((ends + reduced).max())
    total = float((ends + reduced + updated).max())
    memory, capacity = stage_memory(plan, costs, cluster, framework)
    return TrainingStep(total, pipeline, after - pipeline, total - after, bubble, memory, capacity, busy)


def stage_memory(
    plan: ParallelPlan, costs: LayerCosts, cluster: Cluster, framework: Framework
) -> tuple[FloatArray, FloatArray]:
    """[p] bytes on the fullest GPU of each stage, and [p] memory of that GPU [byte].

    Groups of a stage may differ in both: each is compared with the memory of its own GPUs.
    """
    costs, framework = switched(costs, framework, plan.zero, plan.sequence)
    p, v = plan.depth, plan.chunks
    kept = peaks_of(plan.schedule, p, plan.micro_batches, v)
    memory, capacity = np.zeros(p), np.zeros(p)
    for number in range(p):
        needs = []
        for group in dict.fromkeys(plan.stages[number].groups):
            _, sizes = _known(costs, group, plan.micro_batch)
            used, most = framework.context_bytes, 0.0
            once = passing_bytes(sizes, framework, plan.micro_batch)
            for stage in plan.stages[number::p]:
                used += sizes.held(stage.layers) * framework.state(plan.replicas)
                used += kept[number] * plan.micro_batch * float(sizes.stash[stage.layers].sum())
                most = max(most, float(once[stage.layers].max()))
            needs.append((used + most, framework.room(cluster[group.pool].device) + framework.context_bytes))
        memory[number], capacity[number] = max(needs, key=lambda need: need[0] / need[1] if need[1] > 0 else np.inf)
    return memory, capacity


def passing_bytes(sizes: Sizes, framework: Framework, micro_batch: int) -> FloatArray:
    """[l] bytes on a GPU that each layer needs while it is computed, and that the next layer takes over.

    These are the recomputed activations, if the framework includes them; the layer's own gradient before replicas
    share it out (ZeRO 2) and its gathered parameters (ZeRO 3).
    """
    own = (framework.kept_bytes if framework.zero >= 2 else 0.0) + (
        framework.weight_bytes if framework.zero == 3 else 0
    )
    once: FloatArray = sizes.parameters * own
    return once + sizes.work * micro_batch if framework.working and len(sizes.work) else once


def gradient_all_reduce(
    plan: ParallelPlan, stage: Stage, costs: LayerCosts, cluster: Cluster, framework: Framework
) -> float:
    """Time that the replicas of a stage communicate once a step [s].

    Without ZeRO they reduce gradients. With ZeRO 1 each reduces its share of the gradients, and gathers the updated
    parameters. With ZeRO 2 gradients are reduced in every backward pass, and parameters are gathered; with ZeRO 3 both
    happen in every pass, see :func:`shared_passes`.

    Groups of the same pool are on as few nodes as hold them, and as evenly spread over these as can be: 9 replicas on
    nodes of 8 GPUs are 5 and 4, not 8 and one that sends all through its own adapter. Groups of several pools go at
    the pace of the slowest.
    """
    replicas = len(stage.groups)
    if replicas < 2:
        return 0.0
    longest = 0.0
    for group in dict.fromkeys(stage.groups):
        _, sizes = _known(costs, group, plan.micro_batch)
        network, parameters = cluster[group.pool].network, sizes.held(stage.layers)
        nodes, spent = _nodes(stage, group, cluster), 0.0
        if framework.zero == 0:
            spent = network.all_reduce(parameters * framework.gradient_bytes, replicas, nodes)
        if framework.zero == 1:
            spent = network.gather(parameters * framework.gradient_bytes, replicas, nodes)
        if framework.zero in (1, 2):
            spent += network.gather(parameters * framework.weight_bytes, replicas, nodes)
        longest = max(longest, spent)
    return longest


def tied_all_reduce(plan: ParallelPlan, costs: LayerCosts, cluster: Cluster, framework: Framework) -> float:
    """Time that the first and the last stage take to sum up the gradient of the weights that they share [s].

    With stages of several pools the slowest network is used.
    """
    longest = 0.0
    groups = tuple(dict.fromkeys((*plan.stages[0].groups, *plan.stages[-1].groups)))
    nodes = 1 if _in_one_node(plan, groups, cluster) else 2
    for group in groups:
        _, sizes = _known(costs, group, plan.micro_batch)
        if sizes.tied:
            network = cluster[group.pool].network
            longest = max(longest, network.all_reduce(sizes.tied * framework.gradient_bytes, 2, nodes))
    return longest


def _in_one_node(plan: ParallelPlan, groups: Sequence[Group], cluster: Cluster) -> bool:
    """True if each replica's stages lie in one node, given the groups of some."""
    pools = {group.pool for group in groups}
    return len(pools) == 1 and plan.gpus // plan.replicas <= cluster[pools.pop()].per_node


def shared_passes(
    stage: Stage, group: Group, sizes: Sizes, cluster: Cluster, framework: Framework
) -> tuple[float, float]:
    """Time that a group communicates with the other replicas in each forward and backward pass of a stage [s].

    ZeRO 2 reduces and scatters gradients in every backward pass; ZeRO 3 gathers parameters in both passes, too
    (Rajbhandari et al., "ZeRO", SC 2020, section 7).
    """
    if framework.zero < 2 or len(stage.groups) < 2:
        return 0.0, 0.0
    network, parameters = cluster[group.pool].network, sizes.held(stage.layers)
    replicas, nodes = len(stage.groups), _nodes(stage, group, cluster)
    reduced = network.gather(parameters * framework.gradient_bytes, replicas, nodes)
    gathered = network.gather(parameters * framework.weight_bytes, replicas, nodes) if framework.zero == 3 else 0.0
    return gathered, gathered + reduced


def _nodes(stage: Stage, group: Group, cluster: Cluster) -> int:
    """Number of nodes over which the replicas of a stage are spread, if all were like a group."""
    together = max(1, cluster[group.pool].per_node // group.tensor)
    nodes = -(-len(stage.groups) // together)
    return 2 if nodes == 1 and any(other.pool != group.pool for other in stage.groups) else nodes


def _seconds(
    plan: ParallelPlan, groups: tuple[Group, ...], costs: LayerCosts, cluster: Cluster, framework: Framework
) -> FloatArray:
    """[2 or 3, 1, v * p] seconds of the passes of each piece on its group.

    With ``overlap`` a pass takes the longer of its computation and its communication with other replicas.
    """
    split = plan.schedule == "zb-h1"
    seconds = np.zeros((3 if split else 2, 1, len(plan.stages)))
    for k, (stage, group) in enumerate(zip(plan.stages, groups, strict=True)):
        passes, sizes = _known(costs, group, plan.micro_batch)
        turn = framework.turn / plan.chunks
        forward = passes.forward[stage.layers].sum() + turn / 3.0
        backward = passes.backward[stage.layers].sum() + turn * 2.0 / 3.0
        gathered, reduced = shared_passes(stage, group, sizes, cluster, framework)
        seconds[0, 0, k] = max(forward, gathered) if framework.overlap else forward + gathered
        backward = max(backward, reduced) if framework.overlap else backward + reduced
        seconds[1:, 0, k] = backward / 2.0 if split else backward
    return seconds


def _moves(
    plan: ParallelPlan, groups: tuple[Group, ...], costs: LayerCosts, cluster: Cluster, framework: Framework
) -> FloatArray:
    """[v * p] seconds from each piece to the next one."""
    moves = np.zeros(len(plan.stages))
    nodes = 1 if _in_one_node(plan, groups, cluster) else 2
    known: dict[tuple[str, float], float] = {}
    for k in range(len(plan.stages)):
        a, b = groups[k], groups[(k + 1) % plan.depth]
        _, sizes = _known(costs, a, plan.micro_batch)
        moved = float(sizes.boundary[plan.stages[k].last]) * plan.micro_batch
        moved /= min(a.tensor, b.tensor) if framework.scatter or framework.sequence else 1
        for pool in (a.pool, b.pool):
            if (pool, moved) not in known:
                known[pool, moved] = cluster[pool].network.send(moved, nodes)
        moves[k] = max(known[a.pool, moved], known[b.pool, moved])
    return moves


def _blocked(seconds: FloatArray, moves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Times of passes and moves if both ends of a transfer are busy with it.

    A pass first receives, then computes, then sends. Its data arrive before its send has ended, since the receiver is
    busy with the same transfer. So passes take longer by the transfers at both ends, and moves are negative.
    """
    out = np.append(moves[:-1], 0.0)  # the last piece sends nothing forward
    into = np.append(0.0, moves[:-1])
    longer = seconds.copy()
    longer[:2, 0] += out + into
    return longer, -moves


def misplaced(plan: ParallelPlan, cluster: Cluster) -> str:
    """Why the GPUs of a cluster do not hold the groups of a plan; empty if they do.

    Groups of a pool are packed into its nodes, largest first, and do not reach beyond their node. Larger groups take
    whole nodes.

    Raises:
        UnknownName: the plan uses an unknown pool.
    """
    counts: dict[str, dict[int, int]] = {}
    for stage in plan.stages[: plan.depth]:
        for group in stage.groups:
            of_pool = counts.setdefault(group.pool, {})
            of_pool[group.tensor] = of_pool.get(group.tensor, 0) + 1
    for name, groups in counts.items():
        pool, used = cluster[name], summed(tensor * n for tensor, n in groups.items())
        if used > pool.gpus:
            return f"the plan uses {used} GPUs of pool {name!r}, which has {pool.gpus}"
        if not pool.holds(groups):
            listed = " and ".join(f"{n} x {tensor}" for tensor, n in sorted(groups.items(), reverse=True))
            return (
                f"the plan has groups of {listed} GPUs of pool {name!r}, which do not fit in its {pool.nodes} nodes of "
                f"{pool.per_node}"
            )
    return ""


def _check(plan: ParallelPlan, costs: LayerCosts, cluster: Cluster) -> None:
    if plan.layers != costs.layers:
        raise ConfigError(f"the plan is for {plan.layers} layers, the model has {costs.layers}")
    if reason := misplaced(plan, cluster):
        raise ConfigError(reason)


def _known(costs: LayerCosts, group: Group, micro_batch: int) -> tuple[Passes, Sizes]:
    passes, sizes = costs.passes(group.pool, group.tensor, micro_batch), costs.sizes(group.tensor)
    if passes is None or sizes is None:
        raise ConfigError(
            f"the costs do not know a micro-batch of {micro_batch} on {group.tensor} GPUs of pool {group.pool!r}"
        )
    return passes, sizes
