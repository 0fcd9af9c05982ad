"""Profiles, networks and measured runs in the form of Sailor's repository (github.com/eth-easl/sailor, MIT)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hetgym.device import Device
from hetgym.errors import ConfigError
from hetgym.parallel import Cluster, Group, MeasuredNetwork, ParallelPlan, Pool, ProfiledLayers, Stage, Wire

GIB = 2.0**30
MEMORY = {"GH-96": 96, "A100-40": 40, "A100-80": 80, "V100-16": 16, "RTX-3090": 24, "RTX-2080": 11, "Titan-RTX": 24}
"""Memory of the boards [GiB]."""

MODELS = {"OPT-350": "OPT-350", "GPT-NEO": "GPT-Neo-2.7", "GPT-Neo": "GPT-Neo-2.7", "LLAMA": "LLAMA-3-8"}
"""Part of a file's name -> name of the model in the profiles."""

SIZES = tuple(2.0**k for k in range(17, 33))


class Run(NamedTuple):
    """A measured run: the file's stem, the model, the plan, GPUs of a node, seconds of an iteration, peak bytes."""

    name: str
    model: str
    plan: ParallelPlan
    per_node: dict[str, int]
    seconds: float
    memory: float


def layers(folder: Path, model: str) -> ProfiledLayers:
    """Times and sizes of a model's layers; activations and what stages hand on are float32."""
    profiles = json.loads((folder / "profiles.json").read_text())[model]
    sizes = json.loads((folder / "layers.json").read_text())[model]
    count = len(sizes["1"])
    times = {
        (gpu, int(tensor), int(batch)): [table[str(k)] for k in range(count)]
        for gpu, batches in profiles.items()
        for batch, tensors in batches.items()
        for tensor, table in tensors.items()
        if all(str(k) in table for k in range(count))
    }
    whole = sizes["1"]
    rows = {
        int(tensor): [
            [row["params_floats"], 4.0 * row["act_mem_floats"], 4.0 * whole[key]["act_output_floats"]]
            for key, row in ((str(k), table[str(k)]) for k in range(count))
        ]
        for tensor, table in sizes.items()
    }
    return ProfiledLayers(times, rows)


def cluster(folder: Path, per_node: dict[str, int], nodes: int = 1024) -> Cluster:
    """Pools of the given boards, each with its measured network.

    Args:
        folder: folder of ``network_coeffs_all_homo.json``.
        per_node: board -> GPUs of a node.
        nodes: nodes of each board.
    """
    coefficients = json.loads((folder / "network_coeffs_all_homo.json").read_text())
    pools = []
    for gpu, count in per_node.items():
        inside = {int(ranks): wire(law[0]) for ranks, law in coefficients["intra"][gpu].items()}
        network = MeasuredNetwork(wire(coefficients["inter"][gpu]["1"][0]), inside)
        device = Device(gpu, "gpu", {"float32": 1e13}, 1e12, MEMORY[gpu] * GIB)
        pools.append(Pool(device, nodes, count, network))
    return Cluster("sailor", tuple(pools))


def wire(polynomial: list[float]) -> Wire:
    """A connection whose bandwidth [GB/s] is a polynomial of log2(bytes / 1e6)."""
    rates = [max(0.1, float(np.polyval(polynomial, np.log2(size / 1e6)))) * 1e9 for size in SIZES]
    return Wire(0.0, SIZES, tuple(rates))


def plan_of(document: dict[str, Any], samples: int | None = None) -> ParallelPlan:
    """A plan of Sailor's form; layers of a stage count, their numbers do not, as one file has a typing error."""
    pipelines = document["pipeline_list"]
    stages, first = [], 0
    for k, numbers in enumerate(pipelines[0]["layers_per_stage"]):
        groups = tuple(
            Group(nodes[0][0], tensor) for pipeline in pipelines for nodes, tensor in pipeline["tmp_per_stage"][k]
        )
        stages.append(Stage(first, first + len(numbers) - 1, groups))
        first += len(numbers)
    return ParallelPlan(tuple(stages), document["mbs"], samples or document["gbs"])


def runs(folder: Path) -> Iterator[Run]:
    """All measured runs of ``folder/runs`` whose plans can be expressed, by name; says which cannot."""
    for path in sorted((folder / "runs").glob("*.json")):
        document = json.loads(path.read_text())
        model = next((name for part, name in MODELS.items() if part in path.stem), "OPT-350")
        stages = [stage for pipeline in document["pipeline_list"] for stage in pipeline["tmp_per_stage"]]
        nodes = [node for stage in stages for group in stage for node in group[0]]
        per_node = {gpu: max(count for name, count, _ in nodes if name == gpu) for gpu, _, _ in nodes}
        try:
            yield Run(path.stem, model, plan_of(document), per_node, document["real"], document["max_mem"])
        except ConfigError as error:
            print(f"left out: {path.stem}: {error}")
