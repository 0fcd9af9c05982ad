"""Options that several commands share: their types for Typer, and the values that belong together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from hetgym.errors import ConfigError, HetgymError

if TYPE_CHECKING:
    from hetgym.graph import DataflowGraph
    from hetgym.platform import Platform

LARGEST_SIZE = 2**31 - 1  # Largest batch or symbolic dimension: no tensor library supports more elements along one axis

SchedulersOption = Annotated[
    str,
    typer.Option(
        help="Comma-separated names or kinds (see 'hetgym list schedulers'), policy.safetensors files, 'default' (one "
        "for each idea) or 'all'. Options follow a name: pilot:completion=append."
    ),
]
ImportOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--import", metavar="FILE", help="Python file that registers schedulers or algorithms; may be given repeatedly."
    ),
]
ExportOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT[:FILE]",
        help="Write the plan for another program: json, onnxruntime, accelerate, llama.cpp or pipelining. May be given "
        "repeatedly. Default of FILE: a file beside plan.json.",
    ),
]
FuseOption = Annotated[bool, typer.Option("--fuse", help="Fuse operators first, as compilers do.")]
RuntimesOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Simulated runtimes, one or several; see 'hetgym list runtimes'. With switches: links,streams=2. Default: "
        "classic; for hetgym bench classic and links."
    ),
]
RuntimeOption = Annotated[
    str, typer.Option(help="Simulated runtime; see 'hetgym list runtimes'. With switches: links,streams=2.")
]
OutOption = Annotated[Path, typer.Option(help="Folder of all runs; this run gets a folder of its own in it.")]
NameOption = Annotated[str, typer.Option(help="Name of this run's folder. Default: date and time.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an earlier run of the same name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else, on stdout.")]


@dataclass(frozen=True)
class Output:
    """The destination of a run's results."""

    out: OutOption = Path("results")  # folder of all runs
    name: NameOption = ""  # name of this run's folder; empty = date and time
    force: ForceOption = False  # True to replace an earlier run of that name
    as_json: JsonOption = False  # True to write only the results, as JSON, to stdout


@dataclass(frozen=True)
class ModelOptions:
    """What a model's name or file leaves open."""

    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=LARGEST_SIZE, help="Batch size. Default: the one of an ONNX model, else 1."
        ),
    ] = None
    dims: Annotated[
        list[str] | None,
        typer.Option(help="Sizes of symbolic dimensions, as in N=2,S=16, or sequence=4096 of a language model."),
    ] = None
    phase: Annotated[
        str, typer.Option(help="Of a language model: forward, prefill or decode. Default: forward, of whole sequences.")
    ] = ""
    dtype: Annotated[str, typer.Option(help="Floating-point format, such as float16. Default: the model's own.")] = ""
    quant: Annotated[str, typer.Option(help="Of a language model's weights: Q4_K_M, q8_0, …. Default: as stored.")] = ""
    cache: Annotated[str, typer.Option(help="Of cached keys and values: f16, q8_0, …. Default: that of --dtype.")] = ""

    def load(self, model: str, fused: bool = False) -> DataflowGraph:
        """The graph of a model; HetgymError if there is none."""
        from hetgym.graph import load_graph
        from hetgym.graph.transforms import cast, fuse

        options: dict[str, Any] = {"dims": parse_dims(self.dims)} if self.dims else {}
        given = {"phase": self.phase, "quant": self.quant, "cache": self.cache}
        options |= {key: value for key, value in given.items() if value}
        graph = load_graph(model, batch=self.batch, **options)
        graph = cast(graph, self.dtype) if self.dtype else graph
        return fuse(graph).graph if fused else graph


def expanded(command: Callable[..., int]) -> Callable[..., int]:
    """A command for Typer, which has the options of a dataclass in place of each parameter that is one."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: list[Parameter] = []
    for name, given in signature(command).parameters.items():
        kinds = get_type_hints(groups[name], include_extras=True) if name in groups else hints
        for option in fields(groups[name]) if name in groups else (given,):
            own = Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=kinds[option.name])
            options.append(own)

    def run(**given: Any) -> int:
        made = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        return command(**given, **made)

    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, {}
    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return run


def words(text: str) -> list[str]:
    """The words of a comma-separated list.

    >>> words("heft, peft,")
    ['heft', 'peft']
    """
    return [word.strip() for word in text.split(",") if word.strip()]


def import_files(files: Sequence[Path] | None) -> None:
    """Run the Python files that ``--import`` names, which register schedulers; ConfigError if one cannot be run."""
    if files:
        from hetgym.planning.registry import import_file

        for file in files:
            import_file(file)


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Sizes of symbolic dimensions.

    Raises:
        ConfigError: a text that is not a list of sizes, or two sizes for one name.

    >>> parse_dims(["N=2, S=16", "N=2"])
    {'N': 2, 'S': 16}
    """
    sizes: dict[str, int] = {}
    for text in texts:
        for pair in text.split(","):
            key, _, value = (part.strip() for part in pair.partition("="))
            whole = value.isascii() and value.isdigit() and len(value) <= 18
            if not key or not whole or not 1 <= int(value) <= LARGEST_SIZE:
                raise ConfigError(
                    f"--dims {text}: expected NAME=SIZE with whole sizes from 1 to {LARGEST_SIZE}, as in N=2,S=16"
                )
            if sizes.setdefault(key, int(value)) != int(value):
                raise ConfigError(f"--dims: {key} is given as {sizes[key]} and as {value}")
    return sizes


def load_devices(platform: str) -> Platform:
    """The platform that an option names; ConfigError if it is a cluster."""
    from hetgym.parallel import load_cluster
    from hetgym.topology import find_platform

    try:
        return find_platform(platform)
    except HetgymError as error:
        try:
            load_cluster(platform)
        except HetgymError:
            raise error from None
        raise ConfigError(f"{platform} is a cluster; hetgym cluster plans training steps on it") from error


def command_line() -> tuple[str, ...]:
    """The words that started this process, for the record."""
    return ("hetgym", *sys.argv[1:])
