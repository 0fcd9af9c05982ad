"""SplitLanes: the episodes of HetSplit-v0 side by side."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym import metrics
from hetgym._types import BoolArray
from hetgym.envs.core.lanes import Lanes, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.rendering import gantt_pixels
from hetgym.envs.core.replay import Replay
from hetgym.envs.core.scaling import scale_of, shares
from hetgym.envs.core.sources import Source, as_graph, as_platform
from hetgym.envs.split.dynamics import GRAPHS, Splits
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.observation import (
    NARROW,
    SplitCandidateColumn,
    SplitOperatorColumn,
    choices_table,
    fixed,
    menu_table,
    show_decided,
    show_devices,
    split_space,
)
from hetgym.envs.split.options import Option, cancelled
from hetgym.envs.split.problems import Pair
from hetgym.envs.split.rendering import split_text
from hetgym.envs.split.rules import SplitRules
from hetgym.envs.split.state import SplitNode, SplitState
from hetgym.problem import Problem

Prepared = tuple[SplitInstance, dict[str, npt.NDArray[Any]], list[npt.NDArray[np.float32]]]


class SplitLanes(Lanes):
    """Episodes side by side in which operators of graphs are split.

    Args:
        count: number of lanes.
        source: where graphs and platforms come from.
        rules: rules of the episodes.
        padding: sizes of the observations.
        level: one of :data:`~hetgym.envs.core.spaces.LEVELS`.
        sparse: true if the whole return comes with the last reward.
        batch: batch size of graphs that a reset gives by name.

    Attributes:
        menu: the choices; the first leaves the operator whole.
        splits: caches of instances and of split graphs.
        states: [L] of lanes that have begun.
    """

    def __init__(
        self,
        count: int,
        source: Source[Pair, GraphPadding],
        rules: SplitRules,
        padding: GraphPadding,
        level: str,
        sparse: bool,
        batch: int,
    ) -> None:
        self.menu = rules.menu(padding.devices)
        super().__init__(count, split_space(padding, len(self.menu)), NARROW, level, len(self.menu), hidden=True)
        self.source, self.rules, self.padding, self.sparse, self.batch = source, rules, padding, sparse, batch
        kept = max(GRAPHS, source.size)
        self.splits = Splits(rules, self.menu, kept)
        self.states: list[SplitState | None] = [None] * count
        self._entries = menu_table(self.menu)
        self._known: Remembered[int, Prepared] = Remembered(kept)
        self._named: dict[tuple[str, str], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": Remembered(self._known.limit), "_named": {}}  # keys are object ids

    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode on a graph and a platform drawn from the source, or on those of the options.

        Raises:
            ConfigError: an unknown option, or one that is neither a graph nor a platform.
            ProblemError: the graph on the platform exceeds the padding.
        """
        graph, platform = only_options(options, "graph", "platform")
        if graph is None or platform is None:
            drawn = self.source.draw(rng)
            graph = drawn[0] if graph is None else graph
            platform = drawn[1] if platform is None else platform
        instance = self.splits.instance((self._load("graph", graph), self._load("platform", platform)))
        blank = self._prepared(instance)[1]
        self.states[lane] = SplitState(instance)
        for key, array in self.arrays.items():
            array[lane] = blank[key]
        self.names[lane], self.seeds[lane] = instance.problem.name, seed
        self.illegal[lane], self.over[lane] = 0, False
        self._show(lane)

    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Decide on the current operator of each active lane."""
        for lane in np.flatnonzero(active).tolist():
            self._decide(lane, int(actions[lane]))

    def _decide(self, lane: int, action: int) -> None:
        state, before = self.state(lane), self.node(lane).makespan
        instance, turn, operator = state.instance, state.turn, state.operator
        entry = action if 0 <= action < len(self.menu) and self.mask[lane, action] else 0
        chosen = (*state.chosen, (turn, entry)) if entry else state.chosen
        if self.splits.attempt(instance, chosen) is None:
            chosen, entry = state.chosen, 0
        state.chosen = chosen
        state.actions.append(action)
        self.illegal[lane] += entry != action
        self.over[lane] = state.turn == len(instance.keys)
        fall = before - self.node(lane).makespan
        self.reward[lane] = fall / instance.reference if instance.reference > 0 else 0.0
        if self.sparse:
            self.reward[lane] = self._total(lane) if self.over[lane] else 0.0
        option = instance.options[turn][entry] if entry else None
        show_decided(self.arrays["operators"][lane, operator], option, self.menu[entry])
        self._show(lane)

    def _show(self, lane: int) -> None:
        """Write the current state, and the choices for the current operator, into the observation."""
        state, node, seen = self.state(lane), self.node(lane), self.arrays
        seen["makespan"][lane] = shares(node.makespan, scale_of(state.instance.reference))
        show_devices(seen["devices"][lane], state.instance, node)
        if self.over[lane]:  # no candidates; the mask stays, so that it is never empty
            seen["candidates"][lane] = 0.0
            seen["operator"][lane] = 0.0
            return
        seen["current"][lane] = state.operator
        seen["operators"][lane, state.operator, SplitOperatorColumn.IS_CURRENT] = 1.0
        seen["operator"][lane] = seen["operators"][lane, state.operator]
        self._show_candidates(lane, state, node)

    def _show_candidates(self, lane: int, state: SplitState, node: SplitNode) -> None:
        """Write the mask, and the results of each choice."""
        instance, operator, turn = state.instance, state.operator, state.turn
        table = self.arrays["candidates"][lane]
        table[...] = self._prepared(instance)[2][turn]
        split_so_far = self._split_so_far(state)
        makespans = np.full(len(table), node.makespan)
        completions = makespans.copy()
        if self.rules.completion:
            completions[:] = self.splits.completion(instance, state.chosen, turn + 1)
        self.mask[lane] = 0
        self.mask[lane, 0] = 1
        for entry, option in enumerate(instance.options[turn]):
            if option is None:
                continue
            scatter, gather = cancelled(option, operator, instance.readers[operator], split_so_far)
            table[entry, SplitCandidateColumn.SPARED_SCATTER] = scatter
            table[entry, SplitCandidateColumn.SPARED_GATHER] = gather
            chosen = (*state.chosen, (turn, entry))
            if self.rules.lookahead or self.splits.looks_ahead:
                after = self.splits.attempt(instance, chosen)
                if after is None or after.excess > max(0.0, node.excess):
                    continue
                makespans[entry] = after.makespan if self.rules.lookahead else node.makespan
            self.mask[lane, entry] = 1
            if self.rules.completion:
                completions[entry] = self.splits.completion(instance, chosen, turn + 1)
        scale = scale_of(instance.reference)
        table[:, SplitCandidateColumn.LEGAL] = self.mask[lane]
        table[:, SplitCandidateColumn.MAKESPAN] = shares(makespans, scale)
        table[:, SplitCandidateColumn.COMPLETION] = shares(completions, scale)

    @staticmethod
    def _split_so_far(state: SplitState) -> dict[int, Option]:
        """Operator -> its split, for those that are split."""
        instance = state.instance
        found = {instance.keys[turn]: instance.options[turn][entry] for turn, entry in state.chosen}
        return {operator: option for operator, option in found.items() if option is not None}

    def _prepared(self, instance: SplitInstance) -> Prepared:
        """The fixed part of the observations, and the fixed part of each turn's candidates."""
        return self._known.get(id(instance), lambda: self._prepare(instance))

    def _prepare(self, instance: SplitInstance) -> Prepared:
        problem = instance.problem
        self.padding.check(problem.name, (problem.num_operators, problem.num_edges, problem.num_devices))
        tables = [choices_table(instance, turn, self._entries) for turn in range(len(instance.keys))]
        return instance, fixed(instance, self.padding, len(self.menu)), tables

    def _load(self, what: str, source: Any) -> Any:
        """A graph or a platform of the reset's options; those given by name are loaded once."""
        named = isinstance(source, str | os.PathLike)
        key = (what, os.fspath(source) if named else "")
        if key in self._named:
            return self._named[key]
        found = as_graph(source, self.batch) if what == "graph" else as_platform(source)
        if named:
            self._named[key] = found
        return found

    def state(self, lane: int) -> SplitState:
        """The state of a lane's episode, which must have begun."""
        state = self.states[lane]
        assert state is not None
        return state

    def node(self, lane: int) -> SplitNode:
        """The graph as split so far."""
        state = self.state(lane)
        return self.splits.at(state.instance, state.chosen)

    def problem(self, lane: int) -> Problem:
        """The graph as split so far, on the platform."""
        return self.node(lane).problem

    def identity(self, lane: int) -> str:
        """Name and content of the graph on the platform, before any split, in one word."""
        return self.state(lane).instance.problem.id

    def _total(self, lane: int) -> float:
        reference = self.state(lane).instance.reference
        return (reference - self.node(lane).makespan) / reference if reference > 0 else 0.0

    def choices(self, lane: int) -> dict[str, str]:
        """Operator -> its choice, for those that are decided."""
        state = self.state(lane)
        taken, operators = dict(state.chosen), state.instance.graph.operators
        return {
            operators[operator].name: str(self.menu[taken.get(turn, 0)])
            for turn, operator in enumerate(state.instance.keys[: state.turn])
        }

    def result(self, lane: int) -> dict[str, Any]:
        """Makespan, reference [s], the splits, the split graph and its schedule, memory, and the episode as a value."""
        state, node = self.state(lane), self.node(lane)
        instance, peak = state.instance, self.splits.trace(node).memory.peak
        return {
            "makespan": node.makespan,
            "reference": instance.reference,
            "speedup": metrics.speedup(node.makespan, instance.alone),
            "schedule": node.schedule,
            "split_graph": node.graph,
            "split_problem": node.problem,
            "choices": self.choices(lane),
            "peak_memory": tuple(peak.tolist()),
            "memory_excess": max(0.0, float((peak - node.problem.memory_capacity).max())),
            "reward_terms": {"reference": 1.0, "makespan": self._total(lane) - 1.0},
            "replay": Replay(instance.problem.id, self.seeds[lane], tuple(state.actions)),
        }

    def frame(self, lane: int, mode: str) -> Any:
        """A text, or a Gantt chart of the current schedule."""
        state, trace = self.state(lane), self.splits.trace(self.node(lane))
        if mode == "rgb_array":
            return gantt_pixels(trace)
        current = None if self.over[lane] else state.instance.graph.operators[state.operator]
        legal = [str(self.menu[entry]) for entry in np.flatnonzero(self.mask[lane])]
        return split_text(trace, state.instance, list(self.choices(lane).items()), current, legal)
