"""Given splits: what a user's arguments, device map or partition make a program do."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetgym._sums import summed
from hetgym.errors import ConfigError, shown
from hetgym.graph.language_model import LanguageModel
from hetgym.llm.search import Split, Stage, fits
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds

_LONG = 1 << 16  # longest text of arguments


def layer_rule(layers: int, offloaded: int, shares: Sequence[float]) -> list[int]:
    """llama.cpp's rule: for each layer and, as one more, the head, the number of its GPU; -1 for the CPU.

    The last ``offloaded`` of them go to GPUs: item i of them to the first whose cumulative share exceeds i / offloaded,
    in 32 bits.

    >>> found = layer_rule(56, 33, [15, 15, 3])
    >>> [found.count(k) for k in (-1, 0, 1, 2)], found[-1]
    ([24, 15, 15, 3], 2)
    """
    count = min(offloaded, layers + 1)
    start = layers + 1 - count
    total = np.cumsum(np.array(shares, np.float32), dtype=np.float32)
    ends = total / total[-1]
    placed = [np.float32(i) / np.float32(count) for i in range(count)]
    return [-1] * start + [int(np.searchsorted(ends, x, side="right")) for x in placed]


def given_split(text: str, target: str, site: Site, model: LanguageModel) -> Split:
    """The split that a user's text asks for.

    Args:
        text: arguments of llama.cpp; a device map as JSON; or the numbers of ``VLLM_PP_LAYER_PARTITION``.

    Raises:
        ConfigError: the text is not of the program's form, or asks for what it cannot do.
    """
    if not isinstance(text, str) or len(text) > _LONG:
        raise ConfigError(f"the given split must be a text of at most {_LONG} characters")
    if target in ("llama.cpp", "ollama"):
        return _llama_cpp(text, site, model)
    if text.lstrip().startswith("{"):
        return _device_map(text, site, model)
    return _partition(text, site, model)


def _llama_cpp(text: str, site: Site, model: LanguageModel) -> Split:
    try:
        words = shlex.split(text)
    except ValueError as cause:
        raise ConfigError(f"the arguments {shown(text)} are not quoted right ({cause})") from None
    options = _options(words)
    count, gpus = len(model.layers), [group[0] for group in site.groups]
    offloaded = _whole(options.get("-ngl", str(count + 1)), "-ngl", count + 1)
    listed = options.get("--device")
    if listed is not None:
        numbers = [re.search(r"(\d+)$", name) for name in listed.split(",")]
        if not all(numbers) or any(int(found[1]) >= len(gpus) for found in numbers if found):
            raise ConfigError(f"--device {shown(listed)} names a GPU that the platform lacks")
        gpus = [gpus[int(found[1])] for found in numbers if found]
    shares = [site.room[k] for k in gpus]
    if "-ts" in options:
        shares = [_share(word) for word in re.split("[,/]", options["-ts"])]
        if len(shares) > len(gpus) or not summed(shares) > 0:
            raise ConfigError(f"-ts {shown(options['-ts'])} does not fit {len(gpus)} GPUs")
        shares += [0.0] * (len(gpus) - len(shares))
    if not gpus or not offloaded:
        return Split((Stage((_cpu(site),), 0, count),), ())
    slots = layer_rule(count, offloaded, shares)
    away = _away(options, model)
    return Split(_stages([gpus[k] if k >= 0 else _cpu(site) for k in slots[:count]]), away)


_NAMES = {
    "--n-gpu-layers": "-ngl", "--gpu-layers": "-ngl", "--tensor-split": "-ts", "--override-tensor": "-ot",
    "-dev": "--device", "-ncmoe": "--n-cpu-moe", "-cmoe": "--cpu-moe",
}  # fmt: skip


def _options(words: list[str]) -> dict[str, str]:
    """Options that place layers -> their values; ``-ot`` may come several times."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        name, _, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = _NAMES.get(name, name)
        if name == "--cpu-moe":
            found[name] = ""
        elif name in ("-ngl", "-ts", "-ot", "--device", "--n-cpu-moe"):
            value = value or (words[at + 1] if at + 1 < len(words) else "")
            found[name] = f"{found[name]},{value}" if name == "-ot" and name in found else value
    return found


def _away(options: Mapping[str, str], model: LanguageModel) -> tuple[int, ...]:
    """Layers whose experts lie on the CPU."""
    mixed = [i for i, layer in enumerate(model.layers) if layer.experts]
    if "--cpu-moe" in options:
        return tuple(mixed)
    first = _whole(options.get("--n-cpu-moe", "0"), "--n-cpu-moe", 1 << 16)
    found = {i for i in mixed if i < first}
    for rule in filter(None, options.get("-ot", "").split(",")):
        pattern, _, where = rule.rpartition("=")
        if where != "CPU" or len(pattern) > 4096:
            raise ConfigError(f"-ot {shown(rule)}: only rules that end in =CPU are understood")
        try:
            matches = re.compile(pattern).search
        except re.error as cause:
            raise ConfigError(f"-ot {shown(rule)} is not a regular expression ({cause})") from None
        for i in mixed:
            hit = [matches(weight.name) is not None for weight in model.layers[i].experts]
            found |= {i} if hit and all(hit) else set()
    return tuple(sorted(found))


def _device_map(text: str, site: Site, model: LanguageModel) -> Split:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise ConfigError(f"the device map is not JSON ({cause})") from None
    gpus = [group[0] for group in site.groups]
    device: dict[int, int] = {}
    for path, where in found.items() if isinstance(found, dict) else ():
        match = re.search(r"\.(?:layers|h)\.(\d{1,4})$", f".{path}")
        if match:
            known = type(where) is int and 0 <= where < len(gpus)
            if not known and where not in ("cpu", "disk"):
                raise ConfigError(f"the device map sends {shown(path)} to {shown(where)}, which the platform lacks")
            device[int(match[1])] = gpus[where] if known else _cpu(site)
    if sorted(device) != list(range(len(model.layers))):
        raise ConfigError(f"the device map names {len(device)} of {len(model.layers)} layers")
    return Split(_stages([device[i] for i in range(len(model.layers))]), ())


def _partition(text: str, site: Site, model: LanguageModel) -> Split:
    words = re.split(r"[,\s]+", text.rpartition("=")[2].strip())
    layers = [_whole(word, "a number of layers", 1 << 16) for word in words]
    gpus = [group[0] for group in site.groups]
    if summed(layers) != len(model.layers) or len(layers) > len(gpus):
        raise ConfigError(f"{shown(text)} does not give {len(model.layers)} layers to at most {len(gpus)} GPUs")
    return Split(_stages([k for k, n in zip(gpus, layers, strict=False) for _ in range(n)]), ())


def _stages(device: Sequence[int]) -> tuple[Stage, ...]:
    starts = [i for i in range(len(device)) if i == 0 or device[i] != device[i - 1]]
    return tuple(Stage((device[a],), a, b) for a, b in zip(starts, [*starts[1:], len(device)], strict=True))


def _cpu(site: Site) -> int:
    if site.cpu is None:
        raise ConfigError("the split puts layers on a CPU, which the platform lacks")
    return site.cpu


def _whole(text: str, what: str, most: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ConfigError(f"{what} is {shown(text)}; it must be a whole number")
    return min(int(text), most)


def _share(text: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
        raise ConfigError(f"-ts has the share {shown(text)}; it must be a number")
    return float(text)


def best_change(site: Site, split: Split) -> Split | None:
    """The fitting split of least decoding time that differs in one place; None if none is better than the split.

    A change moves the border between two stages, or the border before the first GPU, or chooses anew which experts lie
    on the CPU.
    """
    stages, n = split.stages, len(site.parts.dense)
    tried: list[Split] = []
    for k in range(len(stages) - 1):
        for border in range(stages[k].first, stages[k + 1].end + 1):
            moved = (stages[k]._replace(end=border), stages[k + 1]._replace(first=border))
            kept = tuple(stage for stage in (*stages[:k], *moved, *stages[k + 2 :]) if stage.end > stage.first)
            tried.append(Split(kept, split.away))
    if site.rules.experts and site.cpu is not None:
        mixed = [i for i in range(n) if site.parts.experts[i]]
        tried += [Split(stages, tuple(mixed[:count])) for count in range(len(mixed) + 1)]
        tried += [Split(stages, tuple(mixed[count:])) for count in range(len(mixed))]
    legal = [one for one in tried if one != split and fits(site, one)]
    if not legal:
        return None
    best = min(legal, key=lambda one: decode_seconds(site, one))
    worse = fits(site, split) and decode_seconds(site, best) >= decode_seconds(site, split)
    return None if worse else best
