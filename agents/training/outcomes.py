r"""Move outcomes: learn from a search's own tries which regions are worth trying.

Each update searches on some problems, each under a runtime, with the current network, and keeps some of the regions
that were proposed with what became of them: 1 if the plan became shorter, a little if a longer one was accepted, else
0. The loss is the cross-entropy of these outcomes under the network's odds. Regions that the network rates low
are still tried, as a share of all are drawn without it; and it is told how often each was refused, so that it
learns when to turn to others. The first updates search without the network.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from hetgym.agents.evaluation import Evaluator
from hetgym.agents.networks._torch import nn, torch
from hetgym.agents.networks.proposal import ProposalNetwork
from hetgym.agents.regions import planner as regions
from hetgym.agents.regions.planner import RegionPlanner
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.curriculum import draw
from hetgym.agents.training.trainer import Learner, Trained, improve
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.envs.place.lanes import PlaceLanes
from hetgym.problem import Problem
from hetgym.search import proposals
from hetgym.search.search import run

Rows = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]  # [r, f] inputs and [r] outcomes


class MoveOutcomes(Learner):
    """A training in progress; for arguments and attributes see :class:`~hetgym.agents.training.trainer.Learner`."""

    network: ProposalNetwork

    def new_network(self, sizes: Sizes) -> ProposalNetwork:
        """A network with random weights."""
        return ProposalNetwork(sizes.hidden)

    def begin(self) -> None:
        """Initialise weights other than at random, once inputs are standardised."""

    @cached_property
    def problems(self) -> list[Problem]:
        """The problems to search on."""
        return list(draw(self.settings.curriculum, self.seed))

    def advance(self) -> dict[str, float]:
        """Make one update.

        Returns ``loss``; ``shorter``, share of the regions that made a plan shorter; ``saved``, mean share of the
        makespan that the searches saved.
        """
        rng = np.random.default_rng([self.seed, 1, self.update])
        searches = [self.search(rng) for _ in range(self.settings.problems)]
        found, target = (np.concatenate([rows[k] for rows, _ in searches]) for k in range(2))
        if self.update == 0:
            self.network.standardise(torch.from_numpy(found))
            self.begin()
        losses = []
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * (1.0 - 0.95 * self.update / self.updates)
        for _ in range(self.settings.epochs):
            for batch in np.array_split(rng.permutation(len(target)), max(1, len(target) // self.settings.batch)):
                log_odds = self.network(torch.from_numpy(found[batch]))
                loss = nn.functional.binary_cross_entropy_with_logits(log_odds, torch.from_numpy(target[batch]))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(float(loss.detach()))
        self.update += 1
        return {
            "loss": float(np.mean(losses)),
            "shorter": float((target > LIKELY).mean()),
            "saved": float(np.mean([saved for _, saved in searches])),
        }

    def search(self, rng: np.random.Generator) -> tuple[Rows, float]:
        """Search on a random problem; the rows, and the share of the makespan that was saved."""
        settings = self.settings
        problem = self.problems[int(rng.integers(len(self.problems)))]
        runtime = settings.runtimes[int(rng.integers(len(settings.runtimes)))]
        low, high = np.log(settings.tries)
        tries = float(np.exp(rng.uniform(low, high))) * problem.num_operators
        budget = int(tries * LAUNCHES * problem.num_operators)
        network = None if self.update < settings.warm_up else self.network.compiled()
        every = max(1, int(tries / settings.rows))
        guide = proposals.new_proposals(problem, network, rows=settings.rows, every=every)
        search = RegionAnnealing(problem, settings.start, seed=int(rng.integers(2**31)), runtime=runtime, guide=guide)
        first = search.makespan
        run(search, budget, None)
        return proposals.rows_of(guide), 1.0 - search.makespan / first


LIKELY = 0.15
"""Outcomes above this are those of moves that made a plan shorter; that of a longer one that was accepted is below."""

LAUNCHES = 0.2  # Operators launched by a try, as a share of all: most are refused early


class TrainedProposals(Trained):
    """A trained policy that proposes moves; for arguments see :class:`~hetgym.agents.training.trainer.Trained`."""

    def exported(self, network: ProposalNetwork) -> dict[str, npt.NDArray[np.float32]]:
        """The weights for raw inputs, not standardised ones."""
        return network.folded()


class TrainedRegions(TrainedProposals):
    """A trained region policy; for arguments see :class:`~hetgym.agents.training.trainer.Trained`."""

    files = regions.FILES

    def makespans(self, planner: RegionPlanner, evaluator: Evaluator) -> list[float]:
        """Makespans [s] of the policy's plans for the held-out problems and the environment's runtime."""
        assert isinstance(evaluator.lanes, PlaceLanes)
        runtime = evaluator.lanes.rules.simulated
        return [planner.plan(problem, runtime=runtime).makespan for problem in evaluator.problems()]


def train(run: TrainingRun) -> ProposalNetwork:
    """Train by move outcomes; steps of the recipe are updates. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    run.wrap = TrainedRegions
    training = MoveOutcomes(recipe.parsed_settings(), recipe.steps, recipe.network, recipe.seed)
    network: ProposalNetwork = improve(run, training, training.advance)
    return network
