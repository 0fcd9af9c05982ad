"""Problems put together from blocks equal those of the rewritten graph."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from hetgym.baselines import get
from hetgym.envs.split.assembly import Assembly
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.instance import loads_of
from hetgym.envs.split.networks import RandomNetworks
from hetgym.envs.split.rules import SplitRules
from hetgym.graph import DataflowGraph, Operator, Tensor, load_graph
from hetgym.graph.transforms import split
from hetgym.platform import load_platform
from hetgym.problem import Problem
from hetgym.sim import simulate

ARRAYS = (
    "cost",
    "edge_source",
    "edge_target",
    "edge_bytes",
    "edge_tensor",
    "weight_bytes",
    "output_bytes",
    "occupancy",
)


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
        graph = instance.graph
        for turn, entry in chosen:
            name = instance.graph.operators[instance.keys[turn]].name
            graph = split(graph, name, splits.menu[entry].axis, instance.options[turn][entry].lengths)
        rewritten = Problem.build(graph, pair[1], instance.prices)
        assert node.graph == graph and node.graph.name == graph.name
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(made, name), getattr(rewritten, name), name)
        assert made.digest == rewritten.digest == node.problem.digest and made.name == rewritten.name
        assert made.operator_names == rewritten.operator_names
        assert made.operator_kinds == rewritten.operator_kinds
        assert simulate(rewritten, get("heft")(rewritten)).makespan == node.makespan
        schedule = get("heft")(rewritten)
        planned, peak = assembly.run(entries)
        assert planned.to_dict() == node.schedule.to_dict() == schedule.to_dict()
        memory = simulate(rewritten, schedule).memory.peak
        assert np.array_equal(peak, memory) and np.array_equal(node.peak, memory)
        loads = assembly.price(entries)[1]
        for mine, theirs in zip(loads, loads_of(rewritten, schedule.assignment), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for turn, entry in enumerate(entries):
            first = made.operator_names[places.first[instance.keys[turn]]]
            assert first == instance.graph.operators[instance.keys[turn]].name + ("/0" if entry else "")
        gathers += sum(entry > 0 for entry in entries) - sum(name.endswith("/gather") for name in made.operator_names)
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


def chain(length: int) -> DataflowGraph:
    """Products in a row, of which every second one is read twice."""
    x, w = Tensor((64, 64)), [Tensor((64, 64), constant=True, name=f"w{k}") for k in range(length)]
    operators = [Operator(f"p{k}", "MatMul", (x, w[k]), (x,)) for k in range(length)]
    edges = [(k, 0, k + 1) for k in range(length - 1)] + [(k, 0, k + 2) for k in range(0, length - 2, 2)]
    return DataflowGraph(operators, edges, "chain")


def test_desks_grow_with_the_number_of_parts():
    pair = chain(6), load_platform("8gpu-node")
    rules = SplitRules(granularity=0.0, ways=[8])
    splits = Splits(rules, rules.menu(8))
    instance = splits.instance(pair)
    assembly = Assembly(instance, splits.menu)
    legal = [[entry for entry, option in enumerate(row) if option is not None] for row in instance.options]
    ways = [row[turn % len(row)] for turn, row in enumerate(legal)]
    sizes = []
    for entries in ([0] * 6, ways, [row[0] for row in legal], [legal[0][0], 0, 0, 0, 0, legal[5][-1]]):
        made = assembly.problem(entries)[0]
        assert assembly.price(entries)[0] == get("heft")(made).makespan
        sizes.append(made.num_operators)
    assert sizes[0] == 6 and max(sizes) > 2 * 24  # there was room for 24 at first
    assert copy.deepcopy(assembly).price(ways)[0] == pickle.loads(pickle.dumps(assembly)).price(ways)[0]
    assert copy.deepcopy(assembly).price(ways)[0] == assembly.price(ways)[0]
