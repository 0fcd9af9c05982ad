"""The search over splits: what moves see, and what the search keeps to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hetgym.agents.splits.moves import FEATURES, Plan, draw_moves, new_moves
from hetgym.agents.splits.search import Ground, SplitSearch
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.networks import RandomNetworks
from hetgym.envs.split.rules import SplitRules
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.platform import load_platform
from hetgym.search.proposals import Network
from hetgym.sim import PRESETS, runtime

RULES = SplitRules(parts=("equal", "proportional", "sixteenths"), divisible=False, key_operators=40)


def chain(count: int = 4) -> DataflowGraph:
    """Products of large matrices, one behind the other."""
    x = Tensor((1024, 1024))
    operators = [
        Operator(f"p{k}", "MatMul", (x, Tensor((1024, 1024), constant=True, name=f"w{k}")), (x,)) for k in range(count)
    ]
    return DataflowGraph(operators, [(k, 0, k + 1) for k in range(count - 1)], "chain")


def ground(pair, rules=RULES):
    splits = Splits(rules, rules.menu(len(pair[1])))
    return Ground(splits.instance(pair), splits.menu), splits


@pytest.fixture(scope="module")
def products() -> tuple[Ground, Splits]:
    return ground((chain(), load_platform("even-pair")))


def by(feature: str, weight: float = 20.0) -> Network:
    """A network that takes the moves in which one input is the largest."""
    enter = np.zeros((len(FEATURES), 2))
    enter[FEATURES.index(feature)] = 1.0, -1.0
    return Network(enter, np.zeros(2), np.array([weight, -weight]))


def search(found: Ground, network=None, seed=0, how="classic", scheduler="heft", watched=0.0) -> SplitSearch:
    return SplitSearch(found, scheduler, runtime(how), network, seed, watched=watched)


def test_begins_with_the_best_pattern(products):
    found, splits = products
    begun = search(found)
    assert begun.best == (0, 0, 0, 0) and begun.makespan == found.instance.reference
    begun.advance(begun.patterns)
    makespans = [found.instance.reference]
    for entry in range(1, len(splits.menu)):
        chosen = tuple((k, entry) for k, row in enumerate(found.instance.options) if row[entry] is not None)
        if chosen:
            makespans.append(splits.at(found.instance, chosen).makespan)
    assert begun.priced == begun.patterns and begun.makespan == min(makespans) < 0.7 * found.instance.reference


@pytest.mark.parametrize("how", ["classic", "links"])
def test_prices_are_those_of_the_environment(how):
    rng = np.random.default_rng(5)
    rules = SplitRules(parts=("equal", "sixteenths"), divisible=False, runtime=how, scheduler="peft")
    found, splits = ground(RandomNetworks()(rng), rules)
    searched = search(found, how=how, scheduler="peft")
    searched.advance(searched.patterns + 40)
    chosen = tuple((turn, entry) for turn, entry in enumerate(searched.best) if entry)
    assert searched.makespan == splits.at(found.instance, chosen).makespan


def test_same_seed_same_search_and_more_is_not_worse():
    found, _ = ground(RandomNetworks()(np.random.default_rng(7)))
    first, second, third = search(found, seed=3), search(found, seed=3), search(found, seed=4)
    first.advance(first.patterns + 60)
    for _ in range(6):
        before = second.makespan
        second.advance(min(first.patterns + 60, second.priced + 25))
        assert second.makespan <= before
    second.advance(first.patterns + 60)
    third.advance(first.patterns + 60)
    assert (first.best, first.makespan, first.priced) == (second.best, second.makespan, second.priced)
    assert first._known != third._known


def test_ends_where_nothing_is_left():
    found, _ = ground((chain(1), load_platform("even-pair")))
    searched = search(found)
    searched.advance(10_000)
    assert searched.finished and searched.priced == found.tables.legal.sum()
    assert searched.makespan == min(searched._known.values())


def test_what_a_move_sees(products):
    found, splits = products
    t = found.tables
    whole = Plan(
        np.zeros(4, np.int32), np.ones(4), np.ones(4), np.zeros(4), np.zeros(4), np.zeros(t.legal.shape),
        np.array([4.0, 1.0, 0.0]),
    )  # fmt: skip
    moves = new_moves(2000, 4)
    draw_moves(t, whole, moves, np.random.default_rng(0))
    column = {name: k for k, name in enumerate(FEATURES)}
    batch = [choice.axis == "batch" and choice.parts == "equal" for choice in splits.menu].index(True)
    output = [choice.axis == "output" and choice.parts == "equal" for choice in splits.menu].index(True)
    seen = set()
    for c in np.flatnonzero(moves.number):
        operators, entry = moves.operators[c, : moves.number[c]].tolist(), int(moves.entry[c])
        assert len(set(operators)) == len(operators) and all(t.legal[k, entry] for k in operators)
        x = moves.inputs[c]
        assert x[column["waited"]] == pytest.approx(len(operators) / 4)
        work = sum(t.together[k, 0] - t.together[k, entry] for k in operators) * 100 / 4
        assert x[column["work"]] == pytest.approx(work / (1 + abs(work)))
        if entry == batch and len(operators) == 4:  # rows stay where they are: only the ends are sent
            sent = 100 / 4 * sum(t.apart[k, entry] for k in operators)
            assert x[column["joints"]] == pytest.approx(sent / (1 + sent)) and x[column["joined_after"]] == 1.0
            seen.add("batch")
        if entry == output and len(operators) == 4:  # columns are needed as a whole by the next product
            assert x[column["joined_after"]] == 0.0
            inside = 100 / 4 * (sum(t.apart[k, entry] for k in operators) + 2 * t.seconds.sum())
            assert x[column["joints"]] == pytest.approx(inside / (1 + inside))
            seen.add("output")
    assert seen == {"batch", "output"}


def test_moves_take_connected_pieces_or_twins():
    widths = (1024, 2048, 512, 1024, 2048, 512, 1024)
    tensors = [Tensor((1024, width)) for width in widths]
    weights = [Tensor((a, b), constant=True) for a, b in pairwise(widths)]
    operators = [Operator(f"p{k}", "MatMul", (tensors[k], weights[k]), (tensors[k + 1],)) for k in range(6)]
    graph = DataflowGraph(operators, [(k, 0, k + 1) for k in range(5)], "repeated")
    found, _ = ground((graph, load_platform("even-pair")))
    keys, t = np.array(found.instance.keys), found.tables
    entry = np.where(np.isin(keys, (4, 5)), 1, 0).astype(np.int32)  # these two are split already
    plan = Plan(entry, *(np.ones(6) for _ in range(4)), np.zeros(t.legal.shape), np.ones(3))
    moves = new_moves(3000, 6)
    draw_moves(t, plan, moves, np.random.default_rng(1))
    assert not moves.mark.any()
    taken = {tuple(sorted(keys[moves.operators[c, : moves.number[c]]])) for c in np.flatnonzero(moves.number)}
    connected = {tuple(range(a, a + size)) for size in (1, 2, 4) for a in range(5 - size)} | {(4,), (5,), (4, 5)}
    assert taken == connected | {(0, 3)}


def test_a_network_decides_what_is_priced(monkeypatch):
    found, _ = ground(RandomNetworks()(np.random.default_rng(11)))
    means, tried = [], SplitSearch._try
    for weight in (20.0, -20.0):
        nets = []

        def noted(self, entries, c, nets=nets):
            nets.append(float(self._moves.inputs[c, FEATURES.index("net")]))
            tried(self, entries, c)

        monkeypatch.setattr(SplitSearch, "_try", noted)
        searched = search(found, by("net", weight))
        searched.advance(searched.patterns + 60)
        assert len(nets) == 60
        means.append(np.mean(nets))
    assert means[0] > means[1] + 0.2


def test_all_moves_of_watched_draws_are_priced_and_the_search_does_not_know():
    found, splits = ground(RandomNetworks()(np.random.default_rng(11)))
    searched = search(found, watched=0.3)
    searched.advance(searched.patterns + 40)
    inputs, worth = searched.rows()
    assert len(inputs) == len(worth) > 40 * 0.3 * 10 and searched.priced == searched.patterns + 40
    assert ((worth >= 0) & (worth < 1)).all() and 0 < (worth > 0).mean() < 0.5
    whole, begun = search(found, watched=1.0), (0,) * len(found.instance.keys)
    whole._patterns, whole.makespan = [], found.instance.reference
    whole.advance(2)
    moves, (inputs, worth) = whole._moves, whole.rows()
    chosen = np.flatnonzero(moves.number)
    assert len(chosen) == len(worth)
    for c, labelled in zip(chosen, worth, strict=True):
        entries = list(begun)
        for k in moves.operators[c, : moves.number[c]]:
            entries[k] = int(moves.entry[c])
        node = splits.at(found.instance, tuple((k, entry) for k, entry in enumerate(entries) if entry))
        saved = 1.0 - node.makespan / found.instance.reference
        assert labelled == pytest.approx(saved / (saved + 0.002) if saved > 1e-9 else 0.0)


@pytest.mark.parametrize("how", ["classic", "links"])
def test_what_the_moves_see_is_the_plan(how):
    rules = SplitRules(parts=("equal", "sixteenths"), divisible=False, runtime=how)
    found, _ = ground(RandomNetworks()(np.random.default_rng(5)), rules)
    searched = search(found, how=how)
    searched.advance(searched.patterns + 40)
    fast = searched._view()
    searched._exact = False  # by way of a problem, the scheduler and the simulator
    for a, b in zip(fast, searched._view(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
    assert fast.value[0] == searched.makespan and fast.waited.max() > 0.0


def test_nothing_to_split():
    x = Tensor((4, 4))
    graph = DataflowGraph([Operator("a", "Reshape", (x,), (x,))], [], "one")
    found, _ = ground((graph, load_platform("even-pair")))
    searched = search(found)
    searched.advance(100)
    assert searched.finished and searched.best == (0,)
    assert PRESETS["classic"] == searched.runtime
