"""Parts: what the layers of a language model take of memory and of time, in arrays over layers."""

from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import BoolArray, FloatArray
from hetgym.costs.decoding import conversion
from hetgym.graph.language_model import LanguageModel, Layer, Weight


class Load(NamedTuple):
    """How a model is used."""

    context: int  # tokens that the caches hold
    key: str = "float16"  # format of cached keys
    value: str = "float16"  # and of values
    sequences: int = 1  # sequences that are decoded at once
    step: int = 512  # tokens of a prompt that are passed at once
    used: int | None = None  # tokens that the caches hold while a token is decoded; None for all


class Parts(NamedTuple):
    """Arrays over the n layers, and figures of what surrounds them."""

    dense: FloatArray  # [n] weights that are not of experts [byte]
    experts: FloatArray  # [n] weights of experts [byte]
    cache: FloatArray  # [n] cache and state [byte]
    kv_heads: FloatArray  # [n] heads of keys and values, at least 1
    linear: BoolArray  # [n] whether attention is linear: its state does not grow
    cached: FloatArray  # [n] numbers of the caches that a step of decoding reads
    seen: FloatArray  # [n] most tokens that attention sees; infinite without a window, 0 without attention
    scores: FloatArray  # [n] FLOPs of attention to one of them
    chosen: FloatArray  # [n] bytes of experts that it reads
    dense_conversion: FloatArray  # [n] FLOPs to convert weights stored in blocks, without experts
    chosen_conversion: FloatArray  # [n] and of the experts that it reads
    dense_flops: FloatArray  # [n] FLOPs of a token of a prompt, without experts
    chosen_flops: FloatArray  # [n] and of its experts
    table: float  # weights before the layers [byte]
    head: float  # weights behind them, a copy of a tied table included [byte]
    head_conversion: float  # FLOPs to convert these where they are stored in blocks
    tied: float  # of these, what a device with the table holds already [byte]
    head_flops: float  # FLOPs of scoring a token
    hidden: int  # width of the residual stream
    vocabulary: int  # words that are scored
    token: int  # most numbers of keys and values of a token in one layer's cache


def parts_of(model: LanguageModel, load: Load) -> Parts:
    """The parts of a model under a load."""
    count = load.sequences
    rows = [(_dense(layer.weights), list(layer.experts), layer) for layer in model.layers]
    held = np.array([_bytes(dense) for dense, _, _ in rows])
    cache = np.array([x.cache_bytes(load.context, load.key, load.value, count, load.step) for _, _, x in rows])
    shares = np.array([_share(layer.top, experts, count) for _, experts, layer in rows])
    of_experts = np.array([_bytes(experts) for _, experts, _ in rows])
    top = np.array([layer.top / experts[0].shape[0] if experts else 0.0 for _, experts, layer in rows])
    scoring = model.scoring
    return Parts(
        dense=held,
        experts=of_experts,
        cache=cache,
        kv_heads=np.array([float(max(1, layer.kv_heads or layer.heads)) for layer in model.layers]),
        linear=np.array([layer.state > 0 for layer in model.layers]),
        cached=np.array([_cached(x, load) for x in model.layers]),
        seen=np.array([(float(x.window or np.inf) if x.kv_heads else 0.0) for x in model.layers]),
        scores=np.array([2.0 * x.heads * (x.key_size + (x.value_size or x.key_size)) for x in model.layers]),
        chosen=of_experts * shares,
        dense_conversion=np.array([_conversion(dense) for dense, _, _ in rows]),
        chosen_conversion=np.array([_conversion(experts) for _, experts, _ in rows]) * shares,
        dense_flops=np.array([2.0 * summed(w.size for w in dense) for dense, _, _ in rows]),
        chosen_flops=np.array([2.0 * summed(w.size for w in experts) for _, experts, _ in rows]) * top,
        table=_bytes(list(model.table)),
        head=_bytes(list(model.head)) + (scoring.bytes if model.tied else 0.0),
        head_conversion=_conversion([scoring]),
        tied=scoring.bytes if model.tied else 0.0,
        head_flops=2.0 * scoring.size,
        hidden=model.hidden,
        vocabulary=model.vocabulary,
        token=max(x.kv_heads * (x.key_size + x.value_size) for x in model.layers),
    )


def _cached(layer: Layer, load: Load) -> float:
    """Numbers of keys, values and state that a step reads; a unified cache is divided among the sequences."""
    used = load.context if load.used is None else load.used
    seen = min(used, layer.window) if layer.window else used
    return float(layer.kv_heads * (layer.key_size + layer.value_size) * seen + layer.state)


def _dense(weights: tuple[Weight, ...]) -> list[Weight]:
    return [weight for weight in weights if not weight.role.endswith("_exps")]


def _bytes(weights: list[Weight]) -> float:
    return float(summed(weight.bytes for weight in weights))


def _conversion(weights: list[Weight]) -> float:
    """FLOPs to convert weights that are stored in blocks."""
    return float(summed(weight.size * conversion(weight.dtype) for weight in weights))


def _share(top: int, experts: list[Weight], sequences: int) -> float:
    """Share of the experts that some sequences read in a step, if each chooses at random."""
    return 1.0 - (1.0 - top / experts[0].shape[0]) ** sequences if experts else 0.0
