"""SplitPlanner: splits the operators of graphs by a search whose moves a trained network judges."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from signal import SIGINT, default_int_handler, getsignal
from threading import current_thread, main_thread
from typing import Any

from hetgym._input.config import check_number
from hetgym._progress import Progress
from hetgym.agents.artefact import PolicyFiles, Weights, check_recipe
from hetgym.agents.inference import proposal_network
from hetgym.agents.planner import ActionPlanner, Start, limits
from hetgym.agents.recipe import manner
from hetgym.agents.splits.moves import FEATURES
from hetgym.agents.splits.search import Entries, Ground, SplitSearch
from hetgym.agents.splits.starts import in_entries
from hetgym.baselines import eop, greedy_split
from hetgym.envs.core.sources import as_graph, as_platform
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.envs.split.rules import SplitRules
from hetgym.errors import ConfigError, suggestion
from hetgym.graph import DataflowGraph
from hetgym.planning.graph_plan import GraphPlan
from hetgym.planning.timeline import timed_for
from hetgym.platform import Platform
from hetgym.search.search import clock, ended_by_interrupt, searching

EFFORT = 32  # Plans that are priced without a budget for each key operator, besides the patterns
LEAST_EFFORT = 400  # Fewest of them
SLICE = 10  # Plans that are priced between two readings of the clock


class SplitPlanner(ActionPlanner):
    """Plans by a trained split policy.

    A graph is split by :class:`~hetgym.agents.splits.search.SplitSearch`: the best of the unsplit graph, the
    patterns and EOP's splits is improved by moves that the network judges and the inner scheduler prices.

    Args:
        weights: weights of a :class:`~hetgym.agents.networks.proposal.ProposalNetwork`, by name.
        card: their origin, as JSON values.

    Attributes:
        network: the weights as the search takes them.

    Raises:
        ArtefactError: the weights are not those of such a network.
    """

    kind = "split"

    def __init__(self, weights: Weights, card: Mapping[str, Any] | None = None) -> None:
        self.card = dict(card or {})
        check_recipe(self.card)
        self.network = proposal_network(weights, len(FEATURES), "split")

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of HetSplit-v0 under which an episode of :meth:`agent` follows the splits of :meth:`plan`."""
        return manner(self.card.get("recipe", {}).get("arguments", {}))

    def begin(self, env: Any, lanes: Any, start: Start) -> tuple[Sequence[int], Start]:
        """The entries of the plan for the graph and the platform of an episode of HetSplit-v0."""
        return self.entries(lanes.state(0).instance, lanes.menu, lanes.rules), start

    def plan(
        self,
        graph: DataflowGraph,
        /,
        platform: Platform,
        budget: str | float | None = None,
        *,
        splits: int | None = None,
        seed: int = 0,
        **arguments: Any,
    ) -> GraphPlan:
        """Split a graph's operators between devices, and schedule the result.

        From 1.5 s on, lines on stderr say how far it has come. Ctrl-C ends the search, which returns its best plan; a
        second one is an interrupt as usual.

        Args:
            graph: the graph before any split.
            budget: wall-clock time, in seconds or as in ``"2s"``; with it, results depend on the machine.
            splits: largest number of plans that are priced, instead of a time: the result is the same on every machine.
                By default the patterns, :data:`EFFORT` for each key operator, and at least :data:`LEAST_EFFORT`.
            arguments: those of HetSplit-v0 that concern its rules, such as ``scheduler``, ``runtime`` or ``costs``; by
                default :attr:`arguments`.

        Returns:
            The best plan that was found, never longer than the inner scheduler's of the unsplit graph, nor than EOP's,
            which places its parts itself, nor than greedy splitting's. With a budget of time there is no greedy
            splitting, and EOP does not tune its ratios.

        Raises:
            ConfigError: not a graph or not a platform, an invalid budget, or arguments that are not rules of
                HetSplit-v0.
        """
        graph, platform = as_graph(graph), as_platform(platform)
        known = {field.name for field in dataclasses.fields(SplitRules)}
        for name in arguments:
            if name not in known:
                raise ConfigError(f"HetSplit-v0 has no rule {name!r}; {suggestion(name, known)}")
        given = {name: value for name, value in self.arguments.items() if name in known}
        rules = SplitRules(**(given | arguments))
        dealt = Splits(rules, rules.menu(len(platform)))
        with Progress(self.card.get("name", "split policy")) as progress, _ended_by_interrupt(), searching():
            progress.now = f"pricing the splits of {len(graph)} operators"
            instance = dealt.instance((graph, platform))
            entries, rival = self._searched(instance, dealt.menu, rules, budget, splits, seed, progress)
        node = dealt.at(instance, tuple((turn, entry) for turn, entry in enumerate(entries) if entry))
        schedule = timed_for(node.problem, node.schedule, rules.simulated)
        name = self.card.get("name", "split policy")
        if rival is not None and rival.makespan < schedule.makespan:
            scheduler = f"{name}+{rival.schedule.scheduler}"
            return dataclasses.replace(rival, schedule=dataclasses.replace(rival.schedule, scheduler=scheduler))
        schedule = dataclasses.replace(schedule, scheduler=f"{name}+{rules.scheduler}")
        return GraphPlan(node.graph, node.problem, schedule)

    def entries(self, instance: SplitInstance, menu: Sequence[Choice], rules: SplitRules) -> Entries:
        """The entry of the menu for each key operator of an instance, as :meth:`plan` finds them without a budget.

        Raises:
            ConfigError: masks by memory, which the search does not know.
        """
        with Progress(self.card.get("name", "split policy")) as progress, _ended_by_interrupt(), searching():
            return self._searched(instance, menu, rules, None, None, 0, progress)[0]

    def _searched(
        self,
        instance: SplitInstance,
        menu: Sequence[Choice],
        rules: SplitRules,
        budget: str | float | None,
        splits: int | None,
        seed: int,
        progress: Progress,
    ) -> tuple[Entries, GraphPlan | None]:
        """The best entries, and the best plan of EOP and greedy splitting, with which it began; None on one device."""
        if rules.memory != "ignore":
            raise ConfigError(f"this policy does not know memory={rules.memory!r}, only memory='ignore'")
        check_number(0 if splits is None else splits, "splits", ConfigError)
        if splits is not None and splits != int(splits):
            raise ConfigError(f"splits is {splits}; it must be a whole number")
        seconds, began = limits(budget)
        rivals = []
        if len(instance.platform) > 1:
            graph, platform, model = instance.graph, instance.platform, instance.prices.model
            progress.now = "splitting as EOP does"
            rivals.append(eop(graph, platform, model, sweeps=3 if seconds is None else 0, runtime=rules.simulated))
            if seconds is None:
                progress.now = "splitting greedily"
                rivals.append(greedy_split(graph, platform, model, rules.scheduler, runtime=rules.simulated))
        starts = [in_entries(instance, menu, rival.graph) for rival in rivals]
        ground = Ground(instance, menu)
        search = SplitSearch(ground, rules.scheduler, rules.simulated, self.network, seed, starts=starts)
        if splits is None:
            splits = search.patterns + max(LEAST_EFFORT, EFFORT * len(instance.keys)) if seconds is None else 2**31
        with searching() as ended:
            while search.priced < splits and not (search.finished or ended()):
                if seconds is not None and clock() - began >= seconds:
                    break
                limit = f" of {splits}" if seconds is None else ""
                progress.now = f"{search.priced}{limit} plans priced, the best {search.makespan * 1e3:.4g} ms"
                search.advance(min(splits, search.priced + SLICE))
        return search.best, min(rivals, key=attrgetter("makespan"), default=None)


def _ended_by_interrupt() -> AbstractContextManager[object]:
    """Ctrl-C ends the search, unless somebody else handles it."""
    alone = current_thread() is main_thread() and getsignal(SIGINT) is default_int_handler
    return ended_by_interrupt() if alone else nullcontext()


FILES = PolicyFiles("hetgym-split-policy", SplitPlanner)  # The files of these policies
