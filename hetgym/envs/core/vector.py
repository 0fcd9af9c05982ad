"""LaneVectorEnv: many lanes as one Gymnasium vector environment; all of them step in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hetgym._types import BoolArray, FloatArray
from hetgym.envs.core.arguments import VectorArguments, takes
from hetgym.envs.core.lanes import Lanes, Observation, as_actions, as_options, as_seed
from hetgym.envs.core.scalar import LaneEnv
from hetgym.errors import ConfigError, shown, unknown_name

Step = tuple[Observation, FloatArray, BoolArray, BoolArray, dict[str, Any]]


MANUAL = """{first}

Args:
    num_envs: number of lanes.
    autoreset_mode: see :class:`~hetgym.envs.core.vector.LaneVectorEnv`.
    copy: true if observations are copies that the caller may keep; otherwise the next call overwrites them.
    render_mode: ``"ansi"`` or ``"rgb_array"``.

All other arguments are those of :class:`{scalar}`. By default ``pool`` is 256.
"""
"""The docstring of vector environments: its first line, and the name of the scalar environment, differ."""


class LaneVectorEnv(VectorEnv[Observation, Any, Any]):
    """Lanes behind Gymnasium's interface of vector environments.

    Observations, rewards, flags and infos equal, bit for bit, those of ``gymnasium.vector.SyncVectorEnv`` over
    the same number of scalar environments, in all three autoreset modes, with ``pool=None`` or a list of problems.
    With a pool every episode equals one of a scalar environment on the same problem.

    Args:
        autoreset_mode: ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``, or Gymnasium's own constant.
        copy: true if observations are copies that the caller may keep; otherwise the next call overwrites them.

    Raises:
        UnknownName: an unknown autoreset mode.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init_subclass__(cls, scalar: type[LaneEnv] | None = None, **more: Any) -> None:
        """Make the docstring and the constructor of a vector environment from those of its scalar environment."""
        super().__init_subclass__(**more)
        if scalar is not None:
            cls.__doc__ = MANUAL.format(first=cls.__doc__, scalar=scalar.__name__)
            takes(cls, scalar._takes, VectorArguments)

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def _set_up(self, arguments: Any) -> None:
        lanes: Lanes = arguments.lanes(arguments.num_envs)
        render_mode, autoreset_mode = arguments.render_mode, arguments.autoreset_mode
        known = [mode.value for mode in AutoresetMode]
        if not isinstance(autoreset_mode, AutoresetMode) and not (
            isinstance(autoreset_mode, str) and autoreset_mode in known
        ):
            raise unknown_name("autoreset mode", autoreset_mode, known)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown_name("render mode", render_mode, self.metadata["render_modes"])
        self.lanes = lanes
        self.num_envs = lanes.count
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.copy: bool = arguments.copy
        self.render_mode = render_mode
        self.single_observation_space = lanes.observation_space
        self.single_action_space = lanes.action_space
        self.observation_space = batch_space(lanes.observation_space, lanes.count)
        self.action_space = batch_space(lanes.action_space, lanes.count)
        self._generators: list[np.random.Generator | None] = [None] * lanes.count
        self._ended = np.zeros(lanes.count, np.bool_)  # episodes that the last step ended
        self._unused = set(range(lanes.count))  # lanes that no reset has reached
        self._all = np.ones(lanes.count, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: seed of lane 0, to which each further lane adds 1; or one for each lane.
            options: for every lane; ``reset_mask``, [L] bool, resets only some.

        Raises:
            ConfigError: an unknown option, an invalid mask, or a number of seeds other than that of lanes.
            ProblemError: a problem exceeds the padding.
        """
        options = as_options(options)
        with self.lanes.busy:
            chosen = self._chosen(options.pop("reset_mask", None))
            seeds = self._seeds(seed)
            self._begin({lane: seeds[lane] for lane in np.flatnonzero(chosen).tolist()}, options)
            infos = self._infos(chosen)
            return self._seen(), infos

    def step(self, actions: Any) -> Step:
        """Take a decision in every lane.

        A lane whose episode has just ended begins the next one: in this step (``SameStep``; the last
        observation and info are in ``infos["final_obs"]`` and ``infos["final_info"]``), in the next,
        which ignores its action (``NextStep``), or when it is reset by hand (``Disabled``).

        Raises:
            ResetNeeded: a lane has no running episode.
        """
        lanes = self.lanes
        with self.lanes.busy:
            waiting = self._ended if self.autoreset_mode is AutoresetMode.NEXT_STEP else None
            if self._unused or (waiting is None and self._ended.any()):
                raise ResetNeeded("call reset() before step(): a lane has no running episode")
            chosen = as_actions(actions, self.num_envs)
            if waiting is not None:
                for lane in waiting.nonzero()[0].tolist():
                    self._prepare(lane, None, {})
            fresh = lanes.fresh.copy()
            lanes.step(chosen, self._all)
            reward = np.where(fresh, 0.0, lanes.reward)
            over = lanes.over.copy()
            ends = over.nonzero()[0].tolist()
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                final = self._final(ends)
                self._begin(dict.fromkeys(ends), {})
                infos = self._infos(self._all) | final
                self._ended = np.zeros(self.num_envs, np.bool_)
            else:
                results = [lanes.result(lane) for lane in ends]
                infos = self._infos(self._all) | self._columns(ends, results)
                self._ended = over.copy()  # what is returned belongs to the caller
            return self._seen(), reward, over, np.zeros(self.num_envs, np.bool_), infos

    def action_masks(self) -> BoolArray:
        """[L, A] legal actions."""
        return self.lanes.mask.astype(np.bool_)

    def render(self) -> tuple[Any, ...] | None:
        """A frame of every lane. Raises ResetNeeded: there has been no reset."""
        if self.render_mode is None:
            return None
        if self._unused:
            raise ResetNeeded("call reset() first: there is no episode")
        return tuple(self.lanes.frame(lane, self.render_mode) for lane in range(self.num_envs))

    def _begin(self, seeds: dict[int, int | None], options: dict[str, Any]) -> None:
        """Begin episodes in some lanes; where one cannot, those before it begin."""
        try:
            for lane, seed in seeds.items():
                self._prepare(lane, seed, options)
        finally:
            self.lanes.open()

    def _prepare(self, lane: int, seed: int | None, options: dict[str, Any]) -> None:
        generator = self._generators[lane]
        if seed is not None or generator is None:
            generator, _ = self.lanes.generator(seed)
            self._generators[lane] = generator
        self.lanes.prepare(lane, generator, dict(options), seed)
        self._unused.discard(lane)
        self._ended[lane] = False

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, str | bytes) or not isinstance(seed, Sequence | np.ndarray):
            first = as_seed(seed)
            assert first is not None
            return [first + lane for lane in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ConfigError(f"{len(seed)} seeds for {self.num_envs} lanes; give one for each, or a number")
        return [as_seed(one) for one in seed]

    def _chosen(self, mask: Any) -> BoolArray:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ConfigError(f"options['reset_mask'] must be an array of {self.num_envs} bools, not {shown(mask)}")
        if not mask.any():
            raise ConfigError("options['reset_mask'] resets no lane")
        return mask

    def _final(self, lanes: list[int]) -> dict[str, Any]:
        """Entries of infos for the last observations and infos of the episodes of some lanes, which have ended."""
        if not lanes:
            return {}
        shared = {key: values.tolist() for key, values in self.lanes.shared().items()}
        infos = [
            {
                **{key: values[lane] for key, values in shared.items()},
                "action_mask": self.lanes.mask[lane].astype(np.bool_),
                "illegal_actions": int(self.lanes.legality.illegal[lane]),
                **self.lanes.result(lane),
            }
            for lane in lanes
        ]
        seen, present = np.empty(self.num_envs, object), np.zeros(self.num_envs, np.bool_)
        for lane in lanes:
            seen[lane], present[lane] = self.lanes.copied_of(lane), True
        infos_of = self._columns(lanes, infos)
        return {"final_obs": seen, "_final_obs": present, "final_info": infos_of, "_final_info": present.copy()}

    def _columns(self, lanes: list[int], infos: list[dict[str, Any]]) -> dict[str, Any]:
        """Infos of some lanes in the format of Gymnasium's vector infos, whose own method adds one lane after another.

        An entry of a dictionary becomes a dictionary of columns, a number a column of its type, and an array another
        dimension; the others make columns of objects.
        """
        columns: dict[str, Any] = {}
        if not lanes:
            return columns
        everybody = self._flags(lanes)
        alike = all(info.keys() == infos[0].keys() for info in infos)
        for key in infos[0] if alike else dict.fromkeys(key for info in infos for key in info):
            if alike:
                holders, values, present = lanes, [info[key] for info in infos], everybody.copy()
            else:
                holders = [lane for lane, info in zip(lanes, infos, strict=True) if key in info]
                values, present = [info[key] for info in infos if key in info], self._flags(holders)
            first = values[0]
            if isinstance(first, np.ndarray):
                column: Any = np.zeros((self.num_envs, *first.shape), first.dtype)
            elif type(first) in (bool, int, float) or isinstance(first, np.number):
                column = np.zeros(self.num_envs, type(first))
            else:
                column = np.empty(self.num_envs, object)  # None everywhere
            if isinstance(first, dict):
                column = self._columns(holders, values)
            else:
                for lane, value in zip(holders, values, strict=True):
                    column[lane] = value
            columns[key], columns[f"_{key}"] = column, present
        return columns

    def _flags(self, lanes: list[int]) -> BoolArray:
        """[L] true for some lanes."""
        flags = np.zeros(self.num_envs, np.bool_)
        flags[lanes] = True
        return flags

    def _infos(self, present: BoolArray) -> dict[str, Any]:
        """Entries of every info for the lanes that are present, in the format of Gymnasium's vector infos."""
        values = {
            **self.lanes.shared(),
            "action_mask": self.action_masks(),
            "illegal_actions": self.lanes.legality.illegal.copy(),
        }
        infos: dict[str, Any] = {}
        some_lack = present is not self._all and not present.all()
        for key, array in values.items():
            if some_lack:
                array[~present] = None if array.dtype == object else 0
            infos[key], infos[f"_{key}"] = array, present.copy()
        return infos

    def _seen(self) -> Observation:
        return self.lanes.copied() if self.copy else self.lanes.seen
