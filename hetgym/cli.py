"""The command line: ``hetgym bench``, ``hetgym plan`` and ``hetgym list``.

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

from hetgym import __version__
from hetgym.errors import HetgymError

app = typer.Typer(
    name="hetgym",
    help="Schedule deep-learning dataflow graphs on heterogeneous hardware, and see which scheduler does it best.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Schedulers = Annotated[str, typer.Option(help="Comma-separated names, or 'all'; see 'hetgym list schedulers'.")]
_Runtimes = Annotated[list[str] | None, typer.Option("--runtime", help="Simulated runtime; may be given repeatedly. Default: classic and links.")]  # fmt: skip # noqa: E501
_Out = Annotated[Path, typer.Option(help="Folder of all runs; this run gets a folder of its own in it.")]
_Name = Annotated[str, typer.Option(help="Name of this run's folder. Default: date and time.")]
_Traces = Annotated[str, typer.Option(help="Chrome traces to keep: all, best or none.")]
_Force = Annotated[bool, typer.Option("--force", help="Replace an earlier run of the same name.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else, on stdout.")]


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"hetgym {__version__}")
        raise typer.Exit


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
) -> int:
    """Run schedulers on a suite of real models and platforms; compare them in tables and a report.

    Without options: all schedulers on the whole zoo on three platforms. Writes rows.csv,
    results.json, report.html and traces/ to <out>/<name>/.
    """
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers
    from hetgym.bench.terminal import run_and_print
    from hetgym.suites import ProblemSpec, load_suite

    chosen, under = pick_schedulers(schedulers), pick_runtimes(runtimes)
    if problems:
        from hetgym.workloads import load_problem

        title = problems[0].stem if len(problems) == 1 else f"{len(problems)} problem files"
        specs = [ProblemSpec.held(load_problem(file), file.stem) for file in problems]
    else:
        loaded = load_suite(suite)
        title, specs = loaded.name, list(loaded.specs)
    job = Job(title, tuple(specs), chosen, under, _command())
    return run_and_print(job, out, name, traces, force, as_json)


def _command() -> tuple[str, ...]:
    return ("hetgym", *sys.argv[1:])


def main() -> None:
    """Run the command line and exit."""
    warnings.showwarning = lambda message, *_, **__: print(f"hetgym: warning: {message}", file=sys.stderr)
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="hetgym", standalone_mode=False)
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


def _complain(message: str) -> int:
    print(f"hetgym: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
