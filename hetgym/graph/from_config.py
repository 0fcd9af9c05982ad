"""Import of language models from ``config.json``, the file of Hugging Face that states a model's sizes."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, read_text
from hetgym._input.json import noun, parse
from hetgym._text import plain
from hetgym.errors import GraphError, shown, size, suggestion
from hetgym.graph.architectures import ARCHITECTURES, CHUNKED, SLIDING, Architecture, layer_kinds
from hetgym.graph.config_keys import Keys
from hetgym.graph.language_model import LanguageModel, Layer, Weight
from hetgym.graph.layer_parts import norm
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.graph.quantised_config import read_quantisation

LARGEST = 1 << 22  # Largest configuration that is read [byte]
QUANTISED = ("quantization_config", "compression_config", "quantization")
"""Keys of a configuration that state formats of weights; the first that is there counts."""

_POSITIONS = (
    "max_position_embeddings", "n_positions", "seq_length", "n_ctx", "max_seq_len", "max_sequence_length",
)  # fmt: skip


def from_config(config: str | os.PathLike[str] | Mapping[str, Any], name: str = "") -> LanguageModel:
    """A language model from its ``config.json``, or from the mapping in it.

    Parts for images and sound, and layers that predict further tokens, are left out.

    Args:
        config: the file, or what it holds.
        name: name of the model; by default that of the file's folder, or ``_name_or_path``.

    Raises:
        GraphError: not a configuration; an unknown ``model_type``; missing keys, which are all named: their defaults
            are the sizes of some other model; or a size out of range.
    """
    if isinstance(config, Mapping):
        return from_document(config, "config", "", name)
    file = as_path(config, "a configuration", GraphError)
    return from_document(read_config(file), str(file), plain(Path(file).resolve().parent.name), name)


def read_config(file: Path) -> Mapping[str, Any]:
    """The mapping that a ``config.json`` holds; GraphError if it is missing, damaged or another document."""
    document = parse(read_text(file, LARGEST, GraphError), str(file), GraphError)
    if not isinstance(document, Mapping):
        raise GraphError(f"{file}: {noun(document)}, not a configuration of a language model")
    return document


def from_document(document: Mapping[str, Any], where: str, title: str, name: str = "") -> LanguageModel:
    """As :func:`from_config`, for what the file ``where`` in the folder ``title`` holds."""
    inner, pictures = document.get("text_config"), document.get("vision_config")
    if isinstance(inner, Mapping):
        document = {**document, **inner}
    family = document.get("model_type")
    if not isinstance(family, str) or family not in ARCHITECTURES:
        told = suggestion(family, ARCHITECTURES) if family else "the key is missing"
        raise GraphError(f"{where}: unknown model_type {shown(family)}; {told}")
    stated = document.get("_name_or_path")
    title = name or (plain(stated) if isinstance(stated, str) and stated else title) or family
    architecture = ARCHITECTURES[family]
    keys = Keys(document, where, architecture.usual)
    found = _model(keys, architecture, family, title)
    if keys.missing:
        missing = ", ".join(dict.fromkeys(keys.missing))
        raise GraphError(f"{where}: a {family} model needs the missing keys {missing}")
    found = replace(found, notes=(*found.notes, *_pictures(pictures, where)))
    return found.formatted(_dtypes(keys, found))


def _pictures(config: object, where: str) -> list[str]:
    """A sentence on the image encoder, whose size is that of the products of its layers."""
    if not isinstance(config, Mapping):
        return []
    sizes = (("hidden_size", "embed_dim"), ("num_hidden_layers", "depth"), ("intermediate_size",))
    found = [next((config[name] for name in names if type(config.get(name)) is int), 0) for names in sizes]
    hidden, layers, wide = (min(max(size, 0), 1 << 20) for size in found)
    held = 2.0 * layers * (4 * hidden * hidden + 2 * hidden * (wide or 4 * hidden))
    about = f", which takes about {size(held)} in 16 bits" if held else ""
    return [f"{where}: the image encoder is left out{about}; reserve memory for it on the first GPU."]


def _model(keys: Keys, architecture: Architecture, family: str, name: str) -> LanguageModel:
    hidden, count = keys.hidden, keys.layers
    for key in architecture.needs:
        keys.whole(key)
    words = keys.whole("vocab_size")
    positions = keys.whole(*_POSITIONS, default=None if architecture.places else 0, most=1 << 30)
    kinds = layer_kinds(keys, architecture, count)
    layers = tuple(_layer(keys, architecture, i, kinds[i]) for i in range(count))
    table = [Weight("token_embd.weight", (words, hidden))]
    table += [Weight("position_embd.weight", (positions, hidden))] if architecture.places else []
    table += norm("token_embd_norm", hidden, True) if architecture.table_norm else []
    table += architecture.tables(keys) if architecture.tables else []
    tied = keys.flag("tie_word_embeddings", architecture.tied)
    head = norm("output_norm", hidden, architecture.bias)
    head += [Weight("output.bias", (words,))] if keys.flag(architecture.head_bias) else []
    head += [] if tied else [Weight("output.weight", (words, hidden))]
    notes = [_assumed(keys, family)] if keys.assumed else []
    notes += [] if positions else [f"{keys.where} does not state the longest context."]
    return LanguageModel(name, family, hidden, words, layers, tuple(table), tuple(head), tied, positions, tuple(notes))


def _assumed(keys: Keys, family: str) -> str:
    """A sentence that names the numbers that the file leaves to its family."""
    numbers = ", ".join(f"{key} {value}" for key, value in keys.assumed.items())
    return f"{keys.where} leaves numbers to the defaults of {family}: {numbers}."


def _layer(keys: Keys, architecture: Architecture, i: int, kind: str) -> Layer:
    at = f"blk.{i}."
    attention = architecture.special.get(kind, architecture.attention)
    own, feed = attention(keys, at, i), architecture.feed(keys, at, i)
    names = architecture.norms[: 1 if architecture.parallel and keys.flag(architecture.parallel) else None]
    norms = [w for name in names for w in norm(at + name, keys.hidden, architecture.bias)]
    stated = {SLIDING: "sliding_window", CHUNKED: "attention_chunk_size"}.get(kind)
    window = keys.whole(stated, most=1 << 30) if stated else 0
    return replace(own, weights=(*norms, *own.weights, *feed.weights), window=window, top=feed.top)


def _dtypes(keys: Keys, model: LanguageModel) -> dict[str, str]:
    """The format of each weight, by ``torch_dtype`` and ``quantization_config``; GraphError for an unknown one."""
    base = keys.config.get("torch_dtype") or keys.config.get("dtype") or "bfloat16"
    if not isinstance(base, str) or base not in DTYPE_BYTES:
        raise GraphError(f"{keys.where}: unknown dtype {shown(base)}; {suggestion(base, DTYPE_BYTES)}")
    dtypes = {weight.name: base for weight in model.weights}
    how = next((keys.config[key] for key in QUANTISED if isinstance(keys.config.get(key), Mapping)), None)
    return dtypes | (read_quantisation(how, keys.where).dtypes(model) if how else {})
