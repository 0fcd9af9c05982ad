"""The menu of splits, and the lengths of parts."""

from __future__ import annotations

import math

import numpy as np
from split_tools import products

from hetgym.envs.split.menu import LEAVE, Choice, lengths, menu
from hetgym.graph import Operator, Tensor


def test_the_menu() -> None:
    assert menu(["batch"], [2], ["equal", "proportional"]) == (
        LEAVE,
        Choice("batch", 2, "equal"),
        Choice("batch", 2, "proportional"),
    )
    assert len(menu(["batch", "output", "reduction", "spatial"], [2, 3, 4], ["equal", "proportional"])) == 25
    assert [str(choice) for choice in menu(["spatial"], [3], ["equal"])] == ["leave", "spatial x3 equal"]
    assert menu(["batch"], [], ["equal"]) == (LEAVE,)


def test_parts_at_indivisible_sizes() -> None:
    op = products(1, 10).operators[0]
    assert lengths(op, Choice("batch", 2, "equal"), [1.0, 1.0, 1.0]) == (5, 5)
    assert lengths(op, Choice("batch", 3, "equal"), [1.0, 1.0, 1.0]) is None
    assert lengths(op, Choice("batch", 3, "equal"), [1.0, 1.0, 1.0], divisible=False) == (3, 4, 3)
    assert lengths(op, Choice("batch", 2, "equal"), [1.0, 1.0, 1.0], multiple=2) is None  # 4 and 6
    assert lengths(op, Choice("batch", 2, "proportional"), [1.0, 1.0, 1.0]) is None  # that is the equal one
    assert lengths(op, Choice("batch", 3, "proportional"), [1.0, 1.0, 1.0]) == (3, 4, 3)
    assert lengths(op, Choice("batch", 3, "proportional"), [1.0, 1.0, 1.0], divisible=False) is None
    assert lengths(op, Choice("batch", 2, "proportional"), [4.0, 1.0]) == (8, 2)
    assert lengths(op, Choice("batch", 3, "equal"), [1.0, 1.0, math.inf], divisible=False) is None
    assert lengths(op, Choice("spatial", 2, "equal"), [1.0, 1.0]) is None
    small = products(1, 2).operators[0]
    assert lengths(small, Choice("batch", 3, "equal"), [1.0] * 3, divisible=False) is None  # a part would be empty


def test_sixteenths_are_ratios_of_two_parts() -> None:
    found = menu(["output"], [2, 3], ["equal", "sixteenths"])
    assert [choice.parts for choice in found if choice.ways == 3] == ["equal"]
    ratios = [choice for choice in found if choice.sixteenths]
    assert [choice.parts for choice in ratios] == [f"{k}/16" for k in range(15, 8, -1)]
    x, w = Tensor((4, 64)), Tensor((64, 96), constant=True)
    op = Operator("p", "MatMul", (x, w), (Tensor((4, 96)),))
    assert [lengths(op, choice, [1.0, 3.0]) for choice in ratios] == [(96 - 6 * k, 6 * k) for k in range(1, 8)]
    assert lengths(op, ratios[0], [1.0, np.inf]) is None  # one device cannot share
    narrow = Operator("n", "MatMul", (x, Tensor((64, 2), constant=True)), (Tensor((4, 2)),))
    assert [lengths(narrow, choice, [1.0, 3.0]) for choice in ratios] == [None] * 7  # empty, or equal parts
