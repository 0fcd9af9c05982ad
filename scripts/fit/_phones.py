"""Latencies of networks on boards of Qualcomm AI Hub, the rebuilt graphs, and the split; used by ``phones.py``.

Splits by ``hetgym-phones-1`` and ``-2`` were scored by earlier forms of the fit, which used them up. The present one is
another hash of the names. Its quarter is not untouched: every form was chosen with these models in sight, and their
errors had been read. So every network is left out once as well, in five parts (``phones.py score``).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetgym import load_graph
from hetgym._types import FloatArray
from hetgym.costs.phone.work import amounts
from hetgym.graph import DataflowGraph
from hetgym.graph.transforms import fuse
from hetgym.graph.transforms.operands import operands

SEED = "hetgym-phones-3"
TWINS = {"opus_mt_zh_en": "opus_mt_en_zh", "real_esrgan_x4plus": "esrgan", "whisper_small_quantized": "whisper_small"}
"""Models of the same layers as another one: the two are never parted."""

FAMILIES = {
    model: family
    for family, models in {
        "BERT": "albert_base_v2_hf bert_base_uncased_hf distil_bert_base_uncased_hf electra_bert_base_discrim_google "
                "mobile_bert_uncased_google",
        "ResNet": "resnet18 resnet50 resnet101 resnext101 wideresnet50 regnet fcn_resnet50 cavaface",
        "video": "resnet_2plus1d resnet_mixed",
        "FFNet": "ffnet_40s ffnet_54s ffnet_78s_lowres ffnet_122ns_lowres",
        "segmentation": "bisenet pidnet sinet unet_segmentation pspnet",
        "HRNet": "hrnet_face hrnet_w48_ocr",
        "DeepLab": "deeplab_xception deeplabv3_plus_mobilenet",
        "DETR": "detr_resnet50 detr_resnet50_dc5 detr_resnet101 detr_resnet101_dc5 conditional_detr_resnet50",
        "YOLO": "yolov3 deepbox yolov6 yolov8_det yolov8_seg yolov10_det yolov11_det yolov11_seg yolor fastsam_x "
                "gear_guard_net",
        "MediaPipe": "mediapipe_face mediapipe_hand mediapipe_hand_gesture mediapipe_pose mediapipe_selfie",
        "super-resolution": "esrgan real_esrgan_x4plus quicksrnetlarge quicksrnetmedium xlsr",
        "diffusion": "stable_diffusion_v2_1 controlnet_canny",
        "sequences": "opus_mt_en_zh opus_mt_zh_en trocr whisper_small whisper_small_quantized "
                     "huggingface_wavlm_base_plus",
        "ConvNext": "convnext_base convnext_tiny",
        "EfficientViT": "efficientvit_b2_cls efficientvit_l2_cls",
        "mobile": "mobilenet_v3_large gpunet posenet_mobilenet midas shufflenet_v2 squeezenet1_1",
        "detectors": "face_attrib_net face_det_lite foot_track_net",
        "images": "aotgan lama_dilated fomm",
        "transformers": "vit depth_anything_v2 levit mobile_vit efficientformer mobilesam",
    }.items()
    for model in models.split()
}  # fmt: skip
"""Model -> its family, for a cross-validation that leaves out families whole; others are families of their own."""

FACTOR = 2.0
"""A rebuilt graph counts as a match if its layers and those that a runtime states differ by less than this factor."""

RUNTIMES = {"qnn_dlc": "qnn", "qnn_context_binary": "qnn", "tflite": "tflite", "onnx": "onnx",
            "precompiled_qnn_onnx": "onnx"}  # fmt: skip
"""Runtime in the table -> runtime of the fit: graphs compiled ahead of time and on the device count as one."""

Key = tuple[str, str]


@dataclass(frozen=True)
class Board:
    """A board: the chip, operations/s in 8 bits, memory bandwidth [byte/s], and where both figures are from.

    Figures of strangers are scaled by these two; a board that was fitted does not use them.
    """

    chip: str
    peak: float
    bandwidth: float
    source: str


BOARDS = {
    "Samsung Galaxy S25": Board(
        "Snapdragon 8 Elite", 60e12, 84.8e9,
        "rate: assumption, the previous chip's and the announced 45 % more (droid-life.com, 2024-10-21), rounded down; "
        "memory: geektopia.es, 2024-10-22",
    ),
    "Samsung Galaxy S24": Board(
        "Snapdragon 8 Gen 3", 45e12, 76.8e9,
        "rate: runlocalai.co/hardware/snapdragon-8-gen-3; memory of 4800 MHz, 64 bits: "
        "droidholic.com/snapdragon-8-gen-3-launched",
    ),
    "QCS8550 (Proxy)": Board(
        "QCS8550", 48e12, 67.2e9,
        "rate: the maker's slide in en.eeworld.com/news/qcdz/eic656854.html; memory of 4200 MHz, 64 bits, "
        "as Snapdragon 8 Gen 2: droidholic.com/snapdragon-8-gen-3-launched",
    ),
    "Snapdragon X Elite CRD": Board(
        "Snapdragon X Elite", 45e12, 135e9,
        "rate: allamericansthings.com, 2023-10-24; memory, 136 GB/s at 8533 MHz: tweaktown.com/news/93943; that of the "
        "board, 8448 MHz: assumption",
    ),
    "Dragonwing IQ-9075 EVK": Board(
        "IQ-9075", 100e12, 76.8e9,
        "rate: assumption; memory of 3200 MHz, 6 x 16 bits: dragonwingdocs.qualcomm.com, LPDDR memory of iq9075-evk",
    ),
    "SA8775P ADP": Board(
        "SA8775P", 70e12, 76.8e9, "rate: aiwedo.com/?p=25486; memory: assumption, as IQ-9075",
    ),
    "QCS8275 (Proxy)": Board("QCS8275", 40e12, 51.2e9, "assumptions"),
    "SA7255P ADP": Board("SA7255P", 20e12, 51.2e9, "assumptions"),
    "SA8295P ADP": Board(
        "SA8295P", 30e12, 67e9,
        "rate: dapalm.com, 2026-06-21 (e-com-net.com/article/1714844676231606272.htm has 40 to 50); memory of 2092.8 "
        "MHz, 8 x 16 bits: the latter",
    ),
    "QCS8450 (Proxy)": Board(
        "QCS8450", 27e12, 51.2e9,
        "rate: assumption; memory of 3200 MHz, as Snapdragon 8 Gen 1: pcworld.com/article/556345, 64 bits",
    ),
    "Snapdragon 7 Gen 4 QRD": Board(
        "Snapdragon 7 Gen 4", 15e12, 33.6e9,
        "rate: assumption; memory of 4200 MHz: hothardware.com/news/qualcomm-snapdragon-7-gen-4-midrange-phones; "
        "its 32 bits: assumption",
    ),
    "Dragonwing Q-6690 MTP": Board("Q-6690", 6e12, 25.6e9, "assumptions"),
    "Dragonwing RB3 Gen 2 Vision Kit": Board("QCS6490", 12e12, 25.6e9, "assumptions"),
}  # fmt: skip
"""Name in the table -> board."""


def held_out(model: str) -> bool:
    """True for the quarter of the networks that no fit and no choice may see."""
    return int(hashlib.sha256(f"{SEED}:{TWINS.get(model, model)}".encode()).hexdigest(), 16) % 4 == 0


def fold(model: str, folds: int = 5, name: str = "fold") -> int:
    """The part of a cross-validation that a network belongs to: one of several by ``name``; ``family`` parts none."""
    if name == "family":
        return int(hashlib.sha256(f"{SEED} family:{FAMILIES.get(model, model)}".encode()).hexdigest(), 16) % folds
    return int(hashlib.sha256(f"{SEED} {name}:{TWINS.get(model, model)}".encode()).hexdigest(), 16) % folds


@dataclass(frozen=True)
class Row:
    """A latency.

    Args:
        key: model and component.
        board: name of the chip.
        precision: float, w8a8 or w8a16; mixed precisions count as the one that they start from.
        runtime: qnn, tflite or onnx.
        unit: the processor that runs most layers: NPU, GPU or CPU.
        layers: of the compiled graph.
        seconds: the latency.
    """

    key: Key
    board: str
    precision: str
    runtime: str
    unit: str
    layers: int
    seconds: float


def read(folder: Path) -> list[Row]:
    """All latencies of a folder with ``aihub/latencies.csv.gz``."""
    rows = []
    with gzip.open(folder / "aihub" / "latencies.csv.gz", "rt", newline="") as file:
        for line in csv.DictReader(file):
            board = BOARDS[line["dev"]].chip if line["dev"] in BOARDS else line["dev"]
            precision = line["prec"].partition("_mixed")[0]
            key = line["model"], line["comp"]
            seconds, layers = float(line["ms"]) * 1e-3, int(line["total"])
            rows.append(Row(key, board, precision, RUNTIMES[line["rt"]], line["unit"], layers, seconds))
    return rows


@dataclass(frozen=True)
class Network:
    """What a fit sees of a graph.

    Args:
        amounts: [a] sums over its fused operators.
        transferred: elements of its inputs and outputs.
        layers: operators, without batch normalisations; a fused attention counts as four.
    """

    amounts: FloatArray
    transferred: float
    layers: int


def graph_path(folder: Path, key: Key) -> Path:
    """The file of a rebuilt graph."""
    return folder / f"{key[0]}.{key[1]}.json.gz"


def networks(folder: Path, keys: Iterable[Key]) -> dict[Key, Network]:
    """The rebuilt networks among some keys."""
    found = {}
    for key in sorted(set(keys)):
        if graph_path(folder, key).exists():
            found[key] = network(load_graph(graph_path(folder, key)))
    return found


def network(graph: DataflowGraph) -> Network:
    """Sum up a graph after fusion."""
    results = sum(t.size for i, op in enumerate(graph.operators) if graph.out_degree[i] == 0 for t in op.outputs)
    given = {}
    for op, sources in zip(graph.operators, operands(graph), strict=True):
        for tensor, source in zip(op.inputs, sources, strict=False):
            if source is None and not tensor.constant:
                given[tensor.name or tensor.shape] = tensor.size
    kinds = [op.kind for op in graph.operators]
    layers = len(graph) - kinds.count("BatchNormalization") + 3 * kinds.count("Attention")
    total = amounts(fuse(graph).graph.operators).sum(axis=0)
    return Network(total, float(results + sum(given.values())), layers)


def matches(rows: Sequence[Row], found: dict[Key, Network]) -> dict[Key, float]:
    """Networks whose layers are as many as the table's -> the ratio to the nearest runtime's."""
    kept = {}
    for key, one in found.items():
        stated = {row.layers for row in rows if row.key == key and row.precision == "float"}
        stated = stated or {row.layers for row in rows if row.key == key}
        ratio = min((one.layers / layers for layers in stated if layers), key=lambda r: abs(np.log(r)), default=0.0)
        if 1 / FACTOR < ratio < FACTOR:
            kept[key] = ratio
    return kept


def score(predicted: FloatArray, measured: FloatArray) -> dict[str, float]:
    """n, mean, median and P90 of |predicted / measured - 1|, and its median with sign (bias)."""
    if not len(measured):
        return {"n": 0}
    error = predicted / measured - 1.0
    size = np.abs(error)
    return {"n": len(size), "mean": float(size.mean()), "median": float(np.median(size)),
            "P90": float(np.quantile(size, 0.9)), "bias": float(np.median(error))}  # fmt: skip
