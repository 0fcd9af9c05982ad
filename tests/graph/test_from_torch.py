from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hetgym.errors import GraphError, HetgymWarning
from hetgym.graph import KINDS, from_torch
from hetgym.graph.torch_ops import ATEN


class Function(nn.Module):
    """A function as a module, with weights by name."""

    def __init__(self, function, **weights):
        super().__init__()
        self.function = function
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight))

    def forward(self, *args):
        return self.function(self, *args)


def imported(function, *shapes, **weights):
    return from_torch(Function(function, **weights), [torch.zeros(shape) for shape in shapes])


def kinds(graph):
    return [op.kind for op in graph.operators]


def test_operands_attributes_names_and_edges():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    graph = from_torch(net, [torch.zeros(2, 3, 16, 16)])
    assert kinds(graph) == ["Conv", "BatchNormalization", "Relu", "MaxPool", "GlobalAveragePool", "Flatten", "Gemm"]
    conv, gemm = graph.operators[0], graph.operators[-1]
    assert [(t.shape, t.name) for t in conv.inputs] == [
        ((2, 3, 16, 16), ""),
        ((8, 3, 3, 3), "0.weight"),
        ((8,), "0.bias"),
    ]
    assert conv.attributes == {"strides": (2, 2), "pads": (1, 1, 1, 1), "kernel_shape": (3, 3), "group": 1}
    assert conv.flops == 2 * 8 * 64 * (2 * 27 + 1)
    assert [t.constant for t in gemm.inputs] == [False, True, True] and gemm.attributes == {"transB": 1}
    assert gemm.flops == 2 * 5 * (2 * 8 + 1)
    assert graph.operators[3].flops == 2 * 8 * 16 * 4
    assert [tuple(edge) for edge in graph.edges] == [(i, 0, i + 1) for i in range(6)]
    assert conv.name == "0.conv2d" and gemm.name == "7.linear" and graph.name == "Sequential"


W = torch.zeros(4, 6)
CASES = {
    "linear": (lambda m, x: F.linear(x, m.w), [(5, 6)], {"w": W}, "Gemm", 5 * 4 * 12),
    "linear of many axes": (lambda m, x: F.linear(x, m.w), [(2, 5, 6)], {"w": W}, "Gemm", 10 * 4 * 12),
    "addmm": (lambda m, x: torch.addmm(m.b, x, m.w), [(5, 4)], {"w": W, "b": torch.zeros(6)}, "Gemm", 30 * 9),
    "mm": (lambda m, x: x @ m.w, [(5, 4)], {"w": W}, "MatMul", 30 * 8),
    "bmm": (lambda m, x, y: torch.bmm(x, y), [(2, 5, 4), (2, 4, 3)], {}, "MatMul", 30 * 8),
    "baddbmm": (lambda m, b, x, y: torch.baddbmm(b, x, y), [(2, 5, 3), (2, 5, 4), (2, 4, 3)], {}, "MatMul", 30 * 9),
    "dot": (lambda m, x, y: torch.dot(x, y), [(7,), (7,)], {}, "MatMul", 14),
    "einsum": (lambda m, x, y: torch.einsum("bid,bjd->bij", x, y), [(2, 5, 4), (2, 3, 4)], {}, "Einsum", 30 * 8),
    "conv 1d": (lambda m, x: F.conv1d(x, m.w), [(1, 4, 10)], {"w": torch.zeros(5, 4, 3)}, "Conv", 5 * 8 * 24),
    "depthwise": (lambda m, x: F.conv2d(x, m.w, groups=3, padding="same"), [(1, 3, 8, 8)],
                  {"w": torch.zeros(3, 1, 3, 3)}, "Conv", 3 * 64 * 18),
    "transposed conv": (lambda m, x: F.conv_transpose2d(x, m.w, stride=2), [(2, 3, 8, 8)],
                        {"w": torch.zeros(3, 16, 2, 2)}, "ConvTranspose", 2 * 3 * 64 * 2 * 64),
    "grouped": (lambda m, x, o: torch._grouped_mm(x.bfloat16(), m.w, o.int()), [(6, 16), (3,)],
                {"w": torch.zeros(3, 16, 32, dtype=torch.bfloat16)}, "GroupedMatMul", 6 * 2 * 16 * 32),
    "sort": (lambda m, x: x.sort(-1), [(5, 6)], {}, "TopK", 120),
    "attention": (lambda m, q, k: F.scaled_dot_product_attention(q, k, k), [(2, 3, 4, 8), (2, 3, 6, 8)], {},
                  "Attention", 6 * 24 * (32 + 5)),
    "layer norm": (lambda m, x: F.layer_norm(x, (6,), m.w), [(5, 6)], {"w": torch.zeros(6)}, "LayerNormalization", 240),
    "group norm": (lambda m, x: F.group_norm(x, 2), [(1, 4, 3)], {}, "GroupNormalization", 96),
    "embedding": (lambda m, x: F.embedding(x.long(), m.w), [(3,)], {"w": W}, "Gather", 0),
    "gelu": (lambda m, x: F.gelu(x), [(5, 6)], {}, "Gelu", 300),
    "silu": (lambda m, x: F.silu(x), [(5, 6)], {}, "Swish", 180),
    "with a number": (lambda m, x: 2 * x, [(5, 6)], {}, "Mul", 30),
    "maximum of two": (lambda m, x, y: torch.max(x, y), [(5, 6), (5, 6)], {}, "Max", 30),
    "maximum of an axis": (lambda m, x: x.max(1), [(5, 6)], {}, "ReduceMax", 30),
    "mean": (lambda m, x: x.mean((2, 3)), [(1, 2, 3, 4)], {}, "ReduceMean", 24),
    "softmax": (lambda m, x: x.softmax(-1), [(5, 6)], {}, "Softmax", 240),
    "average pool": (lambda m, x: F.avg_pool2d(x, 3, 2, 1), [(1, 2, 8, 8)], {}, "AveragePool", 2 * 16 * 9),
    "adaptive pool": (lambda m, x: F.adaptive_avg_pool2d(x, 4), [(1, 2, 8, 8)], {}, "AveragePool", 2 * 16 * 4),
    "global max pool": (lambda m, x: F.adaptive_max_pool2d(x, 1), [(1, 2, 8, 8)], {}, "GlobalMaxPool", 128),
    "resize": (lambda m, x: F.interpolate(x, scale_factor=2), [(1, 2, 4, 4)], {}, "Resize", 0),
    "cast": (lambda m, x: x.half(), [(5, 6)], {}, "Cast", 30),
    "stack": (lambda m, x, y: torch.stack([x, y]), [(5,), (5,)], {}, "Concat", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operators_map_onto_the_vocabulary(case):
    function, shapes, weights, kind, flops = CASES[case]
    graph = imported(function, *shapes, **weights)
    op = graph.operators[-1]
    assert op.kind == kind and op.flops == flops
    assert all(other.kind == "Cast" for other in graph.operators[:-1])  # embedding needs whole numbers


@pytest.mark.parametrize(
    ("mode", "aligned", "attributes"),
    [
        ("nearest", None, {"mode": "nearest"}),
        ("bilinear", False, {"mode": "linear"}),
        ("bilinear", True, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("bicubic", False, {"mode": "cubic"}),
    ],
)
def test_resizing_keeps_its_mode(mode, aligned, attributes):
    graph = imported(lambda m, x: F.interpolate(x, (9, 9), mode=mode, align_corners=aligned), (1, 2, 4, 4))
    assert graph.operators[-1].attributes == attributes


def test_every_kind_in_the_table_is_known():
    assert set(ATEN.values()) <= KINDS.keys()


# Views, copies and operators that change nothing


def test_views_move_nothing_and_copies_do():
    def attend(m, x):
        y = x.reshape(2, 5, 3, 4).transpose(1, 2)  # strided
        return y.contiguous().contiguous().reshape(6, 20), y.reshape(6, 20)

    graph = imported(attend, (2, 5, 12))
    assert kinds(graph) == ["Reshape", "View", "Copy", "Reshape", "Copy"]
    moved = {"Reshape": 0.0, "View": 0.0, "Copy": 2 * 480.0}
    assert [op.bytes_read + op.bytes_written for op in graph.operators] == [moved[kind] for kind in kinds(graph)]


def test_what_changes_nothing_in_inference_is_left_out():
    graph = imported(lambda m, x: F.dropout(x.float().detach(), training=m.training).relu(), (3,))
    assert kinds(graph) == ["Relu"]


def test_dropout_that_stays_active_is_kept():
    with pytest.warns(HetgymWarning, match="dropout"):
        graph = imported(lambda m, x: F.dropout(x, training=True).relu(), (3,))
    assert kinds(graph) == ["dropout", "Relu"]


def test_slots_of_operators_with_several_outputs():
    def halves(m, x):
        _, second, third = x.split(2, 1)
        return torch.cat([third.relu(), second], 1)

    graph = imported(halves, (1, 6))
    assert kinds(graph) == ["View", "Relu", "Concat"] and len(graph.operators[0].outputs) == 2
    assert [tuple(edge) for edge in graph.edges] == [(0, 1, 1), (0, 0, 2), (1, 0, 2)]


def test_mutation_becomes_data_flow():
    def update(m, x, y):
        z = x.clone()
        z[0] = y
        z.add_(1)
        return z

    graph = imported(update, (2, 3), (3,))
    assert graph.operators[-1].kind == "Add"
    assert graph.reaches(kinds(graph).index("ScatterND"), len(graph) - 1)


# Constants


def test_tied_weights_have_one_name():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, 4)
            self.head = nn.Linear(4, 9, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            y = self.table(x)
            return self.head(y), y @ self.table.weight.t()

    graph = from_torch(Tied(), [torch.zeros(2, 3, dtype=torch.long)])
    assert {t.name for op in graph.operators for t in op.inputs if t.constant} == {"table.weight"}


def test_what_follows_from_constants_alone_folds():
    def positions(m, x):
        places = torch.arange(x.shape[1]).unsqueeze(0) + 1
        return x + F.embedding(places, m.w) + torch.zeros_like(x)

    graph = imported(positions, (2, 3, 6), w=W)
    assert kinds(graph) == ["Add", "Add"]
    assert [t.name for op in graph.operators for t in op.inputs if t.constant] == ["constant_0", "constant_1"]
    assert graph.operators[0].inputs[1].shape == (1, 3, 6)


def test_buffers_and_lifted_tensors_are_constants():
    table = torch.ones(3)
    graph = imported(lambda m, x: x * table, (3,))
    assert [t.constant for t in graph.operators[0].inputs] == [False, True]


# Recurrent layers


@pytest.mark.parametrize(
    ("layer", "flops"),
    [
        (nn.LSTM(5, 3), 14 * (2 * (60 + 36) + 120)),
        (nn.LSTM(5, 3, 2), 14 * (2 * (60 + 36) + 120) + 14 * (2 * (36 + 36) + 120)),
        (nn.LSTM(5, 3, bidirectional=True), 2 * 14 * (2 * (60 + 36) + 120)),
        (nn.GRU(5, 3), 14 * (2 * (45 + 27) + 90)),
        (nn.RNN(5, 3), 14 * (2 * (15 + 9) + 30)),
    ],
)
def test_recurrent_layers_count_every_layer_and_direction(layer, flops):
    graph = from_torch(layer, [torch.zeros(7, 2, 5)])
    assert kinds(graph) == [type(layer).__name__]
    assert graph.flops.tolist() == [flops]
    assert graph.operators[0].attributes["hidden_size"] == 3


def test_cells_and_their_states():
    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(5, 3)

        def forward(self, x):
            h, c = self.cell(x[0])
            h, c = self.cell(x[1], (h, c))
            return h

    graph = from_torch(Steps(), [torch.zeros(2, 12, 5)])  # the batch is as large as the gates
    cells = [i for i, op in enumerate(graph.operators) if op.kind == "LSTMCell"]
    assert [op.flops for op in graph.operators if op.kind == "LSTMCell"][1] == 12 * (2 * (60 + 36) + 120)
    assert [tuple(edge)[:2] for edge in graph.edges if edge.target == cells[1] and edge.source == cells[0]] == [
        (cells[0], 0),
        (cells[0], 1),
    ]


# The caller's module, unknown operators, bad input


def test_the_module_is_left_as_it_was():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
    net[0].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    from_torch(net, torch.zeros(2, 3))
    assert net.training and net[1].training and not net[0].training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.is_grad_enabled()


def test_meta_weights_allocate_nothing():
    with torch.device("meta"):
        graph = from_torch(nn.Linear(1 << 20, 1 << 20, bias=False), [torch.zeros(1, 1 << 20)])
    assert graph.weight_bytes.tolist() == [4.0 * 2**40]


def test_keyword_arguments_and_name():
    class Scaled(nn.Module):
        def forward(self, x, *, scale):
            return x * scale

    graph = from_torch(Scaled(), [torch.zeros(3)], {"scale": torch.zeros(3)}, name="scaled")
    assert graph.name == "scaled" and len(graph.operators[0].inputs) == 2


def test_unknown_operators_warn_once_and_name_all():
    with pytest.warns(HetgymWarning) as caught:
        graph = imported(lambda m, x: torch.erfinv(torch.special.i0(torch.digamma(x))), (5,))
    (warning,) = caught
    assert all(kind in str(warning.message) for kind in kinds(graph)) and len(graph) == 3
    assert graph.bytes_read.tolist() == [20.0] * 3 and graph.flops.tolist() == [0.0] * 3


def test_control_flow_is_one_operator():
    def branch(m, x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    with pytest.warns(HetgymWarning, match="cond"):
        graph = imported(branch, (3,))
    assert [op.kind for op in graph.operators][-1] == "torch::cond"
    assert graph.in_degree[-1] == 1


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # torch warns before it fails
@pytest.mark.parametrize(
    ("module", "args", "sentence"),
    [
        (lambda x: x, [torch.zeros(3)], "imports a torch.nn.Module, not function"),
        (Function(lambda m, x: x), [torch.zeros(3)], "nothing is computed"),
        (Function(lambda m, x: x[x > 0]), [torch.zeros(3)], "depends on data"),
        (Function(lambda m, x: x + 1 if x.sum() > 0 else x), [torch.zeros(3)], "torch.export cannot trace it"),
        (Function(lambda m, x: 1 / 0), [torch.zeros(3)], "cannot trace it .division by zero"),
        (Function(lambda m, x: x + 1), [], "cannot trace it"),
        (nn.Linear(3, 4), [torch.zeros(3, 7)], "cannot trace it"),
        (nn.Linear(3, 4), None, "module 'Linear': args must be a sequence and kwargs a mapping"),
    ],
)
def test_bad_modules(module, args, sentence):
    with pytest.raises(GraphError, match=sentence) as caught:
        from_torch(module, args)
    assert "\n" not in str(caught.value)


def test_flops_follow_the_batch():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8))
    one, five = (from_torch(net, torch.zeros(batch, 4)) for batch in (1, 5))
    np.testing.assert_array_equal(five.flops, 5 * one.flops)


def test_the_importer_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_torch(nn.GRU(3, 3), [torch.zeros(2, 3)])
        from_torch(Function(lambda m, x: x.clone().relu_()), [torch.zeros(3)])


def test_products_agree_with_the_counter_of_torch():
    from torch.utils.flop_counter import FlopCounterMode

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, stride=2, groups=1, bias=False)
            self.depthwise = nn.Conv2d(8, 8, 5, padding=2, groups=8, bias=False)
            self.up = nn.ConvTranspose2d(8, 4, 2, 2, bias=False)
            self.linear = nn.Linear(30, 12, bias=False)

        def forward(self, x):
            y = self.linear(self.up(self.depthwise(self.conv(x))))
            return y @ y.transpose(-1, -2)

    net, x = Mixed(), torch.zeros(2, 3, 31, 31)
    with FlopCounterMode(display=False) as counter:
        net(x)
    graph = from_torch(net, [x])
    assert sum(op.flops for op in graph.operators) == counter.get_total_flops()
