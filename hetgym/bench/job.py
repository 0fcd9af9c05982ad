"""A job: problems, schedulers and runtimes in, a folder of results out."""

import os
import platform as machine
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from hetgym._input.json import repeated
from hetgym._text import finite
from hetgym._version import VERSION
from hetgym.bench.comparison import pick_reference
from hetgym.bench.evaluation import Evaluation, Findings, evaluate, quality_against_time
from hetgym.bench.executor import Executor, Here
from hetgym.bench.folder import RunFolder
from hetgym.bench.groups import Traits
from hetgym.bench.loop import Tell
from hetgym.bench.paper import Showpiece, write_paper
from hetgym.bench.pareto_files import write_pareto
from hetgym.bench.report import Gantts, render
from hetgym.bench.runner import Result, run
from hetgym.bench.sink import Sink, Tee
from hetgym.bench.summary import Line, by_platform, records, summarise
from hetgym.bench.warming import warm_up
from hetgym.errors import ConfigError
from hetgym.planning import Baseline, get
from hetgym.planning.baseline import KINDS
from hetgym.planning.registry import rows
from hetgym.sim.runtime import Runtime, runtime
from hetgym.workloads import ProblemSpec

FORMAT_VERSION = 1
RUNTIMES = ("classic", "links")  # Runtimes of a job that names none

SCHEDULERS = (
    "random",  # controls
    "single-device",
    "donf",  # decide online: what holds up most others; an idle device takes the next; earliest completion
    "graham",
    "mct",
    "cpop",  # lists: the critical path on one device; by pairs; upward ranks, without and with a look ahead
    "dls",
    "heft",
    "lookahead-heft",
    "min-min",
    "peft",
    "duet",  # parts of the graph at a time
    "cpgc",  # searches: by the critical chain, by completions, the best of all
    "pilot",
    "portfolio",
    "dispatch",  # a rule, and what was trained
    "place-v1",
    "place-v2",
)
"""Schedulers of ``hetgym bench`` unless others are named: one for each idea; the others vary these."""


@dataclass(frozen=True)
class Job:
    """A run that is asked for."""

    title: str  # the suite's name, or the model's
    specs: tuple[ProblemSpec, ...]  # the problems
    schedulers: tuple[Baseline, ...]  # the schedulers, in the order in which they run
    runtimes: tuple[str, ...] = RUNTIMES  # names of runtime presets
    command: tuple[str, ...] = ()  # the words that started it, for the record
    evaluation: Evaluation = Evaluation()  # requested results beyond the summary

    def __post_init__(self) -> None:
        if not self.specs or not self.schedulers or not self.runtimes:
            raise ConfigError(f"{self.title}: a run needs at least one problem, one scheduler and one runtime")
        twice = repeated(spec.name for spec in self.specs)
        if twice is not None:
            raise ConfigError(f"{self.title}: two problems are named {twice!r}; rows could not be told apart")
        self.evaluation.check()
        pick_reference(self.evaluation.reference, [scheduler.name for scheduler in self.schedulers])
        if self.evaluation.pareto:
            self.evaluation.plan(self.schedulers, len(self.specs))


@dataclass
class Outcome:
    """The results of a job."""

    result: Result  # the rows, and a flag for interrupted runs
    summary: list[Line]  # a line for each scheduler and runtime
    document: dict[str, Any]  # the content of `results.json`
    findings: Findings  # results of the evaluation
    files: dict[str, Path] = field(default_factory=dict)  # label -> path of a file that was written

    @property
    def exit_code(self) -> int:
        """0 done, 1 a scheduler failed, 130 interrupted."""
        pareto = self.findings.pareto
        stopped = self.result.interrupted or (pareto is not None and pareto.measurement.interrupted)
        failed = self.result.failures or (pareto is not None and pareto.failures)
        return 130 if stopped else 1 if failed else 0


def execute(
    job: Job, folder: RunFolder, progress: Tell | None = None, *sinks: Sink, executor: Executor | None = None
) -> Outcome:
    """Run a job and write ``results.json`` and ``report.html``, also after Ctrl-C.

    Args:
        job: the job; its kernels should be warm.
        folder: folder of the results.
        progress: see :func:`hetgym.bench.run`.
        sinks: further receivers of the findings.
        executor: see :func:`hetgym.bench.run`.
    """
    executor = executor or Here()
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    gantts, traits, showpiece = Gantts(), Traits(), Showpiece()
    receivers = (folder, gantts, traits, *([showpiece] if job.evaluation.plots else []), *sinks)
    result = run(job.specs, job.schedulers, job.runtimes, Tee(*receivers), progress, executor)
    folder.close()
    summary = summarise(result.rows)
    findings = evaluate(job.evaluation, result.rows, traits, result.schedulers)
    files: dict[str, Path] = {}
    if job.evaluation.pareto and not result.interrupted:
        done = {row.problem for row in result.rows if row.n}  # what cannot be built has its failed rows already
        specs = [spec for spec in job.specs if spec.name in done]
        warm_up(job.schedulers, job.runtimes)  # a run elsewhere has loaded nothing here
        pareto = quality_against_time(job.evaluation, specs, job.schedulers, job.runtimes, result.rows, progress)
        findings = replace(findings, pareto=pareto)
        files = write_pareto(folder, job.title, pareto)
    document = _document(job, result, summary, started, executor.description) | finite(findings.to_dict())
    files = {
        "results": folder.write_json("results.json", document),
        "report": folder.write_text("report.html", render(document, gantts)),
        "rows": folder.path / "rows.csv",
        **files,
    }
    if job.evaluation.plots:
        files["paper"] = write_paper(folder, job.title, result.rows, summary, findings, showpiece)
    return Outcome(result, summary, document, findings, files)


def pick_schedulers(text: str) -> tuple[Baseline, ...]:
    """Schedulers from a comma-separated list of names, with or without options, and kinds.

    ``all`` stands for all that are installed, quick enough, and after short makespans. Those that prove optima take
    minutes, networks of PyTorch seconds, those that weigh energy serve another purpose; they have to be named, as in
    ``all,cp-sat``. ``default``
    stands for :data:`SCHEDULERS`, and for all that were added to those of hetgym. A kind stands for all of that kind
    that are installed.

    Raises:
        UnknownName: no such scheduler.
        ConfigError: the list is empty.
    """
    able = [row for row in rows() if row.available]
    groups = {kind: [row.name for row in able if row.kind == kind] for kind in KINDS}
    groups["all"] = [row.name for row in able if row.kind not in ("exact", "energy") and "torch" not in row.needs]
    groups["default"] = [row.name for row in able if row.name in SCHEDULERS or row.name in groups["all"] and row.added]
    words = [word.strip() for word in text.split(",") if word.strip()]
    chosen = [get(name) for word in words for name in groups.get(word, [word])]
    if not chosen:
        raise ConfigError("no scheduler is named; try --schedulers all")
    return tuple({row.name: row for row in chosen}.values())


def pick_runtimes(chosen: Sequence[str] | None) -> tuple[str, ...]:
    """Runtime presets by name; the default pair if none is named.

    Raises:
        UnknownName: no such preset.
    """
    picked = tuple(dict.fromkeys(chosen or RUNTIMES))
    for name in picked:
        runtime(name)
    return picked


_COMMUNICATION = {
    "free": "transfers never wait for each other, as in the scheduling literature",
    "fifo": "each directed link carries one transfer at a time, in order of request",
    "fair": "concurrent transfers share each link evenly",
    "endpoint": "each device sends one and receives one transfer at a time",
}


def explain(switches: Runtime) -> str:
    """One clause that says what a runtime does."""
    others = [
        f"{name}={value}"
        for name, value in vars(switches).items()
        if name != "communication" and value != getattr(Runtime(), name)
    ]
    return "; ".join([_COMMUNICATION.get(switches.communication, switches.communication), *others])


_TOLD = ("name", "kind", "citation", "summary", "complexity", "plans_for")  # what results say of a scheduler


def _document(job: Job, result: Result, summary: Sequence[Line], started: str, executor: str) -> dict[str, Any]:
    document = {
        "format": "hetgym-results",
        "version": FORMAT_VERSION,
        "title": job.title,
        "command": list(job.command),
        "started": started,
        "seconds": round(result.seconds, 3),
        "interrupted": result.interrupted,
        "finished_problems": len({row.problem for row in result.rows if row.gap_to_best is not None or not row.ok}),
        "problems": len(job.specs),
        "versions": versions(),
        "executor": executor,
        "machine": {"system": machine.platform(), "processor": _processor(), "cores": os.cpu_count() or 0},
        "runtimes": {name: explain(runtime(name)) for name in job.runtimes},
        "schedulers": [{key: getattr(row, key) for key in _TOLD} for row in job.schedulers],
        "summary": [line.to_dict() for line in summary],
        "summary_by_platform": {
            name: [line.to_dict() for line in lines] for name, lines in by_platform(result.rows).items()
        },
        "records": [
            {key: getattr(row, key) for key in ("problem", "runtime", "scheduler", "makespan_s", "best_known_s")}
            for row in records(result.rows)
        ],
        "rows": [row.to_dict() for row in result.rows],
    }
    return {key: finite(value) for key, value in document.items()}


def versions() -> dict[str, str]:
    """Versions of hetgym, Python and the packages that results depend on."""
    packages = {name: metadata.version(name) for name in ("numpy", "numba")}
    return {"hetgym": VERSION, "python": machine.python_version(), **packages}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return machine.processor() or machine.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else machine.machine()
