"""Targets as masks: the devices on which a program can still run the current operator, given the layers so far.

The rules of :class:`~hetgym.planning.layer_rules.LayerRules` concern layers. So an operator is legal where its layer
is; and the first operator of a layer decides for the layer.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, Int64Array, IntArray, frozen
from hetgym.errors import ConfigError
from hetgym.graph.layers import of_experts
from hetgym.planning.layer_rules import LayerRules, layer_rules
from hetgym.planning.layers import tied, whole_layers
from hetgym.problem import Problem

UNUSED, GPU, KEEPER, FIRST, LAST = range(5)
"""Roles of devices. The CPU may hold experts and the table of words only, or the first or the last layers, too."""

TABLE = -1  # Layer of the operators that are on the CPU by themselves


@record
class TargetTables(NamedTuple):
    """A problem of n operators in m layers on d devices, as a program sees it; read-only. Without a target n = 0."""

    layer: Annotated[IntArray, "n"]  # of each operator, see :func:`~hetgym.planning.layers.whole_layers`, or TABLE
    expert: Annotated[BoolArray, "n"]  # true for operators that may be on the CPU while their layer is on a GPU
    able: Annotated[BoolArray, "m, d"]  # true for devices that can run all operators of a layer
    takes: Annotated[BoolArray, "m, d"]  # true for devices that can run all its experts
    role: Annotated[Int64Array, "d"]
    gpus: Annotated[Int64Array, "1"]  # most GPUs


NO_TARGET = blank(TargetTables, n=0, m=0, d=0)
"""The tables of an environment without a target."""


def target_tables(problem: Problem, target: str) -> TargetTables:
    """The tables of a problem for a program; ``target``: a key of ``LAYER_RULES``, or empty.

    Raises:
        ConfigError: no operator is named after a layer, or no device can hold layers.
    """
    if not target:
        return NO_TARGET
    rules = layer_rules(target)
    layer, early, count = whole_layers(problem)
    if not count:
        raise ConfigError(
            f"target={target!r} places whole layers, and no operator of {problem.name!r} is named after one, as in "
            "layers.3.self_attn.q_proj"
        )
    role, cpu = _roles(problem, rules)
    holds = np.isin(role, (GPU, FIRST, LAST))
    if not holds.any():
        raise ConfigError(f"{problem.name!r} has no GPU, and {rules.title} places layers on GPUs only")
    for readers in tied(problem) if rules.ties else ():
        layer[list(readers)] = layer[list(readers)].min()
    names, runs = problem.operator_names, np.isfinite(problem.cost)
    runs |= ~runs[:, holds].any(axis=1, keepdims=True)  # what runs on none of them does not count against any
    expert = np.array([rules.experts and cpu >= 0 and of_experts(name) for name in names])
    if rules.table_on_cpu and cpu >= 0:
        layer = np.where(early, TABLE, layer).astype(np.int32)
    takes, able = (np.ones((count, problem.num_devices), np.bool_) for _ in range(2))
    np.logical_and.at(takes, layer[expert], runs[expert])
    usual = ~expert & (layer != TABLE)
    np.logical_and.at(able, layer[usual], runs[usual])
    able &= takes | takes[:, [cpu]] if cpu >= 0 else takes
    gpus = np.array([rules.gpus])
    return TargetTables(*(frozen(array) for array in (layer, expert, able, takes, role, gpus)))


def _roles(problem: Problem, rules: LayerRules) -> tuple[Int64Array, int]:
    """[d] roles of devices, and the CPU; -1 if there is none that the program uses."""
    role = np.where(problem.asynchronous, GPU, UNUSED).astype(np.int64)
    cpu = int(np.argmin(problem.asynchronous))
    if role[cpu] == GPU or rules.copied or not (rules.cpu or rules.experts or rules.table_on_cpu):
        return role, -1
    role[cpu] = {"first": FIRST, "last": LAST}.get(rules.cpu, KEEPER)
    return role, cpu


# Invariant: among the layers that are decided, each GPU has consecutive ones, and the CPU has the first or the last.
# The other layers can then take the device of a neighbour, so every such state can be completed.
@step
def allowed(program: TargetTables, layers: IntArray, experts: IntArray, operator: int, device: int) -> bool:
    """True if the program can run some placement that holds what is decided and an operator on a device.

    Args:
        layers, experts: [m] device of each layer, and of its experts; -1 while not decided. May be padded.
    """
    layer = program.layer[operator]
    if layer == TABLE:
        return bool(program.role[device] >= KEEPER)
    if program.expert[operator]:
        if experts[layer] >= 0:
            return bool(experts[layer] == device)
        if not program.takes[layer, device]:
            return False
        if program.role[device] >= KEEPER:
            return True
    if layers[layer] >= 0:
        return bool(layers[layer] == device)
    return bool(program.able[layer, device]) and _in_turn(program, layers, layer, device)


@step
def _in_turn(program: TargetTables, layers: IntArray, layer: int, device: int) -> bool:
    """True if a layer that is not decided may be on a device beside those that are."""
    before, behind = _nearest(program, layers, layer, -1), _nearest(program, layers, layer, 1)
    role = program.role[device]
    if role == FIRST:
        return before in (-1, device)
    if role == LAST:
        return behind in (-1, device)
    if role != GPU:
        return False
    if (behind >= 0 and program.role[behind] == FIRST) or (before >= 0 and program.role[before] == LAST):
        return False
    if device in (before, behind):
        return True
    if before >= 0 and before == behind:
        return False
    used = 0
    for other in range(len(program.role)):
        if program.role[other] == GPU and _holds(program, layers, other):
            if other == device:
                return False
            used += 1
    return bool(used < program.gpus[0])


@step
def _nearest(program: TargetTables, layers: IntArray, layer: int, way: int) -> int:
    """The device of the nearest layer before (way -1) or behind (1) that is decided; -1 if there is none."""
    at = layer + way
    while 0 <= at < len(program.able):
        if layers[at] >= 0:
            return int(layers[at])
        at += way
    return -1


@step
def _holds(program: TargetTables, layers: IntArray, device: int) -> bool:
    """True if some layer is on a device."""
    for layer in range(len(program.able)):  # noqa: SIM110
        if layers[layer] == device:
            return True
    return False


@step
def settle(program: TargetTables, layers: IntArray, experts: IntArray, operator: int, device: int) -> None:
    """Note the device of an operator's layer, or of its experts, unless it was the last resort."""
    layer = program.layer[operator]
    if layer == TABLE or not allowed(program, layers, experts, operator, device):
        return
    if program.expert[operator]:
        experts[layer] = device
    if not program.expert[operator] or program.role[device] == GPU:
        layers[layer] = device
