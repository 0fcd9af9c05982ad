"""Arguments of llama.cpp's programs: those that place layers, weights and caches.

Source: ``tools/server/README.md`` of llama.cpp.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetgym._sums import summed
from hetgym.errors import ConfigError, shown
from hetgym.graph.language_model import cache_formats

_NAMES = {
    "--n-gpu-layers": "-ngl", "--gpu-layers": "-ngl", "--tensor-split": "-ts", "--override-tensor": "-ot",
    "-dev": "--device", "-ncmoe": "--n-cpu-moe", "-cmoe": "--cpu-moe", "--split-mode": "-sm", "--main-gpu": "-mg",
    "--ctx-size": "-c", "--parallel": "-np", "--ubatch-size": "-ub", "--cache-type-k": "-ctk",
    "--cache-type-v": "-ctv", "--no-kv-offload": "-nkvo", "--model-draft": "-md", "-mm": "--mmproj",
}  # fmt: skip
"""Other name of an option -> its name here."""

_VALUES = ("-ngl", "-ts", "-ot", "--device", "--n-cpu-moe", "-sm", "-mg", "-c", "-np", "-ub", "-ctk", "-ctv")
_BEYOND = ("-nkvo", "-md", "--mmproj", "--rpc")  # they place something that plans do not know
_NUMBERS = {"-c": "context", "-np": "sequences", "-ub": "step"}  # option -> field of Load

EVERY = 1 << 16  # number of layers that stands for all


@dataclass(frozen=True)
class Arguments:
    """The placement and the load that arguments ask for.

    Args:
        offloaded: number of layers, the head being one more, that go to GPUs.
        shares: of each GPU; empty for their free memory.
        devices: numbers of the GPUs; None for all.
        mode: ``layer``, ``none`` for one GPU, or ``tensor``.
        main: the GPU of mode ``none``.
        moe: number of first layers whose experts lie on the CPU.
        overrides: regular expression of names of tensors, and the buffer where they lie; the first that is found holds.
        load: fields of :class:`~hetgym.llm.parts.Load`.
    """

    offloaded: int = EVERY
    shares: tuple[float, ...] = ()
    devices: tuple[int, ...] | None = None
    mode: str = "layer"
    main: int = 0
    moe: int = 0
    overrides: tuple[tuple[str, str], ...] = ()
    load: Mapping[str, Any] | None = None


def read_arguments(text: str) -> Arguments:
    """The arguments of a text; options that place nothing are passed over.

    Raises:
        ConfigError: no option, one with a value that it does not have, or one that places what plans do not know.
    """
    found = _options(text)
    load: dict[str, Any] = {field: _whole(found[name], name) for name, field in _NUMBERS.items() if name in found}
    for name, field in (("-ctk", "key"), ("-ctv", "value")):
        if name in found:
            load[field] = cache_formats(found[name])[0]
    mode = found.get("-sm", "layer")
    if mode not in ("layer", "none", "tensor"):
        raise ConfigError(f"-sm {shown(mode)}: only layer, none and tensor are understood")
    moe = EVERY if "--cpu-moe" in found else _whole(found.get("--n-cpu-moe", "0"), "--n-cpu-moe")
    layers = found.get("-ngl", "all")
    return Arguments(
        offloaded=EVERY if layers in ("all", "auto", "-1") else _whole(layers, "-ngl"),
        shares=_shares(found["-ts"]) if "-ts" in found else (),
        devices=_devices(found["--device"]) if "--device" in found else None,
        mode=mode,
        main=_whole(found.get("-mg", "0"), "-mg"),
        moe=moe,
        overrides=tuple(_override(rule) for rule in filter(None, found.get("-ot", "").split(","))),
        load=load,
    )


def _options(text: str) -> dict[str, str]:
    """Options -> their values; ``-ot`` may come several times."""
    try:
        words = shlex.split(text)
    except ValueError as cause:
        raise ConfigError(f"the arguments {shown(text)} are not quoted right ({cause})") from None
    if not any(word.startswith("-") for word in words):
        raise ConfigError(f"{shown(text)} has no option of llama.cpp, such as -ngl 99")
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        name, _, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = _NAMES.get(name, name)
        if name in _BEYOND:
            raise ConfigError(f"{name} places something that plans do not know: what it takes can be stated as reserve")
        if name == "--cpu-moe":
            found[name] = ""
        elif name in _VALUES:
            value = value or (words[at + 1] if at + 1 < len(words) else "")
            found[name] = f"{found[name]},{value}" if name == "-ot" and name in found else value
    return found


def _override(rule: str) -> tuple[str, str]:
    pattern, _, where = rule.rpartition("=")
    if not pattern or len(pattern) > 4096:
        raise ConfigError(f"-ot {shown(rule)} is not a rule such as 'exps=CPU'")
    try:
        re.compile(pattern)
    except re.error as cause:
        raise ConfigError(f"-ot {shown(rule)} is not a regular expression ({cause})") from None
    return pattern, where


def _devices(text: str) -> tuple[int, ...]:
    numbers = [re.search(r"(\d{1,4})$", name.strip()) for name in text.split(",")]
    if not all(numbers):
        raise ConfigError(f"--device {shown(text)} has no names of GPUs such as CUDA0,CUDA1")
    return tuple(int(found[1]) for found in numbers if found)


def _shares(text: str) -> tuple[float, ...]:
    words = re.split("[,/]", text)
    if not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", word) for word in words) or not summed(map(float, words)) > 0:
        raise ConfigError(f"-ts {shown(text)} has no shares such as 3,1")
    return tuple(map(float, words))


def _whole(text: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ConfigError(f"{what} is {shown(text)}; it must be a whole number")
    return int(text)
