r"""Self-labelling: play a problem many times, and imitate the best that was ever played on it.

Source: Corsini, Porrello, Calderara, Dell'Amico, NeurIPS 2024 (self-labelling the job shop); here labels are
kept and improve from visit to visit. Top to bottom:

1. Draw a fixed set of problems; look at each once.
2. Each update takes some of them, embeds their graphs in one pass, and samples episodes of each in
   compiled code.
3. The best episode that was ever seen on a problem is its label. The loss is the mean over problems of the
   cross-entropy of its decisions, :math:`-\frac1n \sum_i \log \pi(d_i^* \mid i)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._sums import summed
from hetgym._types import IntArray
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.inference import head_weights
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.place import PlaceNetwork
from hetgym.agents.place import episodes
from hetgym.agents.place import planner as place
from hetgym.agents.place.planner import PlacePlanner
from hetgym.agents.place.tokens import EDGE_FEATURES, TOKEN_FEATURES, View, view
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.curriculum import draw
from hetgym.agents.training.playing import Players, Threads, Turn
from hetgym.agents.training.settings import PlaceLabellingSettings
from hetgym.agents.training.trainer import Learner, Trained, arrays, improve
from hetgym.errors import ArtefactError
from hetgym.problem import Problem


@dataclass
class Lesson:
    """A problem of the curriculum with its label, the best episode so far."""

    problem: Problem  # the problem
    view: View  # the policy's view of it
    makespan: float  # of the label [s]; inf before the first visit
    choice: IntArray  # [n] its devices


class PlaceLabelling(Learner):
    """A training in progress; for arguments and other attributes see :class:`~hetgym.agents.training.trainer.Learner`.

    ``lessons`` is the curriculum with its labels.
    """

    settings: PlaceLabellingSettings
    network: PlaceNetwork

    def __init__(self, settings: PlaceLabellingSettings, updates: int, sizes: Sizes, seed: int = 0) -> None:
        super().__init__(settings, updates, sizes, seed)
        self.lessons = [
            Lesson(problem, view(problem), np.inf, np.zeros(problem.num_operators, np.int32))
            for problem in draw(settings.curriculum, seed)
        ]

    def new_network(self, sizes: Sizes) -> PlaceNetwork:
        """The untrained network: the linear rule that it starts from, and small random weights elsewhere."""
        names = tuple(feature.name for feature in episodes.CANDIDATE_FEATURES)
        return PlaceNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), names, sizes.embedding, sizes.layers, sizes.hidden)

    def advance(self, players: Players) -> dict[str, float]:
        """Make one update.

        Returns ``loss``; ``gradient``, its norm; ``sampled``, mean makespan of the episodes relative to the labels;
        ``improved``, share of labels that improved.
        """
        settings = self.settings
        chosen = np.random.default_rng([self.seed, 1, self.update]).choice(
            len(self.lessons), min(settings.problems, len(self.lessons)), replace=False
        )
        lessons = [self.lessons[k] for k in chosen]
        hidden = embed(self.network, lessons)
        temperatures = tuple(settings.temperatures[k % len(settings.temperatures)] for k in range(settings.samples))
        seed = self.seed, 2, self.update
        turns = [
            Turn(of.detach().numpy(), temperatures, settings.search, lesson.makespan, lesson.choice, (*seed, slot))
            for slot, (lesson, of) in enumerate(zip(lessons, hidden, strict=True))
        ]
        on = [(lesson.problem, lesson.view) for lesson in lessons]
        played = players.play(chosen.tolist(), on, turns, head_weights(arrays(self.network)))
        for lesson, found in zip(lessons, played, strict=True):
            lesson.makespan, lesson.choice = found.makespan, found.choice
        loss = torch.stack(
            [self._loss(lesson, of, found.seen) for lesson, of, found in zip(lessons, hidden, played, strict=True)]
        ).mean()
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), settings.clip)
        done = self.update / self.updates
        pace = min(1.0, (self.update + 1) / settings.warm_up) * (1.0 - 0.95 * done)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * pace
        self.optimizer.step()
        self.update += 1
        return {
            "loss": float(loss.detach()),
            "gradient": float(norm),
            "sampled": float(np.mean([found.sampled / found.makespan for found in played])),
            "improved": float(np.mean([found.improved for found in played])),
        }

    def _loss(self, lesson: Lesson, hidden: Tensor, seen: npt.NDArray[np.float32]) -> Tensor:
        """Cross-entropy of the label's decisions."""
        order = lesson.view.order.astype(np.int64)
        legal = torch.from_numpy(np.isfinite(lesson.problem.cost[order]))
        logits = self.network(hidden[torch.from_numpy(order)], torch.from_numpy(seen), legal)
        label = torch.from_numpy(lesson.choice[order].astype(np.int64))
        loss: Tensor = nn.functional.cross_entropy(logits, label)
        return loss

    def snapshot(self) -> Checkpoint:
        """The complete state of the training."""
        labels = {
            "labels.makespan": torch.tensor([lesson.makespan for lesson in self.lessons], dtype=torch.float64),
            "labels.choice": torch.from_numpy(np.concatenate([lesson.choice for lesson in self.lessons])),
        }
        return Checkpoint(self.update, {**super().snapshot().tensors, **labels})

    def restore(self, found: Checkpoint) -> None:
        """As :meth:`Learner.restore`, with the labels."""
        sizes = [len(lesson.choice) for lesson in self.lessons]
        makespans, choices = found.tensors.get("labels.makespan"), found.tensors.get("labels.choice")
        if makespans is None or choices is None or len(makespans) != len(sizes) or len(choices) != summed(sizes):
            raise ArtefactError("the checkpoint belongs to another curriculum")
        others = {name: value for name, value in found.tensors.items() if not name.startswith("labels.")}
        super().restore(Checkpoint(found.step, others))
        for lesson, makespan, choice in zip(self.lessons, makespans.tolist(), choices.split(sizes), strict=True):
            lesson.makespan, lesson.choice = makespan, choice.numpy().astype(np.int32)


def embed(network: PlaceNetwork, lessons: list[Lesson]) -> list[Tensor]:
    """[n, d, H] embeddings of each problem, in one pass; devices are padded to the largest number of any problem."""
    most = max(lesson.problem.num_devices for lesson in lessons)
    tokens, edges, features, graph, present, first = [], [], [], [], [], 0
    for number, lesson in enumerate(lessons):
        n, d, _ = lesson.view.tokens.shape
        padding = (0, 0, 0, most - d)
        tokens.append(nn.functional.pad(torch.from_numpy(lesson.view.tokens).float(), padding))
        ends = np.stack([lesson.problem.edge_source, lesson.problem.edge_target]).astype(np.int64)
        edges.append(torch.from_numpy(ends) + first)
        features.append(torch.from_numpy(lesson.view.edge_features).float())
        graph.append(torch.full((n,), number))
        present.append((torch.arange(most) < d).expand(n, most))
        first += n
    hidden = network.encoder(
        torch.cat(tokens), torch.cat(edges, 1), torch.cat(features), torch.cat(graph), torch.cat(present)
    )
    parts = hidden.split([len(some) for some in graph])
    return [part[:, : lesson.problem.num_devices] for part, lesson in zip(parts, lessons, strict=True)]


class TrainedPlace(Trained):
    """A trained place policy; for arguments see :class:`~hetgym.agents.training.trainer.Trained`."""

    files = place.FILES

    def makespans(self, planner: PlacePlanner, evaluator: Evaluator) -> list[float]:
        """Makespans [s] of the policy's plans for the held-out problems, each in one greedy episode."""
        return [planner.plan(problem, passes=1).makespan for problem in evaluator.problems()]


def train(run: TrainingRun) -> PlaceNetwork:
    """Train by self-labelling; steps of the recipe are updates. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    run.wrap = TrainedPlace
    training = PlaceLabelling(recipe.parsed_settings(), recipe.steps, recipe.network, recipe.seed)
    with _players(run, training) as players:
        network: PlaceNetwork = improve(run, training, lambda: training.advance(players))
    return network


@contextmanager
def _players(run: TrainingRun, training: PlaceLabelling) -> Iterator[Players]:
    """The workers that play: threads of this process, or workers of the run's Ray cluster."""
    settings = training.settings
    if run.cluster is None:
        with ThreadPoolExecutor(settings.workers) as pool:
            yield Threads(pool)
        return
    from hetgym.agents.distributed.players import RayPlayers

    with closing(RayPlayers(run.cluster, min(settings.problems, len(training.lessons)))) as players:
        yield players
