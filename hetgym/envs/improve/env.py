"""HetImprove-v0: improve a complete plan, move by move."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.padding import GraphSizes
from hetgym.envs.core.scalar import LaneEnv
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.envs.improve.lanes import ImproveLanes
from hetgym.envs.improve.rules import ImproveRules
from hetgym.envs.place.problems import ProblemArguments


@dataclass(frozen=True)
class HetImproveArguments(GraphSizes, ImproveRules, ProblemArguments, LaneArguments):
    """The arguments of HetImprove-v0; :class:`HetImproveEnv` describes them."""

    _: KW_ONLY
    reward: Literal["dense", "sparse", "current"] = "dense"  # type: ignore[assignment]  # one word more

    def _lanes(self, count: int) -> Lanes:
        source = self.source()
        padding = self.padding(source.padding())
        return ImproveLanes(count, source, self, padding, self.observation, self.reward)


class HetImproveEnv(LaneEnv, arguments=HetImproveArguments):
    """Improve a complete plan of a dataflow graph on heterogeneous devices, move by move.

    ## Description
    <<machine>>

    An episode begins with a plan: a device for each operator, and an order on each device. Every step offers moves and
    makes the chosen one. A move takes a region, a connected piece of the graph, to another device, and perhaps a region
    of that device back; or it gives one operator another place in the order. The plan is then simulated under the
    runtime, from the first operator on that the move affects. The best plan of the episode counts.

    ## Action space
    ``Discrete(moves)``: one of the moves that were drawn for this step, by the rules of region annealing. With
    ``moves=None`` ``Discrete(max_operators * max_devices)``: action ``i * max_devices + d`` puts operator ``i`` on
    device ``d``, and orders stay. With ``moves="turn"`` ``Discrete(max_devices)``: the device of one operator, each
    in its turn, in topological order.

    Draws that gave no move are masked, and so are devices that cannot run the operator, with ``tabu`` moves of
    operators that were moved shortly before, and with ``memory="mask"`` moves after which the weights exceed the memory
    of the devices by more than before.
    <<illegal actions>>

    ## Observation space
    With ``observation="graph"`` a ``Dict`` of fixed shapes, padded with zeros to ``N = max_operators``,
    ``E = max_edges`` and ``D = max_devices``; A is the number of actions. Times are shares of the reference makespan,
    clipped to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``operators`` | [N, 12] | ``hetgym.envs.OPERATOR_FEATURES`` of the plan; all operators are placed |
    <<graph rows>>
    | ``assignment`` | [N] | device of each operator |
    | ``devices`` | [D, 4] | ``hetgym.envs.DEVICE_FEATURES`` |
    | ``candidates`` | [A, 14] | ``hetgym.envs.MOVE_FEATURES``: the moves |
    | ``operator``, ``device`` | [A], [A] | with which operator each move begins, and where that goes; -1 for no move |
    | ``plan`` | [3] | ``hetgym.envs.PLAN_FEATURES``: makespan, best makespan, steps left |
    | ``operator_mask``, ``edge_mask``, ``device_mask`` | [N], [E], [D] | 1 where not padding |
    | ``action_mask`` | [A] | 1 where legal |

    With ``moves="turn"`` the column ``is_current`` marks the operator whose turn it is, and ``is_placed`` those that
    have had their turn.

    ``observation="candidates"`` contains only ``candidates``, ``devices``, ``plan`` and ``action_mask``, and
    ``observation="flat"`` the same as one ``Box``.

    ## Rewards
    The return of an episode is exactly ``1 - best / reference``, where ``best`` is the makespan of the best plan, the
    start included: +0.05 is 5 % shorter than the reference, HEFT's schedule for the same runtime.

    ``reward="dense"`` pays at each step by how much the best makespan has fallen, divided by the reference; the first
    reward also carries ``1 - start / reference``. ``reward="sparse"`` pays the whole sum at the end.
    ``reward="current"`` pays the change of the plan itself: the return is ``1 - final / reference``.

    ## Starting state
    A problem is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``; the plan is the one that ``start`` names, or ``options["schedule"]``.
    ``options["conditions"]`` is the seed of a random start and of all moves that are drawn.

    ## Episode end
    Terminated after ``steps`` steps; never truncated. The last ``info`` holds ``makespan`` (of the plan that counts),
    ``start`` and ``reference`` [s], ``slr``, ``speedup`` (over the best single device), ``schedule``
    (:class:`hetgym.Schedule`), ``reward_terms`` (they sum to the return) and ``replay`` (:class:`Replay`;
    :func:`hetgym.envs.replay` plays it again).

    Where a simulation needs a clock (links that serve several pairs of devices), moves are priced by a close estimate;
    the plan that counts is simulated, and the last reward corrects the difference.

    ## Arguments
    ```python
    import gymnasium as gym, hetgym

    env = gym.make("HetImprove-v0", graph="resnet50", platform="cpu-gpu", runtime="links")
    env = gym.make("HetImprove-v0", start="heft", accept="metropolis", steps=1000)
    env = gym.make("HetImprove-v0", moves=None)  # every operator and every device
    envs = gym.make_vec("HetImprove-v0", num_envs=64, observation="candidates")  # all lanes in one call
    ```
    <<problem sources>>

    Args:
        <<problem>>
        runtime: the simulated runtime, a preset's name or a :class:`hetgym.Runtime`.
        start: ``"random"``, a device drawn for each operator, in topological order; or the name of a scheduler.
        steps: length of an episode; by default two for each operator, with ``moves="turn"`` one.
        moves: number of moves that are offered; None offers every operator on every device, ``"turn"`` one operator
            on every device.
        tabu: number of steps for which an operator that was moved stays where it is.
        gains: true to price every move that is offered, for the feature ``makespan``; this takes most of the time of
            a step.
        accept: ``"always"``; ``"better"``, a move that does not shorten the plan is taken back; or ``"metropolis"``, a
            longer plan is kept with a probability that falls with the temperature. A move that is taken back
            costs a step.
        heat: first temperature of ``"metropolis"``, as a share of the start's makespan.
        cooling: last temperature over the first.
        memory: ``"ignore"`` or ``"mask"``.
        reward: ``"dense"``, ``"sparse"`` or ``"current"``.
        <<levels>>
        <<padding>>
        <<render mode>>

    <<end>>

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.workloads import textbook
    >>> env = gym.make("HetImprove-v0", problem=textbook("topcuoglu"), steps=100)
    >>> obs, info = env.reset(seed=0)
    >>> total, done = 0.0, False
    >>> while not done:
    ...     makespan = obs["candidates"][:, -1] + 100 * (1 - obs["action_mask"])
    ...     obs, reward, done, _, info = env.step(int(makespan.argmin()))
    ...     total += reward
    >>> info["makespan"] < info["reference"], abs(total - 1 + info["makespan"] / info["reference"]) < 1e-9
    (True, True)
    """


class HetImproveVectorEnv(LaneVectorEnv, scalar=HetImproveEnv):
    """Many episodes of :class:`HetImproveEnv` that step in one call; ``gym.make_vec`` makes it."""
