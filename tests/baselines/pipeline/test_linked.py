"""linked_dp against all cuts of small chains, and links that differ."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, ProblemError, UnknownName
from hetgym.baselines.pipeline import linked as planner
from hetgym.baselines.pipeline import linked_dp
from hetgym.pipeline import LayerChain, Stage
from hetgym.weights import SharedWeights

OBJECTIVES = ("throughput", "latency", "balance", "cache")


def random_chain(rng: np.random.Generator, d: int = 3) -> LayerChain:
    """Five layers on devices some of which are equal, with links that differ and a weight that two layers share."""
    n = 5
    kinds = rng.integers(0, 2, d)
    cost = rng.integers(1, 9, (n, 2)).astype(float)
    cost[rng.random((n, 2)) < 0.1] = np.inf
    latency, pace = (rng.integers(0, 3, (d, d)).astype(float) for _ in range(2))
    for table in (latency, pace):
        np.fill_diagonal(table, 0.0)
    size = rng.integers(2, 5, n).astype(float)
    return LayerChain(
        "random",
        tuple(f"layers.{k}" for k in range(n)),
        tuple(f"d{k}" for k in range(d)),
        cost=cost[:, kinds],
        size=size,
        memory=rng.choice([7.0, 10.0, 30.0], 2)[kinds],
        latency=latency,
        pace=pace,
        messages=rng.integers(0, 2, n).astype(float),
        sent=rng.integers(0, 3, n).astype(float),
        delay=rng.integers(0, 2, n).astype(float),
        cache=rng.integers(0, 3, n).astype(float),
        cached=np.zeros(n),
        shared=SharedWeights.of(n, [([0, n - 1], 2.0)]),
        roles=("layer",) * n,
    )


def value(chain: LayerChain, stages: list[Stage], objective: str) -> float:
    """What is to be small."""
    if objective == "cache":
        return -chain.room(stages)
    if objective == "latency":
        return chain.latency_of(stages)
    return float((chain.loads(stages) if objective == "throughput" else chain.run_times(stages)).max())


def all_cuts(chain: LayerChain, most: int) -> list[list[Stage]]:
    n, d, found = len(chain.layers), len(chain.devices), []
    for count in range(1, most + 1):
        for ends in itertools.combinations(range(1, n), count - 1):
            for devices in itertools.permutations(range(d), count):
                stages = [Stage(*x) for x in zip((0, *ends), (*ends, n), devices, strict=True)]
                try:
                    chain.check(stages)
                except ProblemError:
                    continue
                found.append(stages)
    return found


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 3), objective=st.sampled_from(OBJECTIVES))
def test_no_cut_is_better(seed: int, most: int, objective: str) -> None:
    chain = random_chain(np.random.default_rng(seed))
    cuts = all_cuts(chain, most)
    if not cuts or (objective == "cache" and all(chain.room(cut) <= 0 for cut in cuts)):
        with pytest.raises(ProblemError, match="fits on the devices"):
            linked_dp(chain, objective, most)
        return
    found = linked_dp(chain, objective, most)
    chain.check(found)
    assert len(found) <= most
    best = min(value(chain, cut, objective) for cut in cuts)
    assert value(chain, found, objective) == pytest.approx(best, rel=1e-9)
    full = [c for c in cuts if len(c) == most and value(chain, c, objective) <= best + 1e-9 * abs(best)]
    assert objective == "latency" or not full or len(found) == most


@examples(25)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from(OBJECTIVES))
def test_no_cut_that_respects_shared_memory_is_better(seed: int, objective: str) -> None:
    """Two or three of four devices share a memory; the largest cache is found but for the steps of its division."""
    rng = np.random.default_rng(seed)
    chain = random_chain(rng, d=4)
    chain = replace(chain, memory_pool=((0, 0, 2, 3), (0, 1, 0, 0))[rng.integers(2)])
    cuts = all_cuts(chain, 4)
    if not cuts or (objective == "cache" and all(chain.room(cut) <= 0 for cut in cuts)):
        with pytest.raises(ProblemError, match="fits on the devices"):
            linked_dp(chain, objective)
        return
    found = linked_dp(chain, objective)
    chain.check(found)
    best = min(value(chain, cut, objective) for cut in cuts)
    rel = 0.3 if objective == "cache" else 1e-9
    assert value(chain, found, objective) == pytest.approx(best, rel=rel)


@examples(40)
@given(seed=st.integers(0, 2**32 - 1))
def test_windows_and_the_longest_context_bound_the_cache(seed: int) -> None:
    """Some layers' caches stop growing after a few tokens: the largest room is that of all cuts."""
    rng = np.random.default_rng(seed)
    chain = random_chain(rng)
    limited = chain.cache * rng.integers(0, 2, 5)
    chain = replace(chain, windows=((1.5, limited),), longest=float(rng.choice([1.0, 4.0, np.inf])))
    rooms = [chain.room(cut) for cut in all_cuts(chain, 3)]
    if rooms and max(rooms) > 0:
        found = linked_dp(chain, "cache")
        chain.check(found)
        assert chain.room(found) == pytest.approx(max(rooms), rel=1e-9) and chain.room(found) <= chain.longest
        alike = [cut for cut in all_cuts(chain, 3) if chain.room(cut) == chain.longest]
        if alike:
            assert chain.loads(found).max() <= min(chain.loads(cut).max() for cut in alike) * (1 + 1e-9)


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from(OBJECTIVES[:3]))
def test_no_cut_is_better_where_devices_are_entered_and_take_turns(seed: int, objective: str) -> None:
    rng = np.random.default_rng(seed)
    entry = tuple(rng.integers(0, 4, 3).astype(float).tolist())
    chain = replace(random_chain(rng), entry=entry, turns=((True, False, True), (True, True, True))[rng.integers(2)])
    cuts = all_cuts(chain, 3)
    if cuts:
        found = linked_dp(chain, objective)
        chain.check(found)
        how = chain.period if objective == "throughput" else lambda cut: value(chain, cut, objective)
        assert how(found) <= min(map(how, cuts)) * (1 + 1e-5)


def test_a_period_by_hand() -> None:
    """Devices a and b take turns: stages of 3 s and, entered in 2 s, of 4 s make 9 s together, on a and c 6 s."""
    chain = replace(equal_cards(7), pace=np.zeros((4, 4)), entry=(0.0, 2.0, 2.0, 0.0), turns=(True, True, False, False))
    assert chain.period([Stage(0, 3, 0), Stage(3, 7, 1)]) == 9.0
    assert chain.period([Stage(0, 3, 0), Stage(3, 7, 2)]) == 6.0
    assert chain.latency_of([Stage(0, 3, 0), Stage(3, 7, 1)]) == 9.0


def test_room_by_hand() -> None:
    """8 bytes are free; two layers take 1 byte a token each, one of them 3 at most: 5 tokens, without the window 4."""
    chain = replace(equal_cards(2), size=np.array([1.0, 1.0]), memory=np.full(4, 10.0))
    whole = [Stage(0, 2, 0)]
    assert chain.room(whole) == 4.0
    assert replace(chain, windows=((3.0, np.array([1.0, 0.0])),)).room(whole) == 5.0
    assert replace(chain, windows=((3.0, np.ones(2)),)).room(whole) == np.inf
    assert replace(chain, longest=2.0).room(whole) == 2.0


def test_a_pool_has_room_for_one_cache() -> None:
    """Each device has 10 bytes of a memory of 12, and 4 of layers: 4 are left to the caches of both."""
    chain = replace(equal_cards(), memory=np.array([10.0, 12.0, 40.0, 40.0]), size=np.ones(8), memory_pool=(0, 0, 2, 3))
    both = [Stage(0, 4, 0), Stage(4, 8, 1)]
    assert chain.room(both) == 0.5 and chain.room([Stage(0, 4, 0), Stage(4, 8, 2)]) == 1.5
    with pytest.raises(ProblemError, match="'a' and 'b' share 12 bytes, and together they hold 16"):
        replace(chain, size=np.full(8, 2.0)).check(both)


def test_the_error_says_what_is_missing() -> None:
    pooled = replace(equal_cards(), memory=np.full(4, 5e9), memory_pool=(0, 0, 2, 2), size=np.full(8, 2e9))
    with pytest.raises(ProblemError, match="the layers take 16 GB, and there are 10 GB: 6 GB are missing"):
        linked_dp(pooled)
    apart = replace(equal_cards(), memory=np.full(4, 5e9), size=np.array([6e9] + [0.1e9] * 7))
    with pytest.raises(ProblemError, match="a layer takes 6 GB, and the largest device holds 5 GB"):
        linked_dp(apart)


def equal_cards(n: int = 8) -> LayerChain:
    """Equal layers that send much, on four equal cards of which 0 and 2, and 1 and 3, have fast links."""
    pace = np.full((4, 4), 1.0)
    for a, b in ((0, 2), (1, 3)):
        pace[a, b] = pace[b, a] = 0.01
    np.fill_diagonal(pace, 0.0)
    zero = np.zeros(n)
    return LayerChain(
        "pairs", tuple(f"layers.{k}" for k in range(n)), ("a", "b", "c", "d"), cost=np.ones((n, 4)), size=zero,
        memory=np.full(4, np.inf), latency=np.zeros((4, 4)), pace=pace, messages=zero, sent=np.ones(n), delay=zero,
        cache=np.ones(n), cached=zero, shared=SharedWeights.of(n, []), roles=("layer",) * n,
    )  # fmt: skip


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_stages_beside_each_other_use_the_fast_link(objective: str) -> None:
    chain = replace(equal_cards(), memory=np.full(4, 2.0), size=np.ones(8))
    devices = [stage.device for stage in linked_dp(chain, objective)]
    assert {frozenset(devices[:2]), frozenset(devices[2:])} == {frozenset((0, 2)), frozenset((1, 3))}


def test_the_slowest_stage_pays_for_the_links_at_both_of_its_ends() -> None:
    chain = equal_cards()
    found = linked_dp(chain, "throughput")
    assert chain.loads(found).max() == pytest.approx(3.01)  # two layers, a fast link and a slow one
    assert chain.latency_of(linked_dp(chain, "latency")) == 8.0  # one device


def test_too_many_different_links_are_taken_for_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "MAX_STEPS", 500.0)
    chain = equal_cards()
    chain.check(linked_dp(chain, "throughput"))
    monkeypatch.setattr(planner, "MAX_STEPS", 5.0)
    with pytest.raises(ConfigError, match="8 layers on 4 devices of 1 kinds have too many cuts"):
        linked_dp(chain)


def test_caches_that_the_layers_hold_already_give_way() -> None:
    chain = replace(equal_cards(), memory=np.full(4, 10.0), size=np.full(8, 3.0), cached=np.full(8, 2.0))
    found = linked_dp(chain, "cache")
    assert [stage.end - stage.first for stage in found] == [2, 2, 2, 2] and chain.room(found) == 4.0


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown objective of a pipeline's cut"):
        linked_dp(equal_cards(), "speed")
    with pytest.raises(ConfigError, match="stages is 5; 'pairs' has 4 devices"):
        linked_dp(equal_cards(), stages=5)
    with pytest.raises(ConfigError, match="every device needs a memory_capacity"):
        linked_dp(equal_cards(), "cache")
    with pytest.raises(ProblemError, match="messages has shape"):
        replace(equal_cards(), messages=np.zeros(3))
    with pytest.raises(ProblemError, match="each on a device of its own"):
        equal_cards().check([Stage(0, 4, 0), Stage(4, 8, 0)])
