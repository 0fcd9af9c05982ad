"""Named real models, bound to any batch size: networks from small files, and language models from their sizes.

>>> from hetgym.graph import zoo
>>> zoo.load("resnet50", batch=8)
DataflowGraph('resnet50', 176 operators, 191 edges)
>>> zoo.load("llama-7b", batch=8, sequence=2048, phase="decode")
DataflowGraph('llama-7b-decode', 675 operators, 834 edges)

The files hold structure and shapes but no weights. ``scripts/make_zoo.py`` makes them from the sources
named in :data:`MODELS`. Language models are in :data:`LANGUAGE_MODELS`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hetgym.errors import GraphError, suggestion, unknown_name
from hetgym.graph.assembly import check_batch
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.language_model import PHASES, language_model
from hetgym.graph.serialization import from_json

FOLDER = Path(__file__).with_name("snapshots")


class Model(NamedTuple):
    """Description and source of a model of the zoo."""

    description: str  # the network and its input
    source: str  # the publication, and the origin of the graph


class LanguageModel(NamedTuple):
    """Description, source and sizes of a language model."""

    description: str  # the model
    source: str  # the publication that states the sizes
    sizes: Mapping[str, Any]  # arguments of language_model


OPTIONS = ("sequence", "phase", "dtype")  # Arguments of a language model beside the batch; see language_model


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
"""Name -> description and source of every network that is shipped as a file."""


def _llama(
    description: str, source: str, layers: int, hidden: int, heads: int, wide: int, **more: int
) -> LanguageModel:
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "intermediate": wide, "sequence": 2048, **more}
    return LanguageModel(description, source, {"family": "llama", **sizes})


def _gpt(description: str, source: str, layers: int, hidden: int, heads: int, positions: int) -> LanguageModel:
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "positions": positions, "sequence": positions}
    return LanguageModel(description, source, {"family": "gpt", **sizes, "vocabulary": 50257})


def _t5(description: str, heads: int, wide: int) -> LanguageModel:
    sizes = {"layers": 24, "hidden": 1024, "heads": heads, "head_size": 128, "intermediate": wide}
    source = "Raffel et al., JMLR 21, 2020"
    return LanguageModel(description, source, {"family": "t5", **sizes, "vocabulary": 32128, "sequence": 512})


_META = "Touvron et al., arXiv:2302.13971"
_META2 = "Touvron et al., arXiv:2307.09288"
_META3 = "Grattafiori et al., arXiv:2407.21783"
_MISTRAL = "Jiang et al., arXiv:2401.04088"

LANGUAGE_MODELS: dict[str, LanguageModel] = {
    "gpt2-xl": _gpt("GPT-2 of 1.6 billion parameters", "Radford et al., 2019", 48, 1600, 25, 1024),
    "gpt3-175b": _gpt("GPT-3 of 175 billion parameters", "Brown et al., NeurIPS 2020", 96, 12288, 96, 2048),
    "llama-7b": _llama("Llama of 7 billion parameters", _META, 32, 4096, 32, 11008),
    "llama-2-70b": _llama("Llama 2 of 70 billion parameters", _META2, 80, 8192, 64, 28672, kv_heads=8),
    "llama-3-8b": _llama("Llama 3 of 8 billion parameters", _META3, 32, 4096, 32, 14336, kv_heads=8, vocabulary=128256),
    "llama-3-70b": _llama(
        "Llama 3 of 70 billion parameters", _META3, 80, 8192, 64, 28672, kv_heads=8, vocabulary=128256
    ),
    "mixtral-8x7b": _llama(
        "Mixtral, 2 of 8 experts for each token", _MISTRAL, 32, 4096, 32, 14336, kv_heads=8, experts=8
    ),
    "t5-3b": _t5("T5, encoder and decoder of 3 billion parameters", 32, 16384),
    "t5-11b": _t5("T5, encoder and decoder of 11 billion parameters", 128, 65536),
}
"""Name -> description, source and sizes of every language model; its graph is made when it is loaded."""


def names() -> list[str]:
    """Names of all networks that are shipped as files, in alphabetical order."""
    return sorted(MODELS)


def language_models() -> list[str]:
    """Names of all language models that are made from their sizes, in alphabetical order."""
    return sorted(LANGUAGE_MODELS)


def load(name: str, batch: int = 1, **options: Any) -> DataflowGraph:
    """Load a model.

    Args:
        name: one of :func:`names` or :func:`language_models`.
        batch: number of images or sequences in a batch.
        **options: of a language model, :data:`OPTIONS`: tokens of a sequence, phase (``forward``, ``prefill`` or
            ``decode``) and format (by default ``bfloat16``).

    Raises:
        UnknownName: there is no such model.
        GraphError: the batch is not a positive whole number, or the model does not take an option.
    """
    if name not in MODELS and name not in LANGUAGE_MODELS:
        raise unknown_name("graph", name, [*MODELS, *LANGUAGE_MODELS])
    for option in options:
        if option not in OPTIONS:
            raise GraphError(f"{name}: no option {option!r}; {suggestion(option, OPTIONS)}")
        if name in MODELS:
            raise GraphError(f"{name}: option {option!r} is for language models: {', '.join(language_models())}")
    if name in MODELS:
        return from_json(FOLDER / f"{name}.json.gz", batch)
    graph = language_model(**{**LANGUAGE_MODELS[name].sizes, **options, "batch": check_batch(batch)})
    phase = options.get("phase", PHASES[0])
    title = name if phase == PHASES[0] else f"{name}-{phase}"
    return DataflowGraph(graph.operators, graph.edges, title, graph.notes)
