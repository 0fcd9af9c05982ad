"""The command line: ``hetgym bench``, ``plan``, ``train``, ``validate`` and ``list``.

Exit codes: 0 done, 1 a result failed a check, 2 bad input (one line on stderr), 130 interrupted.
Results go to stdout, progress and messages to stderr. Commands import what they need when they run,
so that ``hetgym --help`` is quick.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from hetgym._version import VERSION
from hetgym.errors import ConfigError, HetgymError

app = typer.Typer(
    name="hetgym",
    help="Schedule deep-learning dataflow graphs on heterogeneous hardware, and see which scheduler does it best.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Schedulers = Annotated[
    str, typer.Option(help="Comma-separated names or kinds, or 'all'; see 'hetgym list schedulers'.")
]
_Runtimes = Annotated[list[str] | None, typer.Option("--runtime", help="Simulated runtime; may be given repeatedly. Default: classic and links.")]  # fmt: skip # noqa: E501
_Out = Annotated[Path, typer.Option(help="Folder of all runs; this run gets a folder of its own in it.")]
_Name = Annotated[str, typer.Option(help="Name of this run's folder. Default: date and time.")]
_Traces = Annotated[str, typer.Option(help="Chrome traces to keep: all, best or none.")]
_Force = Annotated[bool, typer.Option("--force", help="Replace an earlier run of the same name.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else, on stdout.")]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hetgym {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
def bench(
    suite: Annotated[
        str, typer.Option(help="Suite of problems: a name or a YAML file; see 'hetgym list suites'.")
    ] = "zoo",
    problems: Annotated[
        list[Path] | None, typer.Option(help="Problem files (.npz) instead of a suite; may be given repeatedly.")
    ] = None,  # fmt: skip # noqa: E501
    schedulers: _Schedulers = "all",
    runtimes: _Runtimes = None,
    out: _Out = Path("results"),
    name: _Name = "",
    traces: _Traces = "best",
    force: _Force = False,
    as_json: _Json = False,
    against: Annotated[str, typer.Option(help="Scheduler that all others are compared with, problem by problem.")] = "",
    by: Annotated[
        str, typer.Option(help="Also show mean gaps by family, size, devices, ccr or platform; comma-separated.")
    ] = "",
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Also measure quality against time, searches within one budget after the other.")  # noqa: E501
    ] = False,
    budgets: Annotated[
        str, typer.Option(help="Budgets of --pareto, between commas. Default: 1ms,2ms,5ms,10ms,50ms,… to 10s.")
    ] = "",
    time_limit: Annotated[
        str, typer.Option(help="Most time for the searches of --pareto; the longest budgets are left out.")
    ] = "15min",
    ray: Annotated[
        str, typer.Option(metavar="[ADDRESS]", help="Run on a Ray cluster: auto, host:port, or one of this machine.")
    ] = "",
) -> int:  # fmt: skip
    """Run schedulers on a suite of real models and platforms; compare them in tables and a report.

    Without options: all schedulers on the whole zoo on three platforms. Writes rows.csv,
    results.json, report.html and traces/ to <out>/<name>/.
    """
    from hetgym._times import parse_time
    from hetgym.bench.budgets import BUDGETS, parse_budgets
    from hetgym.bench.evaluation import Evaluation
    from hetgym.bench.groups import pick_columns
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers
    from hetgym.cli import terminal
    from hetgym.workloads import ProblemSpec, load_suite

    chosen, under = pick_schedulers(schedulers), pick_runtimes(runtimes)
    if (budgets or time_limit != "15min") and not pareto:
        raise ConfigError("--budgets and --time-limit belong to --pareto: give that, too")
    grid = parse_budgets(budgets) if budgets else BUDGETS
    evaluation = Evaluation(against, pick_columns(by), pareto, grid, parse_time(time_limit))
    if problems:
        from hetgym.workloads import load_problem

        title = problems[0].stem if len(problems) == 1 else f"{len(problems)} problem files"
        specs = [ProblemSpec.held(load_problem(file), file.stem) for file in problems]
    else:
        loaded = load_suite(suite)
        title, specs = loaded.name, list(loaded.specs)
    job = Job(title, tuple(specs), chosen, under, _command(), evaluation)
    return terminal.bench(job, out, name, traces, force, as_json, ray)


@app.command()
def plan(
    model: Annotated[str, typer.Argument(help="A zoo name (see 'hetgym list graphs'), an .onnx or a .json file.")],
    platform: Annotated[str, typer.Option(help="A preset (see 'hetgym list platforms') or a YAML file.")],
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch size. Default: what an ONNX model says, else 1.")
    ] = None,
    dims: Annotated[
        list[str] | None, typer.Option(help="Sizes of symbolic dimensions, as in N=8 or N=2,S=16; may be repeated.")
    ] = None,  # fmt: skip # noqa: E501
    runtime: Annotated[str, typer.Option(help="Simulated runtime; see 'hetgym list runtimes'.")] = "links",
    schedulers: _Schedulers = "all",
    out: _Out = Path("results"),
    name: _Name = "",
    force: _Force = False,
    as_json: _Json = False,
) -> int:
    """Find the best schedule for one model on one platform.

    Runs the schedulers, shows what the best schedule asks of each device, and writes it to
    <out>/<name>/plan.json beside the report.
    """
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers
    from hetgym.cli import terminal
    from hetgym.graph import load_graph
    from hetgym.platform import load_platform
    from hetgym.problem import Problem
    from hetgym.workloads import ProblemSpec

    chosen, under = pick_schedulers(schedulers), pick_runtimes([runtime])
    graph = load_graph(model, batch=batch, **({"dims": _sizes(dims)} if dims else {}))
    problem = Problem.build(graph, load_platform(platform))
    spec = ProblemSpec.held(problem, f"{graph.name}{f'-b{batch}' if batch else ''}@{problem.name.partition('@')[2]}")
    job = Job(spec.name, (spec,), chosen, under, _command())
    return terminal.plan(job, out, name, force, as_json, model, platform, batch)


@app.command()
def validate(
    models: Annotated[
        str, typer.Option(help="Comma-separated models: zoo names (see 'hetgym list graphs'), .onnx or .json files.")
    ] = "alexnet,bert_base,inception_v1,resnet50,shufflenet,squeezenet",
    devices: Annotated[
        str, typer.Option(help="Workers: cpu<core>:<instruction set> or cuda<number>@cpu<core>, between commas.")
    ] = "cpu0:full,cpu1:avx2",
    placements: Annotated[int, typer.Option(min=2, help="Held-out placements of each model.")] = 17,
    rounds: Annotated[int, typer.Option(min=2, help="Runs of each placement that count.")] = 11,
    calibration_rounds: Annotated[int, typer.Option(min=2, help="Runs of each calibration placement.")] = 15,
    costs: Annotated[
        str, typer.Option(help="'calibrated', or a platform (name or YAML file) whose devices' fitted cost models price the operators as well.")  # noqa: E501
    ] = "calibrated",
    limit: Annotated[float, typer.Option(min=0, help="Share of the cores that others may use; inf: any.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Of placements, rounds and random weights.")] = 0,
    out: _Out = Path("results"),
    name: _Name = "",
    as_json: _Json = False,
) -> int:  # fmt: skip
    """Run schedules for real on this machine, and compare with what the simulator predicts.

    Calibrates costs, predicts placements that were not run, writes the predictions down, runs them and
    prints errors and rank correlation. Writes validation.json, the predictions and traces to
    <out>/<name>/. Exit code 1 if a target was missed.
    """
    from hetgym.cli import validation
    from hetgym.execution.devices import parse_devices
    from hetgym.execution.protocol import Settings

    settings = Settings(
        parse_devices(devices), placements, rounds, calibration_rounds=calibration_rounds, limit=limit, seed=seed
    )
    names = [model.strip() for model in models.split(",") if model.strip()]
    return validation.validate(names, settings, costs, out, name, _command(), as_json)


@app.command()
def profile(
    name: Annotated[str, typer.Argument(help="Name of the table; what is there of it already is kept and continued.")],
    designs: Annotated[
        str, typer.Option(help="Comma-separated space-filling designs of shapes, 'all' or 'none'.")
    ] = "all",
    share: Annotated[float, typer.Option(min=0.001, max=100, help="Share of each design that is measured.")] = 1.0,
    networks: Annotated[int, typer.Option(min=0, max=100_000, help="Random networks, measured as they run.")] = 150,
    models: Annotated[str, typer.Option(help="Comma-separated models, measured as they run: zoo names or files.")] = "",
    shapes: Annotated[Path | None, typer.Option(help="CSV file of operators; columns kind,inputs,outputs,….")] = None,
    passes: Annotated[int, typer.Option(min=1, max=100, help="How often each is measured, far apart in time.")] = 2,
    device: Annotated[str, typer.Option(help="cpu, or a CUDA device such as cuda:0.")] = "cpu",
    cores: Annotated[str, typer.Option(help="Comma-separated numbers of the cores that measure.")] = "0",
    isa: Annotated[
        str, typer.Option(help="Cap of the instruction set: full, avx512, avx2, sse4.2 or library=cap,….")
    ] = "full",
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds after which an operator is given up.")] = 20.0,
    memory_limit: Annotated[float, typer.Option(min=0.1, help="GB that an operator may take.")] = 8.0,
    platform: Annotated[
        Path | None, typer.Option(help="Also measure this machine's links, and write it as a platform.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the table.")] = Path("measurements"),
    as_json: _Json = False,
) -> int:
    """Measure operators on this machine.

    Shapes are drawn over each kind's space, and real and random networks are timed operator by operator
    as they run. Writes <out>/<name>.csv.gz and a card of the machine beside it. A run that is stopped goes
    on where it was when the same command is given again.
    """
    from hetgym.cli import profiling
    from hetgym.profiling import plans
    from hetgym.profiling.host import HostSettings

    if Path(name).name != name or name in (".", "..", ""):
        raise ConfigError(f"a table is named by one word, not by a path such as {name!r}; --out takes the folder")
    wanted = [] if designs == "none" else plans.design_items(_words(designs) if designs != "all" else [], share)
    wanted += plans.network_items(networks) + plans.model_items(_words(models))
    wanted += plans.table_items(shapes) if shapes else []
    settings = HostSettings(_cores(cores), _isa(isa))
    if platform is not None:
        profiling.platform({"cpu": settings}, platform)
    options = {"settings": settings, "time_limit": time_limit, "memory_limit": memory_limit * 1e9, "device": device}
    return profiling.profile(wanted, out / f"{name}.csv.gz", options, passes, as_json)


@app.command()
def fit(
    dataset: Annotated[str, typer.Argument(help="A shipped dataset, or the path of a table.csv.gz.")],
    model: Annotated[
        str, typer.Option(help="Kind of model: roofline, polynomial, neural, boosted, gaussian, blend or wave.")
    ] = "boosted",
    out: Annotated[Path | None, typer.Option(help="The fitted model. Default: <dataset>-<model>.npz.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is random.")] = 0,
    with_models: Annotated[
        bool, typer.Option(help="Fit the rows of named models, too; without them they remain a test.")
    ] = True,
    as_json: _Json = False,
) -> int:
    """Fit a cost model to measurements.

    Prints its errors on shapes and on models that were held out of the fit, then fits all shapes and
    writes the model, which a platform file names in its devices' costs.
    """
    from hetgym.cli import profiling

    stem = Path(dataset).name.removesuffix(".csv.gz")
    return profiling.fit_dataset(dataset, model, seed, out or Path(f"{stem}-{model}.npz"), with_models, as_json)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe (see 'hetgym list recipes') or a YAML file.")],
    steps: Annotated[int | None, typer.Option(min=1, help="Budget of steps. Default: the recipe's.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of everything that is random. Default: the recipe's.")
    ] = None,
    out: _Out = Path("results"),
    name: Annotated[str, typer.Option(help="Name of this run's folder. Default: the recipe and the seed.")] = "",
    force: _Force = False,
    as_json: _Json = False,
    ray: Annotated[
        str, typer.Option(metavar="[ADDRESS]", help="Play on a Ray cluster: auto, host:port, or one of this machine.")
    ] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that play with --ray. Default: the cluster's cores.")
    ] = None,
) -> int:  # fmt: skip
    """Train an agent by a recipe, and compare it with baselines on problems that it does not see.

    Writes checkpoints, policies and TensorBoard curves to <out>/<name>/. A run that was stopped or killed
    goes on from its last checkpoint when the same command is given again, and ends with the same weights,
    with --ray or without. Exit code 1 if a baseline that the recipe wants beaten is not.
    """
    from hetgym.agents.recipe import load_recipe
    from hetgym.cli.training import train as run

    changes = {key: value for key, value in (("steps", steps), ("seed", seed)) if value is not None}
    chosen = load_recipe(recipe, **changes)
    return run(chosen, name or f"{Path(recipe).stem}-s{chosen.seed}", out, force, as_json, ray, workers)


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(help="graphs, platforms, schedulers, suites, runtimes, costs, datasets or recipes.")
    ],
    as_json: _Json = False,
) -> int:
    """List what hetgym knows by name."""
    from hetgym.cli import terminal

    return terminal.catalogue(what, as_json)


def _sizes(texts: list[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in texts:
        for pair in text.split(","):
            key, _, value = (part.strip() for part in pair.partition("="))
            if not key or not (value.isascii() and value.isdigit() and len(value) <= 18) or int(value) < 1:
                raise ConfigError(f"--dims {text}: expected NAME=SIZE with whole sizes of at least 1, as in N=2,S=16")
            if sizes.setdefault(key, int(value)) != int(value):
                raise ConfigError(f"--dims: {key} is given as {sizes[key]} and as {value}")
    return sizes


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _cores(text: str) -> tuple[int, ...]:
    words = _words(text)
    if not words or not all(word.isascii() and word.isdigit() and len(word) < 6 for word in words):
        raise ConfigError(f"--cores {text}: expected numbers separated by commas, as in 0,1")
    return tuple(int(word) for word in words)


def _isa(text: str) -> str | dict[str, str]:
    return dict((pair.partition("=")[0], pair.partition("=")[2]) for pair in _words(text)) if "=" in text else text


def _with_values(words: list[str]) -> list[str]:
    """The command line with ``--ray local`` for a bare ``--ray``: an option's value is not optional in Typer."""
    following = [*words, ""][1:]
    bare = [word == "--ray" and after[:1] in ("", "-") for word, after in zip(words, following, strict=True)]
    return [f"{word}=local" if alone else word for word, alone in zip(words, bare, strict=True)]


def _command() -> tuple[str, ...]:
    return ("hetgym", *sys.argv[1:])


def main() -> None:
    """Run the command line and exit."""
    warnings.showwarning = _warn
    try:
        code = app(_with_values(sys.argv[1:]) or ["--help"], prog_name="hetgym", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except HetgymError as error:
        code = _complain(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        # Typer's own usage errors: their class moved between versions, their method did not.
        if not hasattr(error, "format_message"):
            raise
        code = _complain(error.format_message())
    sys.exit(code)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print(f"hetgym: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _complain(message: str) -> int:
    print(f"hetgym: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
