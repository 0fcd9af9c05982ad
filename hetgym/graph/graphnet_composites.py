"""Functions of PyTorch that are several operators, written as PyTorch writes them in inference."""

from collections.abc import Callable
from typing import Any

from hetgym.graph.pt2_nodes import Node
from hetgym.graph.torch_layouts import sizes_of

Call = Callable[..., Any]  # Makes nodes: `call("linear", x, weight, bias)`


def normalize(call: Call, input: Node, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Node:
    """A tensor over its norm along an axis."""
    norm = call("linalg_vector_norm", input, p, dim, True)
    return call("div", input, call("expand_as", call("clamp_min", norm, eps), input))  # type: ignore[no-any-return]


def multi_head_attention(
    call: Call, query: Node, key: Node, value: Node, embed_dim: int, heads: int, weight: Node | None, bias: Node | None,
    bias_k: None, bias_v: None, add_zero_attn: bool, dropout_p: float, out_weight: Node, out_bias: Node | None,
    training: bool = False, key_padding_mask: Node | None = None, need_weights: bool = True,
    attn_mask: Node | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Node | None = None,
    k_proj_weight: Node | None = None, v_proj_weight: Node | None = None, static_k: None = None, static_v: None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> list[Node | None]:  # fmt: skip
    """Attention of several heads with its products; tensors are [tokens, batch, width].

    Notes:
        ``multi_head_attention_forward`` in torch/nn/functional.py.
    """
    tokens, batch, width = sizes_of(query.meta["val"])
    sources = sizes_of(key.meta["val"])[0]
    weights = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else [weight]
    parts = _projected(call, [query, key, value], weights, bias)
    rows = [call("transpose", call("view", part, n, batch * heads, width // heads), 0, 1)
            for part, n in zip(parts, (tokens, sources, sources), strict=True)]  # fmt: skip
    mask = attn_mask
    if key_padding_mask is not None and mask is None:
        wide = call("expand", call("view", key_padding_mask, batch, 1, 1, sources), -1, heads, -1, -1)
        mask = call("reshape", wide, batch * heads, 1, sources)
    if need_weights:
        found, scores = _attended(call, rows, mask, width // heads)
        joined = call("contiguous", call("transpose", found, 0, 1))
    else:
        scores = None
        split = [call("view", part, batch, heads, n, width // heads)
                 for part, n in zip(rows, (tokens, sources, sources), strict=True)]  # fmt: skip
        if mask is not None and len(mask.meta["val"].shape) == 3:
            mask = call("view", mask, batch, heads, -1, sources)
        found = call("scaled_dot_product_attention", *split, mask, 0.0, is_causal)
        joined = call("contiguous", call("permute", found, 2, 0, 1, 3))
    result = call("linear", call("view", joined, tokens * batch, width), out_weight, out_bias)
    if scores is not None:
        scores = call("view", scores, batch, heads, tokens, sources)
        scores = call("mean", scores, 1) if average_attn_weights else scores
    return [call("view", result, tokens, batch, width), scores]


def _projected(call: Call, inputs: list[Node], weights: list[Node | None], bias: Node | None) -> list[Node]:
    """The queries, keys and values; inputs that are one tensor take one product."""
    query, key, value = inputs
    if len(weights) == 1 and query is key is value:
        return _packed(call, query, weights[0], bias, 3)
    if len(weights) == 1 and key is value:
        width = sizes_of(query.meta["val"])[-1]
        first, rest = call("split", weights[0], [width, 2 * width])
        bias_q, bias_kv = (None, None) if bias is None else call("split", bias, [width, 2 * width])
        return [call("linear", query, first, bias_q), *_packed(call, key, rest, bias_kv, 2)]
    each = weights if len(weights) == 3 else call("chunk", weights[0], 3)
    biases = [None] * 3 if bias is None else call("chunk", bias, 3)
    return [call("linear", x, w, b) for x, w, b in zip(inputs, each, biases, strict=True)]


def _packed(call: Call, value: Node, weight: Node | None, bias: Node | None, count: int) -> list[Node]:
    """A product with several weights at once, whose results are then laid one behind the other."""
    made = call("linear", value, weight, bias)
    wide = call("unsqueeze", call("unflatten", made, -1, (count, sizes_of(value.meta["val"])[-1])), 0)
    apart = call("contiguous", call("squeeze", call("transpose", wide, 0, -2), -2))
    return [call("select", apart, 0, k) for k in range(count)]


def _attended(call: Call, rows: list[Node], mask: Node | None, size: int) -> tuple[Node, Node]:
    """Sums over values, and their weights, by separate products."""
    query, key, value = rows
    scaled = call("mul", query, size**-0.5)
    turned = call("transpose", key, -2, -1)
    scores = call("bmm", scaled, turned) if mask is None else call("baddbmm", mask, scaled, turned)
    scores = call("softmax", scores, -1)
    return call("bmm", scores, value), scores


def native_multi_head_attention(
    call: Call, query: Node, key: Node, value: Node, embed_dim: int, heads: int, weight: Node, bias: Node | None,
    out_weight: Node, out_bias: Node | None, mask: Node | None = None, need_weights: bool = False, *rest: Any,
) -> list[Node | None]:  # fmt: skip
    """Attention of one tensor to itself, [batch, tokens, width], as a fused kernel of inference has it."""
    if not (query is key is value) or need_weights:
        raise ValueError("attention to another tensor, or with its weights as a result")
    batch, tokens, width = sizes_of(query.meta["val"])
    made = call("view", call("linear", query, weight, bias), batch, tokens, 3, heads, width // heads)
    parts = call("unbind", call("permute", made, 2, 0, 3, 1, 4), 0)
    found = call("transpose", call("scaled_dot_product_attention", *parts), 1, 2)
    return [call("linear", call("reshape", found, batch, tokens, width), out_weight, out_bias), None]


def add_batch_dim(call: Call, value: Node, dim: int, level: int) -> Node:
    """An axis over which ``vmap`` runs, at the place that its level has from the right.

    So single elements under several such axes broadcast by themselves; masks of attention are made of these.
    """
    if len(value.meta["val"].shape) != 1 or not 1 <= level <= 8:
        raise ValueError("vmap over more than single elements")
    return call("view", value, -1, *[1] * (level - 1))  # type: ignore[no-any-return]


def remove_batch_dim(call: Call, value: Node, level: int, size: int, dim: int) -> Node:
    """The result with the axis of a level; behind the outermost level, all axes get their usual order."""
    shape = sizes_of(value.meta["val"])
    if dim != 0 or not 1 <= level <= 8 or len(shape) > 8:
        raise ValueError("vmap over more than single elements")
    wide = [1] * (level - len(shape)) + list(shape)
    wide[-level] = size
    made = call("expand", value, *wide)
    return call("permute", made, *reversed(range(len(wide)))) if level == 1 else made  # type: ignore[no-any-return]


COMPOSITES: dict[str, Callable[..., Any]] = {
    "torch.nn.functional.normalize": normalize,
    "torch.nn.functional.multi_head_attention_forward": multi_head_attention,
    "torch._native_multi_head_attention": native_multi_head_attention,
    "torch._functorch.predispatch._add_batch_dim": add_batch_dim, "torch._C._functorch._add_batch_dim": add_batch_dim,
    "torch._functorch.predispatch._remove_batch_dim": remove_batch_dim,
    "torch._C._functorch._remove_batch_dim": remove_batch_dim,
}  # fmt: skip
"""Function by its dotted name -> how it is written; the first argument makes nodes."""
