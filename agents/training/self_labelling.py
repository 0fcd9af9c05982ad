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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._types import IntArray
from hetgym.agents.checkpoint import Checkpoint, learner_tensors, restore_learner
from hetgym.agents.inference import head_weights
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.place import PlaceNetwork
from hetgym.agents.place import episodes
from hetgym.agents.place.tokens import EDGE_FEATURES, TOKEN_FEATURES, View, view
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.curriculum import draw
from hetgym.agents.training.playing import Players, Turn
from hetgym.agents.training.settings import SelfLabellingSettings
from hetgym.errors import ArtefactError
from hetgym.problem import Problem


@dataclass
class Lesson:
    """A problem of the curriculum with its label, the best episode so far.

    Attributes:
        problem: the problem.
        view: the policy's view of it.
        makespan: of the label [s]; inf before the first visit.
        choice: [n] its devices.
    """

    problem: Problem
    view: View
    makespan: float
    choice: IntArray


def new_network(sizes: Sizes, seed: int) -> PlaceNetwork:
    """The untrained network: the linear rule that it starts from, and small random weights elsewhere.

    Args:
        sizes: ``embedding`` and ``layers`` of the encoder, ``hidden`` of the head.
        seed: of the weights.
    """
    torch.manual_seed(seed)
    names = tuple(feature.name for feature in episodes.CANDIDATE_FEATURES)
    return PlaceNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), names, sizes.embedding, sizes.layers, sizes.hidden)


class SelfLabelling:
    """A training in progress.

    Args:
        settings: of the training.
        updates: total number of gradient steps, over which the learning rate decreases.
        sizes: of the network.
        seed: of all randomness.

    Attributes:
        network: the network that is trained.
        update: number of updates done.
        lessons: the curriculum with its labels.
    """

    def __init__(self, settings: SelfLabellingSettings, updates: int, sizes: Sizes, seed: int = 0) -> None:
        self.settings, self.updates, self.seed = settings, updates, seed
        torch.set_num_threads(1)  # rounding of sums depends on how threads split them
        self.network = new_network(sizes, seed)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        self.lessons = [
            Lesson(problem, view(problem), np.inf, np.zeros(problem.num_operators, np.int32))
            for problem in draw(settings.curriculum, seed)
        ]
        self.update = 0

    def advance(self, players: Players) -> dict[str, float]:
        """Make one update.

        Args:
            players: the workers that play the episodes.

        Returns:
            ``loss``; ``gradient``, its norm; ``sampled``, mean makespan of the episodes relative to the labels;
            ``improved``, share of labels that improved.
        """
        settings = self.settings
        chosen = np.random.default_rng([self.seed, 1, self.update]).choice(
            len(self.lessons), min(settings.problems, len(self.lessons)), replace=False
        )
        lessons = [self.lessons[k] for k in chosen]
        hidden = embed(self.network, lessons)
        temperatures = tuple(settings.temperatures[k % len(settings.temperatures)] for k in range(settings.samples))
        turns = [
            Turn(
                of.detach().numpy(),
                temperatures,
                settings.search,
                lesson.makespan,
                lesson.choice,
                (self.seed, 2, self.update, slot),
            )
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
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * self._pace()
        self.optimizer.step()
        self.update += 1
        return {
            "loss": float(loss.detach()),
            "gradient": float(norm),
            "sampled": float(np.mean([found.sampled / found.makespan for found in played])),
            "improved": float(np.mean([found.improved for found in played])),
        }

    def _pace(self) -> float:
        done = self.update / self.updates
        return min(1.0, (self.update + 1) / self.settings.warm_up) * (1.0 - 0.95 * done)

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
        return Checkpoint(self.update, learner_tensors(self.network, self.optimizer) | labels)

    def restore(self, found: Checkpoint) -> None:
        """Resume from a checkpoint.

        Raises:
            ArtefactError: the checkpoint is not of such a training.
        """
        sizes = [len(lesson.choice) for lesson in self.lessons]
        makespans, choices = found.tensors.get("labels.makespan"), found.tensors.get("labels.choice")
        if makespans is None or choices is None or len(makespans) != len(sizes) or len(choices) != sum(sizes):
            raise ArtefactError("the checkpoint is not of this curriculum")
        others = {name: value for name, value in found.tensors.items() if not name.startswith("labels.")}
        restore_learner(self.network, self.optimizer, others)
        for lesson, makespan, choice in zip(self.lessons, makespans.tolist(), choices.split(sizes), strict=True):
            lesson.makespan, lesson.choice = makespan, choice.numpy().astype(np.int32)
        self.update = found.step


def arrays(network: nn.Module) -> dict[str, npt.NDArray[np.float32]]:
    """A network's weights as arrays by name."""
    return {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()}


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
