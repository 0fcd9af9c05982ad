"""Plans of a training step on a cluster: stages, groups of GPUs, tensor and data degrees, micro-batches."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hetgym._input.config import LARGEST_BATCH, read
from hetgym._input.files import as_path, read_text, write_bytes
from hetgym._input.json import parse
from hetgym._sums import summed
from hetgym._text import brief
from hetgym.errors import ConfigError, check_name
from hetgym.pipeline import SCHEDULES

FORMAT = "hetgym-parallel-plan"  # Name of the file format
LONGEST = 1 << 26  # Longest plan file [byte]: a million groups


@dataclass(frozen=True)
class Group:
    """The GPUs that hold one replica of a stage and share its tensors."""

    pool: str  # name of the pool of GPUs, see Pool
    tensor: int = 1  # number of GPUs, the tensor-parallel degree

    def __post_init__(self) -> None:
        if not isinstance(self.pool, str):
            raise ConfigError(f"group: the pool is {self.pool!r}; it must be the name of a pool of GPUs")
        _whole("group: tensor", self.tensor)


@dataclass(frozen=True)
class Stage:
    """Consecutive layers, and the groups that hold a replica of them."""

    first: int  # first layer
    last: int  # last layer, inclusive
    groups: tuple[Group, ...]  # one group for each data-parallel replica

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        _whole("stage: first", self.first, 0)
        _whole("stage: last", self.last, self.first)
        if not self.groups:
            raise ConfigError("a stage has no group of GPUs")

    @property
    def layers(self) -> slice:
        """The layers as a slice."""
        return slice(self.first, self.last + 1)

    @property
    def gpus(self) -> int:
        """Number of GPUs of all replicas."""
        return summed(group.tensor for group in self.groups)


@dataclass(frozen=True)
class ParallelPlan:
    """Distribution of a training step over a cluster.

    Replica r of the pipeline consists of group r of each stage. All replicas process equally many micro-batches. Under
    the interleaved schedule with v chunks, the stages are the v x p pieces of the model; piece k lies on the GPUs of
    piece k - p.

    Raises:
        ConfigError: stages that leave out or repeat layers, or with different numbers of groups; pieces of an
            interleaved schedule that are not on the GPUs of the piece before; a global batch that replicas times
            micro-batch do not divide; or a number out of range.
        UnknownName: no such schedule.

    >>> group = Group("a100", 2)
    >>> plan = ParallelPlan((Stage(0, 3, (group,)), Stage(4, 7, (group,))), micro_batch=2, global_batch=16)
    >>> plan.replicas, plan.micro_batches, plan.gpus
    (1, 8, 4)
    """

    # the stages in the order of the layers; they hold every layer once, and equally many groups each
    stages: tuple[Stage, ...]
    micro_batch: int  # samples that a group processes at once
    global_batch: int  # samples of a step
    schedule: str = "1f1b"  # order of forward and backward passes, one of SCHEDULES
    chunks: int = 1  # pieces of the model on each GPU under `interleaved`, v
    zero: int | None = None  # what replicas share out, as in Framework; None for what the framework says
    sequence: bool | None = None  # whether groups share out tokens, as there; None for what the framework says

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if self.zero not in (None, 0, 1, 2, 3) or self.sequence not in (None, False, True):
            raise ConfigError(f"plan: zero is {self.zero!r} and sequence {self.sequence!r}; 0 to 3, and True or False")
        for what in ("micro_batch", "global_batch", "chunks"):
            _whole(f"plan: {what}", getattr(self, what))
        check_name("pipeline schedule", self.schedule, SCHEDULES)
        if self.chunks > 1 and self.schedule != "interleaved":
            raise ConfigError(f"plan: {self.schedule!r} has one chunk a stage; chunks are for 'interleaved'")
        if not self.stages:
            raise ConfigError("a plan has no stages")
        expected = 0
        for stage in self.stages:
            if stage.first != expected:
                raise ConfigError(f"plan: a stage begins at layer {stage.first}, not at layer {expected}")
            if len(stage.groups) != self.replicas:
                raise ConfigError(
                    f"plan: {len(stage.groups)} replicas at layer {stage.first}, {self.replicas} on the first stage"
                )
            expected = stage.last + 1
        if len(self.stages) % self.chunks or any(
            stage.groups != self.stages[k % self.depth].groups for k, stage in enumerate(self.stages)
        ):
            raise ConfigError(f"plan: {len(self.stages)} stages are not {self.chunks} chunks on equal groups")
        if self.global_batch % (self.replicas * self.micro_batch):
            raise ConfigError(
                f"plan: a global batch of {self.global_batch} is not a multiple of {self.replicas} replicas times a "
                f"micro-batch of {self.micro_batch}"
            )

    @property
    def layers(self) -> int:
        """Number of layers of all stages."""
        return self.stages[-1].last + 1

    @property
    def depth(self) -> int:
        """Pipeline-parallel degree p."""
        return len(self.stages) // self.chunks

    @property
    def replicas(self) -> int:
        """Data-parallel degree."""
        return len(self.stages[0].groups)

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a replica in a step."""
        return self.global_batch // (self.replicas * self.micro_batch)

    @property
    def gpus(self) -> int:
        """Number of GPUs of all stages."""
        return summed(stage.gpus for stage in self.stages[: self.depth])

    def used(self) -> dict[str, int]:
        """Pool -> number of its GPUs that the plan uses."""
        found: dict[str, int] = {}
        for stage in self.stages[: self.depth]:
            for group in stage.groups:
                found[group.pool] = found.get(group.pool, 0) + group.tensor
        return found

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        stages = [asdict(stage) | {"groups": [asdict(group) for group in stage.groups]} for stage in self.stages]
        others = {field.name: getattr(self, field.name) for field in fields(ParallelPlan)[1:]}
        return {
            "format": FORMAT,
            **{key: value for key, value in others.items() if value is not None},
            "stages": stages,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON.

        Raises:
            ConfigError: the file cannot be written.
        """
        write_bytes(Path(path), json.dumps(self.to_dict(), indent=1).encode(), ConfigError)


@dataclass(frozen=True)
class _Document(ParallelPlan):
    """A plan file."""

    format: str = ""


def load_plan(path: str | os.PathLike[str]) -> ParallelPlan:
    """Read a plan from a JSON file, see :meth:`ParallelPlan.save`.

    Raises:
        ConfigError: the file is missing or damaged, has an unknown key, or its plan is invalid.
        UnknownName: no such schedule.
    """
    file = as_path(path, "a plan", ConfigError)
    found = read(_Document, parse(read_text(file, LONGEST, ConfigError), str(file), ConfigError), str(file))
    if found.format != FORMAT:
        raise ConfigError(f"{file}: not a plan of a training step: 'format' must be {FORMAT!r}")
    return ParallelPlan(*(getattr(found, field.name) for field in fields(ParallelPlan)))


def uniform(
    layers: int,
    stages: int,
    groups: Sequence[Group],
    micro_batch: int,
    global_batch: int,
    schedule: str = "1f1b",
    chunks: int = 1,
) -> ParallelPlan:
    """Plan with equal numbers of layers, and the same groups, on each stage; the first stages take what remains.

    With several chunks there are as many pieces on each group.

    >>> uniform(10, 4, [Group("a100")], 1, 8).stages[0].last
    2
    """
    pieces = stages * chunks
    each, more = divmod(layers, pieces)
    bounds = [0]
    for k in range(pieces):
        bounds.append(bounds[-1] + each + (k < more))
    made = [Stage(a, b - 1, tuple(groups)) for a, b in zip(bounds, bounds[1:], strict=False)]
    return ParallelPlan(tuple(made), micro_batch, global_batch, schedule, chunks)


def _whole(what: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_BATCH:
        raise ConfigError(f"{what} is {value!r}; it must be a whole number from {least} to {LARGEST_BATCH}")
