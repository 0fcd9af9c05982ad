"""Saved PyTorch programs: the same graphs as from their modules, and damage in one sentence."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import hetgym
from hetgym.errors import GraphError, HetgymError, HetgymWarning
from hetgym.graph import DataflowGraph, from_pt2, from_torch, load_graph
from tests.effort import examples

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*_flat_weights:UserWarning")


class Block(nn.Module):
    """A transformer block with heads by hand, a mask and a norm in front."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) / 2.0
        mask = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, s, 16))
        return x + self.mlp(self.norm2(x))


class Tied(nn.Module):
    """Weights under two names, a position table as a buffer, several results."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("places", torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.table(x) + self.places
        first, second = self.head(y).split([4, 5], -1)
        return {"first": first.max(-1).values, "second": [second, y @ self.table.weight.t()]}


MODULES = {
    "cnn": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8, padding="same"), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Dropout(0.5), nn.Linear(8, 5),
        ),
        (torch.zeros(2, 3, 16, 16),),
    ),
    "block": (Block(), (torch.zeros(2, 6, 16),)),
    "torch's own block": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (torch.zeros(2, 6, 16),)),
    "tied": (Tied(), (torch.zeros(2, 3, dtype=torch.long),)),
    "lstm": (nn.LSTM(5, 3, 2), (torch.zeros(7, 2, 5),)),
    "half": (nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to(torch.bfloat16), (torch.zeros(2, 4, dtype=torch.bfloat16),)),
}  # fmt: skip


def saved(module: nn.Module, args: tuple[Any, ...], path: Path, **options: Any) -> Path:
    with torch.no_grad():
        program = torch.export.export(module.eval(), args, strict=False, **options)
    torch.export.save(program, path)
    return path


@pytest.mark.parametrize("case", MODULES)
def test_a_saved_program_gives_the_graph_of_its_module(case: str, tmp_path: Path) -> None:
    module, args = MODULES[case]
    expected = from_torch(module, args, name="net")
    found = load_graph(saved(module, args, tmp_path / "net.pt2"))
    assert found.name == "net" and found.operators == expected.operators
    assert found.edges == expected.edges


def essence(graph: DataflowGraph) -> list[Any]:
    return [(op.kind, op.flops, op.bytes_read, [tensor.shape for tensor in op.outputs]) for op in graph.operators]


def test_operators_in_place_count_as_others_do(tmp_path: Path) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.relu(self.norm(self.conv(x)))
            z = self.norm(self.conv(y))
            z += y
            return F.dropout(self.relu(z), inplace=True, training=self.training)

    module, args = Residual(), (torch.zeros(1, 4, 8, 8),)
    found = from_pt2(saved(module, args, tmp_path / "r.pt2"))
    expected = from_torch(module, args)
    assert essence(found) == essence(expected) and found.edges == expected.edges


def test_what_others_read_may_not_change_in_place(tmp_path: Path) -> None:
    class Update(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = x.clone()
            z[0] = y
            return z + 1

    args = (torch.zeros(2, 3), torch.zeros(3))
    path = saved(Update(), args, tmp_path / "u.pt2")
    with pytest.raises(GraphError, match=r"u\.pt2: operator .* changes in place .* save program.run_decompositions"):
        from_pt2(path)
    torch.export.save(torch.export.export(Update(), args).run_decompositions({}), path)
    assert [op.kind for op in from_pt2(path).operators][-1] == "Add"


def test_a_dynamic_dimension_has_the_size_of_the_example(tmp_path: Path) -> None:
    module, args = Block(), (torch.zeros(2, 6, 16),)
    batch = {"dynamic_shapes": {"x": {0: torch.export.Dim("batch")}}}
    found = from_pt2(saved(module, args, tmp_path / "b.pt2", **batch))
    products = [op.flops for op in from_torch(module, args).operators if op.kind in ("Gemm", "MatMul")]
    assert [op.flops for op in found.operators if op.kind in ("Gemm", "MatMul")] == products


def test_nothing_of_a_file_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    path = saved(*MODULES["cnn"], tmp_path / "net.pt2")
    members = unpacked(path.read_bytes())
    for name in members:
        if "sample_inputs" in name or "weights/weight" in name:
            members[name] = pickle.dumps(Trap())
    path.write_bytes(packed(members))
    assert len(from_pt2(path)) > 5 and not (tmp_path / "sprung").exists()
    program = [name for name in members if "/models/" in name][0]
    document = json.loads(members[program])
    document["range_constraints"] = {"__import__('pathlib').Path('sprung').touch()": {"min_val": 0, "max_val": 1}}
    members[program] = json.dumps(document).encode()
    path.write_bytes(packed(members))
    assert len(from_pt2(path)) > 5 and not Path("sprung").exists()


def test_unknown_operators_warn_once(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i0(torch.digamma(x))

    path = saved(Odd(), (torch.zeros(5),), tmp_path / "odd.pt2")
    with pytest.warns(HetgymWarning, match="digamma"):
        found = from_pt2(path)
    assert len(found) == 2


def test_a_program_keeps_its_batch(tmp_path: Path) -> None:
    path = saved(*MODULES["cnn"], tmp_path / "net.pt2")
    assert load_graph(path, batch=None).operators == load_graph(path).operators
    with pytest.raises(GraphError, match=r"net\.pt2: a saved program keeps the batch"):
        load_graph(path, batch=4)
    problem = hetgym.Problem.build(load_graph(path), hetgym.load_platform("cpu-gpu"))
    assert problem.num_devices == 2


# Damage


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def program(**changes: Any) -> dict[str, Any]:
    """A document of one operator, ``y = relu(x)``, with changes of its graph."""
    size = {"as_int": 3}
    meta = {"dtype": 7, "sizes": [size], "strides": [{"as_int": 1}]}
    x, y = ({"as_tensor": {"name": name}} for name in "xy")
    graph = {
        "inputs": [x],
        "outputs": [y],
        "nodes": [{"target": "torch.ops.aten.relu.default", "inputs": [{"name": "self", "arg": x}], "outputs": [y]}],
        "tensor_values": {"x": meta, "y": meta},
    }
    module = {"graph": graph | changes, "signature": {"input_specs": [{"user_input": {"arg": x}}]}}
    return {"schema_version": {"major": 8, "minor": 1}, "graph_module": module}


def written(tmp_path: Path, document: Any, name: str = "net/models/model.json") -> Path:
    path = tmp_path / "net.pt2"
    path.write_bytes(packed({"net/archive_format": b"pt2", name: json.dumps(document).encode()}))
    return path


X, Y = ({"as_tensor": {"name": name}} for name in "xy")
META = {"dtype": 7, "sizes": [{"as_int": 3}], "strides": [{"as_int": 1}]}


def call(target: str, *inputs: Any, output: Any = Y) -> list[Any]:
    rows = [{"name": f"a{k}", "arg": arg} for k, arg in enumerate(inputs)]
    return [{"target": target, "inputs": rows, "outputs": [output]}]


BAD = [
    ([], "the program is a list, not an object"),
    ({}, "schema_version is null"),
    (program() | {"schema_version": {"major": 9}}, "schema_version is 9; this hetgym reads version 8"),
    (program(nodes={}), "nodes is an object, not a list"),
    (program(nodes=[3]), r"nodes\[0\] is a number"),
    (program(outputs=[X]), "nothing is computed"),
    (program(nodes=call("torch.ops.aten.relu.default", {"as_tensor": {"name": "z"}})), "reads 'z', which no earlier"),
    (program(nodes=2 * call("torch.ops.aten.relu.default", X)), "makes 'y', which exists already"),
    (program(nodes=call("torch.ops.aten.relu.default", {})), "has 0 fields, not one"),
    (program(nodes=call("torch.ops.aten.conv2d.default", X)), "arguments that PyTorch's does not take|no valid Conv"),
    (program(nodes=call("torch.ops.aten.reshape.default")), "arguments that PyTorch's does not take"),
    (program(nodes=call("torch.ops.aten.contiguous.default", {"as_int": 3})), "does not take|Copy"),
    (program(nodes=call("torch.ops.aten.relu_.default", X)), "changes in place"),
    (program(tensor_values={"x": META}), r"tensor_values\['y'\] is null"),
    (program(tensor_values={"x": META, "y": META | {"dtype": 99}}), "has the unknown dtype 99"),
    (program(tensor_values={"x": META, "y": META | {"dtype": "f"}}), "has the unknown dtype 'f'"),
    (program(tensor_values={"x": META, "y": META | {"sizes": [{"as_int": -1}]}}), "sizes is -1, not a non-negative"),
    (program(tensor_values={"x": META, "y": META | {"sizes": [{"as_int": 1 << 60}]}}), "out of range"),
    (program(tensor_values={"x": META, "y": META | {"sizes": []}}), "has 0 sizes but 1 strides"),
    (program(tensor_values={"x": META, "y": META | {"sizes": [{"as_expr": {"expr_str": "u0"}}]}}), "depends on data"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), BAD, ids=range(len(BAD)))
def test_bad_programs_are_refused_in_a_sentence(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        from_pt2(written(tmp_path, document))
    assert "net.pt2" in str(caught.value) and str(caught.value).isprintable()


def test_bad_archives(tmp_path: Path) -> None:
    path = written(tmp_path, program())
    assert [op.kind for op in from_pt2(path).operators] == ["Relu"]
    whole = path.read_bytes()
    body = json.dumps(program()).encode()
    for data, message in (
        (b"", "not a readable archive"),
        (b"no archive", "not a readable archive"),
        (whole[:-30], "not a readable archive"),
        (packed({"net/archive_format": b"pt2"}), "the archive holds 0 programs"),
        (packed({"net/models/a.json": body, "net/models/b.json": body}), "the archive holds 2 programs"),
        (packed({"net/models/a.json": b"{"}), "not JSON"),
        (packed({"net/models/a.json": b"\xff"}), "not UTF-8"),
        (packed({"net/models/a.json": b"[" * 10_000}), "nested too deeply"),
        (packed({"net/models/a.json": b" " * (65 << 20)}, zipfile.ZIP_DEFLATED), "longer than 64 MiB"),
        (packed({"net/models/a.json": body}, zipfile.ZIP_LZMA), "unsupported compression"),
        (packed({f"net/{'x' * 9000}{k}": b"" for k in range(2000)}), "its directory is too long"),
    ):
        path.write_bytes(data)
        with pytest.raises(GraphError, match=message) as caught:
            from_pt2(path)
        assert "net.pt2" in str(caught.value) and str(caught.value).isprintable()
    with pytest.raises(GraphError, match="no such file"):
        load_graph(tmp_path / "gone.pt2")


JUNK = st.sampled_from(
    [None, True, -1, 0, 7, 1 << 61, 10**30, 0.5, "", "x", "conv2d", [], {}, [1], [[]], {"as_int": 3}, X,
     {"as_tensors": [X]}, {"name": "x"}, "torch.ops.aten.view.default", "torch.ops.aten.lstm.input",
     "torch.ops.aten.add_.Tensor"]
)  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = saved(*MODULES["block"], tmp_path_factory.mktemp("real") / "net.pt2")
    return {name: data for name, data in unpacked(path.read_bytes()).items() if name.endswith(".json")}


@examples(150)
@pytest.mark.filterwarnings("ignore::hetgym.errors.HetgymWarning")
@given(data=st.data())
def test_any_damage_is_a_graph_or_one_sentence(
    data: st.DataObject, real: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    members = dict(real)
    name = data.draw(st.sampled_from(sorted(members)))
    document = json.loads(members[name])
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = document
        while place:
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(list(keys)))
            if isinstance(place[key], dict | list) and data.draw(st.integers(0, 9)) > 0:
                place = place[key]
                continue
            if data.draw(st.booleans()):
                place[key] = data.draw(JUNK)
            else:
                del place[key]
            break
    members[name] = json.dumps(document).encode()
    path = tmp_path_factory.mktemp("damage") / "net.pt2"
    path.write_bytes(packed(members))
    try:
        from_pt2(path)
    except HetgymError as error:
        assert str(error).isprintable()
