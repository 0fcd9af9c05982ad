"""``hetgym score``: an untrusted program that schedules, judged on shown and on fresh problems."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from hetgym.cli.options import RuntimesOption

SEED_BITS = 53  # Length of random seeds: too many to try, and exact where JSON numbers are floats

RUNTIMES = ("classic",)


def score(
    program: Annotated[Path, typer.Argument(help="Python file that defines schedule(problem) -> hetgym.Schedule.")],
    suite: Annotated[
        str, typer.Option(help="Suite of problems: a name or a YAML file; see 'hetgym list suites'.")
    ] = "hetbench-v2",
    shown: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Number of the suite's problems, evenly spread. Default: all."),
    ] = None,
    fresh: Annotated[int, typer.Option(metavar="N", min=0, help="Number of freshly drawn problems.")] = 8,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of the fresh problems. Default: random.")
    ] = None,
    runtimes: RuntimesOption = None,
    time_limit: Annotated[str, typer.Option(help="Most time for one schedule, such as 500ms or 10s.")] = "10s",
    memory_limit: Annotated[
        str, typer.Option(help="Most memory of the program, the interpreter's included, such as 4GiB.")
    ] = "4GiB",
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
) -> int:
    """Score a program that writes schedules, which is run in a limited process; print JSON.

    Every schedule is validated and simulated outside that process. Compared with the best known makespans of the
    suite, and on fresh problems with a search. Exit code 1 if a call gave no valid schedule. The limits are no sandbox.
    """
    import json
    import secrets

    from hetgym._input.files import check_writable, write_bytes
    from hetgym._input.sizes import parse_size
    from hetgym._input.times import parse_time
    from hetgym.cli.console import print_json, progress, stderr, tell
    from hetgym.errors import ConfigError
    from hetgym.scoring import Limits, Program, fresh_problems
    from hetgym.scoring import score as judge
    from hetgym.workloads import load_suite

    if out is not None:
        check_writable(out, ConfigError)
    limits = Limits(parse_time(time_limit), parse_size(memory_limit))
    specs = load_suite(suite).specs
    number = len(specs) if shown is None else min(shown, len(specs))
    chosen = [specs[k * len(specs) // number] for k in range(number)]
    drawn = secrets.randbits(SEED_BITS) if seed is None else seed
    document: dict[str, Any] = {}

    def write() -> None:
        if out is not None:
            write_bytes(out, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode(), ConfigError)

    def keep(found: dict[str, Any]) -> None:
        document.update(found, suite=suite, seed=drawn)
        with suppress(ConfigError):  # the last writing tells
            write()

    try:
        with Program(program, limits) as judged, progress(stderr()) as bar:
            task = bar.add_task("scoring", what="starting")
            found = judge(
                judged,
                chosen,
                fresh_problems(specs, fresh, drawn),
                tuple(runtimes or RUNTIMES),
                lambda what, done, total: bar.update(task, completed=done, total=total, what=what),
                keep,
            )
            document.update(found, suite=suite, seed=drawn)
    finally:  # whatever ends the calls, the rows so far are printed
        if document:
            print_json(document)
    write()
    if document["status"] != "ok":
        tell(str(document["status"]))
    return 0 if document["status"] == "ok" and document["valid"] == document["calls"] else 1
