"""Given splits: what a user's arguments, device map or partition make a program do."""

import json
import re
from typing import Any, NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.errors import ConfigError, shown
from hetgym.graph.language_model import LanguageModel
from hetgym.llm.llama_arguments import Arguments, read_arguments
from hetgym.llm.parts import Load
from hetgym.llm.planner import Planner
from hetgym.llm.proportional import layer_rule, stages_of
from hetgym.llm.search import Split, Stage
from hetgym.llm.site import Site

_LONG = 1 << 16  # longest text of arguments


class Wanted(NamedTuple):
    """What a user asks for, read but not placed yet."""

    text: str
    arguments: Arguments | None  # of llama.cpp

    def load(self, load: Load, model: LanguageModel) -> Load:
        """The load, with what the arguments state of it; a context of 0 is the one that the model was made for."""
        found = load._replace(**(self.arguments.load or {})) if self.arguments else load
        return found._replace(context=model.positions) if found.context == 0 and self.arguments else found

    def place(self, planner: Planner, load: Load) -> tuple[Site, Split]:
        """The split, and the site it is of.

        Raises:
            ConfigError: it asks for what the program, the platform or the model cannot do.
        """
        if self.arguments is not None and self.arguments.mode == "tensor":
            sites = planner.sites(load, tensor=True)
            if not sites or self.arguments.offloaded <= len(planner.model.layers):
                raise ConfigError(f"{planner.rules.title} cannot split the tensors of {planner.model.name} here")
            return sites[-1], Split((Stage(sites[-1].groups[0], 0, len(planner.model.layers)),))
        sites = planner.sites(load, tensor=False)
        if self.arguments is not None:
            split = _llama_cpp(self.arguments, sites[-1], planner.model)
        elif self.text.lstrip().startswith("{"):
            split = _device_map(self.text, sites[-1], planner.model)
        else:
            split = _partition(self.text, sites[-1], planner.model)
        gpus = {stage.devices for stage in split.stages} - {(sites[-1].cpu,)}
        return sites[0 if len(gpus) < 2 else -1], split


def wanted(text: str, target: str) -> Wanted:
    """What a text asks for.

    Args:
        text: arguments of llama.cpp; a device map as JSON; or the numbers of ``VLLM_PP_LAYER_PARTITION``.

    Raises:
        ConfigError: the text is not of the program's form.
    """
    if not isinstance(text, str) or len(text) > _LONG:
        raise ConfigError(f"the given split must be a text of at most {_LONG} characters")
    return Wanted(text, read_arguments(text) if target in ("llama.cpp", "ollama") else None)


def _llama_cpp(asked: Arguments, site: Site, model: LanguageModel) -> Split:
    """The split of llama.cpp's arguments in the modes ``layer`` and ``none``."""
    count, gpus = len(model.layers), [group[0] for group in site.groups]
    numbers = range(len(gpus)) if asked.devices is None else asked.devices
    for number in (*numbers, asked.main if asked.mode == "none" else 0):
        if number >= max(1, len(gpus)):
            raise ConfigError(f"the arguments name GPU {number}, and the platform has {len(gpus)}")
    used = [gpus[number] for number in numbers] if gpus else []
    if asked.mode == "none":
        used = used[asked.main : asked.main + 1]
    if len(asked.shares) > len(used) > 0:
        raise ConfigError(f"-ts has {len(asked.shares)} shares for {len(used)} GPUs")
    shares = list(asked.shares) or [site.room[k] for k in used]
    shares += [0.0] * (len(used) - len(shares))
    offloaded = min(asked.offloaded, count + 1)
    if not used or not offloaded:
        return Split((Stage((_cpu(site),), 0, count),))
    slots = layer_rule(count, offloaded, shares)
    devices = [used[k] if k >= 0 else _cpu(site) for k in slots[:count]]
    moved = _moved(asked, model, devices, gpus, site)
    away = np.flatnonzero(moved).tolist()
    shared = () if (moved[away] == 1).all() else tuple(moved[away].tolist())
    return Split(stages_of(devices), tuple(away), shared)


def _moved(asked: Arguments, model: LanguageModel, devices: list[int], gpus: list[int], site: Site) -> FloatArray:
    """[n] share of each layer's experts that lies on the CPU while the layer is on a GPU."""
    found = np.zeros(len(devices))
    rules = [(re.compile(pattern).search, where) for pattern, where in asked.overrides]
    rules += [(re.compile(r"\.ffn_.*_exps").search, "CPU")] if asked.moe else []
    for i, layer in enumerate(model.layers):
        if devices[i] == site.cpu:
            continue
        limited = rules if i < asked.moe else rules[: len(asked.overrides)]
        for weight in layer.weights:
            where = next((where for search, where in limited if search(weight.name)), "")
            if not where or _is_at(where, devices[i], gpus):
                continue
            if where != "CPU" or weight not in layer.experts:
                raise ConfigError(f"-ot moves {weight.name} to {shown(where)}: only experts on the CPU are understood")
            _cpu(site)
            found[i] += weight.bytes / summed(expert.bytes for expert in layer.experts)
    return np.where(found > 1 - 1e-9, 1.0, found)


def _is_at(where: str, device: int, gpus: list[int]) -> bool:
    """Whether a buffer such as ``CUDA1`` is that of a device."""
    number = re.fullmatch(r"[A-Za-z]+(\d{1,4})", where)
    return number is not None and int(number[1]) < len(gpus) and gpus[int(number[1])] == device


def _device_map(text: str, site: Site, model: LanguageModel) -> Split:
    """The split of a device map, whose keys name modules or what is in them."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise ConfigError(f"the device map is not JSON ({cause})") from None
    gpus = [group[0] for group in site.groups]
    whole: int | None = None
    device: dict[int, int] = {}
    for path, where in found.items() if isinstance(found, dict) else ():
        one = re.search(r"\.(?:layers|h)\.(\d{1,4})$", f".{path}")
        if one or not path or re.search(r"(?:^|\.)(?:layers|h|model|transformer)$", path):
            known = type(where) is int and 0 <= where < len(gpus)
            if not known and where not in ("cpu", "disk"):
                raise ConfigError(f"the device map sends {shown(path)} to {shown(where)}, which the platform lacks")
            place = gpus[where] if known else _cpu(site)
            if one:
                device[int(one[1])] = place
            else:
                whole = place
    layers = {i: device.get(i, whole) for i in range(len(model.layers))} | device
    if len(layers) > len(model.layers) or None in layers.values():
        raise ConfigError(f"the device map names {len(device)} of {len(model.layers)} layers")
    return Split(stages_of([layers[i] for i in range(len(model.layers))]))  # type: ignore[misc]


def _partition(text: str, site: Site, model: LanguageModel) -> Split:
    words = re.split(r"[,\s]+", text.rpartition("=")[2].strip())
    if not all(re.fullmatch(r"\d{1,9}", word) for word in words):
        raise ConfigError(f"{shown(text)} is not a list of numbers of layers")
    layers, gpus = list(map(int, words)), [group[0] for group in site.groups]
    if summed(layers) != len(model.layers) or len(layers) > len(gpus):
        raise ConfigError(f"{shown(text)} does not give {len(model.layers)} layers to at most {len(gpus)} GPUs")
    return Split(stages_of([k for k, n in zip(gpus, layers, strict=False) for _ in range(n)]))


def _cpu(site: Site) -> int:
    if site.cpu is None:
        raise ConfigError("the split puts layers on a CPU, which the platform lacks")
    return site.cpu
