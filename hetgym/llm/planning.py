"""plan_llm: where the layers of a language model go on a machine, whether they fit, and how fast they run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hetgym._sums import summed
from hetgym.costs.decoding import HIGH, LOW
from hetgym.errors import ConfigError, OutOfMemory, check_name, shown, size
from hetgym.graph.language_model import LanguageModel, cache_formats, padded
from hetgym.graph.model_names import load_language_model
from hetgym.llm.flags import flags
from hetgym.llm.given import best_change, given_split
from hetgym.llm.parts import Load, parts_of
from hetgym.llm.rules import Rules, rules_of
from hetgym.llm.search import Split, Stage, best_split, cpu_bytes, fits, usage
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds, prompt_time
from hetgym.platform import Platform
from hetgym.topology import find_platform

PROMPT = 512  # tokens of the prompt whose rate is stated, if no other number is asked for
MOST_CONTEXT = 1 << 22

SPLIT_MASKS = 4  # copies of the mask once layers are split over several GPUs: their inputs are kept for four steps
METAL_MASKS = 3  # and on Metal, by what llama-fit-params prints

PROMPT_LOW, PROMPT_HIGH = 0.7, 1.4  # factors of a prompt's rate between which most measured ones lie


@dataclass(frozen=True)
class DeviceShare:
    """What a device holds."""

    name: str
    layers: int  # layers whose attention and cache are there
    experts: int  # layers whose experts are there
    weights_bytes: float
    cache_bytes: float
    buffers_bytes: float
    reserve_bytes: float
    free_bytes: float


@dataclass(frozen=True)
class Rate:
    """Tokens a second: most measured rates lie between ``low`` and ``high``."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Option:
    """Another way to run the model."""

    name: str  # what differs
    decode_tokens_per_second: float | None  # None if it does not fit
    prefill_tokens_per_second: float | None
    flags: str = ""


@dataclass(frozen=True)
class Given:
    """How a split that a user gave compares with the best one."""

    fits: bool
    devices: tuple[DeviceShare, ...]
    decode_tokens_per_second: float  # whether it fits or not
    of_best: float  # that rate over the best split's
    change: Option | None  # the one change that gains most; None if none gains


@dataclass(frozen=True)
class LlmPlan:
    """The answer of :func:`plan_llm`."""

    model: str
    platform: str
    target: str
    context: int
    devices: tuple[DeviceShare, ...]
    stages: tuple[tuple[str, int, int], ...]  # device, its first layer and the one behind its last, in model order
    decode_tokens_per_second: Rate  # of one sequence, with a full cache
    prefill_tokens_per_second: Rate
    first_token_seconds: float  # of a prompt of some hundred tokens
    largest_context: int  # without a byte more on the CPU
    largest_context_flags: str
    options: tuple[Option, ...]  # layer or tensor split
    free_of_rules: Option  # without the limits of the program
    flags: str
    given: Given | None = None  # the split that was asked about

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values; keys are the names of the fields."""
        return asdict(self)


def plan_llm(
    model: str | os.PathLike[str] | LanguageModel,
    platform: str | os.PathLike[str] | Platform,
    *,
    target: str = "llama.cpp",
    context: int | str = 4096,
    quant: str = "",
    cache: str = "f16",
    batch: int = 1,
    step: int = 512,
    reserve: float | Mapping[str, float] | None = None,
    given: str = "",
) -> LlmPlan:
    """Plan a language model on a machine for the program that runs it.

    Layers are placed so that a step of decoding is shortest, within what the program can do. Whatever one device or a
    cut that fills the devices in order could do is considered.

    Args:
        model: a name or a file, see :func:`~hetgym.graph.model_names.load_language_model`.
        platform: a platform, a preset, a file or a description of a machine.
        target: a key of :data:`~hetgym.llm.rules.TARGETS`.
        context: tokens that the caches hold, or ``max`` for the most that fit, without the CPU if the model fits so.
        quant: format of the weights, such as ``Q4_K_M``; as stored by default.
        cache: format of cached keys and values, or two with a comma, such as ``q8_0,q4_0``.
        batch: sequences that are decoded at once.
        step: tokens of a prompt that are passed at once.
        reserve: memory that each GPU keeps free, or names of devices -> memory [byte]; by default what the platform
            states, else what the program leaves.
        given: a split to compare with the best one: arguments of llama.cpp, a device map of Accelerate as JSON, or the
            numbers of ``VLLM_PP_LAYER_PARTITION``.

    Raises:
        UnknownName: an unknown model, platform, target or format.
        ConfigError: a context, batch or reserve that is not possible, or a given split that is not one.
        GraphError: a format of caches that is not one.
        OutOfMemory: nothing that the program can do fits; the message says what is missing.
    """
    found = load_language_model(model, quant)
    machine = platform if isinstance(platform, Platform) else find_platform(platform)
    rules = rules_of(target)
    key, value = cache_formats(cache)
    most = context == "max"
    tokens = _context(256 if most else context)
    for name, number in (("batch", batch), ("step", step)):
        if type(number) is not int or not 0 < number <= 1 << 20:
            raise ConfigError(f"{name} is {number!r}; it must be a whole number above 0")
    load = Load(tokens, key, value, batch, step)
    planner = _Planner(found, machine, rules, target, _reserves(machine, reserve))
    if most:
        load = load._replace(context=planner.longest(load))
    if planner.best(load) is None:
        planner.room = planner.whole
    plan = planner.answer(load)
    return replace(plan, given=planner.given(load, given, plan)) if given else plan


def _reserves(platform: Platform, reserve: float | Mapping[str, float] | None) -> dict[int, float]:
    """Device -> memory that it keeps free, of the devices for which that is stated."""
    if reserve is None:
        return {}
    if not isinstance(reserve, Mapping):
        reserve = {device.name: reserve for device in platform if device.kind != "cpu"}
    for name, kept in reserve.items():
        check_name("device", name, [device.name for device in platform])
        capacity = platform[name].memory_capacity
        if isinstance(kept, bool) or not isinstance(kept, int | float) or not 0 <= kept < capacity:
            raise ConfigError(f"reserve of {name} is {shown(kept)}; it must be from 0 to less than {size(capacity)}")
    return {platform.index(name): float(kept) for name, kept in reserve.items()}


def _context(context: int | str) -> int:
    if isinstance(context, bool) or not isinstance(context, int) or not 0 < context <= MOST_CONTEXT:
        raise ConfigError(f"context is {context!r}; it must be 'max' or a whole number from 1 to {MOST_CONTEXT}")
    return context


class _Planner:
    """Splits of a model on a machine under the rules of a program."""

    def __init__(
        self, model: LanguageModel, platform: Platform, rules: Rules, target: str, reserve: Mapping[int, float]
    ) -> None:
        self.model, self.platform, self.rules, self.target = model, platform, rules, target
        capacity = np.array([device.memory_capacity for device in platform])
        usable = np.array([device.usable_memory for device in platform])
        gpu = np.array([device.kind != "cpu" for device in platform])
        own = [device.memory_reserve is None and not device.memory_pool for device in platform]
        usable = np.where(gpu & np.array(own), np.minimum(usable, capacity - rules.reserve), usable)
        for k, kept in reserve.items():
            usable[k] = capacity[k] - kept
        room = np.where(gpu, np.minimum(usable, capacity * rules.utilisation), usable)
        self.room, self.capacity = room, capacity
        self.whole = np.where(gpu & np.array(own) & ~np.isin(np.arange(len(room)), list(reserve)), capacity, room)
        self.gpus = [k for k in range(len(platform)) if gpu[k]]
        self.masks = METAL_MASKS if any(device.model.startswith("Apple") for device in platform) else 1

    def sites(self, load: Load, rules: Rules | None = None, tensor: bool | None = None) -> list[Site]:
        """The ways to use the machine: one GPU, several by layers, all or equal groups by tensors."""
        rules, parts = rules or self.rules, parts_of(self.model, load)
        single = tuple((k,) for k in self.gpus)
        room = tuple(self.room.tolist())

        def make(groups: tuple[tuple[int, ...], ...], several: bool, own: Rules) -> Site:
            return Site(self.platform, parts, load, own, groups, room, SPLIT_MASKS if several else self.masks)

        found = []
        if not tensor:
            found.append(make(single, False, replace(rules, gpus=1)))
            if len(single) > 1 and rules.gpus > 1:
                found.append(make(single, True, rules))
        if rules.tensor and tensor is not False and len(self.gpus) > 1:
            for ways in self._ways():
                groups = tuple(tuple(self.gpus[i : i + ways]) for i in range(0, len(self.gpus) - ways + 1, ways))
                found.append(make(groups, True, replace(rules, cpu="", experts=False)))
        return found

    def _ways(self) -> list[int]:
        """Degrees of a tensor split, which divide heads; llama.cpp splits over all GPUs."""
        heads = [layer.heads for layer in self.model.layers if layer.heads]
        degrees = range(2, len(self.gpus) + 1) if self.target != "llama.cpp" else [len(self.gpus)]
        return [ways for ways in degrees if all(a % ways == 0 for a in heads)]

    def best(
        self, load: Load, rules: Rules | None = None, tensor: bool | None = None
    ) -> tuple[float, Site, Split] | None:
        """The shortest decoding time, with the site and the split that reach it; None if nothing fits."""
        rules = rules or self.rules
        found = []
        for site in self.sites(load, rules, tensor):
            split = _proportional(site) if rules.proportional else best_split(site)
            if split is not None:
                found.append((decode_seconds(site, split), site, split))
        return min(found, key=lambda one: one[0]) if found else None

    def fits(self, load: Load, on_cpu: float) -> bool:
        """Whether some split leaves no more bytes than these on the CPU."""
        for site in self.sites(load):
            split = _proportional(site) if self.rules.proportional else best_split(site, by_bytes=True)
            if split is not None and cpu_bytes(site, split) <= on_cpu + 1.0:
                return True
        return False

    def largest(self, load: Load, on_cpu: float) -> int:
        """The largest context without more bytes on the CPU; 0 if none fits."""
        most = padded(min(self.model.positions or MOST_CONTEXT, MOST_CONTEXT)) // 256
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(load._replace(context=256 * middle), on_cpu):
                low = middle
            else:
                high = middle - 1
        return min(256 * low, self.model.positions or MOST_CONTEXT)

    def longest(self, load: Load) -> int:
        """The largest context without the CPU or, if no context fits so, with it; 1 if none fits."""
        return self.largest(load, 0.0) or self.largest(load, float("inf")) or 1

    def answer(self, load: Load) -> LlmPlan:
        """The best split, beside others."""
        found = self.best(load)
        if found is None:
            raise OutOfMemory(self._missing(load))
        seconds, site, split = found
        prompt = prompt_time(site, split, PROMPT)
        largest = max(load.context, self.largest(load, cpu_bytes(site, split)))
        widest = self.best(load._replace(context=largest)) if largest > load.context else found
        rate, read = 1.0 / seconds, PROMPT / prompt
        return LlmPlan(
            model=self.model.name,
            platform=self.platform.name,
            target=self.target,
            context=load.context,
            devices=self._shares(site, split),
            stages=tuple(("+".join(self._names(stage)), stage.first, stage.end) for stage in split.stages),
            decode_tokens_per_second=Rate(LOW * rate, rate, HIGH * rate),
            prefill_tokens_per_second=Rate(PROMPT_LOW * read, read, PROMPT_HIGH * read),
            first_token_seconds=prompt + seconds,
            largest_context=largest,
            largest_context_flags=flags(self.target, widest[1], widest[2], self.model) if widest else "",
            options=self._options(load),
            free_of_rules=self._free(load),
            flags=flags(self.target, site, split, self.model),
        )

    def given(self, load: Load, text: str, plan: LlmPlan) -> Given:
        """How a user's split compares with the plan."""
        sites = [replace(site, room=tuple(self.whole.tolist())) for site in self.sites(load, tensor=False)]
        site = sites[-1]
        split = given_split(text, self.target, site, self.model)
        if sum(stage.devices != (site.cpu,) for stage in split.stages) < 2:
            site = sites[0]
        rate, best = 1.0 / decode_seconds(site, split), plan.decode_tokens_per_second.mid
        changed = best_change(site, split)
        change = None
        if changed is not None:
            seconds = decode_seconds(site, changed)
            text = flags(self.target, site, changed, self.model)
            change = Option("one change", 1.0 / seconds, PROMPT / prompt_time(site, changed, PROMPT), text)
        return Given(fits(site, split), self._shares(site, split), rate, rate / best, change)

    def _names(self, stage: Stage) -> list[str]:
        return [self.platform[k].name for k in stage.devices]

    def _shares(self, site: Site, split: Split) -> tuple[DeviceShare, ...]:
        weights, caches, buffers = usage(site, split)
        held, pools, away = weights + caches + buffers, self.platform.memory_pool, set(split.away)
        found = []
        for k, device in enumerate(self.platform):
            own = [i for stage in split.stages if k in stage.devices for i in range(stage.first, stage.end)]
            mixed = [i for i in own if site.parts.experts[i] and i not in away]
            experts = len(mixed) + (len(away) if k == site.cpu else 0)
            pool = [i for i, own_pool in enumerate(pools) if own_pool == pools[k]]
            free = min(site.room[k] - held[k], max(site.room[i] for i in pool) - held[pool].sum())
            sums = (weights[k], caches[k], buffers[k], self.capacity[k] - site.room[k], free)
            found.append(DeviceShare(device.name, len(own), experts, *map(float, sums)))
        return tuple(found)

    def _options(self, load: Load) -> tuple[Option, ...]:
        """Layer split and tensor split side by side, where the program has both."""
        if not self.rules.tensor or len(self.gpus) < 2:
            return ()
        return tuple(
            self._option(name, self.best(load, tensor=tensor)) for name, tensor in (("layer", False), ("tensor", True))
        )

    def _free(self, load: Load) -> Option:
        """What the best split would reach without the limits of the program."""
        free = replace(self.rules, cpu="first", copied=False, experts=True, gpus=1024, tensor=True, proportional=False)
        return self._option("free of rules", self.best(load, free), with_flags=False)

    def _option(self, name: str, found: tuple[float, Site, Split] | None, with_flags: bool = True) -> Option:
        if found is None:
            return Option(name, None, None)
        seconds, site, split = found
        text = flags(self.target, site, split, self.model) if with_flags else ""
        return Option(name, 1.0 / seconds, PROMPT / prompt_time(site, split, PROMPT), text)

    def _missing(self, load: Load) -> str:
        """Why nothing fits, in one sentence."""
        parts = parts_of(self.model, load)
        weights = float(parts.table + parts.head - parts.tied + (parts.dense + parts.experts).sum())
        cache, buffers = (
            float(parts.cache.sum()),
            self.rules.buffers(parts, load, SPLIT_MASKS if len(self.gpus) > 1 else self.masks),
        )
        pools = self.platform.memory_pool
        usable = [k for k in range(len(self.platform)) if k in self.gpus or self.rules.cpu]
        used = sorted({pools[k] for k in usable})
        room = summed(max(float(self.room[k]) for k in usable if pools[k] == pool) for pool in used)
        lacks = weights + cache + buffers * max(1, len(self.gpus)) - room
        why = f"{size(lacks)} are missing" if lacks > 0 else "no split of whole layers fits"
        least = self.largest(load, float("inf"))
        return (
            f"{self.model.name} does not fit {self.platform.name} with {self.rules.title}: {why}; weights take "
            f"{size(weights)}, the cache of {load.context} tokens {size(cache)}, buffers {size(buffers)} of each GPU, "
            f"and there are {size(room)}; " + (f"the largest context is {least}" if least else "no context fits")
        )


def _proportional(site: Site) -> Split | None:
    """Layers in proportion to the memory that is free, by largest remainders, at least one for each device."""
    devices = list(range(len(site.platform)))
    room = np.array([max(site.room[k], 1.0) for k in devices])
    n = len(site.parts.dense)
    share = n * room / room.sum()
    layers = np.maximum(1, np.floor(share)).astype(int)
    for k in np.argsort(-(share - np.floor(share)), kind="stable"):
        layers[k] += int(layers.sum() < n)
    while layers.sum() > n:
        layers[layers.argmax()] -= 1
    ends = np.cumsum(layers)
    stages = tuple(Stage((k,), int(e - m), int(e)) for k, m, e in zip(devices, layers, ends, strict=True) if m)
    split = Split(stages, ())
    return split if fits(site, split) else None
