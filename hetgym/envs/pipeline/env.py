"""HetPipeline-v0: cut a model into the stages of a pipeline, and place each on a device."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy.typing as npt

from hetgym.envs.core.arguments import whole
from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.padding import BlockPadding
from hetgym.envs.core.scalar import LaneEnv
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.envs.pipeline.lanes import PipelineLanes
from hetgym.envs.pipeline.problems import PipelineArguments
from hetgym.envs.pipeline.rules import PipelineRules
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.schedule import Schedule


@dataclass(frozen=True)
class HetPipelineArguments(PipelineRules, PipelineArguments, LaneArguments):
    """The arguments of HetPipeline-v0; :class:`HetPipelineEnv` describes them."""

    elsewhere = {"max_actions": "HetCluster-v0 has it"}

    _: KW_ONLY
    max_blocks: int | None = whole(None)
    max_devices: int | None = whole(None)

    def _lanes(self, count: int) -> Lanes:
        source = self.source()
        padding = BlockPadding.chosen(source.padding(), self.max_blocks, self.max_devices)
        return PipelineLanes(count, source, self, padding, self.observation, self.reward == "sparse")


class HetPipelineEnv(LaneEnv, arguments=HetPipelineArguments):
    """Cut a model into the stages of a pipeline, each on a device of its own.

    ## Description
    A pipeline's devices work on different requests (or micro-batches) at once, each on its own stage of the model. The
    agent walks through the model's blocks: the pieces between the trunk cuts of a CNN or transformer, the time steps of
    a recurrent network, or the operators of a :class:`hetgym.pipeline.PipelineProblem` in topological order, where
    operators that must be together form one block. At each block it stays in the current stage, or ends it and begins
    the next one with this block on a device of its choice. When all blocks are placed, the cut is evaluated as in
    :mod:`hetgym.pipeline` (:class:`HetClusterEnv` plans whole training steps on clusters):

    - ``objective="throughput"``: the time between two results in steady state, which is the largest load of a device,
      :meth:`~hetgym.pipeline.PipelineProblem.max_load`: the time of its blocks plus the time to fetch or send, once,
      each tensor that crosses the ends of its stage;
    - ``"latency"``: the time at which the last of ``requests`` requests leaves the last stage
      (:class:`~hetgym.pipeline.FlowShop` of the loads);
    - ``"training"``: one step of ``micro_batches`` micro-batches under ``schedule``
      (:func:`hetgym.pipeline.run`). A forward pass of a stage is its load; a backward pass moves the same
      tensors' gradients. Weight passes are passes of their own under ``"zb-h1"`` and part of the backward pass
      elsewhere.

    Memory limits always apply. A device holds the weights of its blocks; for training also their gradients
    and the optimiser's state, and the activations of as many micro-batches as the schedule keeps on
    that stage (:func:`hetgym.pipeline.peak_activations`).

    ## Action space
    ``Discrete(1 + max_devices)``: 0 stays, 1 + d begins the next stage, with the current block, on device d.
    The first block must choose a device, and a device holds one stage. Under ``schedule="interleaved"`` the
    device of the first stage may be chosen again: then a second round of pieces begins, on the same devices in
    the same order, and must be completed; there are up to ``chunks`` rounds. A further round may only begin if
    the number of micro-batches is a multiple of the number of stages, and every decision must allow an end with the
    running round. With one round the schedule is 1F1B.

    Actions whose stage cannot run or does not fit into memory, or that would leave blocks without a device, are
    masked. The mask is exact, so there is always a legal action. If no cut at all fits into memory, the episode ignores
    memory, and ``info["within_memory"]`` is False at its end.
    <<illegal actions>>

    ## Observation space
    A ``Dict`` of fixed shapes, padded with zeros to ``N = max_blocks`` and ``D = max_devices``. Values are
    shares of the reference. A *pace* is the time for one request or micro-batch, times the number of requests
    or micro-batches, divided by the reference. All are clipped to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``blocks`` | [N, 12] | ``hetgym.envs.BLOCK_FEATURES`` |
    | ``costs`` | [N, D] | pace of each block on each device, all passes; 10 where it cannot run |
    | ``assignment`` | [N] | device of each block, -1 while not decided |
    | ``devices`` | [D, 6] | ``hetgym.envs.STAGE_FEATURES`` |
    | ``candidates`` | [1 + D, 8] | ``hetgym.envs.CUT_FEATURES``: what each action would lead to |
    | ``current`` | [1] | the block to be decided |
    | ``block_mask``, ``device_mask`` | [N], [D] | 1 where not padding |
    | ``action_mask`` | [1 + D] | 1 where legal |

    <<narrow>>

    ## Rewards
    The return of an episode is exactly ``1 - value / reference``. The reference is the least value of: each
    single device that can run everything; the equal cut over all devices in the order of their numbers,
    and the equal cut over the devices of each kind. An equal cut of n blocks has as many stages as devices, but
    at most n; stage k of p begins at block k n // p. Under ``"interleaved"`` each possible number of rounds is
    tried. Cuts that exceed the memory are left out; if none remains, the reference is the value of the cut that
    fills the last stages first.

    ``reward="dense"`` pays at each step the decrease of a potential, divided by the reference. The potential is
    the reference before the first step; then a proven lower bound on the value of any cut that extends the
    decisions so far; at the end the value itself. ``reward="sparse"`` pays the whole sum at the end.

    ## Starting state
    A pipeline is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``. No block is placed.

    ## Episode end
    Terminated when every block is placed; never truncated. The last ``info`` holds ``value`` (also as ``makespan``) and
    ``reference`` [s]; ``optimal``, the least value of any cut that can be played: for the throughput by the dynamic
    program of :func:`~hetgym.baselines.pipeline.contiguous_dp` along the same order, for the latency by a similar one
    if the pipeline is small; NaN if that takes more than ``hetgym.baselines.pipeline.optima.MAX_STEPS`` steps, for
    training, and if no cut fits into memory; ``slr`` (value over a lower bound), ``speedup`` (over the best single
    device), ``stages`` (first block, end, device), ``reference_stages`` (of the reference's cut), ``loads`` (seconds of
    each device for one request, all passes), ``memory`` (bytes of each device), ``within_memory``, ``reward_terms``
    (they sum to the return), ``replay`` (:class:`Replay`; :func:`hetgym.envs.replay` plays it again), and ``schedule``:
    the :class:`hetgym.Schedule` of the unrolled pipeline, None for throughput; :meth:`unrolled` gives its problem too.

    ## Arguments
    ```python
    import gymnasium as gym, hetgym
    env = gym.make("HetPipeline-v0", graph="resnet50", platform="cpu-2gpu-nvlink", objective="latency")
    env = gym.make("hetgym:HetPipeline-v0", objective="training", schedule="zb-h1")
    ```
    Pipelines come from one of ``problem`` (a :class:`~hetgym.pipeline.PipelineProblem`, a
    :class:`~hetgym.pipeline.TrainingPipeline`, a path to a file of dnn-partitioning, or a list), ``graph`` and
    ``platform`` (objects, names or paths, or lists) or ``generator`` (``callable(rng)``); if none is given, from
    :class:`~hetgym.pipeline.RandomChains`. A PipelineProblem does not describe training: its backward and weight passes
    are assumed to be as long as the forward pass, its state three times the weights, and no activations
    are kept. A TrainingPipeline gives these itself.

    Args:
        problem: a PipelineProblem, a TrainingPipeline, a path to a file of dnn-partitioning, or a list of these.
        <<graph>>
        generator: ``callable(rng)`` that makes a pipeline; needs the ``max_*`` arguments unless it is a
            :class:`~hetgym.pipeline.RandomChains`.
        <<pool>>
        batch: batch size of graphs given by name; by default the one that a model file fixes, else 1.
        costs: cost model of graphs on platforms.
        blocks: the kind of blocks that are never cut in a graph, see :data:`hetgym.pipeline.BLOCKS`.
        objective: ``"throughput"``, ``"latency"`` or ``"training"``.
        requests: number of requests for the latency.
        schedule: schedule of a training step: ``"gpipe"``, ``"1f1b"``, ``"interleaved"`` or ``"zb-h1"``.
        micro_batches: number of micro-batches of a training step.
        chunks: largest number of pieces on a device under ``"interleaved"``.
        optimizer: optimiser of graphs: ``"sgd"``, ``"momentum"`` or ``"adam"``.
        optimal: true to compute the optimum.
        completion: true if ``completion`` and ``regret`` rate how well the rest can be cut, by tables that take a
            millisecond for each small pipeline: exactly for the throughput, approximately for the latency, and
            for a training step by the latency of its micro-batches in one round. In a later round the rating
            assumes that all remaining blocks stay in the piece. If false, both are computed from the ``bound``.
        <<common>>
        max_blocks, max_devices: padding; by default what the source needs.
        render_mode: ``"ansi"`` (text), ``"rgb_array"`` (loads as bars) or ``"human"`` (the text, printed after
            each step).

    Raises:
        ConfigError, UnknownName: an invalid argument; the message says which ones are valid.
        ProblemError: a pipeline that exceeds the padding, that no contiguous cut can run, that has too
            many sets of different devices, or that already has backward operators but is to be trained.

    ## Version history
    - v0: first release.

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.pipeline import DeviceKind, PipelineProblem
    >>> chain = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], [DeviceKind("gpu", 2)], transfer=0.5)
    >>> env = gym.make("HetPipeline-v0", problem=chain)
    >>> obs, info = env.reset(seed=0)
    >>> for action in (1, 2, 0, 0):
    ...     obs, reward, done, _, info = env.step(action)
    >>> info["stages"]
    (Stage(first=0, end=1, device=0), Stage(first=1, end=4, device=1))
    >>> info["value"], info["reference"], info["optimal"]
    (4.5, 5.5, 4.5)
    """

    lanes: PipelineLanes

    def actions(self, assignment: npt.ArrayLike) -> list[int]:
        """The actions, from the first decision on, that reproduce a placement such as a partitioner's.

        Args:
            assignment: [operators] device of each operator of the episode's pipeline.

        Raises:
            ResetNeeded: there has been no reset.
            InvalidSchedule: the placement is not legal.
            ConfigError: it does not give each device one contiguous stage in the order of the blocks.

        >>> from hetgym.baselines.pipeline import contiguous_dp
        >>> env = HetPipelineEnv()
        >>> _ = env.reset(seed=0)
        >>> for action in env.actions(contiguous_dp(env.problem)):
        ...     _, _, _, _, info = env.step(action)
        >>> info["value"] == info["optimal"]
        True
        """
        problem = self.problem
        devices = problem.check(assignment)
        taken: list[int] = []
        current, used = -1, set()
        for inside in self.lanes.instance(0).blocks.members:
            device = int(devices[inside[0]])
            if any(devices[i] != device for i in inside) or (device != current and device in used):
                raise ConfigError(
                    f"the placement does not cut {problem.name!r} into one stage a device, block by block"
                )
            taken.append(0 if device == current else 1 + device)
            current = device
            used.add(device)
        return taken

    def unrolled(self) -> tuple[Problem, Schedule] | None:
        """The finished cut as a problem whose operators are the passes of its stages, and their schedule.

        ``hetgym.simulate`` of the two gives the episode's value.

        Returns:
            None for the throughput, which only endless runs have.

        Raises:
            ConfigError: no episode has been finished since the last reset.
        """
        if not self._began or not self.lanes.over[0]:
            raise ConfigError("unrolled() needs a finished episode: place all blocks first")
        return self.lanes.unrolled(0)


class HetPipelineVectorEnv(LaneVectorEnv, scalar=HetPipelineEnv):
    """Many episodes of :class:`HetPipelineEnv` that step in one call; ``gym.make_vec`` makes it."""
