"""GraphNet models: the same graphs as from their modules, hand-checked costs, and bad text in one sentence."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import hetgym
from hetgym.errors import GraphError, HetgymError, HetgymWarning
from hetgym.graph import DataflowGraph, from_graphnet, load_graph
from hetgym.graph.from_graphnet import TEXT_LIMIT
from hetgym.graph.transforms import training
from hetgym.workloads import load_suite
from tests.graph.graphnet_files import MLP, MLP_BODY, captured, model_text, types_text, write

X = {"L_x_": ([2, 3, 8, 8], "float32")}
REAL = Path(os.environ.get("HETGYM_DATA", "/nonexistent")) / "graphnet"
"""Folder with models of GraphNet."""


def kinds(graph: DataflowGraph) -> list[str]:
    return [op.kind for op in graph.operators]


def test_a_model_by_hand(tmp_path: Path) -> None:
    graph = from_graphnet(write(tmp_path / "mlp", MLP_BODY, MLP))
    assert graph.name == "mlp" and not graph.notes
    assert [(op.name, op.kind) for op in graph.operators] == [
        ("fc1.linear", "Gemm"), ("x_1", "Relu"), ("norm.mul", "Mul"), ("mean", "ReduceMean"), ("sub", "Sub")
    ]  # fmt: skip
    n, m, k = 4, 64, 32
    assert graph.flops.tolist() == [2 * n * m * k + n * m, n * m, n * m, n * m, n * m]
    assert graph.bytes_read.tolist() == [
        4 * (n * k + m * k + m), 4 * n * m, 4 * (n * m + m), 4 * n * m, 4 * (n * m + n)
    ]  # fmt: skip
    assert graph.bytes_written.tolist() == [4 * n * m, 4 * n * m, 4 * n * m, 4 * n, 4 * n * m]
    assert [tuple(edge) for edge in graph.edges] == [(0, 0, 1), (1, 0, 2), (1, 0, 4), (2, 0, 3), (3, 0, 4)]
    assert graph.model_bytes == 4 * (64 * 32 + 64 + 64)
    assert graph.operators[0].inputs[1].name == "fc1.weight"


def test_what_is_written_to_a_view_reaches_its_memory(tmp_path: Path) -> None:
    body = """
    y = L_x_ * 2.0
    rows = y[:, 0]
    other = y.transpose(2, 3)
    rows.add_(1.0)
    y[:, 1] = 0.0
    z = other.exp()
    return (z, y)
    """.replace("\n    ", "\n")
    graph = from_graphnet(write(tmp_path, body, X))
    assert Counter(kinds(graph)) == {"Mul": 1, "View": 2, "Add": 1, "ScatterND": 2, "Exp": 1}
    assert graph.reaches(kinds(graph).index("Add"), kinds(graph).index("Exp"))
    assert kinds(graph)[-2:] == ["View", "Exp"]  # the transpose is made again, of the last state


def test_numbers_of_arguments_are_known_where_they_are_stated(tmp_path: Path) -> None:
    arguments = {"s1": ([], "int64"), "L_self_modules_norm_eps": ([], "float32"), **X}
    body = "item = L_self_modules_norm_eps.item()\ny = L_x_ + item\nz = y.view(s1, 3, -1)\nreturn (z,)"
    (_, view) = from_graphnet(write(tmp_path, body, arguments, {"s1": [2]})).operators
    assert view.outputs[0].shape == (2, 3, 64)
    write(tmp_path, body, arguments)
    with pytest.raises(GraphError, match=r"model.py: line 15: .*a size depends on data"):
        from_graphnet(tmp_path)


def test_a_list_may_be_repeated(tmp_path: Path) -> None:
    body = "masks = [None] * 2\nmask = masks[1]\ny = L_x_.clamp(mask, 1.0)\nreturn (y,)"
    assert kinds(from_graphnet(write(tmp_path, body, X))) == ["Clip"]


def modules() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
            self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, s, _ = x.shape
            q, k, v = self.qkv(self.norm(x)).view(b, s, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
            fused = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, 16)
            scores = (q @ k.transpose(-2, -1)) / 2.0
            mask = torch.ones(s, s, dtype=torch.bool).tril()
            weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(b, s, 16)) + fused
            return x + self.mlp(x)

    class Residual(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.inplace = inplace
            self.conv, self.norm, self.relu = nn.Conv2d(4, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace)
            self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.relu(self.norm(self.conv(x)))
            y = self.depth(x)
            if self.inplace:
                y += x
            else:
                y = y + x
            y = F.max_pool2d(self.relu(y), 3, 2, 1)
            y = F.interpolate(y, scale_factor=2.0, mode="bilinear")
            return torch.cat([F.adaptive_avg_pool2d(y, 1).flatten(1), y.mean((2, 3))], 1)

    return {
        "block": (Block(), (torch.zeros(2, 6, 16),)),
        "residual": (Residual(False), (torch.zeros(2, 4, 16, 16),)),
        "in place": (Residual(True), (torch.zeros(2, 4, 16, 16),)),
        "decoder": (nn.TransformerDecoderLayer(16, 2, 32), (torch.zeros(5, 2, 16), torch.zeros(7, 2, 16))),
    }


@pytest.mark.parametrize("case", ["block", "residual", "decoder"])
def test_a_text_of_pytorch_is_the_graph_of_its_module(case: str, tmp_path: Path) -> None:
    module, args = modules()[case]
    text = from_graphnet(captured(tmp_path / case, module, args))
    graph = hetgym.graph.from_torch(module, args)
    assert kinds(text) == kinds(graph)
    assert [op.outputs for op in text.operators] == [op.outputs for op in graph.operators]
    for column in ("flops", "bytes_read", "bytes_written", "resident_bytes"):
        assert getattr(text, column).tolist() == getattr(graph, column).tolist(), column
    assert text.edges == graph.edges and text.model_bytes == graph.model_bytes


def test_operators_in_place_are_those_that_are_not(tmp_path: Path) -> None:
    graphs = [from_graphnet(captured(tmp_path / case, *modules()[case])) for case in ("residual", "in place")]
    assert graphs[0].edges == graphs[1].edges and kinds(graphs[0]) == kinds(graphs[1])
    assert graphs[0].flops.tolist() == graphs[1].flops.tolist()


def test_a_model_is_loaded_by_its_path_or_folder(tmp_path: Path) -> None:
    file = write(tmp_path / "mlp", MLP_BODY, MLP)
    graph = load_graph(file)
    assert graph == load_graph(file.parent) == load_graph(str(file), batch=1)
    assert len(training(graph)) > 2 * len(graph)
    with pytest.raises(GraphError, match="keeps the batch that it was exported with"):
        load_graph(file, batch=2)
    with pytest.raises(GraphError, match="a GraphNet model takes no options, but 'dims' is given"):
        load_graph(file, dims={"x": 2})


def test_models_beside_a_suite_are_its_graphs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, MLP_BODY, MLP)
    (tmp_path / "suite.yaml").write_text(
        "problems:\n  - graphs: [one/model.py, two/model.py]\n    platforms: [cpu-gpu]\n"
    )
    specs = load_suite(tmp_path / "suite.yaml").specs
    assert [spec.name for spec in specs] == ["one@cpu-gpu", "two@cpu-gpu"]
    assert specs[0].build().num_operators == 5


def test_operators_of_unknown_kind_are_named(tmp_path: Path) -> None:
    file = write(tmp_path, "y = torch.nn.functional.glu(L_x_, dim = -1)\nreturn (y,)", X)
    with pytest.warns(HetgymWarning, match="priced by the bytes they move: glu"):
        assert kinds(from_graphnet(file)) == ["glu"]
    with pytest.raises(GraphError, match="strict=True refuses this"):
        from_graphnet(file, strict=True)


BODIES = {
    "for i in L_x_:\n    y = i\nreturn (y,)": "line 11: .*not a statement of a GraphNet model",
    "while True:\n    pass": "not a statement",
    "import os\nreturn (L_x_,)": "line 11: 'import os': not a statement",
    "def f(): return 1\nreturn (L_x_,)": "not a statement",
    "y = [i for i in L_x_]": "the kind ListComp is not one of a GraphNet model",
    "y = (lambda: 1)()": "is not a function of PyTorch",
    "y = os.system('x')": "'os' has no value here",
    "y = __import__('os')": "'__import__' is not a function of PyTorch",
    "y = eval('1')": "'eval' is not a function of PyTorch",
    "y = torch.load('x')": "hetgym does not know the function torch.load",
    "y = torch.nn.functional.secret(L_x_)": "does not know the function torch.nn.functional.secret",
    "y = L_x_.tolist()": "does not know a tensor's method 'tolist'",
    "y = L_x_.__class__": "does not know a tensor's attribute '__class__'",
    "y = L_x_.view(3, 7)": r"\[2, 3, 8, 8\] cannot become \[3, 7\]",
    "y = L_x_ + L_x_[0, :2]": "do not broadcast",
    "y = L_x_.expand(10**14, 10**14, 8, 8)": "does not expand",
    "y = torch.zeros(1 << 40, 1 << 40)": "more than 2\\*\\*48 elements",
    "y = torch.zeros(9**9**9)": "a number is too large",
    "y = 'a' * 1000000000": "no operand is a tensor",
    "y = [None] * 1000000000": "a list has more than 32768 values",
    "y = L_x_.nonzero()": "does not know a tensor's method 'nonzero'",
    "y = L_x_[L_x_ > 0]": "the number of results depends on data",
    "y = torch.zeros(5000, 2).unbind(0)": "5000 results",
    "y = torch.zeros(1000000000).split(1)": "1000000000 elements in pieces of 1",
    "y = torch.conv2d(L_x_)": "the argument 'weight' is missing",
    "y = torch.conv2d(L_x_, L_x_, None, 0)": "a stride is not above 0",
    "y = z": "'z' has no value here",
    "y = " + "(" * 150 + "1" + ")" * 150 + "\nreturn (L_x_,)": "nothing is computed",
    "y = " + "(" * 500 + "1" + ")" * 500: "not Python|nested too deeply",
    "y = " + "-" * 5000 + "1": "nested too deeply",
    "y = " + "L_x_" + ".T" * 5000: "nested too deeply",
    "y = " + "+".join(["1"] * 20000): "nested too deeply",
    "y = " + "+".join(["1"] * 90): "nested too deeply",
    "y = [" + "1, " * 40000 + "]": "longer than 65536 characters",
    "y = (": "not Python",
    "y = 9" + "9" * 5000: "not Python",
    "y = L_x_ + '\0'": "not Python",
    "return (L_x_,)\ny = 1": "a statement follows the return",
    "y = L_x_ * 2": "forward returns nothing",
    "return (L_x_,)": "nothing is computed",
    "a = (1, 1)\n" + "\n".join("a = (a, a)" for _ in range(40)): "a list has more than 32768 values",
    "a = [1]\n" + "\n".join("a = [a]" for _ in range(100)): "lists are nested too deeply",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=[f"{k}: {body[:24]!r}" for k, body in enumerate(BODIES)])
def test_bad_text_is_refused_in_a_sentence(body: str, tmp_path: Path) -> None:
    file = write(tmp_path, body, X)
    with pytest.raises(GraphError, match=BODIES[body]) as found:
        from_graphnet(file)
    text = str(found.value)
    assert text.startswith(str(file)) and text.isprintable() and len(text) < 1000


def test_too_many_nodes_are_refused(tmp_path: Path) -> None:
    lines = ["p = L_x_[0, 0, 0]", "y = torch.zeros(4000, 1)", *["q = y.unbind(0)"] * 40, "return (p,)"]
    with pytest.raises(GraphError, match="more than 65536 nodes"):
        from_graphnet(write(tmp_path, "\n".join(lines), X))


TEXTS = {
    "import os\nos.system('x')\n": "not a GraphNet model",
    "print('hello')\n": "not a GraphNet model",
    "": "not a GraphNet model",
    "import paddle\n\n\nclass GraphModule(paddle.nn.Layer):\n    pass\n": "a Paddle model of GraphNet",
    model_text("return (L_x_,)", X) + "import os\n": "line 12: 'import os'; a GraphNet model only imports torch",
    model_text("return (L_x_,)", X) + "    def g(self):\n        pass\n": "must have one method, forward",
    model_text("return (L_x_,)", {"L_x_=print()": X["L_x_"]}): "is not an argument with a plain type",
    model_text("return (L_x_,)", {"L_z_": X["L_x_"]}): "weight_meta.py does not state the type of the argument 'L_z_'",
    "class GraphModule(torch.nn.Module):\n    def forward(self\n": "the arguments of forward do not end",
    "\udcff": "not UTF-8 text",
}


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_other_python_is_not_a_model(text: str, tmp_path: Path) -> None:
    file = write(tmp_path, "return (L_x_,)", X)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(GraphError, match=TEXTS[text]):
        load_graph(file)


def test_files_that_are_too_long_or_missing(tmp_path: Path) -> None:
    file = write(tmp_path, "return (L_x_,)", X)
    file.write_text("#" * (TEXT_LIMIT + 1))
    with pytest.raises(GraphError, match="model.py: longer than 8 MiB"):
        from_graphnet(file)
    write(tmp_path, "y = L_x_ * 2\nreturn (y,)", X)
    (tmp_path / "weight_meta.py").unlink()
    with pytest.raises(GraphError, match="weight_meta.py: no such file"):
        from_graphnet(tmp_path)
    with pytest.raises(GraphError, match="no such file"):
        load_graph("nothing.py")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (types_text(X).replace("[2, 3, 8, 8]", "[-1]"), "'L_x_': a result has a negative size"),
        (types_text(X).replace("[2, 3, 8, 8]", "print()"), "needs the fields name, shape and dtype"),
        (types_text(X).replace("[2, 3, 8, 8]", "[2.5]"), r"shape is \[2.5\], not a list of sizes"),
        (types_text(X).replace("float32", "float3"), "unknown dtype 'float3'"),
        ("import os\n", "line 1: 'import os' does not begin a class"),
    ],
)
def test_bad_types_are_refused(types: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, "y = L_x_ * 2\nreturn (y,)", X)
    (tmp_path / "weight_meta.py").write_text(types)
    with pytest.raises(GraphError, match=message):
        from_graphnet(file)


@pytest.mark.skipif(not REAL.is_dir(), reason="no models of GraphNet in HETGYM_DATA")
def test_real_models() -> None:
    files = sorted(REAL.glob("**/model.py"))
    read = 0
    for file in files:
        try:
            graph = from_graphnet(file)
        except HetgymError as error:
            assert str(error).startswith(str(file.parent))
        else:
            read += 1
            assert graph.flops.sum() > 0
    assert read >= 0.9 * len(files) > 0
