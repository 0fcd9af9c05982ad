"""Frames of an episode that cuts a pipeline: text for terminals, a bar chart for videos."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._text import plain
from hetgym._types import FloatArray
from hetgym.envs.core.rendering import FRAME_DPI, FRAME_INCHES
from hetgym.errors import require
from hetgym.pipeline.cuts import Cut, CutProblem
from hetgym.sim.gantt import time_unit

_COLUMNS = 48


def pipeline_text(instance: CutProblem, stages: Cut, times: FloatArray, value: float) -> str:
    """A text frame: one line for each stage with its load, then the current decision.

    Args:
        times: [stages] seconds of each for one request, all passes.
        value: of the finished cut, NaN before [s].
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
    """A chart with a bar for each device, as long as its load for one request; blocks alternate in shade.

    Args:
        times: [stages] seconds of each for one request, all passes.
        value: of the finished cut, NaN before [s].

    Returns:
        [540, 960, 3] colours.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot", "drawing pipelines")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    t, d = instance.tables, instance.problem.num_devices
    scale, unit = time_unit(instance.reference / instance.objective.turns)
    figure = Figure(figsize=FRAME_INCHES, dpi=FRAME_DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    left = np.zeros(d)
    for number, ((i, j, device), seconds) in enumerate(zip(stages, times.tolist(), strict=True)):
        for block in range(i, j):
            width = float(t.forward[block, device] + t.backward[block, device] + t.weight[block, device])
            colour = f"C{number % 10}"
            axes.barh(device, width / scale, left=left[device] / scale, color=colour, alpha=0.9 if block % 2 else 0.6)
            left[device] += width
            seconds -= width
        if seconds > 0:
            axes.barh(device, seconds / scale, left=left[device] / scale, color="0.6", hatch="//")
            left[device] += seconds
    axes.axvline(instance.reference / instance.objective.turns / scale, color="0.3", linestyle="--", linewidth=1)
    axes.set_yticks(range(d), [plain(device_name(instance, k)) for k in range(d)], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(f"time for one request [{unit}]; hatched: transfers; dashed: reference over requests")
    done = f", value {value / scale:.4g} {unit}" if np.isfinite(value) else ""
    turn = stages[-1][1] if stages else 0
    title = f"{instance.problem.name}: {turn}/{len(instance.names)} blocks placed{done}"
    axes.set_title(plain(title), parse_math=False)
    figure.tight_layout()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
