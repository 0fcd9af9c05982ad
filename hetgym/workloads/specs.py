"""ProblemSpec: a problem by name, built when it is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym._text import plain
from hetgym.errors import ConfigError, ProblemError, shown
from hetgym.problem import Problem
from hetgym.workloads.best_known import BestKnown
from hetgym.workloads.examples import textbook
from hetgym.workloads.loading import load_problem
from hetgym.workloads.uniform_machines import on_uniform_machines

if TYPE_CHECKING:
    from hetgym.graph import DataflowGraph
    from hetgym.platform import Platform

MODELS = (".onnx", ".pt2", ".json", ".json.gz", ".gguf", ".py")  # Suffixes of model files
PLATFORMS = (".yaml", ".yml")  # Suffixes of platform files
TRANSFORMS = ("fuse", "training")  # Names of the transforms that take no argument but the graph


@dataclass(frozen=True)
class ProblemSpec:
    """A problem by name, not yet built."""

    name: str  # unique within a suite, for example `resnet50-b8@cpu-gpu`
    graph: str  # the part of the name that stands for the graph
    platform: str  # the part that stands for the platform; `"-"` if the problem is not a graph on a platform
    make: Callable[[], Problem] = field(repr=False, compare=False)  # function that builds the problem
    # best-known values of the problem, if its suite has them
    known: BestKnown | None = field(default=None, repr=False, compare=False)
    # function that builds the problem's graph and platform, for methods that rewrite the graph themselves; None if
    # there are none
    parts: Callable[[], tuple[DataflowGraph, Platform]] | None = field(default=None, repr=False, compare=False)

    def build(self) -> Problem:
        """Build the problem.

        Raises:
            HetgymError: the problem cannot be built, or differs from the one that its best-known values are for; the
                message gives the reason.
        """
        problem = self.make()
        if self.known is not None and self.known.digest != problem.digest:
            raise ProblemError(f"{self.name}: the best-known values belong to another problem of this name")
        return problem

    @classmethod
    def zoo(
        cls,
        graph: str,
        platform: str,
        batch: int | None = None,
        *,
        transforms: tuple[str, ...] = (),
        scale: Mapping[str, float] | None = None,
        costs: str = "auto",
    ) -> ProblemSpec:
        """A zoo graph (or a model file) on a platform preset (or a YAML file).

        Args:
            graph: name or path.
            platform: name or path.
            batch: number of images or sequences in a batch; by default the one that a model file fixes, else 1.
            transforms: names of :data:`TRANSFORMS`, applied in turn.
            scale: factors for :meth:`hetgym.Platform.scaled`; the first one names the platform.
            costs: name of the cost model, see :meth:`hetgym.Problem.build`.
        """
        label = _stem(graph, MODELS) + ("" if batch in (None, 1) else f"-b{batch}")
        return cls._placed(label, lambda: _graph(graph, batch), platform, transforms, scale, costs)

    @classmethod
    def generated(
        cls,
        generator: str,
        parameters: Mapping[str, Any],
        seed: int,
        platform: str,
        *,
        transforms: tuple[str, ...] = (),
        scale: Mapping[str, float] | None = None,
        costs: str = "auto",
    ) -> ProblemSpec:
        """A graph of :func:`hetgym.graph.generators.generate_graph` on a platform; see :meth:`zoo`."""
        label = _drawn(generator, parameters, seed)
        graph = partial(generated_graph, generator, parameters, seed)
        return cls._placed(label, graph, platform, transforms, scale, costs)

    @classmethod
    def _placed(
        cls,
        label: str,
        graph: Callable[[], DataflowGraph],
        platform: str,
        transforms: tuple[str, ...],
        scale: Mapping[str, float] | None,
        costs: str,
    ) -> ProblemSpec:
        label += "".join(f"-{transform}" for transform in transforms)
        where = _stem(platform, PLATFORMS) + "".join(
            f"-{key}={value:g}" for key, value in list((scale or {}).items())[:1]
        )

        def parts() -> tuple[DataflowGraph, Platform]:
            made = platform_of(platform)
            return _transformed(graph(), transforms), made.scaled(scale, where) if scale else made

        return cls(f"{label}@{where}", label, where, lambda: Problem.build(*parts(), costs), parts=parts)

    @classmethod
    def uniform(cls, generator: str, parameters: Mapping[str, Any], seed: int, devices: int, ccr: float) -> ProblemSpec:
        """A generated graph on devices of random speeds and links, see :func:`hetgym.workloads.on_uniform_machines`."""
        label, where = _drawn(generator, parameters, seed), f"{devices}-devices-ccr={ccr:g}"

        def make() -> Problem:
            graph = generated_graph(generator, parameters, seed)
            return on_uniform_machines(graph, devices, ccr, np.random.default_rng([seed, devices]))

        return cls(f"{label}@{where}", label, where, make)

    @classmethod
    def files(cls, paths: Sequence[str | Path], devices: int | None = None) -> list[ProblemSpec]:
        """Files that hold whole problems, named as :meth:`file` does but for files of one name.

        These have the name of their folder before their own, such as ``50-rand0000`` and ``100-rand0000``, or, in one
        folder, their suffix behind it.

        Args:
            paths: the files.
            devices: see :func:`hetgym.load_problem`; if given, it becomes part of the names.
        """
        files = [Path(path).absolute() for path in paths]
        labels = [plain(file.stem) for file in files]
        for longer in ([f"{file.parent.name}-{file.stem}" for file in files], [file.name for file in files]):
            times = Counter(labels)
            labels = [plain(long) if times[label] > 1 else label for long, label in zip(longer, labels, strict=True)]
        return [cls.file(path, devices, label) for path, label in zip(paths, labels, strict=True)]

    @classmethod
    def file(cls, path: str | Path, devices: int | None = None, label: str = "") -> ProblemSpec:
        """A file that holds a whole problem; a name ``graph@platform.npz`` gives its graph and platform.

        Args:
            path: the file.
            devices: see :func:`hetgym.load_problem`; if given, it becomes part of the name.
            label: the name; by default that of the file.
        """
        label = label or plain(Path(path).stem)
        name = label if devices is None else f"{label}@{devices}-devices"
        graph, _, platform = name.partition("@")
        return cls(name, graph, platform or "-", lambda: load_problem(path, devices))

    @classmethod
    def textbook(cls, name: str) -> ProblemSpec:
        """A published example, see :func:`hetgym.workloads.textbook`."""
        return cls(name, name, "textbook", lambda: textbook(name))

    @classmethod
    def held(cls, problem: Problem, name: str = "") -> ProblemSpec:
        """An existing problem, under its own name or another."""
        graph, _, platform = (name or problem.name).partition("@")
        return cls(name or problem.name, graph, platform or "-", lambda: problem)


def _drawn(generator: str, parameters: Mapping[str, Any], seed: int) -> str:
    """The name of a generated graph."""
    return f"{generator}{''.join(f'-{key}={value}' for key, value in parameters.items())}-s{seed}"


def _stem(source: str, suffixes: tuple[str, ...]) -> str:
    """The name of a file without folder and suffix, or of the folder of a ``model.py``; any other name unchanged."""
    if source.endswith(".py") and Path(source).name == "model.py":
        return plain(Path(source).absolute().parent.name)
    suffix = next((suffix for suffix in reversed(suffixes) if source.endswith(suffix)), "")
    return plain(Path(source).name.removesuffix(suffix) if suffix else source)


@lru_cache(maxsize=8)
def _graph(name: str, batch: int | None) -> DataflowGraph:
    """Graphs are shared by the platforms that follow each other in a suite."""
    from hetgym.graph import load_graph

    return load_graph(name, batch=batch)


def _transformed(graph: DataflowGraph, names: tuple[str, ...]) -> DataflowGraph:
    from hetgym.graph.transforms import fuse, training

    table: dict[str, Callable[[DataflowGraph], DataflowGraph]] = {
        "fuse": lambda graph: fuse(graph).graph,
        "training": training,
    }
    for name in names:
        graph = table[name](graph)
    return graph


@lru_cache(maxsize=32)
def platform_of(name: str) -> Platform:
    """A platform, loaded once."""
    from hetgym.platform import load_platform

    return load_platform(name)


def generated_graph(generator: str, parameters: Mapping[str, Any], seed: int) -> DataflowGraph:
    """The graph that a seed gives; errors as for :func:`hetgym.graph.generate_graph`."""
    from hetgym.graph.generators import generate_graph

    for reserved in ("name", "rng"):  # arguments of generate_graph itself
        if reserved in parameters:
            raise ConfigError(f"generator {shown(generator)} has no parameter {reserved!r}")
    return generate_graph(generator, np.random.default_rng(seed), **parameters)
