"""Named real models, shipped as small files that can be bound to any batch size.

>>> from hetgym.graph import zoo
>>> zoo.load("resnet50", batch=8)
DataflowGraph('resnet50', 176 operators, 191 edges)

The files hold structure and shapes but no weights. ``scripts/make_zoo.py`` makes them from the sources
named in :data:`MODELS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hetgym.errors import unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.serialization import from_json

FOLDER = Path(__file__).with_name("snapshots")


class Model(NamedTuple):
    """Description and source of a model of the zoo.

    Attributes:
        description: the network and its input.
        source: the publication, and the origin of the graph.
    """

    description: str
    source: str


_ONNX = "test models of the onnx package, onnx/backend/test/data/light"
_HF = "default configuration of transformers, through torch.export"
_OWN = "scripts/zoo_networks.py, through torch.export"

MODELS: dict[str, Model] = {
    "alexnet": Model("AlexNet, 224x224 images", f"Krizhevsky et al., NIPS 2012; {_ONNX}"),
    "bert_base": Model("BERT-base encoder and pooler, 128 tokens", f"Devlin et al., NAACL 2019; BertModel, {_HF}"),
    "densenet121": Model("DenseNet-121, 224x224 images", f"Huang et al., CVPR 2017; {_ONNX}"),
    "gpt2": Model("GPT-2 small, scores of every word, 128 tokens", f"Radford et al., 2019; GPT2LMHeadModel, {_HF}"),
    "inception_v1": Model("GoogLeNet, 224x224 images", f"Szegedy et al., CVPR 2015; {_ONNX}"),
    "inception_v2": Model("Inception with batch normalisation, 224x224 images", f"Ioffe & Szegedy, ICML 2015; {_ONNX}"),
    "lstm": Model(
        "language model of 4 LSTM layers of 1000 cells, unrolled over 24 words: a grid of layers and steps",
        f"sizes of Sutskever et al., NIPS 2014, with 10 000 words; {_OWN}",
    ),
    "nasnet": Model(
        "shortened NASNet-A of width 44, 224x224 images: one normal cell a stage where the mobile network has four",
        f"cells of Zoph et al., CVPR 2018; {_OWN}",
    ),
    "resnet50": Model("ResNet-50, 224x224 images", f"He et al., CVPR 2016; {_ONNX}"),
    "shufflenet": Model("ShuffleNet, 4 groups, 224x224 images", f"Zhang et al., CVPR 2018; {_ONNX}"),
    "squeezenet": Model("SqueezeNet 1.1, 224x224 images", f"Iandola et al., arXiv:1602.07360; {_ONNX}"),
    "vgg19": Model("VGG-19, 224x224 images", f"Simonyan & Zisserman, ICLR 2015; {_ONNX}"),
    "vit_b16": Model("ViT-B/16, 224x224 images", f"Dosovitskiy et al., ICLR 2021; ViTForImageClassification, {_HF}"),
    "zfnet512": Model("ZFNet-512, 224x224 images", f"Zeiler & Fergus, ECCV 2014; {_ONNX}"),
}
"""Name -> description and source of every model."""


def names() -> list[str]:
    """Names of all models, in alphabetical order."""
    return sorted(MODELS)


def load(name: str, batch: int = 1) -> DataflowGraph:
    """Load a model.

    Args:
        name: one of :func:`names`.
        batch: number of images or sequences in a batch.

    Raises:
        UnknownName: there is no such model.
        GraphError: the batch is not a positive whole number.
    """
    if name not in MODELS:
        raise unknown_name("graph", name, MODELS)
    return from_json(FOLDER / f"{name}.json.gz", batch)
