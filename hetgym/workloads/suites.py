"""Suites: named lists of problems, read from YAML, each problem built when it is needed.

A suite file has a ``summary`` and a list ``problems`` of groups::

    summary: what it is for
    problems:
      - graphs: [resnet50, bert-base]     # or [all]: zoo names, or model files beside the suite
        batch: [1, 8]                     # without it the one that a model file fixes, else 1
        platforms: [cpu-gpu, my.yaml]     # preset names, or platform files beside the suite
        transforms: [fuse]                # of hetgym.graph.transforms, in turn: fuse, training
        costs: roofline                   # cost model; without it the best known one of each device
        scale:                            # each platform once for every column, figures multiplied, see
          gpu.peak_flops: [1.5, 4, 10]    # Platform.scaled; the first row names the platforms
          gpu.memory_bandwidth: [1.5, 3, 3]
      - generator: layered                # see hetgym.graph.generators
        parameters: {tasks: [100, 200], width: 5}    # lists: a problem for each combination
        seeds: [0, 1, 2]                  # a problem each
        platforms: [cpu-gpu]
      - generator: daggen                 # the same on devices of random speeds, behind random links,
        devices: 8
        ccr: [0.2, 4.0]                   # a problem for each weight of communication
      - files: [mine.npz, frozen/*.npz]   # whole problems beside the suite, in order of their names
      - files: [stg/*.stg]                # task graphs, see hetgym.load_problem,
        devices: 8                        # on that many identical devices
      - textbook: [topcuoglu]
    best_known: best_known.json           # makespans to beat and bounds, see hetgym.workloads.best_known
"""

import itertools
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hetgym._input.config import read
from hetgym._input.files import as_path, reason
from hetgym._input.json import repeated
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym._text import brief, plain
from hetgym.costs import cost_model
from hetgym.errors import ConfigError, ProblemError, shown, unknown_name
from hetgym.workloads.best_known import load_best_known
from hetgym.workloads.examples import textbook
from hetgym.workloads.specs import MODELS, PLATFORMS, TRANSFORMS, ProblemSpec, generated_graph, platform_of

FOLDER = part("configs") / "suites"  # Folder of the shipped suites

ALL = "all"

MOST_PROBLEMS = 20_000  # Most problems of a suite: three hundred times as many as in the largest shipped suite
MOST_GRAPHS = 1_000  # Most combinations of a generator's parameters: a graph of each is drawn when the suite is loaded
MOST_DEVICES = 4096  # Most devices of random speeds: their links are a table of sixteen million


@dataclass(frozen=True)
class _Group:
    """One entry of a suite file."""

    graphs: tuple[str, ...] = ()
    batch: tuple[int, ...] = ()
    generator: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    platforms: tuple[str, ...] = ()
    scale: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    transforms: tuple[str, ...] = ()
    costs: str = ""
    devices: int = 0
    ccr: tuple[float, ...] = ()
    files: tuple[str, ...] = ()
    textbook: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Document:
    """A suite file."""

    problems: tuple[_Group, ...]
    summary: str = ""
    best_known: str = ""


@dataclass(frozen=True)
class Suite:
    """A named list of problems."""

    name: str  # the file's name without its suffix
    summary: str  # what it is for
    specs: tuple[ProblemSpec, ...]  # the problems, in the order in which they are run

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.specs)


def suite_names() -> list[str]:
    """Names of the suites that hetgym ships."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_suite(source: str | Path) -> Suite:
    """Load a suite by name, or a YAML file by path.

    Names of graphs, platforms and files are checked now, so that a long run does not end at a
    spelling mistake; the problems themselves are built by :meth:`ProblemSpec.build`. Parameters of
    a generator are checked by running it once, unless the problems have best-known values.

    Raises:
        UnknownName: no such suite, graph, platform or textbook problem; the message names the nearest.
        ConfigError: the file is not a suite: an unknown key, a wrong type, no problems, or two of
            the same name; or the file that it names as ``best_known`` is not such a table.
        ProblemError: a file that the suite names does not exist.

    >>> [spec.name for spec in load_suite("quick").specs][:2]
    ['topcuoglu', 'arabnejad-barbosa']
    """
    path = as_path(source, "a suite", ConfigError)
    if path.suffix not in PLATFORMS:
        if str(source) not in suite_names():
            raise unknown_name("suite", str(source), suite_names())
        path = FOLDER / f"{source}.yaml"
    document = read(_Document, load_yaml(path), str(path))
    known = load_best_known(path.parent / document.best_known) if document.best_known else {}
    groups = enumerate(document.problems)
    found = (spec for k, group in groups for spec in _expand(group, path, f"{path}.problems[{k}]", known))
    specs = tuple(itertools.islice(found, MOST_PROBLEMS + 1))
    if len(specs) > MOST_PROBLEMS:
        raise ConfigError(f"{path}: the suite has more than {MOST_PROBLEMS} problems")
    if not specs:
        raise ConfigError(f"{path}: the suite has no problems")
    if known:
        specs = tuple(replace(spec, known=known.get(spec.name)) for spec in specs)
    twice = repeated(spec.name for spec in specs)
    if twice is not None:
        raise ConfigError(f"{path}: problem {twice!r} is listed twice")
    return Suite(plain(path.stem), document.summary, specs)


def _expand(group: _Group, path: Path, where: str, known: Collection[str]) -> Iterator[ProblemSpec]:
    """The problems of one group; those of one graph are consecutive."""
    random_devices = bool(group.devices and group.generator)
    if random_devices != bool(group.ccr) or (group.devices and not (group.generator or group.files)):
        raise ConfigError(f"{where}: devices and ccr belong together, and to a generator; devices alone, to files")
    if bool(group.graphs or (group.generator and not group.devices)) != bool(group.platforms):
        raise ConfigError(f"{where}: graphs and platforms belong together: give both")
    if not 0 <= group.devices <= MOST_DEVICES or any(not 0 <= ccr < math.inf for ccr in group.ccr):
        raise ConfigError(
            f"{where}: devices must be at least 1 and at most {MOST_DEVICES}, a ccr a finite number, not negative"
        )
    if any(batch < 1 for batch in group.batch) or any(seed < 0 for seed in group.seeds):
        raise ConfigError(f"{where}: a batch size must be at least 1, a seed must not be negative")
    if (group.transforms or group.scale or group.costs) and not group.platforms:
        raise ConfigError(f"{where}: transforms, scale and costs are for graphs on platforms")
    _check_parameters(group.parameters, where)
    for transform in group.transforms:
        if transform not in TRANSFORMS:
            raise unknown_name("transform", transform, TRANSFORMS)
    platforms = [_checked_platform(name, path.parent) for name in group.platforms]
    places = list(itertools.product(platforms, _columns(group.scale, where)))
    for platform, scale in places:
        platform_of(platform).scaled(scale)
    if group.costs:
        cost_model(group.costs)
    for graph in _checked_graphs(group.graphs, path.parent):
        for batch in group.batch or (None,):
            for platform, scale in places:
                yield ProblemSpec.zoo(
                    graph, platform, batch, transforms=group.transforms, scale=scale, costs=group.costs or "auto"
                )
    for parameters in _combinations(group.parameters) if group.generator else ():
        yield from _generated(group, parameters, places, known)
    files: list[Path] = []
    for pattern in group.files:
        found = _matching(path.parent, pattern, where) if "*" in pattern else []
        files += found or [_existing(path.parent / pattern)]
    yield from ProblemSpec.files(files, group.devices or None)
    for name in group.textbook:
        textbook(name)
        yield ProblemSpec.textbook(name)


def _generated(
    group: _Group, parameters: Mapping[str, Any], places: Sequence[tuple[str, dict[str, float]]], known: Collection[str]
) -> Iterator[ProblemSpec]:
    """The problems of one generator with one value of each parameter; a graph is drawn to check them, where needed."""
    assert group.generator
    specs: list[ProblemSpec] = []
    for seed in group.seeds:
        drawn = group.generator, parameters, seed
        for platform, scale in places:
            options: dict[str, Any] = {"transforms": group.transforms, "costs": group.costs or "auto"}
            specs.append(ProblemSpec.generated(*drawn, platform, scale=scale, **options))
        specs += [ProblemSpec.uniform(*drawn, group.devices, ccr) for ccr in group.ccr]
    if not all(spec.name in known for spec in specs):
        generated_graph(group.generator, parameters, 0)
    yield from specs


def _check_parameters(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse parameters of a generator that give no problem, or too many."""
    combinations = 1
    for value in parameters.values():
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ConfigError(f"{where}: a parameter has an empty list of values")
        combinations *= len(values)
    if combinations > MOST_GRAPHS:
        raise ConfigError(f"{where}: the parameters have more than {MOST_GRAPHS} combinations")


def _matching(folder: Path, pattern: str, where: str) -> list[Path]:
    """Files that match a pattern, in order of their names; only the last part of it may have stars."""
    place, _, name = pattern.rpartition("/")
    if "*" in place or "**" in name or "\0" in pattern:
        raise ConfigError(f"{where}: the pattern {shown(pattern)} has a star before its last part, or two together")
    try:
        return sorted((folder / place).glob(name))
    except (OSError, ValueError, NotImplementedError) as cause:
        raise ConfigError(f"{where}: the pattern {shown(pattern)} cannot be looked for ({reason(cause)})") from cause


def _columns(scale: Mapping[str, tuple[float, ...]], where: str) -> list[dict[str, float]]:
    """The columns of a table of factors; a single empty column if there is no table."""
    if not scale:
        return [{}]
    first, rows = next(iter(scale)), list(scale.values())
    if len({len(row) for row in rows}) > 1 or not rows[0]:
        raise ConfigError(f"{where}: the rows of scale need the same number of factors, at least one")
    if len(set(rows[0])) < len(rows[0]):
        raise ConfigError(f"{where}: the factors of {first!r} must differ, since they name the platforms")
    return [dict(zip(scale, column, strict=True)) for column in zip(*rows, strict=True)]


def _combinations(parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One value of each parameter, where a list stands for several."""
    values = [value if isinstance(value, list) else [value] for value in parameters.values()]
    for chosen in itertools.product(*values):
        yield dict(zip(parameters, chosen, strict=True))


def _checked_graphs(names: tuple[str, ...], folder: Path) -> list[str]:
    from hetgym.graph import zoo
    from hetgym.graph.model_names import model_names

    known = list(dict.fromkeys([*zoo.names(), *zoo.language_models(), *model_names()]))
    graphs = []
    for name in names:
        if name == ALL:
            graphs += zoo.names()
        elif name.endswith(MODELS):
            graphs.append(str(_existing(folder / name)))
        elif name in known:
            graphs.append(name)
        else:
            raise unknown_name("graph", name, [*known, ALL])
    return list(dict.fromkeys(graphs))


def _checked_platform(name: str, folder: Path) -> str:
    source = str(folder / name) if name.endswith(PLATFORMS) else name
    platform_of(source)
    return source


def _existing(path: Path) -> Path:
    if not os.path.isfile(path):  # Path.is_file would raise if the name is too long
        raise ProblemError(f"{path}: no such file")
    return path
