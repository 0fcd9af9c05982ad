"""Plans of other methods as starts of the search over splits."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.agents.splits.moves import FEATURES
from hetgym.agents.splits.planner import SplitPlanner
from hetgym.agents.splits.starts import in_entries, shares
from hetgym.baselines import eop
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.rules import SplitRules
from hetgym.graph import load_graph
from hetgym.graph.transforms import fuse, split
from hetgym.platform import load_platform

RULES = {"fused": True, "parts": ["sixteenths"], "divisible": False, "key_operators": 64, "granularity": 0.0}


def test_shares_of_operators_that_are_split():
    graph = fuse(load_graph("alexnet", batch=8)).graph
    convolutions = [op.name for op in graph.operators if "Conv" in op.name][:3]
    made = split(graph, convolutions[0], "batch", [0.25, 0.75])
    made = split(made, convolutions[2], "output", [0.5, 0.5])
    channels = next(op for op in graph.operators if op.name == convolutions[2]).outputs[0].shape[1]
    assert shares(made) == {convolutions[0]: (0, 2), convolutions[2]: (1, channels // 2)}
    assert shares(graph) == {}


@pytest.mark.slow
def test_eop_in_sixteenths_is_as_good_as_before_its_tuning():
    pair = load_graph("inception_v1", batch=8), load_platform("even-pair")
    rules = SplitRules(**RULES)
    splits = Splits(rules, rules.menu(2))
    instance = splits.instance(pair)
    theirs = eop(*pair, sweeps=0)
    entries = in_entries(instance, splits.menu, theirs.graph)
    chosen = tuple((turn, entry) for turn, entry in enumerate(entries) if entry)
    assert len(chosen) >= 5
    assert splits.at(instance, chosen).makespan <= 1.02 * theirs.makespan < 0.99 * instance.reference
    shapes = {"enter.weight": (1, len(FEATURES)), "enter.bias": (1,), "leave.weight": (1, 1)}
    weights = {name: np.zeros(shape) for name, shape in shapes.items()}
    plan = SplitPlanner(weights, {"recipe": {"arguments": RULES}}).plan(*pair, splits=len(splits.menu) + 3)
    assert plan.makespan <= min(splits.at(instance, chosen).makespan, eop(*pair).makespan)
