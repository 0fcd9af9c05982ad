"""The script that fits GPUs and prices transformers: what it may read, and the rules by which nodes become kernels."""

from __future__ import annotations

import argparse
import builtins
import csv
import gzip
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hetgym.costs import artefact, gpu_fit
from hetgym.costs.gpu_eager import EagerGpuCosts
from hetgym.costs.roofline import Roofline
from hetgym.device import Device

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "costs" / "neusight.py"
COLUMNS = {
    "linear": ("B", "M", "N", "K"),
    "bmm": ("B", "M", "N", "K"),
    "elem": ("B", "H"),
    "softmax": ("B", "H"),
    "ln": ("B", "H"),
    "conv": ("B", "Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding"),
}
NAMES = {"elem": "addu", "softmax": "softmax", "ln": "ln", "linear": "linear", "bmm": "bmm", "conv": "conv"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("lightgbm")
    path = list(sys.path)
    sys.path.insert(0, str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("benchmark_costs_neusight", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = path  # the script finds its neighbours there
    return module


@pytest.fixture
def folder(tmp_path, script):
    """Three GPUs that reach half of their peak, 20 us after a launch; everything but the training split is rubbish."""
    (tmp_path / "ops").mkdir()
    rng = np.random.default_rng(0)
    names = ("Tesla P4", "Tesla T4", "NVIDIA A100-PCIE-40GB")
    for name, columns in COLUMNS.items():
        with gzip.open(tmp_path / "ops" / f"train_{name}.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["OPName", "Latency", "Device", *columns])
            for device in names:
                for _ in range(60):
                    sizes = [int(rng.integers(8, 600)) for _ in columns]
                    if name == "conv":
                        sizes[3:] = [3, int(rng.integers(8, 60)), 1, 1]
                    sizes = [1, *sizes[1:]] if name == "linear" else sizes
                    row = dict(zip(columns, map(str, sizes), strict=True)) | {"OPName": NAMES[name], "Device": device}
                    gpu = script.GPUS[device]
                    sample = gpu_fit.Sample.of(sorted(gpu_fit.CLASSES)[0], gpu, [read(script, row)], np.ones(1))
                    writer.writerow([NAMES[name], f"{2e3 * sample.physics('linear')[0] + 0.02:.9f}", device, *sizes])
        (tmp_path / "ops" / f"test_{name}.csv.gz").write_bytes(b"rubbish")
    for name in ("e2e_models.csv", "perop_models.csv.gz"):
        (tmp_path / name).write_bytes(b"\xff rubbish")
    return tmp_path


def read(script, row):
    return sys.modules["_neusight"].operator(row)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(gpu_fit, "ROUNDS", {"products": 12, "rows": 12})
    monkeypatch.setattr(gpu_fit, "LEAVES", {"products": 4, "rows": 4})
    monkeypatch.setattr(gpu_fit, "OTHERS", {"batched": (8, 0.1)})


def test_a_fit_reads_the_training_split_alone(script, folder, quick, monkeypatch, tmp_path):
    opened = []
    real = gzip.open
    monkeypatch.setattr(
        gzip, "open", lambda path, *args, **kw: opened.append(Path(path).name) or real(path, *args, **kw)
    )
    plain = builtins.open
    monkeypatch.setattr(
        builtins, "open", lambda path, *args, **kw: opened.append(str(path)) or plain(path, *args, **kw)
    )
    arguments = ["neusight.py", "fit", "--data", str(folder), "--out", str(tmp_path / "a.npz")]
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    ours = {Path(name).name for name in opened if ".csv" in name}
    assert ours == {f"train_{name}.csv.gz" for name in COLUMNS}
    model = EagerGpuCosts.load(tmp_path / "a.npz")
    card = model.card
    assert model.classes["batched"].others is not None and len(model.gpus) == 3
    assert card["devices"] == ["NVIDIA A100-PCIE-40GB", "Tesla P4", "Tesla T4"]
    first = (tmp_path / "a.npz").read_bytes()
    script.main()
    assert (tmp_path / "a.npz").read_bytes() == first


def test_a_held_out_gpu_is_not_fitted(script, folder, quick, monkeypatch):
    train = [s for s in script.samples(folder, "train", ("elem",))]
    seen = []
    real = gpu_fit.fit_class
    monkeypatch.setattr(
        gpu_fit,
        "fit_class",
        lambda kind, samples, seed: seen.append([s.device.name for s in samples]) or real(kind, samples, seed),
    )
    answers = gpu_fit.held_out("elementwise", train, 0)
    assert [set(answers) - set(names) for names in seen] == [{name} for name in answers]
    broken = [
        gpu_fit.Sample(s.kind, s.device, s.table, s.seconds * 7) if s.device.name == "Tesla T4" else s for s in train
    ]
    again = gpu_fit.held_out("elementwise", broken, 0)
    np.testing.assert_array_equal(answers["Tesla T4"][0], again["Tesla T4"][0])  # its times play no part


def test_rows_become_operators(script):
    neusight = sys.modules["_neusight"]
    row = {"OPName": "linear", "B": "1", "M": "7", "N": "5", "K": "3"}
    assert neusight.operator(row).flops == 2 * 7 * 5 * 3
    assert neusight.operator({**row, "OPName": "bmm", "B": "4"}).flops == 4 * 2 * 7 * 5 * 3
    twice = neusight.operator({"OPName": "add", "B": "8", "H": "16"})
    once = neusight.operator({"OPName": "addu", "B": "8", "H": "16"})
    assert (twice.bytes_read, once.bytes_read, once.bytes_written) == (2 * 512, 512, 512)


def test_nodes_become_kernels(script):
    pytorch, neusight = sys.modules["_pytorch"], sys.modules["_neusight"]
    dense = neusight.Node("dense", "Linear", ((2, 8, 16),), (2, 8, 32))
    turned = neusight.Node("permute_3", "misc", ((2, 8, 4, 8),), (2, 4, 8, 8))
    copy = neusight.Node("contiguous", "contiguous", ((2, 4, 8, 8),), (2, 4, 8, 8))
    drop = neusight.Node("h_drop", "misc", ((2, 8, 32),), (2, 8, 32))
    scores = neusight.Node("matmul_4", "Linear", ((2, 4, 8, 16), (2, 4, 16, 8)), (2, 4, 8, 8))
    assert [op.flops for op in pytorch.forward(dense, [], False)] == [2 * 16 * 16 * 32]
    assert [op.kind for op in pytorch.backward(dense, [])] == ["Gemm", "Gemm", "ReduceSum", "Add", "Add"]
    assert [op.flops for op in pytorch.backward(dense, [])][:2] == [2 * 16 * 16 * 32] * 2
    assert pytorch.forward(copy, [turned], False) and not pytorch.forward(copy, [dense], False)
    assert pytorch.forward(drop, [], True) and not pytorch.forward(drop, [], False)
    assert [op.kind for op in pytorch.forward(scores, [], False)] == ["MatMul"]
    assert sum(op.flops for op in pytorch.backward(scores, [])) == 2 * pytorch.forward(scores, [], False)[0].flops


def test_two_clocks(script):
    """The host runs ahead of long kernels, short kernels wait for the host, and a mask makes the host wait."""
    pytorch, neusight = sys.modules["_pytorch"], sys.modules["_neusight"]
    gpu = Device("g", "gpu", {"float32": 1e12}, 1e11)
    run = neusight.Run("g", "net-inf-8-1", 0, 1.0, 1.0)
    long = [neusight.Node("dense", "Linear", ((1024, 1024),), (1024, 1024))] * 3
    each = Roofline().predict(pytorch.forward(long[0], [], False), gpu)[0]
    assert pytorch.simulate(run, long, Roofline(), gpu) == pytest.approx(pytorch.HOST + 3 * each)
    short = [neusight.Node("relu", "VECrelu", ((2, 2),), (2, 2))] * 50
    assert pytorch.simulate(run, short, Roofline(), gpu) == pytest.approx(50 * pytorch.HOST, rel=0.01)
    mask = neusight.Node("getitem", "getitem", ((8, 1), (8, 8)), (8, 1))
    free = pytorch.simulate(run, [*long, *short], Roofline(), gpu)
    assert pytorch.simulate(run, [*long, mask, *short], Roofline(), gpu) > free + 40 * pytorch.HOST


def test_layers_are_repeated_in_order(script):
    pytorch = sys.modules["_pytorch"]
    assert pytorch.layered([1, 1, 3, 3, 1]) == [0, 1, 2, 3, 2, 3, 2, 3, 4]
    assert pytorch.layered([1, 1]) == [0, 1]


def test_the_shipped_artefact_prices_every_gpu_of_the_script(script):
    costs = EagerGpuCosts.load(artefact.locate("gpu-eager-fp32"))
    op = read(script, {"OPName": "linear", "B": "1", "M": "4096", "N": "4096", "K": "4096"})
    share = {
        name: op.flops / gpu.peak_flops["float32"] / costs.predict([op], gpu)[0] for name, gpu in script.GPUS.items()
    }
    assert all(0.1 < value < 1 for value in share.values())


@pytest.mark.skipif("HETGYM_DATA" not in os.environ, reason="needs NeuSight's data; see benchmarks/costs/neusight.py")
def test_published_scores_hold(script):
    """The figures of docs/costs.md: the H100's operators, and 52 whole runs."""
    folder = Path(os.environ["HETGYM_DATA"]) / "neusight"
    if not folder.exists():
        pytest.skip(f"{folder} does not exist")
    arguments = argparse.Namespace(data=folder, costs="gpu-eager-fp32", picture=None, graphs=None)
    rows = {row["what"]: row for row in script.ops(arguments)}
    assert rows["unseen H100, mean over classes"]["mean"] < 0.11
    rows = {row["what"]: row for row in script.models(arguments)}
    assert rows["hetgym, all"]["n"] == rows["NeuSight, all"]["n"] == 52
    assert rows["hetgym, all"]["mean"] < 0.065 < rows["NeuSight, all"]["mean"]
