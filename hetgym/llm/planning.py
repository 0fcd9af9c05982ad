"""plan_llm: where the layers of a language model go on a machine, whether they fit, and how fast they run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from hetgym._sums import summed
from hetgym.costs.decoding import HIGH, LOW
from hetgym.errors import ConfigError, OutOfMemory, check_name, shown, size
from hetgym.graph.language_model import LanguageModel, cache_formats
from hetgym.graph.model_names import load_language_model
from hetgym.llm.answers import DeviceShare, Given, LlmPlan, Option, Rate
from hetgym.llm.changes import best_change
from hetgym.llm.flags import flags
from hetgym.llm.given import Wanted, wanted
from hetgym.llm.parts import Load, parts_of
from hetgym.llm.planner import MOST_CONTEXT, SPLIT_MASKS, Found, Planner
from hetgym.llm.rules import Rules, rules_of
from hetgym.llm.search import Split, Stage, cpu_bytes, fits, usage
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds, prompt_time
from hetgym.platform import Platform
from hetgym.topology import find_platform

PROMPT = 512  # tokens of the prompt whose rate is stated, if no other number is asked for

PROMPT_LOW, PROMPT_HIGH = 0.7, 1.4  # factors of a prompt's rate between which most measured ones lie


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
    prompt: int = PROMPT,
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
        prompt: tokens of the prompt whose rate is stated.
        reserve: memory that each GPU keeps free, or names of devices -> memory [byte]; by default what the platform
            states, else what the program leaves, or 256 MiB where the GPUs would not hold the model otherwise.
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
    unread = next((weight.dtype for weight in found.weights if weight.dtype not in rules.weights), None)
    if unread:
        raise ConfigError(f"{rules.title} does not read weights in {unread}; another --quant or target does")
    key, value = _caches(cache, rules)
    load = Load(256 if context == "max" else context, key, value, batch, step)  # type: ignore[arg-type]
    asked = wanted(given, target) if given else None
    load = asked.load(load, found) if asked else load
    _check(load, prompt, found, rules)
    planner = Planner(found, machine, rules, target, _reserves(machine, reserve))
    if asked is not None:
        planner.room = planner.whole
    if context == "max":
        load = load._replace(context=planner.longest(load))
    if asked is None:
        planner.settle(load)
    plan = _answer(planner, load, prompt)
    return replace(plan, given=_given(planner, load, asked, plan)) if asked else plan


def _caches(cache: str, rules: Rules) -> tuple[str, str]:
    """Formats of keys and values that the program has."""
    found = cache_formats(cache)
    for dtype in found:
        if dtype not in rules.caches:
            known = ", ".join(rules.caches)
            raise ConfigError(f"{rules.title} has no caches in {dtype}; it has {known}")
    if not rules.mixed and found[0] != found[1]:
        raise ConfigError(f"{rules.title} keeps keys and values in one format, not in {found[0]} and {found[1]}")
    return found


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


def _check(load: Load, prompt: int, model: LanguageModel, rules: Rules) -> None:
    """Whether a load is possible.

    Raises:
        ConfigError: it is not.
    """
    context = load.context
    if isinstance(context, bool) or not isinstance(context, int) or not 0 < context <= MOST_CONTEXT:
        raise ConfigError(f"context is {context!r}; it must be 'max' or a whole number from 1 to {MOST_CONTEXT}")
    for name, number in (("batch", load.sequences), ("step", load.step), ("prompt", prompt)):
        if type(number) is not int or not 0 < number <= 1 << 20:
            raise ConfigError(f"{name} is {number!r}; it must be a whole number above 0")
    if model.positions and context > model.positions and not rules.stretched:
        raise ConfigError(f"{model.name} was made for {model.positions} tokens, and {rules.title} takes no more")


def _answer(planner: Planner, load: Load, prompt: int) -> LlmPlan:
    """The best split, beside others."""
    found = planner.best(load)
    if found is None:
        raise OutOfMemory(_missing(planner, load))
    site, split = found.site, found.split
    largest = max(load.context, planner.largest(load, cpu_bytes(site, split)))
    widest = planner.best(load._replace(context=largest)) if largest > load.context else found
    seconds, read = prompt_time(site, split, prompt), prompt
    empty = planner.emptied(site)
    return LlmPlan(
        model=planner.model.name,
        platform=planner.platform.name,
        target=planner.target,
        context=load.context,
        devices=_shares(site, split),
        stages=tuple((_name(site, stage), stage.first, stage.end) for stage in split.stages),
        decode_tokens_per_second=_rate(1.0 / found.seconds),
        empty_tokens_per_second=_rate(1.0 / decode_seconds(empty, split)),
        prefill_tokens_per_second=_rate(read / seconds, PROMPT_LOW, PROMPT_HIGH),
        first_token_seconds=seconds + found.seconds,
        largest_context=largest,
        largest_context_flags=_flags(planner, widest) if widest else "",
        options=_options(planner, load, prompt),
        free_of_rules=_free(planner, load, prompt),
        flags=_flags(planner, found),
    )


def _given(planner: Planner, load: Load, asked: Wanted, plan: LlmPlan) -> Given:
    """How a user's split compares with the plan."""
    site, split = asked.place(planner, load)
    rate, best = 1.0 / decode_seconds(site, split), plan.decode_tokens_per_second.mid
    changed = best_change(site, split)
    change = None
    if changed is not None:
        found = Found(decode_seconds(site, changed), site, changed)
        change = _option("one change", planner, found, PROMPT)
    return Given(fits(site, split), _shares(site, split), rate, rate / best, change)


def _name(site: Site, stage: Stage) -> str:
    return "+".join(site.platform[k].name for k in stage.devices)


def _rate(mid: float, low: float = LOW, high: float = HIGH) -> Rate:
    return Rate(low * mid, mid, high * mid)


def _flags(planner: Planner, found: Found) -> str:
    return flags(planner.target, found.site, found.split, planner.model)


def _shares(site: Site, split: Split) -> tuple[DeviceShare, ...]:
    """What each device holds."""
    weights, caches, buffers = usage(site, split)
    held, pools, moved = weights + caches + buffers, site.platform.memory_pool, split.moved(len(site.parts.dense))
    found = []
    for k, device in enumerate(site.platform):
        own = [i for stage in split.stages if k in stage.devices for i in range(stage.first, stage.end)]
        mixed = [i for i in own if site.parts.experts[i] and moved[i] < 1]
        experts = len(mixed) + (int((moved > 0).sum()) if k == site.cpu else 0)
        pool = [i for i, own_pool in enumerate(pools) if own_pool == pools[k]]
        free = min(site.room[k] - held[k], max(site.room[i] for i in pool) - held[pool].sum())
        sums = (weights[k], caches[k], buffers[k], device.memory_capacity - site.room[k], free)
        found.append(DeviceShare(device.name, len(own), experts, *map(float, sums)))
    return tuple(found)


def _options(planner: Planner, load: Load, prompt: int) -> tuple[Option, ...]:
    """Layer split and tensor split side by side, where the program has both."""
    if not planner.sites(load, tensor=True):
        return ()
    ways = (("layer", False), ("tensor", True))
    return tuple(_option(name, planner, planner.best(load, tensor=tensor), prompt) for name, tensor in ways)


def _free(planner: Planner, load: Load, prompt: int) -> Option:
    """What the best split reaches without the limits of the program."""
    rules = replace(planner.rules, cpu="first", copied=False, experts=True, gpus=1024, proportional=False)
    free = replace(rules, tensor=1024, whole=False, untensored=frozenset())
    found = [one for one in (planner.best(load), planner.best(load, free)) if one]
    best = min(found, key=lambda one: one.seconds) if found else None
    return _option("free of rules", planner, best, prompt, flagged=False)


def _option(name: str, planner: Planner, found: Found | None, prompt: int, flagged: bool = True) -> Option:
    if found is None:
        return Option(name, None, None)
    rate = prompt / prompt_time(found.site, found.split, prompt)
    return Option(name, 1.0 / found.seconds, rate, _flags(planner, found) if flagged else "")


def _missing(planner: Planner, load: Load) -> str:
    """Why nothing fits, in one sentence."""
    parts, rules, gpus = parts_of(planner.model, load), planner.rules, planner.gpus
    weights = float(parts.table + parts.head - parts.tied + (parts.dense + parts.experts).sum())
    cache, buffers = float(parts.cache.sum()), rules.buffers(parts, load, SPLIT_MASKS if len(gpus) > 1 else 1)
    pools = planner.platform.memory_pool
    usable = [k for k in range(len(planner.platform)) if k in gpus or rules.cpu]
    used = sorted({pools[k] for k in usable})
    room = summed(max(float(planner.room[k]) for k in usable if pools[k] == pool) for pool in used)
    lacks = weights + cache + buffers * max(1, len(gpus)) - room
    why = f"{size(lacks)} are missing" if lacks > 0 else "no split of whole layers fits"
    least = planner.largest(load, float("inf"))
    return (
        f"{planner.model.name} does not fit {planner.platform.name} with {rules.title}: {why}; weights take "
        f"{size(weights)}, the cache of {load.context} tokens {size(cache)}, buffers {size(buffers)} of each GPU, "
        f"and there are {size(room)}; " + (f"the largest context is {least}" if least else "no context fits")
    )
