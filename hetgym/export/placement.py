"""Placement: the device of every operator by name, which is all that exporters see of a plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from hetgym._types import IntArray
from hetgym.errors import ConfigError
from hetgym.export.module_weights import known_paths
from hetgym.graph import layer_of
from hetgym.graph.module_paths import Paths
from hetgym.planning.layers import LAYER, tied
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
    tied: tuple[tuple[int, ...], ...]  # operators that read a weight of a product, such as a head and a table of words
    model: str | os.PathLike[str] | None  # name or file of the model, if it is known

    @classmethod
    def of(
        cls,
        problem: Problem,
        assignment: IntArray,
        platform: Platform | None = None,
        model: str | os.PathLike[str] | None = None,
    ) -> Placement:
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
            tied(problem),
            model,
        )

    @property
    def used(self) -> tuple[Target, ...]:
        """The devices that run an operator, in the order of the platform."""
        return tuple(self.targets[k] for k in np.unique(self.device).tolist())

    def where(self, operator: int) -> Target:
        """The device of an operator."""
        return self.targets[int(self.device[operator])]

    def device_of(self, name: str) -> Target | None:
        """The device of the operator with this name; None without one."""
        return self.where(self.names.index(name)) if name in self.names else None

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

    @property
    def advice(self) -> str:
        """What to do about operators of a layer on several devices; empty if layers are whole."""
        single = any(kind != LAYER and layer_of(name) for name, kind in zip(self.names, self.kinds, strict=True))
        return "; 'hetgym plan --layers' places whole layers" if single else ""

    def modules(self, program: str) -> list[str]:
        """Path of the module that each operator belongs to; empty for the outermost one.

        Operators of imported PyTorch modules are named ``module.operation``, and those that stand for a layer after
        the layer. Those of the zoo's language models have modules of transformers; where these have other names within
        a layer, the layer is the module.

        Raises:
            ConfigError: no operator has a module, as in graphs of ONNX models, or the modules have other names.
        """
        if self.language_model:
            paths = self.paths(program)
            return [self._in_transformers(i, paths) for i in range(len(self.names))]
        found = [
            name if kind == LAYER else name.rpartition(".")[0]
            for name, kind in zip(self.names, self.kinds, strict=True)
        ]
        if not any(found) or any("/" in path for path in found):
            raise ConfigError(
                f"{program} places modules of PyTorch, and the operators of {self.title} are not named after modules; "
                "it takes networks of several modules, by a .pt2 file, hetgym.graph.from_torch or a name of the zoo"
            )
        return found

    def paths(self, program: str) -> Paths:
        """Paths of a language model's modules; ConfigError if they are unknown."""
        if any(name.startswith(("encoder.", "decoder.")) for name in self.names):
            raise ConfigError(
                f"{program}: the modules of {self.title} have other names in transformers; plan the module itself"
            )
        found = known_paths(self.title, self.model, self.names)
        if found is None:
            raise ConfigError(
                f"{program}: the modules of {self.title} are named by the model's family; pass model=…, the name or "
                "the file that the graph was loaded from"
            )
        return found

    def _in_transformers(self, operator: int, paths: Paths) -> str:
        """Path of the module of an operator of a language model."""
        name, own = self.names[operator], self.kinds[operator] == LAYER or self.weighted[operator]
        layer = layer_of(name)
        if layer:
            within = (name if own else name.rpartition(".")[0]).removeprefix(layer)
            return f"{paths.layers}.{layer.rpartition('.')[2]}" + (within if paths.inside else "")
        at = {
            "embed_tokens": paths.words, "embed_positions": paths.positions, "norm": paths.norm, "lm_head": paths.head
        }  # fmt: skip
        return at.get(name, "") if own else ""


def around(path: str) -> list[str]:
    """The path of a module and of those above it, the outermost first, without that of the whole model."""
    parts = path.split(".") if path else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def under(path: str, module: str) -> bool:
    """True for the path of a module and of what lies in it."""
    return path == module or path.startswith(module + ".")


def called_module(path: str) -> str:
    """A module in a sentence."""
    return f"module {path!r}" if path else "the outermost module"


class PlanLost(ConfigError):
    """A program cannot follow this plan, but may follow another one of the problem."""


def lost(program: str, what: str) -> NoReturn:
    """Refuse a plan that a program cannot follow, with PlanLost."""
    raise PlanLost(f"{program} cannot follow this plan: it {what}")
