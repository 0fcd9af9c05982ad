"""NeuSight's public measurements as operators, samples and model runs; read by ``neusight.py``."""

from __future__ import annotations

import ast
import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetgym.costs.gpu.fit import Sample
from hetgym.costs.gpu.sheets import sheet
from hetgym.device import Device
from hetgym.graph import Operator, Tensor

PYTORCH_CLASSES = {
    "linear": "linear",
    "bmm": "batched",
    "conv": "conv",
    "elem": "elementwise",
    "softmax": "softmax",
    "ln": "layernorm",
}
"""Name of a file -> its class of operators."""

KINDS = {
    "add": "Add",
    "addu": "Add",
    "mul": "Mul",
    "mulu": "Mul",
    "div": "Div",
    "divu": "Div",
    "pow": "Pow",
    "powu": "Pow",
    "relu": "Relu",
    "gelu": "Gelu",
    "tanh": "Tanh",
    "softmax": "Softmax",
    "ln": "LayerNormalization",
}
"""NeuSight's name of an operator -> hetgym's kind; a trailing u marks an operator with a scalar."""

_BINARY = ("add", "mul", "div", "pow")


def _gpu(name: str, tflops: float, bandwidth: float, processors: int, cache: float, source: str) -> Device:
    known = sheet(Device(name, "gpu", {"float32": tflops * 1e12}, bandwidth * 1e9))
    return Device(
        name,
        "gpu",
        {"float32": tflops * 1e12},
        bandwidth * 1e9,
        processors=processors,
        cache_bytes=cache * 1e6,
        power_limit=known.power or None,
        process=known.process or None,
        lanes=int(known.lanes) or None,
        model=name,
        source=source,
    )


GPUS: dict[str, Device] = {
    gpu.name: gpu
    for gpu in (
        _gpu("Tesla P4", 5.5, 192, 20, 2, "NVIDIA Tesla P4 data sheet (2016); Pascal tuning guide"),
        _gpu("Tesla P100-PCIE-16GB", 9.3, 732, 56, 4, "NVIDIA Tesla P100 PCIe data sheet (2016)"),
        _gpu("Tesla V100-PCIE-32GB", 14.0, 900, 80, 6, "NVIDIA V100 data sheet (2018)"),
        _gpu("Tesla T4", 8.1, 320, 40, 4, "NVIDIA T4 data sheet (2019); Turing architecture whitepaper"),
        _gpu("NVIDIA A100-PCIE-40GB", 19.5, 1555, 108, 40, "NVIDIA A100 data sheet (2021)"),
        _gpu("NVIDIA A100 80GB PCIe", 19.5, 1935, 108, 40, "NVIDIA A100 data sheet (2021)"),
        _gpu("NVIDIA H100 80GB HBM3", 66.9, 3350, 132, 50, "NVIDIA H100 SXM data sheet; Hopper whitepaper (2022)"),
        _gpu("NVIDIA L4", 30.3, 300, 58, 48, "NVIDIA L4 data sheet (2023); Ada architecture whitepaper"),
    )
}
"""Data sheets: float32 TFLOP/s at boost without matrix units, GB/s, multiprocessors, L2 cache in MB."""


def table(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def operator(row: dict[str, str]) -> Operator:
    """The operator that a row of ``ops/*.csv.gz`` measured; bmm and linear are (B, M, N) x (B, N, K)."""
    name = row["OPName"]
    if name in ("bmm", "linear"):
        batch, m, k, n = (int(row[column]) for column in ("B", "M", "N", "K"))
        return linear(batch * m, k, n) if name == "linear" else product((batch,), m, k, n)
    if name == "conv":
        images, channels, filters = (int(row[c]) for c in ("B", "Input_Channel", "Output_Channel"))
        window, side, stride, padding = (int(row[c]) for c in ("Kernel_Szie", "Input_Size", "Stride", "Padding"))
        left = (side + 2 * padding - window) // stride + 1
        x = Tensor((images, channels, side, side))
        w = Tensor((filters, channels, window, window), constant=True)
        attributes = {"strides": (stride, stride), "pads": (padding,) * 4, "kernel_shape": (window, window)}
        return Operator("conv", "Conv", (x, w), (Tensor((images, filters, left, left)),), attributes)
    x = Tensor((int(row["B"]), int(row["H"])))
    return Operator(name, KINDS[name], (x, x) if name in _BINARY else (x,), (x,))


def linear(m: int, k: int, n: int) -> Operator:
    """[m, k] x [k, n] with a matrix of weights."""
    weights = Tensor((n, k), constant=True)
    return Operator("linear", "Gemm", (Tensor((m, k)), weights), (Tensor((m, n)),), {"transB": 1})


def product(batch: tuple[int, ...], m: int, k: int, n: int) -> Operator:
    """A batch of [m, k] x [k, n]."""
    return Operator("bmm", "MatMul", (Tensor((*batch, m, k)), Tensor((*batch, k, n))), (Tensor((*batch, m, n)),))


def samples(folder: Path, split: str, names: Sequence[str] = tuple(PYTORCH_CLASSES)) -> list[Sample]:
    """Measurements by class and GPU.

    Args:
        folder: NeuSight's data.
        split: ``train`` or ``test``; no other file is opened.
        names: keys of :data:`PYTORCH_CLASSES`.
    """
    result = []
    for name in names:
        path = folder / "ops" / f"{split}_{name}.csv.gz"
        if not path.exists():  # there are no convolutions in the test split
            continue
        rows: dict[str, list[dict[str, str]]] = {}
        for row in table(path):
            rows.setdefault(row["Device"], []).append(row)
        for device, own in sorted(rows.items()):
            seconds = np.array([float(row["Latency"]) for row in own]) * 1e-3
            result.append(
                Sample.of(PYTORCH_CLASSES[name], GPUS[device], [operator(row) for row in own], seconds, split)
            )
    return result


@dataclass(frozen=True)
class Node:
    """A node of a traced model: what NeuSight's tracer wrote, without any measurement."""

    name: str
    kind: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """A model that was run on a GPU.

    Args:
        device: key of :data:`GPUS`.
        model: such as ``gpt2_large-train-1024-4``: model, mode, tokens, batch.
        layers: number of repetitions of the traced layer; 0 if all layers are traced.
        measured: measured end-to-end time [s].
        neusight: NeuSight's prediction [s].
    """

    device: str
    model: str
    layers: int
    measured: float
    neusight: float

    @property
    def training(self) -> bool:
        """True if the run includes the backward pass."""
        return "-train-" in self.model


OTHER_RUNS = ("fusion", "dp4", "tp4", "pp4")
"""Runs with a compiler or on several GPUs, by a part of their name."""


def runs(folder: Path) -> list[Run]:
    """The single-GPU NVIDIA runs that NeuSight predicted."""
    result = []
    for row in table(folder / "e2e_models.csv"):
        device = row["device"].replace("_", " ")
        if device not in GPUS or any(part in row["model"] for part in OTHER_RUNS) or not row["neusight"]:
            continue
        layers = int(float(row["num_layer"] or 0))
        result.append(Run(device, row["model"], layers, float(row["label_e2e"]) * 1e-3, float(row["neusight"]) * 1e-3))
    return result


def graphs(folder: Path) -> dict[str, list[Node]]:
    """Model -> the nodes of its trace, from ``perop_models.csv.gz``; of its columns only names and shapes are read."""
    result: dict[str, list[Node]] = {}
    first: dict[str, str] = {}
    for row in table(folder / "perop_models.csv.gz"):
        if first.setdefault(row["model"], row["dev"]) == row["dev"]:
            result.setdefault(row["model"], []).append(
                node(row["Name"], row["OpName"], row["input_shapes"], row["output_shape"])
            )
    return result


def opgraph(path: Path) -> list[Node]:
    """A trace as NeuSight's repository keeps it, ``results/opgraph/*.csv``."""
    return [node(row["Name"], row["OpName"], row["InputShapes"], row["OutputShape"]) for row in table(path)]


def node(name: str, kind: str, inputs: str, output: str) -> Node:
    """Parse one row."""
    return Node(name, kind, tuple(tuple(shape) for shape in ast.literal_eval(inputs)), tuple(ast.literal_eval(output)))


LAYER = {
    "bert": ("bert_encoder_layer_0_attention_self_query", "bert_encoder_layer_0_output_layer_norm"),
    "gpt": ("transformer_h_0_ln_1", "add_15"),
    "opt": ("model_decoder_layers_0_self_attn_layer_norm", "view_11"),
}
"""First and last node of the traced layer, by the beginning of a model's name."""


def repeats(run: Run, nodes: Sequence[Node]) -> list[int]:
    """Number of executions of each node; nodes of the traced layer run once per layer."""
    times = [1] * len(nodes)
    for family, (start, end) in LAYER.items():
        if run.model.startswith(family):
            names = [n.name for n in nodes]
            first, last = names.index(start), names.index(end)
            times[first : last + 1] = [run.layers] * (last + 1 - first)
    return times


def size(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)
