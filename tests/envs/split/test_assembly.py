"""Problems put together from blocks equal those of the rewritten graph."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.baselines import get
from hetgym.envs.split.assembly import Assembly
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.networks import RandomNetworks
from hetgym.envs.split.rules import SplitRules
from hetgym.graph import DataflowGraph, Operator, Tensor, load_graph
from hetgym.platform import load_platform

ARRAYS = ("cost", "edge_source", "edge_target", "edge_bytes", "edge_tensor", "output_bytes", "occupancy")


def compare(pair, rng, draws, **arguments):
    """Split key operators at random, alike or not, and compare all arrays."""
    rules = SplitRules(parts=("equal", "proportional", "sixteenths"), divisible=False, granularity=0.0, **arguments)
    splits = Splits(rules, rules.menu(len(pair[1])))
    instance = splits.instance(pair)
    assembly, gathers = Assembly(instance, splits.menu), 0
    for _ in range(draws):
        same, share = int(rng.integers(1, len(splits.menu))), rng.uniform(0.3, 1.0)
        entries, alike = [0] * len(instance.keys), rng.random() < 0.5
        for turn, row in enumerate(instance.options):
            legal = [entry for entry, option in enumerate(row) if option is not None]
            if legal and rng.random() < share:
                entries[turn] = same if alike and row[same] is not None else int(rng.choice(legal))
        chosen = [(turn, entry) for turn, entry in enumerate(entries) if entry]
        rng.shuffle(chosen)
        node = splits.at(instance, tuple((int(turn), int(entry)) for turn, entry in chosen))
        made, places = assembly.problem(entries)
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(made, name), getattr(node.problem, name), name)
        assert made.operator_names == node.problem.operator_names
        assert made.operator_kinds == node.problem.operator_kinds
        assert get("heft")(made).makespan == node.makespan
        for turn, entry in enumerate(entries):
            first = made.operator_names[places.first[instance.keys[turn]]]
            assert first == instance.graph.operators[instance.keys[turn]].name + ("/0" if entry else "")
        split = sum(entry > 0 for entry in entries)
        gathers += split - sum(name.endswith("/gather") for name in made.operator_names)
    return gathers


def test_random_networks():
    cancelled = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        cancelled += compare(RandomNetworks()(rng), rng, 4, fused=seed % 2 == 0, key_operators=40)
    assert cancelled > 20  # neighbours that are split alike need no gather


@pytest.mark.parametrize(
    ("network", "platform"), [("squeezenet", "cpu-gpu-npu"), ("inception_v2", "cpu-2gpu-nvlink"), ("lstm", "even-pair")]
)
def test_networks_of_the_zoo(network, platform):
    pair = load_graph(network, batch=4), load_platform(platform)
    compare(pair, np.random.default_rng(1), 2, fused=True, key_operators=30)


def test_an_operand_that_is_read_twice_and_a_result_that_nobody_reads():
    x, w = Tensor((8, 64)), Tensor((64, 64), constant=True, name="w")
    operators = [
        Operator("a", "MatMul", (x, w), (x,)),
        Operator("square", "Mul", (x, x), (x,)),
        Operator("b", "MatMul", (x, w), (x,)),
        Operator("c", "MatMul", (x, w), (x,)),
    ]
    graph = DataflowGraph(operators, [(0, 0, 1), (1, 0, 2), (0, 0, 3)], "twice")
    compare((graph, load_platform("even-pair")), np.random.default_rng(2), 60, key_operators=4)
