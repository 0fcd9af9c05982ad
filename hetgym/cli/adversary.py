"""``hetgym adversary``: problems on which one scheduler loses most to another."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym._text import file_stem
from hetgym.cli.options import ImportOption, Output, RuntimeOption, command_line, import_files
from hetgym.errors import ConfigError

if TYPE_CHECKING:
    from hetgym.bench.adversarial import Adversary

OPERATORS, DEVICES = 6, 3  # Size of drawn problems
LONGER = 4  # Ratio of makespans beyond which schedules are not drawn on one time axis

FORMAT_VERSION = 1


def adversary(
    schedulers: Annotated[
        list[str], typer.Argument(help="Schedulers that are to lose, names or kinds (see 'hetgym list schedulers').")
    ],
    against: Annotated[
        str, typer.Option(help="Comma-separated schedulers to compare with. Default: the schedulers with each other.")
    ] = "",
    runtime: RuntimeOption = "classic",
    start: Annotated[
        Path | None, typer.Option(help="Problem file to start from. Default: small problems that are drawn.")
    ] = None,
    operators: Annotated[int | None, typer.Option(help=f"Operators of drawn problems. Default: {OPERATORS}.")] = None,
    devices: Annotated[int | None, typer.Option(help=f"Devices of drawn problems. Default: {DEVICES}.")] = None,
    within: Annotated[float, typer.Option(help="Most by which a number is multiplied or divided.")] = 2.0,
    budget: Annotated[str, typer.Option(help="Problems to try for each pair, or a time such as 10s.")] = "2000",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random changes.")] = 0,
    imports: ImportOption = None,
    *,
    output: Output,
) -> int:
    """Search for problems on which one scheduler loses most to another.

    Run times, speeds, bandwidths and bytes are changed within a range, and edges are added and removed, to make the
    ratio of the two makespans as large as possible. Writes the problems and adversary.json to OUT/NAME/.
    """
    from hetgym.bench.adversarial import adversary as search
    from hetgym.bench.folder import make_folder
    from hetgym.bench.job import pick_schedulers
    from hetgym.sim.runtime import runtime as as_runtime
    from hetgym.workloads import load_problem

    import_files(imports)
    losers = pick_schedulers(",".join(schedulers))
    others = pick_schedulers(against) if against else losers
    pairs = [(a, b) for a in losers for b in others if a.name != b.name]
    if not pairs:
        raise ConfigError(f"{losers[0].name!r} is compared with nothing; name another scheduler with --against")
    if start is not None and (operators is not None or devices is not None):
        raise ConfigError("--operators and --devices are the size of drawn problems; --start has its own")
    problems, seconds = parse_budget(budget)
    options: dict[str, Any] = {
        "runtime": as_runtime(runtime),
        "start": load_problem(start) if start is not None else None,
        "operators": OPERATORS if operators is None else operators,
        "devices": DEVICES if devices is None else devices,
        "within": within,
        "budget": problems,
        "seconds": seconds,
        "seed": seed,
    }
    for row in {row.name: row for pair in pairs for row in pair}.values():
        # This compiles, and refuses what cannot work before a file is written.
        search(row, row, **options | {"budget": min(problems, 1)})
    folder = make_folder(output.out, output.name, output.force)
    return _run(pairs, [row.name for row in others], options, folder, output.as_json)


def parse_budget(text: str) -> tuple[int, float | None]:
    """A number of problems, and a limit of time [s] if the text is one; ConfigError if it is neither.

    >>> parse_budget("2000"), parse_budget("10s") == (2**62, 10.0)
    ((2000, None), True)
    """
    from hetgym._input.times import parse_time

    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text), None
    try:
        return 2**62, parse_time(text)
    except ConfigError:
        raise ConfigError(f"--budget {text}: expected a number of problems or a time, as in 2000 or 10s") from None


def _run(
    pairs: Sequence[tuple[Any, Any]], columns: Sequence[str], options: dict[str, Any], folder: Path, as_json: bool
) -> int:
    """Search for each pair, write and show what is found; returns the exit code."""
    from hetgym._input.files import write_json
    from hetgym.bench.adversarial import adversary as search
    from hetgym.bench.folder import naming
    from hetgym.cli.console import print_json, progress, stderr, tell
    from hetgym.search.search import ended_by_interrupt

    found: list[Adversary] = []
    files: list[Path] = []
    interrupted = False
    for old in folder.glob("*-against-*.npz"):
        old.unlink()
    with ended_by_interrupt() as interrupts, progress(stderr()) as bar:
        task = bar.add_task("searching", total=1000 * len(pairs), what="")
        for done, (first, second) in enumerate(pairs):
            label = f"{first.name} against {second.name}"

            def show(spent: float, ratio: float, done: int = done, label: str = label) -> None:
                bar.update(task, completed=int(1000 * (done + spent)), what=f"{label}: {ratio:.2f}")

            try:
                found.append(result := search(first, second, tell=show, **options))
            except KeyboardInterrupt:
                interrupted = True
                break
            files.append(folder / f"{file_stem(result.problem.name)}.npz")
            with naming(files[-1]) as path:
                result.problem.save(path)
            if interrupts.came:
                interrupted = True
                break
    document = {
        "format": "hetgym-adversary",
        "version": FORMAT_VERSION,
        "command": list(command_line()),
        "interrupted": interrupted,
        "found": [result.to_dict() | {"file": str(file)} for result, file in zip(found, files, strict=True)],
    }
    write_json(folder / "adversary.json", document)
    if as_json:
        print_json(document)
    elif len(pairs) == 1 and found:
        _print_pair(found[0], files[0])
    elif found:
        _print_matrix(pairs, columns, found, folder)
    if interrupted:
        tell(f"interrupted: {len(found)} of {len(pairs)} searches were begun; the worst problem of each was kept")
    return 130 if interrupted else 0


def _print_pair(result: Adversary, file: Path) -> None:
    """The ratio, both schedules, and how to go on."""
    from hetgym._text import duration, minutes
    from hetgym.baselines import get
    from hetgym.cli.charts import MOST, chart
    from hetgym.cli.console import print_path, say
    from hetgym.sim import simulate

    problem = result.problem
    names, times = (result.first, result.second), [duration(makespan) for makespan in result.makespans]
    say(
        f"{names[0]} takes {result.ratio:.2f} times as long as {names[1]}: {times[0]} against {times[1]} "
        f"under {result.runtime}",
        "bold",
    )
    say(
        f"{problem.num_operators} operators, {problem.num_edges} edges, {problem.num_devices} devices; the worst of "
        f"{result.evaluations} problems, tried in {minutes(result.seconds)}"
    )
    if problem.num_operators <= MOST:
        for name, time in zip(names, times, strict=True):
            trace = simulate(problem, get(name)(problem, result.runtime), result.runtime)
            short = max(result.makespans) > LONGER * trace.makespan
            title = f"{name}: {time}{', on a time axis of its own' if short else ''}"
            lines = chart(trace, trace.makespan if short else max(result.makespans))
            say("\n".join(["", title, *lines]))
        say("")
    print_path("problem", file)
    _print_hint(file, result.runtime)


def _print_matrix(
    pairs: Sequence[tuple[Any, Any]], columns: Sequence[str], found: Sequence[Adversary], folder: Path
) -> None:
    """A table of ratios."""
    from hetgym.cli.console import print_path, print_table, say
    from hetgym.cli.tables import ratio_tables

    ratios: dict[tuple[str, str], float | None] = {(a.name, b.name): None for a, b in pairs}
    ratios.update({(result.first, result.second): result.ratio for result in found})
    say(
        f"under {found[0].runtime}: how many times as long each scheduler (row) takes as another (column) on the worst "
        "problem found",
        "italic",
    )
    for table in ratio_tables(ratios, columns):
        print_table(table)
    print_path("problems", folder)
    worst = max(found, key=lambda result: result.ratio)
    _print_hint(folder / f"{file_stem(worst.problem.name)}.npz", worst.runtime)


def _print_hint(file: Path, runtime: str) -> None:
    """The command that runs all schedulers on a problem."""
    from hetgym.cli.console import say

    words = shlex.join(["hetgym", "bench", "--problems", str(file), "--runtimes", runtime])
    say(f"{'compare':>8}  {words}")
