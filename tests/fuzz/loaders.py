"""Everything of hetgym that reads a file, as functions of a path; each also touches what it has read."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import hetgym
from hetgym._input.config import read
from hetgym._input.json import parse
from hetgym.agents import candidates, write_hub_folder
from hetgym.agents.artefact import HUB_CARD, HUB_WEIGHTS
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.network_policy import load_policy
from hetgym.agents.networks import ActorCritic, Sizes
from hetgym.agents.networks._torch import torch
from hetgym.agents.place import planner as place
from hetgym.agents.recipe import load_recipe
from hetgym.agents.regions import planner as regions
from hetgym.bench.best_schedules import load_best_schedules
from hetgym.costs import Roofline, load_costs
from hetgym.errors import ArtefactError, GraphError
from hetgym.graph import Operator, Tensor, from_networkx, from_onnx, from_trace
from hetgym.graph.from_config import from_config
from hetgym.graph.from_gguf import from_gguf
from hetgym.graph.from_graphnet import from_graphnet
from hetgym.graph.from_safetensors import from_safetensors
from hetgym.graph.generators.decoder import PHASES, decoder
from hetgym.graph.language_model import LanguageModel
from hetgym.measurements import Dataset, MachineCard, Measurements
from hetgym.measurements.table import Journal
from hetgym.pipeline import load as load_pipeline
from hetgym.pipeline import load_layers
from hetgym.platform import load_platform
from hetgym.profiling.plans import table_items
from hetgym.sharding import evaluate, reduce
from hetgym.sharding import load as load_sharding
from hetgym.topology import find_platform, import_platform, load_boards
from hetgym.workloads import load_best_known, load_suite, replay, textbook

SIZES = Sizes(8, 8, 1)
"""Of the network that checkpoints belong to."""


@dataclass(frozen=True)
class Loader:
    """A reader of files.

    Attributes:
        read: takes the path; it raises nothing but :class:`hetgym.HetgymError`.
        form: of the files, which decides how they are mutated: onnx, json, yaml, csv, npz, tensors, text or words.
    """

    read: Callable[[Path], object]
    form: str


def onnx(path: Path) -> None:
    """A model, at the batch of the file and at another."""
    try:
        _use_graph(from_onnx(path))
    except GraphError as error:
        _sound(error)
    _use_graph(from_onnx(path, batch=3))


def graph(path: Path) -> None:
    """hetgym's own graphs."""
    _use_graph(hetgym.load_graph(path, batch=2))


def _use_graph(found: hetgym.DataflowGraph) -> None:
    found.features()
    found.name.encode()


def saved_program(path: Path) -> None:
    """The JSON of a saved PyTorch program, put into an archive."""
    archive = path.with_suffix(".pt2")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("net/models/model.json", path.read_bytes())
    _use_graph(hetgym.load_graph(archive))


def graphnet(path: Path) -> None:
    """Models of GraphNet, with their types beside them."""
    _use_graph(from_graphnet(path.parent))


def configuration(path: Path) -> None:
    """Configurations of language models."""
    _use_model(from_config(path))


def gguf(path: Path) -> None:
    """Headers of GGUF files, whose data may be missing."""
    try:
        from_gguf(path)
    except GraphError as error:
        _sound(error)
    _use_model(from_gguf(path, bare=True))


def safetensors(path: Path) -> None:
    """Headers of safetensors files, or their index, with the configuration beside them.

    A header without data gets a hole that is as long as its tensors say.
    """
    data = path.read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    if path.suffix == ".safetensors" and len(data) == size:
        try:
            ends = [entry["data_offsets"][1] for entry in json.loads(data[8:]).values() if "dtype" in entry]
            os.truncate(path, size + min(max(ends), 1 << 32))
        except Exception:  # what was mutated is not a header any more
            pass
    _use_model(from_safetensors(path))


def _use_model(found: LanguageModel) -> None:
    """The sizes of a model, and its graphs if it does not have very many layers."""
    assert found.parameters > 0 and np.isfinite(found.bytes) and np.isfinite(found.cache_bytes(4096))
    device = load_platform("cpu-gpu").devices[1]
    for phase in PHASES if len(found.layers) < 50 else ():
        made = decoder(found, 2, 300, phase)
        assert made.name.isprintable() and np.isfinite(made.model_bytes) and made.model_bytes >= 0.999 * found.bytes
        assert not np.isnan(Roofline().predict(made.operators, device)).any()


def node_link(path: Path) -> None:
    """Node-link JSON of networkx, whose own reader may refuse it as it likes."""
    try:
        found = nx.node_link_graph(json.loads(path.read_text("utf-8")), edges="edges")
    except Exception:
        return
    from_networkx(found)


def problem(path: Path) -> None:
    """Problems, and what follows from their arrays."""
    found = hetgym.load_problem(path)
    found.digest.encode()
    assert found.arrays is not None and np.isfinite(found.mean_cost).all()


def task_graph(path: Path) -> None:
    """Task graphs that leave the number of devices open."""
    hetgym.load_problem(path, devices=3).digest.encode()


def trace(path: Path) -> None:
    """Traces of profilers, replayed."""
    graph = from_trace(path)
    found = hetgym.simulate(*replay(graph))
    assert np.isfinite(found.makespan) and graph.name.encode()


def partitioning(path: Path) -> None:
    """Files of dnn-partitioning, as a task and as a pipeline."""
    try:
        problem(path)
    except hetgym.HetgymError as error:
        _sound(error)
    load_pipeline(path)


def sharding(path: Path) -> None:
    """Sharding problems, their reduction and the first strategies of all nodes."""
    problem = load_sharding(path)
    evaluate(problem, np.zeros(problem.nodes, np.int64))
    reduce(problem)


def costs(path: Path) -> None:
    """Fitted cost models; one that loads must price an operator."""
    device = load_platform("cpu-gpu").devices[1]
    x = Tensor((4, 16))
    found = load_costs(path)
    seconds = found.predict([Operator("a", "Relu", (x,), (x,))], device)
    assert seconds.shape == (1,) and not np.isnan(seconds).any()


def dataset_card(path: Path) -> None:
    """The card of a dataset, read with the table beside it."""
    Dataset.load(path.with_name("data.csv.gz"))


def topology(path: Path) -> None:
    """Descriptions of machines; a platform must have routes and rates."""
    found = import_platform(path, gpu="" if b"UUID" in path.read_bytes() else "A100 PCIE 40GB")
    assert np.isfinite(found.latency).all() and (found.bandwidth > 0).all()
    found.description.encode()


def line(path: Path) -> None:
    """Machines in a line; what is read has routes and rates, and its message or description is one line."""
    found = find_platform(path.read_bytes().decode("utf-8", "replace"))
    assert np.isfinite(found.latency).all() and (found.bandwidth > 0).all()
    assert found.description.isprintable() and found.name.isprintable()
    assert all(device.usable_memory > 0 for device in found)


def machine_card(path: Path) -> None:
    """The machine of a card."""
    fields = parse(path.read_bytes().decode("utf-8", "replace"), str(path), ArtefactError)
    read(MachineCard, fields, str(path))


def table(path: Path) -> None:
    """Measurements, whose operators can be priced by their bytes."""
    for row in Measurements.load(path):
        assert row.operator.bytes_read >= 0 or row.operator.kind


def candidate_card(path: Path) -> None:
    """The card of a shipped policy, with its weights beside it."""
    found = candidates.FILES.load(path.with_suffix(""))
    assert isinstance(found.arguments, dict)


def place_card(path: Path) -> None:
    """The card of the shipped place policy, with its weights beside it."""
    place.FILES.load(path.with_suffix(""))


def region_card(path: Path) -> None:
    """The card of the shipped region policy, with its weights beside it."""
    regions.FILES.load(path.with_suffix(""))


def hub_folder(path: Path) -> None:
    """A folder in the Hub's layout; a policy that loads can be written as such a folder again."""
    names = dict.fromkeys((path.name, HUB_WEIGHTS, HUB_CARD))
    with tempfile.TemporaryDirectory(dir=path.parent) as made:
        for name in names:
            Path(made, name).write_bytes(path.with_name(name).read_bytes())
        hetgym.agents.load(made)
        write_hub_folder(made, Path(made, "again"))
        hetgym.agents.load(Path(made, "again"))


def policy(path: Path) -> None:
    """Policies of training runs."""
    assert isinstance(load_policy(path).arguments, dict)


@cache
def learner() -> tuple[Any, Any]:
    """The network that checkpoints belong to, and its optimiser after one step."""
    torch.manual_seed(0)
    network = ActorCritic("place", "candidates", SIZES)
    optimizer = torch.optim.Adam(network.parameters())
    sum(weight.sum() for weight in network.parameters()).backward()
    optimizer.step()
    return network, optimizer


def checkpoint(path: Path) -> None:
    """Checkpoints, put back into the network that they are of."""
    found = Checkpoint.load(path)
    found.restore(*learner())


def checkpoint_tensors() -> dict[str, Any]:
    """Tensors of a checkpoint of :func:`learner`."""
    return dict(Checkpoint.of(0, *learner()).tensors)


def schedule(path: Path) -> None:
    """Schedules, validated against the problem that they are for."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):  # hetgym reads schedules from mappings, not from files
        return
    found = hetgym.Schedule.from_dict(document)
    hetgym.validate(textbook("topcuoglu"), found)


def _sound(error: hetgym.HetgymError) -> None:
    """Refuse a message that is no single line."""
    text = str(error)
    assert text and len(text) <= 1000 and text.isprintable(), f"message {text!r}"


LOADERS: dict[str, Loader] = {
    "onnx": Loader(onnx, "onnx"),
    "graph": Loader(graph, "json"),
    "pt2": Loader(lambda path: _use_graph(hetgym.load_graph(path)), "words"),
    "program": Loader(saved_program, "json"),
    "graphnet": Loader(graphnet, "text"),
    "graphnet-types": Loader(graphnet, "text"),
    "configuration": Loader(configuration, "json"),
    "gguf": Loader(gguf, "words"),
    "safetensors": Loader(safetensors, "tensors"),
    "safetensors-index": Loader(safetensors, "json"),
    "networkx": Loader(node_link, "json"),
    "problem": Loader(problem, "npz"),
    "partitioning": Loader(partitioning, "json"),
    "sharding": Loader(sharding, "json"),
    "wfcommons": Loader(problem, "json"),
    "kineto": Loader(trace, "json"),
    "chakra": Loader(trace, "words"),
    "stg": Loader(task_graph, "words"),
    "dot": Loader(task_graph, "words"),
    "job-shop": Loader(problem, "words"),
    "platform": Loader(load_platform, "yaml"),
    "topology": Loader(topology, "words"),
    "line": Loader(line, "words"),
    "boards": Loader(load_boards, "yaml"),
    "suite": Loader(load_suite, "yaml"),
    "recipe": Loader(load_recipe, "yaml"),
    "best-known": Loader(load_best_known, "json"),
    "best-schedules": Loader(load_best_schedules, "npz"),
    "costs": Loader(costs, "npz"),
    "table": Loader(table, "csv"),
    "layers": Loader(lambda path: load_layers(path, devices=2).problem.digest, "csv"),
    "journal": Loader(Journal.open, "csv"),
    "plan": Loader(table_items, "csv"),
    "dataset-card": Loader(dataset_card, "json"),
    "machine-card": Loader(machine_card, "json"),
    "candidate-card": Loader(candidate_card, "json"),
    "place-card": Loader(place_card, "json"),
    "candidate-weights": Loader(candidate_card, "tensors"),
    "place-weights": Loader(place_card, "tensors"),
    "region-card": Loader(region_card, "json"),
    "region-weights": Loader(region_card, "tensors"),
    "hub-card": Loader(hub_folder, "json"),
    "hub-weights": Loader(hub_folder, "tensors"),
    "policy": Loader(policy, "tensors"),
    "checkpoint": Loader(checkpoint, "tensors"),
    "schedule": Loader(schedule, "json"),
}
"""Name -> reader."""
