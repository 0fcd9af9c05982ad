"""Language models by name or from a file of any supported format."""

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, is_folder
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym.errors import GraphError, UnknownName, shown, unknown_name
from hetgym.graph.from_config import from_config
from hetgym.graph.from_gguf import from_gguf
from hetgym.graph.from_safetensors import from_safetensors, has_safetensors
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.mixes import mixed
from hetgym.graph.quant_names import quantised
from hetgym.graph.written_names import is_path, resolve, written

SHIPPED = part("configs") / "language_models.yaml"
PACKED = "Q4_K_M"  # what ollama and llama.cpp download unless another format is named


@cache
def _configs() -> dict[str, dict[str, Any]]:
    """Name -> its configuration; a model like another one states what differs."""
    models = load_yaml(SHIPPED)["models"]
    return {name: {**models.get(own.get("like"), {}), **own} for name, own in models.items()}


@cache
def _known() -> dict[str, str]:
    """Names and aliases -> names."""
    aliases = load_yaml(SHIPPED)["aliases"]
    return {name: name for name in _configs()} | {alias: name for name, own in aliases.items() for alias in own}


def model_names() -> list[str]:
    """Names of the language models that hetgym knows by their numbers, in alphabetical order."""
    return sorted(_configs())


def load_language_model(source: str | os.PathLike[str] | LanguageModel, quant: str = "") -> LanguageModel:
    """A language model by name, from a file, or unchanged, in a format.

    Args:
        source: one of :func:`model_names`, also as the Hub, ollama and names of files write it
            (``Qwen/Qwen3-8B-AWQ``, ``qwen3:8b``), a ``config.json``, a ``.gguf`` or ``.safetensors`` file, an index of
            the latter, or the folder that holds a configuration and perhaps such files, whose headers are preferred.
        quant: see :func:`~hetgym.graph.quant_names.quantised`; by default what the name says, else as stored. A GGUF
            file has the formats that it has.

    Raises:
        UnknownName: neither a name nor a file, a name of several models, or no such format.
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
    if text.endswith(".gguf") and (file.exists() or is_path(text)):
        if quant:
            raise GraphError(f"{text}: the file states the formats of its weights; leave {quant} out")
        return from_gguf(file)
    if text.endswith((".safetensors", ".safetensors.index.json")) or (is_folder(file) and has_safetensors(file)):
        return _formatted(from_safetensors(file), quant)
    if is_folder(file):
        return _formatted(from_config(file / "config.json"), quant)
    if text.endswith(".json"):
        return _formatted(from_config(file), quant)
    if is_path(text) or Path(text).suffix in (".bin", ".onnx"):
        raise GraphError(
            f"{text}: a language model is a name, a config.json, the folder that holds it, a .gguf or .safetensors file"
        )
    return _by_written_name(text, quant)


def _by_written_name(text: str, quant: str) -> LanguageModel:
    """A model by the name that the Hub or ollama has for it."""
    said = written(text)
    found = resolve(said, _known())
    if not found and text.endswith(".gguf"):
        raise GraphError(f"{text}: no such file, and no language model of this name is known")
    if not found:
        letters = re.match("[a-z]*", said.plain)[0]  # type: ignore[index]
        family = [name for name in _known() if letters and name.startswith(letters)]
        raise unknown_name("language model", text, family or _known())
    if len(found) > 1:
        more = f" and {len(found) - 6} others" if len(found) > 6 else ""
        raise UnknownName(f"several language models are named like {shown(text)}: {', '.join(found[:6])}{more}")
    model = from_config(_configs()[found[0]], found[0])
    if text.endswith(".gguf"):
        missing = f"{text}: no such file; {found[0]} is taken, with weights by its recipe."
        model = replace(model, notes=(*model.notes, missing))
    own = "quantization_config" in _configs()[found[0]]
    if quant or said.format or not said.packed or own:
        return _formatted(model, quant or ("" if own and said.format == "mxfp4" else said.format))
    note = f"{text} names packed files without a format: {PACKED} is taken."
    return replace(mixed(model, PACKED), notes=(*model.notes, note))


def _formatted(model: LanguageModel, quant: str) -> LanguageModel:
    return quantised(model, quant) if quant else model
