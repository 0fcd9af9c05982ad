"""HetSplit-v0: split the operators of a dataflow graph so that several devices share them."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.padding import GraphSizes
from hetgym.envs.core.scalar import LaneEnv
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.envs.split.lanes import SplitLanes
from hetgym.envs.split.problems import GraphArguments
from hetgym.envs.split.rules import SplitRules


@dataclass(frozen=True)
class HetSplitArguments(GraphSizes, SplitRules, GraphArguments, LaneArguments):
    """The arguments of HetSplit-v0; :class:`HetSplitEnv` describes them."""

    def _lanes(self, count: int) -> Lanes:
        source = self.source()
        padding = self.padding(source.padding())
        return SplitLanes(count, source, self, padding, self.observation, self.reward == "sparse", self.batch)


class HetSplitEnv(LaneEnv, arguments=HetSplitArguments):
    """Split the key operators of a dataflow graph, one by one, so that several devices share each.

    ## Description
    Where one operator takes most of the time, placing whole operators leaves devices idle. An operator that is split
    into parts can run on several devices at once, which pays if it saves more time than scattering operands and
    gathering results costs. The agent decides on the operators that take longest, each on its fastest device, in
    descending order of that time. It leaves each whole or picks an entry of a menu: an axis, a number of parts, and
    equal parts or parts proportional to the speeds of the devices. The graph is rewritten with scatter, gather and sum
    operators; where neighbours are split into the same parts, these cancel, and the parts stay where they are. The cost
    model prices parts at their own shapes. An inner scheduler, HEFT by default, then places the graph.

    ## Action space
    ``Discrete(A)``: 0 leaves the current operator whole; the others are the entries of
    :func:`hetgym.envs.split.menu.menu`, ``env.unwrapped.lanes.menu[action]``. A choice is masked if it

    - is not supported by the operator: convolutions and products can be split by batch, output channels,
      rows and, unless fused, the reduction; see :func:`hetgym.graph.transforms.split`;
    - does not divide the axis: equal parts must have exactly the same length (unless ``divisible=False``), in
      whole groups and in multiples of ``multiple``; proportional parts must differ from the equal ones;
    - has more parts than the platform has devices that can run the operator;
    - gives a part less time than ``granularity``, or makes a part that no device can run;
    - exceeds a device's memory by more than the graph without the split, with ``memory="mask"``;
    - leaves no schedule, with an inner scheduler that keeps within memory.

    <<illegal actions>>

    ## Observation space
    A ``Dict`` of fixed shapes, padded with zeros to ``N = max_operators``, ``E = max_edges`` and
    ``D = max_devices``. Times are shares of the reference makespan, clipped to [0, 10]. Operators and
    edges are those of the graph before any split.

    | key | shape | what |
    |---|---|---|
    | ``operators`` | [N, 20] | ``hetgym.envs.SPLIT_OPERATOR_FEATURES`` |
    <<graph rows>>
    | ``devices`` | [D, 4] | ``hetgym.envs.SPLIT_DEVICE_FEATURES`` |
    | ``candidates`` | [A, 19] | ``hetgym.envs.SPLIT_CANDIDATE_FEATURES``: what each action means |
    | ``operator`` | [20] | the row of the current operator; 0 at the end |
    | ``makespan`` | [1] | of the graph as split so far |
    | ``current`` | [1] | the operator to be decided on |
    | ``operator_mask``, ``edge_mask``, ``device_mask`` | [N], [E], [D] | 1 where not padding |
    | ``action_mask`` | [A] | 1 where legal |

    ``observation="candidates"`` shows ``candidates``, ``operator``, ``devices``, ``makespan`` and
    ``action_mask``; ``observation="flat"`` the same as one vector, in this order.

    ## Rewards
    The return of an episode is exactly ``1 - makespan / reference``: +0.05 is 5 % shorter. The reference is
    the makespan of the unsplit graph under the same inner scheduler and runtime. ``reward="dense"`` pays at
    each step the decrease of a potential: the makespan of the graph as split so far, divided by the
    reference. ``reward="sparse"`` pays the whole sum at the end.

    ## Starting state
    A graph and a platform are drawn from the source with the environment's generator.
    ``reset(options={"graph": …, "platform": …})`` forces one or both, as objects, names or paths; the other is drawn.
    No operator is split.

    ## Episode end
    Terminated when all key operators are decided on; never truncated. A graph in which no operator can be
    split has one decision, to leave its longest operator whole. The last ``info`` holds ``makespan``
    and ``reference`` [s], ``speedup`` (over the best single device, unsplit), ``split_graph``,
    ``split_problem`` (that graph on the platform), ``schedule`` (of that problem), ``choices`` (by name
    of the operator), ``peak_memory`` of each device and ``memory_excess`` [byte], ``reward_terms`` (they
    sum to the return) and ``replay`` (:class:`Replay`; :func:`hetgym.envs.replay` plays it again).

    ## Speed
    A step puts the split graph together, prices and schedules it in compiled code, in some twenty microseconds on
    graphs of 60 operators. It takes one to two milliseconds with an inner scheduler other than HEFT, a runtime other
    than the classic model or ``memory="mask"``. Leaving an operator whole costs less; the first split of an
    operator by an entry of the menu costs more, and a new graph takes a millisecond more for each key operator.
    ``split_graph`` and ``split_problem`` are made when one of their attributes is first read. ``lookahead``,
    ``completion``, ``memory="mask"`` and inner schedulers that keep within memory try every choice: a step then costs
    as many evaluations as there are legal choices.

    ## Arguments
    ```python
    import gymnasium as gym, hetgym
    env = gym.make("HetSplit-v0", graph="vgg19", platform="cpu-gpu-balanced", fused=True, batch=8)
    env = gym.make("hetgym:HetSplit-v0")     # the same without importing hetgym first
    ```
    Graphs come from ``graph`` and ``platform`` (objects, names or paths, or lists; every reset
    draws one combination) or ``generator``; if neither is given, from small random networks on machines of two
    or three accelerators (:class:`hetgym.envs.split.networks.RandomNetworks`).

    Args:
        <<graph>>
        generator: ``callable(rng) -> (graph, platform)``; needs the ``max_*`` arguments.
        <<pool>>
        batch: batch size of graphs given by name; by default the one that a model file fixes, else 1.
        fused: true to fuse graphs first (:func:`hetgym.graph.transforms.fuse`).
        costs: cost model, or the name of one.
        scheduler: name of the inner scheduler, see :func:`hetgym.baselines.names`.
        runtime: the simulated runtime, a preset's name or a :class:`hetgym.Runtime`.
        key_operators: largest number of decisions in an episode.
        axes: axes of the menu, out of ``"batch"``, ``"output"``, ``"reduction"`` and ``"spatial"``.
        ways: numbers of parts of the menu: a list, or the largest; by default 2 to ``max_devices``.
        parts: rules of the menu for lengths of parts, out of ``"equal"``, ``"proportional"`` and ``"sixteenths"``: two
            parts in the ratios 15:1, 14:2, … 9:7.
        granularity: least time that a part takes on its fastest device, as a share of the reference.
        multiple: lengths of parts are multiples of this, except for the last proportional part.
        divisible: true if equal parts must have exactly the same length; otherwise 13 rows become 6 and 7.
        memory: ``"ignore"``, or ``"mask"`` to mask choices whose schedule exceeds a device's memory by
            more than the graph as split so far, so that a graph that fits at first fits to the end.
        lookahead: true if ``candidates`` hold the makespan after each choice.
        completion: true if ``candidates`` hold the makespan after each choice with all later operators split by
            the *pattern*: the one entry of the menu that gives the least makespan if every key operator that
            allows it is split by it. Between neighbours that are split into the same parts, scattering and
            gathering cancel, so splits that do not pay alone often pay together.
        <<common>>
        <<padding>>
        render_mode: ``"ansi"`` (text), ``"rgb_array"`` (a Gantt chart of the current schedule) or
            ``"human"`` (the text, printed after each step).

    Raises:
        ConfigError, UnknownName: an invalid argument; the message says which ones are valid.
        ProblemError: a graph on a platform that exceeds the padding.

    ## Version history
    - v0: first release.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetSplit-v0", lookahead=True)
    >>> obs, info = env.reset(seed=4)
    >>> total, done = 0.0, False
    >>> while not done:
    ...     after = obs["candidates"][:, -1] + 10 * (1 - obs["action_mask"])
    ...     obs, reward, done, _, info = env.step(int(after.argmin()))
    ...     total += reward
    >>> abs(total - (1 - info["makespan"] / info["reference"])) < 1e-9, total >= 0
    (True, True)
    """


class HetSplitVectorEnv(LaneVectorEnv, scalar=HetSplitEnv):
    """Many episodes of :class:`HetSplitEnv` that step in one call; ``gym.make_vec`` makes it."""
