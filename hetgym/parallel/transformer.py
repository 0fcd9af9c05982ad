"""Layers of a transformer, priced operator by operator under tensor parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetgym._config import check_number
from hetgym._types import frozen
from hetgym.costs import AutoCosts, CostModel
from hetgym.costs.gpu_gemm import MEMORY_EFFICIENCY
from hetgym.device import Device
from hetgym.errors import ConfigError
from hetgym.graph.ops import DTYPE_BYTES, Operator, Tensor
from hetgym.graph.transforms.training import backward_operators
from hetgym.parallel.cluster import Cluster
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import Passes, Sizes


@dataclass(frozen=True)
class TransformerSize:
    """Size of a decoder of GPT's kind.

    Args:
        hidden: width of the residual stream.
        heads: attention heads; must divide ``hidden``.
        blocks: number of blocks.
        sequence: tokens of a sample.
        vocabulary: rows of the embedding table.
        expansion: width of the feed-forward layer, as a multiple of ``hidden``.
        dtype: dtype of weights and activations.

    Raises:
        ConfigError: a number that is not positive, or heads that do not divide the width.
    """

    hidden: int
    heads: int
    blocks: int
    sequence: int
    vocabulary: int = 50304
    expansion: int = 4
    dtype: str = "float16"

    def __post_init__(self) -> None:
        for name in ("hidden", "heads", "blocks", "sequence", "vocabulary", "expansion"):
            check_number(getattr(self, name), f"transformer: {name}", ConfigError, minimum=1)
        if self.hidden % self.heads:
            raise ConfigError(f"transformer: hidden is {self.hidden}, which {self.heads} heads do not divide")


class TransformerLayers:
    """Costs of a transformer's layers: the embedding, the blocks and the head.

    Operators are those that Megatron launches (Shoeybi et al., arXiv 1909.08053): the products of a block are split by
    columns, then by rows, so that a block needs two all-reduces in either pass. The GPU runs behind the host: a pass
    takes the longer of the host's launches and the GPU's kernels.

    Args:
        size: the model.
        cluster: the GPUs, and the network for the all-reduces.
        framework: what the training program adds.
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

    @property
    def layers(self) -> int:
        """Number of layers: blocks, embedding and head."""
        return self.size.blocks + 2

    def sizes(self, tensor: int) -> Sizes | None:
        """Sizes under a tensor degree; None if it does not divide the heads."""
        at = self.size
        if at.heads % tensor:
            return None
        h, x = at.hidden, float(at.sequence * at.hidden * _width(at.dtype))
        block = (4 + 2 * at.expansion) * h * h / tensor + (9 + at.expansion) * h
        table = -(-at.vocabulary // tensor) * h
        scores = at.heads / tensor * at.sequence**2 * (2 * _width(at.dtype) + 1)
        stash = x if self.framework.recompute else x * (10 + (8 + 4 * at.expansion) / (2 * tensor)) / 2 * 2 + scores
        logits = at.sequence * at.vocabulary / tensor * 6.0
        parameters = [table + at.sequence * h, *[block] * at.blocks, 2.0 * h]
        stashes = [x, *[stash] * at.blocks, logits]
        return Sizes(*(frozen(np.array(a, np.float64)) for a in (parameters, stashes, [x] * (at.blocks + 2))))

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
        forward, backward = [], []
        for operators, reductions in (
            (embedding(at, tensor, micro_batch), 1),
            (block(at, tensor, micro_batch), 2),
            (head(at, tensor, micro_batch), 1),
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
        host = launches * (1.0 + self.framework.straggle * (tensor - 1))
        return max(kernels, host)

    def _all_reduce(self, pool: str, tensor: int, micro_batch: int) -> float:
        """Time to reduce the residual stream over a group [s]."""
        if tensor == 1:
            return 0.0
        found = self.cluster[pool]
        moved = float(micro_batch * self.size.sequence * self.size.hidden * _width(self.size.dtype))
        return found.network.all_reduce(moved, tensor, -(-tensor // found.per_node))


def block(size: TransformerSize, tensor: int, micro_batch: int) -> list[Operator]:
    """Operators of a block on one GPU of a tensor-parallel group, in the order of their launches.

    >>> sum(op.kind == "MatMul" for op in block(TransformerSize(64, 4, 1, 16), 2, 1))
    6
    """
    rows, h = micro_batch * size.sequence, size.hidden
    own, depth = micro_batch * size.heads // tensor, h // size.heads
    wide = size.expansion * h // tensor
    x, part, scores = (rows, h), (rows, h // tensor), (own, size.sequence, size.sequence)
    per_head = (own, size.sequence, depth)
    made: list[Operator] = []

    def add(name: str, kind: str, shape: tuple[int, ...], *operands: Tensor) -> Tensor:
        result = Tensor(shape, size.dtype)
        made.append(Operator(name, kind, operands, (result,)))
        return result

    def weight(name: str, *shape: int) -> Tensor:
        return Tensor(shape, size.dtype, constant=True, name=name)

    def product(name: str, value: Tensor, inner: int, outer: int) -> Tensor:
        return add(name, "MatMul", (rows, outer), value, weight(f"{name}.weight", inner, outer))

    stream = Tensor(x, size.dtype)
    normal = add("norm_attention", "LayerNormalization", x, stream, weight("norm_attention.weight", h))
    product("query_key_value", normal, h, 3 * h // tensor)
    query, key, value = (Tensor(shape, size.dtype) for shape in (per_head, per_head[:1] + per_head[:0:-1], per_head))
    score = add("scores", "MatMul", scores, query, key)
    score = add("mask", "Add", scores, score, Tensor(scores[1:], "bool", constant=True))
    score = add("softmax", "Softmax", scores, score)
    score = add("attention_dropout", "Mul", scores, score, Tensor(scores, "bool"))
    mixed = add("context", "MatMul", per_head, score, value)
    mixed = add("context_heads", "Transpose", part, mixed)
    out = product("projection", mixed, h // tensor, h)
    out = add("projection_dropout", "Mul", x, out, Tensor(x, "bool"))
    stream = add("residual_attention", "Add", x, out, stream)
    normal = add("norm_feed_forward", "LayerNormalization", x, stream, weight("norm_feed_forward.weight", h))
    inner = add("activation", "Gelu", (rows, wide), product("up", normal, h, wide))
    out = product("down", inner, wide, h)
    out = add("down_dropout", "Mul", x, out, Tensor(x, "bool"))
    add("residual_feed_forward", "Add", x, out, stream)
    return made


def embedding(size: TransformerSize, tensor: int, micro_batch: int) -> list[Operator]:
    """Operators of the embedding on one GPU of a tensor-parallel group."""
    x = Tensor((micro_batch * size.sequence, size.hidden), size.dtype)
    table = Tensor((-(-size.vocabulary // tensor), size.hidden), size.dtype, constant=True, name="table")
    tokens = Tensor((micro_batch * size.sequence,), "int64")
    return [
        Operator("embedding", "Gather", (table, tokens), (x,)),
        Operator("position", "Add", (x, x), (x,)),
        Operator("embedding_dropout", "Mul", (x, Tensor(x.shape, "bool")), (x,)),
    ]


def head(size: TransformerSize, tensor: int, micro_batch: int) -> list[Operator]:
    """Operators of the last normalisation, the logits and the loss on one GPU of a tensor-parallel group."""
    rows, columns = micro_batch * size.sequence, -(-size.vocabulary // tensor)
    x = Tensor((rows, size.hidden), size.dtype)
    scale = Tensor((size.hidden,), size.dtype, constant=True, name="norm.weight")
    table = Tensor((size.hidden, columns), size.dtype, constant=True, name="table")
    logits, wide = Tensor((rows, columns), size.dtype), Tensor((rows, columns), "float32")
    return [
        Operator("norm", "LayerNormalization", (x, scale), (x,)),
        Operator("logits", "MatMul", (x, table), (logits,)),
        Operator("logits_float32", "Cast", (logits,), (wide,)),
        Operator("loss", "LogSoftmax", (wide,), (wide,)),
    ]


def _width(dtype: str) -> float:
    return DTYPE_BYTES[dtype]
