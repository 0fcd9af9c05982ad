"""Frames of an episode that cuts a pipeline: text for terminals, a bar chart for videos."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._text import time_unit
from hetgym._types import FloatArray
from hetgym.envs.core.rendering import bar_pixels
from hetgym.pipeline.cuts import Cut, CutProblem

_COLUMNS = 48


def pipeline_text(instance: CutProblem, stages: Cut, times: FloatArray, value: float) -> str:
    """A text frame: one line for each stage with its load, then the current decision.

    Args:
        times: [stages] seconds of each for one request, all passes.
        value: value of the finished cut, NaN before [s].
    """
    n, turn = len(instance.names), stages[-1][1] if stages else 0
    scale, unit = time_unit(instance.reference)
    longest = max(float(times.max(initial=0.0)), instance.reference / instance.objective.turns, 1e-300)
    lines = [
        f"{instance.problem.name}: {turn}/{n} blocks placed in {len(stages)} stages, {instance.objective.objective}, "
        f"reference {instance.reference / scale:.4g} {unit}"
    ]
    for number, ((i, j, d), seconds) in enumerate(zip(stages, times.tolist(), strict=True)):
        bar = "█" * min(_COLUMNS, round(_COLUMNS * seconds / longest))
        lines.append(
            f"{number:>3} {device_name(instance, d):<14} |{bar:<{_COLUMNS}}| blocks {i}-{j - 1}, "
            f"{seconds / scale:.4g} {unit}"
        )
    if turn == n:
        lines.append(f"done: value {value / scale:.6g} {unit}")
    else:
        lines.append(f"next: block {turn} ({instance.names[turn]})")
    return "\n".join(lines)


def device_name(instance: CutProblem, device: int) -> str:
    """A device's kind and number."""
    problem = instance.problem
    return f"{problem.kinds[problem.device_kind[device]].name}#{device}"


def pipeline_pixels(instance: CutProblem, stages: Cut, times: FloatArray, value: float) -> npt.NDArray[np.uint8]:
    """[540, 960, 3] colours of a chart with a bar for each device, as long as its load; blocks alternate in shade.

    For the arguments see :func:`pipeline_text`.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    tables, d = instance.tables, instance.problem.num_devices
    passes = tables.forward, tables.backward, tables.weight
    scale, unit = time_unit(instance.reference / instance.objective.turns)

    def draw(axes: Any) -> None:
        left = np.zeros(d)
        for number, ((i, j, device), seconds) in enumerate(zip(stages, times.tolist(), strict=True)):
            for block in range(i, j):
                forward, backward, weight = (row[block, device] for row in passes)
                width, colour, shade = float(forward + backward + weight), f"C{number % 10}", 0.9 if block % 2 else 0.6
                axes.barh(device, width / scale, left=left[device] / scale, color=colour, alpha=shade)
                left[device] += width
                seconds -= width
            if seconds > 0:
                axes.barh(device, seconds / scale, left=left[device] / scale, color="0.6", hatch="//")
                left[device] += seconds
        axes.axvline(instance.reference / instance.objective.turns / scale, color="0.3", linestyle="--", linewidth=1)

    done = f", value {value / scale:.4g} {unit}" if np.isfinite(value) else ""
    title = f"{instance.problem.name}: {stages[-1][1] if stages else 0}/{len(instance.names)} blocks placed{done}"
    label = f"time for one request [{unit}]; hatched: transfers; dashed: reference over requests"
    return bar_pixels([device_name(instance, k) for k in range(d)], label, title, draw)
