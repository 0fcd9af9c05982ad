"""LaneEnv: one lane as a Gymnasium environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from hetgym._text import plain_lines
from hetgym._types import BoolArray
from hetgym.envs.core.arguments import ScalarArguments, takes
from hetgym.envs.core.lanes import LaneArguments, Lanes, Observation, as_action, as_options, as_seed
from hetgym.envs.core.manual import complete
from hetgym.errors import unknown_name


class LaneEnv(gym.Env[Observation, np.int64]):
    """One lane behind Gymnasium's interface; UnknownName for an unknown render mode."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array", "human"], "render_fps": 4}

    _takes: ClassVar[type[LaneArguments]]

    def __init_subclass__(cls, arguments: type[LaneArguments] | None = None, **more: Any) -> None:
        """Complete the manual, see :mod:`hetgym.envs.core.manual`, and make the constructor.

        Args:
            arguments: what it takes, besides :class:`ScalarArguments`; None: what the base takes.
        """
        super().__init_subclass__(**more)
        cls.__doc__ = complete(cls.__doc__ or "")
        if arguments is not None:
            cls._takes = arguments
            takes(cls, ScalarArguments, arguments)

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def _set_up(self, arguments: Any) -> None:
        lanes: Lanes = arguments.lanes(1)
        render_mode: str | None = arguments.render_mode
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown_name("render mode", render_mode, self.metadata["render_modes"])
        self.lanes = lanes
        self.render_mode = render_mode
        self.observation_space = lanes.observation_space
        self.action_space = lanes.action_space
        self._active = np.ones(1, np.bool_)
        self._action = np.zeros(1, np.int64)
        self._began = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: seed for the draw of this and later problems.
            options: see the environment's own documentation.

        Raises:
            ConfigError: an invalid seed, an unknown option, or an invalid value of one.
            ProblemError: the problem exceeds the padding.
        """
        seed, chosen = as_seed(seed), as_options(options)
        with self.lanes.busy:
            if seed is not None or self._np_random is None:
                self._np_random, self._np_random_seed = self.lanes.generator(seed)
            self.lanes.begin(0, self.np_random, chosen, seed)
            self._began = True
            if self.render_mode == "human":
                self.render()
            return self.lanes.copied_of(0), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a decision. Raises ResetNeeded: no episode is running."""
        lanes = self.lanes
        with lanes.busy:
            if lanes.over[0]:
                raise ResetNeeded("call reset() before step(): no episode is running")
            self._action[0] = as_action(action)
            lanes.step(self._action, self._active)
            over = bool(lanes.over[0])
            info = self._info()
            if over:
                info |= lanes.result(0)
            if self.render_mode == "human":
                self.render()
            return self.lanes.copied_of(0), float(lanes.reward[0]), over, False, info

    @property
    def problem(self) -> Any:
        """The episode's Problem, PipelineProblem or TrainingProblem; ResetNeeded if there has been no reset."""
        self._check()
        return self.lanes.problem(0)

    @property
    def replayable(self) -> Any:
        """What :func:`hetgym.envs.replay` takes to play the episode again; ResetNeeded if there is none.

        It is the problem, a list of jobs if several were joined, or a graph and a platform for HetSplit-v0.
        """
        self._check()
        return self.lanes.replayable(0)

    def action_masks(self) -> BoolArray:
        """[A] legal actions, as sb3-contrib's MaskablePPO asks for them; ResetNeeded if there is no episode."""
        self._check()
        return np.asarray(self.lanes.mask[0], np.bool_)

    def render(self) -> Any:
        """A frame in the render mode: text, [540, 960, 3] pixels, or None after printing.

        Raises:
            ResetNeeded: there has been no reset.
            MissingExtra: matplotlib is not installed.
        """
        if self.render_mode is None:
            gym.logger.warn("render() does nothing: pass render_mode= to gym.make")
            return None
        self._check()
        if self.render_mode == "rgb_array":
            return self.lanes.frame(0, "rgb_array")
        text = plain_lines(self.lanes.frame(0, "ansi"))
        if self.render_mode == "human":
            print(text, flush=True)
            return None
        return text

    def _check(self) -> None:
        if not self._began:
            raise ResetNeeded("call reset() first: there is no episode")

    def _info(self) -> dict[str, Any]:
        lanes = self.lanes
        shared = {key: values.item() for key, values in lanes.shared().items()}
        return {**shared, "action_mask": self.action_masks(), "illegal_actions": int(lanes.legality.illegal[0])}
