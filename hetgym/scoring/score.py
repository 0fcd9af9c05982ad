"""Scores: every schedule of a program is validated and simulated here, and compared with a reference."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from hetgym._tables import LARGEST
from hetgym._version import VERSION
from hetgym.baselines import get
from hetgym.bench.attempt import sentence
from hetgym.errors import ConfigError
from hetgym.metrics import arithmetic_mean, ratio
from hetgym.problem import Problem
from hetgym.schedule import validate
from hetgym.scoring.program import Answer, Program
from hetgym.sim import runtime as as_runtime
from hetgym.sim import simulate
from hetgym.workloads import ProblemSpec

FORMAT_VERSION = 1

REFERENCE = "region-annealing"
"""Scheduler that gives the reference where no makespan is known; it searches by a number of tries, not by time."""

Tell = Callable[[str, int, int], object]  # Receives the problem under way, the number of those done, and of all
Keep = Callable[[dict[str, Any]], object]  # Receives the document so far


@dataclass(frozen=True)
class Row:
    """The outcome on one problem under one runtime."""

    problem: str  # name
    set: str  # `shown`: of the suite; or `fresh`
    # operators, devices: size of the problem
    operators: int
    devices: int
    runtime: str  # name of the runtime preset
    status: str  # `ok`, or the sentence that says what was wrong
    makespan_s: float | None  # simulated makespan; None unless the status is `ok` [s]
    reference_s: float  # makespan of the reference [s]
    reference: str  # `best known`, or the scheduler that found it
    score: float  # reference over makespan; 0 unless the status is `ok`
    seconds: float  # wall time of the call, loading the program included [s]


def score(
    program: Program,
    shown: Sequence[ProblemSpec],
    fresh: Sequence[ProblemSpec] = (),
    runtimes: Sequence[str] = ("classic",),
    progress: Tell | None = None,
    keep: Keep | None = None,
) -> dict[str, Any]:
    """Score a program on problems.

    The score of a row is the reference's makespan over that of the program: 1 equals the reference, more is better, 0
    is a failure of any kind. The reference is the best known makespan where the suite has one, otherwise that of
    :data:`REFERENCE`. The score of a set of rows is their arithmetic mean. A program that cannot be loaded, before any
    problem, scores 0 and has no rows.

    Args:
        program: the program, called once for each problem and runtime.
        shown: problems that the program's author may know.
        fresh: problems that it cannot know, see :func:`~hetgym.scoring.fresh_problems`.
        runtimes: names of runtime presets.
        progress: called before each problem, and at the end.
        keep: given the document after each problem, so that an interrupt loses no row.

    Returns:
        A JSON-ready document.

        - ``format``, ``version``, ``hetgym``: name and version of the format, and the version of hetgym.
        - ``status``: ``ok``; ``unfinished:`` and the number of calls made; or ``the program cannot be loaded:`` and the
          reason.
        - ``program``, ``sha256``: name of the file and digest of its content.
        - ``suite``, ``seed``: from the command only.
        - ``runtimes``, ``limits``: names of the runtimes; ``seconds``, ``memory`` and ``file`` of the limits [s, byte].
        - ``confined``: measures that held on this system, see :class:`~hetgym.scoring.Program`.
        - ``score``, ``calls``, ``valid``: mean score, number of calls made, and number of valid schedules.
        - ``shown``, ``fresh``: the same of these problems; ``score`` is None without calls.
        - ``rows``: for each problem and runtime ``problem``, ``set`` (``shown`` or ``fresh``), ``runtime``,
          ``operators``, ``devices``, ``status`` (``ok`` or a sentence), ``makespan_s`` (None unless ``ok``) [s],
          ``reference_s`` [s], ``reference`` (``best known`` or the scheduler), ``score``, and ``seconds``, the wall
          time of the call, loading the program included [s].
        - ``seconds``: wall time of the whole run [s].

    Raises:
        HetgymError: a problem cannot be built, or there is no problem or no runtime.
        ConfigError: no process can be started.
    """
    runtimes = tuple(dict.fromkeys(runtimes))
    for name in runtimes:
        as_runtime(name)
    specs = [*(("shown", spec) for spec in shown), *(("fresh", spec) for spec in fresh)]
    if not specs or not runtimes:
        raise ConfigError("a score needs at least one problem and one runtime")
    began, rows = perf_counter(), list[Row]()
    loaded = program.load()
    if loaded != "ok":
        return _document(program, runtimes, f"the program cannot be loaded: {loaded}", rows, began)
    for number, (kind, spec) in enumerate(specs):
        if progress is not None:
            progress(spec.name, number, len(specs))
        for row in _rows(program, kind, spec, runtimes):
            rows.append(row)
            if keep is not None:
                calls = f"{len(rows)} of {len(specs) * len(runtimes)} calls"
                keep(_document(program, runtimes, f"unfinished: {calls}", rows, began))
    if progress is not None:
        progress("", len(specs), len(specs))
    return _document(program, runtimes, "ok", rows, began)


def _document(
    program: Program, runtimes: Sequence[str], status: str, rows: Sequence[Row], began: float
) -> dict[str, Any]:
    """The document of the rows so far."""
    sets = {kind: _summary([row for row in rows if row.set == kind]) for kind in ("shown", "fresh")}
    return {
        "format": "hetgym-score",
        "version": FORMAT_VERSION,
        "hetgym": VERSION,
        "status": status,
        "program": program.path.name,
        "sha256": hashlib.sha256(program.text).hexdigest(),
        "runtimes": list(runtimes),
        "limits": program.limits.to_dict(),
        "confined": sorted(program.confined),
        **_summary(rows),
        "score": arithmetic_mean(row.score for row in rows) if rows else 0.0,
        **sets,
        "rows": [asdict(row) for row in rows],
        "seconds": round(perf_counter() - began, 3),
    }


def _rows(program: Program, kind: str, spec: ProblemSpec, runtimes: Sequence[str]) -> Iterator[Row]:
    """The rows of one problem."""
    problem = spec.build()
    for runtime in runtimes:
        answer = program.schedule(problem, runtime)
        makespan, status = _judged(problem, answer, runtime)
        reference, source = _reference(spec, problem, runtime)
        points = 0.0 if makespan is None else ratio(reference, makespan)
        yield Row(
            problem=spec.name,
            set=kind,
            operators=problem.num_operators,
            devices=problem.num_devices,
            runtime=runtime,
            status=status,
            makespan_s=makespan,
            reference_s=reference,
            reference=source,
            score=points,
            seconds=round(answer.seconds, 6),
        )


def _judged(problem: Problem, answer: Answer, runtime: str) -> tuple[float | None, str]:
    """The simulated makespan of an answer, or None and the reason."""
    if answer.schedule is None:
        return None, answer.status
    try:
        with np.errstate(over="ignore"):
            validate(problem, answer.schedule, memory=False)
            long = np.flatnonzero(answer.schedule.run_times(problem) > LARGEST)
        if len(long):
            name = problem.operator_names[long[0]]
            return None, f"speed: operator {long[0]} ({name!r}) would take more than {LARGEST:g} s"
        return simulate(problem, answer.schedule, runtime).makespan, "ok"
    except Exception as error:  # whatever an untrusted answer brings about, it must not end the scorer
        return None, sentence(error)


def _reference(spec: ProblemSpec, problem: Problem, runtime: str) -> tuple[float, str]:
    """Makespan of the reference [s], and its source."""
    if spec.known is not None and runtime in spec.known.best:
        return spec.known.best[runtime].makespan_s, "best known"
    return simulate(problem, get(REFERENCE)(problem, runtime), runtime).makespan, REFERENCE


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The mean score, the number of calls and of those that gave a valid schedule."""
    return {
        "score": arithmetic_mean(row.score for row in rows) if rows else None,
        "calls": len(rows),
        "valid": sum(row.status == "ok" for row in rows),
    }
