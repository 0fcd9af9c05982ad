"""HetSchedule-v0: place the operators of a dataflow graph on heterogeneous devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.vector import AutoresetMode

from hetgym.envs.dispatch import Conditions, DispatchLanes
from hetgym.envs.lanes import Lanes
from hetgym.envs.observation import LEVELS, Padding
from hetgym.envs.place import PlaceLanes
from hetgym.envs.placement import Rules
from hetgym.envs.scalar import LaneEnv
from hetgym.envs.sources import problem_source
from hetgym.envs.vector import LaneVectorEnv
from hetgym.errors import ConfigError, unknown_name
from hetgym.sim import Loss, Runtime, SlowDown
from hetgym.sim.runtime import runtime as as_runtime

REWARDS = ("dense", "sparse")
MODES = ("place", "dispatch")


def lanes_of(
    count: int,
    problem: Any = None,
    *,
    graph: Any = None,
    platform: Any = None,
    suite: Any = None,
    generator: Any = None,
    batch: int = 1,
    costs: Any = "auto",
    mode: str = "place",
    decode: str = "insertion",
    runtime: str | Runtime = "classic",
    reward: str = "dense",
    completion: str = "eft+oct",
    memory: str = "ignore",
    observation: str = "graph",
    candidates: int = 8,
    noise: float = 0.0,
    jobs: int = 1,
    gap: float = 0.5,
    changes: Sequence[SlowDown | Loss] = (),
    slow_downs: int = 0,
    losses: int = 0,
    max_operators: int | None = None,
    max_edges: int | None = None,
    max_devices: int | None = None,
) -> Lanes:
    """Lanes of the environment; see :class:`HetScheduleEnv` for the arguments and what they raise."""
    for what, value, words in (
        ("mode", mode, MODES), ("reward", reward, REWARDS), ("observation", observation, LEVELS),
    ):  # fmt: skip
        if value not in words:
            raise unknown_name(what, value, words)
    rules = Rules(as_runtime(runtime), decode, completion, memory)
    source = problem_source(problem, graph, platform, suite, generator, batch, costs)
    conditions = Conditions(candidates, noise, jobs, gap, tuple(changes), slow_downs, losses)
    if mode == "place" and conditions != Conditions(candidates):
        raise ConfigError("noise, jobs, changes, slow_downs and losses need mode='dispatch'")
    known = source.padding()
    if known is not None:
        known = Padding(known.operators * jobs, known.edges * jobs, known.devices)
    padding = Padding.chosen(known, max_operators, max_edges, max_devices)
    if mode == "dispatch":
        return DispatchLanes(count, source, rules, conditions, padding, observation, reward == "sparse")
    return PlaceLanes(count, source, rules, padding, observation, reward == "sparse")


class HetScheduleEnv(LaneEnv):
    """Place the operators of a dataflow graph, one by one, on heterogeneous devices.

    ## Description
    A deep-learning model is a graph of operators; a machine is a set of devices that run them at
    different speeds, with links of finite speed between them. Operators come in the order of their
    upward rank (the order of HEFT); for each the agent names a device, and the operator starts there
    as HEFT would start it: in the first idle gap that is long enough. When all are placed, the
    schedule is simulated under the chosen runtime, and its makespan counts. Playing HEFT's devices
    gives HEFT's schedule, and a return of exactly 0.

    ## Action space
    ``Discrete(max_devices)``: the device of the current operator. Devices that do not exist in this
    problem or cannot run the operator are masked. A masked or senseless action does not raise: the
    legal device on which the operator finishes first (the smaller number on ties) is taken, and
    ``info["illegal_actions"]`` counts it. The mask comes as ``obs["action_mask"]`` (int8),
    ``info["action_mask"]`` and :meth:`action_masks` (bool).

    ## Observation space
    A ``Dict`` of fixed shapes, padded with zeros to ``N = max_operators``, ``E = max_edges`` and
    ``D = max_devices``. Times are shares of the reference makespan, clipped to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``operators`` | [N, 12] | ``hetgym.envs.OPERATOR_FEATURES`` |
    | ``costs`` | [N, D] | run time of each operator on each device; 10 where it cannot run |
    | ``assignment`` | [N] | device of each operator, -1 while not placed |
    | ``edges`` | [2, E] | source and target of each edge |
    | ``edge_transfer`` | [E] | mean transfer time of each edge |
    | ``devices`` | [D, 4] | ``hetgym.envs.DEVICE_FEATURES`` |
    | ``links`` | [D, D] | time of an average transfer from device to device |
    | ``candidates`` | [D, 9] | ``hetgym.envs.CANDIDATE_FEATURES``: what each action would lead to |
    | ``current`` | [1] | the operator to be placed |
    | ``operator_mask``, ``edge_mask``, ``device_mask`` | [N], [E], [D] | 1 where not padding |
    | ``action_mask`` | [D] | 1 where legal |

    ## Rewards
    The return of an episode is exactly ``1 - makespan / reference``, the reference being HEFT's
    schedule under the same runtime: +0.05 is 5 % shorter than HEFT. ``reward="dense"`` pays the
    fall of a potential at each step: the reference before the first, then a proven lower bound on
    the makespan of what is placed, at last the makespan itself; all divided by the reference.
    ``reward="sparse"`` pays the whole sum at the end.

    ## Starting state
    A problem is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``. Nothing is placed.

    ## Episode end
    Terminated when every operator is placed; never truncated. The last ``info`` holds ``makespan``
    and ``reference`` [s], ``slr``, ``speedup`` (over the best single device), ``schedule``
    (:class:`hetgym.Schedule`), ``reward_terms`` (they sum to the return) and ``replay``
    (:class:`Replay`; :func:`hetgym.envs.replay` plays it again).

    ## Arguments
    ```python
    import gymnasium as gym, hetgym
    env = gym.make("HetSchedule-v0", graph="resnet50", platform="cpu-gpu")
    env = gym.make("hetgym:HetSchedule-v0")     # the same without importing hetgym first
    ```
    Problems come from one of ``problem`` (a Problem, a path, or a list), ``graph`` and ``platform``
    (objects, names or paths, or lists), ``suite`` (a name or path) or ``generator`` (a family's name
    or ``callable(rng) -> Problem``); without any, from a mix of random graphs of 30 to 80 operators
    on 4 devices.

    Args:
        problem, graph, platform, suite, generator: the source of problems, see above.
        batch: batch size of graphs given by name.
        costs: cost model of graphs on platforms.
        mode: ``"place"``.
        decode: start times of the final placement: ``"insertion"`` (HEFT's rule), ``"append"``,
            ``"bottom-level"`` (insertion in the order of the placement's own bottom levels), or
            ``"best"`` of the three.
        runtime: the simulated runtime, a preset's name or a :class:`hetgym.Runtime`.
        reward: ``"dense"`` or ``"sparse"``.
        completion: what finishes the job in the ``completion`` feature: ``"eft+oct"``, ``"eft"`` or
            ``"off"``. A roll-out for each device and step takes most of the time of a step.
        max_operators, max_edges, max_devices: padding; by default what the source needs.
        render_mode: ``"ansi"`` (text), ``"rgb_array"`` (a Gantt chart) or ``"human"`` (the text,
            printed after each step).

    Raises:
        ConfigError, UnknownName: an argument that does not fit; the message says which do.
        ProblemError: a problem that exceeds the padding.

    ## Version history
    - v0: first release.

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.workloads import textbook
    >>> env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"))
    >>> obs, info = env.reset(seed=0)
    >>> total, done = 0.0, False
    >>> while not done:
    ...     eft = obs["candidates"][:, 3]
    ...     obs, reward, done, _, info = env.step(int(eft.argmin()))
    ...     total += reward
    >>> info["makespan"], abs(total) < 1e-9
    (80.0, True)
    """

    def __init__(self, problem: Any = None, *, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__(lanes_of(1, problem, **arguments), render_mode)


class HetScheduleVectorEnv(LaneVectorEnv):
    """Many episodes of :class:`HetScheduleEnv` that step in one call; ``gym.make_vec`` makes it.

    Args:
        num_envs: number of lanes.
        problem, arguments: as for :class:`HetScheduleEnv`.
        autoreset_mode, copy, render_mode: see :class:`~hetgym.envs.vector.LaneVectorEnv`.

    >>> import gymnasium as gym, hetgym
    >>> envs = gym.make_vec("HetSchedule-v0", num_envs=8, observation="candidates")
    >>> seen, infos = envs.reset(seed=0)
    >>> seen["candidates"].shape, infos["action_mask"].shape
    ((8, 4, 9), (8, 4))
    """

    def __init__(
        self, num_envs: int = 1, problem: Any = None, *, autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True, render_mode: str | None = None, **arguments: Any,
    ) -> None:  # fmt: skip
        super().__init__(lanes_of(num_envs, problem, **arguments), autoreset_mode, copy, render_mode)
