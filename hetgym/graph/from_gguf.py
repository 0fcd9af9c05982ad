"""Import of language models from GGUF files, the files of llama.cpp and the programs around it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hetgym._groups import gathered
from hetgym._input.files import as_path
from hetgym._text import plain
from hetgym.errors import GraphError, shown
from hetgym.graph.gguf_header import Header, Stored, read_header
from hetgym.graph.language_model import LanguageModel, Layer, Weight

_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_MOST_FILES = 1000
_MOST_LAYERS = 1000

# Every n-th layer attends to all tokens, the others to a window: set_swa_pattern in src/llama-model.cpp of llama.cpp
_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4}


def from_gguf(path: str | os.PathLike[str], bare: bool = False) -> LanguageModel:
    """A language model from the header of a GGUF file, and of the other parts if it is split.

    Nothing but headers is read. Layers that predict further tokens are left out.

    Args:
        path: the file, or the first of its parts, ``NAME-00001-of-00003.gguf``.
        bare: accept files that end before their data do, as the first megabytes of a download.

    Raises:
        GraphError: not a GGUF file of a language model, a malformed header, a part that is missing, or a size that no
            model has; see :func:`~hetgym.graph.gguf_header.read_header`.
    """
    file = as_path(path, "a GGUF file", GraphError)
    headers = [read_header(part, bare) for part in _parts(file)]
    tensors: dict[str, Stored] = {}
    for header in headers:
        for name in header.tensors.keys() & tensors.keys():
            raise GraphError(f"{header.where}: tensor {shown(name)} is in two parts of the file")
        tensors |= header.tensors
    return _model(headers[0], tensors, plain(file.name.removesuffix(".gguf")))


def _parts(file: Path) -> list[Path]:
    match = _SPLIT.fullmatch(file.name)
    if match is None:
        return [file]
    count = int(match[3])
    if int(match[2]) != 1 or not 0 < count <= _MOST_FILES:
        raise GraphError(f"{file}: give the first part of a split file, {match[1]}-00001-of-{match[3]}.gguf")
    return [file.with_name(f"{match[1]}-{k + 1:05}-of-{match[3]}.gguf") for k in range(count)]


class _Pairs:
    """The sizes that a header states for its architecture."""

    def __init__(self, header: Header) -> None:
        self.where, self.pairs = header.where, header.pairs
        family = header.pairs.get("general.architecture")
        if not isinstance(family, str) or not family:
            raise GraphError(f"{self.where}: general.architecture is missing")
        self.family = family

    def each(self, key: str, count: int, default: int | None = None) -> list[int]:
        """A size of each layer, which is one number or an array."""
        value = self.pairs.get(f"{self.family}.{key}", default)
        if value is None:
            raise GraphError(f"{self.where}: {self.family}.{key} is missing")
        values = value if isinstance(value, list) else [value] * count
        if len(values) < count or not all(type(x) is int and 0 <= x < 1 << 31 for x in values):
            raise GraphError(f"{self.where}: {self.family}.{key} is {shown(value)}, not sizes of {count} layers")
        return values[:count]

    def one(self, key: str, default: int | None = None) -> int:
        """A size of the model."""
        value = self.pairs.get(f"{self.family}.{key}", default)
        return max(self.each(key, len(value)), default=0) if isinstance(value, list) else self.each(key, 1, default)[0]


def _model(header: Header, tensors: Mapping[str, Stored], name: str) -> LanguageModel:
    pairs = _Pairs(header)
    count = pairs.one("block_count") - pairs.one("nextn_predict_layers", 0)
    if not 0 < count <= _MOST_LAYERS:
        raise GraphError(f"{header.where}: {count} layers; a model has 1 to {_MOST_LAYERS}")
    weights = [Weight(key, info.shape, info.dtype) for key, info in tensors.items()]
    of_layer = gathered((_layer_of(weight.name), weight) for weight in weights)
    missing = next((i for i in range(count) if i not in of_layer), None)
    outside = {weight.name: weight for weight in of_layer.get(-1, ())}
    if missing is not None or "token_embd.weight" not in outside:
        lacks = "token_embd.weight" if missing is None else f"tensor of layer {missing}"
        raise GraphError(f"{header.where}: it lacks a {lacks}, which every language model has")
    table, head = [outside.pop("token_embd.weight")], []
    tied = "output.weight" not in outside
    head += [] if tied else [outside.pop("output.weight")]
    norms = [weight for key, weight in outside.items() if key.startswith("output_norm")]
    table += [weight for key, weight in outside.items() if not key.startswith("output_norm")]
    positions = pairs.one("context_length", 0)
    windows = _windows(pairs, count)
    kv = pairs.each("attention.head_count_kv", count, pairs.one("attention.head_count"))
    heads = pairs.each("attention.head_count", count)
    layers = tuple(_layer(pairs, tuple(of_layer[i]), heads[i], kv[i], windows[i]) for i in range(count))
    words = table[0].shape[0]
    hidden, layers = pairs.one("embedding_length"), _without_shared(pairs, layers)
    return LanguageModel(name, pairs.family, hidden, words, layers, tuple(table), (*norms, *head), tied, positions)


def _layer_of(name: str) -> int:
    match = re.match(r"blk\.(\d{1,4})\.", name)
    return int(match[1]) if match else -1


def _layer(pairs: _Pairs, weights: tuple[Weight, ...], heads: int, kv: int, window: int) -> Layer:
    roles = {weight.role for weight in weights}
    experts = any(role.endswith("_exps") for role in roles)
    top = max(1, pairs.one("expert_used_count", 0)) if experts else 0
    if "ssm_conv1d" in roles:
        taps, inner, size, groups = (
            pairs.one(f"ssm.{key}", default)
            for key, default in (("conv_kernel", None), ("inner_size", None), ("state_size", None), ("group_count", 0))
        )
        return Layer(weights, heads, state=(taps - 1) * (inner + 2 * groups * size) + size * inner, top=top)
    if "attn_kv_a_mqa" in roles:
        latent = next(weight.shape[0] for weight in weights if weight.role == "attn_kv_a_mqa")
        return Layer(weights, heads, 1, latent, 0, top=top)
    hidden = pairs.one("embedding_length")
    size = hidden // heads if heads else 0
    swa = "_swa" if window and f"{pairs.family}.attention.key_length_swa" in pairs.pairs else ""
    key, value = (pairs.one(f"attention.{what}_length{swa}", size) for what in ("key", "value"))
    cached = kv if roles & {"attn_k", "attn_qkv"} else 0
    return Layer(weights, heads, cached, key, value, window, top=top)


def _windows(pairs: _Pairs, count: int) -> list[int]:
    """The window of each layer; 0 for layers that attend to all tokens."""
    window = pairs.one("attention.sliding_window", 0)
    stated = pairs.pairs.get(f"{pairs.family}.attention.sliding_window_pattern")
    if isinstance(stated, list) and len(stated) >= count:
        return [window if sliding else 0 for sliding in stated[:count]]
    every = stated if type(stated) is int and stated > 0 else _EVERY.get(pairs.family, 1)
    return [window if i % every < every - 1 else 0 for i in range(count)]


def _without_shared(pairs: _Pairs, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers; the last ones read the caches of others."""
    own = len(layers) - pairs.one("attention.shared_kv_layers", 0)
    return tuple(
        layer if i < own else Layer(layer.weights, layer.heads, top=layer.top) for i, layer in enumerate(layers)
    )
