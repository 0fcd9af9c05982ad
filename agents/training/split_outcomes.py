r"""Split outcomes: learn from a search over splits which moves are worth pricing.

As :mod:`hetgym.agents.training.outcomes`, with searches by :class:`~hetgym.agents.splits.search.SplitSearch`, each on a
problem of its own. A price takes microseconds, so that at some moments of a search all moves of a draw are priced, not
only the one that the search takes: the network also learns from moves that it rates low. The label of a move
that saves the share s of the makespan is :math:`s / (s + 0.002)`, so moves that save more are tried before moves that
save little more often.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hetgym.agents.evaluation import Evaluator
from hetgym.agents.networks.proposal import ProposalNetwork
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.agents.splits import planner as splits
from hetgym.agents.splits.moves import FEATURES
from hetgym.agents.splits.planner import SplitPlanner
from hetgym.agents.splits.search import Ground, SplitSearch
from hetgym.agents.splits.starts import in_entries
from hetgym.agents.training.outcomes import MoveOutcomes, Rows, TrainedProposals
from hetgym.agents.training.settings import SplitOutcomeSettings
from hetgym.agents.training.trainer import improve
from hetgym.baselines import eop
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.lanes import SplitLanes
from hetgym.envs.split.networks import RandomNetworks
from hetgym.envs.split.problems import Pair
from hetgym.envs.split.rules import SplitRules
from hetgym.graph import load_graph
from hetgym.platform import load_platform


class SplitOutcomes(MoveOutcomes):
    """A training in progress; for other arguments and attributes see :class:`~hetgym.agents.training.trainer.Learner`.

    Args:
        rule: weights of inputs by name, as which a new network begins; see
            :meth:`~hetgym.agents.networks.proposal.ProposalNetwork.begin_as`.
    """

    def __init__(
        self,
        settings: SplitOutcomeSettings,
        updates: int,
        sizes: Sizes,
        seed: int,
        rules: SplitRules,
        rule: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(settings, updates, sizes, seed)
        self.rules, self._rule = rules, rule or {}
        self.begin()

    def new_network(self, sizes: Sizes) -> ProposalNetwork:
        """A network with random weights."""
        return ProposalNetwork(sizes.hidden, len(FEATURES))

    def begin(self) -> None:
        """Begin as the rule, if there is one."""
        if self._rule:
            self.network.begin_as(self._rule, FEATURES)

    def search(self, rng: np.random.Generator) -> tuple[Rows, float]:
        """Search on a new problem; the rows, and the share of the makespan of the best start that was saved."""
        graph, platform = self._draw(rng)
        menu = self.rules.menu(len(platform))
        instance = Splits(self.rules, menu).instance((graph, platform))
        start = in_entries(instance, menu, eop(graph, platform, instance.prices.model, sweeps=0).graph)
        low, high = np.log(self.settings.plans)
        plans = int(np.exp(rng.uniform(low, high)) * len(instance.keys)) + 1
        network = None if self.update < self.settings.warm_up else self.network.compiled()
        ground, watched = Ground(instance, menu), min(1.0, self.settings.draws / plans)
        inner, seed = (self.rules.scheduler, self.rules.simulated), int(rng.integers(2**31))
        search = SplitSearch(ground, *inner, network, seed, [start], watched=watched)
        search.advance(search.patterns)
        first = search.makespan
        search.advance(search.patterns + plans)
        return search.rows(), 1.0 - search.makespan / first

    def _draw(self, rng: np.random.Generator) -> Pair:
        """A graph on a platform."""
        settings = self.settings
        if rng.random() >= settings.zoo:
            return RandomNetworks()(rng)
        network, batch, platform = (
            names[int(rng.integers(len(names)))] for names in (settings.networks, settings.batches, settings.platforms)
        )
        return load_graph(network, batch=batch), load_platform(platform)


class TrainedSplits(TrainedProposals):
    """A trained split policy; for arguments see :class:`~hetgym.agents.training.trainer.Trained`."""

    files = splits.FILES

    def makespans(self, planner: SplitPlanner, evaluator: Evaluator) -> list[float]:
        """Makespans [s] of the policy's plans for the held-out problems."""
        lanes = evaluator.lanes
        assert isinstance(lanes, SplitLanes)
        evaluator.problems()
        makespans = []
        for lane in range(lanes.count):
            instance = lanes.state(lane).instance
            entries = planner.entries(instance, lanes.menu, lanes.rules)
            chosen = tuple((turn, entry) for turn, entry in enumerate(entries) if entry)
            makespans.append(lanes.splits.at(instance, chosen).makespan)
        return makespans


def train(run: TrainingRun) -> ProposalNetwork:
    """Train by split outcomes; steps of the recipe are updates. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    assert isinstance(run.evaluator.lanes, SplitLanes)
    run.wrap = TrainedSplits
    settings, rules = recipe.parsed_settings(), run.evaluator.lanes.rules
    training = SplitOutcomes(settings, recipe.steps, recipe.network, recipe.seed, rules, recipe.rule)
    network: ProposalNetwork = improve(run, training, training.advance)
    return network
