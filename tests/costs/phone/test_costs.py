"""Prices of phones' processors: amounts of work, the model, its file, and the shipped fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym.costs import CostModel, artefact, load_costs
from hetgym.costs.phone.costs import RATES, PhoneCosts
from hetgym.costs.phone.work import AMOUNTS, AT_START, ON_CHIP, amounts
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.graph.ops import KINDS
from hetgym.graph.transforms import fuse

SHIPPED = ("hexagon-qnn", "hexagon-tflite", "hexagon-onnx")
NPU = Device("npu", "npu", {"int8": 4e13}, 6e10, model="chip")


def model(**parts):
    """Two boards, of which the first cannot compute in floating point; every amount costs 1 s, or 2 s on the second."""
    rates = np.log(np.stack([np.full((2, len(RATES)), 1.0), np.full((2, len(RATES)), 2.0)]))
    full = {
        "boards": ("chip", "other"),
        "precisions": ("float", "w8a8"),
        "rates": rates,
        "sheet": np.array([[1e13, 1e10], [1e13, 1e10]]),
        "able": np.array([[0.0, 1.0], [1.0, 1.0]]),
        "card": {"seed": 1},
        "scatter": (-0.5, 0.5),
    }
    return PhoneCosts(**{**full, **parts})


def conv(channels=40, out=24, side=10, window=3, group=1, dtype="float32"):
    x, y = Tensor((1, channels, side, side), dtype), Tensor((1, out, side, side), dtype)
    w = Tensor((out, channels // group, window, window), dtype, constant=True)
    return Operator("conv", "Conv", (x, w), (y,), {"group": group, "kernel_shape": (window, window)})


def relu(shape=(1, 8), dtype="float32"):
    return Operator("relu", "Relu", (Tensor(shape, dtype),), (Tensor(shape, dtype),))


def amount(op, name):
    return amounts([op])[0, AMOUNTS.index(name)]


def test_products_are_padded_to_tiles():
    assert amount(conv(), "operations of products") == 2 * (16 * 12) * 32 * 64 * 9
    assert amount(conv(), "weights") == 24 * 40 * 9
    assert amount(conv(), "elements of products") == 100 * (64 + 32)
    assert amount(conv(window=1), "operations of pointwise products") == 2 * (16 * 12) * 32 * 64
    assert amount(conv(), "operations of pointwise products") == 0


def test_an_image_of_one_row_is_cut_along_its_length():
    x, w = Tensor((1, 32, 1, 100)), Tensor((32, 32, 1, 1), constant=True)
    flat = Operator("flat", "Conv", (x, w), (x,), {"group": 1, "kernel_shape": (1, 1)})
    assert amount(flat, "operations of pointwise products") == 2 * 128 * 32 * 32


@pytest.mark.parametrize(
    ("attributes", "window", "name"),
    [
        ({"strides": (2, 2)}, 3, "strided products"),
        ({"strides": (2, 2)}, 1, "strided pointwise products"),
        ({"strides": (2, 2), "dilations": (1, 2)}, 3, "dilated products"),
        ({"strides": (1, 1), "dilations": (1, 1)}, 3, "products"),
    ],
)
def test_strides_and_dilations_set_products_apart(attributes, window, name):
    op = conv(window=window)
    op = replace(op, attributes={**op.attributes, **attributes})
    row = amounts([op])[0]
    kinds = {n for n, value in zip(AMOUNTS, row, strict=True) if value and n.startswith("operations")}
    assert kinds == {f"operations of {name}"}


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({}, "resizing to the nearest"),
        ({"mode": "linear"}, "resizing"),
        ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, "resizing with corners aligned"),
    ],
)
def test_resizing_is_told_apart_by_its_mode(attributes, name):
    x, y = Tensor((1, 32, 4, 4)), Tensor((1, 32, 8, 8))
    row = amounts([Operator("up", "Resize", (x,), (y,), attributes)])[0]
    kinds = {n: value for n, value in zip(AMOUNTS, row, strict=True) if value}
    moved = 32 * (16 + 64)
    assert kinds == {f"elements of {name}": moved, "elements at the start of operators": moved, "operators": 1}


def test_depthwise_products_are_not():
    op = conv(channels=40, out=40, group=40)
    assert amount(op, "operations of grouped products") == 2 * 40 * 100 * 9
    assert amount(op, "operations of products") == 0


def test_views_that_permute_count_and_reshapes_do_not():
    x = Tensor((4, 32))
    assert amount(Operator("v", "View", (x,), (Tensor((32, 4)),)), "views") == 1
    assert not amounts([Operator("r", "Reshape", (x,), (Tensor((128,)),))]).any()


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ((1, 64, 8, 4), (1, 8, 4, 64), 0),
        ((1, 8, 4, 64), (1, 64, 8, 4), 0),
        ((1, 32, 64), (1, 64, 32), 0),
        ((9, 49, 4, 32), (9, 4, 49, 32), 1),
        ((9, 32, 64), (9, 64, 32), 1),
        ((1, 64, 8, 4), (1, 32, 8, 4), 1),
    ],
)
def test_views_that_put_channels_last_or_first_are_free(before, after, moves):
    view = Operator("v", "View", (Tensor(before),), (Tensor(after),))
    assert amount(view, "views") == moves
    assert (amount(view, "elements of views") > 0) == moves


def test_parts_of_a_fused_operator_count_with_their_own_results():
    big, small = Tensor((1, 32, 10, 10)), Tensor((1, 32, 2, 2))
    pool = Operator("pool", "ReduceMean", (big,), (small,))
    ops = [Operator("sigmoid", "Sigmoid", (big,), (big,)), Operator("exp", "Exp", (big,), (big,)), pool]
    fused = fuse(DataflowGraph(ops, [(0, 0, 1), (1, 0, 2)])).graph
    assert fused.operators[0].attributes["shapes"] == "1x32x10x10+1x32x10x10+1x32x2x2"
    assert amount(fused.operators[0], "elements of functions") == 2 * 2 * 3200
    unknown = {k: v for k, v in fused.operators[0].attributes.items() if k != "shapes"}
    assert amount(replace(fused.operators[0], attributes=unknown), "elements of functions") == 2 * 2 * 128


def test_a_division_of_a_picture_is_told_apart():
    picture, image = Tensor((1, 3, 64, 64)), Tensor((1, 32, 64, 64))
    for tensor, name in ((picture, "divisions of pictures"), (image, "functions")):
        assert amount(Operator("d", "Div", (tensor,), (tensor,)), f"elements of {name}") == 2 * tensor.size


def test_the_start_of_an_operator_counts_once_more():
    assert amount(relu((1, 32)), "elements at the start of operators") == 64
    assert amount(relu((1, 32, 1000, 1000)), "elements at the start of operators") == AT_START


def test_what_does_not_fit_on_the_chip_counts_twice():
    shape = (1, 32, 1000, 1000)
    assert amount(relu(shape), "elements beyond the memory on the chip") == 2 * 32e6 - ON_CHIP
    assert amount(relu(), "elements beyond the memory on the chip") == 0


def test_normalisation_and_activation_behind_a_product_are_free_and_another_branch_is_not():
    c, y = conv(out=32), Tensor((1, 32, 10, 10))
    scale = Tensor((32,), constant=True)
    norm = Operator("norm", "BatchNormalization", (y, scale, scale, scale, scale), (y,))
    plain = fuse(DataflowGraph([c, norm, replace(relu(), inputs=(y,), outputs=(y,))], [(0, 0, 1), (1, 0, 2)]))
    assert len(plain.graph) == 1
    assert amount(plain.graph.operators[0], "operators") == 1
    both = fuse(DataflowGraph([c, Operator("add", "Add", (y, y), (y,))], [(0, 0, 1)]))
    assert len(both.graph) == 1
    assert amount(both.graph.operators[0], "operators") == 2


@given(kind=st.sampled_from(sorted(KINDS)), shape=st.tuples(*[st.integers(0, 2**30)] * 4))
def test_amounts_are_finite_whatever_the_operator(kind, shape):
    x, weights = Tensor(shape), Tensor(shape, constant=True)
    table = amounts([Operator("op", kind, (x, weights), (x,), {"kernel_shape": (3, 3)})])
    assert np.isfinite(table).all()
    assert (table >= 0).all()


def test_price_is_the_sum_of_amounts():
    op = relu(dtype="int8")
    assert isinstance(model(), CostModel)
    assert model().predict([op], NPU)[0] == pytest.approx(amounts([op]).sum())
    low, high = model().spread([op], NPU)
    assert low[0] < model().predict([op], NPU)[0] < high[0]


def test_precision_that_a_board_lacks():
    reshape = Operator("r", "Reshape", (Tensor((4,)),), (Tensor((2, 2)),))
    assert model().predict([relu(), reshape], NPU).tolist() == [np.inf, 0.0]
    assert model().call(NPU, "float32", 10) == np.inf
    assert model().call(NPU, "int8", 10) == pytest.approx(11)
    assert np.isfinite(model().predict([relu(dtype="int64")], NPU)).all()
    assert model().coefficients(NPU, "w8a16") is None


def test_strangers_are_scaled_by_their_data_sheet():
    slow = replace(NPU, model="", peak_flops={"int8": 1e13}, memory_bandwidth=1e10)
    fast = replace(slow, peak_flops={"int8": 4e13}, memory_bandwidth=2e10)
    ratio = model().coefficients(slow, "w8a8") / model().coefficients(fast, "w8a8")
    assert ratio[RATES.index("operations of products")] == pytest.approx(4)
    assert ratio[RATES.index("weights")] == pytest.approx(2)
    assert ratio[RATES.index("calls")] == pytest.approx(1)


def test_file(tmp_path):
    model().save(tmp_path / "m.npz")
    read = load_costs(tmp_path / "m.npz")
    assert isinstance(read, PhoneCosts)
    assert read.predict([relu(dtype="int8")], NPU) == model().predict([relu(dtype="int8")], NPU)
    assert (read.boards, read.card, read.scatter) == (model().boards, model().card, model().scatter)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"boards": ("chip",)}, "rates have shape"),
        ({"sheet": np.zeros((2, 2))}, "data sheets"),
        ({"rates": np.full((2, 2, len(RATES)), 99.0)}, "a rate is not between"),
        ({"precisions": ("float", "w4")}, "precisions"),
        ({"scatter": (0.5, -0.5)}, "scatter"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    with pytest.raises(ArtefactError, match=message):
        model(**parts)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"model": "tree"}, "holds no"),
        ({"rates": ["calls"]}, "does not compute"),
        ({"scatter": [0.0]}, "missing or invalid"),
        ({"boards": [1, 2]}, "missing or invalid"),
        ({"card": None}, "missing or invalid"),
    ],
)
def test_headers_that_do_not_fit(tmp_path, header, message):
    model().save(tmp_path / "m.npz")
    full, arrays = artefact.load(tmp_path / "m.npz")
    with pytest.raises(ArtefactError, match=message):
        PhoneCosts.of_parts({**full, **header}, arrays, "here")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_fits(name):
    fitted = PhoneCosts.load(artefact.locate(name))
    assert len(fitted.boards) == 13
    board = Device("npu", "npu", {"int8": 4.5e13}, 7.7e10, model="Snapdragon 8 Gen 3")
    wide = [conv(channels=64 << i, out=64 << i, side=56) for i in range(5)]
    assert (np.diff(fitted.predict(wide, board)) > 0).all()
    eight = [conv(channels=256, out=256, side=56, dtype=dtype) for dtype in ("float16", "int8")]
    slow, quick = fitted.predict(eight, board)
    assert quick < slow


@pytest.mark.parametrize("name", ["8-gen-2", "8-gen-3", "8-elite", "x-elite"])
def test_platforms_find_their_chip(name):
    platform = hetgym.load_platform(f"snapdragon-{name}")
    npu = platform.devices[2]
    fitted = load_costs(npu.costs)
    assert isinstance(fitted, PhoneCosts)
    assert npu.model in fitted.boards
    graph = fuse(hetgym.load_graph("resnet50")).graph
    seconds = fitted.predict(graph.operators, npu).sum() + fitted.call(npu, "float32", 3 * 224**2 + 1000)
    assert 5e-4 < seconds < 5e-3


MADE_UP = ["", "1x8+", "1x8+-4", "1x8+axb", "1x8+" + "9" * 5000, "1x8+" + "x".join(["9"] * 400), 7]


@pytest.mark.parametrize("shapes", MADE_UP, ids=range(len(MADE_UP)))
def test_shapes_of_parts_that_a_file_makes_up_are_not_looked_at(shapes: str | int) -> None:
    x = Tensor((1, 8))
    plain = Operator("f", "Fused-elementwise", (x,), (x,), {"anchor": "Add", "operands": 1, "fused": "Add+Sigmoid"})
    odd = replace(plain, attributes={**plain.attributes, "shapes": shapes})
    row, found = amounts([plain]), amounts([odd])
    assert np.isfinite(found).all() and (shapes == "1x8+" or np.array_equal(row, found))
