"""LanguageModel: a language model by its numbers, which are its weights and what each layer keeps of a sequence.

It states the memory that a model needs and the bytes that a pass reads. Readers make it of ``config.json``, of GGUF and
safetensors headers; :mod:`~hetgym.graph.mixes` gives its weights formats.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetgym._sums import summed
from hetgym.errors import GraphError, shown
from hetgym.graph.ops import DTYPE_BYTES

CELLS = 256  # llama.cpp pads caches to multiples of it

CACHE_DTYPES = ("float32", "float16", "bfloat16", "float8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""Formats of caches of keys and values."""

CACHE_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "fp8": "float8"}
"""Other names of formats of caches -> their names here."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight by its GGUF name.

    Args:
        name: such as ``blk.3.ffn_down.weight``.
        shape: output rows, then input columns; experts first where there are several.
        dtype: a key of :data:`~hetgym.graph.ops.DTYPE_BYTES`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "bfloat16"

    @property
    def size(self) -> int:
        """Number of parameters."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
        """Size in bytes."""
        return self.size * DTYPE_BYTES[self.dtype]

    @property
    def role(self) -> str:
        """The name without layer and suffix, such as ``ffn_down``."""
        parts = self.name.split(".")
        return parts[2] if parts[0] == "blk" and len(parts) > 2 else parts[0]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its weights, and what it keeps of each sequence.

    Args:
        weights: all weights of the layer.
        heads: heads of queries.
        kv_heads: heads of keys and values in the cache; 0 for a layer without a cache.
        key_size: numbers of a cached key; the latent vector and the rotated part in multi-head latent attention.
        value_size: numbers of a cached value; 0 in multi-head latent attention, whose values are the latent vector.
        window: tokens that attention sees; 0 for all.
        state: float32 numbers of a state that does not grow, for each sequence (linear attention).
        top: experts that a token passes through; 0 for a layer without experts.
    """

    weights: tuple[Weight, ...]
    heads: int = 0
    kv_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    window: int = 0
    state: int = 0
    top: int = 0

    @property
    def experts(self) -> tuple[Weight, ...]:
        """The weights of experts; a token reads some of these only."""
        return tuple(weight for weight in self.weights if weight.role.endswith("_exps"))

    @property
    def bytes(self) -> float:
        """Size of all weights in bytes."""
        return summed(weight.bytes for weight in self.weights)

    def cells(self, context: int, sequences: int = 1, step: int = 512) -> int:
        """Tokens that the layer's cache has room for, as llama.cpp allocates it.

        A layer with a window keeps the window of each sequence and the tokens of one step.

        Args:
            context: tokens of all sequences in the cache.
            sequences: number of sequences in the cache.
            step: most tokens that are passed at once.
        """
        cells = padded(context)
        return min(cells, padded(self.window * sequences + step)) if self.window else cells

    def cache_bytes(
        self,
        context: int,
        key: str = "float16",
        value: str = "float16",
        sequences: int = 1,
        step: int = 512,
        unified: bool = True,
    ) -> float:
        """Bytes of cache and state on the layer's device, as llama.cpp allocates them; see :meth:`cells`.

        Args:
            context: tokens of all sequences in a unified cache, or of each.
            key: format of keys, one of :data:`CACHE_DTYPES`.
            value: format of values.
            sequences: number of sequences.
            step: most tokens that are passed at once (``-ub``).
            unified: whether the sequences share one cache.
        """
        streams = 1 if unified else sequences
        cells = self.cells(context, sequences if unified else 1, step)
        token = self.kv_heads * (self.key_size * DTYPE_BYTES[key] + self.value_size * DTYPE_BYTES[value])
        return streams * cells * token + 4.0 * self.state * sequences


@dataclass(frozen=True)
class LanguageModel:
    """A language model by its numbers.

    Args:
        name: of the file or the model.
        family: ``model_type`` of a configuration, ``general.architecture`` of a GGUF file.
        hidden: width of the residual stream.
        vocabulary: rows of the table of words.
        layers: the layers, those that predict further tokens left out.
        table: the weights before the layers: words, positions.
        head: the weights after them: the last norm, and the product that scores words unless it is tied.
        tied: whether the table of words scores the words, too.
        positions: longest context that the model was made for; 0 if it is unknown.
        notes: sentences about what its numbers rest on beside the file.
    """

    name: str
    family: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    table: tuple[Weight, ...]
    head: tuple[Weight, ...]
    tied: bool = False
    positions: int = 0
    notes: tuple[str, ...] = ()

    @property
    def weights(self) -> Iterator[Weight]:
        """All weights, a tied table once."""
        yield from self.table
        for layer in self.layers:
            yield from layer.weights
        yield from self.head

    @property
    def parameters(self) -> int:
        """Number of parameters.

        >>> from hetgym.graph.from_config import from_config
        >>> sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}
        >>> sizes |= {"intermediate_size": 11008, "max_position_embeddings": 4096}
        >>> f"{from_config({'model_type': 'llama', **sizes}).parameters:,}"
        '6,738,415,616'
        """
        return summed(weight.size for weight in self.weights)

    @property
    def bytes(self) -> float:
        """Size of all weights in bytes, a tied table once."""
        return summed(weight.bytes for weight in self.weights)

    @property
    def scoring(self) -> Weight:
        """The weight that scores the words: that of the head, or the table if it is tied."""
        return self.table[0] if self.tied else self.head[-1]

    @property
    def experts(self) -> int:
        """Number of experts of a layer that has some; 0 if none has."""
        return max((weight.shape[0] for layer in self.layers for weight in layer.experts), default=0)

    def cache_bytes(
        self,
        context: int,
        key: str = "float16",
        value: str = "float16",
        sequences: int = 1,
        step: int = 512,
        unified: bool = True,
    ) -> float:
        """Bytes of all layers' caches and states; arguments as of :meth:`Layer.cache_bytes`.

        Raises:
            GraphError: an unknown format of caches, or a context that is not positive.
        """
        for dtype in (key, value):
            if dtype not in CACHE_DTYPES:
                raise GraphError(f"cache format {shown(dtype)}; it must be one of {', '.join(CACHE_DTYPES)}")
        if context < 1:
            raise GraphError(f"context is {context}; it must be at least 1")
        return summed(layer.cache_bytes(context, key, value, sequences, step, unified) for layer in self.layers)

    def cast(self, dtype: str) -> "LanguageModel":
        """A copy whose weights all have one format."""
        return self.formatted({weight.name: dtype for weight in self.weights})

    def formatted(self, dtypes: dict[str, str]) -> "LanguageModel":
        """A copy whose weights have the formats of a dictionary, by name."""

        def changed(weights: tuple[Weight, ...]) -> tuple[Weight, ...]:
            return tuple(replace(weight, dtype=dtypes[weight.name]) for weight in weights)

        layers = tuple(replace(layer, weights=changed(layer.weights)) for layer in self.layers)
        return replace(self, layers=layers, table=changed(self.table), head=changed(self.head))


def padded(context: int) -> int:
    """Cells of a cache for a number of tokens."""
    return -(-context // CELLS) * CELLS


def cache_formats(text: str) -> tuple[str, str]:
    """Formats of cached keys and of values: one for both, or two with a comma.

    Raises:
        GraphError: not one or two of :data:`CACHE_DTYPES` and :data:`CACHE_NAMES`.

    >>> cache_formats("q8_0,f16")
    ('q8_0', 'float16')
    """
    names = [CACHE_NAMES.get(name.strip(), name.strip()) for name in text.split(",")] if isinstance(text, str) else []
    if not 0 < len(names) <= 2 or not set(names) <= set(CACHE_DTYPES):
        known = ", ".join(sorted({*CACHE_NAMES, *CACHE_DTYPES}))
        raise GraphError(f"cache is {shown(text)}; it must be one format, or two with a comma, of {known}")
    return names[0], names[-1]
