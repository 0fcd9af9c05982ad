"""``hetgym platform``: a platform file from what describes a machine, or names it in a line."""

from pathlib import Path
from typing import Annotated

import typer

from hetgym.cli.options import JsonOption


def platform(
    machine: Annotated[
        str,
        typer.Argument(
            help="A line such as '2x RTX 3090, 64GB DDR4-3600' or '2x M2 Ultra 192GB, 10GbE'; or a file: output of "
            "'nvidia-smi -q; nvidia-smi topo -m', of nvidia-smi, llama.cpp, vulkaninfo, rocminfo, rocm-smi, "
            "system_profiler, 'lstopo --of xml' or NCCL (NCCL_TOPO_DUMP_FILE), the NAME.csv.gz of 'hetgym profile', or "
            "a platform file; or the name of a preset."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Platform file to write, which ends in .yaml.")] = None,
    boards: Annotated[
        Path | None, typer.Option(help="YAML file of data sheets, for devices that hetgym has none of.")
    ] = None,
    gpu: Annotated[str, typer.Option(help="Product of all GPUs, if the file names none or others.")] = "",
    gpus_only: Annotated[bool, typer.Option("--gpus-only", help="Leave out the CPUs.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Read a platform from a line or a description of a machine, show it and write it to a platform file."""
    from hetgym._text import duration
    from hetgym.cli.console import print_json, print_path, print_table, say
    from hetgym.cli.tables import table_of
    from hetgym.errors import ConfigError, size
    from hetgym.profiling.describe import write_platform
    from hetgym.topology import find_platform, load_boards

    if out is not None and out.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--out {out}: a platform file ends in .yaml")
    known = load_boards(boards) if boards else ()
    found = find_platform(machine, known, gpu, not gpus_only, out.stem if out else "")
    document = found.to_dict()
    for device in document["devices"]:
        for key in [key for key, value in device.items() if value in (None, "", {}, float("inf"))]:
            del device[key]
    if out is not None:
        write_platform(out, document)
    if as_json:
        print_json(document)
        return 0
    first, *assumptions = found.description.split("; ")
    say(": ".join(filter(None, (found.name, first))), "bold")
    for assumption in assumptions:
        say(f"- {assumption}")
    table = table_of("device", "model", "float32", "memory", "of", left=("device", "model"))
    for device in found:
        rate = device.peak_flops.get("float32", max(device.peak_flops.values()))
        bandwidth, capacity = f"{device.memory_bandwidth / 1e9:.4g} GB/s", device.memory_capacity
        limit = size(capacity) if capacity < float("inf") else "∞"
        table.add_row(device.name, device.model, f"{rate / 1e12:.3g} TFLOP/s", bandwidth, limit)
    print_table(table)
    table = table_of("link", "kind", "bandwidth", "latency", left=("link", "kind"))
    for link in found.links:
        if link.start < link.end:
            payload = f"{link.bandwidth * link.efficiency / 1e9:.4g} GB/s"
            table.add_row(f"{link.start} - {link.end}", link.kind, payload, duration(link.latency))
    if found.links:
        print_table(table)
    if out is not None:
        print_path("platform", out)
    return 0
