"""Recipes: the complete description of a training run as one YAML file, read into frozen dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetgym._input.config import check_number, read
from hetgym._input.files import as_path
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym.agents.algorithms import OPTIONAL, algorithm_of
from hetgym.agents.sizes import Sizes
from hetgym.envs.core.registry import ENVIRONMENTS
from hetgym.errors import ConfigError, suggestion, unknown_name

FOLDER = part("configs") / "train"  # Folder of the shipped recipes

SOURCES = ("problem", "graph", "platform", "suite", "generator", "curriculum")
"""Arguments of environments, and those of recipes, that give the source of problems."""

ELSEWHERE = (
    *SOURCES, "batch", "costs", "reward", "max_operators", "max_edges", "max_devices", "max_blocks", "max_actions",
    "noise", "jobs", "gap", "load", "arrivals", "release", "weights", "rule", "changes", "slow_downs", "losses",
    "objective", "requests", "schedule", "micro_batches", "chunks", "optimizer", "optimal",
    "pool", "pool_plays", "split",
)  # fmt: skip
"""Arguments of environments that a policy does not depend on: problems, sizes, conditions, objectives."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a policy during training: one episode on each of some problems that it is not trained on.

    Raises:
        ConfigError: a number out of its range, or a name in ``must_beat`` that is not among the baselines.
    """

    every: int = 50_000  # steps from one evaluation to the next; the first is before training, the last after it
    episodes: int = 64  # number of problems
    seed: int = 1_000_000  # of the first problem, the others taking the numbers after it
    # names of baselines to compare with; see `hetgym.agents.evaluation.IN_PLACE`
    baselines: tuple[str, ...] = ("reference",)
    # baselines whose mean ratio must be below 1 in the end; otherwise `hetgym train` exits with 1
    must_beat: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the environment; they override those of the recipe

    def __post_init__(self) -> None:
        check_number(self.every, "every", ConfigError, minimum=1)
        check_number(self.episodes, "episodes", ConfigError, minimum=1, maximum=100_000)
        check_number(self.seed, "seed", ConfigError)
        for name in self.must_beat:
            if name not in self.baselines:
                raise ConfigError(f"must_beat names {name!r}; {suggestion(name, self.baselines)}")


@dataclass(frozen=True)
class Recipe:
    """A training run.

    Attributes:
        algorithm: one of :data:`~hetgym.agents.algorithms.ALGORITHMS`, or the import path of an
            :class:`~hetgym.agents.Algorithm`, such as ``my_package.module:NAME``.
        env: id of the environment.
        steps: budget of steps, summed over the lanes.
        description: a line for ``hetgym list recipes``.
        arguments: arguments of the environment; ``generator`` may also be the fields of a
            :class:`~hetgym.workloads.RandomMix`, or of another distribution whose ``kind`` is one of
            :data:`~hetgym.agents.training.curriculum.KINDS`, and ``curriculum`` a list of
            :class:`~hetgym.agents.training.curriculum.Part`, whose problems are drawn once.
        lanes: number of episodes played side by side.
        seed: seed of all randomness.
        threads: threads of PyTorch, at most as many as ``OMP_NUM_THREADS`` and the process's cores; the same number
            gives the same weights again.
        checkpoint_every: steps from one checkpoint to the next.
        start: path of a policy whose weights training starts from, whatever sizes it was trained at; empty for new
            weights.
        rule: the linear rule that a new policy starts as: weights of candidate features, by name, under which the
            action of the least weighted sum is the most probable; empty for a uniform policy.
        network: sizes of the network.
        settings: settings of the algorithm; each has its own.
        evaluation: evaluation of the policy during training.

    Raises:
        ConfigError: a number out of its range, an environment that the algorithm does not train for, or a field that it
            does not read.
        UnknownName: no such algorithm or environment.
    """

    algorithm: str
    env: str
    steps: int
    description: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    lanes: int = 64
    seed: int = 0
    threads: int = 1
    checkpoint_every: int = 50_000
    start: str = ""
    rule: Mapping[str, float] = field(default_factory=dict)
    network: Sizes = field(default_factory=Sizes)
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)

    def __post_init__(self) -> None:
        algorithm = algorithm_of(self.algorithm)
        if self.env not in ENVIRONMENTS:
            raise unknown_name("environment", self.env, ENVIRONMENTS)
        for name in ("steps", "lanes", "threads", "checkpoint_every"):
            check_number(getattr(self, name), name, ConfigError, minimum=1)
        check_number(self.seed, "seed", ConfigError, maximum=2**31 - 1)
        if algorithm.env not in ("", self.env):
            raise ConfigError(f"{self.algorithm} trains for {algorithm.env}, not for {self.env}")
        fresh = {"start": "", "rule": {}, "threads": 1}
        for name in OPTIONAL:
            if name not in algorithm.reads and getattr(self, name) != fresh[name]:
                raise ConfigError(f"{self.algorithm} does not read {name}; leave it out of the recipe")
        for name, weight in self.rule.items():
            check_number(weight, f"rule.{name}", ConfigError, minimum=-1e6, maximum=1e6)
        self.parsed_settings()

    def parsed_settings(self) -> Any:
        """The algorithm's settings in its own dataclass.

        Raises:
            ConfigError: an unknown setting, or one of the wrong type.
        """
        return read(algorithm_of(self.algorithm).schema(), self.settings, "settings")

    def environment(self, evaluation: bool = False) -> dict[str, Any]:
        """Arguments of the environment, as Python objects.

        Generated problems are of the split ``"train"``, those of the evaluation of none, unless the recipe says so.

        Args:
            evaluation: true for the arguments of the evaluation.
        """
        given = dict(self.arguments)
        if evaluation:
            given.pop("split", None)
            if any(name in SOURCES for name in self.evaluation.arguments):
                given = {name: value for name, value in given.items() if name not in SOURCES}
            given |= self.evaluation.arguments
        generator = given.get("generator")
        if isinstance(generator, Mapping):
            from hetgym.agents.training.curriculum import KINDS

            kind = generator.get("kind", "random")
            if kind not in KINDS:
                raise unknown_name("kind of generator", str(kind), KINDS)
            fields = {name: value for name, value in generator.items() if name != "kind"}
            mix = read(KINDS[kind], fields, "arguments", "generator")
            sizes = zip(("max_operators", "max_edges", "max_devices"), getattr(mix, "limit", ()), strict=False)
            given = {**dict(sizes), **given, "generator": mix}
        if "curriculum" in given:
            from hetgym.agents.training.curriculum import Part, draw

            entries = given.pop("curriculum")
            if not isinstance(entries, list | tuple):
                raise ConfigError(f"arguments: curriculum is {entries!r}, expected a list of parts")
            parts = [read(Part, entry, "arguments", f"curriculum[{k}]") for k, entry in enumerate(entries)]
            given["problem"] = list(draw(parts, self.evaluation.seed if evaluation else self.seed))
        if not evaluation and all(given.get(name) is None for name in ("problem", "graph", "platform", "suite")):
            given.setdefault("split", "train")
        return given

    def document(self) -> dict[str, Any]:
        """The recipe as JSON values, including all defaults."""
        document = dataclasses.asdict(self)
        document["settings"] = dataclasses.asdict(self.parsed_settings())
        return document


def manner(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an environment's arguments that a policy trained with them requires of any environment.

    >>> manner({"generator": {"operators": [30, 80]}, "tries": 300, "noise": 0.2})
    {'tries': 300}
    """
    return {name: value for name, value in arguments.items() if name not in ELSEWHERE}


def names() -> list[str]:
    """Names of the shipped recipes, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_recipe(source: str | Path, **changes: Any) -> Recipe:
    """Read a recipe.

    Args:
        source: the name of a shipped recipe, or the path of a YAML file.
        changes: fields that override those of the file.

    Raises:
        ConfigError: the file is not a recipe; the message names the key and the nearest one that exists.
        UnknownName: the source is neither a name nor a file.

    >>> load_recipe("maskable-ppo-schedule", steps=1000).env
    'HetSchedule-v0'
    """
    path = as_path(source, "a recipe", ConfigError)
    if path.suffix not in (".yaml", ".yml"):
        if str(source) not in names():
            raise unknown_name("recipe", str(source), names())
        path = FOLDER / f"{source}.yaml"
    return read(Recipe, load_yaml(path) | changes, str(path))
