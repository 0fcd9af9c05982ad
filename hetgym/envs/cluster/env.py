"""HetCluster-v0: plan a training step on a cluster: degrees, micro-batch and schedule, then the stages."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields

from hetgym.envs.cluster.lanes import ClusterLanes
from hetgym.envs.cluster.observation import StepPadding
from hetgym.envs.cluster.problems import ClusterArguments
from hetgym.envs.core.arguments import whole
from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.scalar import LaneEnv
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.parallel import ParallelPlan
from hetgym.pipeline import Objective


@dataclass(frozen=True)
class HetClusterArguments(ClusterArguments, LaneArguments):
    """The arguments of HetCluster-v0; :class:`HetClusterEnv` describes them."""

    elsewhere = {
        field.name: "HetPipeline-v0 has it; training problems state their choices" for field in fields(Objective)
    }

    _: KW_ONLY
    max_blocks: int | None = whole(None)
    max_devices: int | None = whole(None)
    max_actions: int | None = whole(None)

    def _lanes(self, count: int) -> Lanes:
        source = self.source()
        padding = StepPadding.chosen(source.padding(), self.max_blocks, self.max_devices, self.max_actions)
        return ClusterLanes(count, source, padding, self.observation, self.reward == "sparse")


class HetClusterEnv(LaneEnv, arguments=HetClusterArguments):
    """Plan a training step of a model on a cluster of GPUs.

    ## Description
    A :class:`~hetgym.parallel.TrainingProblem` gives the layers of a model, pools of GPUs, and what may be chosen. A
    plan has stages; each holds consecutive layers on a group of GPUs for every replica; the groups split
    layers between their GPUs (tensor parallelism), and replicas share out the samples (data parallelism). The agent
    first chooses what all stages have in common, then the number of stages, then the groups and layers of each stage.
    The value of a plan is the simulated step, :meth:`~hetgym.parallel.TrainingProblem.value`, all-reduces and optimizer
    included. :class:`HetPipelineEnv` cuts single pipelines.

    ## Action space
    ``Discrete(max_actions)``. The first action k chooses the k-th setting that has a plan: data degree, micro-batch,
    schedule and chunks, in the order of :meth:`~hetgym.parallel.TrainingProblem.settings`. The second chooses 1 + k
    stages. Then the layers come one by one: 0 stays in the stage; 1 + o begins the next one on option o, a group of
    GPUs of some pool and tensor degree for each replica. With several chunks the rounds after the first take the
    options of the first. :meth:`actions` turns a planner's plan into actions.

    Actions after which no plan fits the GPUs and their memory are masked; with one chunk the mask is exact. With
    several it checks GPUs, layers and the memory of the placed layers only, so an episode may end with a plan that
    does not fit.
    <<illegal actions>>

    ## Observation space
    A ``Dict`` of fixed shapes, padded with zeros to ``N = max_blocks`` layers, ``D = max_devices`` pools and
    ``A = max_actions``. Times are shares of the reference. A *pace* is the time of one micro-batch, times the number of
    micro-batches, divided by the reference. All are clipped to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``blocks`` | [N, 7] | ``hetgym.envs.LAYER_FEATURES`` |
    | ``devices`` | [D, 3] | ``hetgym.envs.POOL_FEATURES`` |
    | ``candidates`` | [A, 15] | ``hetgym.envs.STEP_FEATURES``: what each action would lead to |
    | ``current`` | [1] | the layer to be decided |
    | ``block_mask``, ``device_mask`` | [N], [D] | 1 where not padding |
    | ``action_mask`` | [A] | 1 where legal |

    <<narrow>>

    ## Rewards
    The return of an episode is exactly ``1 - value / reference``, but at least -1, the return of a plan that does
    not fit. The reference is the best uniform grid or, if there is none, the plan of
    :func:`~hetgym.baselines.parallel.search`.

    ``reward="dense"`` pays at each step the decrease of a potential, divided by the reference. The potential is
    the reference before the first step; then a proven lower bound on the step after the decisions so far; at the end
    the value itself. ``reward="sparse"`` pays the whole sum at the end.

    ## Starting state
    A problem is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``. Nothing is decided.

    ## Episode end
    Terminated when every layer is in a stage; never truncated. The last ``info`` holds ``value`` (also as ``makespan``;
    inf for a plan that does not fit), ``reference`` and ``bound`` (no plan takes less) [s], ``slr`` (value over
    ``bound``), ``plan`` and ``reference_plan`` (:class:`~hetgym.parallel.ParallelPlan`), ``within_memory``,
    ``reward_terms`` (they sum to the return) and ``replay`` (:class:`Replay`; :func:`hetgym.envs.replay` plays it
    again).

    ## Arguments
    ```python
    import gymnasium as gym, hetgym
    env = gym.make("HetCluster-v0", problem=problem)  # a TrainingProblem
    env = gym.make("hetgym:HetCluster-v0")  # small random problems
    ```
    Problems come from ``problem`` or ``generator``; by default from :class:`~hetgym.parallel.RandomSteps`.

    Args:
        problem: a TrainingProblem, or a list of these.
        generator: ``callable(rng)`` that makes a TrainingProblem; needs the ``max_*`` arguments unless it is a
            :class:`~hetgym.parallel.RandomSteps`.
        <<pool>>
        <<common>>
        max_blocks, max_devices, max_actions: padding of layers, pools and actions; by default what the source needs.
        render_mode: ``"ansi"`` (text), ``"rgb_array"`` (slots of the stages as bars) or ``"human"`` (the text, printed
            after each step).

    Raises:
        ConfigError, UnknownName: an invalid argument; the message says which ones are valid.
        ProblemError: a problem that exceeds the padding, that has no plan within memory, or that has too many GPUs for
            the tables behind the mask.

    ## Version history
    - v0: first release.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetCluster-v0")
    >>> obs, info = env.reset(seed=0)
    >>> plan = hetgym.baselines.parallel.search(env.unwrapped.problem)
    >>> for action in env.unwrapped.actions(plan):
    ...     obs, reward, done, _, info = env.step(action)
    >>> info["plan"] == plan, info["bound"] <= info["value"] <= info["reference"]
    (True, True)
    """

    lanes: ClusterLanes

    def actions(self, plan: ParallelPlan) -> list[int]:
        """The actions, from the first decision on, that make a plan, such as a planner's.

        Raises:
            ResetNeeded: there has been no reset.
            ConfigError: not a plan that the environment can make.
        """
        self._check()
        return self.lanes.actions(0, plan)


class HetClusterVectorEnv(LaneVectorEnv, scalar=HetClusterEnv):
    """Many episodes of :class:`HetClusterEnv` that step in one call; ``gym.make_vec`` makes it."""
