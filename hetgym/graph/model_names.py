"""Language models by name or from a file of any supported format."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, is_folder
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym.errors import GraphError, unknown_name
from hetgym.graph.from_config import from_config
from hetgym.graph.from_gguf import from_gguf
from hetgym.graph.from_safetensors import from_safetensors, has_safetensors
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.mixes import MIXES, mixed
from hetgym.graph.ops import DTYPE_BYTES

SHIPPED = part("configs") / "language_models.yaml"


@cache
def _configs() -> dict[str, Any]:
    return dict(load_yaml(SHIPPED)["models"])


def model_names() -> list[str]:
    """Names of the language models that hetgym knows by their numbers, in alphabetical order."""
    return sorted(_configs())


def load_language_model(source: str | os.PathLike[str] | LanguageModel, quant: str = "") -> LanguageModel:
    """A language model by name, from a file, or unchanged, in a format.

    Args:
        source: one of :func:`model_names`, a ``config.json``, a ``.gguf`` or ``.safetensors`` file, an index of the
            latter, or the folder that holds a configuration and perhaps such files, whose headers are preferred.
        quant: a mix of llama.cpp such as ``Q4_K_M``, or a dtype of all weights; as stored by default. A GGUF file has
            the formats that it has.

    Raises:
        UnknownName: neither a name nor a file; or no such format.
        GraphError: see the readers, or a format for a file that has its own.

    >>> load_language_model("qwen3-8b", "Q4_K_M").bytes
    5021827072.0
    """
    if isinstance(source, LanguageModel):
        return _formatted(source, quant)
    file = as_path(source, "a language model", GraphError)
    text = os.fspath(source)
    if text in _configs():
        return _formatted(from_config(_configs()[text], text), quant)
    if text.endswith(".gguf"):
        if quant:
            raise GraphError(f"{text}: the file states the formats of its weights; leave {quant} out")
        return from_gguf(file)
    if text.endswith((".safetensors", ".safetensors.index.json")) or (is_folder(file) and has_safetensors(file)):
        return _formatted(from_safetensors(file), quant)
    if is_folder(file):
        return _formatted(from_config(file / "config.json"), quant)
    if text.endswith(".json"):
        return _formatted(from_config(file), quant)
    if os.sep in text or Path(text).suffix in (".bin", ".onnx"):
        raise GraphError(
            f"{text}: a language model is a name, a config.json, the folder that holds it, a .gguf or .safetensors file"
        )
    raise unknown_name("language model", text, model_names())


def _formatted(model: LanguageModel, quant: str) -> LanguageModel:
    if not quant:
        return model
    if quant in DTYPE_BYTES:
        return model.cast(quant)
    if quant.upper() in MIXES:
        return mixed(model, quant.upper())
    raise unknown_name("format of weights", quant, [*MIXES, *DTYPE_BYTES])
