"""SplitLanes: the episodes of HetSplit-v0, and what their agents see."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym import metrics
from hetgym._types import BoolArray
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.core.replay import Replay
from hetgym.envs.place import rendering
from hetgym.envs.place.observation import Padding
from hetgym.envs.split.dynamics import Chosen, Context, Node, Rules, Splits
from hetgym.envs.split.observation import (
    COMPLETION,
    CURRENT,
    DECIDED,
    LEGAL,
    MAKESPAN,
    NARROW,
    SPARED,
    choices_table,
    decided_columns,
    device_columns,
    fixed,
    level_space,
    scaled,
    split_space,
)
from hetgym.envs.split.options import Option, cancelled
from hetgym.envs.split.rendering import split_text
from hetgym.envs.split.sources import Draw, GraphSource, as_graph, as_platform
from hetgym.errors import ConfigError
from hetgym.graph.transforms import AXES
from hetgym.problem import Problem

_REMEMBERED = 64  # graphs whose fixed observations are kept


class SplitLanes(Lanes):
    """Episodes side by side in which operators of graphs are split.

    Args:
        count: number of lanes.
        source: where graphs and platforms come from.
        rules: what episodes are played by.
        padding: sizes of the observations.
        level: one of :data:`~hetgym.envs.split.observation.LEVELS`.
        sparse: whether the whole return comes with the last reward.
        batch: batch size of graphs that a reset names.
        lookahead: whether the makespan after each choice is worked out.
        completion: whether that with the pattern for the rest is.
    """

    def __init__(
        self, count: int, source: GraphSource, rules: Rules, padding: Padding, level: str, sparse: bool, batch: int,
        lookahead: bool, completion: bool = False,
    ) -> None:  # fmt: skip
        actions = len(rules.menu)
        super().__init__(count, level_space(padding, actions, level), spaces.Discrete(actions))
        self.source, self.rules, self.padding, self.level = source, rules, padding, level
        self.sparse, self.batch, self.lookahead, self.completion = sparse, batch, lookahead, completion
        space = split_space(padding, actions)
        self._arrays: dict[str, npt.NDArray[Any]] = {
            key: np.zeros((count, *(each.shape or ())), each.dtype) for key, each in space.spaces.items()
        }
        self.mask = np.zeros((count, actions), np.int8)
        self._arrays["action_mask"] = self.mask
        self.splits = Splits(rules)
        self.contexts: list[Context | None] = [None] * count
        self.chosen: list[Chosen] = [()] * count
        self.actions: list[list[int]] = [[] for _ in range(count)]
        self._names = np.full(count, "", object)
        self._seeds: list[int | None] = [None] * count
        self._known: OrderedDict[int, tuple[Context, dict[str, npt.NDArray[Any]], list[npt.NDArray[np.float32]]]]
        self._known = OrderedDict()
        self._named: dict[tuple[str, str], Any] = {}
        self._entries = np.array(
            [[c.axis == axis for axis in AXES] + [c.parts == "proportional", c.ways / 8] for c in rules.menu],
            np.float32,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": OrderedDict(), "_named": {}}

    @property
    def seen(self) -> Observation:
        """What the agents see, [L, …]."""
        if self.level == "graph":
            return self._arrays
        if self.level == "candidates":
            return {key: self._arrays[key] for key in NARROW}
        parts = [self._arrays[key].reshape(self.count, -1) for key in NARROW]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode on a graph and a platform drawn from the source, or on those of the options.

        Raises:
            ConfigError: an unknown option, or one that is neither a graph nor a platform.
            ProblemError: the graph on the platform exceeds the padding.
        """
        graph, platform = options.pop("graph", None), options.pop("platform", None)
        if options:
            raise ConfigError(f"reset has no option {min(options)!r}; known: 'graph' and 'platform'")
        if graph is None or platform is None:
            drawn = self.source.draw(rng)
            graph = drawn.graph if graph is None else graph
            platform = drawn.platform if platform is None else platform
        context = self.splits.context(Draw(self._load("graph", graph), self._load("platform", platform)))
        blank = self._prepared(context)[0]
        self.contexts[lane], self.chosen[lane], self.actions[lane] = context, (), []
        for key, array in self._arrays.items():
            array[lane] = blank[key]
        self._names[lane] = context.problem.name
        self._seeds[lane] = seed
        self.illegal[lane], self.over[lane] = 0, False
        self._show(lane)

    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Decide on the current operator of each active lane."""
        for lane in np.flatnonzero(active).tolist():
            self._decide(lane, int(actions[lane]))

    def _decide(self, lane: int, action: int) -> None:
        context, before, turn = self.context(lane), self.node(lane), len(self.actions[lane])
        self.actions[lane].append(action)
        entry = action if 0 <= action < len(self.rules.menu) and self.mask[lane, action] else 0
        chosen = (*self.chosen[lane], (turn, entry)) if entry else self.chosen[lane]
        if self.splits.attempt(context, chosen) is None:
            chosen, entry = self.chosen[lane], 0
        self.chosen[lane] = chosen
        self.illegal[lane] += entry != action
        now, reference = self.node(lane).makespan, context.reference
        self.over[lane] = turn + 1 == len(context.keys)
        self.reward[lane] = (before.makespan - now) / reference if reference > 0 else 0.0
        if self.sparse:
            self.reward[lane] = self._total(lane) if self.over[lane] else 0.0
        choice, operator = self.rules.menu[entry], context.keys[turn]
        self._arrays["operators"][lane, operator, DECIDED:] = decided_columns(
            context.options[turn][entry] if entry else None, choice.axis, choice.parts == "proportional"
        )
        self._show(lane)

    def _show(self, lane: int) -> None:
        """Write the present state, and what the current operator may become, into the observation."""
        context, node, seen, turn = self.context(lane), self.node(lane), self._arrays, len(self.actions[lane])
        seen["makespan"][lane] = scaled(node.makespan, context.reference)
        seen["devices"][lane, : node.problem.num_devices, 1:] = device_columns(context, node)
        if self.over[lane]:  # no candidates; the mask stays, so that it never is empty
            seen["candidates"][lane] = 0.0
            seen["operator"][lane] = 0.0
            return
        operator = context.keys[turn]
        seen["current"][lane] = operator
        seen["operators"][lane, operator, CURRENT] = 1.0
        seen["operator"][lane] = seen["operators"][lane, operator]
        table = seen["candidates"][lane]
        table[...] = self._prepared(context)[1][turn]
        split_so_far = self._split_so_far(lane)
        makespans = np.full(len(table), node.makespan)
        completions = makespans.copy()
        if self.completion:
            completions = np.full(len(table), self.splits.completion(context, self.chosen[lane], turn + 1))
        self.mask[lane] = 0
        self.mask[lane, 0] = 1
        for entry, option in enumerate(context.options[turn]):
            if option is None:
                continue
            table[entry, SPARED : SPARED + 2] = cancelled(option, operator, context.readers[operator], split_so_far)
            if self.lookahead or self.splits.looks_ahead:
                after = self.splits.attempt(context, (*self.chosen[lane], (turn, entry)))
                if after is None or after.excess > max(0.0, node.excess):
                    continue
                makespans[entry] = after.makespan if self.lookahead else node.makespan
            self.mask[lane, entry] = 1
            if self.completion:
                chosen = (*self.chosen[lane], (turn, entry))
                completions[entry] = self.splits.completion(context, chosen, turn + 1)
        table[:, LEGAL] = self.mask[lane]
        table[:, MAKESPAN] = scaled(makespans, context.reference)
        table[:, COMPLETION] = scaled(completions, context.reference)

    def _split_so_far(self, lane: int) -> dict[int, Option]:
        context = self.context(lane)
        found = {context.keys[turn]: context.options[turn][entry] for turn, entry in self.chosen[lane]}
        return {operator: option for operator, option in found.items() if option is not None}

    def _prepared(self, context: Context) -> tuple[dict[str, npt.NDArray[Any]], list[npt.NDArray[np.float32]]]:
        """What of the observations is known beforehand: that which never changes, and the candidates of each turn."""
        key = id(context)
        if key not in self._known:
            self.padding.check(context.problem)
            tables = [choices_table(context, turn, self._entries) for turn in range(len(context.keys))]
            self._known[key] = context, fixed(context, self.padding, len(self.rules.menu)), tables
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key][1:]

    def _load(self, what: str, source: Any) -> Any:
        """A graph or a platform of the reset's options; those with names are loaded once."""
        named = isinstance(source, str | os.PathLike)
        key = (what, os.fspath(source) if named else "")
        if key in self._named:
            return self._named[key]
        found = as_graph(source, self.batch) if what == "graph" else as_platform(source)
        if named:
            self._named[key] = found
        return found

    def context(self, lane: int) -> Context:
        """Of a lane that has begun."""
        context = self.contexts[lane]
        assert context is not None
        return context

    def node(self, lane: int) -> Node:
        """The graph as split so far."""
        return self.splits.at(self.context(lane), self.chosen[lane])

    def problem(self, lane: int) -> Problem:
        """The graph as split so far, on the platform."""
        return self.node(lane).problem

    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """The name of the graph on the platform."""
        return {"problem": self._names.copy()}

    def _total(self, lane: int) -> float:
        reference = self.context(lane).reference
        return (reference - self.node(lane).makespan) / reference if reference > 0 else 0.0

    def result(self, lane: int) -> dict[str, Any]:
        """Makespan and reference [s], what was split and how, the split graph and its schedule, memory."""
        context, node = self.context(lane), self.node(lane)
        peak = self.splits.trace(node).memory.peak
        names = [context.graph.operators[i].name for i in context.keys]
        taken = dict(self.chosen[lane])
        return {
            "makespan": node.makespan,
            "reference": context.reference,
            "speedup": metrics.speedup(node.makespan, context.alone),
            "schedule": node.schedule,
            "split_graph": node.graph,
            "split_problem": node.problem,
            "choices": {name: str(self.rules.menu[taken.get(turn, 0)]) for turn, name in enumerate(names)},
            "peak_memory": tuple(peak.tolist()),
            "memory_excess": max(0.0, float((peak - node.problem.memory_capacity).max())),
            "reward_terms": {"reference": 1.0, "makespan": self._total(lane) - 1.0},
            "replay": Replay(context.problem.id, self._seeds[lane], tuple(self.actions[lane])),
        }

    def frame(self, lane: int, mode: str) -> Any:
        """A text, or a Gantt chart of the present schedule."""
        node = self.node(lane)
        trace = self.splits.trace(node)
        if mode == "rgb_array":
            return rendering.rgb_array(trace)
        context = self.context(lane)
        taken = dict(self.chosen[lane])
        decided = [
            (context.graph.operators[operator].name, str(self.rules.menu[taken.get(turn, 0)]))
            for turn, operator in enumerate(context.keys[: len(self.actions[lane])])
        ]
        current = None if self.over[lane] else context.graph.operators[context.keys[len(self.actions[lane])]]
        legal = [str(self.rules.menu[entry]) for entry in np.flatnonzero(self.mask[lane])]
        return split_text(trace, context, decided, current, legal)
