"""The script that fits GPUs and prices transformers: what it may read, and the rules by which nodes become kernels."""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hetgym.costs import artefact
from hetgym.costs.gpu import fit as gpu_fit
from hetgym.costs.gpu.eager import EagerGpuCosts
from hetgym.costs.roofline import Roofline
from hetgym.device import Device

SCRIPT = Path(__file__).parents[2] / "scripts" / "fit" / "neusight.py"
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
    """Four GPUs that reach half of their peak, 20 us after a launch, and one model that was run on each."""
    (tmp_path / "ops").mkdir()
    rng = np.random.default_rng(0)
    names = ("Tesla P4", "Tesla T4", "NVIDIA A100-PCIE-40GB", "Tesla P100-PCIE-16GB")
    for split in ("train", "test"):
        for name, columns in COLUMNS.items():
            with gzip.open(tmp_path / "ops" / f"{split}_{name}.csv.gz", "wt", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["OPName", "Latency", "Device", *columns])
                for device in names:
                    for _ in range(60):
                        sizes = [int(rng.integers(8, 600)) for _ in columns]
                        if name == "conv":
                            sizes[3:] = [3, int(rng.integers(8, 60)), 1, 1]
                        sizes = [1, *sizes[1:]] if name == "linear" else sizes
                        row = dict(zip(columns, map(str, sizes), strict=True))
                        row |= {"OPName": NAMES[name], "Device": device}
                        gpu = script.GPUS[device]
                        sample = gpu_fit.Sample.of("conv", gpu, [read(script, row)], np.ones(1))
                        milliseconds = 2e3 * sample.bound()[0] + 0.02
                        writer.writerow([NAMES[name], f"{milliseconds:.9f}", device, *sizes])
    (tmp_path / "e2e_models.csv").write_text(
        "device,model,num_layer,label_e2e,neusight\n"
        + "".join(f"{name.replace(' ', '_')},net-inf-8-1,0,{i + 5.0},{i + 6.0}\n" for i, name in enumerate(names))
    )
    with gzip.open(tmp_path / "perop_models.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dev", "model", "Name", "OpName", "input_shapes", "output_shape"])
        writer.writerow(["Tesla_P4", "net-inf-8-1", "dense", "Linear", "[[2048, 2048]]", "(2048, 2048)"])
        writer.writerow(["Tesla_P4", "net-inf-8-1", "relu", "VECrelu", "[[2048, 2048]]", "(2048, 2048)"])
    return tmp_path


def read(script, row):
    return sys.modules["_neusight"].operator(row)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(gpu_fit, "ROUNDS", {"linear": 6, "batched": 6, "conv": 6, "rows": 6})
    monkeypatch.setattr(gpu_fit, "LEAVES", {"linear": 4, "batched": 4, "conv": 4, "rows": 4})


@pytest.mark.slow
def test_a_fit_gives_the_same_bytes_and_says_what_it_read(script, folder, quick, monkeypatch, tmp_path):
    out = tmp_path / "a.npz"
    monkeypatch.setattr(sys, "argv", ["neusight.py", "fit", "--data", str(folder), "--out", str(out)])
    script.main()
    model = EagerGpuCosts.load(out)
    assert len(model.shares) == 4 and set(model.card["held out GPU, mean absolute error"]) == {
        *gpu_fit.CLASSES,
        "model",
    }
    assert model.scatter[0] < model.scatter[1] and "test" in model.card["split"]
    first = out.read_bytes()
    script.main()
    assert out.read_bytes() == first


@pytest.mark.slow
def test_nothing_of_a_held_out_board_plays_a_part(script, folder, quick):
    """Neither its tables nor its runs: with both spoiled, it gets the same prices."""
    unseen = sys.modules["_unseen"]
    name = "Tesla T4"
    first = unseen.outcome(unseen.Laboratory(folder, None, 0), name)
    for path in (folder / "ops").glob("*.csv.gz"):
        with gzip.open(path, "rt", newline="") as file:
            rows = list(csv.reader(file))
        with gzip.open(path, "wt", newline="") as file:
            csv.writer(file).writerows([*r[:1], "7.7", *r[2:]] if r[2] == name else r for r in rows)
    runs = (folder / "e2e_models.csv").read_text().splitlines()
    spoiled = [line.replace(",6.0,", ",60.0,") if line.startswith("Tesla_T4") else line for line in runs]
    assert spoiled != runs
    (folder / "e2e_models.csv").write_text("\n".join(spoiled))
    again = unseen.outcome(unseen.Laboratory(folder, None, 0), name)
    assert (again.costs.sustained, again.clocks) == (first.costs.sustained, first.clocks)
    np.testing.assert_allclose(again.ratios, first.ratios / 10)
    other = unseen.outcome(unseen.Laboratory(folder, None, 0), "Tesla P4")
    assert other.costs.sustained != unseen.outcome(unseen.Laboratory(folder, None, 0), name).costs.sustained


def test_percentiles_count_each_board_once(script):
    unseen = sys.modules["_unseen"]
    many, few = np.zeros(1000), np.array([1.0, 1.0])
    assert unseen.pooled([many, few]) == (0.0, 1.0)


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
    softmax = neusight.Node("softmax", "VECsoftmax", ((2, 4, 8, 8),), (2, 4, 8, 8))
    assert [op.kind for op in pytorch.backward(softmax, [])] == ["Mul", "Softmax"]
    larger = neusight.Node("max", "max", ((2, 4, 8, 8),), (2, 4, 8, 8))
    moved = sum(op.bytes_read + op.bytes_written for op in pytorch.backward(larger, []))
    assert moved == 512 * 40  # bytes for each of 512 elements, of which 4 are comparisons' masks, written or read


def test_two_clocks(script):
    """The host runs ahead of long kernels, short kernels wait for the host, and a mask makes the host wait."""
    pytorch, neusight = sys.modules["_pytorch"], sys.modules["_neusight"]
    gpu = Device("g", "gpu", {"float32": 1e12}, 1e11)
    run = neusight.Run("g", "net-inf-8-1", 0, 1.0, 1.0)
    long = [neusight.Node("dense", "Linear", ((1024, 1024),), (1024, 1024))] * 3
    clocks = pytorch.Clocks(gap=0.0)
    each = Roofline().predict(pytorch.forward(long[0], [], False), gpu)[0]
    assert pytorch.simulate(run, long, Roofline(), gpu, clocks) == pytest.approx(clocks.host + 3 * each)
    short = [neusight.Node("relu", "VECrelu", ((2, 2),), (2, 2))] * 50
    assert pytorch.simulate(run, short, Roofline(), gpu, clocks) == pytest.approx(50 * clocks.host, rel=0.01)
    mask = neusight.Node("getitem", "getitem", ((8, 1), (8, 8)), (8, 1))
    free = pytorch.simulate(run, [*long, *short], Roofline(), gpu, clocks)
    assert pytorch.simulate(run, [*long, mask, *short], Roofline(), gpu, clocks) > free + 40 * clocks.host


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


@pytest.mark.skipif("HETGYM_DATA" not in os.environ, reason="needs NeuSight's data; see scripts/fit/neusight.py")
def test_published_scores_hold(script):
    """The shipped artefact is fitted to these runs; the result costs-gpu-unseen has the figures of boards held out."""
    folder = Path(os.environ["HETGYM_DATA"]) / "neusight"
    if not folder.exists():
        pytest.skip(f"{folder} does not exist")
    arguments = argparse.Namespace(data=folder, costs="gpu-eager-fp32", picture=None, graphs=None)
    rows = {row["what"]: row for row in script.models(arguments)}
    assert rows["hetgym, all"]["n"] == rows["NeuSight, all"]["n"] == 52
    assert rows["hetgym, all"]["mean"] < 0.05 < rows["NeuSight, all"]["mean"]
