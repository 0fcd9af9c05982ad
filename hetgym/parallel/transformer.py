"""Layers of a transformer, priced operator by operator under tensor parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetgym._input.config import check_number
from hetgym._sums import summed
from hetgym._types import frozen
from hetgym.costs import AutoCosts, CostModel
from hetgym.costs.gpu.gemm import MEMORY_EFFICIENCY
from hetgym.device import Device
from hetgym.errors import ConfigError, check_name
from hetgym.graph.ops import DTYPE_BYTES, Attribute, Operator, Tensor
from hetgym.graph.transforms.training import backward_operators
from hetgym.graph.zoo import LANGUAGE_MODELS
from hetgym.parallel.cluster import Cluster
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import Passes, Sizes

BLUR = 3
"""Half the exponent of the smooth maximum of the host's and the GPU's time. Where both are equal a pass takes 12 %
longer, as now one of them waits and now the other."""

STYLES = ("gpt", "llama")
"""Kinds of blocks: GPT's, with layer norms, dropout, GELU and a softmax in memory, as Megatron ran it; and Llama's,
with RMS norms, rotary positions, SwiGLU and one kernel for attention."""


@dataclass(frozen=True)
class TransformerSize:
    """Size of a decoder.

    Raises:
        ConfigError: a number that is not positive, or heads that do not divide.
        UnknownName: no such style.
    """

    hidden: int  # width of the residual stream
    heads: int  # attention heads; must divide `hidden`
    blocks: int
    sequence: int  # tokens of a sample
    vocabulary: int = 50304  # rows of the embedding table
    inner: int = 0  # width of the feed-forward layer; 0 = four times `hidden`
    kv_heads: int = 0  # heads of keys and values, which must divide `heads`; 0 = `heads`
    style: str = "gpt"  # one of STYLES
    dtype: str = "float16"  # dtype of weights and activations

    def __post_init__(self) -> None:
        check_name("style of blocks", self.style, STYLES)
        for name in ("hidden", "heads", "blocks", "sequence", "vocabulary"):
            check_number(getattr(self, name), f"transformer: {name}", ConfigError, minimum=1)
        object.__setattr__(self, "inner", self.inner or 4 * self.hidden)
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        for name in ("inner", "kv_heads"):
            check_number(getattr(self, name), f"transformer: {name}", ConfigError, minimum=1)
        if self.hidden % self.heads:
            raise ConfigError(f"transformer: hidden is {self.hidden}, which {self.heads} heads do not divide")
        if self.heads % self.kv_heads:
            raise ConfigError(f"transformer: {self.kv_heads} heads of keys do not divide {self.heads} heads")

    @property
    def joint(self) -> int:
        """Columns of the product that makes queries, keys and values."""
        return self.hidden // self.heads * (self.heads + 2 * self.kv_heads)

    @property
    def flops(self) -> float:
        """FLOPs of the products of a training step for one sample, without recomputation [FLOP]."""
        every = self.hidden * (self.joint + self.hidden + (3 if self.style == "llama" else 2) * self.inner)
        scores = (0.5 if self.style == "llama" else 1.0) * 2.0 * self.sequence * self.hidden  # causal kernels halve it
        return 6.0 * self.sequence * (self.blocks * (every + scores) + self.hidden * self.vocabulary)


def _of_zoo(name: str) -> TransformerSize:
    """The size of a decoder of the zoo."""
    sizes = LANGUAGE_MODELS[name].sizes
    return TransformerSize(
        hidden=sizes["hidden"],
        heads=sizes["heads"],
        blocks=sizes["layers"],
        sequence=sizes["sequence"],
        vocabulary=sizes.get("vocabulary", 32000),
        inner=sizes.get("intermediate", 0),
        kv_heads=sizes.get("kv_heads", 0),
        style=sizes["family"],
        dtype="bfloat16",
    )


SIZES: dict[str, TransformerSize] = {
    **{
        f"gpt-{name}": TransformerSize(hidden, heads, blocks, 2048, 51200)
        for name, hidden, heads, blocks in (
            ("1.7b", 2304, 24, 24),
            ("3.6b", 3072, 32, 30),
            ("7.5b", 4096, 32, 36),
            ("18b", 6144, 48, 40),
            ("39b", 8192, 64, 48),
            ("76b", 10240, 80, 60),
            ("175b", 12288, 96, 96),
        )
    },
    **{
        name: _of_zoo(name)
        for name, model in LANGUAGE_MODELS.items()
        if model.sizes["family"] in STYLES and "experts" not in model.sizes
    },
}
"""Decoders by name: those of Narayanan et al., SC 2021, table 1, in float16, and those of the zoo in bfloat16."""


class TransformerLayers:
    """Costs of a transformer's layers: the embedding, the blocks and the head.

    Operators are those that Megatron launches (Shoeybi et al., arXiv 1909.08053): the products of a block are split by
    columns, then by rows, so that a block needs two all-reduces in either pass. The GPU runs behind the host: a pass
    takes the longer of the host's launches and the GPU's kernels, and a little more where they are nearly equal.

    Args:
        cluster: the GPUs, and the network for the all-reduces.
        costs: cost model of the operators; by default the one that each device names.
    """

    def __init__(
        self,
        size: TransformerSize,
        cluster: Cluster,
        framework: Framework | None = None,
        costs: CostModel | None = None,
    ) -> None:
        self.size = size
        self.cluster = cluster
        self.framework = framework or Framework()
        self.costs = costs or AutoCosts()
        self._passes: dict[tuple[str, int, int], Passes | None] = {}
        self._sizes: dict[int, Sizes | None] = {}
        self._under: dict[Framework, TransformerLayers] = {}

    @property
    def layers(self) -> int:
        """Number of layers: blocks, embedding and head."""
        return self.size.blocks + 2

    def under(self, framework: Framework) -> TransformerLayers:
        """The same model under another framework."""
        if replace(framework, zero=self.framework.zero) == self.framework:  # costs of layers know nothing of ZeRO
            return self
        if framework not in self._under:
            self._under[framework] = TransformerLayers(self.size, self.cluster, framework, self.costs)
        return self._under[framework]

    def sizes(self, tensor: int) -> Sizes | None:
        """Sizes under a tensor degree; None if it does not divide the heads."""
        if tensor not in self._sizes:
            self._sizes[tensor] = self._counted(tensor)
        return self._sizes[tensor]

    def _counted(self, tensor: int) -> Sizes | None:
        at = self.size
        if at.heads % tensor or at.kv_heads % tensor or (self.framework.sequence and at.sequence % tensor):
            return None
        h, x = at.hidden, float(at.sequence * at.hidden * _width(at.dtype))
        llama = at.style == "llama"
        products = h * (at.joint + h + (3 if llama else 2) * at.inner) / tensor
        small = 2 * h if llama else 6 * h + (at.joint + at.inner) / tensor
        table = -(-at.vocabulary // tensor) * h
        shared = tensor if self.framework.sequence else 1  # GPUs that share out the tokens of the residual stream
        kept = _kept(at, tensor, self.framework.sequence)
        stash = x / shared if self.framework.recompute else kept
        logits = at.sequence * at.vocabulary / tensor * (_width(at.dtype) + 4.0)
        first = table if llama else table + at.sequence * h
        last = h + table if llama else 2.0 * h + table  # GPT's head is tied to the table
        parameters = [first, *[products + small] * at.blocks, last]
        stashes = [x / shared, *[stash] * at.blocks, logits]
        work = [0.0, *[kept if self.framework.recompute else 0.0] * at.blocks, 0.0]
        columns = (parameters, stashes, [x] * (at.blocks + 2), work)
        held, left, handed, again = (frozen(np.array(a, np.float64)) for a in columns)
        return Sizes(held, left, handed, again, tied=0.0 if llama else float(table))

    def passes(self, pool: str, tensor: int, micro_batch: int) -> Passes | None:
        """Times on ``tensor`` GPUs of one node of a pool; None if the model does not divide so."""
        key = pool, tensor, micro_batch
        if key not in self._passes:
            self._passes[key] = self._priced(*key)
        return self._passes[key]

    def _priced(self, pool: str, tensor: int, micro_batch: int) -> Passes | None:
        sizes = self.sizes(tensor)
        if sizes is None:
            return None
        at, device = self.size, self.cluster[pool].device
        shared = self._all_reduce(pool, tensor, micro_batch)
        forward, backward, sequence = [], [], self.framework.sequence
        for operators, reductions in (
            (embedding(at, tensor, micro_batch, sequence), 1),
            (block(at, tensor, micro_batch, sequence), 2),
            (head(at, tensor, micro_batch, sequence), 1),
        ):
            gradients = [op for forth in reversed(operators) for op in backward_operators(forth)]
            forward.append(self._pass(operators, device, tensor, reductions * shared))
            backward.append(self._pass(gradients, device, tensor, reductions * shared))
        if self.framework.recompute:
            backward[1] += forward[1]
        update = sizes.parameters * self.framework.update_bytes / (MEMORY_EFFICIENCY * device.memory_bandwidth)
        spread = [1, at.blocks, 1]
        return Passes(frozen(np.repeat(forward, spread)), frozen(np.repeat(backward, spread)), frozen(update))

    def _pass(self, operators: Sequence[Operator], device: Device, tensor: int, shared: float) -> float:
        """Time of operators that the host launches one after the other, and of their all-reduces [s]."""
        ghost = replace(device, launch_overhead=0.0)
        kernels = float(self.costs.predict(operators, ghost).sum()) + shared
        launches = sum(op.spec.family != "view" for op in operators) * self.framework.dispatch
        host = launches * (1.0 + self.framework.straggle * tensor * (tensor - 1) / 2)
        return float(np.hypot(kernels**BLUR, host**BLUR) ** (1.0 / BLUR))

    def _all_reduce(self, pool: str, tensor: int, micro_batch: int) -> float:
        """Time to reduce the residual stream over a group, or to scatter and gather it [s]."""
        if tensor == 1:
            return 0.0
        found = self.cluster[pool]
        moved = float(micro_batch * self.size.sequence * self.size.hidden * _width(self.size.dtype))
        if self.framework.sequence:
            return 2.0 * found.network.gather(moved, tensor, -(-tensor // found.per_node))
        return found.network.all_reduce(moved, tensor, -(-tensor // found.per_node))


def block(size: TransformerSize, tensor: int, micro_batch: int, sequence: bool = False) -> list[Operator]:
    """Operators of a block on one GPU of a tensor-parallel group, in the order of their launches.

    With ``sequence`` a GPU has its share of the tokens, except between the all-gather before the first product of the
    attention or the feed-forward layer and the reduce-scatter behind the last.

    >>> sum(op.kind == "MatMul" for op in block(TransformerSize(64, 4, 1, 16), 2, 1))
    6
    """
    rows, h, wide = micro_batch * size.sequence, size.hidden, size.inner // tensor
    own, depth = micro_batch * size.heads // tensor, h // size.heads
    x, part = (rows // (tensor if sequence else 1), h), (rows, h // tensor)
    made: list[Operator] = []

    def add(name: str, kind: str, shape: tuple[int, ...], *operands: Tensor, **attributes: Attribute) -> Tensor:
        result = Tensor(shape, size.dtype)
        made.append(Operator(name, kind, operands, (result,), attributes))
        return result

    def weight(name: str, *shape: int) -> Tensor:
        return Tensor(shape, size.dtype, constant=True, name=name)

    def product(name: str, value: Tensor, inner: int, outer: int) -> Tensor:
        whole = value if value.shape[0] == rows else Tensor((rows, *value.shape[1:]), size.dtype)
        return add(name, "MatMul", (rows, outer), whole, weight(f"{name}.weight", inner, outer))

    def share(value: Tensor) -> Tensor:
        return value if not sequence else Tensor(x, size.dtype)

    def normal(name: str, value: Tensor) -> Tensor:
        kind = "RMSNormalization" if size.style == "llama" else "LayerNormalization"
        return add(name, kind, x, value, weight(f"{name}.weight", h))

    stream = Tensor(x, size.dtype)
    joint = product("query_key_value", normal("norm_attention", stream), h, size.joint // tensor)
    if size.style == "llama":
        turned = (rows, joint.shape[1] - size.kv_heads * depth // tensor)
        add("rotary", "Mul", turned, Tensor(turned, size.dtype), weight("rotary.angles", size.sequence, depth))
        heads = [(micro_batch, count // tensor, size.sequence, depth) for count in (size.heads, size.kv_heads)]
        query, key, value = (Tensor(shape, size.dtype) for shape in (heads[0], heads[1], heads[1]))
        mixed = add("attention", "Attention", part, query, key, value, is_causal=1)
        out = share(product("projection", mixed, h // tensor, h))
        stream = add("residual_attention", "Add", x, out, stream)
        flat = normal("norm_feed_forward", stream)
        gate = add("activation", "Swish", (rows, wide), product("gate", flat, h, wide))
        inner = add("gated", "Mul", (rows, wide), gate, product("up", flat, h, wide))
        add("residual_feed_forward", "Add", x, share(product("down", inner, wide, h)), stream)
        return made
    scores, per_head = (own, size.sequence, size.sequence), (own, size.sequence, depth)
    query, key, value = (Tensor(shape, size.dtype) for shape in (per_head, (own, depth, size.sequence), per_head))
    score = add("scores", "MatMul", scores, query, key)
    score = add("mask", "Add", scores, score, Tensor(scores[1:], "bool", constant=True))
    score = add("softmax", "Softmax", scores, score)
    score = add("attention_dropout", "Mul", scores, score, Tensor(scores, "bool"))
    mixed = add("context", "MatMul", per_head, score, value)
    mixed = add("context_heads", "Transpose", part, mixed)
    out = share(product("projection", mixed, h // tensor, h))
    out = add("projection_dropout", "Mul", x, out, Tensor(x, "bool"))
    stream = add("residual_attention", "Add", x, out, stream)
    inner = add("activation", "Gelu", (rows, wide), product("up", normal("norm_feed_forward", stream), h, wide))
    out = share(product("down", inner, wide, h))
    out = add("down_dropout", "Mul", x, out, Tensor(x, "bool"))
    add("residual_feed_forward", "Add", x, out, stream)
    return made


def embedding(size: TransformerSize, tensor: int, micro_batch: int, sequence: bool = False) -> list[Operator]:
    """Operators of the embedding on one GPU of a tensor-parallel group; for ``sequence`` see :func:`block`."""
    rows = micro_batch * size.sequence
    whole = Tensor((rows, size.hidden), size.dtype)
    x = Tensor((rows // (tensor if sequence else 1), size.hidden), size.dtype)
    table = Tensor((-(-size.vocabulary // tensor), size.hidden), size.dtype, constant=True, name="table")
    tokens = Tensor((micro_batch * size.sequence,), "int64")
    return [
        Operator("embedding", "Gather", (table, tokens), (whole,)),
        Operator("position", "Add", (x, x), (x,)),
        Operator("embedding_dropout", "Mul", (x, Tensor(x.shape, "bool")), (x,)),
    ]


def head(size: TransformerSize, tensor: int, micro_batch: int, sequence: bool = False) -> list[Operator]:
    """Operators of the last normalisation, the logits and the loss on one GPU of a tensor-parallel group.

    For ``sequence`` see :func:`block`.
    """
    rows, columns = micro_batch * size.sequence, -(-size.vocabulary // tensor)
    whole = Tensor((rows, size.hidden), size.dtype)
    x = Tensor((rows // (tensor if sequence else 1), size.hidden), size.dtype)
    scale = Tensor((size.hidden,), size.dtype, constant=True, name="norm.weight")
    table = Tensor((size.hidden, columns), size.dtype, constant=True, name="table")
    logits, wide = Tensor((rows, columns), size.dtype), Tensor((rows, columns), "float32")
    return [
        Operator("norm", "LayerNormalization", (x, scale), (x,)),
        Operator("logits", "MatMul", (whole, table), (logits,)),
        Operator("logits_float32", "Cast", (logits,), (wide,)),
        Operator("loss", "LogSoftmax", (wide,), (wide,)),
    ]


def _kept(size: TransformerSize, tensor: int, sequence: bool = False) -> float:
    """Bytes of a sample that a block keeps for its backward pass, without recomputation [byte].

    What the operators of :func:`block` read, each tensor once: inputs of norms and products, scores and masks. With
    ``sequence`` each GPU keeps its share of the tokens of what was gathered, and gathers it again.
    """
    kept: dict[tuple[str, tuple[int, ...]], float] = {}
    gathered = (size.sequence, size.hidden)
    for op in block(size, tensor, 1, sequence):
        if op.kind != "Add":
            for k, value in enumerate(op.inputs):
                if not value.constant:
                    share = tensor if sequence and op.kind == "MatMul" and value.shape == gathered else 1
                    kept[f"{op.name}{k}", value.shape] = value.bytes / share
    return summed(kept.values())


def _width(dtype: str) -> float:
    return DTYPE_BYTES[dtype]
