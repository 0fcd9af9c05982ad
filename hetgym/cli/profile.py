"""``hetgym profile``: operators measured on this machine."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetgym._input.files import check_run_name
from hetgym.cli.console import print_json, print_path, progress, stderr, stdout, tell
from hetgym.cli.options import JsonOption, words
from hetgym.errors import ConfigError

if TYPE_CHECKING:
    from hetgym.profiling.host import HostSettings
    from hetgym.profiling.session import Item, Profile


LOOK = 0.5  # Time for which other programs are looked for before the first measurement [s]


def profile(
    name: Annotated[str, typer.Argument(help="Name of the table; a run of that name that was stopped is resumed.")],
    designs: Annotated[
        str, typer.Option(help="Comma-separated space-filling designs of shapes, 'all' or 'none'.")
    ] = "all",
    share: Annotated[
        float, typer.Option(metavar="N", min=0.001, max=100, help="Share of each design that is measured.")
    ] = 1.0,
    networks: Annotated[
        int, typer.Option(metavar="N", min=0, max=100_000, help="Random networks, measured as they run.")
    ] = 150,
    models: Annotated[str, typer.Option(help="Comma-separated models, measured as they run: zoo names or files.")] = "",
    shapes: Annotated[Path | None, typer.Option(help="CSV file of operators; columns kind,inputs,outputs,….")] = None,
    passes: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="How often each is measured, far apart in time.")
    ] = 2,
    device: Annotated[str, typer.Option(help="cpu, or a CUDA device such as cuda:0.")] = "cpu",
    cores: Annotated[str, typer.Option(help="Comma-separated numbers of the cores that measure.")] = "0",
    isa: Annotated[
        str, typer.Option(help="Cap of the instruction set: full, avx512, avx2, sse4.2 or library=cap,….")
    ] = "full",
    time_limit: Annotated[str, typer.Option(help="Most time for one operator, such as 500ms or 20s.")] = "20s",
    memory_limit: Annotated[str, typer.Option(help="Most memory for one operator, such as 8GB.")] = "8GB",
    write_platform: Annotated[
        Path | None, typer.Option(help="Also measure this machine's links, and write it as a platform to this file.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the table.")] = Path("measurements"),
    as_json: JsonOption = False,
) -> int:
    """Measure operators on this machine.

    Draws shapes over the space of each operator kind, and times real and random networks operator by operator as they
    run. Writes OUT/NAME.csv.gz and a card of the machine beside it. If a run is stopped, the same command resumes it.
    """
    from hetgym._input.sizes import parse_size
    from hetgym._input.times import parse_time
    from hetgym.profiling import plans
    from hetgym.profiling.designs import CORE, GPU
    from hetgym.profiling.host import HostSettings
    from hetgym.profiling.session import Profile

    check_run_name(name)
    size = CORE if device == "cpu" else GPU
    names = words(designs) if designs != "all" else []
    items = [] if designs == "none" else plans.design_items(names, share, size=size)
    items += plans.network_items(networks, size=size) + plans.model_items(words(models))
    items += plans.table_items(shapes) if shapes else []
    if not items:
        raise ConfigError("nothing to measure: no designs, no networks, no models and no shapes are asked for")
    settings = HostSettings(_cores(cores), _isa(isa))
    session = Profile(
        out / f"{name}.csv.gz",
        settings,
        time_limit=parse_time(time_limit),
        memory_limit=parse_size(memory_limit),
        device=device,
    )
    _say_if_busy(settings)
    if write_platform is not None:
        _write_platform(settings, write_platform)
    try:
        return _run(session, items, passes, as_json)
    except KeyboardInterrupt:
        tell("interrupted: the same command resumes the run")
        return 130


def _cores(text: str) -> tuple[int, ...]:
    """Numbers of cores; ConfigError about anything else, or a core that this process may not use."""
    found = words(text)
    if not found or not all(word.isascii() and word.isdigit() and len(word) < 6 for word in found):
        raise ConfigError(f"--cores {text}: expected numbers separated by commas, as in 0,1")
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    chosen = tuple(int(word) for word in found)
    if not usable.issuperset(chosen):
        raise ConfigError(f"--cores {text}: this process may use the cores {', '.join(map(str, sorted(usable)))}")
    return chosen


def _isa(text: str) -> str | dict[str, str]:
    """One cap of the instruction set, or one for each library."""
    return dict((pair.partition("=")[0], pair.partition("=")[2]) for pair in words(text)) if "=" in text else text


def _say_if_busy(settings: HostSettings) -> None:
    """Say so where other programs use the cores that measure, as times will be too long."""
    from hetgym.execution.quiet import LIMIT, foreign_share

    share = foreign_share(settings.cores, seconds=LOOK)
    if share > LIMIT:
        cores = ",".join(map(str, settings.cores))
        tell(
            f"other programs use {100 * share:.0f} % of core {cores}: measured times will be too long. Stop them, or "
            "measure again on an idle machine"
        )


def _write_platform(settings: HostSettings, target: Path) -> None:
    """Measure this machine's devices and links, and write them as a platform file."""
    from hetgym.profiling.describe import describe_platform, write_platform

    with stderr().status("measuring links…") as status:
        described = describe_platform({"cpu": settings}, progress=lambda what: status.update(f"measuring {what}…"))
    try:
        write_platform(target, described)
    except OSError as cause:
        raise ConfigError(f"{target}: cannot be written ({cause.strerror})") from cause
    tell(f"platform  {target}")


def _run(session: Profile, items: Sequence[Item], passes: int, as_json: bool) -> int:
    """Measure under a progress bar, write table and card, print a summary; returns the exit code."""
    from hetgym.measurements import Dataset, MachineCard
    from hetgym.profiling.describe import describe_device
    from hetgym.profiling.plans import total

    start, left = time.monotonic(), len(session.missing(items, passes))
    done = passes * len(items) - left
    tell(f"{total(items)}, {passes} times" + (f"; {done} of them measured before" if done else ""))
    machine = MachineCard.collect(session.settings.cores, session.settings.label)
    with progress(console := stderr()) as bar:
        task = bar.add_task("profile", total=done + left, completed=done, what="")

        def show(item: Item, status: str) -> None:
            bar.update(task, advance=1, what=item.source)
            if status != "ok":
                console.print(f"{item.source}: {status}", highlight=False)

        table = session.run(items, passes, show)
    device = describe_device(session.device, session.settings, machine)
    notes = f"{total(items)}, {passes} times, medians; hetgym profile"
    session.finish(Dataset(table, machine, device, notes))
    seconds, counts = time.monotonic() - start, Counter(row.status for row in table)
    if as_json:
        print_json({"table": str(session.path), "rows": dict(counts), "seconds": round(seconds, 1)})
        return 0
    listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    stdout().print(f"{len(table)} rows ({listed}) in {seconds:.0f} s")
    print_path("table", session.path)
    print_path("card", session.path.with_name(f"{session.path.name.removesuffix('.csv.gz')}.json"))
    return 0
