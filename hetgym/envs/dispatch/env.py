"""HetDispatch-v0: schedule a dataflow graph on heterogeneous devices while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.padding import GraphPadding, GraphSizes
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.envs.dispatch.conditions import Conditions
from hetgym.envs.dispatch.lanes import DispatchLanes
from hetgym.envs.place.problems import ProblemArguments
from hetgym.envs.place.rules import ScheduleRules
from hetgym.envs.place.scheduling import ScheduleEnv


@dataclass(frozen=True)
class HetDispatchArguments(GraphSizes, Conditions, ScheduleRules, ProblemArguments, LaneArguments):
    """The arguments of HetDispatch-v0; :class:`HetDispatchEnv` describes them."""

    job_times = True
    elsewhere = {
        "decode": "HetSchedule-v0 has it",
        "memory": "HetSchedule-v0 has it",
        "target": "HetSchedule-v0 has it",
        "mode": "HetDispatch-v0 schedules during the run, HetSchedule-v0 places before it",
    }

    def _lanes(self, count: int) -> Lanes:
        source = self.source()
        known = source.padding()
        if known is not None:
            known = GraphPadding(known.operators * self.jobs, known.edges * self.jobs, known.devices)
        padding = self.padding(known)
        return DispatchLanes(count, source, self, self, padding, self.observation, self.reward == "sparse")


class HetDispatchEnv(ScheduleEnv, arguments=HetDispatchArguments):
    """Schedule the operators of a dataflow graph on heterogeneous devices while they run.

    ## Description
    <<machine>>

    The agent schedules online, during the simulated run: whenever operators are ready, it commits one of them to
    a device, or waits. The operator's inputs are sent when the decision is made. Run times may be noisy, further jobs
    may arrive, and devices may slow down or be lost. :class:`HetScheduleEnv` places all operators before the run.

    ## Action space
    ``Discrete(candidates * max_devices + 1)``: action ``k * max_devices + d`` commits candidate k to device d; the last
    one waits until an operator finishes or arrives, or a device changes. Candidates are the first ready operators by
    ``rule``. ``info["hidden"]`` is the number of ready operators that are not offered.

    Devices that do not exist, cannot run the operator, or are lost are masked, and so is waiting when no event is due.
    <<illegal actions>>

    ## Observation space
    ``observation="graph"`` gives a ``Dict`` of fixed shapes, padded with zeros to ``N = max_operators``,
    ``E = max_edges`` and ``D = max_devices``; K is ``candidates``. Times are shares of the reference's value, clipped
    to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``operators`` | [N, 12] | ``hetgym.envs.OPERATOR_FEATURES`` |
    <<graph rows>>
    | ``assignment`` | [N] | device of each operator, -1 while not decided |
    | ``devices`` | [D, 8] | ``hetgym.envs.DISPATCH_DEVICE_FEATURES`` |
    | ``candidates`` | [K D + 1, 13] | ``hetgym.envs.DISPATCH_CANDIDATE_FEATURES``: what each action would lead to |
    | ``candidate_operators`` | [K] | the candidates, -1 where there are fewer |
    | ``now`` | [1] | the time |
    | ``operator_mask``, ``edge_mask``, ``device_mask`` | [N], [E], [D] | 1 where not padding and already known |
    | ``action_mask`` | [K D + 1] | 1 where legal |

    ``observation="candidates"`` contains only ``candidates``, ``devices``, ``action_mask`` and ``now``; it is several
    times as fast. ``observation="flat"`` gives the same values as one ``Box``, for plain MLP policies.
    :meth:`graph_view` gives the state as a networkx graph for inspection.

    ## Rewards
    The return of an episode is exactly ``1 - value / reference``: +0.05 is 5 % shorter. The value is the makespan, or
    with ``objective="job-time"`` the mean flow time of jobs, from arrival to their last finish, weighted by
    ``weights``; the candidates' columns estimate the same. The reference is the value of a run under the same noise,
    arrivals and changes. In that run the first ready operator always goes to the device of earliest estimated finish.
    With a ``rule`` it goes there only if the device is idle, so that later jobs may still come first;
    :func:`hetgym.agents.in_turn` is an agent that does so.

    ``reward="dense"`` pays at each step the decrease of a potential, divided by the reference. The potential is the
    reference before the first step; then an estimated lower bound on the value given the decisions so far; at the end
    the value itself. ``reward="sparse"`` pays the whole sum at the end.

    ## Starting state
    A problem is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``, which may be a list of jobs. ``options["conditions"]`` is the seed from which
    noise, arrivals and changes are drawn; ``options["gap"]`` is the mean time between arrivals [s]. The options
    ``arrivals``, ``release`` and ``weights`` are lists, which come before the arguments. No operator is committed.

    ## Episode end
    Terminated when every operator has run; never truncated. The last ``info`` holds ``makespan``, ``flow_time`` and
    ``weighted_flow_time`` (means over the jobs), ``value`` and ``reference`` [s], ``jobs`` (arrival, end and weight of
    each), ``optimum`` (where the problem is a job shop of JSPLIB that is solved), ``slr``, ``speedup`` (over the best
    single device, without noise, arrivals and changes), ``schedule`` (:class:`hetgym.Schedule`), ``trace``
    (:class:`hetgym.sim.Trace`, the finished run; a fixed schedule moves its data earlier, so simulating ``schedule``
    may give a shorter makespan), ``reward_terms`` (they sum to the return) and ``replay`` (:class:`Replay`;
    :func:`hetgym.envs.replay` plays it again).

    ## Arguments
    ```python
    import gymnasium as gym, hetgym

    env = gym.make("HetDispatch-v0", graph="resnet50", platform="cpu-gpu", runtime="links", noise=0.1, jobs=3)
    env = gym.make("HetDispatch-v0", jobs=1000, load=0.7, rule="srpt", objective="job-time")  # a stream of jobs
    env = gym.make("hetgym:HetDispatch-v0")  # the same without importing hetgym first
    envs = gym.make_vec("HetDispatch-v0", num_envs=64, observation="candidates")  # all lanes in one call
    ```
    <<problem sources>>

    Args:
        <<problem>>
        runtime: the simulated runtime, a preset's name or a :class:`hetgym.Runtime`.
        completion: the heuristic that completes the run for the ``completion`` feature: ``"eft+oct"``, ``"eft"`` or
            ``"off"``. It costs two roll-outs for each action, which take most of the time of a step: one commits
            operators as they become ready, one by rank; the feature is the better result. See also ``tries``.
        <<common>>
        <<padding>>
        candidates: operators offered at a time; by default 8, or one for each job of a job shop.
        noise: standard deviation of the logarithm of run times, drawn anew for each episode.
        jobs: problems drawn for an episode, on the machine of the first. A single problem has a job for each connected
            component of its graph.
        gap: mean time from one job's arrival to the next, as a multiple of HEFT's mean makespan for
            the source's problems.
        load: in place of a gap, the mean work of the source's problems over the mean time between arrivals. The work
            of a problem is the sum of mean run times, shared out among all devices; beyond 1 the queue grows.
        arrivals: in place of both, the time at which each job arrives [s]: a list, a file of numbers, or
            ``callable(rng, jobs)`` that makes such a list for each episode.
        release: in place of these, the time from which each operator may be committed [s]: a list, or
            ``callable(rng, operators)``. A job arrives with its first operator.
        weights: weight of each job: a list, or ``callable(rng, jobs)``; by default all are equal.
        rule: the dispatching rule by which operators are offered and the reference serves them: ``"rank"``, highest
            upward rank; ``"fifo"``, the job that arrived first, then what has been ready longest; ``"spt"``, shortest
            run time; ``"mwkr"`` and ``"mor"``, most work or most operators remaining in the job; ``"wspt"``, the job
            with the least work for its weight; ``"srpt"``, the job with the least work left; ``"fair"``, the job with
            the fewest operators under way for its weight. By default ``"rank"``, or ``"srpt"`` for ``"job-time"``, and
            the reference does not wait for idle devices.
        changes: the :class:`hetgym.sim.SlowDown` and :class:`hetgym.sim.Loss` objects of every episode.
        slow_downs: slow-downs drawn for each episode, within the time of an undisturbed run.
        losses: losses drawn for each episode, within the time of an undisturbed run. A device is drawn only if every
            operator can run on another one that is left, so there may be fewer losses than asked for, or none.
        objective: ``"makespan"``; ``"job-time"``, the mean over jobs of the time from arrival to the last finish; or
            one of energy and rent, see :class:`HetScheduleEnv`.
        tries: number of changes, for each job left, that are tried before each decision on a plan for all operators
            left. Fewer are tried if more than 1024 operators are left, and ten times as many before the first
            decision and when a job has arrived or a device was lost. A third roll-out behind ``completion`` and
            ``flow`` follows the plan. Off by default.
        deadline: time that each job has from its arrival, as a multiple of HEFT's makespan for that job alone. At the
            end, ``info`` has ``miss_rate``, the share of jobs that ended later, and ``tardiness``, the mean time by
            which jobs were late [s]. 0, the default, sets no deadlines.
        <<render mode>>

    <<end>>

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.workloads import textbook
    >>> env = gym.make("HetDispatch-v0", problem=textbook("topcuoglu"), completion="off")
    >>> obs, info = env.reset(seed=0)
    >>> total, done = 0.0, False
    >>> while not done:
    ...     finish = obs["candidates"][:, 3] + 10 * (1 - obs["action_mask"])
    ...     obs, reward, done, _, info = env.step(int(finish[:-1].argmin()))  # never waits
    ...     total += reward
    >>> abs(total - (1 - info["makespan"] / info["reference"])) < 1e-9
    True
    """


class HetDispatchVectorEnv(LaneVectorEnv, scalar=HetDispatchEnv):
    """Many episodes of :class:`HetDispatchEnv` that step in one call; ``gym.make_vec`` makes it."""
