"""TrainingRun: the folder of a run, its evaluations and its checkpoints."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hetgym._input.files import atomic_write, read_text
from hetgym._input.json import noun, parse
from hetgym._input.yaml import SIZE_LIMIT
from hetgym.agents.algorithms import algorithm_of, check_workers
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.curves import Curves
from hetgym.agents.distributed.crew import RayCluster
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.network_policy import NetworkPolicy
from hetgym.agents.recipe import Recipe
from hetgym.errors import ConfigError, shown

FILES = ("recipe.json", "checkpoint.safetensors", "policy.safetensors", "best.safetensors", "results.json")
"""Files of a run in its folder, besides TensorBoard's curves in ``curves/``."""

TIMES = "seconds", "core_seconds"
"""Times of a run [s]: on the clock, and of the processors, where workers of a Ray cluster are left out."""


class Product(Protocol):
    """The result of a training: a policy that can be evaluated and saved."""

    card: dict[str, Any]

    def judge(self, evaluator: Evaluator) -> dict[str, float]:
        """Results on held-out problems; see :meth:`~hetgym.agents.evaluation.Evaluator.compare`."""

    def save(self, path: Path) -> None:
        """Write the policy to a file."""


History = list[dict[str, float]]  # Evaluations: `step`, and the values of judge


class TrainingRun:
    """A run of a recipe in a folder, either new or resumed.

    Args:
        recipe: the recipe to run.
        path: the folder; made if it is missing.
        force: true to remove the files of an earlier run there first.
        watch: called with the number of steps done, and with the latest evaluation if it is new.
        cluster: Ray cluster whose workers play; None to play in this process. The weights are the same.

    Attributes:
        checkpoint: checkpoint to resume from; None at the beginning.
        history: evaluations so far.
        wrap: function from a network and a card to a :class:`Product`; trainers of other networks replace it.

    Raises:
        ConfigError: the folder holds a run of another recipe, or cannot be written; or workers are to take part where
            a single process trains.
    """

    def __init__(
        self,
        recipe: Recipe,
        path: Path,
        force: bool = False,
        watch: Callable[[int, dict[str, float] | None], None] = lambda step, judged: None,
        cluster: RayCluster | None = None,
    ) -> None:
        self.recipe, self.path, self.watch, self.cluster = recipe, path, watch, cluster
        if cluster is not None:
            check_workers(recipe.algorithm)
        kept = path / "checkpoint.safetensors"
        if kept.exists() and not force:
            self._compare()
        self.evaluator = Evaluator(recipe)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if force or not kept.exists():  # files of a run that never reached a checkpoint are useless
                for old in [path / name for name in (*FILES, "policy.json", "best.json")] + list(
                    (path / "curves").glob("events.out.tfevents.*")
                ):
                    old.unlink(missing_ok=True)
            self._write("recipe.json", recipe.document())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from error
        self.checkpoint = Checkpoint.load(kept) if kept.exists() else None
        state: Mapping[str, Any] = {} if self.checkpoint is None else self.checkpoint.state
        self.wrap: Callable[[Any, Mapping[str, Any]], Product] = NetworkPolicy
        order = ["step", "return", "return_error", *(f"ratio_{name}" for name in recipe.evaluation.baselines)]
        kept_order = {name: at for at, name in enumerate(order)}  # a checkpoint sorts its names
        self.history: History = [
            dict(sorted(entry.items(), key=lambda item: kept_order.get(item[0], len(order))))
            for entry in state.get("history", [])
        ]
        self._step = 0 if self.checkpoint is None else self.checkpoint.step
        self._began, self._first = time.perf_counter(), self._step
        self._earlier: dict[str, float] = {name: state.get(name, 0.0) for name in TIMES}
        self._used = _core_seconds()
        self.curves = Curves(path / "curves", self._step)

    def _compare(self) -> None:
        """Check that the recipe equals that of the run in the folder.

        Raises:
            ConfigError: the recipes differ.
        """
        file, document = self.path / "recipe.json", json.loads(json.dumps(self.recipe.document()))
        try:
            before = parse(read_text(file, SIZE_LIMIT, ConfigError), str(file), ConfigError)
        except ConfigError as error:
            raise ConfigError(f"{error}; choose another --name, or add --force") from error
        if not isinstance(before, dict):
            raise ConfigError(f"{file}: holds {noun(before)}, not a recipe; choose another --name, or add --force")
        for key in document:
            if document[key] != before.get(key):
                raise ConfigError(
                    f"{self.path}: holds a run with {key}={shown(before.get(key))}; this run asks for "
                    f"{shown(document[key])}; choose another --name, or add --force to begin anew"
                )

    def network(self) -> Any:
        """A new network as the recipe describes it, for its environment and level of observation."""
        from hetgym.agents.networks.actor_critic import ActorCritic

        space: Any = self.evaluator.observation_space
        return ActorCritic(space.kind, space.level, self.recipe.network)

    def train(self) -> Any:
        """Run the training to its end.

        Returns:
            The trained network; its policy is written to ``policy.safetensors``.
        """
        network = algorithm_of(self.recipe.algorithm).train()(self)
        self.curves.close()
        return network

    def between(self, step: int, network: Any, snapshot: Callable[[], Checkpoint], last: bool = False) -> None:
        """Evaluate the policy and write a checkpoint if these are due.

        Trainers call it before the first update, and after each.

        Args:
            step: number of steps done.
            network: the network in its present state.
            snapshot: function that returns the state of the run, without its history.
            last: true if the run is over.
        """
        if self.checkpoint is not None and step == self.checkpoint.step and not last:
            return  # this was done before the run was stopped
        wanted, judged = self.recipe.evaluation, None
        if last or not self.history or step // wanted.every > self._step // wanted.every:
            judged = self._judge(step, network)
        if last or step // self.recipe.checkpoint_every > self._step // self.recipe.checkpoint_every:
            found = snapshot()
            state = {**found.state, "history": self.history, **self.times}
            Checkpoint(step, found.tensors, state).save(self.path / "checkpoint.safetensors")
        self._step = step
        self.watch(step, judged)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add to the curves."""
        self.curves.write(step, values)

    def speed(self, step: int) -> float:
        """Steps per second since this process began or resumed the run, evaluations included."""
        return (step - self._first) / max(time.perf_counter() - self._began, 1e-9)

    @property
    def times(self) -> dict[str, float]:
        """Times of the run by :data:`TIMES` [s], summed over processes, each up to its last checkpoint."""
        now = time.perf_counter() - self._began, _core_seconds() - self._used
        return {name: self._earlier[name] + spent for name, spent in zip(TIMES, now, strict=True)}

    def _judge(self, step: int, network: Any) -> dict[str, float]:
        """Play the held-out problems, and save the policy if it is the best so far."""
        policy = self.wrap(network, {"env": self.recipe.env, "step": step, "recipe": self.recipe.document()})
        found = policy.judge(self.evaluator)
        policy.card["evaluation"] = found
        best = max((entry["return"] for entry in self.history), default=float("-inf"))
        policy.save(self.path / "policy.safetensors")
        if found["return"] > best:
            policy.save(self.path / "best.safetensors")
        if not self.history or self.history[-1]["step"] < step:
            self.history.append({"step": step, **found})
        self.log(step, {f"evaluation/{name}": value for name, value in found.items()})
        return found

    def results(self) -> dict[str, Any]:
        """The results of the run as JSON values; also written to ``results.json``."""
        final = self.history[-1]
        beaten = {name: final.get(f"ratio_{name}", 1.0) < 1.0 for name in self.recipe.evaluation.must_beat}
        document = {
            "format": "hetgym-training",
            "version": 1,
            "recipe": self.recipe.document(),
            "final": final,
            **self.times,
            "best": max(self.history, key=lambda entry: entry["return"]),
            "beaten": beaten,
            "history": self.history,
            "files": {name.partition(".")[0]: str(self.path / name) for name in FILES},
        }
        self._write("results.json", document)
        return document

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=1, allow_nan=False) + "\n"
        atomic_write(self.path / name, lambda file: file.write(text.encode()))


def _core_seconds() -> float:
    """Processor time of this process and of those that it has started and that have ended [s]."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system
