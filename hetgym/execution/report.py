"""Results of validations: a document, the rows of a table, and traces that show two runs side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hetgym.execution.protocol import DONE, PROTOCOL, ModelResult, Settings
from hetgym.execution.scores import Scores
from hetgym.sim import Trace

COLUMNS = ("model", "costs", "n", "mean", "median", "P90", "worst", "tau", "tau fast", "noise")
"""Headings of the table of scores; see :class:`~hetgym.execution.scores.Scores`."""

TARGETS = {"calibrated": (0.06, 0.9), "learned": (0.15, 0.85)}
"""Kind of costs -> largest mean error and least tau, over all models, with which a validation passes."""


def overall(results: Sequence[ModelResult], costs: str) -> Scores | None:
    """Scores over all placements of all models; None if no model was validated with these costs.

    Errors are pooled. Tau and noise are means over the models, since ranks cannot be compared across models; of those
    that have them, as tau has no value where all predictions are equal.
    """
    done = [result for result in results if result.status == DONE and costs in result.scores]
    if not done:
        return None
    error = np.array([row[f"{costs}_s"] / row["executed_s"] - 1 for result in done for row in result.rows])
    means = {}
    for key in ("tau", "tau_fast", "noise"):
        known = [value for result in done if not np.isnan(value := getattr(result.scores[costs], key))]
        means[key] = float(np.mean(known)) if known else float("nan")
    return Scores.of(error, **means)


def verdicts(results: Sequence[ModelResult]) -> dict[str, bool]:
    """Kind of costs -> True if they reached their target; skipped models are ignored."""
    found = {}
    for costs, (error, tau) in TARGETS.items():
        scores = overall(results, costs)
        if scores is not None:
            found[costs] = scores.mean <= error and scores.tau >= tau
    return found


def document(results: Sequence[ModelResult], settings: Settings, command: Sequence[str]) -> dict[str, Any]:
    """All results and settings as a JSON-ready mapping."""
    totals = {costs: overall(results, costs) for costs in TARGETS}
    return {
        "protocol": PROTOCOL,
        "command": list(command),
        "devices": [device.to_dict() for device in settings.devices],
        "settings": {
            "placements": settings.placements,
            "rounds": settings.rounds,
            "warmups": settings.warmups,
            "calibration_rounds": settings.calibration_rounds,
            "seed": settings.seed,
        },
        "overall": {costs: scores.to_dict() for costs, scores in totals.items() if scores is not None},
        "targets": {costs: {"mean": error, "tau": tau} for costs, (error, tau) in TARGETS.items()},
        "passed": verdicts(results),
        "models": [result.to_dict() for result in results],
    }


def score_rows(results: Sequence[ModelResult]) -> list[tuple[str, ...]]:
    """Rows of the table with columns :data:`COLUMNS`: one per model and kind of costs, then all models together."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        if result.status == DONE:
            rows += [_row(result.model, costs, scores) for costs, scores in result.scores.items()]
        else:
            rows.append((result.model, result.status, *[""] * (len(COLUMNS) - 2)))
    for costs in TARGETS:
        scores = overall(results, costs)
        if scores is not None:
            rows.append(_row("all", costs, scores))
    return rows


def _row(model: str, costs: str, scores: Scores) -> tuple[str, ...]:
    errors = [f"{100 * value:.1f} %" for value in (scores.mean, scores.median, scores.p90, scores.worst)]
    ranks = f"{scores.tau:.2f}", f"{scores.tau_fast:.2f}", f"{100 * scores.noise:.1f} %"
    return model, costs, str(scores.n), *errors, *ranks


def side_by_side(predicted: Trace, executed: Trace) -> dict[str, Any]:
    """Combine two runs of one schedule in a Chrome trace, the executed one below the predicted one."""
    events: list[dict[str, Any]] = []
    for number, (label, trace) in enumerate((("predicted", predicted), ("executed", executed))):
        for event in trace.to_chrome()["traceEvents"]:
            event = {**event, "pid": event["pid"] + 2 * number}
            if event["ph"] == "M" and event["name"] == "process_name":
                event["args"] = {"name": f"{label}: {event['args']['name']}"}
            events.append(event)
    other = {
        "problem": executed.problem.name,
        "scheduler": executed.scheduler,
        "predicted_makespan_s": predicted.makespan,
        "executed_makespan_s": executed.makespan,
    }
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}
