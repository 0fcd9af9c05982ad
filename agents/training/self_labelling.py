r"""Self-labelling: play a problem many times, and imitate the best that was ever played on it.

Source: Corsini, Porrello, Calderara, Dell'Amico, NeurIPS 2024 (self-labelling the job shop); here labels are
kept and get better from visit to visit. Top to bottom:

1. Draw a fixed set of problems; look at each once.
2. Each update takes some of them, embeds their graphs in one pass, and samples episodes of each in
   compiled code.
3. The best episode that was ever seen on a problem is its label. The loss is the mean over problems of the
   cross-entropy of its decisions, :math:`-\frac1n \sum_i \log \pi(d_i^* \mid i)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._config import check_number
from hetgym._types import FloatArray, IntArray
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.place import PlaceNetwork
from hetgym.agents.place import episodes, inference
from hetgym.agents.place.refinement import Refinement, Refining
from hetgym.agents.place.tokens import EDGE_FEATURES, TOKEN_FEATURES, View, view
from hetgym.agents.training.curriculum import Part, draw
from hetgym.errors import ConfigError
from hetgym.problem import Problem


@dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Attributes:
        updates: number of gradient steps.
        curriculum: problems.
        problems: of an update.
        samples: episodes of each.
        temperatures: of the samples, in turn.
        search: operators that a search in the policy's order of decisions places for each first label; 0 for none.
        learning_rate: of Adam; falls linearly to a twentieth.
        warm_up: updates over which it rises.
        clip: largest norm of the gradient.
        hidden, layers, width: sizes, see :class:`~hetgym.agents.networks.place.PlaceNetwork`.
        seed: of everything that is random.
        workers: threads that play; results do not depend on their number.

    Raises:
        ConfigError: a number out of its range.
    """

    updates: int = 2000
    curriculum: tuple[Part, ...] = field(default=(Part("random", 400),))
    problems: int = 8
    samples: int = 16
    temperatures: tuple[float, ...] = (1.0, 1.0, 2.0, 4.0)
    search: int = 0
    learning_rate: float = 2e-3
    warm_up: int = 30
    clip: float = 1.0
    hidden: int = 16
    layers: int = 2
    width: int = 32
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("updates", "problems", "samples", "warm_up", "hidden", "layers", "width", "workers"):
            check_number(getattr(self, name), name, ConfigError, minimum=1)
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < np.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")
        if not self.curriculum or not self.temperatures or not all(0 < t < np.inf for t in self.temperatures):
            raise ConfigError("curriculum and temperatures must not be empty, temperatures positive")


@dataclass
class Lesson:
    """A problem of the curriculum, and the best that was ever played on it.

    Attributes:
        problem: what is placed.
        view: what the policy sees of it.
        makespan: of the label [s]; inf before the first visit.
        choice: [n] its devices.
    """

    problem: Problem
    view: View
    makespan: float
    choice: IntArray


def new_network(settings: Settings) -> PlaceNetwork:
    """The untrained network: the rule that it starts from, and small random weights beside it."""
    torch.manual_seed(settings.seed)
    names = tuple(feature.name for feature in episodes.CANDIDATE_FEATURES)
    return PlaceNetwork(
        len(TOKEN_FEATURES), len(EDGE_FEATURES), names, settings.hidden, settings.layers, settings.width
    )  # fmt: skip


class SelfLabelling:
    """A training under way.

    Args:
        settings: of the training.

    Attributes:
        network: what is trained.
        update: number of updates that are done.
        lessons: the curriculum with its labels.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        torch.set_num_threads(1)
        self.network = new_network(settings)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        self.lessons = [
            Lesson(problem, view(problem), np.inf, np.zeros(problem.num_operators, np.int32))
            for problem in draw(settings.curriculum, settings.seed)
        ]
        self.update = 0

    def run(self, watch: Callable[[SelfLabelling, dict[str, float]], None] = lambda training, values: None) -> None:
        """Update until the budget is spent.

        Args:
            watch: called after each update with the training and what there is to log.
        """
        with ThreadPoolExecutor(self.settings.workers) as pool:
            while self.update < self.settings.updates:
                watch(self, self.advance(pool))

    def advance(self, pool: ThreadPoolExecutor) -> dict[str, float]:
        """Make one update.

        Returns:
            ``loss``, ``gradient`` norm, mean ``sampled`` makespan over the labels', and share of labels that
            got better, ``improved``.
        """
        settings = self.settings
        chosen = np.random.default_rng([settings.seed, 1, self.update]).choice(
            len(self.lessons), min(settings.problems, len(self.lessons)), replace=False
        )
        lessons = [self.lessons[k] for k in chosen]
        hidden = embed(self.network, lessons)
        head = inference.head_weights(arrays(self.network))
        temperatures = [settings.temperatures[k % len(settings.temperatures)] for k in range(settings.samples)]

        def play(slot: int) -> tuple[float, bool, episodes.Stage, FloatArray]:
            lesson, rng = lessons[slot], np.random.default_rng([settings.seed, 2, self.update, slot])
            embedded = hidden[slot].detach().double().numpy()
            stage = episodes.set_up(lesson.problem, lesson.view, np.ascontiguousarray(embedded), head)
            desk = episodes.new_desk(lesson.problem, head)
            if np.isinf(lesson.makespan) and settings.search:
                self._search(lesson, stage, head, desk)
            makespans, choices = episodes.sample(lesson.problem, stage, head, desk, temperatures, rng)
            best = int(makespans.argmin())
            improved = bool(makespans[best] < lesson.makespan)
            if improved:
                lesson.makespan, lesson.choice = float(makespans[best]), choices[best].copy()
            seen = episodes.replay(lesson.problem, stage, head, desk, lesson.choice)
            return float(makespans.mean()) / lesson.makespan, improved, stage, seen

        played = list(pool.map(play, range(len(lessons))))
        loss = torch.stack([
            self._loss(lesson, of, seen) for lesson, of, (_, _, _, seen) in zip(lessons, hidden, played, strict=True)
        ]).mean()  # fmt: skip
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * self._pace()
        self.optimizer.step()
        self.update += 1
        return {
            "loss": float(loss.detach()), "gradient": float(norm),
            "sampled": float(np.mean([ratio for ratio, *_ in played])),
            "improved": float(np.mean([improved for _, improved, *_ in played])),
        }  # fmt: skip

    def _search(self, lesson: Lesson, stage: episodes.Stage, head: inference.HeadWeights, desk: episodes.Desk) -> None:
        """Find a first label, in the order in which the policy decides."""
        _, choice = episodes.greedy(lesson.problem, stage, head, desk)
        search = Refinement(lesson.problem, stage, head, choice, lesson.view.order, Refining(reorder=0.0))
        search.advance(self.settings.search, self.settings.search)
        lesson.makespan, lesson.choice = search.makespan, search.walk.best_assignment.copy()

    def _pace(self) -> float:
        done = self.update / self.settings.updates
        return min(1.0, (self.update + 1) / self.settings.warm_up) * (1.0 - 0.95 * done)

    def _loss(self, lesson: Lesson, hidden: Tensor, seen: FloatArray) -> Tensor:
        """Cross-entropy of the label's decisions."""
        order = lesson.view.order.astype(np.int64)
        legal = torch.from_numpy(np.isfinite(lesson.problem.cost[order]))
        logits = self.network(hidden[torch.from_numpy(order)], torch.from_numpy(seen).float(), legal)
        label = torch.from_numpy(lesson.choice[order].astype(np.int64))
        loss: Tensor = nn.functional.cross_entropy(logits, label)
        return loss

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the rest of the training depends on, as arrays by name."""
        found = {f"network.{name}": weight for name, weight in arrays(self.network).items()}
        for number, values in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{number}.{name}": np.array(value) for name, value in values.items()}
        found["update"] = np.array(self.update)
        found["labels.makespan"] = np.array([lesson.makespan for lesson in self.lessons])
        found["labels.choice"] = np.concatenate([lesson.choice for lesson in self.lessons])
        return found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on where a state was taken.

        Raises:
            ConfigError: it is not a state of such a training.
        """
        sizes = [len(lesson.choice) for lesson in self.lessons]
        try:
            choices = np.split(state["labels.choice"], np.cumsum(sizes)[:-1])
            makespans, self.update = state["labels.makespan"], int(state["update"])
            if [len(choice) for choice in choices] != sizes or len(makespans) != len(sizes):
                raise ValueError("labels of other problems")
            weights = {n.removeprefix("network."): w for n, w in state.items() if n.startswith("network.")}
            self.network.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in weights.items()})
            moments: dict[int, dict[str, Tensor]] = {}
            for name, value in state.items():
                if name.startswith("optimizer."):
                    _, number, key = name.split(".", 2)
                    moments.setdefault(int(number), {})[key] = torch.from_numpy(np.array(value))
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        except (KeyError, RuntimeError, ValueError) as error:
            raise ConfigError(f"not a state of this training ({error})") from error
        for lesson, makespan, choice in zip(self.lessons, makespans, choices, strict=True):
            lesson.makespan, lesson.choice = float(makespan), choice.astype(np.int32)

    def card(self) -> dict[str, Any]:
        """Settings, as JSON values."""
        return asdict(self.settings)


def arrays(network: nn.Module) -> dict[str, npt.NDArray[np.float32]]:
    """A network's weights as arrays by name."""
    return {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()}


def embed(network: PlaceNetwork, lessons: list[Lesson]) -> list[Tensor]:
    """[n, d, H] embeddings of each problem, in one pass; devices are padded to the most of any problem."""
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
    )  # fmt: skip
    parts = hidden.split([len(some) for some in graph])
    return [part[:, : lesson.problem.num_devices] for part, lesson in zip(parts, lessons, strict=True)]
