"""Placement: the device of every operator by name, which is all that exporters see of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from hetgym._types import IntArray
from hetgym.errors import ConfigError
from hetgym.planning.layers import LAYER
from hetgym.platform import Platform
from hetgym.problem import Problem


@dataclass(frozen=True)
class Target:
    """A device that runs operators."""

    name: str  # its name on the platform
    kind: str  # `cpu`, `gpu` or `npu`
    number: int  # its position among the platform's devices of that kind, from 0


@dataclass(frozen=True, eq=False)
class Placement:
    """The device of every operator."""

    title: str  # the problem, for messages
    # names, kinds: [n] the operators, in the order in which the model runs them
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    weighted: np.ndarray[tuple[int], np.dtype[np.bool_]]  # [n] True for operators that read weights
    device: IntArray  # [n] position in `targets`
    targets: tuple[Target, ...]  # all devices of the platform
    # source, target: [e] the edges
    source: IntArray
    target: IntArray

    @classmethod
    def of(cls, problem: Problem, assignment: IntArray, platform: Platform | None = None) -> Placement:
        """The placement ([n] devices) of operators; without a platform every accelerator is taken for a GPU."""
        kinds = ["gpu" if ahead else "cpu" for ahead in problem.asynchronous.tolist()]
        if platform is not None:
            if tuple(device.name for device in platform) != problem.device_names:
                raise ConfigError(f"platform {platform.name!r} has other devices than problem {problem.name!r}")
            kinds = [device.kind for device in platform]
        targets = tuple(
            Target(name, kind, kinds[:k].count(kind))
            for k, (name, kind) in enumerate(zip(problem.device_names, kinds, strict=True))
        )
        return cls(
            problem.name,
            problem.operator_names,
            problem.operator_kinds,
            problem.weight_bytes > 0,
            assignment,
            targets,
            problem.edge_source,
            problem.edge_target,
        )

    @property
    def used(self) -> tuple[Target, ...]:
        """The devices that run an operator, in the order of the platform."""
        return tuple(self.targets[k] for k in np.unique(self.device).tolist())

    def where(self, operator: int) -> Target:
        """The device of an operator."""
        return self.targets[int(self.device[operator])]

    def inputs(self) -> list[list[int]]:
        """For each operator the operators that it reads from."""
        found: list[list[int]] = [[] for _ in self.names]
        for source, target in zip(self.source.tolist(), self.target.tolist(), strict=True):
            found[target].append(source)
        return found

    def one_of_each_kind(self, program: str) -> None:
        """Refuse (ConfigError) plans that use two devices of a kind."""
        seen: dict[str, Target] = {}
        for target in self.used:
            other = seen.setdefault(target.kind, target)
            if other is not target:
                lost(
                    program,
                    f"has one {target.kind.upper()} a session, and the plan uses {other.name} and {target.name}",
                )

    @property
    def language_model(self) -> bool:
        """True if the graph is one of the zoo's language models, whose operators are named after modules."""
        return "lm_head" in self.names and any(name.endswith("embed_tokens") for name in self.names)

    def module(self, operator: int) -> str:
        """Path of the module that an operator belongs to; empty for the outermost one.

        Operators of imported PyTorch modules are named ``module.operation``, those of the zoo's language models after
        the module itself where they have weights, and those that stand for a layer after the layer.

        Raises:
            ConfigError: the names are those of ONNX nodes.
        """
        name = self.names[operator]
        if self.kinds[operator] == LAYER or (self.language_model and self.weighted[operator]):
            return name
        return name.rpartition(".")[0]

    def modules(self, program: str) -> list[str]:
        """Path of the module of each operator; ConfigError if none has a module, as in graphs of ONNX models."""
        found = [self.module(i) for i in range(len(self.names))]
        if not any(found) or any("/" in path for path in found):
            raise ConfigError(
                f"{program} places modules of PyTorch, and the operators of {self.title} are not named after modules; "
                "plan a .pt2 program, a graph of hetgym.graph.from_torch, or a model of the zoo that came from PyTorch"
            )
        return found

    def path(self, module: str, program: str) -> str:
        """Path of a module in the program's own model: language models of the zoo stand for those of transformers."""
        if not self.language_model or not module:
            return module
        if any(name.startswith(("embed_positions", "encoder.", "decoder.")) for name in self.names):
            raise ConfigError(
                f"{program}: the modules of {self.title} have other names in transformers; plan the module itself"
            )
        return module if module == "lm_head" else f"model.{module}"


def around(path: str) -> list[str]:
    """The path of a module and of those above it, the outermost first, without that of the whole model."""
    parts = path.split(".") if path else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def under(path: str, module: str) -> bool:
    """True for the path of a module and of what lies in it."""
    return path == module or path.startswith(module + ".")


class PlanLost(ConfigError):
    """A program cannot follow this plan, but may follow another one of the problem."""


def lost(program: str, what: str) -> NoReturn:
    """Refuse a plan that a program cannot follow, with PlanLost."""
    raise PlanLost(f"{program} cannot follow this plan: it {what}")
