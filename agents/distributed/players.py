"""Players on a Ray cluster: self-labelling's episodes and searches on workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym.agents.distributed.crew import Crew, RayCluster
from hetgym.agents.inference import HeadWeights
from hetgym.agents.place.tokens import View, view
from hetgym.agents.training.playing import Played, Turn, play
from hetgym.problem import Problem
from hetgym.workloads.packing import pack_problem, unpack_problem


class PlayWorker:
    """Plays on problems, and caches those that it has received."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Problem, View]] = {}

    def play(self, number: int, data: npt.NDArray[np.uint8], turn: Turn, head: HeadWeights) -> Played:
        """Play on a problem, known by its number; see :func:`hetgym.agents.training.playing.play`."""
        if number not in self._known:
            problem = unpack_problem(data.tobytes())
            self._known[number] = problem, view(problem)
        # Received arrays are read-only, but kernels are compiled for writable ones.
        weights, given = HeadWeights(*map(np.array, head)), turn._replace(choice=np.array(turn.choice))
        return play(*self._known[number], given, weights)


class RayPlayers:
    """Workers as :class:`~hetgym.agents.training.playing.Players`; a problem and an update's weights are sent once.

    ``problems`` is the number of an update, and so the largest number of useful workers.

    Raises:
        ClusterError: the workers do not start.
    """

    def __init__(self, cluster: RayCluster, problems: int) -> None:
        self._ray = cluster.ray
        self.crew = Crew(cluster.ray, PlayWorker, [()] * min(cluster.workers, problems))
        self._sent: dict[int, Any] = {}

    def play(
        self, numbers: Sequence[int], on: Sequence[tuple[Problem, View]], turns: Sequence[Turn], head: HeadWeights
    ) -> list[Played]:
        """Play; see :class:`~hetgym.agents.training.playing.Players`. ClusterError: a worker is lost repeatedly."""
        for number, (problem, _) in zip(numbers, on, strict=True):
            if number not in self._sent:
                self._sent[number] = self._ray.put(np.frombuffer(pack_problem(problem), np.uint8))
        weights = self._ray.put(head)
        tasks = [(number, self._sent[number], turn, weights) for number, turn in zip(numbers, turns, strict=True)]
        # Arrays of an answer lie in Ray's memory, which is freed with the connection; labels live longer than that.
        return [
            found._replace(choice=np.array(found.choice), seen=np.array(found.seen))
            for found in self.crew.each("play", tasks)
        ]

    def close(self) -> None:
        """End the workers."""
        self.crew.close()
