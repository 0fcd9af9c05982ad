"""Illegal actions: what is executed instead, and how many there are."""

from __future__ import annotations

import warnings
from typing import Any, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray
from hetgym.errors import HetgymWarning, IllegalAction

Rule = Literal["random", "worst", "eft", "raise"]
"""Replacement of an illegal action: a legal one drawn at random; the legal one of the latest, or the earliest,
estimated finish; or an :class:`~hetgym.errors.IllegalAction`, before anything has changed."""

TOLD, SETTLED = 0.1, 200  # A share of illegal actions above this is warned of once, after this many actions


def stream_of(rng: np.random.Generator) -> int:
    """Key of an episode's own stream of random numbers, from the state of a generator, which does not change."""
    state: Any = rng.bit_generator.state["state"]
    key = state.get("state")
    return key if isinstance(key, int) else crc32(repr(state).encode())


def replacement(rule: Rule, legal: npt.NDArray[np.int64], estimates: FloatArray, stream: int, count: int) -> int:
    """The legal action that is executed instead of an illegal one.

    Args:
        rule: rule of the environment, not ``"raise"``.
        estimates: [A] estimated finish of each action [s]; read unless at random. Infinite ones come last.
        stream: see :func:`stream_of`.
        count: number of illegal actions of the episode before this one.

    >>> replacement("eft", np.array([1, 2]), np.array([0.0, 3.0, 2.0]), 7, 0)
    2
    """
    if rule == "random":  # a counter instead of a state, so that copies and restored episodes draw the same
        return int(np.random.Generator(np.random.Philox(key=stream, counter=count)).choice(legal))
    known = legal[np.isfinite(estimates[legal])]
    if not len(known):
        return int(legal[0])
    return int(known[estimates[known].argmin() if rule == "eft" else estimates[known].argmax()])


class Legality:
    """Replaces and counts the illegal actions of lanes.

    Attributes:
        illegal: [L] number of illegal actions in the running episodes.
        decisions: [L] number of actions in the running episodes.
        executed: [L] actions of the last step, as executed.
    """

    def __init__(self, count: int, rule: Rule) -> None:
        self.rule = rule
        self.illegal, self.decisions = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.executed: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self._streams, self._lanes = [0] * count, np.arange(count)
        self._seen = self._wrong = 0
        self._told = False

    def begin(self, lane: int, stream: int) -> None:
        """Begin an episode with a stream of random numbers of its own, see :func:`stream_of`."""
        self._streams[lane] = stream
        self.illegal[lane] = self.decisions[lane] = 0

    def share(self, lane: int) -> float:
        """Share of illegal actions in the lane's episode so far."""
        return float(self.illegal[lane] / max(1, self.decisions[lane]))

    def executed_of(
        self, actions: npt.NDArray[np.int64], deciding: BoolArray, mask: npt.NDArray[np.int8], estimates: Any
    ) -> npt.NDArray[np.int64]:
        """[L] actions to execute, where ``estimates`` gives the estimated finishes of a lane's actions.

        Args:
            actions: [L] the agent's.
            deciding: [L] true for lanes whose action is executed.
            mask: [L, A] 1 where an action is legal.

        Raises:
            IllegalAction: an action is illegal under the rule ``"raise"``; nothing has changed.
        """
        if len(actions) == 1 and 0 <= actions[0] < mask.shape[1] and mask[0, actions[0]]:  # the usual case, quickly
            self.decisions[0] += deciding[0]
            self._seen += 1
            self.executed = actions
            return actions
        inside = actions.view(np.uint64) < mask.shape[1]  # as a negative number is a large one there
        if np.count_nonzero(inside) == len(actions):  # faster than all()
            legal = mask.ravel()[self._lanes * mask.shape[1] + actions] == 1
        else:
            legal = inside & (mask[self._lanes, np.where(inside, actions, 0)] == 1)
        wrong = deciding > legal
        if np.count_nonzero(wrong):
            actions = self._replaced(actions, np.flatnonzero(wrong), mask, estimates)
        self.decisions += deciding
        self._seen += len(actions)
        self.executed = actions
        return actions

    def _replaced(
        self, actions: npt.NDArray[np.int64], wrong: npt.NDArray[np.int64], mask: npt.NDArray[np.int8], estimates: Any
    ) -> npt.NDArray[np.int64]:
        """A copy of the actions in which illegal ones are replaced."""
        if self.rule == "raise":
            lane = int(wrong[0])
            few = ", ".join(map(str, np.flatnonzero(mask[lane])[:8]))
            where = f" in lane {lane}" if len(actions) > 1 else ""
            raise IllegalAction(f"action {actions[lane]}{where} is illegal; legal actions are {few} (see action_mask)")
        actions = actions.copy()
        for lane in wrong.tolist():
            values = estimates(lane) if self.rule != "random" else np.zeros(0)
            legal, before = np.flatnonzero(mask[lane]), int(self.illegal[lane])
            actions[lane] = replacement(self.rule, legal, values, self._streams[lane], before)
            self.illegal[lane] += 1
        self._wrong += len(wrong)
        if not self._told and self._seen >= SETTLED and self._wrong > TOLD * self._seen:
            self._told = True
            warnings.warn(
                f"{self._wrong / self._seen:.0%} of the actions so far are illegal and were replaced (illegal="
                f"{self.rule!r}); choose among the legal ones of info['action_mask']",
                HetgymWarning,
                stacklevel=5,
            )
        return actions
