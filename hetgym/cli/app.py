"""The command: its subcommands, and one sentence and an exit code for whatever goes wrong.

Exit codes: 0 done, 1 a result failed a check, 2 bad input or a file that cannot be written, 74 stdout cannot
be written, 130 interrupted. Results go to stdout, progress and messages to stderr. Commands import what they
need when they run, so that ``hetgym --help`` is quick.
"""

import re
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from hetgym._text import plain
from hetgym._version import VERSION
from hetgym.cli.adversary import adversary
from hetgym.cli.bench import bench
from hetgym.cli.check_agent import check_agent
from hetgym.cli.cluster import cluster
from hetgym.cli.fit import fit
from hetgym.cli.list import list_
from hetgym.cli.llm import llm
from hetgym.cli.options import expanded
from hetgym.cli.pipeline import pipeline
from hetgym.cli.plan import plan
from hetgym.cli.platform import platform
from hetgym.cli.price import price
from hetgym.cli.profile import profile
from hetgym.cli.score import score
from hetgym.cli.shard import shard
from hetgym.cli.streams import forgiving, interruptible
from hetgym.cli.train import train
from hetgym.cli.validate import validate
from hetgym.errors import HetgymError

BAD_INPUT, NO_OUTPUT, INTERRUPTED = 2, 74, 130

LONGEST_WORD = 256  # Characters of a word of a message; longer ones, which come from the input, are cut in the middle
SEVERAL = ("--problems", "--runtimes")  # Options that take one or several values

app = typer.Typer(
    name="hetgym",
    help="Schedule deep-learning dataflow graphs on heterogeneous hardware, and see which scheduler does it best.",
    add_completion=False,
    rich_markup_mode="markdown",  # paragraphs of help without the line breaks of docstrings
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Take the options that precede a command."""


EXAMPLES: dict[Callable[..., int], str] = {
    bench: "hetgym bench --suite hetbench-v1 --schedulers heft,peft,place-v2 --against heft",
    plan: "hetgym plan model.onnx --platform cpu-gpu --budget 10s --export onnxruntime",
    llm: "hetgym llm qwen3-32b --quant Q4_K_M --platform '3090+2080Ti, 64GB ddr4-3600' --context max",
    cluster: "hetgym cluster llama-7b --platform dgx-a100-64 --global-batch 1024",
    shard: "hetgym shard gpt2 --mesh 2x4 --links network,nvlink3 --optimizer adam",
    pipeline: "hetgym pipeline layers.csv --stages 8 --reserve 2GB",
    platform: "hetgym platform '3090+2080Ti, 64GB ddr4-3600' --out my-machine.yaml",
    price: "hetgym price resnet50 --platform cpu-gpu --operator Conv_0",
    adversary: "hetgym adversary heft --against peft --budget 10s",
    score: "hetgym score mine.py --suite quick",
    validate: "hetgym validate --models resnet50 --processors cpu0:full,cpu1:avx2",
    profile: "hetgym profile mine --cores 0",
    fit: "hetgym fit measurements/mine.csv.gz --kind blend",
    train: "hetgym train maskable-ppo-schedule --name first",
    check_agent: "hetgym check-agent place-v1 --episodes 64",
    list_: "hetgym list schedulers",
}
"""Command -> an example of its use; commands are listed in this order."""

NAMES = {list_: "list", check_agent: "check-agent"}  # Command -> its name, where that is not the function's

for _command, _example in EXAMPLES.items():
    app.command(NAMES.get(_command), epilog=f"Example: {_example}")(expanded(_command))


def main() -> None:
    """Run the command line and exit."""
    with forgiving() as errors:
        code = _run(sys.argv[1:])
    if errors:
        code = _complain(f"standard output cannot be written ({errors[0].strerror})", NO_OUTPUT)
    sys.exit(code)


def _run(words: list[str]) -> int:
    """Run a command; returns the exit code."""
    warnings.showwarning = _warn
    try:
        with interruptible():
            code = app(_with_values(words) or ["--help"], prog_name="hetgym", standalone_mode=False)
        return int(code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except HetgymError as error:
        return _complain(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}cannot be read or written ({error.strerror or error})")
    except Exception as error:
        # Typer's own usage errors: their class moved between versions, their method did not.
        if not hasattr(error, "format_message"):
            raise
        return _complain(error.format_message())


def _with_values(words: list[str]) -> list[str]:
    """The command line as Typer reads it.

    Typer's options have exactly one value, so a bare ``--ray`` becomes ``--ray=local``. Each of :data:`SEVERAL` is
    repeated before each of its values, so that a shell may list them, as in ``--problems *.stg``.
    """
    found: list[str] = []
    option = ""
    for word, after in zip(words, [*words, ""][1:], strict=True):
        option = word if word in SEVERAL else "" if word.startswith("-") else option
        if option and word != option and found[-1:] != [option]:
            found.append(option)
        found.append("--ray=local" if word == "--ray" and after[:1] in ("", "-") else word)
    return found


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print(f"hetgym: warning: {_line(str(message))}", file=sys.stderr)


def _complain(message: str, code: int = BAD_INPUT) -> int:
    """A message on one line of stderr; returns the exit code."""
    print(f"hetgym: error: {_line(message)}", file=sys.stderr)
    return code


def _line(text: str) -> str:
    """A text on one line, words of excessive length cut."""
    half = LONGEST_WORD // 2
    words = plain(" ".join(text.split()))
    return re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda found: f"{found[0][:half]}…{found[0][-half:]}", words)
