"""Sampler: policies that play several episodes of a problem and keep the best."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from hetgym._input.config import check_number
from hetgym._input.random import generator
from hetgym._types import FloatArray
from hetgym.agents.play import Decider
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.kinds import IDS
from hetgym.envs.core.lanes import Lanes
from hetgym.errors import ConfigError
from hetgym.search.walk import TIE


class Sampler(Decider):
    """A policy that scores actions.

    Attributes:
        card: its origin, as JSON values.
        kind: kind of decision, one of :data:`~hetgym.agents.actions.COLUMNS`.
    """

    card: dict[str, Any]
    kind: str

    @property
    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that the policy expects, apart from problems, sizes and conditions."""

    @abc.abstractmethod
    def check(self, lanes: Lanes) -> None:
        """Refuse, by ConfigError, another environment, or candidate features of another meaning."""

    @abc.abstractmethod
    def decide(
        self, observations: Mapping[str, npt.NDArray[Any]], noise: FloatArray | None = None
    ) -> npt.NDArray[np.int64]:
        """[L] actions for L lanes, the smaller number on ties.

        Args:
            observations: [L, …] by key.
            noise: [L, A] added to scores; none by default. Gumbel noise draws actions with their probabilities.
        """

    def play(
        self, samples: int | None = None, temperature: float | None = None, seed: int = 0, **arguments: Any
    ) -> dict[str, Any]:
        """Play one greedy and some sampled episodes side by side, and return the last info of the best one.

        Args:
            samples: number of episodes; by default as the card says.
            temperature: divisor of scores in sampled episodes; by default as the card says.
            seed: seed of the sampled actions, and of the episodes' reset.
            arguments: arguments of the environment; by default those of the training.

        Raises:
            ConfigError: fewer than one episode, a temperature that is not positive, or an unknown argument.
        """
        count = self.card.get("samples", 1) if samples is None else samples
        heat = self.card.get("temperature", 1.0) if temperature is None else temperature
        check_number(count, "samples", ConfigError, minimum=1, maximum=100_000)
        check_number(heat, "temperature", ConfigError, positive=True)
        if count != int(count):
            raise ConfigError(f"samples is {count}; it must be a whole number")
        lanes = make_lanes(IDS[self.kind], int(count), **(self.arguments | arguments))
        self.check(lanes)
        for lane in range(lanes.count):
            lanes.prepare(lane, seeding.np_random(seed)[0], {}, seed)
        lanes.open()
        rng = generator(seed)
        while not lanes.over.all():
            noise = np.zeros(lanes.mask.shape)
            if lanes.count > 1:
                noise[1:] = heat * rng.gumbel(size=noise[1:].shape)
            lanes.step(self.decide(dict(lanes.seen), noise), ~lanes.over)
        results = [lanes.result(lane) for lane in range(lanes.count)]
        longest = min(float(result["makespan"]) for result in results) / TIE
        return next(result for result in results if float(result["makespan"]) <= longest)
