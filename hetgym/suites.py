"""Suites: named lists of problems, read from YAML, each problem built when it is needed.

A suite file has a ``summary`` and a list ``problems`` of groups. A group names its problems in one of
three ways::

    summary: what it is for
    problems:
      - graphs: [resnet50, bert-base]     # or [all]: zoo names, or model files beside the suite
        batch: [1, 8]
        platforms: [cpu-gpu, my.yaml]     # preset names, or platform files beside the suite
      - files: [mine.npz]                 # whole problems beside the suite
      - textbook: [topcuoglu]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hetgym._config import load_yaml, read
from hetgym.errors import ConfigError, ProblemError, unknown_name
from hetgym.problem import Problem
from hetgym.workloads import load_problem, textbook

if TYPE_CHECKING:
    from hetgym.graph import DataflowGraph
    from hetgym.platform import Platform

FOLDER = Path(__file__).parent / "configs" / "suites"
"""Where the suites that hetgym ships are."""

ALL = "all"
_MODELS = (".onnx", ".json", ".json.gz")
_PLATFORMS = (".yaml", ".yml")


@dataclass(frozen=True)
class ProblemSpec:
    """A problem by name, not yet built.

    Attributes:
        name: unique within a suite, for example ``resnet50-b8@cpu-gpu``.
        graph: the part of the name that says what is run.
        platform: the part that says where; ``"-"`` if the problem is not a graph on a platform.
        make: builds it.
    """

    name: str
    graph: str
    platform: str
    make: Callable[[], Problem] = field(repr=False, compare=False)

    def build(self) -> Problem:
        """The problem itself.

        Raises:
            HetgymError: it cannot be built; the message says why.
        """
        return self.make()

    @classmethod
    def zoo(cls, graph: str, platform: str, batch: int = 1) -> ProblemSpec:
        """A zoo graph (or a model file) on a platform preset (or a YAML file)."""
        label, where = _stem(graph, _MODELS), _stem(platform, _PLATFORMS)
        label += "" if batch == 1 else f"-b{batch}"
        return cls(f"{label}@{where}", label, where, lambda: Problem.build(_graph(graph, batch), _platform(platform)))

    @classmethod
    def file(cls, path: str | Path) -> ProblemSpec:
        """A file that holds a whole problem."""
        return cls(Path(path).stem, Path(path).stem, "-", lambda: load_problem(path))

    @classmethod
    def textbook(cls, name: str) -> ProblemSpec:
        """A published example, see :func:`hetgym.workloads.textbook`."""
        return cls(name, name, "textbook", lambda: textbook(name))

    @classmethod
    def held(cls, problem: Problem, name: str = "") -> ProblemSpec:
        """A problem that exists already, under its own name or another."""
        graph, _, platform = (name or problem.name).partition("@")
        return cls(name or problem.name, graph, platform or "-", lambda: problem)


def _stem(source: str, suffixes: tuple[str, ...]) -> str:
    """The name of a file without folder and suffix; any other name as it is."""
    suffix = next((suffix for suffix in reversed(suffixes) if source.endswith(suffix)), "")
    return Path(source).name.removesuffix(suffix) if suffix else source


@lru_cache(maxsize=8)
def _graph(name: str, batch: int) -> DataflowGraph:
    """Graphs are shared by the platforms that follow each other in a suite."""
    from hetgym.graph import load_graph

    return load_graph(name, batch=batch)


@lru_cache(maxsize=32)
def _platform(name: str) -> Platform:
    from hetgym.platform import load_platform

    return load_platform(name)


@dataclass(frozen=True)
class _Group:
    """One entry of a suite file."""

    graphs: tuple[str, ...] = ()
    batch: tuple[int, ...] = (1,)
    platforms: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    textbook: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Document:
    """A suite file."""

    problems: tuple[_Group, ...]
    summary: str = ""


@dataclass(frozen=True)
class Suite:
    """A named list of problems.

    Attributes:
        name: the file's name without its suffix.
        summary: what it is for.
        specs: the problems, in the order in which they are run.
    """

    name: str
    summary: str
    specs: tuple[ProblemSpec, ...]

    def __len__(self) -> int:
        return len(self.specs)


def suite_names() -> list[str]:
    """Names of the suites that hetgym ships."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_suite(source: str | Path) -> Suite:
    """Load a suite by name, or a YAML file by path.

    Names of graphs, platforms and files are checked now, so that a long run does not end at a
    spelling mistake; the problems themselves are built by :meth:`ProblemSpec.build`.

    Raises:
        UnknownName: no such suite, graph, platform or textbook problem; the message names the nearest.
        ConfigError: the file is not a suite: an unknown key, a wrong type, no problems, or two of
            one name.
        ProblemError: a file that the suite names does not exist.

    >>> [spec.name for spec in load_suite("quick").specs][:2]
    ['topcuoglu', 'arabnejad-barbosa']
    """
    path = Path(source)
    if path.suffix not in _PLATFORMS:
        if str(source) not in suite_names():
            raise unknown_name("suite", str(source), suite_names())
        path = FOLDER / f"{source}.yaml"
    document = read(_Document, load_yaml(path), str(path))
    specs = tuple(
        spec for k, group in enumerate(document.problems) for spec in _expand(group, path, f"{path}.problems[{k}]")
    )
    if not specs:
        raise ConfigError(f"{path}: the suite has no problems")
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise ConfigError(f"{path}: problem {spec.name!r} is listed twice")
        seen.add(spec.name)
    return Suite(path.stem, document.summary, specs)


def _expand(group: _Group, path: Path, where: str) -> Iterator[ProblemSpec]:
    """The problems of one group, those of one graph next to each other."""
    if bool(group.graphs) != bool(group.platforms):
        raise ConfigError(f"{where}: graphs and platforms belong together: give both")
    if any(batch < 1 for batch in group.batch):
        raise ConfigError(f"{where}.batch: a batch size must be at least 1")
    if group.graphs:
        graphs = _checked_graphs(group.graphs, path.parent)
        platforms = [_checked_platform(name, path.parent) for name in group.platforms]
        for graph in graphs:
            for batch in group.batch:
                yield from (ProblemSpec.zoo(graph, platform, batch) for platform in platforms)
    for file in group.files:
        yield ProblemSpec.file(_existing(path.parent / file))
    for name in group.textbook:
        textbook(name)
        yield ProblemSpec.textbook(name)


def _checked_graphs(names: tuple[str, ...], folder: Path) -> list[str]:
    from hetgym.graph import zoo

    known = zoo.names()
    graphs = []
    for name in names:
        if name == ALL:
            graphs += known
        elif name.endswith(_MODELS):
            graphs.append(str(_existing(folder / name)))
        elif name in known:
            graphs.append(name)
        else:
            raise unknown_name("graph", name, [*known, ALL])
    return list(dict.fromkeys(graphs))


def _checked_platform(name: str, folder: Path) -> str:
    source = str(folder / name) if name.endswith(_PLATFORMS) else name
    _platform(source)
    return source


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ProblemError(f"{path}: no such file")
    return path
