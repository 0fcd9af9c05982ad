r"""Split outcomes: learn from a search over splits which moves are worth pricing.

As :mod:`hetgym.agents.training.outcomes`, with searches by :class:`~hetgym.agents.splits.search.SplitSearch`. The label
of a move that saves the share s of the makespan is :math:`s / (s + 0.002)`, so moves that save more are tried before
moves that save little more often.
"""

from __future__ import annotations

import numpy as np

from hetgym.agents.evaluation import Evaluator
from hetgym.agents.networks.proposal import ProposalNetwork
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.agents.splits import planner as splits
from hetgym.agents.splits.moves import FEATURES
from hetgym.agents.splits.planner import SplitPlanner
from hetgym.agents.splits.search import Ground, SplitSearch, new_ground
from hetgym.agents.training.outcomes import MoveOutcomes, Rows
from hetgym.agents.training.settings import SplitOutcomeSettings
from hetgym.agents.training.trainer import Trained, improve
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
        rules: of the splits.
    """

    def __init__(
        self, settings: SplitOutcomeSettings, updates: int, sizes: Sizes, seed: int, rules: SplitRules
    ) -> None:
        self.rules = rules
        self._grounds: dict[int, Ground] = {}
        super().__init__(settings, updates, sizes, seed)

    def new_network(self, sizes: Sizes) -> ProposalNetwork:
        """A network with random weights."""
        return ProposalNetwork(sizes.hidden, len(FEATURES))

    def draw_problems(self) -> list[Pair]:
        """Graphs on platforms, each drawn with a generator of its own."""
        settings, found = self.settings, []
        for k in range(settings.random):
            found.append(RandomNetworks()(np.random.default_rng([self.seed, 0, k])))
        for k in range(settings.drawn):
            rng = np.random.default_rng([self.seed, 1, k])
            network, batch, platform = (
                names[int(rng.integers(len(names)))]
                for names in (settings.networks, settings.batches, settings.platforms)
            )
            found.append((load_graph(network, batch=batch), load_platform(platform)))
        return found

    def search(self, rng: np.random.Generator) -> tuple[Rows, float]:
        """Search on a random problem; the rows, and the share of the makespan of the best pattern that was saved."""
        ground = self._ground(int(rng.integers(len(self.problems))))
        low, high = np.log(self.settings.plans)
        plans = int(np.exp(rng.uniform(low, high)) * len(ground.instance.keys)) + 1
        network = None if self.update < self.settings.warm_up else self.network.compiled()
        seed = int(rng.integers(2**31))
        search = SplitSearch(ground, self.rules.scheduler, self.rules.simulated, network, seed, rows=plans)
        search.advance(search.patterns)
        first = search.makespan
        search.advance(search.patterns + plans)
        return search.rows(), 1.0 - search.makespan / first

    def _ground(self, number: int) -> Ground:
        if number not in self._grounds:
            pair = self.problems[number]
            menu = self.rules.menu(len(pair[1]))
            self._grounds[number] = new_ground(Splits(self.rules, menu).instance(pair), menu)
        return self._grounds[number]


class TrainedSplits(Trained):
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
    """Train by split outcomes, from the beginning or from the run's checkpoint.

    Args:
        run: of a recipe for ``split-outcomes``, whose steps are updates.

    Returns:
        The trained network.

    Raises:
        ArtefactError: the checkpoint is not one of this recipe.
    """
    recipe = run.recipe
    assert isinstance(run.evaluator.lanes, SplitLanes)
    run.wrap = TrainedSplits
    settings, rules = recipe.parsed_settings(), run.evaluator.lanes.rules
    training = SplitOutcomes(settings, recipe.steps, recipe.network, recipe.seed, rules)
    if recipe.rule:
        training.network.begin_as(recipe.rule, FEATURES)
    network: ProposalNetwork = improve(run, training, training.advance)
    return network
