"""Make the snapshots of hetgym's zoo from their sources.

    python scripts/make_zoo.py [NAME ...]

Each model is imported at batch 1, 2 and 3; the snapshot made from the first two must give the third.
The same packages give the same bytes. Needs ``pip install "hetgym[dev]"``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import torch
import transformers
from torch import Tensor, nn
from zoo_networks import NASNetA, UnrolledLSTM

from hetgym._input.files import write_text
from hetgym.errors import GraphError
from hetgym.graph import DataflowGraph, from_onnx, from_torch, zoo
from hetgym.graph.parametric import parametric
from hetgym.graph.serialization import dumps

LIGHT = {
    "alexnet": "bvlc_alexnet",
    "densenet121": "densenet121",
    "inception_v1": "inception_v1",
    "inception_v2": "inception_v2",
    "resnet50": "resnet50",
    "shufflenet": "shufflenet",
    "squeezenet": "squeezenet",
    "vgg19": "vgg19",
    "zfnet512": "zfnet512",
}
"""Name in the zoo -> name among the light models of the onnx package."""


def from_light(name: str) -> Callable[[int], DataflowGraph]:
    """Importer of one of onnx's light models."""
    path = Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{LIGHT[name]}.onnx"
    return lambda batch: from_onnx(path, batch=batch, name=name)


def from_module(
    name: str, build: Callable[[], nn.Module], inputs: Callable[[int], tuple[Sequence[Tensor], dict[str, Tensor]]]
) -> Callable[[int], DataflowGraph]:
    """Importer of a PyTorch module; its weights stay on the meta device."""

    def importer(batch: int) -> DataflowGraph:
        with torch.device("meta"):
            args, kwargs = inputs(batch)
            return from_torch(build(), args, kwargs, name)

    return importer


def images(batch: int) -> tuple[Sequence[Tensor], dict[str, Tensor]]:
    return (torch.zeros(batch, 3, 224, 224),), {}


def words(length: int, types: bool = False) -> Callable[[int], tuple[Sequence[Tensor], dict[str, Tensor]]]:
    """Word ids, with token types for a model that would otherwise create them itself."""

    def inputs(batch: int) -> tuple[Sequence[Tensor], dict[str, Tensor]]:
        ids = torch.zeros(batch, length, dtype=torch.long)
        return (ids,), {"token_type_ids": ids} if types else {}

    return inputs


def bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig())


def gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))


def vit() -> nn.Module:
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))


def importers() -> dict[str, Callable[[int], DataflowGraph]]:
    """Name -> (batch -> graph) for every model of the zoo."""
    modules = {
        "bert_base": (bert, words(128, types=True)),
        "gpt2": (gpt2, words(128)),
        "vit_b16": (vit, images),
        "lstm": (UnrolledLSTM, words(24)),
        "nasnet": (NASNetA, images),
    }
    light = {name: from_light(name) for name in LIGHT}
    return light | {name: from_module(name, *how) for name, how in modules.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to make; all by default")
    known = importers()
    for name in parser.parse_args().names or sorted(known):
        path = zoo.FOLDER / f"{name}.json.gz"
        write_text(path, dumps(parametric(known[name])), GraphError)
        graph = zoo.load(name)
        size = f"{len(graph):5} operators {len(graph.edges):5} edges {graph.flops.sum() / 1e9:8.2f} GFLOP"
        print(f"{name:14} {size} {path.stat().st_size:7} B")


if __name__ == "__main__":
    main()
