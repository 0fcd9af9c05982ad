"""HetSchedule-v0: place the operators of a dataflow graph on heterogeneous devices."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from hetgym._types import BoolArray
from hetgym.envs import rendering
from hetgym.envs.observation import Encoder, Observation, Padding, observation_space
from hetgym.envs.placement import Context, Episode, Rules, prepare
from hetgym.envs.replays import Replay
from hetgym.envs.sources import as_problem, problem_source
from hetgym.errors import ConfigError, unknown_name
from hetgym.problem import Problem
from hetgym.sim import Runtime
from hetgym.sim.runtime import runtime as as_runtime

REWARDS = ("dense", "sparse")
MODES = ("place",)
_REMEMBERED = 64  # contexts kept, so that a small set of problems is prepared only once


class HetScheduleEnv(gym.Env[Observation, np.int64]):
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

    metadata = {"render_modes": ["ansi", "rgb_array", "human"], "render_fps": 4}

    def __init__(
        self,
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
        max_operators: int | None = None,
        max_edges: int | None = None,
        max_devices: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        for what, value, known in (("mode", mode, MODES), ("reward", reward, REWARDS)):
            if value not in known:
                raise unknown_name(what, value, known)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown_name("render mode", render_mode, self.metadata["render_modes"])
        self.rules = Rules(as_runtime(runtime), decode, completion)
        self.source = problem_source(problem, graph, platform, suite, generator, batch, costs)
        self.padding = _padding(self.source.padding(), max_operators, max_edges, max_devices)
        self.reward = reward
        self.render_mode = render_mode
        self.observation_space: spaces.Dict = observation_space(self.padding)  # type: ignore[assignment]
        self.action_space = spaces.Discrete(self.padding.devices)
        self._encoders: OrderedDict[str, Encoder] = OrderedDict()
        self._encoder: Encoder | None = None
        self._episode: Episode | None = None
        self._seed: int | None = None
        self._actions: list[int] = []
        self._illegal = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of the draw of this and later problems.
            options: ``{"problem": …}`` forces a Problem or a file.

        Raises:
            ConfigError: an unknown option.
            ProblemError: the problem exceeds the padding.
        """
        super().reset(seed=seed)
        unknown = set(options or {}) - {"problem"}
        if unknown:
            raise ConfigError(f"reset has no option {min(unknown)!r}; known: 'problem'")
        forced = (options or {}).get("problem")
        problem = self.source.draw(self.np_random) if forced is None else as_problem(forced)
        self._encoder = self._prepared(problem)
        self._episode = Episode(self._encoder.context, self.rules)
        self._seed, self._actions, self._illegal = seed, [], 0
        if self.render_mode == "human":
            self.render()
        return self._encoder.encode(self._episode), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place the current operator.

        Raises:
            ResetNeeded: no episode is running.
        """
        episode, encoder = self._episode, self._encoder
        if episode is None or encoder is None or episode.over:
            raise ResetNeeded("call reset() before step(): no episode is running")
        device = _as_device(action)
        self._actions.append(device)
        if not (0 <= device < len(episode.legal) and episode.legal[device]):
            self._illegal += 1
            device = episode.fallback()
        fall, reference = episode.place(device), episode.context.reference
        gain = fall / reference if reference > 0 else 0.0
        if self.reward == "sparse":
            gain = self._return() if episode.over else 0.0
        if self.render_mode == "human":
            self.render()
        return encoder.encode(episode), gain, episode.over, False, self._info()

    def action_masks(self) -> BoolArray:
        """[max_devices] legal actions, as sb3-contrib's MaskablePPO asks for them.

        Raises:
            ResetNeeded: there has been no reset.
        """
        episode = self._running()
        mask = np.zeros(self.padding.devices, np.bool_)
        mask[: len(episode.legal)] = episode.legal
        return mask

    def render(self) -> Any:
        """A frame in the render mode: text, [540, 960, 3] pixels, or None after printing.

        Raises:
            ResetNeeded: there has been no reset.
            MissingExtra: matplotlib is not installed.
        """
        if self.render_mode is None:
            gym.logger.warn("render() does nothing: pass render_mode= to gym.make")
            return None
        episode = self._running()
        if self.render_mode == "rgb_array":
            return rendering.rgb_array(episode)
        text = rendering.ansi(episode)
        if self.render_mode == "human":
            print(text, flush=True)
            return None
        return text

    def _running(self) -> Episode:
        if self._episode is None:
            raise ResetNeeded("call reset() first: there is no episode")
        return self._episode

    def _prepared(self, problem: Problem) -> Encoder:
        """The encoder of a problem, from memory if it was met before."""
        key = problem.digest
        if key in self._encoders:
            self._encoders.move_to_end(key)
        else:
            self.padding.check(problem)
            self._encoders[key] = Encoder(prepare(problem, self.rules), self.padding)
            if len(self._encoders) > _REMEMBERED:
                self._encoders.popitem(last=False)
        return self._encoders[key]

    def _return(self) -> float:
        """1 - makespan / reference of the finished episode."""
        episode = self._running()
        reference = episode.context.reference
        return (reference - episode.makespan) / reference if reference > 0 else 0.0

    def _info(self) -> dict[str, Any]:
        episode = self._running()
        context: Context = episode.context
        info: dict[str, Any] = {
            "problem": context.problem.name,
            "action_mask": self.action_masks(),
            "illegal_actions": self._illegal,
        }
        if episode.over:
            total = self._return()
            info |= episode.summary()
            info["schedule"] = episode.schedule
            info["reward_terms"] = {"reference": 1.0, "makespan": total - 1.0}
            info["replay"] = Replay(context.problem.id, self._seed, tuple(self._actions))
        return info


def _padding(known: Padding | None, *given: int | None) -> Padding:
    """The padding that the caller asked for, filled up with what the source knows of itself."""
    sizes = []
    for k, (name, size) in enumerate(zip(Padding._fields, given, strict=True)):
        if size is None and known is None:
            raise ConfigError(f"a generator of problems has no known size: pass max_{name}=…")
        chosen = size if size is not None else (known[k] if known is not None else 0)
        if isinstance(chosen, bool) or not isinstance(chosen, int | np.integer) or chosen < (k != 1):
            raise ConfigError(f"max_{name} is {chosen!r}; it must be a positive whole number")
        sizes.append(int(chosen))
    return Padding(*sizes)


def _as_device(action: Any) -> int:
    """An action as a device number; -1 for whatever is none."""
    try:
        array: npt.NDArray[Any] = np.asarray(action)
        return int(array.item()) if array.size == 1 and float(array.item()).is_integer() else -1
    except (TypeError, ValueError, OverflowError):
        return -1
