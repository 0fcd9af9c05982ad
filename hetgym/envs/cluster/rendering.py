"""Frames of an episode that plans a training step: text for terminals, a bar chart for videos."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._text import time_unit
from hetgym._types import FloatArray
from hetgym.envs.cluster.episode import Episode
from hetgym.envs.core.rendering import bar_pixels

_COLUMNS = 40


def step_text(at: Episode, value: float) -> str:
    """A text frame: what is decided, and a line for each stage or chunk of one.

    Args:
        value: time of the step of a finished plan, NaN before [s].
    """
    scale, unit = time_unit(at.instance.reference)
    lines = [
        f"{at.instance.name}: {at.turn}/{at.layers} layers placed, reference {at.instance.reference / scale:.4g} {unit}"
    ]
    if at.setting >= 0:
        data, batch, schedule, chunks, zero, sequence = at.choices.found.setting
        switches = "" if zero is None else f", ZeRO {zero}"
        switches += "" if sequence is None else f", sequence parallelism {'on' if sequence else 'off'}"
        stages = f"{at.depth} stages, " if at.depth else ""
        lines.append(f"{stages}{data} replicas, micro-batch {batch}, {schedule}, {chunks} chunks{switches}")
    slots = _slots(at)
    for k, ((first, end, _), slot) in enumerate(zip(at.pieces, slots.tolist(), strict=True)):
        bar = "█" * round(_COLUMNS * slot / max(float(slots.max()), 1e-300))
        lines.append(f"{k:>3} {_name(at, k):<16} |{bar:<{_COLUMNS}}| layers {first}-{end - 1}")
    lines.append(f"done: step {value / scale:.6g} {unit}" if at.over else f"next: {_next(at)}")
    return "\n".join(lines)


def step_pixels(at: Episode, value: float) -> npt.NDArray[np.uint8]:
    """[540, 960, 3] colours of a chart with a bar for each stage or chunk of one, as long as its slot.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    slots, (scale, unit) = _slots(at), time_unit(at.instance.reference)
    names = [_name(at, k) for k in range(len(slots))]
    turn = f"step {value / scale:.4g} {unit}" if at.over else f"next: {_next(at)}"

    def draw(axes: Any) -> None:
        colours = [f"C{k % max(1, at.depth) % 10}" for k in range(len(slots))]
        axes.barh(range(len(slots)), slots / scale, color=colours)

    label = f"time of a micro-batch, forward and backward [{unit}]"
    return bar_pixels(names, label, f"{at.instance.name}: {turn}", draw)


def _slots(at: Episode) -> FloatArray:
    """[pieces] time of a micro-batch on the slowest replica of each [s]."""
    return np.array([float((at.choices.slots[o, :, b] - at.choices.slots[o, :, a]).max()) for a, b, o in at.pieces])


def _name(at: Episode, piece: int) -> str:
    """The groups of a piece."""
    groups = at.choices.found.groups(at.pieces[piece][2])
    counts = {group: groups.count(group) for group in dict.fromkeys(groups)}
    return " + ".join(f"{count} x {group.tensor} {group.pool}" for group, count in counts.items())


def _next(at: Episode) -> str:
    """The next decision."""
    if at.setting < 0:
        return "degrees, micro-batch and schedule"
    return f"layer {at.turn}" if at.depth else "number of stages"
