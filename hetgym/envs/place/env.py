"""HetSchedule-v0: place the operators of a dataflow graph on heterogeneous devices."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hetgym.envs.core.lanes import LaneArguments, Lanes
from hetgym.envs.core.padding import GraphSizes
from hetgym.envs.core.vector import LaneVectorEnv
from hetgym.envs.dispatch.conditions import Conditions
from hetgym.envs.place.lanes import PlaceLanes
from hetgym.envs.place.problems import ProblemArguments
from hetgym.envs.place.rules import PlaceRules
from hetgym.envs.place.scheduling import ScheduleEnv


@dataclass(frozen=True)
class HetScheduleArguments(GraphSizes, PlaceRules, ProblemArguments, LaneArguments):
    """The arguments of HetSchedule-v0; :class:`HetScheduleEnv` describes them."""

    elsewhere = {field.name: "HetDispatch-v0 has it" for field in fields(Conditions)} | {
        "mode": "HetSchedule-v0 places before the run, HetDispatch-v0 schedules during it"
    }

    def _lanes(self, count: int) -> Lanes:
        source = self.source()
        padding = self.padding(source.padding())
        return PlaceLanes(count, source, self, padding, self.observation, self.reward == "sparse")


class HetScheduleEnv(ScheduleEnv, arguments=HetScheduleArguments):
    """Place the operators of a dataflow graph, one by one, on heterogeneous devices.

    ## Description
    <<machine>>

    Operators come in the order of their upward rank (the order of HEFT). The agent chooses a device for each. The
    operator starts there as HEFT for the chosen runtime would start it: in the first idle gap that is long enough. If
    transfers may wait, its inputs are booked on links. When all operators are placed, the schedule is simulated under
    the runtime, which gives its makespan. Choosing HEFT's devices gives HEFT's schedule, and a return of exactly 0.
    :class:`HetDispatchEnv` schedules during the run.

    ## Action space
    ``Discrete(max_devices)``: the device of the current operator.

    Devices that do not exist or cannot run the operator are masked. ``memory="mask"`` also masks those whose capacity
    the weights placed there plus the largest working set would surely exceed; if none is left, the device with the
    most room is legal.

    ``target`` names the program that is to run the placement, and masks the devices on which it could not. Layers stay
    whole: the first operator of a layer decides for all of it. Each GPU takes consecutive layers; the CPU takes the
    first, the last or none, depending on the program. ``"llama.cpp"`` may have all experts of a layer on the CPU. It
    and ``"ollama"`` keep everything before the layers there, such as the table of words. ``"accelerate"`` keeps a head
    that reads the table of words on its device, and the CPU, from which it copies weights to a GPU at each use, has no
    layers. Other operators outside layers share the device of the last layer that they read from or, if they read from
    none, of the first layer that reads from them. Every accelerator is taken for a GPU, and layers are recognised by
    names of operators such as ``layers.3.self_attn.q_proj``. The masks can be followed to the end wherever all devices
    run all operators. If the program's devices cannot run an operator, all that can are legal, and the program cannot
    run this placement. The reference, the bound and the completion ignore the target.
    <<illegal actions>>

    ## Observation space
    ``observation="graph"`` gives a ``Dict`` of fixed shapes, padded with zeros to ``N = max_operators``,
    ``E = max_edges`` and ``D = max_devices``. Times are shares of the reference makespan, clipped to [0, 10].

    | key | shape | what |
    |---|---|---|
    | ``operators`` | [N, 12] | ``hetgym.envs.OPERATOR_FEATURES`` |
    <<graph rows>>
    | ``assignment`` | [N] | device of each operator, -1 while not decided |
    | ``devices`` | [D, 4] | ``hetgym.envs.DEVICE_FEATURES`` |
    | ``candidates`` | [D, 9] | ``hetgym.envs.CANDIDATE_FEATURES``: what each action would lead to |
    | ``current`` | [1] | the operator to be placed |
    | ``operator_mask``, ``edge_mask``, ``device_mask`` | [N], [E], [D] | 1 where not padding |
    | ``action_mask`` | [D] | 1 where legal |

    ``observation="candidates"`` contains only ``candidates``, ``devices`` and ``action_mask``; it is several times as
    fast. ``observation="flat"`` gives the same values as one ``Box``, for plain MLP policies.
    :meth:`graph_view` gives the state as a networkx graph for inspection.

    ## Rewards
    The return of an episode is exactly ``1 - makespan / reference``: +0.05 is 5 % shorter. The reference is HEFT's
    schedule for the same runtime.

    ``reward="dense"`` pays at each step the decrease of a potential, divided by the reference. The potential is the
    reference before the first step; then a lower bound on the makespan given the decisions so far (proven under
    ``classic``, an estimate otherwise); at the end the makespan itself. ``reward="sparse"`` pays the whole sum at the
    end.

    ## Starting state
    A problem is drawn from the source with the environment's generator, or forced with
    ``reset(options={"problem": …})``. No operator is placed. ``options["order"]`` gives another order of decisions.

    ## Episode end
    Terminated when every operator is placed; never truncated. The last ``info`` holds ``makespan`` and ``reference``
    [s], ``slr``, ``speedup`` (over the best single device), ``schedule`` (:class:`hetgym.Schedule`), ``reward_terms``
    (they sum to the return) and ``replay`` (:class:`Replay`; :func:`hetgym.envs.replay` plays it again).

    ## Arguments
    ```python
    import gymnasium as gym, hetgym

    env = gym.make("HetSchedule-v0", graph="resnet50", platform="cpu-gpu")
    env = gym.make("HetSchedule-v0", suite="quick", runtime="links", decode="best")
    env = gym.make("HetSchedule-v0", graph="llama-3-8b", platform="cpu-2gpu-nvlink", target="llama.cpp")
    env = gym.make("hetgym:HetSchedule-v0")  # the same without importing hetgym first
    envs = gym.make_vec("HetSchedule-v0", num_envs=64, observation="candidates")  # all lanes in one call
    ```
    <<problem sources>>

    Args:
        <<problem>>
        decode: start times of the final placement: ``"insertion"`` (HEFT's rule), ``"append"``,
            ``"bottom-level"`` (insertion in the order of the placement's own bottom levels), or ``"best"``, the best
            of the three.
        runtime: the simulated runtime, a preset's name or a :class:`hetgym.Runtime`; operators are placed for it, too.
        completion: the heuristic that completes the schedule for the ``completion`` feature: ``"eft+oct"``, ``"eft"``
            or ``"off"``. It costs a roll-out for each action, which takes most of the time of a step.
        memory: ``"ignore"`` or ``"mask"``.
        target: the program that is to run the placement: ``"llama.cpp"``, ``"ollama"``, ``"vllm"``, ``"accelerate"``,
            ``"onnxruntime"``, ``"pipelining"`` or ``"megatron"``. By default any placement is legal.
        objective: ``"makespan"``; or ``"energy"``, ``"cost"`` or weights such as ``"makespan=1,energy=1"``, see
            :func:`hetgym.sim.objective`. Then the reward is 0 until the end, where it is one minus the objective
            relative to HEFT's plan; ``info`` also holds ``objective``, that ratio, ``energy`` [J] and ``cost``.
        <<common>>
        <<padding>>
        <<render mode>>

    <<end>>

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


class HetScheduleVectorEnv(LaneVectorEnv, scalar=HetScheduleEnv):
    """Many episodes of :class:`HetScheduleEnv` that step in one call; ``gym.make_vec`` makes it."""
