"""The search for splits beside an enumeration of all of them."""

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from hetgym.errors import OutOfMemory
from hetgym.graph.language_model import LanguageModel
from hetgym.llm import plan_llm
from hetgym.llm.parts import Load, parts_of
from hetgym.llm.rules import TARGETS, Rules
from hetgym.llm.search import TURN, Split, Stage, _away, _freed, best_split, fits
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds
from tests.llm.machines import machine, model


def _site(drawn: LanguageModel, platform: Any, rules: Rules, several: bool) -> Site:
    single = tuple((k,) for k, device in enumerate(platform) if device.kind != "cpu")
    room = tuple(device.usable_memory for device in platform)
    return Site(platform, parts_of(drawn, Load(256)), Load(256), rules, single, room, 4 if several else 1)


def _splits(site: Site, experts: bool) -> Iterator[Split]:
    """Every split that llama.cpp can make: CPU first, then GPUs in any order, any experts on the CPU."""
    n, gpus = len(site.parts.dense), [group[0] for group in site.groups]
    for used in range(len(gpus) + 1):
        for order in permutations(gpus, used):
            for first in range(0, n) if order else [n]:
                if first and site.cpu is None:
                    continue
                for borders in combinations(range(first + 1, n), max(0, used - 1)):
                    edges = [first, *borders, n]
                    stages = [Stage((k,), a, b) for k, a, b in zip(order, edges, edges[1:], strict=False)]
                    stages = [Stage((site.cpu,), 0, first), *stages] if first else stages  # type: ignore[arg-type]
                    held = range(first, n) if experts and site.cpu is not None else []
                    mixed = [i for i in held if site.parts.experts[i]]
                    for count in range(len(mixed) + 1):
                        for away in combinations(mixed, count):
                            yield Split(tuple(stages), away)


@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_the_best_of_all_splits(seed: int) -> None:
    rng = np.random.default_rng([17, seed])
    drawn = model(rng, (2, 4))
    platform = machine(rng, drawn.bytes + 0.5e9, gpus=2)
    rules = Rules("llama.cpp without its driver", cpu="first", experts=True, buffers=lambda parts, load, masks: 1e6)
    site = _site(drawn, platform, rules, several=True)
    legal = [split for split in _splits(site, experts=True) if fits(site, split)]
    found = best_split(site)
    assert (found is None) == (not legal)
    if found is not None:
        assert fits(site, found)
        best = min(decode_seconds(site, split) for split in legal)
        assert best * (1 - 1e-9) <= decode_seconds(site, found) <= best * (1 + 2 * TURN)


@pytest.mark.parametrize("sizes", [[4.0], [0.0, 3.0, 5.0, 4.0], list(range(9))])
def test_experts_that_are_moved_cost_what_the_tables_say(sizes: list[float]) -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        n = int(rng.integers(1, 12))
        size, behind = rng.choice(np.array(sizes, float), n), rng.random(n)
        a, b = np.triu_indices(n + 1, 1)
        short = rng.random(len(a)) * size.sum() * 1.2 + 1e-3
        for k, cost in enumerate(_freed(size, behind, a, b, short)):
            moved = list(_away(size, int(a[k]), int(b[k]), float(short[k])))
            if size[a[k] : b[k]].sum() < short[k]:
                assert cost == np.inf
            else:
                assert cost == pytest.approx(behind[moved].sum())
                assert size[moved].sum() >= short[k] - 1e-9
                assert len(moved) == 1 or size[moved].sum() - size[moved].min() < short[k]


def _cuts(site: Site) -> Iterator[Split]:
    """Each device alone, and the devices filled in order."""
    n, gpus = len(site.parts.dense), [group[0] for group in site.groups]
    yield from (Split((Stage((k,), 0, n),), ()) for k in range(len(site.platform)))
    stages, first = [], 0
    for k in gpus:
        ends = [end for end in range(n, first, -1) if fits(site, Split((*stages, Stage((k,), first, end)), ()))]
        if ends:
            stages.append(Stage((k,), first, ends[0]))
            first = ends[0]
    if first == n:
        yield Split(tuple(stages), ())


def _worse_than_simple(seed: int) -> float:
    """Decoding time of the plan over that of the best simple cut; 0 if none fits."""
    rng = np.random.default_rng([18, seed])
    drawn = model(rng, (2, 24))
    platform = machine(rng, drawn.bytes + 1e9)
    target = sorted(TARGETS)[seed % len(TARGETS)]
    rules = TARGETS[target]
    sites = [_site(drawn, platform, rules, several) for several in (False, True)]
    sites = [Site(s.platform, s.parts, s.load, s.rules, s.groups, _room(s, rules), s.masks) for s in sites]
    simple = [
        decode_seconds(site, cut)
        for site, several in zip(sites, (False, True), strict=True)
        for cut in _cuts(site)
        if fits(site, cut)
        and (several or len(cut.stages) == 1)
        and all(rules.cpu or platform[k].kind != "cpu" for stage in cut.stages for k in stage.devices)
        and len({k for stage in cut.stages for k in stage.devices}) <= rules.gpus
    ]
    if not simple or rules.proportional:
        return 0.0
    plan = plan_llm(drawn, platform, target=target, context=256)
    return float(1 / plan.decode_tokens_per_second.mid / min(simple))


def _room(site: Site, rules: Rules) -> tuple[float, ...]:
    pairs = zip(site.platform, site.room, strict=True)
    return tuple(min(r, d.memory_capacity * rules.utilisation) if d.kind != "cpu" else r for d, r in pairs)


@pytest.mark.parametrize("seeds", [range(60)])
def test_no_answer_is_worse_than_a_simple_cut(seeds: range) -> None:
    ratios = [_worse_than_simple(seed) for seed in seeds]
    assert max(ratios) <= 1 + TURN
    assert sum(ratio > 0 for ratio in ratios) > len(seeds) // 4


@pytest.mark.slow
def test_no_answer_is_worse_than_a_simple_cut_on_a_thousand_machines() -> None:
    assert max(_worse_than_simple(seed) for seed in range(60, 1060)) <= 1 + TURN


def test_what_does_not_fit_is_refused_with_its_sums() -> None:
    rng = np.random.default_rng(1)
    drawn = model(rng)
    platform = machine(rng, drawn.bytes / 10, gpus=1, cpu=False)
    with pytest.raises(OutOfMemory, match=r"does not fit drawn with llama.cpp: .* are missing; weights take"):
        plan_llm(drawn, platform)
