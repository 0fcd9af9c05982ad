"""HetSchedule-v0: place the operators of a dataflow graph on heterogeneous devices."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from hetgym.envs.core.arguments import ScalarArguments, VectorArguments, takes, whole
from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.scalar import LaneEnv
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.envs.dispatch.conditions import Conditions
from hetgym.envs.dispatch.lanes import DispatchLanes
from hetgym.envs.place.lanes import PlaceLanes
from hetgym.envs.place.problems import ProblemArguments
from hetgym.envs.place.rules import ScheduleRules
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.sim import Trace


@dataclass(frozen=True)
class HetScheduleArguments(Conditions, ScheduleRules, ProblemArguments, LaneArguments):
    """The arguments of HetSchedule-v0; :class:`HetScheduleEnv` describes them.

    Raises:
        ConfigError: an invalid value.
        UnknownName: a word that an argument does not know.
    """

    _: KW_ONLY
    mode: Literal["place", "dispatch"] = "place"
    max_operators: int | None = whole(None)
    max_edges: int | None = whole(None, least=0)
    max_devices: int | None = whole(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "place" and not (self.calm and self.tries == 0 and self.deadline == 0):
            raise ConfigError(
                "noise, jobs, changes, slow_downs, losses, objective, tries and deadline need mode='dispatch'"
            )

    def lanes(self, count: int) -> Lanes:
        """Make lanes of the environment.

        Args:
            count: number of lanes.

        Raises:
            ConfigError: sources of problems that exclude each other, or a size that is neither given nor known.
        """
        source, sparse = self.source(), self.reward == "sparse"
        known = source.padding()
        if known is not None:
            known = GraphPadding(known.operators * self.jobs, known.edges * self.jobs, known.devices)
        padding = GraphPadding.chosen(known, self.max_operators, self.max_edges, self.max_devices)
        if self.mode == "dispatch":
            return DispatchLanes(count, source, self, self, padding, self.observation, sparse)
        return PlaceLanes(count, source, self, padding, self.observation, sparse)


@dataclass(frozen=True)
class _Scalar(ScalarArguments, HetScheduleArguments):
    """The arguments of one episode at a time."""


@dataclass(frozen=True)
class _Vector(HetScheduleArguments, VectorArguments):
    """The arguments of many episodes side by side."""


def graph_view(problem: Problem, trace: Trace) -> Any:
    """A problem and its partial schedule as a networkx graph; see :meth:`HetScheduleEnv.graph_view`."""
    import networkx as nx

    view = nx.DiGraph(name=problem.name)
    for i, name in enumerate(problem.operator_names):
        device = int(trace.assignment[i])
        cost = dict(zip(problem.device_names, problem.cost[i].tolist(), strict=True))
        decided = {} if device < 0 else {"start": float(trace.start[i]), "finish": float(trace.finish[i])}
        where = None if device < 0 else problem.device_names[device]
        view.add_node(name, kind=problem.operator_kinds[i], cost=cost, device=where, **decided)
    for k in range(problem.num_edges):
        source, target = problem.operator_names[problem.edge_source[k]], problem.operator_names[problem.edge_target[k]]
        view.add_edge(source, target, bytes=float(problem.edge_bytes[k]))
    return view


class HetScheduleEnv(LaneEnv):
    """Place the operators of a dataflow graph, one by one, on heterogeneous devices.

    ## Description
    A deep-learning model is a graph of operators; a machine is a set of devices that run them at
    different speeds, with links of finite speed between them.

    With ``mode="place"`` operators come in the order of their upward rank (the order of HEFT). The agent
    chooses a device for each, and the operator starts there as HEFT for the chosen runtime would start it: in the
    first idle gap that is long enough, its inputs booked on links if transfers may wait. When all are placed, the
    schedule is simulated under the runtime, which gives its makespan. Choosing HEFT's devices gives HEFT's schedule,
    and a return of exactly 0.

    With ``mode="dispatch"`` the agent schedules online, while the simulated run goes on: whenever operators are
    ready, it commits one of them to a device, or waits. Data move when the decision is made. Run times
    may be noisy, further jobs may arrive, devices may slow down or be lost.

    ## Action space
    In ``"place"`` ``Discrete(max_devices)``: the device of the current operator. In ``"dispatch"``
    ``Discrete(candidates * max_devices + 1)``: action ``k * max_devices + d`` commits candidate k to device
    d, the last one waits until an operator finishes or arrives, or a device changes. Candidates are the
    ready operators of highest upward rank.

    Masked are devices that do not exist, cannot run the operator, or are lost; waiting when no event is due;
    and with ``memory="mask"`` devices whose capacity the weights placed there and the largest working set would
    surely exceed (if that leaves none, the one with the most room is legal). A masked or invalid action does
    not raise: it is replaced by the legal device on which the current operator (the first candidate) finishes
    first, the smaller number on ties, and ``info["illegal_actions"]`` counts it. The mask comes as
    ``obs["action_mask"]`` (int8), ``info["action_mask"]`` and :meth:`action_masks` (bool).

    ## Observation space
    With ``observation="graph"`` a ``Dict`` of fixed shapes, padded with zeros to ``N = max_operators``,
    ``E = max_edges`` and ``D = max_devices``; K is ``candidates``. Times are shares of the reference
    makespan, clipped to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``operators`` | [N, 12] | ``hetgym.envs.OPERATOR_FEATURES`` |
    | ``costs`` | [N, D] | run time of each operator on each device; 10 where it cannot run |
    | ``assignment`` | [N] | device of each operator, -1 while not decided |
    | ``edges`` | [2, E] | source and target of each edge |
    | ``edge_transfer`` | [E] | mean transfer time of each edge |
    | ``devices`` | [D, 4] or [D, 8] | ``hetgym.envs.DEVICE_FEATURES`` or ``DISPATCH_DEVICE_FEATURES`` |
    | ``links`` | [D, D] | time of an average transfer from device to device |
    | ``candidates`` | [D, 9] or [K D + 1, 13] | ``CANDIDATE_FEATURES`` or ``DISPATCH_CANDIDATE_FEATURES`` |
    | ``current`` | [1] | the operator to be placed; not in ``"dispatch"`` |
    | ``candidate_operators`` | [K] | the candidates, -1 where there are fewer; only in ``"dispatch"`` |
    | ``now`` | [1] | the time; only in ``"dispatch"`` |
    | ``operator_mask``, ``edge_mask``, ``device_mask`` | [N], [E], [D] | 1 where not padding and already known |
    | ``action_mask`` | [A] | 1 where legal |

    ``observation="candidates"`` contains only ``candidates``, ``devices``, ``action_mask`` and, in ``"dispatch"``,
    ``now``; it is several times as fast. ``observation="flat"`` is the same as one ``Box`` for plain MLP policies.
    :meth:`graph_view` gives the state as a networkx graph for inspection.

    ## Rewards
    The return of an episode is exactly ``1 - makespan / reference``: +0.05 is 5 % shorter. In ``"place"`` the
    reference is HEFT's schedule for the same runtime. In ``"dispatch"`` it is a run under the same noise,
    arrivals and changes in which the ready operator of highest upward rank always goes to the device of
    earliest estimated finish. With ``objective="job-time"`` the mean time that jobs take, from arrival to their last
    finish, stands in the place of the makespan here and in the candidates' columns, and candidates are the ready
    operators of the jobs with the least work left.

    ``reward="dense"`` pays at each step the decrease of a potential, divided by the
    reference. The potential is the reference before the first step; then a lower bound on the makespan given
    the decisions so far (proven in ``"place"`` under ``classic``, an estimate otherwise); at the end the makespan
    itself. ``reward="sparse"`` pays the whole sum at the end.

    ## Starting state
    A problem is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``. Nothing is placed. In ``"place"``, ``options["order"]`` gives another order of
    decisions. In ``"dispatch"``, ``options["problem"]`` may be a list of jobs, and ``options["conditions"]`` is the
    seed from which noise, arrivals and changes are drawn.

    ## Episode end
    Terminated when every operator is placed, or has run; never truncated. The last ``info`` holds
    ``makespan`` and ``reference`` [s], in ``"dispatch"`` also ``value``, that of the objective; ``slr``, ``speedup``
    (over the best single device), ``schedule``
    (:class:`hetgym.Schedule`), in ``"dispatch"`` ``trace`` (:class:`hetgym.sim.Trace`, the finished run; a fixed
    schedule moves its data earlier, so simulating ``schedule`` may give a shorter makespan), ``reward_terms``
    (they sum to the return) and ``replay`` (:class:`Replay`; :func:`hetgym.envs.replay` plays it again).

    ## Arguments
    ```python
    import gymnasium as gym, hetgym

    env = gym.make("HetSchedule-v0", graph="resnet50", platform="cpu-gpu")
    env = gym.make("HetSchedule-v0", mode="dispatch", runtime="links", noise=0.1, jobs=3)
    env = gym.make("hetgym:HetSchedule-v0")  # the same without importing hetgym first
    envs = gym.make_vec("HetSchedule-v0", num_envs=64, observation="candidates")  # all lanes in one call
    ```
    Problems come from one of ``problem`` (a Problem, a path, or a list), ``graph`` and ``platform``
    (objects, names or paths, or lists), ``suite`` (a name or path) or ``generator`` (a family's name
    or ``callable(rng) -> Problem``); without any, from a mix of random graphs of 30 to 80 operators
    on 4 devices.

    Args:
        problem: a Problem, a path, or a list of these.
        graph: a DataflowGraph, a zoo name or a path, or a list of these; needs ``platform``.
        platform: a Platform, a preset's name or a path, or a list of these; needs ``graph``.
        suite: name or path of a suite.
        generator: name of a family of random graphs, or ``callable(rng) -> Problem``, which needs the ``max_*``
            arguments.
        pool: number of problems that the generator makes, of which every episode draws one: episodes on a problem that
            was drawn before begin many times as fast. By default every episode has a new problem.
        pool_seed: seed of the pool; pools of different seeds share no problem, whatever the seeds of resets.
        pool_refresh: draws of a lane, one for each job of an episode, after which a new problem takes the place of the
            oldest one, so that training never runs out of new ones; counted from the lane's last seed. By default a
            pool keeps its problems.
        batch: batch size of graphs given by name.
        costs: cost model of graphs on platforms, or its name.
        decode: start times of the final placement: ``"insertion"`` (HEFT's rule), ``"append"``,
            ``"bottom-level"`` (insertion in the order of the placement's own bottom levels), or ``"best"`` of
            the three; ignored in ``"dispatch"``.
        runtime: the simulated runtime, a preset's name or a :class:`hetgym.Runtime`; ``"place"`` plans for it, too.
        completion: the heuristic that completes the schedule for the ``completion`` feature: ``"eft+oct"``, ``"eft"``
            or ``"off"``. It costs a roll-out for each action, which takes most of the time of a step. In
            ``"dispatch"`` there are two, one that commits operators as they become ready and one that commits them
            by rank; the better one counts. See also ``tries``.
        memory: ``"ignore"`` or ``"mask"``.
        mode: ``"place"`` or ``"dispatch"``.
        reward: ``"dense"`` or ``"sparse"``.
        observation: ``"graph"``, ``"candidates"`` or ``"flat"``.
        max_operators, max_edges, max_devices: padding; by default what the source needs.
        candidates: operators offered at a time; this and the following arguments are for ``"dispatch"``.
        noise: standard deviation of the logarithm of run times, drawn anew for each episode.
        jobs: problems drawn for an episode, on the machine of the first.
        gap: mean time from one job's arrival to the next, as a share of the first one's HEFT makespan.
        changes: :class:`hetgym.sim.SlowDown` and :class:`hetgym.sim.Loss` of every episode.
        slow_downs: slow-downs drawn for each episode, within the time of an undisturbed run.
        losses: losses drawn for each episode, within the time of an undisturbed run. A device is drawn only if every
            operator can run on another one that is left, so there may be fewer losses than asked for, or none.
        objective: ``"makespan"``, or ``"job-time"``: the mean over jobs of the time from arrival to the last finish.
        tries: changes tried before each decision, for each job that is left, to a plan for all operators that are
            left; fewer where these are more than 1024, and ten times as many before the first decision and when a job
            has arrived or a device was lost. To keep to the plan is a third roll-out behind ``completion`` and
            ``flow``. By default there is no plan.
        deadline: time that each job has from its arrival, over the makespan of HEFT for that job alone. At the end,
            ``info`` has ``miss_rate``, the share of jobs that ended later, and ``tardiness``, the mean time by which
            jobs were late [s]. 0, the default, for no deadlines.
        render_mode: ``"ansi"`` (text), ``"rgb_array"`` (a Gantt chart) or ``"human"`` (the text,
            printed after each step).

    Raises:
        ConfigError: an unknown argument or an invalid value; the message says which ones are valid.
        UnknownName: a word that an argument does not know.
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

    @takes(_Scalar)
    def __init__(self, arguments: _Scalar) -> None:
        LaneEnv.__init__(self, arguments.lanes(1), arguments.render_mode)

    def graph_view(self) -> Any:
        """The episode's state as a :class:`networkx.DiGraph`, for inspection.

        Returns:
            Operators as nodes by name, with ``kind``, ``cost`` (by device [s]) and ``device`` (a name, or None); those
            that are decided also have ``start`` and ``finish`` [s]. Edges have ``bytes``.

        Raises:
            ResetNeeded: there has been no reset.
        """
        return graph_view(self.problem, self.lanes.trace(0))  # type: ignore[attr-defined]


class HetScheduleVectorEnv(LaneVectorEnv):
    """Many episodes of :class:`HetScheduleEnv` that step in one call; ``gym.make_vec`` makes it.

    Args:
        num_envs: number of lanes.
        autoreset_mode: see :class:`~hetgym.envs.core.vector.LaneVectorEnv`.
        copy: true if observations are copies that the caller may keep; otherwise the next call overwrites them.
        render_mode: ``"ansi"`` or ``"rgb_array"``.

    All other arguments are those of :class:`HetScheduleEnv`.

    >>> import gymnasium as gym, hetgym
    >>> envs = gym.make_vec("HetSchedule-v0", num_envs=8, observation="candidates")
    >>> seen, infos = envs.reset(seed=0)
    >>> seen["candidates"].shape, infos["action_mask"].shape
    ((8, 4, 9), (8, 4))
    """

    @takes(_Vector)
    def __init__(self, arguments: _Vector) -> None:
        LaneVectorEnv.__init__(
            self, arguments.lanes(arguments.num_envs), arguments.autoreset_mode, arguments.copy, arguments.render_mode
        )
