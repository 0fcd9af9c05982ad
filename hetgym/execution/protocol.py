"""The validation protocol: errors of predicted makespans of whole runs, and of the predicted ranking of placements.

For every model, in one session of the same worker processes:

1. The cores must be idle otherwise, or the model is skipped.
2. The calibration placements run; operator costs, publishing, remote reading and dispatch are computed from these runs
   (:mod:`hetgym.execution.calibration`).
3. Other placements are made and predicted. The predictions are written to disk before any of these placements runs.
4. These placements run, all of them once per round, in a different order each round. The medians are compared.
5. The cores must have been idle otherwise all the time, or the model's result is discarded.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._input.files import atomic_write
from hetgym._types import FloatArray
from hetgym.errors import ConfigError
from hetgym.execution.calibration import Calibration, calibrate, calibration_schedules
from hetgym.execution.cluster import Cluster
from hetgym.execution.devices import ExecutionDevice, check_cores
from hetgym.execution.placements import held_out_placements
from hetgym.execution.predicting import planning_problem, predict
from hetgym.execution.quiet import LIMIT, Watch, foreign_share
from hetgym.execution.running import Execution, execute
from hetgym.execution.scores import Scores, score
from hetgym.graph.dataflow import DataflowGraph
from hetgym.schedule import Schedule
from hetgym.sim import Trace

PROTOCOL = "two-device-v1"  # Name of the protocol in results; it changes whenever the steps above change

BUSY = "skipped: machine busy"
DONE = "done"

OperatorCosts = Callable[[DataflowGraph, Sequence[ExecutionDevice]], FloatArray]
"""Function to operator costs from elsewhere, [n, d] seconds."""


@dataclass(frozen=True)
class Settings:
    """Settings of a validation, with at least two devices, placements and rounds (else ConfigError)."""

    devices: tuple[ExecutionDevice, ...]  # the devices
    placements: int = 17  # number of held-out placements of each model
    rounds: int = 11  # number of timed runs of each placement
    warmups: int = 2  # number of runs of each placement before the timed ones
    calibration_rounds: int = 15  # number of timed runs of each calibration placement
    limit: float = LIMIT  # largest share of the cores' time that other processes may use; inf = do not check
    seed: int = 0  # seed of placements, rounds and weights
    patience: float = 30.0  # see Cluster

    def __post_init__(self) -> None:
        for what, value in (
            ("devices", len(self.devices)),
            ("placements", self.placements),
            ("rounds", self.rounds),
            ("calibration rounds", self.calibration_rounds),
        ):
            if value < 2:
                raise ConfigError(f"a validation needs at least two {what}, not {value}")

    @property
    def cores(self) -> frozenset[int]:
        """All cores that a worker is bound to."""
        return frozenset(core for device in self.devices for core in device.host.cores)


@dataclass(eq=False)
class ModelResult:
    """Result of the validation of one model."""

    model: str  # name of the model
    status: str  # DONE, BUSY, or the reason of a failure
    operators: int  # number of operators
    foreign: float = 0.0  # largest share of the cores' time that other processes used
    calibration: dict[str, Any] = field(default_factory=dict)  # the calibrated figures
    # one mapping per device: makespan of the whole model on it, as executed and, if learned costs were given, as
    # predicted from these
    alone: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)  # one mapping per placement
    # kind of costs -> scores: `calibrated` and, if learned costs were given, `learned`
    scores: dict[str, Scores] = field(default_factory=dict)
    # predicted and executed run of the placement with the shortest predicted makespan
    traces: tuple[Trace, Trace] | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping, without the traces."""
        return {
            "model": self.model,
            "status": self.status,
            "operators": self.operators,
            "foreign_share": self.foreign,
            "calibration": self.calibration,
            "alone": self.alone,
            "placements": self.rows,
            "scores": {kind: scores.to_dict() for kind, scores in self.scores.items()},
        }


def validate_model(
    graph: DataflowGraph, settings: Settings, predictions: Path, learned: OperatorCosts | None = None
) -> ModelResult:
    """Run the protocol for one model.

    Predictions are written to the JSON file before their placements run. ``learned`` are operator costs of a cost
    model, for additional predictions; communication and dispatch stay calibrated.

    Raises:
        ConfigError: a device has a core that this process may not use.
        ExecutionError: a worker failed, or an operator cannot be run.
        OSError: the file cannot be written.
    """
    check_cores(settings.devices)
    result = ModelResult(graph.name, BUSY, len(graph))
    looks = np.isfinite(settings.limit)
    if looks:
        result.foreign = foreign_share(settings.cores)
        if result.foreign > settings.limit:
            return result
    rng = np.random.default_rng(settings.seed)
    with Cluster(graph, settings.devices, seed=settings.seed, patience=settings.patience) as cluster:
        watch = Watch(settings.cores, cluster.pids)
        schedules = calibration_schedules(graph, len(settings.devices))
        runs = execute(cluster, schedules, rounds=settings.calibration_rounds, warmups=settings.warmups, rng=rng)
        costs = {"calibrated": calibrate(graph, runs)}
        if learned is not None:
            costs["learned"] = costs["calibrated"].with_costs(learned(graph, settings.devices))
        placements = held_out_placements(graph, planning_problem(costs["calibrated"]), settings.placements, rng)
        traces = {kind: [predict(calibration, one) for one in placements] for kind, calibration in costs.items()}
        _freeze(predictions, graph.name, costs, placements, traces)
        executed = execute(cluster, placements, rounds=settings.rounds, warmups=settings.warmups, rng=rng)
        foreign = watch.foreign()
    if looks:
        result.foreign = max(result.foreign, foreign)
    result.status = BUSY if result.foreign > settings.limit else DONE
    result.calibration = costs["calibrated"].summary()
    result.alone = [
        {"device": name, "executed_s": run.makespan}
        | ({"learned_s": predict(costs["learned"], run.schedule).makespan} if learned is not None else {})
        for name, run in zip(costs["calibrated"].devices, runs[: len(settings.devices)], strict=True)
    ]
    rounds = np.stack([one.makespans for one in executed])
    for kind, found in traces.items():
        result.scores[kind] = score(np.array([trace.makespan for trace in found]), rounds)
    result.rows = [_row(one, {kind: found[k] for kind, found in traces.items()}) for k, one in enumerate(executed)]
    best = int(np.argmin([trace.makespan for trace in traces["calibrated"]]))
    result.traces = (traces["calibrated"][best], executed[best].trace())
    return result


def _freeze(
    path: Path, model: str, costs: dict[str, Calibration], placements: list[Schedule], traces: dict[str, list[Trace]]
) -> None:
    """Write the predictions to disk before execution, so that they cannot be changed afterwards."""
    document = {
        "protocol": PROTOCOL,
        "model": model,
        "calibration": costs["calibrated"].summary(),
        "predictions": [
            {
                "placement": one.scheduler,
                "assignment": hashlib.sha256(one.assignment.tobytes()).hexdigest()[:16],
                **{f"{kind}_s": found[k].makespan for kind, found in traces.items()},
            }
            for k, one in enumerate(placements)
        ],
    }
    atomic_write(path, lambda file: file.write((json.dumps(document, indent=1) + "\n").encode()))


def _row(execution: Execution, predicted: dict[str, Trace]) -> dict[str, Any]:
    """One placement, for the JSON file."""
    return {
        "placement": execution.schedule.scheduler,
        "executed_s": execution.makespan,
        "rounds_s": execution.makespans.tolist(),
        "transfers": int(execution.trace().remote.sum()),
        **{f"{kind}_s": trace.makespan for kind, trace in predicted.items()},
    }
